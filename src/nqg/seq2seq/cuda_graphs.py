"""The cross entropy of targets and its gradients; on a GPU by a copy of the model in bf16 and by
CUDA graphs.

On a GPU a step of a small model takes as long as its kernels are many. So the kernels of a shape of
batches are recorded as a CUDA graph when the shape comes a second time, and later launched as one.
That made steps 4.6 to 7.7 times as fast (`benchmarks/seq2seq.py`). The optimizer's step is not
recorded.

Memory: a graph reads and writes fixed addresses. Its inputs, its loss and the gradients are tensors
that live as long as the graph; a batch is copied into the inputs before a replay, and the loss is
cloned after it. All graphs take what else they need from one pool, which never shrinks. Graphs run
one after the other, so one may overwrite what another left in the pool. The graph of the largest
frequent shape is recorded first: the others then fit into its memory, where blocks of growing sizes
would add up. A shape with which the process would hold more than `memory` bytes has no graph.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from nqg.seq2seq.architecture import forward
from nqg.seq2seq.batches import IGNORED, BatchShape, SubwordPairBatch
from nqg.training.trainer import autocast, is_half

# A bound of work: the kernels of a shape that comes less often are not recorded.
MIN_SHAPE_COUNT = 3
# The kernels for attention that have gradients of position biases.
ATTENTION = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


@dataclass(frozen=True)
class CrossEntropy:
    """Cross entropy of a model in nats a subword, over all subwords of a step."""

    model: Any
    precision: str

    def loss(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """The share of a batch in the loss of its step, which has so many subwords."""
        with autocast(self.precision, batch.labels.device):
            output = forward(self.model, batch.sources, batch.mask, batch.inputs)
            losses = functional.cross_entropy(
                output.logits.flatten(0, 1),
                batch.labels.flatten(),
                ignore_index=IGNORED,
                reduction="none",
            )
        return (losses.float().sum() + getattr(output, "penalty", 0.0)) / subwords

    def backward(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """That loss, its gradient added to that of the weights."""
        loss = self.loss(batch, subwords)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()


class CopiedModel:
    """Cross entropy by a copy of a model in bf16, whose gradients become those of the weights, in
    float32.

    Autocast would convert each of hundreds of weights, and each gradient, by a kernel of its own at
    every use.
    """

    def __init__(self, model: nn.Module, precision: str) -> None:
        device = next(model.parameters()).device
        dtype = torch.bfloat16 if is_half(precision, device) else torch.float32
        copied = copy.deepcopy(model).to(dtype)
        self.loss = CrossEntropy(copied, "float32").loss
        self.copies: list[Tensor] = []
        self.weights: list[Tensor] = []
        for copied_weight, weight in zip(copied.parameters(), model.parameters()):
            if weight.requires_grad:
                self.copies.append(copied_weight)
                self.weights.append(weight)
        self.gradients = list(map(torch.zeros_like, self.weights))

    def backward(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """A batch's share in the loss of its step, its gradient added to that of the weights."""
        earlier = [
            weight.grad.clone() for weight in self.weights if weight.grad is not None
        ]
        loss = self.compute(batch, subwords)
        # Earlier chunks of the step have left a gradient with all weights or with none.
        for gradient, more in zip(self.gradients, earlier):
            gradient += more
        for weight, gradient in zip(self.weights, self.gradients):
            weight.grad = gradient
        return loss

    def compute(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """The loss of a batch with the weights as they are; its gradients replace those of the
        batch before.
        """
        with torch.no_grad():
            for copied, weight in zip(self.copies, self.weights):
                copied.copy_(weight)
        with sdpa_kernel(ATTENTION):
            loss = self.loss(batch, subwords)
            computed = torch.autograd.grad(loss, self.copies, materialize_grads=True)
        for gradient, copied in zip(self.gradients, computed):
            gradient.copy_(copied)
        return loss.detach()


@dataclass(frozen=True)
class CudaGraph:
    """The recorded kernels of one shape, and the tensors that they read and write."""

    graph: Any
    batch: SubwordPairBatch
    subwords: Tensor
    loss: Tensor


class CudaGraphs(CopiedModel):
    """The same by recorded kernels, on a stream of its own, as recording demands.

    `shapes` says how often each shape will come; `memory` is in bytes. `unrecorded` are the
    frequent shapes that have no graph yet and may get one.
    """

    def __init__(
        self,
        model: nn.Module,
        precision: str,
        shapes: Mapping[BatchShape, int],
        memory: float,
    ) -> None:
        super().__init__(model, precision)
        self.memory = memory
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[BatchShape, CudaGraph] = {}
        self.unrecorded = {
            shape for shape, count in shapes.items() if count >= MIN_SHAPE_COUNT
        }
        self.seen: set[BatchShape] = set()

    def compute(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """As `CopiedModel` the first time that a shape comes; recorded the second time, and then
        replayed.
        """
        shape = batch.shape
        if shape in self.seen & self.unrecorded:
            if not self.graphs:
                self.record(max(self.unrecorded, key=lambda shape: (shape.size, shape)))
            if shape in self.unrecorded:
                self.record(shape)
        self.seen.add(shape)
        recorded = self.graphs.get(shape)
        if recorded is None:
            return super().compute(batch, subwords)
        for fixed, new in zip(recorded.batch, batch):
            fixed.copy_(new)
        recorded.subwords.copy_(subwords)
        recorded.graph.replay()
        return recorded.loss.clone()

    def record(self, shape: BatchShape) -> None:
        """Record the kernels of a shape, unless they take too much memory; recording computes
        nothing.
        """
        self.unrecorded.discard(shape)
        # Steps that were not recorded have left memory over.
        torch.cuda.empty_cache()
        device = self.gradients[0].device
        graph, subwords = torch.cuda.CUDAGraph(), torch.ones((), device=device)
        batch = SubwordPairBatch.empty(shape, device)
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                loss = super().compute(batch, subwords)
        except torch.OutOfMemoryError:
            self.unrecorded.clear()
        else:
            if torch.cuda.memory_reserved(device) <= self.memory:
                self.graphs[shape] = CudaGraph(graph, batch, subwords, loss)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block that runs on the stream of the graphs, after what came before it and before what
        comes after.
        """
        outside = torch.cuda.current_stream()
        self.stream.wait_stream(outside)
        with torch.cuda.stream(self.stream):
            yield
        outside.wait_stream(self.stream)
