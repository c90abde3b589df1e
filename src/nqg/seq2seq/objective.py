"""The objective of fine-tuning: cross entropy over the subwords of targets."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nqg.seq2seq.batches import BatchShape, SubwordCorpus, planned_steps, split_by_size
from nqg.seq2seq.cuda_graphs import CopiedModel, CrossEntropy, CudaGraphs
from nqg.seq2seq.settings import FineTuningSettings
from nqg.training.processes import Processes


@dataclass(frozen=True, slots=True)
class StepShare:
    """This process's chunks of a step, and the number of target subwords in the whole step."""

    chunks: Sequence[Sequence[int]]
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
        """How gradients are computed: on a GPU by a copy of the model, unless memory is wanted more
        than time.
        """
        settings = self.settings
        if (
            self.corpus.device.type != "cuda"
            or settings.gradient_checkpointing
            or self.is_sharded
        ):
            return CrossEntropy(self.model, settings.precision)
        if not settings.record_kernels:
            return CopiedModel(self.model, settings.precision)
        memory = settings.recording_memory * 1e9
        return CudaGraphs(self.model, settings.precision, self.shapes, memory)

    @cached_property
    def shapes(self) -> Counter[BatchShape]:
        """The shapes of this process's chunks of all steps, and how often they come."""
        shapes = Counter[BatchShape]()
        for batch in self.batches():
            shapes.update(map(self.corpus.shape, self.collate(batch).chunks))
        return shapes

    @cached_property
    def sizes(self) -> list[tuple[int, int]]:
        return [example.size for example in self.corpus.examples]

    def seed(self, step: int) -> str:
        return f"seq2seq {self.settings.seed} {step} {self.processes.rank}"

    def batches(self) -> Iterator[Sequence[int]]:
        return iter(planned_steps(self.sizes, self.settings))

    def collate(self, batch: Sequence[int]) -> StepShare:
        """Numbers only: tensors must be made on the stream that reads them."""
        count = self.processes.count
        chunks = split_by_size(batch, self.sizes, self.settings.accumulate * count)
        share = list(filter(None, chunks[self.processes.rank :: count]))
        return StepShare(share, sum(self.sizes[number][1] for number in batch))

    def backward(self, share: StepShare) -> Tensor:
        device = self.corpus.device
        # Sharded gradients become means over processes.
        processes = self.processes.count if self.is_sharded else 1
        subwords = torch.full(
            (), share.subwords / processes, dtype=torch.float32, device=device
        )
        losses = [
            self.loss.backward(self.corpus.collate(chunk), subwords)
            for chunk in share.chunks
        ]
        return torch.stack([torch.zeros((), device=device), *losses]).sum() / processes

    @contextmanager
    def running(self) -> Iterator[None]:
        with warnings.catch_warnings(), ExitStack() as stack:
            if isinstance(self.loss, CudaGraphs):
                stack.enter_context(self.loss.running())
            # T5's blocks pass on position biases, which are views; nobody writes into them.
            warnings.filterwarnings(
                "ignore", message="FSDP2-wrapped module .* returned a view tensor"
            )
            yield
