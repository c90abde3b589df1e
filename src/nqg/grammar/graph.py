"""The and-or graph: choices between applications of rules, and applications over choices.

One type serves the chart of a sentence, its full forest and its goal forest, alone or many laid end to end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NewType

import numpy as np
from numpy.typing import NDArray

from nqg.errors import FormatError
from nqg.grammar.trie import Integers

Longs = NDArray[np.int64]
ChoiceId = NewType("ChoiceId", int)
ApplicationId = NewType("ApplicationId", int)
NO_CHILD = -1
NO_ROOT = -1


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Tokens `start` to `end` (not included) of a sentence."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.start}:{self.end}"


@dataclass(frozen=True, slots=True)
class Graph:
    """The and-or graphs of B sentences end to end: N choices, A applications, at most K children each.

    Choices are in topological order, children first, so that the last choice of a sentence is its root where the graph
    is rooted. Children are numbers of choices in this same graph. In goal graphs a choice stands for a span and a part
    of the target, which begins at `target_starts` (its first occurrence) and has `target_lengths` tokens.
    """

    first_choice: Longs  # (B + 1,)
    starts: Integers  # (N,)
    ends: Integers  # (N,)
    first_application: Longs  # (N + 1,)
    rules: Integers  # (A,)
    children: Integers  # (A, K), NO_CHILD where a rule has fewer
    target_starts: Integers | None = None  # (N,)
    target_lengths: Integers | None = None  # (N,)

    def __len__(self) -> int:
        """How many sentences lie in it."""
        return len(self.first_choice) - 1

    @property
    def choices(self) -> int:
        """How many choices there are."""
        return len(self.starts)

    @property
    def applications(self) -> int:
        """How many applications there are."""
        return len(self.rules)

    @property
    def is_goal(self) -> bool:
        """Whether its choices are tied to parts of a target."""
        return self.target_starts is not None

    @property
    def nbytes(self) -> int:
        """The memory that the arrays take."""
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, NDArray[np.int32] | NDArray[np.int64]]:
        """The arrays by name, those that are there."""
        named = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: array for name, array in named if array is not None}

    def span(self, choice: ChoiceId) -> Span:
        """The part of the source that `choice` covers."""
        return Span(int(self.starts[choice]), int(self.ends[choice]))

    def choice_ids(self) -> Iterator[ChoiceId]:
        """All choices, children before parents."""
        return map(ChoiceId, range(self.choices))

    def applications_of(self, choice: ChoiceId) -> Iterator[ApplicationId]:
        """The applications that `choice` chooses from."""
        return map(ApplicationId, range(int(self.first_application[choice]), int(self.first_application[choice + 1])))

    def children_of(self, application: ApplicationId) -> tuple[ChoiceId, ...]:
        """The choices under `application`, left to right in the source."""
        return tuple(ChoiceId(int(child)) for child in self.children[application] if child != NO_CHILD)

    def roots(self) -> Longs:
        """For every sentence the choice that covers it all, or NO_ROOT where it has no derivation: (B,)."""
        empty = np.diff(self.first_choice) == 0
        return np.where(empty, NO_ROOT, self.first_choice[1:] - 1)

    def owners(self) -> Integers:
        """For every application the choice that it belongs to: (A,)."""
        return np.repeat(np.arange(self.choices, dtype=np.int32), np.diff(self.first_application))

    def check(self) -> None:
        """Refuse arrays that do not make a graph: kernels trust every number in them."""
        _check_types(self)
        _check_groups("first_choice", self.first_choice, self.choices)
        _check_groups("first_application", self.first_application, self.applications)
        columns = (self.starts, self.ends, self.target_starts, self.target_lengths)
        if any(column is not None and len(column) != self.choices for column in columns):
            raise FormatError("the columns of the choices differ in length")
        if len(self.children) != self.applications or self.rules.min(initial=0) < 0:
            raise FormatError("the columns of the applications differ in length or hold a negative rule")
        firsts = np.repeat(
            np.repeat(self.first_choice[:-1], np.diff(self.first_choice)), np.diff(self.first_application)
        )
        inside = (self.children >= firsts[:, None]) & (self.children < self.owners()[:, None])
        if not np.all(inside | (self.children == NO_CHILD)):
            raise FormatError("an application has a child that does not come before it in its own graph")

    def __getitem__(self, sentence: int) -> Graph:
        """The graph of one sentence alone."""
        return self.select([sentence])

    def __iter__(self) -> Iterator[Graph]:
        return (self[sentence] for sentence in range(len(self)))

    def select(self, sentences: Sequence[int]) -> Graph:
        """The graphs of some sentences, in the order asked for; a sentence may be asked for twice.

        Nothing else is looked at: of arrays that are mapped from a file, only the rows of these sentences are read.
        """
        picked = np.asarray(sentences, dtype=np.int64)
        old_first = self.first_choice[picked]
        sizes = self.first_choice[picked + 1] - old_first
        rows = ranges(old_first, sizes)
        first_rows = self.first_application[rows]
        application_sizes = self.first_application[rows + 1] - first_rows
        application_rows = ranges(first_rows, application_sizes)
        first_choice = starts_of(sizes)
        shifts = np.repeat(np.repeat(first_choice[:-1] - old_first, sizes), application_sizes).astype(np.int32)
        children = self.children[application_rows]
        return Graph(
            first_choice=first_choice,
            starts=self.starts[rows],
            ends=self.ends[rows],
            first_application=starts_of(application_sizes),
            rules=self.rules[application_rows],
            children=np.where(children == NO_CHILD, NO_CHILD, children + shifts[:, None]),
            target_starts=None if self.target_starts is None else self.target_starts[rows],
            target_lengths=None if self.target_lengths is None else self.target_lengths[rows],
        )


def _check_types(graph: Graph) -> None:
    for name, array in graph.arrays().items():
        wanted = np.int64 if name.startswith("first_") else np.int32
        if array.dtype != wanted or array.ndim != (2 if name == "children" else 1):
            raise FormatError(
                f"array {name} has type {array.dtype} and {array.ndim} dimensions, expected {wanted.__name__}"
            )


def _check_groups(name: str, firsts: Longs, members: int) -> None:
    if len(firsts) == 0 or firsts[0] != 0 or firsts[-1] != members or np.any(np.diff(firsts) < 0):
        raise FormatError(f"array {name} does not divide {members} members into groups")


def starts_of(sizes: Longs) -> Longs:
    """Where each of several groups begins when they lie end to end, and where the last one ends.

    >>> starts_of(np.array([2, 0, 3]))
    array([0, 2, 2, 5])
    """
    firsts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=firsts[1:])
    return firsts


def ranges(firsts: Longs, sizes: Longs) -> Longs:
    """The numbers firsts[i], firsts[i] + 1, … of every group i, one group after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    shifts = np.asarray(firsts, dtype=np.int64) - starts_of(sizes)[:-1]
    return np.repeat(shifts, sizes) + np.arange(int(np.sum(sizes)), dtype=np.int64)


