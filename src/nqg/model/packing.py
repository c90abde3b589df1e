"""BERT on CPUs without padding: the sentences of a batch are one long row of pieces, and nothing unused is computed.

The layers are those of Transformers' BERT, weights and all; only the way through them is ours. Attention stays within
sentences, and the last layer is worked out for wanted pieces alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nqg.grammar.graph import Longs
from nqg.model.attention_kernels import attend, attend_backwards
from nqg.model.dropout import dropped, kept
from nqg.model.encoder import PieceBatch
from nqg.model.ragged import arrays


def encoded(encoder: Any, sentences: PieceBatch, places: Tensor) -> Tensor:
    """The encoder's vectors of some pieces: (E, D); `places` are theirs when the sentences are read row by row."""
    ids, mask = sentences.ids, sentences.mask
    if ids.device.type != "cpu" or encoder.config.model_type != "bert" or torch.is_autocast_enabled("cpu"):
        vectors: Tensor = encoder(input_ids=ids, attention_mask=mask).last_hidden_state  # (B, P, D)
        return vectors.flatten(0, 1).index_select(0, places)
    marks = torch.zeros_like(mask)
    marks.view(-1)[places] = 1
    everything, asked = Rows.of(mask), Rows.of(marks)
    packed = _through(encoder, ids.flatten()[everything.places], everything, asked)
    return packed.index_select(0, torch.searchsorted(asked.places, places))


@dataclass(frozen=True, slots=True)
class Rows:
    """Some of the pieces of padded sentences, sentence after sentence."""

    places: Tensor  # (M,) among all pieces, padding included
    first: Longs  # (B + 1,) where each sentence begins among them
    width: int

    @classmethod
    def of(cls, marks: Tensor) -> Rows:
        """The pieces that are marked: (B, P)."""
        first = np.zeros(len(marks) + 1, dtype=np.int64)
        np.cumsum(marks.sum(dim=1).numpy(), out=first[1:])
        return cls(marks.flatten().nonzero()[:, 0], first, marks.shape[1])

    def among(self, others: Rows) -> Tensor:
        """Where these rows stand among others that include them."""
        return torch.searchsorted(others.places, self.places)


def _through(bert: Any, ids: Tensor, everything: Rows, asked: Rows) -> Tensor:
    table = bert.embeddings
    positions = everything.places % everything.width
    summed = table.word_embeddings(ids) + table.token_type_embeddings.weight[0] + table.position_embeddings(positions)
    vectors = dropped(table.LayerNorm(summed), table.dropout)
    *layers, last = bert.encoder.layer
    for layer in layers:
        vectors = _layer(layer, vectors, vectors, everything, everything)
    return _layer(last, vectors[asked.among(everything)], vectors, asked, everything)


def _layer(layer: Any, asking: Tensor, vectors: Tensor, asked: Rows, everything: Rows) -> Tensor:
    """A layer's vectors for the rows that ask, which look at everything in their sentence."""
    heads = layer.attention.self
    context = _context(heads, heads.query(asking), heads.key(vectors), heads.value(vectors), asked, everything)
    mixed = _added(layer.attention.output, context, asking)
    return _added(layer.output, layer.intermediate(mixed), mixed)


def _added(output: Any, new: Tensor, old: Tensor) -> Tensor:
    vectors: Tensor = output.LayerNorm(dropped(output.dense(new), output.dropout) + old)
    return vectors


def _context(heads: Any, queries: Tensor, keys: Tensor, values: Tensor, asked: Rows, everything: Rows) -> Tensor:
    shape = -1, heads.num_attention_heads, heads.attention_head_size  # (M, H, D)
    pairs = int(np.diff(asked.first) @ np.diff(everything.first)) * heads.num_attention_heads
    factors = kept(torch.Size([pairs]), heads.dropout, queries.dtype)
    queries, keys, values = (each.view(shape) for each in (queries, keys, values))
    return attention(queries, keys, values, factors, asked.first, everything.first).flatten(1)


def attention(
    queries: Tensor, keys: Tensor, values: Tensor, factors: Tensor, asked: Longs, everything: Longs
) -> Tensor:
    """What queries see of the values in their sentences: (M, H, D); see `attention_kernels`."""
    return _Attention.apply(queries, keys, values, factors, asked, everything)  # type: ignore[no-any-return,no-untyped-call]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, factors: Tensor, asked: Longs, everything: Longs
    ) -> Tensor:
        weights, out = torch.empty_like(factors), torch.zeros_like(queries)
        attend(asked, everything, *arrays(queries, keys, values, factors, weights, out))
        ctx.save_for_backward(queries, keys, values, factors, weights)
        ctx.firsts = asked, everything
        return out

    @staticmethod
    def backward(ctx: Any, *flow: Tensor) -> tuple[Tensor | None, ...]:
        gradients = [torch.zeros_like(each) for each in ctx.saved_tensors[:3]]
        attend_backwards(*ctx.firsts, *arrays(*ctx.saved_tensors, flow[0].contiguous(), *gradients))
        return *gradients, None, None, None
