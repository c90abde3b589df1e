"""The best derivation, and the k best, under a score for every application."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from nqg.grammar.derivation import Application, Derivation
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import NO_ROOT, ApplicationId, ChoiceId, Graph
from nqg.grammar.inside import Floats, max_inside


@dataclass(frozen=True, slots=True)
class ScoredDerivation:
    """A derivation and the sum of its applications' scores."""

    derivation: Derivation
    score: float


def best_derivations(grammar: Grammar, graph: Graph, scores: Floats) -> list[ScoredDerivation | None]:
    """The best derivation of each sentence of a pruned graph, under a score per application; None where it has none."""
    values, best = max_inside(graph, scores)

    def derivation(root: ChoiceId) -> ScoredDerivation:
        picks = _walked(graph, root, lambda choice: ApplicationId(int(best[choice])))
        return ScoredDerivation(_derivation(grammar, graph, picks), float(values[root]))

    return [None if root == NO_ROOT else derivation(ChoiceId(int(root))) for root in graph.roots()]


def _walked(
    graph: Graph, root: ChoiceId, pick: Callable[[ChoiceId], ApplicationId]
) -> Iterator[tuple[ChoiceId, ApplicationId]]:
    """The choices of one derivation, parents before children, with the application picked for each."""
    pending = [root]
    while pending:
        choice = pending.pop()
        application = pick(choice)
        yield choice, application
        pending.extend(reversed(graph.children_of(application)))


def _derivation(grammar: Grammar, graph: Graph, picks: Iterable[tuple[ChoiceId, ApplicationId]]) -> Derivation:
    rules = graph.rules
    return Derivation(
        tuple(Application(grammar[int(rules[application])], graph.span(choice)) for choice, application in picks)
    )


@dataclass(frozen=True, slots=True, order=True)
class Ranked:
    """One derivation of a choice: an application and, for each child, which of the child's derivations (0 the best).

    The order puts better ones first and breaks ties by position.
    """

    cost: float
    application: ApplicationId
    ranks: tuple[int, ...]


def k_best_derivations(grammar: Grammar, graph: Graph, scores: Floats, k: int) -> list[list[ScoredDerivation]]:
    """The k best derivations of each sentence of a pruned graph, best first; fewer where there are fewer."""
    ranked: list[list[Ranked]] = []
    for choice in graph.choice_ids():
        ranked.append(list(islice(_ranked(graph, choice, scores, ranked), k)))
    return [
        [] if root == NO_ROOT else _ranked_derivations(grammar, graph, ChoiceId(int(root)), ranked)
        for root in graph.roots()
    ]


def _ranked(graph: Graph, choice: ChoiceId, scores: Floats, below: Sequence[Sequence[Ranked]]) -> Iterator[Ranked]:
    """The derivations of `choice` from the best on, made only as far as they are asked for."""

    def candidate(application: ApplicationId, ranks: tuple[int, ...]) -> Ranked:
        children = zip(graph.children_of(application), ranks, strict=True)
        return Ranked(
            sum((below[child][rank].cost for child, rank in children), -float(scores[application])), application, ranks
        )

    def next_worse(found: Ranked) -> Iterator[Ranked]:
        for at, child in enumerate(graph.children_of(found.application)):
            if found.ranks[at] + 1 < len(below[child]):
                yield candidate(found.application, (*found.ranks[:at], found.ranks[at] + 1, *found.ranks[at + 1 :]))

    heap = [
        candidate(application, (0,) * len(graph.children_of(application)))
        for application in graph.applications_of(choice)
    ]
    heapq.heapify(heap)
    queued = {(found.application, found.ranks) for found in heap}
    while heap:
        found = heapq.heappop(heap)
        yield found
        for worse in next_worse(found):
            if (worse.application, worse.ranks) not in queued:
                queued.add((worse.application, worse.ranks))
                heapq.heappush(heap, worse)


def _ranked_derivations(
    grammar: Grammar, graph: Graph, root: ChoiceId, ranked: Sequence[Sequence[Ranked]]
) -> list[ScoredDerivation]:
    def picks(rank: int) -> Iterator[tuple[ChoiceId, ApplicationId]]:
        pending = [(root, rank)]
        while pending:
            choice, at = pending.pop()
            found = ranked[choice][at]
            yield choice, found.application
            pending.extend(reversed(list(zip(graph.children_of(found.application), found.ranks, strict=True))))

    return [
        ScoredDerivation(_derivation(grammar, graph, picks(rank)), -found.cost)
        for rank, found in enumerate(ranked[root])
    ]
