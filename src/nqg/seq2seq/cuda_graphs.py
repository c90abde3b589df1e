"""Gradients on a GPU, which takes as long for a small model as its kernels are many.

A copy of the model in bf16 computes the gradients, and its kernels for a shape of batches are recorded (CUDA graphs)
when the shape comes a second time, and then launched as one. All recordings share the memory of the largest, which is
recorded first; a shape for which memory is short is not recorded. The optimizer's step is not recorded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from nqg.seq2seq.batches import BatchShape, SubwordPairBatch
from nqg.training.trainer import is_half

MIN_SHAPE_COUNT = 3  # times that a shape must come for its kernels to be recorded
MakeLoss = Callable[[nn.Module], Callable[[SubwordPairBatch, Tensor], Tensor]]
"""Makes the loss of a model: of a batch, and of the number of subwords in its step."""


class CopiedModel:
    """The loss of a model, by a copy in bf16 whose gradients become those of the weights, in float32.

    Autocast would convert each of hundreds of weights, and each gradient, by a kernel of its own at every use.
    """

    def __init__(self, model: nn.Module, precision: str, make_loss: MakeLoss) -> None:
        device = next(model.parameters()).device
        copied = copy.deepcopy(model).to(
            torch.bfloat16 if is_half(precision, device) else torch.float32
        )
        self.loss = make_loss(copied)
        self.copies: list[Tensor] = []
        self.weights: list[Tensor] = []
        for own, weight in zip(copied.parameters(), model.parameters(), strict=True):
            if weight.requires_grad:
                self.copies.append(own)
                self.weights.append(weight)
        self.gradients = [torch.zeros_like(weight) for weight in self.weights]

    def backward(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """The share of a batch in the loss of its step, its gradient added to that of the weights."""
        earlier = [weight.grad.clone() for weight in self.weights if weight.grad is not None]
        loss = self.compute(batch, subwords)
        # Earlier parts of the step have left a gradient with all weights or with none.
        for gradient, more in zip(self.gradients, earlier, strict=False):
            gradient += more
        for weight, gradient in zip(self.weights, self.gradients, strict=True):
            weight.grad = gradient
        return loss

    def compute(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """The loss of a batch with the weights as they are, its gradients in the place of those that there were."""
        with torch.no_grad():
            for own, weight in zip(self.copies, self.weights, strict=True):
                own.copy_(weight)
        with sdpa_kernel(
            [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        ):  # which know gradients of position biases
            loss = self.loss(batch, subwords)
            found = torch.autograd.grad(loss, self.copies, materialize_grads=True)
        for gradient, computed in zip(self.gradients, found, strict=True):
            gradient.copy_(computed)
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
    that the others find room in its memory: graphs keep what they took, and rooms of all sizes would add up. No more
    than `memory` bytes are kept.
    """

    def __init__(
        self,
        model: nn.Module,
        precision: str,
        make_loss: MakeLoss,
        shapes: Mapping[BatchShape, int],
        memory: float,
    ) -> None:
        super().__init__(model, precision, make_loss)
        self.memory = memory
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[BatchShape, CudaGraph] = {}
        self.unrecorded = {
            shape for shape, count in shapes.items() if count >= MIN_SHAPE_COUNT
        }  # and worth it, still
        self.seen: set[BatchShape] = set()

    def compute(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """As `CopiedModel` does the first time that a shape comes, recorded the second, launched as one then."""
        shape = batch.shape
        if shape in self.seen and shape in self.unrecorded:
            if not self.graphs:
                self.record(
                    max(self.unrecorded, key=lambda each: (each.size, each)), batch.labels.device
                )
            if shape in self.unrecorded:
                self.record(shape, batch.labels.device)
        self.seen.add(shape)
        recorded = self.graphs.get(shape)
        if recorded is None:
            return super().compute(batch, subwords)
        for kept, new in zip(recorded.batch, batch, strict=True):
            kept.copy_(new)
        recorded.subwords.copy_(subwords)
        recorded.graph.replay()
        return recorded.loss.clone()

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
            if torch.cuda.memory_reserved(device) <= self.memory:
                self.graphs[shape] = CudaGraph(graph, batch, count, loss)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block that runs on the stream of the graphs, after what came before it and before what comes after it."""
        outside = torch.cuda.current_stream()
        self.stream.wait_stream(outside)
        with torch.cuda.stream(self.stream):
            yield
        outside.wait_stream(self.stream)
