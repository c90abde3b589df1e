"""The loss of a part of a step and its gradient: computed anew, or on a GPU replayed from a recording of its kernels.

A small model keeps a GPU busy for less time than Python takes to launch its kernels. Batches come in few shapes; the
kernels of a shape are recorded as a CUDA graph when it comes for the second time, and then launched as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nqg.model.training import precision
from nqg.seq2seq.batches import IGNORED, Batch


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
