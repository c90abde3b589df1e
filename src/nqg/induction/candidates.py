"""SPLIT, NEW and ELIM of appendix A.2: which rules could replace a rule, given the rest of the
grammar.

`candidates` answers for many rules at once. A candidate g of a rule f derives f together with what
the grammar derives already. So NEW is the union of all rules' candidates, and ELIM(g) is the set of
rules that have g among theirs.

Every candidate is a *factor* of a split. A split takes a pair (span of the source, substring of the
target) out of f. The pair is the inner rule; the outer rule has a non-terminal where the pair was.

Candidates come from one synchronous inside-outside pass over the two sides of f, which are charted
like a sentence and its target, with the non-terminals of f as leaves.

*Inside*: the goals of the chart are the pairs that the grammar derives. Where the inner rule is
derivable, the outer rule is a candidate.

*Outside*: an outside pair is one with which f could be derived, were the pair derivable. The pair
(all of the source, all of the target) is one. If a rule covers an outside pair with all of its
non-terminals but one (the *hole*) over pairs that are derivable, then what is left for the hole is
an outside pair. Where the outer rule is derivable, the inner rule is a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, combinations
from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import FloatArray, Int32Array, Int64Array
from nqg.grammar.chart import (
    INITIAL_CAPACITY,
    MAX_CAPACITY,
    OUTPUT_CAPACITY,
    encoded_charts,
    grow,
)
from nqg.grammar.chart_kernels import (
    GRAPH_NODES,
    NOTHING,
    clear,
    clear_table,
    ints,
)
from nqg.grammar.compilation import inlined, unmanaged_kernel
from nqg.grammar.encoding import LEAF, NOWHERE, TRIE_ROOT, GrammarArrays, successor
from nqg.grammar.goal_kernels import (
    GoalWorkspace,
    choose_first,
    choose_next,
    find_goals,
    goal_workspace,
)
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.ragged import Ragged, offsets_from_lengths
from nqg.induction.corpus import find_run
from nqg.induction.description_length import LabelRule, Labels, rule_of_leaves
from nqg.induction.settings import ROUNDING
from nqg.induction.work import (
    CHART_UNITS,
    PROPOSAL_UNITS,
    SIDE_UNITS,
    SPLIT_UNITS,
    WorkMeter,
)

# A bound on memory: a rule of GeoQuery has about five proposals of half a kilobyte each.
MAX_CACHED_RULES = 40_000
# Of the hash of a factor: the tables of a pool take 36 MB.
BUCKET_BITS = 22
# Fibonacci hashing: 2^64 / golden ratio, which is odd and has bits all over.
FIBONACCI_FACTOR = np.uint64(0x9E3779B97F4A7C15)
# The non-terminal that takes the place of an inner rule; no rule has a thousand others.
NEW_LEAF = LEAF - 1000
# The factors of a split.
OUTER, INNER = range(2)

Split = tuple[LabelRule, LabelRule]
# What each rule's pairs propose, by the rows of `fill_candidates`. A search asks for the same rules
# again and again.
ProposalCache = dict[LabelRule, dict[Labels, LabelRule | None]]


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """Which rules may be split off; brackets are pairs of terminals' numbers.

    A rule has each of the `placeholders` of slots on both sides or on neither. `composes` takes two
    targets and a non-terminal of the first, and tells whether the second can replace it in legal
    targets. The rule `tabu` is never proposed.
    """

    repeated_targets: bool = False
    max_non_terminals: int = 2
    brackets: tuple[tuple[int, int], ...] = ()
    bare_targets: bool = True
    placeholders: frozenset[int] = frozenset()
    composes: Callable[[Labels, int, Labels], bool] | None = None
    tabu: LabelRule | None = None

    def is_balanced(self, labels: Labels) -> bool:
        for opening, closing in self.brackets:
            depth = 0
            for label in labels:
                depth += (label == opening) - (label == closing)
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
            and self.keeps_placeholders(rule)
        )

    def keeps_placeholders(self, rule: LabelRule) -> bool:
        """Whether each placeholder is on both sides or on neither."""
        of_source = self.placeholders.intersection(rule.source)
        return of_source == self.placeholders.intersection(rule.target)


class SpanPair(NamedTuple):
    """A span of a rule's source and a substring of its target, non-terminals as leaves."""

    source: Labels
    target: Labels
    start: int
    end: int
    position: int
    length: int

    def split(self) -> Split | None:
        """The outer and the inner rule; None if the leaves of their sides differ.

        The outer rule has a new non-terminal for the span and for every occurrence of the
        substring, from left to right.
        """
        string = self.target[self.position : self.position + self.length]
        rest: list[int] = []
        at = 0
        while at < len(self.target):
            if self.target[at : at + self.length] == string:
                rest.append(NEW_LEAF)
                at += self.length
            else:
                rest.append(self.target[at])
                at += 1
        source = (*self.source[: self.start], NEW_LEAF, *self.source[self.end :])
        outer = rule_of_leaves(source, rest)
        inner = rule_of_leaves(self.source[self.start : self.end], string)
        if outer is None or inner is None:
            return None
        return outer, inner

    def proposed(self, factor: int, settings: SplitSettings) -> LabelRule | None:
        """A factor of the split, or None if it is not allowed.

        A string that repeats in the source is never taken out; in the target the settings decide.
        """
        if _repeats(self.source, self.start, self.end - self.start):
            return None
        if not settings.repeated_targets and _repeats(
            self.target, self.position, self.length
        ):
            return None
        split = self.split()
        if split is None or not settings.allows(split[factor]):
            return None
        return split[factor] if self.composes(settings, split) else None

    def composes(self, settings: SplitSettings, split: Split) -> bool:
        """Whether legal targets can have the inner target for the new non-terminal of the outer."""
        if settings.composes is None:
            return True
        outer, inner = split
        hole = 1 + sum(label <= LEAF for label in self.source[: self.start])
        return settings.composes(outer.target, hole, inner.target)


