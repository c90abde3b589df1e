"""SPLIT, NEW and ELIM of appendix A.2: which rules could stand in for a rule, given the rest of the grammar.

`candidates` answers for many rules at once. A candidate g of a rule f derives f together with what the grammar derives
already. So NEW is the union of all rules' candidates, and ELIM(g) is the set of rules that have g among theirs.

Candidates come from one synchronous inside-outside pass over the rule's own two sides, which are charted like a
sentence and its target, the non-terminals of f being leaves.

*Inside*: the goals of the chart are the pairs (span of the source, substring of the target) that the grammar derives.
Take such a pair out of f, put a non-terminal in its place, and what remains is a rule that derives f together with the
rest of the grammar.

*Outside*: an outside pair is one with which f could be derived, were it derivable. The pair (all of the source, all of
the target) is one. If a rule covers an outside pair with all of its non-terminals but one (the *hole*) over pairs that
are derivable, then what is left for the hole is an outside pair. These are themselves rules that derive f together with
the rest of the grammar.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import FloatArray, Int32Array, Int64Array, inlined, unmanaged_kernel
from nqg.grammar.chart import INITIAL_CAPACITY, MAX_CAPACITY, OUTPUT_CAPACITY, encoded_charts, grow
from nqg.grammar.chart_kernels import GRAPH_NODES, NOTHING, ints
from nqg.grammar.encoding import LEAF, NOWHERE, TRIE_ROOT, GrammarArrays, successor
from nqg.grammar.goal_kernels import (
    GoalWorkspace,
    choose_first,
    choose_next,
    find_goals,
    goal_workspace,
)
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.ragged import Ragged
from nqg.induction.corpus import Mask, find_run
from nqg.induction.description_length import LabelRule, Labels, rule_of_leaves
from nqg.induction.settings import ROUNDING

MAX_CACHED_PROPOSALS = 200_000  # about 100 MB
BUCKET_BITS = 22  # of the hash of a factor: 36 MB for all
# Fibonacci hashing: 2^64 / golden ratio, which is odd and has bits all over.
FIBONACCI_FACTOR = np.uint64(0x9E3779B97F4A7C15)
NEW_LEAF = LEAF - 1000  # the non-terminal that takes the place of an inner rule


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """Which rules may be split off; brackets are pairs of terminals' numbers.

    A rule has each of the `placeholders` of slots on both sides or on neither: what the one reads the other writes.
    Given two targets and a non-terminal of the first, `composes` tells whether the second one can stand for it in
    legal targets.
    """

    repeated_targets: bool = False
    max_non_terminals: int = 2
    brackets: tuple[tuple[int, int], ...] = ()
    bare_targets: bool = True
    placeholders: frozenset[int] = frozenset()
    composes: Callable[[Labels, int, Labels], bool] | None = None
    tabu: LabelRule | None = None  # a rule that is never proposed

    def is_balanced(self, labels: Labels) -> bool:
        for opening, closing in self.brackets:
            depth = 0
            for label in labels:
                if label == opening:
                    depth += 1
                elif label == closing:
                    depth -= 1
                if depth < 0:
                    return False
            if depth:
                return False
        return True

    def allows(self, rule: LabelRule) -> bool:
        is_lone_non_terminal = len(rule.source) == 1 and rule.arity == 1
        return (
            rule.arity <= self.max_non_terminals
            and not is_lone_non_terminal
            and self.is_balanced(rule.source)
            and self.is_balanced(rule.target)
            and (self.bare_targets or len(rule.target) > 1 or rule.target[0] >= 0)
            and self.placeholders.intersection(rule.source)
            == self.placeholders.intersection(rule.target)
        )


class SpanPair(NamedTuple):
    """A span of a rule's source and a substring of its target, non-terminals as leaves."""

    source: Labels
    target: Labels
    start: int
    end: int
    position: int
    length: int

    def is_allowed(self, settings: SplitSettings) -> bool:
        """A string that repeats in the source is never taken out, and in the target only where that is asked for."""
        if _repeats(self.source, self.start, self.end - self.start):
            return False
        return settings.repeated_targets or not _repeats(self.target, self.position, self.length)

    def inner(self) -> LabelRule | None:
        """The pair itself as a rule."""
        target = self.target[self.position : self.position + self.length]
        return rule_of_leaves(self.source[self.start : self.end], target)

    def outer(self) -> LabelRule | None:
        """What is left of the rule: a new non-terminal for the span and for every occurrence of the substring."""
        target = replaced(self.target, self.position, self.length)
        return rule_of_leaves(
            (*self.source[: self.start], NEW_LEAF, *self.source[self.end :]), target
        )

    def proposed(self, kind: int, settings: SplitSettings) -> LabelRule | None:
        """The outer rule where the inner one is derivable (INSIDE), else the inner one; None if it is not allowed."""
        if not self.is_allowed(settings):
            return None
        rule = self.outer() if kind == INSIDE else self.inner()
        if rule is None or not settings.allows(rule):
            return None
        companion = self.inner() if kind == INSIDE else self.outer()
        if companion is None:
            return None
        outer, inner = (rule, companion) if kind == INSIDE else (companion, rule)
        return rule if self.composes(settings, outer, inner) else None

    def composes(self, settings: SplitSettings, outer: LabelRule, inner: LabelRule) -> bool:
        """Whether legal targets can have the inner rule's target where the outer one has its new non-terminal."""
        hole = 1 + sum(label <= LEAF for label in self.source[: self.start])
        return settings.composes is None or settings.composes(outer.target, hole, inner.target)


