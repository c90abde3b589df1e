"""Full and goal forests: what the parsing model sums over (section 4.1.2 of the paper).

The full forest of a source holds every derivation of it with any target; the goal forest of a pair holds those that
yield the target. Both are hypergraphs in topological order, and only what the root leads to is in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from nqg.data.examples import Example
from nqg.errors import FormatError, SettingsError
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph, concatenated


@dataclass(frozen=True, slots=True)
class Forests:
    """The forests of a list of pairs, in its order: everything that training needs of grammar and data."""

    full: Hypergraph
    goal: Hypergraph

    def __post_init__(self) -> None:
        if len(self.full) != len(self.goal):
            raise FormatError(f"{len(self.full)} full forests but {len(self.goal)} goal forests; expected as many")

    def __len__(self) -> int:
        return len(self.full)

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        return self.full.nbytes + self.goal.nbytes

    def select(self, pairs: Sequence[int]) -> Forests:
        """The forests of some pairs as one batch, in the order asked for."""
        return Forests(self.full.select(pairs), self.goal.select(pairs))

    def underivable(self) -> list[int]:
        """The pairs whose target no derivation yields: training cannot use them."""
        return [int(pair) for pair in np.flatnonzero(np.diff(self.goal.first_node) == 0)]


def joined(parts: Iterable[Forests]) -> Forests:
    """Several lists of forests as one."""
    parts = list(parts)
    return Forests(concatenated(part.full for part in parts), concatenated(part.goal for part in parts))


PART_SIZE = 512  # pairs in a part: milliseconds of work, so that progress moves and workers stay busy


def forest_parts(
    grammar: Grammar, examples: Sequence[Example], *, workers: int | None = None, limit: int | None = None
) -> Iterator[Forests]:
    """The forests of `examples` in consecutive parts, as they are done; `workers` defaults to the machine's cores."""
    workers = os.cpu_count() or 1 if workers is None else workers
    if workers < 1:
        raise SettingsError(f"workers is {workers}; expected 1 or more")
    _ = grammar.encoded  # made once, before threads ask for it
    starts = range(0, len(examples), PART_SIZE)
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda start: _part(grammar, examples[start : start + PART_SIZE], limit), starts)


def build_forests(
    grammar: Grammar, examples: Sequence[Example], *, workers: int | None = None, limit: int | None = None
) -> Forests:
    """The forests of `examples`, all at once."""
    parts = list(forest_parts(grammar, examples, workers=workers, limit=limit))
    return joined(parts) if parts else _part(grammar, (), limit)


def _part(grammar: Grammar, examples: Sequence[Example], limit: int | None) -> Forests:
    full = charts(grammar, [example.source_tokens for example in examples], limit=limit)
    goal = goal_charts(grammar, full, [example.target_tokens for example in examples], limit=limit)
    return Forests(full, goal)
