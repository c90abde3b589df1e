"""Scores of anchored rules in NumPy: the forward pass of an embedded model, without torch.

`nqg.model.scorer` and `nqg.model.encoder` are the same model in torch, for training; the weights
have the same names. Sentences lie packed, without padding; attention runs over groups of sentences
of equal length. M subwords, D their width, E ends of spans, S spans, P pairs, d the scorer's width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.arrays import FloatArray, Int64Array
from nqg.model.bert_config import EXTRAPOLATED_POSITION_WEIGHT, BertConfig
from nqg.model.spans import Anchors, Pairs
from nqg.model.subwords import SubwordBatch, Subwords, collate

Float32Array = NDArray[np.float32]
Weights = Mapping[str, Float32Array]

# erf(x) is about x P(x²) / Q(x²) where |x| is at most ERF_LIMIT, and ±1 elsewhere. The coefficients
# are a minimax fit in float32, highest power first; the error is below 5e-7.
ERF_LIMIT = 4.0
ERF_NUMERATOR = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
ERF_DENOMINATOR = (
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)
# Numbers whose activation is computed at once: 64 kB in float32.
GELU_BLOCK = 1 << 14
# Pairs whose vectors are gathered at once, so that long charts do not fill memory.
PAIRS_AT_ONCE = 1 << 15


def polynomial(coefficients: Sequence[float], variable: Float32Array) -> Float32Array:
    """A polynomial by Horner's rule, in the precision of its variable."""
    total = np.full_like(variable, coefficients[0])
    for coefficient in coefficients[1:]:
        total *= variable
        total += np.float32(coefficient)
    return total


def erf(values: Float32Array) -> Float32Array:
    """The error function, which NumPy does not have."""
    bounded: Float32Array = np.clip(values, -ERF_LIMIT, ERF_LIMIT)
    squares = bounded * bounded
    bounded *= polynomial(ERF_NUMERATOR, squares)
    bounded /= polynomial(ERF_DENOMINATOR, squares)
    return bounded


def gelu(values: Float32Array) -> Float32Array:
    """The activation of BERT's layers, block by block: what is computed stays in the CPU's cache."""
    flat = values.reshape(-1)
    result = np.empty_like(flat)
    for first in range(0, len(flat), GELU_BLOCK):
        block = flat[first : first + GELU_BLOCK]
        shares = erf(block * np.float32(0.5**0.5))
        shares += 1
        shares *= np.float32(0.5)
        np.multiply(block, shares, out=result[first : first + GELU_BLOCK])
    return result.reshape(values.shape)