def _repeats(side: Labels, position: int, length: int) -> bool:
    """Whether the string of that length at a position of a side occurs elsewhere, too."""
    string = side[position : position + length]
    return any(
        side[at : at + length] == string for at in range(len(side) - length + 1) if at != position
    )


def replaced(target: Labels, position: int, length: int) -> Labels:
    """The target with the new non-terminal for every occurrence of a substring of it, from left to right."""
    string, labels, at = target[position : position + length], list[int](), 0
    while at < len(target):
        if target[at : at + length] == string:
            labels.append(NEW_LEAF)
            at += length
        else:
            labels.append(target[at])
            at += 1
    return tuple(labels)


class ProposalCache:
    """What the pairs of a rule propose, kept because a search looks at the same rules again and again."""

    def __init__(self) -> None:
        self._proposals: dict[LabelRule, dict[Labels, LabelRule | None]] = {}
        self._count = 0

    def proposed(
        self, rule: LabelRule, rows: Iterable[Labels], settings: SplitSettings
    ) -> Iterator[LabelRule | None]:
        """For each row of `fill_candidates` the rule that it proposes, whether tabu or not, or None."""
        if self._count > MAX_CACHED_PROPOSALS:
            self._proposals, self._count = {}, 0
        proposals = self._proposals.setdefault(rule, {})
        before, source, target = len(proposals), rule.leaf_source(), rule.leaf_target()
        for row in rows:
            if row not in proposals:
                proposals[row] = SpanPair(source, target, *row[1:]).proposed(row[0], settings)
            yield proposals[row]
        self._count += len(proposals) - before


def candidates(
    rules: Sequence[LabelRule],
    grammar: GrammarArrays,
    settings: SplitSettings,
    cache: ProposalCache | None = None,
) -> list[set[LabelRule]]:
    """For each of `rules` the rules that would derive it, together with those of `grammar` other than itself."""
    cache = cache or ProposalCache()
    sources = Ragged.of(rule.leaf_source() for rule in rules)
    targets = Ragged.of(rule.leaf_target() for rule in rules)
    charts = encoded_charts(grammar, sources, prune=False)
    max_arity = grammar.max_arity
    proposed: list[set[LabelRule]] = []
    capacity = INITIAL_CAPACITY
    while len(proposed) < len(rules):
        begin = len(proposed)
        goals = goal_workspace(charts.most_nodes, targets.longest, max_arity, capacity)
        work = candidate_workspace(sources.longest, max_arity, capacity)
        first_row = np.zeros(len(rules) + 1, dtype=np.int64)
        out = np.empty((max(capacity, OUTPUT_CAPACITY), 5), dtype=np.int32)
        end = fill_candidates(begin, sources, targets, grammar, charts, goals, work, first_row, out)
        for number in range(begin, end):
            rows = out[first_row[number] : first_row[number + 1]].tolist()
            proposals = cache.proposed(rules[number], map(tuple, rows), settings)
            proposed.append(
                {rule for rule in proposals if rule is not None and rule != settings.tabu}
            )
        if end == begin:
            capacity = grow(capacity, MAX_CAPACITY, f"rule {begin}")
    return proposed


