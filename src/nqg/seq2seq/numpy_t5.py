"""T5 (Raffel et al., 2020) in NumPy: the forward pass of the second reader, without torch.

It reads the weights that transformers has written, in float32, and gives the logits of
`T5ForConditionalGeneration`. One source is read at a time, so nothing is padded. B hypotheses, N
new subwords of each, T all subwords so far, S subwords of the source, D the width, V the vocabulary.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nqg.errors import DamagedModel
from nqg.grammar.arrays import Int64Array
from nqg.model.checkpoint import read_weights
from nqg.model.numpy_scorer import Float32Array, softmax
from nqg.model_folder import check_finite
from nqg.seq2seq.folder import GENERATION_FILE

# The feed-forward networks of T5 and of T5 1.1 (flan-t5, mT5).
RELU, GATED_GELU = "relu", "gated-gelu"


@dataclass(frozen=True, slots=True)
class T5Config:
    """The entries of T5's `config.json` that matter here, with the defaults that they have there."""

    vocab_size: int
    d_model: int
    d_kv: int
    num_layers: int
    num_heads: int
    num_decoder_layers: int
    decoder_start_token_id: int
    eos_token_id: int
    pad_token_id: int
    feed_forward_proj: str = RELU
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    # Models whose head is the embeddings divide what it reads by the root of the width.
    scale_decoder_outputs: bool = True

    @classmethod
    def read(cls, folder: Path) -> T5Config | None:
        """The config of a T5 that we compute as its authors do; None for any other model."""
        values: dict[str, Any] = {}
        for name in ("config.json", GENERATION_FILE):
            if (folder / name).exists():
                text = (folder / name).read_text(encoding="utf-8")
                values.update(json.loads(text))
        kind, network = values.get("model_type"), values.get("feed_forward_proj", RELU)
        if kind not in ("t5", "mt5") or network not in (RELU, GATED_GELU):
            return None
        values.setdefault("num_decoder_layers", values.get("num_layers"))
        values.setdefault("decoder_start_token_id", values.get("pad_token_id"))
        if kind == "mt5":
            values["scale_decoder_outputs"] = False
        is_tied = values.get("tie_word_embeddings") is not False
        values.setdefault("scale_decoder_outputs", is_tied)
        names = cls.__dataclass_fields__.keys() & values.keys()
        try:
            config = cls(**{name: values[name] for name in names})
        except TypeError:
            return None
        # A model may have several ends.
        return config if isinstance(config.eos_token_id, int) else None


class EncodedSource(NamedTuple):
    """The keys and values of a source for each layer of the decoder: (1, heads, S, size)."""

    layers: tuple[tuple[Float32Array, Float32Array], ...]


class DecoderCache(NamedTuple):
    """The keys and values of what hypotheses have written so far: (B, heads, T, size) a layer."""

    layers: tuple[tuple[Float32Array, Float32Array], ...] = ()

    @property
    def length(self) -> int:
        return self.layers[0][0].shape[2] if self.layers else 0

    def rows(self, rows: Sequence[int]) -> DecoderCache:
        """The state of other hypotheses, which continue the given ones."""
        index = np.array(rows)
        return DecoderCache(
            tuple((keys[index], values[index]) for keys, values in self.layers)
        )