def _repeats(side: Labels, position: int, length: int) -> bool:
    """Whether the string of that length at a position of a side occurs elsewhere, too."""
    string = side[position : position + length]
    starts = range(len(side) - length + 1)
    return any(side[at : at + length] == string for at in starts if at != position)


def candidates(
    rules: Sequence[LabelRule],
    grammar: GrammarArrays,
    settings: SplitSettings,
    cache: ProposalCache | None = None,
    meter: WorkMeter | None = None,
) -> list[set[LabelRule]]:
    """For each rule the rules that would derive it, together with those of `grammar` but itself."""
    cache = {} if cache is None else cache
    meter = meter or WorkMeter()
    if len(cache) > MAX_CACHED_RULES:
        cache.clear()
    # Non-terminals become leaves, so that a rule is charted like a sentence.
    leaf_sources = [rule.leaf_source() for rule in rules]
    leaf_targets = [rule.leaf_target() for rule in rules]
    sources, targets = Ragged.of(leaf_sources), Ragged.of(leaf_targets)
    charts = encoded_charts(grammar, sources, prune=False)
    meter.spend(CHART_UNITS + charts.hyperedges)
    sizes = sources.longest + 1, sources.longest + 1
    capacity = INITIAL_CAPACITY
    proposed: list[set[LabelRule]] = []
    while len(proposed) < len(rules):
        # The kernel passes over as many rules as its buffers have room for.
        begin = len(proposed)
        goals = goal_workspace(
            charts.most_nodes, targets.longest, grammar.max_arity, capacity
        )
        work = CandidateWorkspace(
            used=np.zeros(3, dtype=np.int64),
            cells=ints(*sizes),
            pairs=ints(capacity, 4),
            newest_pair=ints(*sizes),
            older_pair=ints(capacity),
            states=ints(capacity, FIRST_BOUND + 2 * grammar.max_arity),
            spans=ints(2 * grammar.max_arity),
        )
        first_row = np.zeros(len(rules) + 1, dtype=np.int64)
        out = ints(max(capacity, OUTPUT_CAPACITY), 5)
        end = fill_candidates(
            begin, sources, targets, grammar, charts, goals, work, first_row, out
        )
        meter.spend(CHART_UNITS + first_row[end])
        # Not even one rule fitted, so the next round has larger buffers.
        if end == begin:
            capacity = grow(capacity, MAX_CAPACITY, f"rule {begin}")
        # Its rows are turned into rules, unless that was done before.
        for number in range(begin, end):
            proposals = cache.setdefault(rules[number], {})
            allowed: set[LabelRule] = set()
            for row in map(
                tuple, out[first_row[number] : first_row[number + 1]].tolist()
            ):
                if row not in proposals:
                    pair = SpanPair(
                        leaf_sources[number], leaf_targets[number], *row[1:]
                    )
                    proposals[row] = pair.proposed(row[0], settings)
                    meter.spend(PROPOSAL_UNITS)
                rule = proposals[row]
                if rule is not None and rule != settings.tabu:
                    allowed.add(rule)
            proposed.append(allowed)
    return proposed


