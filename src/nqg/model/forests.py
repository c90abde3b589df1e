"""Full and goal forests: what the parsing model sums over (section 4.1.2 of the paper).

The full forest of a source holds every derivation of it with any target; the goal forest of a pair holds those that
yield the target. With a typed grammar there is a third, that of the derivations of legal targets. All are hypergraphs
in topological order, and only what the root leads to is in them. A million pairs have about a gigabyte of them, built
in seconds, so they are kept in memory and never in files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from nqg.data.example import Example
from nqg.errors import FormatError, SettingsError
from nqg.grammar.chart import goal_charts, typed_charts, untyped_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph, concatenate
from nqg.slots.instantiate import instantiate_slots


@dataclass(frozen=True, slots=True)
class Forests:
    """The forests of a list of pairs, in its order: everything that training needs of grammar and data."""

    full: Hypergraph
    goal: Hypergraph
    legal: Hypergraph | None = None  # of typed grammars

    def __post_init__(self) -> None:
        for name, graph in self.graphs().items():
            if self.full.sentences != graph.sentences:
                counts = f"{self.full.sentences} full forests but {graph.sentences} {name} forests"
                raise FormatError(f"{counts}; expected as many")

    def graphs(self) -> dict[str, Hypergraph]:
        """Those that are there, by name."""
        both = {"full": self.full, "goal": self.goal}
        return both if self.legal is None else {**both, "legal": self.legal}

    def __len__(self) -> int:
        return self.full.sentences

    @property
    def nbytes(self) -> int:
        return sum(graph.nbytes for graph in self.graphs().values())

    def select(self, pairs: Sequence[int]) -> Forests:
        """The forests of some pairs as one batch, in the order asked for."""
        return Forests(**{name: graph.select(pairs) for name, graph in self.graphs().items()})

    def underivable(self) -> list[int]:
        """The pairs whose target no derivation yields: training cannot use them."""
        return [int(pair) for pair in np.flatnonzero(np.diff(self.goal.first_node) == 0)]


def joined(parts: Iterable[Forests]) -> Forests:
    graphs = [part.graphs() for part in parts]
    return Forests(**{name: concatenate(part[name] for part in graphs) for name in graphs[0]})


PART_SIZE = (
    512  # pairs in a part: milliseconds of work, so that progress moves and workers stay busy
)


def forest_parts(
    grammar: Grammar,
    examples: Sequence[Example],
    *,
    workers: int | None = None,
    limit: int | None = None,
) -> Iterator[Forests]:
    """The forests of `examples` in consecutive parts, as they are done; `workers` defaults to the machine's cores."""
    workers = os.cpu_count() or 1 if workers is None else workers
    if workers < 1:
        raise SettingsError(f"workers is {workers}; expected 1 or more")
    _ = grammar.encoded, grammar.typing  # made once, before threads ask for them
    starts = range(0, max(len(examples), 1), PART_SIZE)  # no examples are one empty part
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(
            lambda start: _part(grammar, examples[start : start + PART_SIZE], limit), starts
        )


def build_forests(
    grammar: Grammar,
    examples: Sequence[Example],
    *,
    workers: int | None = None,
    limit: int | None = None,
) -> Forests:
    return joined(forest_parts(grammar, examples, workers=workers, limit=limit))


def _part(grammar: Grammar, examples: Sequence[Example], limit: int | None) -> Forests:
    sources, targets = (
        [each.source_tokens for each in examples],
        [each.target_tokens for each in examples],
    )
    instances = instantiate_slots(grammar, sources)
    full, legal = untyped_charts(instances, sources, limit=limit), None
    if grammar.typing is not None:
        legal = typed_charts(instances, grammar.typing, sources, full, limit=limit)
    goal = goal_charts(instances, legal or full, targets, limit=limit)
    if legal is not None and grammar.slots is not None and grammar.slots.free_text:
        full, legal = (
            legal,
            None,
        )  # without types any run of words is anything: a hundred times as many derivations
    forests = Forests(full, goal, legal)
    graphs = forests.graphs().items()
    return Forests(
        **{
            name: graph._replace(rules=instances.model_rule_ids(graph.rules))
            for name, graph in graphs
        }
    )
