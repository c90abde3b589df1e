"""Scores of anchored rules (appendix A.3): phi(r, i, j, x) = f_s([w_i, w_j]) + e_r . f_r([w_i,
w_j]).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from nqg.grammar.grammar import NonTerminal, Rule
from nqg.model.encoder import Encoder
from nqg.model.spans import Anchors, Pairs
from nqg.model.subwords import SubwordBatch

# What a rule by hand scores for each word after its first: about the highest score of a trained
# rule. Chosen on training sentences; docs/rules-by-hand.md has the table.
MANUAL_RULE_BONUS = 10.0


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
        self, sentences: SubwordBatch, spans: Anchors, bonuses: Sequence[float] = ()
    ) -> Tensor:
        """The scores of every rule over every span: (S, R).

        Rules without embeddings come last: they score what their span does, and a bonus.
        """
        ends = self.encoder(sentences, sentences.rows(spans))
        of_spans, of_rules = self._scores(ends, spans)
        scores = of_spans + of_rules
        if bonuses:
            scores = torch.cat([scores, of_spans + of_spans.new_tensor(bonuses)], dim=1)
        # Scores have full precision, also where the encoder runs in half.
        return scores.to(self.rules.dtype)

    def pair_scores(self, ends: Tensor, spans: Anchors, pairs: Pairs) -> Tensor:
        """The scores of pairs of span and rule: (P,), given the vectors of the spans' ends: (E, D).

        The arithmetic is in the precision of the weights, whatever the encoder's.
        """
        with torch.autocast(ends.device.type, enabled=False):
            of_spans, of_rules = self._scores(ends.to(self.rules.dtype), spans)
        cells = pairs.spans * len(self.rules) + pairs.rules
        of_pairs = of_rules.flatten().index_select(0, cells)
        return of_spans[:, 0].index_select(0, pairs.spans) + of_pairs

    def _scores(self, ends: Tensor, spans: Anchors) -> tuple[Tensor, Tensor]:
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


def untrained_bonuses(rules: Iterable[Rule]) -> list[float]:
    """What untrained rules score more than the bare span: the more, the more specific a rule is.

    A rule scores what its span does, as if its embedding were 0. A further word in its source is
    worth as much as a trained rule that fits well, and less beside non-terminals: somebody has
    written down what these very words mean.

    >>> rules = "off ### off", "good night ### all_off", "NT_1 lights off ### off ( NT_1 )"
    >>> untrained_bonuses(map(Rule.parse, rules))
    [0.0, 10.0, 5.0]
    """
    bonuses = []
    for rule in rules:
        words = sum(not isinstance(symbol, NonTerminal) for symbol in rule.source)
        bonuses.append(MANUAL_RULE_BONUS * max(words - 1, 0) / (rule.arity + 1))
    return bonuses


class SpanNetwork(nn.Module):
    """A feed-forward network over [w_i, w_j], the vectors at which a span begins and ends."""

    def __init__(self, width: int, hidden: int, out: int) -> None:
        super().__init__()
        self.input = nn.Linear(2 * width, hidden)
        self.output = nn.Linear(hidden, out)

    def forward(self, ends: Tensor, spans: Anchors) -> Tensor:
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