class NumpyT5:
    """A T5 whose weights are read from files on first use."""

    def __init__(self, config: T5Config, paths: Sequence[Path]) -> None:
        self.config = config
        self.paths = tuple(paths)

    @cached_property
    def weights(self) -> Mapping[str, Float32Array]:
        weights: dict[str, Float32Array] = {}
        for path in self.paths:
            weights.update(read_weights(path))
            check_finite(weights, path)
        return weights

    @property
    def head(self) -> Float32Array:
        """The output layer, which is the embeddings where a model has none of its own: (V, D)."""
        weights = self.weights
        return weights.get("lm_head.weight", weights["shared.weight"])

    @np.errstate(over="ignore", invalid="ignore")
    def encode(self, source: Sequence[int]) -> EncodedSource:
        """What the decoder attends to."""
        vectors = self.weights["shared.weight"][np.array([source])]  # (1, S, D)
        places = np.arange(len(source))
        bias = self._position_bias("encoder", places, places)
        for number in range(self.config.num_layers):
            block = f"encoder.block.{number}.layer"
            hidden = self._normalize(f"{block}.0.layer_norm", vectors)
            name = f"{block}.0.SelfAttention"
            query, key, value = (
                self._heads(f"{name}.{part}", hidden) for part in "qkv"
            )
            vectors = vectors + self._attend(name, query, key, value, bias)
            vectors = self._feed_forward(f"{block}.1", vectors)
        vectors = self._normalize("encoder.final_layer_norm", vectors)
        layers = []
        for number in range(self.config.num_decoder_layers):
            name = f"decoder.block.{number}.layer.1.EncDecAttention"
            layers.append(
                (self._heads(f"{name}.k", vectors), self._heads(f"{name}.v", vectors))
            )
        return EncodedSource(tuple(layers))

    @np.errstate(over="ignore", invalid="ignore")
    def decode(
        self, inputs: Int64Array, source: EncodedSource, past: DecoderCache
    ) -> tuple[Float32Array, DecoderCache]:
        """The logits of what follows each of the inputs (B, N), and the state after them:
        (B, N, V).
        """
        places = np.arange(past.length, past.length + inputs.shape[1])
        before = np.arange(past.length + inputs.shape[1])
        bias = self._position_bias("decoder", places, before)
        # Nothing attends to what comes later.
        bias = np.where(before > places[:, None], np.float32(-np.inf), bias)
        vectors = self.weights["shared.weight"][inputs]  # (B, N, D)
        layers = []
        for number, (source_key, source_value) in enumerate(source.layers):
            block = f"decoder.block.{number}.layer"
            hidden = self._normalize(f"{block}.0.layer_norm", vectors)
            name = f"{block}.0.SelfAttention"
            query, key, value = (
                self._heads(f"{name}.{part}", hidden) for part in "qkv"
            )
            if past.layers:
                past_key, past_value = past.layers[number]
                key = np.concatenate([past_key, key], axis=2)
                value = np.concatenate([past_value, value], axis=2)
            layers.append((key, value))
            vectors = vectors + self._attend(name, query, key, value, bias)

            hidden = self._normalize(f"{block}.1.layer_norm", vectors)
            name = f"{block}.1.EncDecAttention"
            query = self._heads(f"{name}.q", hidden)
            vectors = vectors + self._attend(name, query, source_key, source_value)
            vectors = self._feed_forward(f"{block}.2", vectors)
        vectors = self._normalize("decoder.final_layer_norm", vectors)
        if self.config.scale_decoder_outputs:
            vectors *= np.float32(self.config.d_model**-0.5)
        logits: Float32Array = vectors @ self.head.T
        if not np.isfinite(logits).all():
            raise DamagedModel(
                "the model gives logits that are not numbers: its weights are damaged; "
                "train it again"
            )
        return logits, DecoderCache(tuple(layers))

    def log_probabilities(
        self, source: EncodedSource, target: Sequence[int]
    ) -> Float32Array:
        """The logarithm of the probability of each subword of a target: (N,)."""
        inputs = np.array([[self.config.decoder_start_token_id, *target[:-1]]])
        logits, _ = self.decode(inputs, source, DecoderCache())
        logs: Float32Array = log_softmax(logits[0])[np.arange(len(target)), target]
        return logs

    def _normalize(self, name: str, vectors: Float32Array) -> Float32Array:
        """Vectors with a mean square of 1, scaled."""
        variance = np.square(vectors).mean(axis=-1, keepdims=True)
        epsilon = np.float32(self.config.layer_norm_epsilon)
        normalized: Float32Array = vectors / np.sqrt(variance + epsilon)
        normalized *= self.weights[f"{name}.weight"]
        return normalized

    def _heads(self, name: str, vectors: Float32Array) -> Float32Array:
        """A linear layer whose output is divided among the heads: (B, N, D) to
        (B, heads, N, size).
        """
        outputs = vectors @ self.weights[f"{name}.weight"].T
        shape = (*outputs.shape[:2], self.config.num_heads, self.config.d_kv)
        heads: Float32Array = outputs.reshape(shape).transpose(0, 2, 1, 3)
        return heads

    def _attend(
        self,
        name: str,
        query: Float32Array,
        key: Float32Array,
        value: Float32Array,
        bias: Float32Array | None = None,
    ) -> Float32Array:
        """Attention, whose products T5 does not scale: (B, N, D)."""
        logits = query @ key.swapaxes(2, 3)
        if bias is not None:
            logits += bias
        attended: Float32Array = softmax(logits) @ value  # (B, heads, N, size)
        shape = (len(attended), attended.shape[2], -1)
        joined: Float32Array = attended.transpose(0, 2, 1, 3).reshape(shape)
        outputs: Float32Array = joined @ self.weights[f"{name}.o.weight"].T
        return outputs

    def _feed_forward(self, name: str, vectors: Float32Array) -> Float32Array:
        hidden = self._normalize(f"{name}.layer_norm", vectors)
        layer = f"{name}.DenseReluDense"
        if self.config.feed_forward_proj == RELU:
            inner: Float32Array = hidden @ self.weights[f"{layer}.wi.weight"].T
            np.maximum(inner, 0, out=inner)
        else:
            inner = gelu_tanh(hidden @ self.weights[f"{layer}.wi_0.weight"].T)
            inner *= hidden @ self.weights[f"{layer}.wi_1.weight"].T
        outputs: Float32Array = inner @ self.weights[f"{layer}.wo.weight"].T
        return vectors + outputs

    def _position_bias(
        self, stack: str, places: Int64Array, others: Int64Array
    ) -> Float32Array:
        """What the distance between two subwords adds to their attention: (heads, N, T)."""
        buckets = relative_buckets(
            others - places[:, None],
            self.config.relative_attention_num_buckets,
            self.config.relative_attention_max_distance,
            both_ways=stack == "encoder",
        )
        name = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        return self.weights[name][buckets].transpose(2, 0, 1)


