"""SPLIT, NEW and ELIM of appendix A.2: which rules could stand in for a rule, given the rest of the grammar.

`candidates` answers for many rules at once. A candidate g of a rule f derives f together with what the grammar derives
already. So NEW is the union of all rules' candidates, and ELIM(g) is the set of rules that have g among theirs.

Candidates come from one synchronous inside-outside pass over the rule's own two sides, which are charted like a
sentence and its target, the non-terminals of f being leaves.

*Inside*: the goals of the chart are the pairs (span of the source, part of the target) that the grammar derives. Cut
such a pair out of f, put a non-terminal in its place, and what remains is a rule that derives f together with the rest
of the grammar.

*Outside*: a pair is needed if f could be derived, were that pair derivable. The pair (all of the source, all of the
target) is needed. If a pair is needed, and a rule covers it with all of its non-terminals but one (the *hole*) over
pairs that are derivable, then what is left for the hole is needed. Needed pairs are themselves rules that derive f
together with the rest of the grammar.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations
from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import FloatArray, Int32Array, Int64Array, inlined, unmanaged_kernel
from nqg.grammar.chart import FIRST_ROOM, MOST_ROOM, OUTPUT_ROOM, EncodedBatch, encoded_charts, more_room
from nqg.grammar.chart_kernels import NOTHING, Graphs, ints
from nqg.grammar.encoding import LEAF, NOWHERE, ROOT, GrammarArrays, firsts_of, flat, successor
from nqg.grammar.goal_kernels import EncodedPairs, GoalWorkspace, find_goals, goal_workspace, pick_first, pick_next
from nqg.induction.corpus import Mask, find_run
from nqg.induction.description_length import LabelRule, Labels, rule_of_leaves
from nqg.induction.settings import ROUNDING

MOST_KNOWN = 200_000  # cuts whose proposals are kept: about 100 MB
BUCKET_BITS = 22  # of the hash of a part: 36 MB for all
MIXER = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits all over: Fibonacci hashing
NEW_LEAF = LEAF - 1000  # the non-terminal that takes the place of what is cut out


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
    known: KnownProposals = field(default_factory=lambda: KnownProposals(), compare=False, repr=False)

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
        return (
            rule.arity <= self.max_non_terminals
            and len(rule.source) > rule.arity * (len(rule.source) == 1)
            and self.is_balanced(rule.source)
            and self.is_balanced(rule.target)
            and (self.bare_targets or len(rule.target) > 1 or rule.target[0] >= 0)
            and self.placeholders.intersection(rule.source) == self.placeholders.intersection(rule.target)
        )


class Cut(NamedTuple):
    """A span of a rule's source and a part of its target, non-terminals as leaves."""

    source: Labels
    target: Labels
    start: int
    end: int
    place: int
    length: int

    def is_allowed(self, settings: SplitSettings) -> bool:
        """A string that repeats in the source is never cut out, and in the target only where that is asked for."""
        sides = [(self.source, self.start, self.end - self.start)]
        if not settings.repeated_targets:
            sides.append((self.target, self.place, self.length))
        return not any(
            side[at : at + length] == side[place : place + length]
            for side, place, length in sides
            for at in range(len(side) - length + 1)
            if at != place
        )

    def inner(self) -> LabelRule | None:
        """The pair itself as a rule."""
        return rule_of_leaves(self.source[self.start : self.end], self.target[self.place : self.place + self.length])

    def outer(self) -> LabelRule | None:
        """What is left of the rule: a new non-terminal in place of the span and of every occurrence of the part."""
        target = replaced(self.target, self.place, self.length)
        return rule_of_leaves((*self.source[: self.start], NEW_LEAF, *self.source[self.end :]), target)

    def proposed(self, kind: int, settings: SplitSettings) -> LabelRule | None:
        """The outer rule where the inner one is derivable (INSIDE), else the inner one; None if it is not allowed."""
        if not self.is_allowed(settings):
            return None
        rule = self.outer() if kind == INSIDE else self.inner()
        if rule is None or not settings.allows(rule):
            return None
        outer, inner = (rule, self.inner()) if kind == INSIDE else (self.outer(), rule)
        return rule if outer and inner and self.composes(settings, outer, inner) else None

    def composes(self, settings: SplitSettings, outer: LabelRule, inner: LabelRule) -> bool:
        """Whether legal targets can have the inner rule's target where the outer one has its new non-terminal."""
        hole = 1 + sum(label <= LEAF for label in self.source[: self.start])
        return settings.composes is None or settings.composes(outer.target, hole, inner.target)


