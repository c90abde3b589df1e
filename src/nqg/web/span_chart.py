"""The chart as a page shows it: every span that the grammar derives, its best score, and how probable it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nqg.grammar.charts import charts
from nqg.grammar.derivation import Tokens
from nqg.grammar.graph import ChoiceId, Graph, Span
from nqg.grammar.inside import Floats, max_inside
from nqg.grammar.rule import Rule
from nqg.inference.marginals import marginals
from nqg.inference.parser import Parser


@dataclass(frozen=True, slots=True)
class SpanCell:
    """A span, the first rule and the score of its best derivation, and the probability that the sentence's has it.

    The probability is 0 for a span that no derivation of the whole sentence uses.
    """

    span: Span
    rule: Rule
    score: float
    probability: float


def span_chart(parser: Parser, source: Tokens, limit: int | None = None) -> tuple[SpanCell, ...]:
    """The derivable spans of a sentence, short ones first; nothing where the encoder cannot read it."""
    sentence = parser.pieces([source])
    if len(sentence[0].ids) > parser.model.longest:
        return ()
    graph = charts(parser.grammar, [source], prune=False, limit=limit)
    if graph.choices == 0:
        return ()
    scores = parser.scored(sentence, graph).scores
    best, first = max_inside(graph, scores)
    chances = span_probabilities(graph, scores, len(source))
    cells = (
        SpanCell(graph.span(at), parser.grammar[int(graph.rules[first[at]])], float(best[at]), float(chances[at]))
        for at in graph.choice_ids()
    )
    return tuple(sorted(cells, key=lambda cell: (cell.span.end - cell.span.start, cell.span)))


def span_probabilities(graph: Graph, scores: Floats, words: int) -> Floats:
    """For every choice of one sentence's chart the probability that a derivation of the sentence has it: (N,)."""
    if graph.span(ChoiceId(graph.choices - 1)) != Span(0, words):
        return np.zeros(graph.choices)
    chances = np.bincount(graph.owners(), marginals(graph, scores), minlength=graph.choices)
    return np.minimum(chances, 1.0)  # rounding may lead past 1
