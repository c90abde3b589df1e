"""What fine-tuning minimises: cross entropy, over batches of few shapes and with little padding.

A small model on a GPU takes as long as its kernels are many. So a copy of it in bf16 computes the gradients, and its
kernels for a shape are recorded (CUDA graphs) when the shape comes a second time, and then launched as one. All
recordings share the memory of the largest, which is recorded first; a shape for which memory is short is not recorded.
"""

from __future__ import annotations

import copy
import random
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from nqg.seq2seq.settings import FineTuningSettings
from nqg.training.processes import Processes
from nqg.training.trainer import autocast, is_half

IGNORED = -100  # the label that torch's cross entropy leaves out
ROUND = 8  # widths are multiples of it: few shapes, and those that matrix units like
WIDTHS = 8  # between a power of 2 and the next one at most: longer examples come in coarser shapes
FREQUENT = 3  # times that a shape must come for its kernels to be recorded
POOLS = 8  # pools in an epoch at least: with fewer, a step would see short or long examples alone, and always the same


@dataclass(frozen=True, slots=True)
class SubwordPair:
    """A source and a target as ids of subwords."""

    source: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def size(self) -> tuple[int, int]:
        """What examples are sorted by: the time that they take, of which a subword of a target takes twice as much."""
        return 2 * len(self.target) + len(self.source), len(self.target)


class BatchShape(NamedTuple):
    """Rows, and the widths of targets and sources."""

    rows: int
    target: int
    source: int

    @property
    def size(self) -> int:
        """What its memory grows with: the logits of targets take most of it, by far."""
        return self.rows * (8 * self.target + self.source)


class SubwordPairBatch(NamedTuple):
    """Examples side by side: B of them, S and T the longest source and target, rounded up."""

    sources: Tensor  # (B, S)
    mask: Tensor  # (B, S)
    inputs: Tensor  # (B, T), what the decoder has written before each subword
    labels: Tensor  # (B, T)

    @property
    def shape(self) -> BatchShape:
        (rows, target), source = self.labels.shape, self.sources.shape[1]
        return BatchShape(rows, target, source)

    @classmethod
    def empty(cls, shape: BatchShape, device: torch.device) -> SubwordPairBatch:
        sources, targets = (
            torch.zeros((shape.rows, width), dtype=torch.long, device=device) for width in (shape.source, shape.target)
        )
        return cls(sources, torch.ones_like(sources), targets, targets.clone())


class SubwordCorpus:
    """All examples on a device, from which batches are cut without a copy from the host."""

    def __init__(self, examples: Sequence[SubwordPair], padding: int, start: int, device: torch.device) -> None:
        self.examples, self.device = examples, device
        self.sources = padded([example.source for example in examples], padding).to(device)
        self.inputs = padded([(start, *example.target[:-1]) for example in examples], padding).to(device)
        self.labels = padded([example.target for example in examples], IGNORED).to(device)
        self.lengths = torch.tensor([len(example.source) for example in examples], device=device)
        self.positions = torch.arange(self.sources.shape[1], device=device)

    def shape(self, part: Sequence[int]) -> BatchShape:
        source = max(len(self.examples[number].source) for number in part)
        target = max(len(self.examples[number].target) for number in part)
        return BatchShape(len(part), rounded(target), rounded(source))

    def collate(self, part: Sequence[int]) -> SubwordPairBatch:
        """Some examples side by side; nothing waits for what a GPU is doing."""
        numbers = torch.tensor(part)
        numbers = numbers.pin_memory() if self.device.type == "cuda" else numbers
        rows = numbers.to(self.device, non_blocking=True)
        _, target, source = self.shape(part)
        return SubwordPairBatch(
            sources=self.sources[rows, :source].long(),
            mask=(self.positions[:source] < self.lengths[rows, None]).long(),
            inputs=self.inputs[rows, :target].long(),
            labels=self.labels[rows, :target].long(),
        )