class TableEntry(NamedTuple):
    """A factor of a split in a table."""

    span: tuple[int, int]
    substring: tuple[int, int]
    factor: int


@dataclass(frozen=True, slots=True)
class SplitTable:
    """Splits of a rule that take the same non-terminals out of it: all of some spans × substrings.

    The first axis of the arrays is for the outer and the inner rules. There may be millions of
    them, so only their bits and hashes are kept: the rules themselves would take gigabytes.
    """

    rule: LabelRule
    spans: list[tuple[int, int]]  # (S) start, end
    substrings: list[tuple[int, int]]  # (P) position, length
    bits: FloatArray  # (2, S, P)
    buckets: Int32Array  # (2, S, P): equal for equal rules, seldom for others

    def entry(self, index: int) -> TableEntry:
        """An entry of the flat arrays."""
        factor, rest = divmod(index, len(self.spans) * len(self.substrings))
        span, substring = divmod(rest, len(self.substrings))
        return TableEntry(self.spans[span], self.substrings[substring], factor)


def all_splits(
    rule: LabelRule, settings: SplitSettings, side_bits: Callable[[Labels], float]
) -> Iterator[SplitTable]:
    """Every split of a rule into two that are both allowed, whether they compose or not."""
    source, target = rule.leaf_source(), rule.leaf_target()
    if not (settings.is_balanced(source) and settings.is_balanced(target)):
        return
    all_leaves = tuple(label for label in source if label <= LEAF)
    substrings_by_leaves = _substrings(target, settings)
    for (low, high), spans in _spans(source, settings).items():
        # A substring fits a span that has the same leaves, if none of them is left outside. Of the
        # source, only the leaves matter for that.
        leaves = tuple(range(LEAF - 1 - low, LEAF - 1 - high, -1))
        by_substring: dict[tuple[int, int], Split] = {}
        for substring in substrings_by_leaves.get(leaves, ()):
            split = SpanPair(all_leaves, target, low, high, *substring).split()
            if split is not None:
                by_substring[substring] = split
        if not by_substring:
            continue
        # The source of either factor depends on the span alone, and its target on the substring,
        # since the leaves are numbered in the same order in all of these splits.
        substrings = list(by_substring)
        by_span: list[Split] = []
        for span in spans:
            split = SpanPair(source, target, *span, *substrings[0]).split()
            if split is not None:
                by_span.append(split)
        bits, buckets = [], []
        for factor in (OUTER, INNER):
            sources = [split[factor].source for split in by_span]
            targets = [split[factor].target for split in by_substring.values()]
            bits.append(
                np.add.outer(
                    list(map(side_bits, sources)), list(map(side_bits, targets))
                )
            )
            buckets.append(_buckets(_hashes(sources)[:, None], _hashes(targets)))
        yield SplitTable(rule, spans, substrings, np.stack(bits), np.stack(buckets))


def _hashes(sides: Iterable[Labels]) -> Int64Array:
    return np.fromiter(map(hash, sides), dtype=np.int64)


def _buckets(sources: Int64Array, targets: Int64Array) -> Int32Array:
    """Small numbers for the hashes of rules' sides."""
    mixed = sources.astype(np.uint64) * FIBONACCI_FACTOR + targets.astype(np.uint64)
    return (mixed * FIBONACCI_FACTOR >> np.uint64(64 - BUCKET_BITS)).astype(np.int32)


