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
from torch.nn.functional import linear
from transformers.activations import GELUActivation

from nqg.grammar.graph import Longs
from nqg.model.dropout import Drops
from nqg.model.encoder import PieceBatch
from nqg.model.layers import attention, biased_gelu, residual

NO_DROPOUT = torch.nn.Dropout(0.0)


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
    vectors = _embedded(bert.embeddings, ids, everything.places % everything.width)
    *layers, last = bert.encoder.layer
    for layer in layers:
        vectors = _layer(layer, vectors, vectors, everything, everything)
    return _layer(last, vectors.index_select(0, asked.among(everything)), vectors, asked, everything)


def _embedded(table: Any, ids: Tensor, positions: Tensor) -> Tensor:
    words, places = table.word_embeddings(ids), table.position_embeddings(positions)
    vectors = residual(words, table.token_type_embeddings.weight[0], places, NO_DROPOUT, table.LayerNorm)
    drops = Drops.of(table.dropout)
    return vectors * drops.factors(vectors.shape, vectors.dtype) if drops.lost else vectors


def _layer(layer: Any, asking: Tensor, vectors: Tensor, asked: Rows, everything: Rows) -> Tensor:
    """A layer's vectors for the rows that ask, which look at everything in their sentence."""
    mixed = _added(layer.attention.output, _context(layer.attention.self, asking, vectors, asked, everything), asking)
    return _added(layer.output, _inner(layer.intermediate, mixed), mixed)


def _added(output: Any, new: Tensor, old: Tensor) -> Tensor:
    dense = output.dense
    return residual(new @ dense.weight.T, dense.bias, old, output.dropout, output.LayerNorm)


def _inner(intermediate: Any, vectors: Tensor) -> Tensor:
    dense = intermediate.dense
    if isinstance(intermediate.intermediate_act_fn, GELUActivation):
        return biased_gelu(vectors @ dense.weight.T, dense.bias)
    inner: Tensor = intermediate(vectors)
    return inner


def _context(heads: Any, asking: Tensor, vectors: Tensor, asked: Rows, everything: Rows) -> Tensor:
    shape = heads.num_attention_heads, heads.attention_head_size  # (H, D)
    both = heads.key, heads.value
    pairs = linear(vectors, torch.cat([each.weight for each in both]), torch.cat([each.bias for each in both]))
    weights = int(np.diff(asked.first) @ np.diff(everything.first)) * heads.num_attention_heads
    factors = Drops.of(heads.dropout).factors((1, weights), vectors.dtype)[0]
    queries, pairs = heads.query(asking).view(-1, *shape), pairs.view(-1, 2, *shape)
    return attention(queries, pairs, factors, asked.first, everything.first).flatten(1)