OUTER, INNER = range(2)  # the factors of a split


@dataclass(frozen=True, slots=True)
class SplitTable:
    """SPLIT(f), as far as it takes the same non-terminals out of f: each of some spans with each of some substrings.

    The first axis of the arrays is for the outer and the inner rules. There may be millions of them, so only their
    bits and hashes are kept: the rules themselves would take gigabytes.
    """

    spans: tuple[tuple[int, int], ...]  # (S) start, end
    substrings: tuple[tuple[int, int], ...]  # (P) position, length
    source_bits: FloatArray  # (2, S)
    target_bits: FloatArray  # (2, P)
    buckets: Int32Array  # (2, S, P): equal for equal rules, seldom for others

    def bits(self) -> FloatArray:
        """What each rule costs: (2, S, P)."""
        return self.source_bits[:, :, None] + self.target_bits[:, None, :]

    def pairs(self, rule: LabelRule, chosen: Mask) -> Iterator[tuple[SpanPair, int]]:
        """The pairs of some of the rules, each with OUTER or INNER."""
        source, target = rule.leaf_source(), rule.leaf_target()
        for factor, span, substring in np.argwhere(chosen).tolist():
            yield SpanPair(source, target, *self.spans[span], *self.substrings[substring]), factor


class Sides(NamedTuple):
    """The sources and the targets of the outer, or of the inner rules of a table, leaves numbered as in rules."""

    sources: list[Labels]
    targets: list[Labels]


def outer_sides(
    source: Labels,
    spans: Sequence[tuple[int, int]],
    targets: Iterable[Labels],
    numbering: Mapping[int, int],
) -> Sides:
    """A new leaf stands for each of the spans; `targets` have it already."""
    sources = [(*source[:start], NEW_LEAF, *source[end:]) for start, end in spans]
    return Sides(_renumbered(sources, numbering), _renumbered(targets, numbering))


def inner_sides(
    rule_sides: tuple[Labels, Labels],
    spans: Iterable[tuple[int, int]],
    substrings: Iterable[tuple[int, int]],
    numbering: Mapping[int, int],
) -> Sides:
    """The spans and the substrings themselves."""
    source, target = rule_sides
    sources = [source[start:end] for start, end in spans]
    targets = [target[position : position + length] for position, length in substrings]
    return Sides(_renumbered(sources, numbering), _renumbered(targets, numbering))


def _renumbered(sides: Iterable[Labels], numbering: Mapping[int, int]) -> list[Labels]:
    return [tuple(numbering.get(label, label) for label in side) for side in sides]


def all_splits(
    rule: LabelRule, settings: SplitSettings, side_bits: Callable[[Labels], float]
) -> Iterator[SplitTable]:
    """Every way to split a rule into an outer and an inner one that are both allowed, whether they compose or not."""
    source, target = rule.leaf_source(), rule.leaf_target()
    if not (settings.is_balanced(source) and settings.is_balanced(target)):
        return
    substrings_by_leaves = _substrings(target, settings)
    for (low, high), spans in _spans(source, settings).items():
        # The leaves inside of the spans. A substring fits that has the same ones, if none of them is left outside.
        leaves = range(LEAF - 1 - low, LEAF - 1 - high, -1)
        outer_targets: dict[tuple[int, int], Labels] = {}
        for substring in substrings_by_leaves.get(tuple(leaves), ()):
            rest = replaced(target, *substring)
            if not any(leaf in rest for leaf in leaves):
                outer_targets[substring] = rest
        # As rules the two are numbered from the left: in the outer one, the new leaf takes the first one's number and
        # those behind it move up; the inner one's begin at 1.
        outer_numbering = {
            LEAF - 1 - number: LEAF - 2 - number + len(leaves) for number in range(high, rule.arity)
        }
        outer_numbering[NEW_LEAF] = LEAF - 1 - low
        inner_numbering = {leaf: leaf + low for leaf in leaves}
        outer = outer_sides(source, spans, outer_targets.values(), outer_numbering)
        inner = inner_sides((source, target), spans, outer_targets, inner_numbering)
        source_hashes = np.array(
            [list(map(hash, outer.sources)), list(map(hash, inner.sources))], dtype=np.int64
        )
        target_hashes = np.array(
            [list(map(hash, outer.targets)), list(map(hash, inner.targets))], dtype=np.int64
        )
        yield SplitTable(
            spans=tuple(spans),
            substrings=tuple(outer_targets),
            source_bits=np.array(
                [list(map(side_bits, outer.sources)), list(map(side_bits, inner.sources))]
            ),
            target_bits=np.array(
                [list(map(side_bits, outer.targets)), list(map(side_bits, inner.targets))]
            ),
            buckets=bucket(source_hashes[:, :, None], target_hashes[:, None, :]),
        )


