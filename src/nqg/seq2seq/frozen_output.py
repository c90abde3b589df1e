"""Fine-tuning on a CPU with a frozen output layer: its cross entropy, and dropout.

Automatic differentiation would convert the weights of the output layer, the largest of a small T5,
to bf16 in every step, keep the logits of all subwords, and compute their gradients one by one. Here
the converted weights are kept, and the gradient of the layer's input is computed with the loss. The
softmax is exact, over the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from transformers import MT5ForConditionalGeneration, T5ForConditionalGeneration

from nqg.seq2seq.architecture import forward
from nqg.seq2seq.batches import IGNORED, SubwordPairBatch
from nqg.seq2seq.cuda_graphs import CrossEntropy
from nqg.training.trainer import autocast, is_half

# A byte has so many values.
BYTE_VALUES = 256
# A bound of memory: rows of logits that are held in float32, so that they stay in a core's cache.
ROWS = 8


def has_frozen_output(model: Any) -> bool:
    """Whether a model's last layer is a matrix on a CPU that does not learn, as T5's may be.

    Other architectures may change logits after that layer.
    """
    if not isinstance(model, T5ForConditionalGeneration | MT5ForConditionalGeneration):
        return False
    layer = model.lm_head
    if not isinstance(layer, nn.Linear) or layer.bias is not None:
        return False
    return layer.weight.device.type == "cpu" and not layer.weight.requires_grad


@dataclass(frozen=True)
class FrozenOutputCrossEntropy(CrossEntropy):
    """`CrossEntropy` of a model that `has_frozen_output`."""

    @cached_property
    def weight(self) -> Tensor:
        """The weights of the output layer, as they are multiplied: (V, D)."""
        weight: Tensor = self.model.lm_head.weight.detach()
        if is_half(self.precision, weight.device):
            return weight.bfloat16()
        return weight

    @cached_property
    def tables(self) -> list[Tensor]:
        """The room for logits, once there is some."""
        return []

    def table(self, rows: int) -> Tensor:
        """Room for the logits of so many subwords, the same memory for every batch.

        Fresh memory of such a size would cost more time than the softmax.
        """
        if not self.tables or len(self.tables[0]) < rows:
            self.tables[:] = [self.weight.new_empty(rows, len(self.weight))]
        return self.tables[0]

    def loss(self, batch: SubwordPairBatch, subwords: Tensor) -> Tensor:
        """The share of a batch in the loss of its step, which has so many subwords."""
        device = batch.labels.device
        with autocast(self.precision, device), without_output_layer(self.model):
            output = forward(self.model, batch.sources, batch.mask, batch.inputs)
        # Padding has no loss, and need not pass the largest layer.
        is_label = batch.labels != IGNORED
        hidden = output.logits[is_label].to(self.weight.dtype)
        labels = batch.labels[is_label]
        table = self.table(len(labels))
        return label_losses(hidden, self.weight, labels, table).sum() / subwords


@contextmanager
def without_output_layer(model: Any) -> Iterator[None]:
    """A block in which the model's logits are what its output layer would read."""
    layer = model.lm_head
    model.lm_head = nn.Identity()
    try:
        yield
    finally:
        model.lm_head = layer


def label_losses(
    hidden: Tensor, weight: Tensor, labels: Tensor, table: Tensor | None = None
) -> Tensor:
    """The losses of `LabelLosses`, perhaps with room for the logits."""
    if table is None:
        table = weight.new_empty(len(labels), len(weight))
    losses: Tensor = LabelLosses.apply(hidden, weight, labels, table)  # type: ignore[no-untyped-call]
    return losses


class LabelLosses(torch.autograd.Function):
    """The negative logarithm of softmax(hidden · weightᵀ) at each row's label: (N,).

    `hidden` is (N, D), `weight` (V, D), which has no gradient, and `labels` (N,).
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        labels: Tensor,
        table: Tensor,
    ) -> Tensor:
        """The losses, and for later their gradients by `hidden`.

        `table` has room for the logits, at least (N, V), which are overwritten by their gradients.
        """
        logits = torch.mm(hidden, weight.t(), out=table[: len(hidden)])
        losses = []
        for rows, wanted in zip(torch.split(logits, ROWS), torch.split(labels, ROWS)):
            logs = torch.log_softmax(rows.float(), 1)
            numbers = torch.arange(len(wanted))
            losses.append(-logs[numbers, wanted])
            # The one is subtracted before rounding to bf16, because a label that is learned well
            # has a probability of nearly one.
            logs.exp_()
            logs[numbers, wanted] -= 1
            rows.copy_(logs)
        ctx.save_for_backward(logits @ weight)
        return torch.cat(losses)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """The gradient by `hidden`, given that by the losses."""
        (by_hidden,) = ctx.saved_tensors
        return (by_hidden * gradients[0][:, None]).to(by_hidden.dtype), None, None, None


class ByteDropout(nn.Dropout):
    """Dropout with a rate that is a multiple of 1/256: a random byte decides about each number.

    torch draws a number of its generator for each, where one draw gives eight bytes.

    >>> dropout = ByteDropout(0.1)
    >>> _ = torch.manual_seed(0)
    >>> found = dropout(torch.ones(100_000))
    >>> round(float((found == 0).float().mean()), 2), round(float(found.mean()), 2)
    (0.1, 1.0)
    """

    def forward(self, values: Tensor) -> Tensor:
        """Some of the values set to 0, and the others scaled so that the mean stays."""
        dropped = round(self.p * BYTE_VALUES)
        if not self.training or not 0 < dropped < BYTE_VALUES:
            return super().forward(values)
        draws = torch.empty(-(-values.numel() // 8), dtype=torch.int64)
        draws.random_(-(2**63), None)
        bytes_drawn = draws.view(torch.uint8)[: values.numel()].view(values.shape)
        scale = BYTE_VALUES / (BYTE_VALUES - dropped)
        return values * (bytes_drawn >= dropped).to(values.dtype).mul_(scale)


def use_byte_dropout(model: nn.Module) -> None:
    """Replace torch's dropout in a model that is trained on a CPU."""
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if type(module) is nn.Dropout:
                setattr(parent, name, ByteDropout(module.p))
