"""What fine-tuning minimises: cross entropy over the subwords of targets."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from nqg.seq2seq.batches import (
    IGNORED,
    BatchShape,
    SubwordCorpus,
    SubwordPairBatch,
    planned_steps,
    split_by_size,
)
from nqg.seq2seq.cuda_graphs import CopiedModel, CudaGraphs
from nqg.seq2seq.settings import FineTuningSettings
from nqg.training.processes import Processes
from nqg.training.trainer import autocast


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
                input_ids=batch.sources,
                attention_mask=batch.mask,
                decoder_input_ids=batch.inputs,
                use_cache=False,
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
        if self.corpus.device.type != "cuda" or settings.gradient_checkpointing or self.is_sharded:
            return CrossEntropy(self.model, settings.precision, settings.label_smoothing)
        if not settings.record_kernels:
            return CopiedModel(self.model, settings.precision, self.loss_of)
        return CudaGraphs(
            self.model,
            settings.precision,
            self.loss_of,
            self.shapes,
            settings.recording_memory * 1e9,
        )

    def loss_of(self, model: nn.Module) -> Callable[[SubwordPairBatch, Tensor], Tensor]:
        """The loss of a copy of the model, which has its precision already."""
        return CrossEntropy(model, "float32", self.settings.label_smoothing).loss

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
        return StepShare(
            [part for part in parts if part], sum(self.sizes[number][1] for number in batch)
        )

    def backward(self, share: StepShare) -> Tensor:
        device = self.corpus.device
        processes = (
            self.processes.count if self.is_sharded else 1
        )  # sharded gradients become means over processes
        subwords = torch.full((), share.subwords / processes, dtype=torch.float32, device=device)
        losses = [self.loss.backward(self.corpus.collate(part), subwords) for part in share.parts]
        return torch.stack([torch.zeros((), device=device), *losses]).sum() / processes

    @contextmanager
    def running(self) -> Iterator[None]:
        stream: AbstractContextManager[None] = nullcontext()
        if isinstance(self.loss, CudaGraphs):
            stream = self.loss.running()
        with warnings.catch_warnings(), stream:
            # T5's blocks pass on position biases, which are views; nobody writes into them.
            warnings.filterwarnings(
                "ignore", message="FSDP2-wrapped module .* returned a view tensor"
            )
            yield