def bucket(sources: Int64Array, targets: Int64Array) -> Int32Array:
    """A small number for the hashes of rules' sides."""
    mixed = (
        sources.astype(np.uint64) * FIBONACCI_FACTOR + targets.astype(np.uint64)
    ) * FIBONACCI_FACTOR
    return (mixed >> np.uint64(64 - BUCKET_BITS)).astype(np.int32)


def _spans(source: Labels, settings: SplitSettings) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The spans that may be taken out, by the numbers of non-terminals before their starts and ends."""
    before = [0, *accumulate(label <= LEAF for label in source)]
    repeated, _ = _longest_repeated(source)
    spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for start, end in combinations(range(len(source) + 1), 2):
        inner_arity = before[end] - before[start]
        is_trivial = end - start == len(source) or (end - start == 1 and inner_arity == 1)
        is_allowed = max(inner_arity, before[-1] - inner_arity + 1) <= settings.max_non_terminals
        if (
            is_allowed
            and not is_trivial
            and end - start > repeated[start]
            and settings.is_balanced(source[start:end])
        ):
            spans.setdefault((before[start], before[end]), []).append((start, end))
    return spans


def _substrings(
    target: Labels, settings: SplitSettings
) -> dict[tuple[int, ...], list[tuple[int, int]]]:
    """The substrings that may be taken out, each once, by the non-terminals in them in their order."""
    anywhere, before = _longest_repeated(target)
    repeated = before if settings.repeated_targets else anywhere
    substrings: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for position, shortest in enumerate(repeated):
        for length in range(shortest + 1, len(target) - position + 1):
            string = target[position : position + length]
            is_bare = length == len(target) or (length == 1 and string[0] <= LEAF)
            if settings.is_balanced(string) and (settings.bare_targets or not is_bare):
                leaves = sorted({label for label in string if label <= LEAF}, reverse=True)
                substrings.setdefault(tuple(leaves), []).append((position, length))
    return substrings


def _longest_repeated(labels: Labels) -> tuple[list[int], list[int]]:
    """For each position the length of the longest string from there that occurs elsewhere, and further left.

    >>> _longest_repeated((7, 8, 7, 8, 9))
    ([2, 1, 2, 1, 0], [0, 0, 2, 1, 0])
    """
    array, common = np.array(labels), np.zeros(len(labels) + 1, dtype=np.int64)
    anywhere, before = [0] * len(labels), [0] * len(labels)
    for position in range(len(labels) - 1, -1, -1):
        common[:-1] = np.where(
            array == labels[position], common[1:] + 1, 0
        )  # with the string from each position on
        before[position] = int(common[:position].max(initial=0))
        anywhere[position] = max(before[position], int(common[position + 1 : -1].max(initial=0)))
    return anywhere, before


class SplitPool:
    """The splits of rules, of which the most promising become candidates first.

    There may be millions of them, and few pay: the two factors of a split cost more than the rule, unless other rules
    share one. So what is kept of a factor is a hash, and for each hash the bits that all splits with such a factor
    would save together, which is a bound. Factors whose bound reaches a threshold are released, and it is lowered.
    """

    def __init__(
        self, settings: SplitSettings, side_bits: Callable[[Labels], float], least: float
    ) -> None:
        self.threshold = math.inf
        self._settings, self._side_bits, self._least = settings, side_bits, least
        self._tables: dict[LabelRule, list[SplitTable]] = {}
        self._new: set[LabelRule] = set()
        self._saved = np.zeros(1 << BUCKET_BITS)
        self._is_released = np.zeros(1 << BUCKET_BITS, dtype=np.bool_)
        self._next = math.inf  # the best bound of those that have not been released

    def add(self, rule: LabelRule) -> None:
        if rule not in self._tables:
            self._tables[rule] = list(all_splits(rule, self._settings, self._side_bits))
            self._new.add(rule)
            self._count(rule, self._tables[rule], np.add)

    def remove(self, rule: LabelRule) -> None:
        self._count(rule, self._tables.pop(rule), np.subtract)

    def _count(self, rule: LabelRule, tables: Iterable[SplitTable], how: np.ufunc) -> None:
        bits = self._side_bits(rule.source) + self._side_bits(rule.target)
        for table in tables:
            how.at(
                self._saved, table.buckets, bits - table.bits()[::-1]
            )  # less what the other factor costs

    def release(self, rules: Iterable[LabelRule]) -> None:
        """Release next whatever has one of `rules` for a factor."""
        hashes = np.array(
            [(hash(rule.leaf_source()), hash(rule.leaf_target())) for rule in rules], dtype=np.int64
        )
        self._saved[bucket(*hashes.reshape(-1, 2).T)] = np.inf

    def lower_threshold(self) -> None:
        self.threshold = (
            max(self._least, self._next / 2) if self._next > self._least else self._least
        )

    def released(self) -> Iterator[tuple[LabelRule, LabelRule, LabelRule]]:
        """A factor, the other one and the rule that both derive, for all that are above the threshold now."""
        opened, self._next = [], -math.inf
        for rule, tables in self._tables.items():
            pairs: list[tuple[SpanPair, int]] = []
            for table in tables:
                bounds, was_released = (
                    self._saved[table.buckets] - table.bits(),
                    self._is_released[table.buckets],
                )
                is_reached = (bounds >= self.threshold - ROUNDING) & ~was_released
                self._next = max(
                    self._next, bounds[~is_reached & ~was_released].max(initial=-math.inf)
                )
                opened.append(table.buckets[is_reached])
                pairs += table.pairs(
                    rule, is_reached | was_released if rule in self._new else is_reached
                )
            for pair, factor in sorted(pairs):
                outer, inner = pair.outer(), pair.inner()
                assert outer is not None, "only splits into two rules are kept"
                assert inner is not None, "only splits into two rules are kept"
                has_placeholders = self._settings.allows(outer) and self._settings.allows(
                    inner
                )  # on both sides
                if has_placeholders and pair.composes(self._settings, outer, inner):
                    yield (outer, inner, rule) if factor == OUTER else (inner, outer, rule)
        self._is_released[np.concatenate([*opened, np.zeros(0, dtype=np.int32)])] = True
        self._new.clear()


# The counters of a CandidateWorkspace.
CANDIDATE_PAIRS, CANDIDATE_STATES, CANDIDATE_ROWS, CANDIDATES_FULL = range(4)
INSIDE, OUTSIDE = range(2)


class CandidateWorkspace(NamedTuple):
    """Scratch arrays for one rule, used again for the next."""

    used: Int64Array
    cells: Int32Array  # (n + 1, n + 1): node of a span, or NOTHING
    pairs: Int32Array  # (capacity, 4): needed pairs as start, end, position, length
    newest_pair: Int32Array  # (n + 1, n + 1): newest needed pair over a span
    older_pair: Int32Array  # per needed pair: the one before it over the same span
    trie_nodes: Int32Array  # per state of a rule that is being laid over a span: its trie node
    positions: Int32Array  # per state: how far it has read
    counts: Int32Array  # per state: how many non-terminals it has passed
    holes: Int32Array  # per state: which of them is the hole, or NOTHING
    bounds: Int32Array  # (capacity, 2 K): per state: start and end of each of its non-terminals
    spans: Int32Array  # (2 K,): those of the state being solved
    rows: Int32Array  # (capacity, 5): INSIDE or OUTSIDE, start, end, position, length


def candidate_workspace(longest: int, max_arity: int, capacity: int) -> CandidateWorkspace:
    """Scratch arrays for rules with at most `longest` source symbols, for so many pairs, states and findings."""
    return CandidateWorkspace(
        used=np.zeros(4, dtype=np.int64),
        cells=ints(longest + 1, longest + 1),
        pairs=ints(capacity, 4),
        newest_pair=ints(longest + 1, longest + 1),
        older_pair=ints(capacity),
        trie_nodes=ints(capacity),
        positions=ints(capacity),
        counts=ints(capacity),
        holes=ints(capacity),
        bounds=ints(capacity, 2 * max_arity),
        spans=ints(2 * max_arity),
        rows=ints(capacity, 5),
    )


@inlined
def _append_row(
    kind: int, start: int, end: int, position: int, length: int, work: CandidateWorkspace
) -> None:
    at = work.used[CANDIDATE_ROWS]
    if at == len(work.rows):
        work.used[CANDIDATES_FULL] = 1
        return
    row = work.rows[at]
    row[0], row[1], row[2], row[3], row[4] = kind, start, end, position, length
    work.used[CANDIDATE_ROWS] += 1


@inlined
def _add_outside_pair(
    start: int, end: int, position: int, length: int, work: CandidateWorkspace
) -> None:
    """Note that a pair is needed, if it was not yet."""
    pair = work.newest_pair[start, end]
    while pair != NOTHING:
        if work.pairs[pair, 2] == position and work.pairs[pair, 3] == length:
            return
        pair = work.older_pair[pair]
    pair = work.used[CANDIDATE_PAIRS]
    if pair == len(work.pairs):
        work.used[CANDIDATES_FULL] = 1
        return
    row = work.pairs[pair]
    row[0], row[1], row[2], row[3] = start, end, position, length
    work.older_pair[pair] = work.newest_pair[start, end]
    work.newest_pair[start, end] = pair
    work.used[CANDIDATE_PAIRS] += 1


@inlined
def _push(trie_node: int, position: int, count: int, hole: int, work: CandidateWorkspace) -> None:
    """A new state on the stack, whose non-terminals lie over `spans`."""
    state = work.used[CANDIDATE_STATES]
    if state == len(work.trie_nodes):
        work.used[CANDIDATES_FULL] = 1
        return
    work.trie_nodes[state], work.positions[state] = trie_node, position
    work.counts[state], work.holes[state] = count, hole
    for at in range(2 * count):
        work.bounds[state, at] = work.spans[at]
    work.used[CANDIDATE_STATES] += 1


@inlined
def _hole_length(
    rule: int, hole: int, length: int, grammar: GrammarArrays, goals: GoalWorkspace
) -> int:
    """How long the hole's part must be for the rule to yield `length` tokens, or NOTHING if no length will do."""
    holes = 0
    for at in range(grammar.targets.offsets[rule], grammar.targets.offsets[rule + 1]):
        symbol = grammar.targets.values[at]
        if symbol >= 0:
            length -= 1
        elif -symbol - 1 == hole:
            holes += 1
        else:
            length -= goals.lengths[goals.chosen_goals[-symbol - 1]]
    return length // holes if length > 0 and length % holes == 0 else NOTHING


