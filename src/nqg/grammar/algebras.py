"""What can be asked of all derivations at once: each question is a small algebra, folded over the and-or graph.

An algebra says what a rule makes of its children's values and how a choice unites its applications' values. Sums and
maxima of real scores have a compiled fold of their own (`inside`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Protocol, TypeVar

import numpy as np

from nqg.grammar.derivation import Tokens, substituted
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import NO_ROOT, ApplicationId, ChoiceId, Graph
from nqg.grammar.inside import Floats, log_inside

Value = TypeVar("Value")


class Algebra(Protocol[Value]):
    """How values rise through an and-or graph."""

    def apply(self, application: ApplicationId, children: Sequence[Value]) -> Value:
        """The value of one application."""
        ...

    def choose(self, values: Iterable[Value]) -> Value:
        """The value of a choice between applications, of which there is at least one."""
        ...


def folded(graph: Graph, algebra: Algebra[Value]) -> list[Value]:
    """The value of every choice, children before parents."""
    values: list[Value] = []
    for choice in graph.choice_ids():
        values.append(algebra.choose(_application_values(graph, choice, algebra, values)))
    return values


def _application_values(
    graph: Graph, choice: ChoiceId, algebra: Algebra[Value], values: Sequence[Value]
) -> Iterator[Value]:
    for application in graph.applications_of(choice):
        yield algebra.apply(application, [values[child] for child in graph.children_of(application)])


class Counting:
    """How many derivations there are, exactly."""

    def apply(self, application: ApplicationId, children: Sequence[int]) -> int:
        """Every combination of the children's derivations."""
        return prod(children)

    def choose(self, values: Iterable[int]) -> int:
        """The derivations of all applications together."""
        return sum(values)


def derivation_counts(graph: Graph) -> list[int]:
    """How many derivations each sentence of a pruned graph has, exactly; 0 where it has none."""
    counts = folded(graph, Counting())
    return [0 if root == NO_ROOT else counts[root] for root in graph.roots()]


def log_derivation_counts(graph: Graph) -> Floats:
    """The natural logarithms of `derivation_counts`, minus infinity for none: fast, and never too large a number."""
    roots = graph.roots()
    values = np.append(log_inside(graph), -np.inf)  # where NO_ROOT, which is -1, leads to
    return values[roots]


@dataclass(frozen=True, slots=True)
class TargetSet:
    """Some targets, shortest first and then by text; `is_complete` says that there are no others."""

    targets: tuple[Tokens, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Yielding:
    """Which targets there are: at most `most` of them, none with more than `longest` tokens."""

    grammar: Grammar
    graph: Graph
    most: int
    longest: int

    def apply(self, application: ApplicationId, children: Sequence[TargetSet]) -> TargetSet:
        """The rule's target with every combination of the children's targets in it."""
        side = self.grammar[int(self.graph.rules[application])].target
        combinations = product(*(child.targets for child in children))
        found = {substituted(side, combination) for combination in islice(combinations, self.most)}
        whole = prod(len(child.targets) for child in children) <= self.most
        return self._bounded(found, whole and all(child.is_complete for child in children))

    def choose(self, values: Iterable[TargetSet]) -> TargetSet:
        """The targets of all applications together."""
        values = list(values)
        found = {target for value in values for target in value.targets}
        return self._bounded(found, all(value.is_complete for value in values))

    def _bounded(self, found: set[Tokens], is_complete: bool) -> TargetSet:
        short = sorted((target for target in found if len(target) <= self.longest), key=lambda t: (len(t), t))
        return TargetSet(tuple(short[: self.most]), is_complete and len(short) == len(found) <= self.most)


def targets(grammar: Grammar, graph: Graph, *, most: int = 1000, longest: int = 10_000) -> list[TargetSet]:
    """The targets that each sentence of a pruned graph can yield."""
    sets = folded(graph, Yielding(grammar, graph, most, longest))
    return [TargetSet((), is_complete=True) if root == NO_ROOT else sets[root] for root in graph.roots()]