def replaced(target: Labels, place: int, length: int) -> Labels:
    """The target with the new non-terminal for every occurrence of a part of it, from left to right."""
    part, labels, at = target[place : place + length], list[int](), 0
    while at < len(target):
        here = target[at : at + length] == part
        labels.append(NEW_LEAF if here else target[at])
        at += length if here else 1
    return tuple(labels)


class KnownProposals:
    """What the cuts of a rule propose, kept because a search looks at the same rules again and again."""

    def __init__(self) -> None:
        self._known: dict[LabelRule, dict[Labels, LabelRule | None]] = {}
        self._count = 0

    def proposed(self, rule: LabelRule, rows: Iterable[Labels], settings: SplitSettings) -> Iterator[LabelRule | None]:
        """For each row of `fill_candidates` the rule that it proposes, whether tabu or not, or None."""
        if self._count > MOST_KNOWN:
            self._known, self._count = {}, 0
        known = self._known.setdefault(rule, {})
        before, source, target = len(known), rule.leaf_source(), rule.leaf_target()
        for row in rows:
            if row not in known:
                known[row] = Cut(source, target, *row[1:]).proposed(row[0], settings)
            yield known[row]
        self._count += len(known) - before


def candidates(rules: Sequence[LabelRule], grammar: GrammarArrays, settings: SplitSettings) -> list[set[LabelRule]]:
    """For each of `rules` the rules that would derive it, together with those of `grammar` other than itself."""
    sources, targets = [rule.leaf_source() for rule in rules], [rule.leaf_target() for rule in rules]
    sides = EncodedPairs(firsts_of(sources), flat(sources), firsts_of(targets), flat(targets))
    charts = encoded_charts(grammar, EncodedBatch(sides.first_source, sides.sources), prune=False)
    view, max_arity = Graphs.of(charts), grammar.max_arity
    longest, longest_target = max(map(len, sources), default=0), max(map(len, targets), default=0)
    most_nodes = int(np.diff(charts.first_node).max(initial=0))
    found: list[set[LabelRule]] = []
    room = FIRST_ROOM
    while len(found) < len(rules):
        begin = len(found)
        goals = goal_workspace(most_nodes, longest_target, max_arity, room)
        work = candidate_workspace(longest, max_arity, room)
        first_found = np.zeros(len(sources) + 1, dtype=np.int64)
        out = np.empty((max(room, OUTPUT_ROOM), 5), dtype=np.int32)
        end = fill_candidates(begin, sides, grammar, view, goals, work, first_found, out)
        for number in range(begin, end):
            rows = out[first_found[number] : first_found[number + 1]].tolist()
            proposed = settings.known.proposed(rules[number], map(tuple, rows), settings)
            found.append({rule for rule in proposed if rule is not None and rule != settings.tabu})
        if end == begin:
            room = more_room(room, MOST_ROOM, f"rule {begin}")
    return found


@dataclass(frozen=True, slots=True)
class Splits:
    """SPLIT(f), as far as it cuts the same non-terminals out of f: each of some spans with each of some parts.

    The first axis of the arrays is for the outer and the inner rules, of which only bits and hashes are kept.
    """

    spans: tuple[tuple[int, int], ...]  # (S) start, end
    parts: tuple[tuple[int, int], ...]  # (P) place, length
    source_bits: FloatArray  # (2, S)
    target_bits: FloatArray  # (2, P)
    buckets: Int32Array  # (2, S, P): equal for equal rules, seldom for others

    def bits(self) -> FloatArray:
        """What each rule costs: (2, S, P)."""
        return self.source_bits[:, :, None] + self.target_bits[:, None, :]

    def cuts(self, rule: LabelRule, chosen: Mask) -> Iterator[tuple[Cut, int]]:
        """The cuts of some of the rules, each with 0 for its outer and 1 for its inner one."""
        source, target = rule.leaf_source(), rule.leaf_target()
        for kind, span, part in np.argwhere(chosen).tolist():
            yield Cut(source, target, *self.spans[span], *self.parts[part]), kind