@inlined
def _hole_position(
    rule: int,
    hole: int,
    size: int,
    position: int,
    target: Int32Array,
    grammar: GrammarArrays,
    goals: GoalWorkspace,
) -> int:
    """Lay the rule over the target from `position` on; where the hole falls first, or NOTHING if it does not fit."""
    found = NOTHING
    for at in range(grammar.targets.offsets[rule], grammar.targets.offsets[rule + 1]):
        symbol = grammar.targets.values[at]
        if symbol >= 0:
            if target[position] != symbol:
                return NOTHING
            position += 1
            continue
        part, length = found, size
        if -symbol - 1 != hole:
            part, length = (
                goals.positions[goals.chosen_goals[-symbol - 1]],
                goals.lengths[goals.chosen_goals[-symbol - 1]],
            )
        elif found == NOTHING:
            found = part = position
        for offset in range(length):
            if target[part + offset] != target[position + offset]:
                return NOTHING
        position += length
    return found


@inlined
def _solve_hole(
    rule: int,
    hole: int,
    pair: int,
    target: Int32Array,
    grammar: GrammarArrays,
    goals: GoalWorkspace,
    work: CandidateWorkspace,
) -> None:
    """Note what the hole would have to yield, with every combination of goals for the other non-terminals."""
    arity = grammar.arities[rule]
    for at in range(arity):
        goals.nodes[at] = (
            NOTHING if at == hole else work.cells[work.spans[2 * at], work.spans[2 * at + 1]]
        )
    more = choose_first(arity, goals)
    while more and not work.used[CANDIDATES_FULL]:
        length = _hole_length(rule, hole, work.pairs[pair, 3], grammar, goals)
        if length != NOTHING:
            position = _hole_position(
                rule, hole, length, work.pairs[pair, 2], target, grammar, goals
            )
            if position != NOTHING:
                first = find_run(target[position : position + length], target, 0) - length
                _add_outside_pair(
                    work.spans[2 * hole], work.spans[2 * hole + 1], first, length, work
                )
        more = choose_next(arity, goals)