def softmax(logits: Float32Array) -> Float32Array:
    """The softmax over the last dimension."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Float32Array = shifted / shifted.sum(axis=-1, keepdims=True)
    return shares


class NumpyBert:
    """The encoder of Devlin et al. (2019), as `nqg.model.encoder.Bert` trains it."""

    def __init__(self, config: BertConfig, weights: Weights) -> None:
        self.config = config
        self.weights = weights
        self.hidden_size = config.hidden_size
        self.vocab_size = config.vocab_size
        self.max_length = config.max_length

    def config_json(self) -> str:
        return self.config.to_json()

    def vectors(self, sentences: SubwordBatch[Int64Array]) -> Float32Array:
        """The vectors of all subwords: (M, D)."""
        vectors = self._embed(sentences)
        for number in range(self.config.num_hidden_layers):
            layer = f"encoder.layer.{number}"
            context = self._attend(layer, vectors, sentences)
            vectors = self._add(f"{layer}.attention.output", context, vectors)
            hidden = gelu(self._linear(f"{layer}.intermediate.dense", vectors))
            vectors = self._add(f"{layer}.output", hidden, vectors)
        return vectors

    def _embed(self, sentences: SubwordBatch[Int64Array]) -> Float32Array:
        """Subwords and their positions; every sentence is a first one, of token type 0."""
        table = self.weights["embeddings.position_embeddings.weight"]
        first_type = self.weights["embeddings.token_type_embeddings.weight"][0]
        numbers = sentences.places % sentences.width
        positions = table[numbers] + first_type
        if self.config.longest:
            trained = table[np.minimum(numbers, self.config.longest)] + first_type
            weight = np.float32(EXTRAPOLATED_POSITION_WEIGHT)
            positions = trained + weight * (positions - trained)
        words = self.weights["embeddings.word_embeddings.weight"][sentences.ids]
        # The neighbours of the marks around a sentence are those of other sentences: the same
        # marks.
        if self.config.neighbours:
            beside = np.concatenate(
                [np.roll(words, 1, axis=0), np.roll(words, -1, axis=0)], axis=1
            )
            words = words + self._linear("embeddings.neighbours", beside)
        return self._normalize("embeddings.LayerNorm", words + positions)

    def _attend(
        self, layer: str, vectors: Float32Array, sentences: SubwordBatch[Int64Array]
    ) -> Float32Array:
        """Self-attention within each sentence: (M, D)."""
        heads = self.config.num_attention_heads
        size = self.hidden_size // heads
        name = f"{layer}.attention.self"
        query = self._linear(f"{name}.query", vectors)
        key = self._linear(f"{name}.key", vectors)
        value = self._linear(f"{name}.value", vectors)
        context = np.empty_like(vectors)
        first = 0
        # Sentences of one length are neighbours: (B, T, heads, size) are theirs.
        for length, group in groupby(sentences.lengths):
            count = len(list(group))
            rows = slice(first, first + count * length)
            shape = (count, length, heads, size)
            queries = query[rows].reshape(shape).transpose(0, 2, 1, 3)
            keys = key[rows].reshape(shape).transpose(0, 2, 3, 1)
            values = value[rows].reshape(shape).transpose(0, 2, 1, 3)
            attention = softmax(queries @ keys * np.float32(size**-0.5))
            attended = (attention @ values).transpose(0, 2, 1, 3)
            context[rows] = attended.reshape(count * length, self.hidden_size)
            first += count * length
        return context

    def _add(
        self, name: str, inputs: Float32Array, vectors: Float32Array
    ) -> Float32Array:
        """A linear layer whose output is added to vectors of the same rows, and normalised."""
        outputs = self._linear(f"{name}.dense", inputs)
        return self._normalize(f"{name}.LayerNorm", outputs + vectors)

    def _linear(self, name: str, inputs: Float32Array) -> Float32Array:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        outputs: Float32Array = inputs @ weight.T
        outputs += bias
        return outputs

    def _normalize(self, name: str, vectors: Float32Array) -> Float32Array:
        """Vectors with a mean of 0 and a variance of 1, scaled and shifted."""
        centred: Float32Array = vectors - vectors.mean(axis=1, keepdims=True)
        variance = np.square(centred).mean(axis=1, keepdims=True)
        centred /= np.sqrt(variance + np.float32(self.config.layer_norm_eps))
        centred *= self.weights[f"{name}.weight"]
        centred += self.weights[f"{name}.bias"]
        return centred


class NumpyScorer:
    """An encoder, two feed-forward networks over the ends of a span, and an embedding for every
    rule: the formula of appendix A.3, phi(r, i, j, x) = f_s([w_i, w_j]) + e_r . f_r([w_i, w_j]).
    """

    def __init__(self, config: BertConfig, weights: Weights) -> None:
        self.by_name = weights
        of_encoder = {}
        for name, weight in weights.items():
            prefix, _, rest = name.partition(".")
            if prefix == "encoder":
                of_encoder[rest] = weight
        self.encoder = NumpyBert(config, of_encoder)
        self.rules = weights["rules"]

    def weights(self) -> Weights:
        return self.by_name

    def score(
        self,
        sentences: Sequence[Subwords],
        spans: Anchors[Int64Array],
        pairs: Pairs[Int64Array],
        bonuses: Sequence[float] = (),
    ) -> FloatArray:
        """The scores of pairs of span and rule: (P,); see `RuleScorer`."""
        batch = collate(sentences)
        # Weights that are too large are no numbers in the end, which the caller checks.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            ends = self.encoder.vectors(batch)[batch.rows(spans)]
            hidden = self._hidden("span_network", ends, spans)
            weight, bias = self._output("span_network")
            of_spans = hidden @ weight[0] + bias
            scores: FloatArray = of_spans[pairs.spans].astype(np.float64)
            hidden = self._hidden("rule_network", ends, spans)
            scores += self._rule_scores(hidden, pairs, bonuses)
        return scores

    def _hidden(
        self, network: str, ends: Float32Array, spans: Anchors[Int64Array]
    ) -> Float32Array:
        """The hidden layer over [w_i, w_j], the vectors at which a span begins and ends: (S, d).

        Its terms over w_i and over w_j are computed once for each w.
        """
        width, starts = self.encoder.hidden_size, len(spans.starts.tokens)
        weight = self.by_name[f"{network}.input.weight"]
        of_first = ends[:starts] @ weight[:, :width].T
        of_last = ends[starts:] @ weight[:, width:].T
        of_last += self.by_name[f"{network}.input.bias"]
        summed = of_first[spans.starts.of_spans]
        summed += of_last[spans.ends.of_spans]
        return gelu(summed)

    def _output(self, network: str) -> tuple[Float32Array, Float32Array]:
        """The weights and the bias of a network's output."""
        name = f"{network}.output"
        return self.by_name[f"{name}.weight"], self.by_name[f"{name}.bias"]

    def _rule_scores(
        self, hidden: Float32Array, pairs: Pairs[Int64Array], bonuses: Sequence[float]
    ) -> FloatArray:
        """The products of the rules' embeddings and the spans' vectors; a bonus where a rule has no
        embedding: (P,).
        """
        weight, bias = self._output("rule_network")
        trained = len(self.rules)
        # e_r . (W h + b) is (e_r W) . h + e_r . b: W goes to the side that has fewer vectors.
        if trained >= len(hidden):
            embeddings, vectors = self.rules, hidden @ weight.T + bias
            constants = np.zeros(trained, dtype=np.float32)
        else:
            embeddings, vectors = self.rules @ weight, hidden
            constants = self.rules @ bias
        known_rules = np.minimum(pairs.rules, trained - 1)
        scores: FloatArray = constants[known_rules].astype(np.float64)
        for first in range(0, len(scores), PAIRS_AT_ONCE):
            rows = slice(first, first + PAIRS_AT_ONCE)
            of_spans = vectors[pairs.spans[rows]]
            scores[rows] += np.einsum(
                "pd,pd->p", of_spans, embeddings[known_rules[rows]]
            )
        is_untrained = pairs.rules >= trained
        if is_untrained.any():
            numbers = pairs.rules[is_untrained] - trained
            scores[is_untrained] = np.asarray(bonuses)[numbers]
        return scores


def scorer_shapes(
    config: BertConfig, rules: int, width: int
) -> dict[str, tuple[int, ...]]:
    """The shapes of all weights of a scorer by their names."""
    shapes: dict[str, tuple[int, ...]] = {"rules": (rules, width)}
    for name, shape in config.weight_shapes().items():
        shapes[f"encoder.{name}"] = shape
    for network, outputs in (("span_network", 1), ("rule_network", width)):
        shapes[f"{network}.input.weight"] = (width, 2 * config.hidden_size)
        shapes[f"{network}.input.bias"] = (width,)
        shapes[f"{network}.output.weight"] = (outputs, width)
        shapes[f"{network}.output.bias"] = (outputs,)
    return shapes