def all_splits(rule: LabelRule, settings: SplitSettings, side_bits: Callable[[Labels], float]) -> Iterator[Splits]:
    """Every way to split a rule into an outer and an inner one that are both allowed, whether they compose or not."""
    source, target = rule.leaf_source(), rule.leaf_target()
    if not (settings.is_balanced(source) and settings.is_balanced(target)):
        return
    parts = _parts(target, settings)
    for (low, high), spans in _spans(source, settings).items():
        leaves = range(LEAF - 1 - low, LEAF - 1 - high, -1)  # those that are cut out
        left = {part: replaced(target, *part) for part in parts.get(tuple(leaves), ())}
        fitting = [part for part, rest in left.items() if not any(leaf in rest for leaf in leaves)]
        renumbered = {LEAF - 1 - number: LEAF - number + len(leaves) - 2 for number in range(high, rule.arity)}
        renumbered[NEW_LEAF] = LEAF - 1 - low
        outer = [[(*source[:start], NEW_LEAF, *source[end:]) for start, end in spans], [left[part] for part in fitting]]
        inner = [[source[start:end] for start, end in spans], [target[at : at + length] for at, length in fitting]]
        moved = {leaf: leaf + low for leaf in leaves}
        sides = [
            [[tuple(numbers.get(label, label) for label in side) for side in each] for each in kind]
            for kind, numbers in ((outer, renumbered), (inner, moved))
        ]
        bits = [np.array([[*map(side_bits, kind[at])] for kind in sides]) for at in (0, 1)]
        hashes = [np.array([[*map(hash, kind[at])] for kind in sides], dtype=np.int64) for at in (0, 1)]
        buckets = bucket(hashes[0][:, :, None], hashes[1][:, None, :])
        yield Splits(tuple(spans), tuple(fitting), bits[0], bits[1], buckets)


def bucket(sources: Int64Array, targets: Int64Array) -> Int32Array:
    """A small number for the hashes of rules' sides."""
    mixed = (sources.astype(np.uint64) * MIXER + targets.astype(np.uint64)) * MIXER
    return (mixed >> np.uint64(64 - BUCKET_BITS)).astype(np.int32)