@inlined
def _expand_outside_pair(
    pair: int,
    source: Int32Array,
    target: Int32Array,
    grammar: GrammarArrays,
    goals: GoalWorkspace,
    work: CandidateWorkspace,
) -> None:
    """Lay every rule over a needed pair, one non-terminal left open."""
    start, end = work.pairs[pair, 0], work.pairs[pair, 1]
    work.used[CANDIDATE_STATES] = 0
    _push(TRIE_ROOT, start, 0, NOTHING, work)
    while work.used[CANDIDATE_STATES] > 0 and not work.used[CANDIDATES_FULL]:
        state = work.used[CANDIDATE_STATES] - 1
        work.used[CANDIDATE_STATES] = state
        trie_node, position = work.trie_nodes[state], work.positions[state]
        count, hole = work.counts[state], work.holes[state]
        for at in range(2 * count):
            work.spans[at] = work.bounds[state, at]
        if position == end:
            last = grammar.trie.first_item[trie_node + 1] if hole != NOTHING else 0
            for rule in grammar.trie.items[grammar.trie.first_item[trie_node] : last]:
                if grammar.active[rule]:
                    _solve_hole(rule, hole, pair, target, grammar, goals, work)
            continue
        behind = successor(grammar.trie, trie_node, source[position])
        if behind != NOWHERE:
            _push(behind, position + 1, count, hole, work)
        behind = grammar.over_nt[trie_node]
        if behind == NOWHERE:
            continue
        for stop in range(position + 1, min(end, position + end - start - 1) + 1):
            work.spans[2 * count], work.spans[2 * count + 1] = position, stop
            if work.cells[position, stop] != NOTHING:
                _push(behind, stop, count + 1, hole, work)
            is_leaf = stop == position + 1 and source[position] <= LEAF
            if hole == NOTHING and not is_leaf:
                _push(behind, stop, count + 1, count, work)