def rounded(length: int) -> int:
    """The width of a batch whose longest row has this length.

    >>> [rounded(length) for length in (1, 24, 60, 65, 130, 500)]
    [8, 24, 64, 72, 144, 512]
    """
    step = max(ROUND, (1 << (length - 1).bit_length()) // (2 * WIDTHS))
    return -(-length // step) * step


def padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Rows as a table, filled up with `value`: (rows, longest)."""
    table = torch.full((len(rows), rounded(max(map(len, rows)))), value, dtype=torch.int32)
    for number, row in enumerate(rows):
        table[number, : len(row)] = torch.tensor(row, dtype=torch.int32)
    return table


def planned_steps(sizes: Sequence[tuple[int, int]], settings: FineTuningSettings) -> list[list[int]]:
    """The examples of every step, which the seed alone decides.

    Every epoch comes in a new order. As many examples as fill `pool` batches are sorted by size and cut into batches,
    which come in any order. A pool is at most an eighth of an epoch, so small data stay as they come.
    """
    rng, count = random.Random(settings.seed), len(sizes)
    size = min(settings.batch_size, count)
    pool = size * max(1, min(settings.pool, count // (POOLS * size)))
    queue: list[int] = []
    steps: list[list[int]] = []
    while len(steps) < settings.steps:
        while len(queue) < pool:
            queue += rng.sample(range(count), count)
        drawn = sorted(queue[:pool], key=lambda number: sizes[number])
        del queue[:pool]
        batches = [drawn[start : start + size] for start in range(0, pool, size)]
        rng.shuffle(batches)
        steps += batches
    return steps[: settings.steps]


def split_by_size(step: Iterable[int], sizes: Sequence[tuple[int, int]], count: int) -> list[list[int]]:
    """A step's examples, sorted by size and cut into `count` parts as equal as can be, some perhaps empty.

    >>> split_by_size([0, 1, 2], [(5, 1), (1, 1), (3, 1)], 2)
    [[1], [2, 0]]
    """
    ordered = sorted(step, key=lambda number: sizes[number])
    ends = [len(ordered) * number // count for number in range(count + 1)]
    return [ordered[start:end] for start, end in pairwise(ends)]


@dataclass(frozen=True)
class CrossEntropy:
    """Cross entropy of a model in nats a subword, over all subwords of a step."""

    model: Any
    precision: str
    label_smoothing: float

    def loss(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """The share of a batch in the loss of its step."""
        with autocast(self.precision, batch.labels.device):
            found = self.model(
                input_ids=batch.sources, attention_mask=batch.mask, decoder_input_ids=batch.inputs, use_cache=False
            )
            losses = functional.cross_entropy(
                found.logits.flatten(0, 1),
                batch.labels.flatten(),
                ignore_index=IGNORED,
                label_smoothing=self.label_smoothing,
                reduction="none",
            )
        return (losses.float().sum() + getattr(found, "penalty", 0.0)) / subwords

    def backward(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """That loss, its gradient added to that of the weights."""
        loss = self.loss(batch, subwords)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()


class CopiedModel:
    """Cross entropy on a GPU, by a copy of the model in bf16 whose gradients become those of the weights, in float32.

    Autocast would convert each of hundreds of weights, and each gradient, by a kernel of its own.
    """

    def __init__(self, model: nn.Module, settings: FineTuningSettings) -> None:
        device = next(model.parameters()).device
        own = copy.deepcopy(model).to(torch.bfloat16 if is_half(settings.precision, device) else torch.float32)
        self.cross_entropy = CrossEntropy(own, "float32", settings.label_smoothing)
        pairs = zip(own.parameters(), model.parameters(), strict=True)
        learning = [(each, weight) for each, weight in pairs if weight.requires_grad]
        self.copies: list[Tensor] = [each for each, _ in learning]
        self.weights: list[Tensor] = [weight for _, weight in learning]
        self.gradients = [torch.zeros_like(weight) for weight in self.weights]

    def backward(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """What `CrossEntropy.backward` does."""
        earlier = [weight.grad.clone() for weight in self.weights if weight.grad is not None]
        if not earlier:  # this is the first part of a step, and the last step has changed the weights
            with torch.no_grad():
                torch._foreach_copy_(self.copies, self.weights)
        loss = self.compute(batch, subwords)
        if earlier:
            torch._foreach_add_(self.gradients, earlier)
        for weight, gradient in zip(self.weights, self.gradients, strict=True):
            weight.grad = gradient
        return loss

    def compute(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """The loss of a batch, its gradients in the place of those that there were."""
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):  # which know gradients of position biases
            loss = self.cross_entropy.loss(batch, subwords)
            found = torch.autograd.grad(loss, self.copies, materialize_grads=True)
        torch._foreach_copy_(self.gradients, found)
        return loss.detach()


@dataclass(frozen=True)
class CudaGraph:
    """The recorded kernels of one shape, and the tensors that they read and write."""

    graph: Any
    batch: SubwordPairBatch
    subwords: Tensor
    loss: Tensor


class CudaGraphs(CopiedModel):
    """The same by recorded kernels; all of it happens on a stream of its own, as recording demands.

    `shapes` says how often each shape will come. The graph of the largest frequent one is recorded before any other, so
    that the others find room in its memory: graphs keep what they took, and rooms of all sizes would add up.
    """

    def __init__(self, model: nn.Module, settings: FineTuningSettings, shapes: Mapping[BatchShape, int]) -> None:
        super().__init__(model, settings)
        self.limit = int(settings.recording_memory * 1e9)
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[BatchShape, CudaGraph] = {}
        self.unrecorded = {shape for shape, count in shapes.items() if count >= FREQUENT}  # and worth it, still
        self.seen: set[BatchShape] = set()

    def compute(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """As `CopiedModel` does the first time that a shape comes, recorded the second, launched as one then."""
        shape = batch.shape
        if shape in self.seen and shape in self.unrecorded:
            largest = max(self.unrecorded, key=lambda each: (each.size, each))
            for wanted in dict.fromkeys((shape,) if self.graphs else (largest, shape)):
                self.record(wanted, batch.labels.device)
        self.seen.add(shape)
        if (found := self.graphs.get(shape)) is None:
            return super().compute(batch, subwords)
        for kept, new in zip(found.batch, batch, strict=True):
            kept.copy_(new)
        found.subwords.copy_(subwords)
        found.graph.replay()
        return found.loss.clone()

    def record(self, shape: BatchShape, device: torch.device) -> None:
        """Record the kernels of a shape, unless they take too much memory; running nothing, it leaves gradients be."""
        self.unrecorded.discard(shape)
        torch.cuda.empty_cache()  # what steps that were not recorded have left over
        graph, count = torch.cuda.CUDAGraph(), torch.ones((), device=device)
        batch = SubwordPairBatch.empty(shape, device)
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                loss = super().compute(batch, count)
        except torch.OutOfMemoryError:
            self.unrecorded.clear()
        else:
            if torch.cuda.memory_reserved(device) <= self.limit:
                self.graphs[shape] = CudaGraph(graph, batch, count, loss)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block that runs on the stream of the graphs, after what came before it and before what comes after it."""
        outside = torch.cuda.current_stream()
        self.stream.wait_stream(outside)
        with torch.cuda.stream(self.stream):
            yield
        outside.wait_stream(self.stream)


@dataclass(frozen=True, slots=True)
class StepShare:
    """This process's parts of a step, and the number of target subwords in the whole step."""

    parts: Sequence[Sequence[int]]
    subwords: int


@dataclass(frozen=True)
class Seq2seqObjective:
    """The `Objective` of `nqg.training.trainer` for fine-tuning."""

    model: Any
    corpus: SubwordCorpus
    settings: FineTuningSettings
    processes: Processes
    is_sharded: bool

    @cached_property
    def loss(self) -> CrossEntropy | CopiedModel:
        """How gradients are computed: on a GPU by a copy of the model, unless memory is wanted more than time."""
        settings = self.settings
        if self.corpus.device.type == "cuda" and not settings.gradient_checkpointing and not self.is_sharded:
            is_recorded = settings.record_kernels
            return CudaGraphs(self.model, settings, self.shapes) if is_recorded else CopiedModel(self.model, settings)
        return CrossEntropy(self.model, settings.precision, settings.label_smoothing)

    @cached_property
    def shapes(self) -> Counter[BatchShape]:
        """The shapes of this process's parts of all steps, and how often they come."""
        parts = (part for batch in self.batches() for part in self.collate(batch).parts)
        return Counter(self.corpus.shape(part) for part in parts)

    @cached_property
    def sizes(self) -> list[tuple[int, int]]:
        return [example.size for example in self.corpus.examples]

    def seed(self, step: int) -> str:
        return f"seq2seq {self.settings.seed} {step} {self.processes.rank}"

    def batches(self) -> Iterator[Sequence[int]]:
        return iter(planned_steps(self.sizes, self.settings))

    def collate(self, batch: Sequence[int]) -> StepShare:
        """Numbers only: tensors must be made on the stream that reads them."""
        count, rank = self.processes.count, self.processes.rank
        parts = split_by_size(batch, self.sizes, self.settings.accumulate * count)[rank::count]
        return StepShare([part for part in parts if part], sum(self.sizes[number][1] for number in batch))

    def backward(self, share: StepShare) -> Tensor:
        device = self.corpus.device
        processes = self.processes.count if self.is_sharded else 1  # sharded gradients become means over processes
        subwords = torch.full((), share.subwords / processes, dtype=torch.float32, device=device)
        losses = [self.loss.backward(self.corpus.collate(part), subwords) for part in share.parts]
        return torch.stack([torch.zeros((), device=device), *losses]).sum() / processes

    @contextmanager
    def running(self) -> Iterator[None]:
        stream: AbstractContextManager[None] = (
            self.loss.running() if isinstance(self.loss, CudaGraphs) else nullcontext()
        )
        with warnings.catch_warnings(), stream:
            # T5's blocks pass on position biases, which are views; nobody writes into them.
            warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
            yield
