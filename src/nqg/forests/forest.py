"""Full and goal forests: what the parsing model sums over (section 4.1.2 of the paper).

The full forest of a source holds every derivation of it with any target; the goal forest of a pair holds those that
yield the target. Both are and-or graphs in topological order, and only what the root leads to is in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nqg.errors import FormatError
from nqg.grammar.charts import charts, goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import Graph, concatenated

Tokens = Sequence[str]


def full_forest(grammar: Grammar, source: Tokens, *, limit: int | None = None) -> Graph:
    """Every derivation of `source`; an empty graph where there is none.

    `limit` bounds the entries of its chart; past it LimitExceeded is raised.
    """
    return charts(grammar, [source], limit=limit)


def goal_forest(grammar: Grammar, source: Tokens, target: Tokens, *, limit: int | None = None) -> Graph:
    """The derivations of `source` that yield `target`; an empty graph where there is none."""
    return goal_charts(grammar, full_forest(grammar, source, limit=limit), [target], limit=limit)


@dataclass(frozen=True, slots=True)
class Forests:
    """The forests of a list of pairs, in its order: everything that training needs of grammar and data."""

    full: Graph
    goal: Graph

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
        return [int(pair) for pair in np.flatnonzero(np.diff(self.goal.first_choice) == 0)]


def joined(parts: Iterable[Forests]) -> Forests:
    """Several lists of forests as one."""
    parts = list(parts)
    return Forests(concatenated(part.full for part in parts), concatenated(part.goal for part in parts))