def relative_buckets(
    distances: Int64Array, buckets: int, farthest: int, *, both_ways: bool
) -> Int64Array:
    """The bucket of each distance: one for each short distance, and wider and wider ones up to the
    farthest.

    >>> relative_buckets(np.array([-40, -9, -1, 0, 1, 40]), 32, 128, both_ways=True).tolist()
    [12, 8, 1, 0, 17, 28]
    """
    first: Int64Array = np.zeros_like(distances)
    if both_ways:
        buckets //= 2
        first += np.where(distances > 0, buckets, 0)
        distances = np.abs(distances)
    else:
        distances = np.maximum(-distances, 0)
    exact = buckets // 2
    # In float32, as in training: a bucket more or less is another model.
    ratios = np.maximum(distances, 1).astype(np.float32) / np.float32(exact)
    logs = np.log(ratios) / np.float32(math.log(farthest / exact))
    wide = exact + (logs * np.float32(buckets - exact)).astype(np.int64)
    return first + np.where(distances < exact, distances, np.minimum(wide, buckets - 1))


def gelu_tanh(values: Float32Array) -> Float32Array:
    """The activation of T5 1.1, an approximation of GELU."""
    inner = np.float32(math.sqrt(2 / math.pi)) * (
        values + np.float32(0.044715) * values * values * values
    )
    activated: Float32Array = np.float32(0.5) * values * (1 + np.tanh(inner))
    return activated


def log_softmax(logits: Float32Array) -> Float32Array:
    """The logarithm of the softmax over the last dimension."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    logs: Float32Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return logs