def _spans(
    source: Labels, settings: SplitSettings
) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The spans that may be taken out, by the numbers of leaves before their starts and ends."""
    before = [0, *accumulate(label <= LEAF for label in source)]
    repeated, _ = _longest_repeated(source)
    spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for start, end in combinations(range(len(source) + 1), 2):
        inner_arity = before[end] - before[start]
        arity = max(inner_arity, before[-1] - inner_arity + 1)
        is_trivial = end - start == len(source) or (
            end - start == 1 and inner_arity == 1
        )
        if (
            is_trivial
            or arity > settings.max_non_terminals
            or end - start <= repeated[start]
        ):
            continue
        if settings.is_balanced(source[start:end]):
            spans.setdefault((before[start], before[end]), []).append((start, end))
    return spans


def _substrings(
    target: Labels, settings: SplitSettings
) -> dict[Labels, list[tuple[int, int]]]:
    """The substrings that may be taken out, each once, by their leaves in order."""
    anywhere, before = _longest_repeated(target)
    repeated = before if settings.repeated_targets else anywhere
    substrings: dict[Labels, list[tuple[int, int]]] = {}
    for position, shortest in enumerate(repeated):
        for length in range(shortest + 1, len(target) - position + 1):
            string = target[position : position + length]
            is_bare = length == len(target) or (length == 1 and string[0] <= LEAF)
            if settings.is_balanced(string) and (settings.bare_targets or not is_bare):
                leaves = sorted(
                    {label for label in string if label <= LEAF}, reverse=True
                )
                substrings.setdefault(tuple(leaves), []).append((position, length))
    return substrings


def _longest_repeated(labels: Labels) -> tuple[list[int], list[int]]:
    """For each position the length of the longest string that recurs elsewhere, and further left.

    >>> _longest_repeated((7, 8, 7, 8, 9))
    ([2, 1, 2, 1, 0], [0, 0, 2, 1, 0])
    """
    array = np.array(labels)
    # How long the strings from each position on agree with those from the current one on.
    common = np.zeros(len(labels) + 1, dtype=np.int64)
    anywhere, before = [0] * len(labels), [0] * len(labels)
    for position in reversed(range(len(labels))):
        common[:-1] = np.where(array == labels[position], common[1:] + 1, 0)
        before[position] = int(common[:position].max(initial=0))
        anywhere[position] = max(
            before[position], int(common[position + 1 : -1].max(initial=0))
        )
    return anywhere, before


class SplitPool:
    """The splits of rules, of which the most promising become candidates first.

    There may be millions of them, and few pay: the two factors of a split cost more than the rule,
    unless other rules share one. So what is kept of a factor is a hash, and for each hash the bits
    that all splits with such a factor would save together, which is a bound. Factors whose bound
    reaches a threshold are released, and the threshold is lowered.
    """

    def __init__(
        self,
        settings: SplitSettings,
        side_bits: Callable[[Labels], float],
        least: float,
        meter: WorkMeter | None = None,
    ) -> None:
        self.threshold = math.inf
        self._meter = meter or WorkMeter()
        self._settings, self._side_bits, self._least = settings, side_bits, least
        self._tables: dict[LabelRule, list[SplitTable]] = {}
        self._new: set[LabelRule] = set()
        self._saved = np.zeros(1 << BUCKET_BITS)
        self._is_released = np.zeros(1 << BUCKET_BITS, dtype=np.bool_)
        # The best bound of those that have not been released.
        self._next = math.inf

    def add(self, rule: LabelRule) -> None:
        if rule not in self._tables:
            tables = list(all_splits(rule, self._settings, self._side_bits))
            sides = sum(len(table.spans) + len(table.substrings) for table in tables)
            entries = sum(table.bits.size for table in tables)
            self._meter.spend(SIDE_UNITS * sides + entries)
            self._tables[rule] = tables
            self._new.add(rule)
            self._count(rule, np.add)

    def remove(self, rule: LabelRule) -> None:
        self._count(rule, np.subtract)
        del self._tables[rule]

    def _count(self, rule: LabelRule, operation: np.ufunc) -> None:
        """Add or subtract what each factor saves: the rule's bits, less those of its companion."""
        bits = self._side_bits(rule.source) + self._side_bits(rule.target)
        for table in self._tables[rule]:
            operation.at(self._saved, table.buckets, bits - table.bits[::-1])

    def release(self, rules: Iterable[LabelRule]) -> None:
        """Release next whatever has one of `rules` for a factor."""
        for rule in rules:
            self._saved[_buckets(_hashes([rule.source]), _hashes([rule.target]))] = (
                np.inf
            )

    def lower_threshold(self) -> None:
        self.threshold = max(self._least, self._next / 2)

    def released(self) -> Iterator[tuple[LabelRule, LabelRule, LabelRule]]:
        """A factor, its companion and the rule they derive, for all that are above the
        threshold.
        """
        # Most tables have few entries, so NumPy looks at all of them together.
        tables = list(chain.from_iterable(self._tables.values()))
        if not tables:
            self._next = -math.inf
            return
        bits = [table.bits.ravel() for table in tables]
        offsets = offsets_from_lengths(list(map(len, bits)))
        self._meter.spend(SPLIT_UNITS * offsets[-1])
        buckets = np.concatenate([table.buckets.ravel() for table in tables])
        bounds = self._saved[buckets] - np.concatenate(bits)
        was_released = self._is_released[buckets]
        is_reached = (bounds >= self.threshold - ROUNDING) & ~was_released
        self._next = float(bounds[~(is_reached | was_released)].max(initial=-math.inf))
        self._is_released[buckets[is_reached]] = True

        # New rules may have factors that were released because other rules have them.
        is_new = np.repeat(
            [table.rule in self._new for table in tables], np.diff(offsets)
        )
        self._new.clear()
        entries: dict[LabelRule, list[TableEntry]] = {}
        chosen = np.flatnonzero(is_reached | (was_released & is_new))
        numbers = np.searchsorted(offsets, chosen, side="right") - 1
        for number, index in zip(
            numbers.tolist(), (chosen - offsets[numbers]).tolist()
        ):
            table = tables[number]
            entries.setdefault(table.rule, []).append(table.entry(index))
        for rule, of_rule in entries.items():
            for split, factor in self._splits(rule, sorted(of_rule)):
                yield split[factor], split[1 - factor], rule

    def _splits(
        self, rule: LabelRule, entries: Iterable[TableEntry]
    ) -> Iterator[tuple[Split, int]]:
        """The splits of a rule that are legal, each with the factor that its entry has."""
        sides = rule.leaf_source(), rule.leaf_target()
        # Many entries share a span or a substring, and with it a side of both factors. How leaves are
        # numbered in a target also depends on how many stand before the span.
        before = [0, *accumulate(label <= LEAF for label in sides[0])]
        sources: dict[tuple[int, int], tuple[Labels, Labels]] = {}
        targets: dict[tuple[int, tuple[int, int]], tuple[Labels, Labels]] = {}
        for span, substring, factor in entries:
            pair = SpanPair(*sides, *span, *substring)
            hole = before[span[0]], substring
            if span not in sources or hole not in targets:
                split = pair.split()
                assert split is not None, "only splits into two rules are in tables"
                sources[span] = split[OUTER].source, split[INNER].source
                targets[hole] = split[OUTER].target, split[INNER].target
            outer, inner = map(LabelRule, sources[span], targets[hole])
            self._meter.spend(PROPOSAL_UNITS)
            # The tables have no splits that other settings forbid.
            keeps_placeholders = self._settings.keeps_placeholders
            if not (keeps_placeholders(outer) and keeps_placeholders(inner)):
                continue
            if pair.composes(self._settings, (outer, inner)):
                yield (outer, inner), factor