def _spans(source: Labels, settings: SplitSettings) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The spans that may be cut out, by the numbers of non-terminals before their starts and ends."""
    before = [0, *accumulate(label <= LEAF for label in source)]
    repeated, _ = _longest_repeated(source)
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for start, end in combinations(range(len(source) + 1), 2):
        inner_arity = before[end] - before[start]
        is_trivial = end - start == len(source) or (end - start == 1 and inner_arity == 1)
        is_allowed = max(inner_arity, before[-1] - inner_arity + 1) <= settings.max_non_terminals
        if is_allowed and not is_trivial and end - start > repeated[start] and settings.is_balanced(source[start:end]):
            found.setdefault((before[start], before[end]), []).append((start, end))
    return found


def _parts(target: Labels, settings: SplitSettings) -> dict[tuple[int, ...], list[tuple[int, int]]]:
    """The parts that may be cut out, each once, by the non-terminals in them in their order."""
    anywhere, before = _longest_repeated(target)
    repeated = before if settings.repeated_targets else anywhere
    found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for place, shortest in enumerate(repeated):
        for length in range(shortest + 1, len(target) - place + 1):
            part = target[place : place + length]
            is_bare = length == len(target) or (length == 1 and part[0] <= LEAF)
            if settings.is_balanced(part) and (settings.bare_targets or not is_bare):
                leaves = sorted({label for label in part if label <= LEAF}, reverse=True)
                found.setdefault(tuple(leaves), []).append((place, length))
    return found


def _longest_repeated(labels: Labels) -> tuple[list[int], list[int]]:
    """For each place the length of the longest string from there that occurs at another place, and at an earlier one.

    >>> _longest_repeated((7, 8, 7, 8, 9))
    ([2, 1, 2, 1, 0], [0, 0, 2, 1, 0])
    """
    array, common = np.array(labels), np.zeros(len(labels) + 1, dtype=np.int64)
    anywhere, before = [0] * len(labels), [0] * len(labels)
    for place in range(len(labels) - 1, -1, -1):
        common[:-1] = np.where(array == labels[place], common[1:] + 1, 0)  # with the string from each place on
        before[place] = int(common[:place].max(initial=0))
        anywhere[place] = max(before[place], int(common[place + 1 : -1].max(initial=0)))
    return anywhere, before


class SplitPool:
    """The splits of rules, of which the most promising become candidates first.

    There may be millions of them, and few pay: the two parts of a split cost more than the rule, unless other rules
    share one. So what is kept of a part is a hash, and for each hash the bits that all splits with such a part would
    save together, which is a bound. Parts whose bound reaches a level are handed out, and the level sinks.
    """

    def __init__(self, settings: SplitSettings, side_bits: Callable[[Labels], float], least: float) -> None:
        self.level = math.inf
        self._settings, self._side_bits, self._least = settings, side_bits, least
        self._splits: dict[LabelRule, list[Splits]] = {}
        self._new: set[LabelRule] = set()
        self._saved = np.zeros(1 << BUCKET_BITS)
        self._is_open = np.zeros(1 << BUCKET_BITS, dtype=np.bool_)
        self._next = math.inf  # the best bound of those that have not been handed out

    def add(self, rule: LabelRule) -> None:
        if rule not in self._splits:
            self._splits[rule] = list(all_splits(rule, self._settings, self._side_bits))
            self._new.add(rule)
            self._count(rule, self._splits[rule], np.add)

    def remove(self, rule: LabelRule) -> None:
        self._count(rule, self._splits.pop(rule), np.subtract)

    def _count(self, rule: LabelRule, found: Iterable[Splits], how: np.ufunc) -> None:
        bits = self._side_bits(rule.source) + self._side_bits(rule.target)
        for splits in found:
            how.at(self._saved, splits.buckets, bits - splits.bits()[::-1])  # less what the other part costs

    def open(self, rules: Iterable[LabelRule]) -> None:
        """Hand out next whatever has one of `rules` for a part."""
        hashes = np.array([(hash(rule.leaf_source()), hash(rule.leaf_target())) for rule in rules], dtype=np.int64)
        self._saved[bucket(*hashes.reshape(-1, 2).T)] = np.inf

    def sink(self) -> None:
        self.level = max(self._least, self._next / 2) if self._next > self._least else self._least

    def handed_out(self) -> Iterator[tuple[LabelRule, LabelRule, LabelRule]]:
        """A part, its companion and the rule that both derive, for all that are above the level now."""
        opened, self._next = [], -math.inf
        for rule, found in self._splits.items():
            cuts: list[tuple[Cut, int]] = []
            for splits in found:
                bounds, is_open = self._saved[splits.buckets] - splits.bits(), self._is_open[splits.buckets]
                reached = (bounds >= self.level - ROUNDING) & ~is_open
                self._next = max(self._next, bounds[~reached & ~is_open].max(initial=-math.inf))
                opened.append(splits.buckets[reached])
                cuts += splits.cuts(rule, reached | is_open if rule in self._new else reached)
            for cut, kind in sorted(cuts):
                outer, inner = cut.outer(), cut.inner()
                assert outer is not None, "only splits into two rules are kept"
                assert inner is not None, "only splits into two rules are kept"
                has_slots = self._settings.allows(outer) and self._settings.allows(inner)  # all of each on both sides
                if has_slots and cut.composes(self._settings, outer, inner):
                    yield (outer, inner, rule) if kind == 0 else (inner, outer, rule)
        self._is_open[np.concatenate([*opened, np.zeros(0, dtype=np.int32)])] = True
        self._new.clear()


PAIRS, STATES, FOUND, OUT_OF_ROOM = range(4)  # what CandidateWorkspace.used counts
INSIDE, OUTSIDE = range(2)


class CandidateWorkspace(NamedTuple):
    """Scratch arrays for one rule, used again for the next."""

    used: Int64Array
    cells: Int32Array  # (n + 1, n + 1): node of a span, or NOTHING
    pairs: Int32Array  # (room, 4): needed pairs as start, end, place, length
    newest_pair: Int32Array  # (n + 1, n + 1): newest needed pair over a span
    older_pair: Int32Array  # per needed pair: the one before it over the same span
    trie_nodes: Int32Array  # per state of a rule that is being laid over a span: its trie node
    positions: Int32Array  # per state: how far it has read
    counts: Int32Array  # per state: how many non-terminals it has passed
    holes: Int32Array  # per state: which of them is the hole, or NOTHING
    bounds: Int32Array  # (room, 2 K): per state: start and end of each of its non-terminals
    spans: Int32Array  # (2 K,): those of the state being solved
    found: Int32Array  # (room, 5): INSIDE or OUTSIDE, start, end, place, length


def candidate_workspace(longest: int, max_arity: int, room: int) -> CandidateWorkspace:
    """Scratch arrays for rules with at most `longest` source symbols, with `room` for pairs, states and findings."""
    return CandidateWorkspace(
        used=np.zeros(4, dtype=np.int64),
        cells=ints(longest + 1, longest + 1),
        pairs=ints(room, 4),
        newest_pair=ints(longest + 1, longest + 1),
        older_pair=ints(room),
        trie_nodes=ints(room),
        positions=ints(room),
        counts=ints(room),
        holes=ints(room),
        bounds=ints(room, 2 * max_arity),
        spans=ints(2 * max_arity),
        found=ints(room, 5),
    )


@inlined
def _find(kind: int, start: int, end: int, place: int, length: int, work: CandidateWorkspace) -> None:
    at = work.used[FOUND]
    if at == len(work.found):
        work.used[OUT_OF_ROOM] = 1
        return
    row = work.found[at]
    row[0], row[1], row[2], row[3], row[4] = kind, start, end, place, length
    work.used[FOUND] += 1


@inlined
def _need(start: int, end: int, place: int, length: int, work: CandidateWorkspace) -> None:
    """Note that a pair is needed, if it was not yet."""
    pair = work.newest_pair[start, end]
    while pair != NOTHING:
        if work.pairs[pair, 2] == place and work.pairs[pair, 3] == length:
            return
        pair = work.older_pair[pair]
    pair = work.used[PAIRS]
    if pair == len(work.pairs):
        work.used[OUT_OF_ROOM] = 1
        return
    row = work.pairs[pair]
    row[0], row[1], row[2], row[3] = start, end, place, length
    work.older_pair[pair] = work.newest_pair[start, end]
    work.newest_pair[start, end] = pair
    work.used[PAIRS] += 1


@inlined
def _push(trie_node: int, position: int, count: int, hole: int, work: CandidateWorkspace) -> None:
    """A new state on the stack, whose non-terminals lie over `spans`."""
    state = work.used[STATES]
    if state == len(work.trie_nodes):
        work.used[OUT_OF_ROOM] = 1
        return
    work.trie_nodes[state], work.positions[state] = trie_node, position
    work.counts[state], work.holes[state] = count, hole
    for at in range(2 * count):
        work.bounds[state, at] = work.spans[at]
    work.used[STATES] += 1


@inlined
def _hole_length(rule: int, hole: int, length: int, grammar: GrammarArrays, goals: GoalWorkspace) -> int:
    """How long the hole's part must be for the rule to yield `length` tokens, or NOTHING if no length will do."""
    holes = 0
    for at in range(grammar.first_target[rule], grammar.first_target[rule + 1]):
        symbol = grammar.targets[at]
        if symbol >= 0:
            length -= 1
        elif -symbol - 1 == hole:
            holes += 1
        else:
            length -= goals.lengths[goals.picked[-symbol - 1]]
    return length // holes if length > 0 and length % holes == 0 else NOTHING


