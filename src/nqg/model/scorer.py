"""Scores of anchored rules (appendix A.3) in torch: phi(r, i, j, x) = f_s([w_i, w_j]) + e_r . f_r([w_i,
w_j]).

`nqg.model.numpy_scorer` computes the same from the weights of an embedded model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from nqg.errors import FormatError
from nqg.grammar.arrays import FloatArray, Int64Array
from nqg.model.encoder import Bert, Encoder, read_encoder
from nqg.model.numpy_scorer import NumpyScorer
from nqg.model.rule_scorer import RuleScorer
from nqg.model.settings import EMBEDDED, ModelSettings
from nqg.model.spans import Anchors, Pairs
from nqg.model.subwords import SubwordBatch, Subwords, collate
from nqg.model.tensors import BatchTensors, best_device
from nqg.model_folder import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    Shapes,
    check_finite,
    check_shapes,
    convert_errors,
    weight_shapes,
)


class Scorer(nn.Module):
    """An encoder, two feed-forward networks over the ends of a span, and an embedding for every
    rule.
    """

    def __init__(self, encoder: Encoder, rules: int, dimension: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.span_network = SpanNetwork(encoder.hidden_size, dimension, 1)
        self.rule_network = SpanNetwork(encoder.hidden_size, dimension, dimension)
        self.rules = nn.Parameter(torch.empty(rules, dimension))
        # Normal numbers on the "meta" device would load torch's compiler, which takes a second.
        if not self.rules.is_meta:
            nn.init.normal_(self.rules, std=dimension**-0.5)

    def forward(
        self,
        sentences: SubwordBatch[Tensor],
        spans: Anchors[Tensor],
        rows: Tensor,
        bonuses: Sequence[float] = (),
    ) -> Tensor:
        """The scores of every rule over every span: (S, R); `rows` are those of the spans' ends.

        Rules without embeddings come last: they score what their span does, and a bonus.
        """
        ends = self.encoder(sentences, rows)
        of_spans, of_rules = self._scores(ends, spans)
        scores = of_spans + of_rules
        if bonuses:
            scores = torch.cat([scores, of_spans + of_spans.new_tensor(bonuses)], dim=1)
        # Scores have full precision, also where the encoder runs in half.
        return scores.to(self.rules.dtype)

    @property
    def device(self) -> torch.device:
        return self.rules.device

    @torch.inference_mode()
    def score(
        self,
        sentences: Sequence[Subwords],
        spans: Anchors[Int64Array],
        pairs: Pairs[Int64Array],
        bonuses: Sequence[float] = (),
    ) -> FloatArray:
        """The scores of pairs of span and rule, without dropout: (P,); see `RuleScorer`."""
        self.eval()
        batch = BatchTensors.of(collate(sentences), spans, pairs, self.device)
        table = self(batch.sentences, batch.spans, batch.rows, bonuses)
        scores: FloatArray = (
            table[batch.pairs.spans, batch.pairs.rules].double().cpu().numpy()
        )
        return scores

    def weights(self) -> dict[str, NDArray[Any]]:
        """All weights by their names in a model folder."""
        weights = {}
        for name, weight in self.state_dict().items():
            weights[name] = weight.contiguous().cpu().numpy()
        return weights

    def for_inference(self, settings: ModelSettings) -> RuleScorer:
        """The scorer that a parser uses: in NumPy if the encoder is an embedded one."""
        self.eval()
        if settings.encoder != EMBEDDED or not isinstance(self.encoder, Bert):
            return self
        copies = {name: weight.copy() for name, weight in self.weights().items()}
        return NumpyScorer(self.encoder.config, copies)

    def pair_scores(
        self, ends: Tensor, spans: Anchors[Tensor], pairs: Pairs[Tensor]
    ) -> Tensor:
        """The scores of pairs of span and rule: (P,), given the vectors of the spans' ends: (E, D).

        The arithmetic is in the precision of the weights, whatever the encoder's.
        """
        with torch.autocast(ends.device.type, enabled=False):
            of_spans, of_rules = self._scores(ends.to(self.rules.dtype), spans)
        cells = pairs.spans * len(self.rules) + pairs.rules
        of_pairs = of_rules.flatten().index_select(0, cells)
        return of_spans[:, 0].index_select(0, pairs.spans) + of_pairs

    def _scores(self, ends: Tensor, spans: Anchors[Tensor]) -> tuple[Tensor, Tensor]:
        """The two terms of a score, that of the span: (S, 1), and that of the rule over
        it: (S, R).
        """
        of_spans = self.span_network.output(self.span_network(ends, spans))
        hidden = self.rule_network(ends, spans)  # (S, d)
        output = self.rule_network.output
        # e_r . (W h + b) is (e_r W) . h + e_r . b: W goes to the side that has fewer vectors.
        if len(self.rules) >= len(hidden):
            return of_spans, functional.linear(output(hidden), self.rules)
        weight, bias = self.rules @ output.weight, self.rules @ output.bias
        return of_spans, functional.linear(hidden, weight, bias)


class SpanNetwork(nn.Module):
    """A feed-forward network over [w_i, w_j], the vectors at which a span begins and ends."""

    def __init__(self, width: int, hidden: int, out: int) -> None:
        super().__init__()
        self.input = nn.Linear(2 * width, hidden)
        self.output = nn.Linear(hidden, out)

    def forward(self, ends: Tensor, spans: Anchors[Tensor]) -> Tensor:
        """The hidden layer: (S, d). Its terms over w_i and over w_j are computed once
        for each w.
        """
        first, last = ends.tensor_split([len(spans.starts.tokens)])
        over_first, over_last = self.input.weight.chunk(2, dim=1)  # (d, D) each
        of_first = functional.linear(first, over_first)
        of_last = functional.linear(last, over_last, self.input.bias)
        summed = of_first.index_select(0, spans.starts.of_spans)
        summed += of_last.index_select(0, spans.ends.of_spans)
        return functional.gelu(summed)


def module_shapes(module: nn.Module) -> Shapes:
    """The shapes of a module's weights by their names; it may have no memory yet."""
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def read_scorer(
    folder: Path, rules: int, settings: ModelSettings, device: str | None
) -> Scorer:
    """The scorer in a model folder whose encoder is pre-trained, on a device or on the best one."""
    config, path = folder / CONFIG_FILE, folder / WEIGHTS_FILE

    def new() -> Scorer:
        with convert_errors("the encoder cannot be made", config):
            return Scorer(read_encoder(config), rules, settings.dimension)

    # On the "meta" device tensors have shapes and take no memory.
    with torch.device("meta"):
        scorer = new()
    check_shapes(module_shapes(scorer), weight_shapes(path), path)
    # The values of buffers are not in the file.
    if any(True for _ in scorer.buffers()):
        scorer = new()
    weights = load_file(path)
    for name, expected in scorer.state_dict().items():
        weight, is_float = weights[name], expected.is_floating_point()
        if weight.is_floating_point() != is_float:
            kind = "floats" if is_float else "integers"
            raise FormatError(
                f"the weights '{name}' are {weight.dtype}, expected {kind}", path
            )
        # The file may change where a system maps it into memory.
        weights[name] = weight.to(expected.dtype, copy=True)
    scorer.load_state_dict(weights, assign=True)
    check_finite(weights, path)
    return scorer.to(device or best_device()).eval()