# The counters of a CandidateWorkspace.
CANDIDATE_PAIRS, CANDIDATE_STATES, CANDIDATES_FULL = range(3)
# The columns of its states: a trie node, how far the source was read, how many non-terminals were
# passed, and which of them is the hole, or NOTHING. The starts and ends of these follow.
NODE, READ, PASSED, HOLE, FIRST_BOUND = range(5)


class CandidateWorkspace(NamedTuple):
    """Scratch arrays for one rule, used again for the next.

    The pairs are the outside pairs, in the order in which they were found; each is expanded once.
    The states are a stack of rules that are being laid over the span of one outside pair.
    """

    used: Int64Array
    cells: Int32Array  # (n + 1, n + 1): node of a span, or NOTHING
    pairs: Int32Array  # (capacity, 4): outside pairs as start, end, position, length
    newest_pair: Int32Array  # (n + 1, n + 1): newest outside pair over a span
    older_pair: Int32Array  # per outside pair: the one before it over the same span
    states: Int32Array  # (capacity, FIRST_BOUND + 2 K)
    spans: Int32Array  # (2 K,): starts and ends of the current state's non-terminals


@inlined
def _add_outside_pair(
    start: int, end: int, position: int, length: int, work: CandidateWorkspace
) -> None:
    """Append an outside pair, unless it is there already."""
    # Pairs over one span are a linked list, from the newest to the oldest.
    pair = work.newest_pair[start, end]
    while pair != NOTHING:
        if work.pairs[pair, 2] == position and work.pairs[pair, 3] == length:
            return
        pair = work.older_pair[pair]
    # A full workspace is marked; the rule is then tried again with fresh buffers.
    pair = work.used[CANDIDATE_PAIRS]
    if pair == len(work.pairs):
        work.used[CANDIDATES_FULL] = 1
        return
    work.pairs[pair, 0], work.pairs[pair, 1] = start, end
    work.pairs[pair, 2], work.pairs[pair, 3] = position, length
    work.older_pair[pair] = work.newest_pair[start, end]
    work.newest_pair[start, end] = pair
    work.used[CANDIDATE_PAIRS] += 1