@inlined
def _hole_place(
    rule: int, hole: int, size: int, place: int, target: Int32Array, grammar: GrammarArrays, goals: GoalWorkspace
) -> int:
    """Lay the rule over the target from `place` on; where the hole falls first, or NOTHING if it does not fit."""
    found = NOTHING
    for at in range(grammar.first_target[rule], grammar.first_target[rule + 1]):
        symbol = grammar.targets[at]
        if symbol >= 0:
            if target[place] != symbol:
                return NOTHING
            place += 1
            continue
        part, length = found, size
        if -symbol - 1 != hole:
            part, length = goals.places[goals.picked[-symbol - 1]], goals.lengths[goals.picked[-symbol - 1]]
        elif found == NOTHING:
            found = part = place
        for offset in range(length):
            if target[part + offset] != target[place + offset]:
                return NOTHING
        place += length
    return found


@inlined
def _solve(
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
        goals.nodes[at] = NOTHING if at == hole else work.cells[work.spans[2 * at], work.spans[2 * at + 1]]
    more = pick_first(arity, goals)
    while more and not work.used[OUT_OF_ROOM]:
        length = _hole_length(rule, hole, work.pairs[pair, 3], grammar, goals)
        if length != NOTHING:
            place = _hole_place(rule, hole, length, work.pairs[pair, 2], target, grammar, goals)
            if place != NOTHING:
                first = find_run(target[place : place + length], target, 0) - length
                _need(work.spans[2 * hole], work.spans[2 * hole + 1], first, length, work)
        more = pick_next(arity, goals)


@inlined
def _cover(
    pair: int,
    source: Int32Array,
    target: Int32Array,
    grammar: GrammarArrays,
    goals: GoalWorkspace,
    work: CandidateWorkspace,
) -> None:
    """Lay every rule over a needed pair, one non-terminal left open."""
    start, end = work.pairs[pair, 0], work.pairs[pair, 1]
    work.used[STATES] = 0
    _push(ROOT, start, 0, NOTHING, work)
    while work.used[STATES] > 0 and not work.used[OUT_OF_ROOM]:
        state = work.used[STATES] - 1
        work.used[STATES] = state
        trie_node, position = work.trie_nodes[state], work.positions[state]
        count, hole = work.counts[state], work.holes[state]
        for at in range(2 * count):
            work.spans[at] = work.bounds[state, at]
        if position == end:
            last = grammar.trie.first_item[trie_node + 1] if hole != NOTHING else 0
            for rule in grammar.trie.items[grammar.trie.first_item[trie_node] : last]:
                if grammar.active[rule]:
                    _solve(rule, hole, pair, target, grammar, goals, work)
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
    sides: EncodedPairs,
    grammar: GrammarArrays,
    charts: Graphs,
    goals: GoalWorkspace,
    work: CandidateWorkspace,
    first_found: Int64Array,
    out: Int32Array,
) -> int:
    """Pass over the rules from `begin` on; returns the first one that did not fit, or their number.

    What is found for rule r lands in rows first_found[r]:first_found[r + 1] of `out`.
    """
    for rule in range(begin, len(sides.first_source) - 1):
        source = sides.sources[sides.first_source[rule] : sides.first_source[rule + 1]]
        target = sides.targets[sides.first_target[rule] : sides.first_target[rule + 1]]
        first, count = charts.first_node[rule], len(source)
        work.used[:] = 0
        if not find_goals(rule, target, False, grammar, charts, goals):
            return rule
        work.cells[: count + 1, : count + 1] = NOTHING
        for node in range(first, charts.first_node[rule + 1]):
            work.cells[charts.starts[node], charts.ends[node]] = node - first
        for goal in range(goals.used[0]):  # inside: every derivable pair but the whole source and lone leaves
            node = first + goals.owners[goal]
            start, end = charts.starts[node], charts.ends[node]
            is_leaf = end == start + 1 and source[start] <= LEAF
            if end - start < count and not is_leaf:
                _find(INSIDE, start, end, goals.places[goal], goals.lengths[goal], work)
        work.newest_pair[: count + 1, : count + 1] = NOTHING
        _need(0, count, 0, len(target), work)
        pair = 0
        while pair < work.used[PAIRS] and not work.used[OUT_OF_ROOM]:  # outside
            _cover(pair, source, target, grammar, goals, work)
            pair += 1
        for pair in range(1, work.used[PAIRS]):
            needed = work.pairs[pair]
            _find(OUTSIDE, needed[0], needed[1], needed[2], needed[3], work)
        at = first_found[rule]
        if work.used[OUT_OF_ROOM] or at + work.used[FOUND] > len(out):
            return rule
        for row in range(work.used[FOUND]):
            for column in range(5):
                out[at + row, column] = work.found[row, column]
        first_found[rule + 1] = at + work.used[FOUND]
    return len(sides.first_source) - 1
