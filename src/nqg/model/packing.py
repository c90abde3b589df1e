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
from transformers.activations import GELUActivation

from nqg.grammar.arrays import Int64Array
from nqg.model.dropout import Drops
from nqg.model.encoder import PieceBatch
from nqg.model.layers import Looks, attention, feed_forward, residual

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
    return packed.index_select(0, asked.ranks[places])


@dataclass(frozen=True, slots=True)
class Rows:
    """Some of the pieces of padded sentences, sentence after sentence."""

    places: Tensor  # (M,) among all pieces, padding included
    ranks: Tensor  # (B * P,) of all pieces: where they stand among these, if they are among them
    first: Int64Array  # (B + 1,) where each sentence begins among them
    width: int

    @classmethod
    def of(cls, marks: Tensor) -> Rows:
        """The pieces that are marked: (B, P)."""
        flat = marks.flatten()
        first = np.append(0, np.cumsum(marks.sum(dim=1).numpy()))
        return cls(flat.nonzero()[:, 0], flat.cumsum(dim=0) - 1, first, marks.shape[1])


def _through(bert: Any, ids: Tensor, everything: Rows, asked: Rows) -> Tensor:
    vectors = _embedded(bert.embeddings, ids, everything.places % everything.width)
    *layers, last = bert.encoder.layer
    for layer in layers:
        vectors = _layer(layer, vectors, None, everything, everything)
    return _layer(last, vectors.index_select(0, everything.ranks[asked.places]), vectors, asked, everything)


def _embedded(table: Any, ids: Tensor, positions: Tensor) -> Tensor:
    words, places = table.word_embeddings(ids), table.position_embeddings(positions)
    vectors = residual(words, table.token_type_embeddings.weight[0], places, NO_DROPOUT, table.LayerNorm)
    drops = Drops.of(table.dropout)
    return vectors * drops.factors(vectors.shape, vectors.dtype) if drops.lost else vectors


def _layer(layer: Any, asking: Tensor, others: Tensor | None, asked: Rows, everything: Rows) -> Tensor:
    """A layer's vectors for the rows that ask, which look at everything in their sentence."""
    heads = layer.attention.self
    looks = Looks.of(asked.first, everything.first, heads.num_attention_heads, heads.dropout, asking.dtype)
    mixed = attention(asking, others, looks, layer)
    inner, output = layer.intermediate, layer.output
    if isinstance(inner.intermediate_act_fn, GELUActivation):
        return feed_forward(mixed, inner.dense, output.dense, output.dropout, output.LayerNorm)
    return residual(inner(mixed) @ output.dense.weight.T, output.dense.bias, mixed, output.dropout, output.LayerNorm)