@inlined
def _push(
    trie_node: int, position: int, passed: int, hole: int, work: CandidateWorkspace
) -> None:
    """Put a state on the stack, whose non-terminals lie over `spans`."""
    at = work.used[CANDIDATE_STATES]
    if at == len(work.states):
        work.used[CANDIDATES_FULL] = 1
        return
    work.states[at, NODE], work.states[at, READ] = trie_node, position
    work.states[at, PASSED], work.states[at, HOLE] = passed, hole
    for bound in range(2 * passed):
        work.states[at, FIRST_BOUND + bound] = work.spans[bound]
    work.used[CANDIDATE_STATES] += 1


@inlined
def _hole_length(
    rule: int, hole: int, length: int, grammar: GrammarArrays, goals: GoalWorkspace
) -> int:
    """How long the hole's yield is if the rule yields `length` tokens, or NOTHING."""
    # Take from the length what terminals and the other non-terminals yield.
    holes = 0
    for at in range(grammar.targets.offsets[rule], grammar.targets.offsets[rule + 1]):
        symbol = grammar.targets.values[at]
        if symbol >= 0:
            length -= 1
        elif -symbol - 1 == hole:
            holes += 1
        else:
            length -= goals.lengths[goals.chosen_goals[-symbol - 1]]
    # The rest is shared evenly, since each occurrence yields the same string.
    if length > 0 and length % holes == 0:
        return length // holes
    return NOTHING


