"""Which hyperedges of an untyped forest legal derivations use, before types refine the forest.

Free text may stand anywhere, so a span of words has many types, and a rule over two such spans has
as many combinations of types as their product. Most combinations lead to no legal program. Two
passes over the untyped forest tell which do: from the leaves up the types that each node has, from
the root down those of them that legal derivations use. What is left is refined by
`nqg.grammar.chart.typed_charts`, and has the same legal derivations, in the same order.

Sets of types are integers with a bit for each type. A sentence has few distinct ones, so that what
a rule makes of some sets is computed once, not at each of the thousands of places where it applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise, product, starmap
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.arrays import Int32Array, Int64Array
from nqg.grammar.compilation import are_compiled
from nqg.grammar.encoding import ANY_TYPE, NO_TYPE, TYPE_BITS, TypeArrays
from nqg.grammar.goal_kernels import LARGE_FOREST
from nqg.grammar.hypergraph import NO_CHILD, Hypergraph, subgraph

# Below so many hyperedges plain kernels refine a sentence as fast without; compiled ones do so below
# LARGE_FOREST.
SMALL_FOREST = 256
# Results that are kept from sentence to sentence; more of them are forgotten all at once.
RESULTS_KEPT = 1 << 14

TypeSet = int
NO_TYPES: TypeSet = 0
# A rule and the sets of types of its children.
Application = tuple[int, ...]
# A type of a rule, and the types of its children.
TypedChildren = tuple[int, tuple[int, ...]]


def type_numbers(types: TypeSet) -> list[int]:
    """The types in a set.

    >>> type_numbers(0b1010)
    [1, 3]
    """
    numbers = []
    while types:
        lowest = types & -types
        numbers.append(lowest.bit_length() - 1)
        types ^= lowest
    return numbers


def type_mask(types: TypeSet) -> int:
    """A set of types as an integer of 64 bits: type t has bit t modulo TYPE_BITS.

    >>> type_mask(1 << 5 | 1 << 3), type_mask(1 << TYPE_BITS)
    (40, 1)
    """
    mask = 0
    while types:
        mask |= types & ((1 << TYPE_BITS) - 1)
        types >>= TYPE_BITS
    return mask


class LegalForest(NamedTuple):
    """A forest of which legal derivations use every hyperedge, and the types that are wanted of
    each node, as masks for kernels; `exceeded` are sentences that took too many steps.
    """

    forest: Hypergraph
    wanted: Int64Array
    exceeded: set[int]


class ForestReducer:
    """Reduces untyped forests to what legal derivations use."""

    def __init__(self, types: TypeArrays) -> None:
        self._types = types
        self._results: dict[Application, list[TypedChildren]] = {}

    @cached_property
    def _whole(self) -> TypeSet:
        """The types of legal programs."""
        whole = NO_TYPES
        for number in np.flatnonzero(self._types.is_whole).tolist():
            whole |= 1 << number
        return whole

    def _typed(self, application: Application) -> list[TypedChildren]:
        """The types that a rule has over its children, each with the types of the children."""
        typed = self._results.get(application)
        if typed is None:
            typed = list(self._combinations(application))
            if len(self._results) >= RESULTS_KEPT:
                self._results.clear()
            self._results[application] = typed
        return typed

    def _combinations(self, application: Application) -> Iterator[TypedChildren]:
        types, (rule, *children_types) = self._types, application
        first, last = types.first_place[rule : rule + 2].tolist()
        classes = types.classes[first:last].tolist()
        sizes = types.sizes[first:last].tolist()
        first_result = int(types.first_result[rule])
        # Types that never fit an argument are left out before any are combined.
        fitting: list[list[int]] = []
        for of_argument, child in zip(classes, children_types):
            numbers = type_numbers(child)
            fitting.append([t for t in numbers if of_argument[t] != NO_TYPE])
        for children in product(*fitting):
            cell = 0
            for of_argument, size, child in zip(classes, sizes, children):
                cell = cell * size + of_argument[child]
            result = int(types.results[first_result + cell])
            if result != NO_TYPE:
                yield result, children

    def typed_nodes(
        self,
        chart: Hypergraph,
        rules: Int32Array,
        length: int,
        limit: int | None = None,
    ) -> NDArray[np.bool_] | None:
        """Which nodes of the chart of one sentence, pruned or not, have a type: (N,).

        What covers all of its `length` tokens must be legal. None if finding out takes too many
        steps.
        """
        nodes = list(starmap(range, pairwise(chart.first_hyperedge.tolist())))
        reduction = _Reduction(self._typed, nodes, chart.children, rules, limit)
        if not reduction.find_types():
            return None
        types = reduction.types
        if chart.nodes and (chart.starts[-1], chart.ends[-1]) == (0, length):
            types[-1] &= self._whole
        return np.array([of_node != NO_TYPES for of_node in types], dtype=bool)

    def reduce(
        self, forest: Hypergraph, rules: Int32Array, limit: int | None = None
    ) -> LegalForest:
        """A pruned forest without the hyperedges that no legal derivation has.

        `rules` are those of its hyperedges that have types: for a value the rule of its slot. A
        large sentence for which more than `limit` combinations of types are tried loses all
        hyperedges. Whether a small one is reduced at all depends on what is faster.
        """
        bounds = forest.first_hyperedge[forest.first_node]
        is_kept = np.ones(forest.hyperedges, dtype=bool)
        wanted = np.full(forest.nodes, ANY_TYPE, dtype=np.int64)
        exceeded = set()
        smallest = LARGE_FOREST if are_compiled() else SMALL_FOREST
        sizes = np.diff(bounds)
        for sentence in np.flatnonzero(sizes >= smallest).tolist():
            nodes = slice(*forest.first_node[sentence : sentence + 2].tolist())
            hyperedges = slice(*bounds[sentence : sentence + 2].tolist())
            first = forest.first_hyperedge[nodes.start : nodes.stop + 1]
            children = forest.children[hyperedges]
            reduction = _Reduction(
                self._typed,
                list(starmap(range, pairwise((first - hyperedges.start).tolist()))),
                np.where(children == NO_CHILD, NO_CHILD, children - nodes.start),
                rules[hyperedges],
                limit if sizes[sentence] >= LARGE_FOREST else None,
            )
            if not reduction.find_types():
                exceeded.add(sentence)
                is_kept[hyperedges], wanted[nodes] = False, NO_TYPES
                continue
            is_kept[hyperedges], types = reduction.wanted_types(self._whole)
            wanted[nodes] = list(map(type_mask, types))
        if is_kept.all():
            return LegalForest(forest, wanted, exceeded)
        kept = subgraph(forest, is_kept)
        return LegalForest(kept, wanted[wanted != NO_TYPES], exceeded)


class _Reduction:
    """The two passes over the forest of one sentence; `nodes` has the hyperedges of each node."""

    def __init__(
        self,
        typed: Callable[[Application], list[TypedChildren]],
        nodes: Sequence[range],
        children: Int32Array,
        rules: Int32Array,
        limit: int | None,
    ) -> None:
        self._typed, self._nodes, self._limit = typed, nodes, limit
        # Nodes count from 1, so that 0 is no child; it has no types. There is a list for the first
        # children of all hyperedges, one for the second and so on.
        self._columns: list[list[int]] = (children.T + 1).tolist()
        self._rules: list[int] = rules.tolist()
        self._types: list[TypeSet] = [NO_TYPES]
        # The distinct applications, their results, and the number of that of each hyperedge.
        self._applications: list[Application] = []
        self._results: list[TypeSet] = []
        self._numbers: list[int] = []

    def find_types(self) -> bool:
        """From the leaves up, find the types of nodes; False where that takes too many steps."""
        types, steps = self._types, 0
        numbers: dict[Application, int] = {}
        rows = zip(self._rules, *self._columns)
        for hyperedges in self._nodes:
            of_node = NO_TYPES
            for rule, *children in islice(rows, len(hyperedges)):
                application = (rule, *[types[child] for child in children])
                number = numbers.get(application)
                if number is None:
                    # Results of earlier sentences count, too, so that the steps depend on
                    # nothing but the sentence.
                    steps += combinations(application)
                    if self._limit is not None and steps > self._limit:
                        return False
                    number = numbers[application] = len(numbers)
                    self._applications.append(application)
                    self._results.append(self._result(application))
                self._numbers.append(number)
                of_node |= self._results[number]
            types.append(of_node)
        return True

    def _result(self, application: Application) -> TypeSet:
        result = NO_TYPES
        for number, _ in self._typed(application):
            result |= 1 << number
        return result

    @property
    def types(self) -> list[TypeSet]:
        """Those of each node."""
        return self._types[1:]

    def wanted_types(self, whole: TypeSet) -> tuple[list[bool], list[TypeSet]]:
        """From the root down, find the types of nodes that legal derivations use.

        Also says which hyperedges do.
        """
        wanted = [NO_TYPES] * len(self._types)
        wanted[-1] = self._types[-1] & whole
        is_used = [False] * len(self._numbers)
        cache: dict[tuple[int, TypeSet], tuple[TypeSet, ...]] = {}
        for node in reversed(range(len(self._nodes))):
            wanted_here = wanted[node + 1]
            if not wanted_here:
                continue
            for at in self._nodes[node]:
                number = self._numbers[at]
                result = self._results[number] & wanted_here
                if not result:
                    continue
                is_used[at] = True
                below = cache.get((number, result))
                if below is None:
                    below = self._wanted_children(self._applications[number], result)
                    cache[number, result] = below
                for column, types in zip(self._columns, below):
                    wanted[column[at]] |= types
        return is_used, wanted[1:]

    def _wanted_children(
        self, application: Application, wanted: TypeSet
    ) -> tuple[TypeSet, ...]:
        """The types of children over which a rule has one of the wanted types."""
        below = [NO_TYPES] * (len(application) - 1)
        for result, children in self._typed(application):
            if wanted >> result & 1:
                for at, number in enumerate(children):
                    below[at] |= 1 << number
        return tuple(below)


def combinations(application: Application) -> int:
    """How many combinations of types the children of a rule have.

    >>> combinations((17, 0b11, 0b111, 0))
    6
    """
    count = 1
    for types in application[1:]:
        count *= max(types.bit_count(), 1)
    return count
