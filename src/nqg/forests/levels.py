"""Forests laid out level by level, so that one pass of array operations serves a whole batch.

The level of a choice is one more than the highest level under it. Choices of one level do not depend on each other, so
an inside pass takes as many steps as there are levels, however many forests lie in the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nqg.grammar.compiled import kernel
from nqg.grammar.graph import NO_CHILD, Graph, Longs, ranges, starts_of
from nqg.grammar.trie import Integers


@dataclass(frozen=True, slots=True)
class Levels:
    """A graph with its choices in the order of their levels: N choices, A applications, L levels.

    `choices` and `applications` say which choice or application of the graph stands at each place; everything else is
    in terms of places. Place N stands for "no child".
    """

    choices: Longs  # (N,)
    applications: Longs  # (A,)
    owners: Longs  # (A,) place of the choice that an application belongs to
    children: Longs  # (A, K) places
    first_choice: Longs  # (L + 1,) places of a level's choices
    first_application: Longs  # (L + 1,)
    roots: Longs  # (B,) place of each sentence's root, N where it has none

    def __len__(self) -> int:
        return len(self.first_choice) - 1

    def slices(self) -> Iterator[tuple[slice, slice]]:
        """The choices and the applications of each level, from the leaves up."""
        for level in range(len(self)):
            yield (
                slice(int(self.first_choice[level]), int(self.first_choice[level + 1])),
                slice(int(self.first_application[level]), int(self.first_application[level + 1])),
            )


def levels(graph: Graph) -> Levels:
    """The graph's choices and applications by level."""
    heights = _heights(graph.first_application, graph.children)
    choices = np.argsort(heights, kind="stable")
    places = np.empty(graph.choices + 1, dtype=np.int64)
    places[choices] = np.arange(graph.choices)
    places[graph.choices] = graph.choices
    sizes = np.diff(graph.first_application)[choices]
    applications = ranges(graph.first_application[choices], sizes)
    first_choice = starts_of(np.bincount(heights, minlength=1)) if graph.choices else np.zeros(1, dtype=np.int64)
    children = graph.children[applications].astype(np.int64)
    roots = graph.roots()
    return Levels(
        choices=choices,
        applications=applications,
        owners=np.repeat(np.arange(graph.choices), sizes),
        children=places[np.where(children == NO_CHILD, graph.choices, children)],
        first_choice=first_choice,
        first_application=starts_of(sizes)[first_choice],
        roots=places[np.where(roots < 0, graph.choices, roots)],
    )


@kernel
def _heights(first_application: Longs, children: Integers) -> Longs:
    heights = np.zeros(len(first_application) - 1, dtype=np.int64)
    for choice in range(len(heights)):
        for application in range(first_application[choice], first_application[choice + 1]):
            for child in children[application]:
                if child != NO_CHILD:
                    heights[choice] = max(heights[choice], heights[child] + 1)
    return heights
