"""Scores of anchored rules (appendix A.3): phi(r, i, j, x) = f_s([w_i, w_j]) + e_r . f_r([w_i, w_j])."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from nqg.grammar.grammar import NonTerminal, Rule
from nqg.model.encoder import Encoder
from nqg.model.spans import Anchors, Pairs
from nqg.model.subwords import SubwordBatch

WORD_BONUS = 10.0  # about the highest score of a trained rule: what a rule by hand has for each word after its first


class Scorer(nn.Module):
    """An encoder, the two feed-forward networks over the ends of a span, and an embedding for every rule."""

    def __init__(self, encoder: Encoder, rules: int, dimension: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.span_network = SpanNetwork(encoder.hidden_size, dimension, 1)
        self.rule_network = SpanNetwork(encoder.hidden_size, dimension, dimension)
        self.rules = nn.Parameter(torch.empty(rules, dimension))
        if (
            not self.rules.is_meta
        ):  # normal numbers on that device would load torch's compiler, which takes a second
            nn.init.normal_(self.rules, std=dimension**-0.5)

    def forward(
        self, sentences: SubwordBatch, spans: Anchors, bonuses: Sequence[float] = ()
    ) -> Tensor:
        """The scores of every rule over every span: (S, R); then those of rules without embeddings, with bonuses."""
        of_spans, of_rules = self._scores(self.encoder(sentences, sentences.rows(spans)), spans)
        scores = of_spans + of_rules
        if bonuses:
            scores = torch.cat([scores, of_spans + of_spans.new_tensor(bonuses)], dim=1)
        return scores.to(self.rules.dtype)  # full precision, also where the encoder runs in half

    def pair_scores(self, ends: Tensor, spans: Anchors, pairs: Pairs) -> Tensor:
        """The scores of pairs of span and rule: (P,), given the encoder's vectors where spans begin and end: (E, D).

        The arithmetic is in the precision of the weights, whatever the encoder's.
        """
        with torch.autocast(ends.device.type, enabled=False):
            of_spans, of_rules = self._scores(ends.to(self.rules.dtype), spans)
        places = pairs.spans * len(self.rules) + pairs.rules
        return of_spans[:, 0].index_select(0, pairs.spans) + of_rules.flatten().index_select(
            0, places
        )

    def _scores(self, ends: Tensor, spans: Anchors) -> tuple[Tensor, Tensor]:
        """The two terms of a score, that of the span: (S, 1), and that of the rule over it: (S, R)."""
        of_spans = self.span_network.output(self.span_network(ends, spans))
        output, hidden = self.rule_network.output, self.rule_network(ends, spans)  # (S, d)
        # e_r . (W h + b) is (e_r W) . h + e_r . b: W goes to the side that has fewer vectors
        if len(self.rules) < len(hidden):
            of_rules = functional.linear(
                hidden, self.rules @ output.weight, self.rules @ output.bias
            )
        else:
            of_rules = functional.linear(output(hidden), self.rules)
        return of_spans, of_rules


def untrained_bonuses(rules: Iterable[Rule]) -> list[float]:
    """What rules that were never trained score more than the bare span: the more, the more specific a rule is.

    A rule has the score of its span as if its embedding were 0, which speaks neither for nor against it. A further word
    in its source is worth as much as a trained rule that fits well, and less beside non-terminals: who writes down what
    these very words mean is right, whatever else could be made of them.

    >>> rules = "off ### off", "good night ### all_off", "NT_1 lights off ### off ( NT_1 )"
    >>> untrained_bonuses(map(Rule.parse, rules))
    [0.0, 10.0, 5.0]
    """
    words = [
        (sum(not isinstance(symbol, NonTerminal) for symbol in rule.source), rule.arity)
        for rule in rules
    ]
    return [WORD_BONUS * max(count - 1, 0) / (arity + 1) for count, arity in words]


class SpanNetwork(nn.Module):
    """A feed-forward network over [w_i, w_j], the vectors at which a span begins and ends."""

    def __init__(self, width: int, hidden: int, out: int) -> None:
        super().__init__()
        self.input, self.output = nn.Linear(2 * width, hidden), nn.Linear(hidden, out)

    def forward(self, ends: Tensor, spans: Anchors) -> Tensor:
        """The hidden layer: (S, d), as the sum of one over w_i and one over w_j, which spans that share a w share."""
        first, last = ends.tensor_split([len(spans.starts.tokens)])
        over_first, over_last = self.input.weight.chunk(2, dim=1)  # (d, D) each
        summed = functional.linear(first, over_first).index_select(0, spans.starts.of_spans)
        summed += functional.linear(last, over_last, self.input.bias).index_select(
            0, spans.ends.of_spans
        )
        return functional.gelu(summed)