@inlined
def _hole_position(
    rule: int,
    hole: int,
    hole_length: int,
    position: int,
    target: Int32Array,
    grammar: GrammarArrays,
    goals: GoalWorkspace,
) -> int:
    """Lay the rule over the target from `position` on: where the hole is first, or NOTHING."""
    hole_position = NOTHING
    for at in range(grammar.targets.offsets[rule], grammar.targets.offsets[rule + 1]):
        symbol = grammar.targets.values[at]
        if symbol >= 0:
            if target[position] != symbol:
                return NOTHING
            position += 1
            continue
        # What the non-terminal yields must be what stands here.
        if -symbol - 1 == hole:
            if hole_position == NOTHING:
                hole_position = position
            first, length = hole_position, hole_length
        else:
            goal = goals.chosen_goals[-symbol - 1]
            first, length = goals.positions[goal], goals.lengths[goal]
        for offset in range(length):
            if target[first + offset] != target[position + offset]:
                return NOTHING
        position += length
    return hole_position


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
    """Add what the hole has to yield, for every combination of the other non-terminals' goals."""
    arity = grammar.arities[rule]
    for at in range(arity):
        goals.nodes[at] = work.cells[work.spans[2 * at], work.spans[2 * at + 1]]
    # The hole has no node: its yield is what is looked for.
    goals.nodes[hole] = NOTHING
    more = choose_first(arity, goals)
    while more and not work.used[CANDIDATES_FULL]:
        position, length = work.pairs[pair, 2], work.pairs[pair, 3]
        length = _hole_length(rule, hole, length, grammar, goals)
        if length != NOTHING:
            position = _hole_position(
                rule, hole, length, position, target, grammar, goals
            )
            if position != NOTHING:
                # Equal strings have one name: their first occurrence.
                first = (
                    find_run(target[position : position + length], target, 0) - length
                )
                start, end = work.spans[2 * hole], work.spans[2 * hole + 1]
                _add_outside_pair(start, end, first, length, work)
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
    """Lay every rule over an outside pair, one non-terminal left open."""
    start, end = work.pairs[pair, 0], work.pairs[pair, 1]
    work.used[CANDIDATE_STATES] = 0
    _push(TRIE_ROOT, start, 0, NOTHING, work)
    while work.used[CANDIDATE_STATES] > 0 and not work.used[CANDIDATES_FULL]:
        work.used[CANDIDATE_STATES] -= 1
        top = work.used[CANDIDATE_STATES]
        trie_node, position = work.states[top, NODE], work.states[top, READ]
        passed, hole = work.states[top, PASSED], work.states[top, HOLE]
        for bound in range(2 * passed):
            work.spans[bound] = work.states[top, FIRST_BOUND + bound]

        # At the end of the span, rules with a hole are complete.
        if position == end:
            last = grammar.trie.first_item[trie_node + 1] if hole != NOTHING else 0
            for rule in grammar.trie.items[grammar.trie.first_item[trie_node] : last]:
                if grammar.active[rule]:
                    _solve_hole(rule, hole, pair, target, grammar, goals, work)
            continue

        # Otherwise a terminal is read, or a non-terminal over a derivable span or as the hole. A
        # non-terminal does not cover the whole pair, and a leaf is not a hole.
        behind = successor(grammar.trie, trie_node, source[position])
        if behind != NOWHERE:
            _push(behind, position + 1, passed, hole, work)
        behind = grammar.over_nt[trie_node]
        if behind == NOWHERE:
            continue
        for stop in range(position + 1, min(end, position + end - start - 1) + 1):
            work.spans[2 * passed], work.spans[2 * passed + 1] = position, stop
            if work.cells[position, stop] != NOTHING:
                _push(behind, stop, passed + 1, hole, work)
            is_leaf = stop == position + 1 and source[position] <= LEAF
            if hole == NOTHING and not is_leaf:
                _push(behind, stop, passed + 1, passed, work)


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
    """Pass over the rules from `begin` on; returns the first that did not fit, or their number.

    The candidates of rule r land in rows first_row[r]:first_row[r + 1] of `out`. A row is the
    proposed factor, OUTER or INNER, and the start, end, position and length of the pair.
    """
    rules = len(sources.offsets) - 1
    for rule in range(begin, rules):
        source = sources.values[sources.offsets[rule] : sources.offsets[rule + 1]]
        target = targets.values[targets.offsets[rule] : targets.offsets[rule + 1]]
        first, count = charts.first_node[rule], len(source)
        if not find_goals(rule, target, False, grammar, charts, goals):
            return rule

        # Outside: the list of pairs grows while it is passed.
        clear_table(work.cells, count + 1)
        for node in range(first, charts.first_node[rule + 1]):
            work.cells[charts.starts[node], charts.ends[node]] = node - first
        clear_table(work.newest_pair, count + 1)
        clear(work.used, 0)
        _add_outside_pair(0, count, 0, len(target), work)
        pair = 0
        while pair < work.used[CANDIDATE_PAIRS] and not work.used[CANDIDATES_FULL]:
            _expand_outside_pair(pair, source, target, grammar, goals, work)
            pair += 1
        at = first_row[rule]
        goal_count = goals.graph.used[GRAPH_NODES]
        # Each goal and each pair may take a row, so all of them must have room.
        if work.used[CANDIDATES_FULL] or at + goal_count + work.used[
            CANDIDATE_PAIRS
        ] > len(out):
            return rule

        # Inside: every derivable pair but the whole source and lone leaves proposes the outer rule.
        for goal in range(goal_count):
            start, end = goals.graph.starts[goal], goals.graph.ends[goal]
            is_leaf = end == start + 1 and source[start] <= LEAF
            if end - start < count and not is_leaf:
                out[at, 0] = OUTER
                out[at, 1], out[at, 2] = start, end
                out[at, 3], out[at, 4] = goals.positions[goal], goals.lengths[goal]
                at += 1
        # Every outside pair but the first, which is the rule itself, proposes the inner rule.
        for pair in range(1, work.used[CANDIDATE_PAIRS]):
            out[at, 0] = INNER
            for column in range(4):
                out[at, 1 + column] = work.pairs[pair, column]
            at += 1
        first_row[rule + 1] = at
    return rules