def concatenated(graphs: Iterable[Graph]) -> Graph:
    """Several graphs as one, end to end; all of them are goal graphs or none is."""
    parts = list(graphs)
    if len(parts) == 1:
        return parts[0]
    width = max((part.children.shape[1] for part in parts), default=0)
    shifts = starts_of(np.array([part.choices for part in parts], dtype=np.int64))
    return Graph(
        first_choice=_joined([part.first_choice for part in parts], shifts),
        starts=_stacked([part.starts for part in parts]),
        ends=_stacked([part.ends for part in parts]),
        first_application=_joined(
            [part.first_application for part in parts],
            starts_of(np.array([part.applications for part in parts], dtype=np.int64)),
        ),
        rules=_stacked([part.rules for part in parts]),
        children=_joined_children(parts, shifts, width),
        target_starts=_stacked_targets([part.target_starts for part in parts]),
        target_lengths=_stacked_targets([part.target_lengths for part in parts]),
    )


def _stacked(arrays: Sequence[Integers]) -> Integers:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int32)


def _stacked_targets(arrays: Sequence[Integers | None]) -> Integers | None:
    present = [array for array in arrays if array is not None]
    return _stacked(present) if present else None


def _joined(firsts: Sequence[Longs], shifts: Longs) -> Longs:
    """Tables of group starts end to end: each but the last one's final entry is the next one's first."""
    moved = [table[:-1] + shift for table, shift in zip(firsts, shifts, strict=False)]
    return np.concatenate([*moved, shifts[-1:]])


def _joined_children(parts: Sequence[Graph], shifts: Longs, width: int) -> Integers:
    children = np.full((sum(part.applications for part in parts), width), NO_CHILD, dtype=np.int32)
    at = 0
    for part, shift in zip(parts, shifts, strict=False):
        block = children[at : at + part.applications, : part.children.shape[1]]
        block[:] = np.where(part.children == NO_CHILD, NO_CHILD, part.children + np.int32(shift))
        at += part.applications
    return children
