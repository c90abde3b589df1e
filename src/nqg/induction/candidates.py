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

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import Int32Array, Int64Array, inlined, unmanaged_kernel
from nqg.grammar.chart import FIRST_ROOM, MOST_ROOM, OUTPUT_ROOM, EncodedBatch, encoded_charts, more_room
from nqg.grammar.chart_kernels import NOTHING, Graphs, ints
from nqg.grammar.encoding import LEAF, NOWHERE, ROOT, GrammarArrays, firsts_of, flat, successor
from nqg.grammar.goal_kernels import EncodedPairs, GoalWorkspace, find_goals, goal_workspace, pick_first, pick_next
from nqg.induction.corpus import find_run
from nqg.induction.description_length import LabelRule, Labels, rule_of_leaves

MOST_KNOWN = 200_000  # cuts whose proposals are kept: about 100 MB
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
        target, part, length = self.target, self.target[self.place : self.place + self.length], self.length
        labels: list[int] = []
        at = 0
        while at < len(target):
            here = target[at : at + length] == part
            labels.append(NEW_LEAF if here else target[at])
            at += length if here else 1
        return rule_of_leaves((*self.source[: self.start], NEW_LEAF, *self.source[self.end :]), labels)

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


def all_splits(rule: LabelRule, settings: SplitSettings) -> Iterator[tuple[LabelRule, LabelRule]]:
    """SPLIT: every pair of an outer and an inner rule that derive `rule`, if both are allowed."""
    source, target = rule.leaf_source(), rule.leaf_target()
    parts = [
        (place, length)
        for place in range(len(target))
        for length in range(1, len(target) - place + 1)
        if settings.is_balanced(target[place : place + length])
    ]
    for start, end in combinations(range(len(source) + 1), 2):
        if end - start == len(source) or (end - start == 1 and source[start] <= LEAF):
            continue
        for place, length in parts:
            cut = Cut(source, target, start, end, place, length)
            inner = cut.inner()
            if inner is None or not cut.is_allowed(settings):
                continue
            outer = cut.outer()
            allowed = outer is not None and settings.allows(outer) and settings.allows(inner)
            if outer is not None and allowed and cut.composes(settings, outer, inner):
                yield outer, inner


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
