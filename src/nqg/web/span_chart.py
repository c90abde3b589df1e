"""The chart as a page shows it: every span that the grammar derives, its best score, and how probable it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nqg.grammar.charts import charts
from nqg.grammar.derivation import Tokens
from nqg.grammar.graph import Graph, Span
from nqg.grammar.inside import Floats, log_inside, max_inside
from nqg.grammar.rule import Rule
from nqg.inference.parser import Parser
from nqg.model.anchors import anchors
from nqg.model.encoder import piece_batch, pieces


@dataclass(frozen=True, slots=True)
class SpanCell:
    """A span, the rule and the score of its best derivation, and the share of the sentence's derivations that use it.

    The share is that of probability; it is 0 for a span that no derivation of the whole sentence uses.
    """

    span: Span
    rule: Rule
    score: float
    probability: float


def span_chart(parser: Parser, source: Tokens, limit: int | None = None) -> tuple[SpanCell, ...]:
    """The derivable spans of a sentence, short ones first; nothing where the encoder cannot read it."""
    model = parser.model
    encoded = pieces(model.tokenizer, [source])
    graph = charts(parser.grammar, [source], prune=False, limit=limit)
    if graph.choices == 0 or len(encoded[0].ids) > model.longest:
        return ()
    batch = piece_batch(encoded, model.tokenizer.pad_token_id, model.device)
    model.scorer.eval()
    with torch.inference_mode():
        table = model.scorer(batch, anchors(graph, model.device)).double().cpu().numpy()  # (S, R)
    scores: Floats = table[graph.owners(), graph.rules]
    return _cells(parser, graph, scores, len(source))


def _cells(parser: Parser, graph: Graph, scores: Floats, words: int) -> tuple[SpanCell, ...]:
    best, first = max_inside(graph, scores)
    chances = span_probabilities(graph, scores, words)
    cells = (
        SpanCell(
            graph.span(choice), parser.grammar[int(graph.rules[first[choice]])], float(best[choice]), float(chance)
        )
        for choice, chance in zip(graph.choice_ids(), chances, strict=True)
    )
    return tuple(sorted(cells, key=lambda cell: (cell.span.end - cell.span.start, cell.span)))


def span_probabilities(graph: Graph, scores: Floats, words: int) -> Floats:
    """For every choice of one sentence's chart the probability that a derivation of the sentence uses it: (N,).

    An outside pass: from the whole sentence down, what surrounds a choice is what surrounds the application over it,
    times that application and the choice's siblings.
    """
    inside = log_inside(graph, scores)
    outside = np.full(graph.choices, -np.inf)
    root = (graph.starts == 0) & (graph.ends == words)
    outside[root] = 0.0
    for choice in reversed(list(graph.choice_ids())):
        if outside[choice] == -np.inf:
            continue
        for application in graph.applications_of(choice):
            children = graph.children_of(application)
            whole = outside[choice] + scores[application] + sum(inside[child] for child in children)
            for child in children:
                outside[child] = np.logaddexp(outside[child], whole - inside[child])
    total = inside[root][0] if root.any() else 0.0  # without a root every outside is -inf, whatever the total
    chances: Floats = np.minimum(np.exp(outside + inside - total), 1.0)
    return chances
