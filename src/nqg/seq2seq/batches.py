"""Examples as pieces on a device, and the plan which of them each step looks at: few shapes, little padding."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nqg.seq2seq.settings import FineTuningSettings
from nqg.training.trainer import precision

IGNORED = -100  # the label that torch's cross entropy leaves out
ROUND = 8  # widths are multiples of it: few shapes, and those that matrix units like
POOLS = 8  # pools in an epoch at least: with fewer, a step would see short or long examples alone, and always the same


@dataclass(frozen=True, slots=True)
class Pieces:
    """A source and a target as numbers of pieces."""

    source: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def size(self) -> tuple[int, int]:
        """What examples are sorted by: decoders take longer than encoders."""
        return len(self.target), len(self.source)


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples side by side: B of them, S and T the longest source and target, rounded up."""

    sources: Tensor  # (B, S)
    mask: Tensor  # (B, S)
    inputs: Tensor  # (B, T), what the decoder has written before each piece
    labels: Tensor  # (B, T)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of it, in the order of the constructor."""
        return self.sources, self.mask, self.inputs, self.labels


class Corpus:
    """All examples on a device, from which batches are cut without a copy from the host."""

    def __init__(self, examples: Sequence[Pieces], padding: int, start: int, device: torch.device) -> None:
        self.examples = examples
        written = [(start, *example.target[:-1]) for example in examples]
        self.sources = _table([example.source for example in examples], padding).to(device)
        self.inputs = _table(written, padding).to(device)
        self.labels = _table([example.target for example in examples], IGNORED).to(device)
        self.lengths = torch.tensor([len(example.source) for example in examples], device=device)
        self.places = torch.arange(self.sources.shape[1], device=device)

    def number(self, value: float) -> Tensor:
        """A number on the device, without waiting for what the device is doing."""
        return torch.full((), value, dtype=torch.float32, device=self.lengths.device)

    def rows(self, part: Sequence[int]) -> Tensor:
        """The numbers of examples on the device, without waiting; the copy is from memory that cannot move."""
        rows = torch.tensor(part)
        return (rows.pin_memory() if self.lengths.is_cuda else rows).to(self.lengths.device, non_blocking=True)

    def batch(self, part: Sequence[int]) -> Batch:
        """The examples of a part of a step, side by side."""
        rows = self.rows(part)
        source = _rounded(max(len(self.examples[number].source) for number in part))
        target = _rounded(max(len(self.examples[number].target) for number in part))
        return Batch(
            sources=self.sources[rows, :source].long(),
            mask=(self.places[:source] < self.lengths[rows, None]).long(),
            inputs=self.inputs[rows, :target].long(),
            labels=self.labels[rows, :target].long(),
        )


def _rounded(length: int) -> int:
    return -(-length // ROUND) * ROUND


def _table(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    table = torch.full((len(rows), _rounded(max(map(len, rows)))), value, dtype=torch.int32)
    for number, row in enumerate(rows):
        table[number, : len(row)] = torch.tensor(row, dtype=torch.int32)
    return table


def planned_steps(sizes: Sequence[tuple[int, int]], settings: FineTuningSettings) -> list[list[int]]:
    """The examples of every step, which the seed alone decides.

    Every epoch comes in a new order. As many examples as fill `pool` batches are sorted by size and cut into batches,
    which come in any order. A pool is at most an eighth of an epoch, so small data stay as they come.
    """
    rng = random.Random(settings.seed)
    count = len(sizes)
    size = min(settings.batch_size, count)
    pool = size * max(1, min(settings.pool, count // (POOLS * size)))
    stream = _epochs(count, rng)
    steps: list[list[int]] = []
    while len(steps) < settings.steps:
        drawn = sorted((next(stream) for _ in range(pool)), key=lambda number: sizes[number])
        batches = [drawn[start : start + size] for start in range(0, pool, size)]
        rng.shuffle(batches)
        steps += batches
    return steps[: settings.steps]


def _epochs(count: int, rng: random.Random) -> Iterator[int]:
    while True:
        yield from rng.sample(range(count), count)


def parts(step: Iterable[int], sizes: Sequence[tuple[int, int]], count: int) -> list[list[int]]:
    """A step's examples, sorted by size and cut into `count` parts as equal as can be, some perhaps empty.

    >>> parts([0, 1, 2], [(5, 1), (1, 1), (3, 1)], 2)
    [[1], [2, 0]]
    """
    ordered = sorted(step, key=lambda number: sizes[number])
    ends = [len(ordered) * number // count for number in range(count + 1)]
    return [ordered[start:end] for start, end in pairwise(ends)]


@dataclass(frozen=True)
class Objective:
    """Cross entropy of a model in nats a piece, over all pieces of a step."""

    model: Any
    precision: str
    label_smoothing: float

    @contextmanager
    def working(self) -> Iterator[None]:
        """A block in which `backward` may be called."""
        yield

    def backward(self, batch: Batch, pieces: Tensor) -> Tensor:
        """The share of a batch in the loss of its step, its gradient added to that of the weights."""
        with precision(self.precision, batch.labels.device):
            logits = self.model(
                input_ids=batch.sources, attention_mask=batch.mask, decoder_input_ids=batch.inputs, use_cache=False
            ).logits
            sums = functional.cross_entropy(
                logits.flatten(0, 1),
                batch.labels.flatten(),
                ignore_index=IGNORED,
                label_smoothing=self.label_smoothing,
                reduction="sum",
            )
        loss = sums / pieces
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()


@dataclass(frozen=True)
class Recording:
    """The kernels of one shape, and the tensors that they read and write."""

    graph: Any
    batch: Batch
    pieces: Tensor
    loss: Tensor

    def replay(self, batch: Batch, pieces: Tensor) -> Tensor:
        """What `Objective.backward` does, launched as one."""
        for kept, new in zip(self.batch.tensors, batch.tensors, strict=True):
            kept.copy_(new)
        self.pieces.copy_(pieces)
        self.graph.replay()
        return self.loss.clone()


class Recorder:
    """An objective whose kernels are recorded; all of it happens on a stream of its own, as recording demands."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.pool = torch.cuda.graph_pool_handle()
        self.recordings: dict[tuple[int, ...], Recording | None] = {}

    def backward(self, batch: Batch, pieces: Tensor) -> Tensor:
        """The share of a batch in the loss of its step, its gradient added to that of the weights."""
        shape = (*batch.sources.shape, batch.labels.shape[1])
        if shape not in self.recordings:
            self.recordings[shape] = None
            return self.objective.backward(batch, pieces)
        recording = self.recordings[shape] or self._recorded(batch, pieces)
        self.recordings[shape] = recording
        return recording.replay(batch, pieces)

    def _recorded(self, batch: Batch, pieces: Tensor) -> Recording:
        """Recording runs nothing, so gradients stay as they are."""
        graph, kept = torch.cuda.CUDAGraph(), Batch(*(tensor.clone() for tensor in batch.tensors))
        count = pieces.clone()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            loss = self.objective.backward(kept, count)
        return Recording(graph, kept, count, loss)

    @contextmanager
    def working(self) -> Iterator[None]:
        """A block that runs on the recorder's stream, after what came before it and before what comes after it."""
        outside = torch.cuda.current_stream()
        self.stream.wait_stream(outside)
        with torch.cuda.stream(self.stream):
            yield
        outside.wait_stream(self.stream)