@unmanaged_kernel
def fill_candidates(
    begin: int,
    sources: Ragged,
    targets: Ragged,
    grammar: GrammarArrays,
    charts: Hypergraph,
    goals: GoalWorkspace,
    work: CandidateWorkspace,
    first_row: Int64Array,
    out: Int32Array,
) -> int:
    """Pass over the rules from `begin` on; returns the first one that did not fit, or their number.

    What is found for rule r lands in rows first_row[r]:first_row[r + 1] of `out`.
    """
    rules = len(sources.offsets) - 1
    for rule in range(begin, rules):
        source = sources.values[sources.offsets[rule] : sources.offsets[rule + 1]]
        target = targets.values[targets.offsets[rule] : targets.offsets[rule + 1]]
        first, count = charts.first_node[rule], len(source)
        work.used[:] = 0
        if not find_goals(rule, target, False, grammar, charts, goals):
            return rule
        work.cells[: count + 1, : count + 1] = NOTHING
        for node in range(first, charts.first_node[rule + 1]):
            work.cells[charts.starts[node], charts.ends[node]] = node - first
        for goal in range(
            goals.graph.used[GRAPH_NODES]
        ):  # inside: every derivable pair but the whole source and lone leaves
            start, end = goals.graph.starts[goal], goals.graph.ends[goal]
            is_leaf = end == start + 1 and source[start] <= LEAF
            if end - start < count and not is_leaf:
                _append_row(INSIDE, start, end, goals.positions[goal], goals.lengths[goal], work)
        work.newest_pair[: count + 1, : count + 1] = NOTHING
        _add_outside_pair(0, count, 0, len(target), work)
        pair = 0
        while pair < work.used[CANDIDATE_PAIRS] and not work.used[CANDIDATES_FULL]:  # outside
            _expand_outside_pair(pair, source, target, grammar, goals, work)
            pair += 1
        for pair in range(1, work.used[CANDIDATE_PAIRS]):
            needed = work.pairs[pair]
            _append_row(OUTSIDE, needed[0], needed[1], needed[2], needed[3], work)
        at = first_row[rule]
        if work.used[CANDIDATES_FULL] or at + work.used[CANDIDATE_ROWS] > len(out):
            return rule
        for row in range(work.used[CANDIDATE_ROWS]):
            for column in range(5):
                out[at + row, column] = work.rows[row, column]
        first_row[rule + 1] = at + work.used[CANDIDATE_ROWS]
    return rules
