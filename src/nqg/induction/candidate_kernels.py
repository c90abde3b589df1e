"""Which rules would make a rule superfluous: one synchronous inside-outside pass over the rule's own two sides.

The sides of a rule f are charted like a sentence and its target, the non-terminals of f being leaves.

*Inside*: the goals of the chart are the pairs (span of the source, part of the target) that the grammar derives. Cut
such a pair out of f, put a non-terminal in its place, and what remains is a rule that derives f together with the rest
of the grammar.

*Outside*: a pair is needed if f could be derived, were that pair derivable. The pair (all of the source, all of the
target) is needed. If a pair is needed, and a rule covers it with all of its non-terminals but one (the *hole*) over
pairs that are derivable, then what is left for the hole is needed. Needed pairs are themselves rules that derive f
together with the rest of the grammar.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import Int32Array, Int64Array, inlined, unmanaged_kernel
from nqg.grammar.chart_kernels import NOTHING, Graphs
from nqg.grammar.encoding import LEAF, NOWHERE, ROOT, GrammarArrays, successor
from nqg.grammar.goal_kernels import GoalWorkspace, find_goals, pick_first, pick_next

PAIRS, STATES, FOUND, OUT_OF_ROOM = range(4)  # what Workspace.used counts
INSIDE, OUTSIDE = range(2)


class Workspace(NamedTuple):
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


def workspace(longest: int, max_arity: int, room: int) -> Workspace:
    """Scratch arrays for rules with at most `longest` source symbols, with `room` for pairs, states and findings."""

    def ints(*shape: int) -> Int32Array:
        return np.empty(shape, dtype=np.int32)

    return Workspace(
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
def _find(kind: int, start: int, end: int, place: int, length: int, work: Workspace) -> None:
    at = work.used[FOUND]
    if at == len(work.found):
        work.used[OUT_OF_ROOM] = 1
        return
    row = work.found[at]
    row[0], row[1], row[2], row[3], row[4] = kind, start, end, place, length
    work.used[FOUND] += 1


@inlined
def _find_inside(source: Int32Array, first: int, charts: Graphs, goals: GoalWorkspace, work: Workspace) -> None:
    """Every derivable pair but the whole source and lone leaves."""
    for goal in range(goals.used[0]):
        node = first + goals.owners[goal]
        start, end = charts.starts[node], charts.ends[node]
        is_leaf = end == start + 1 and source[start] <= LEAF
        if end - start < len(source) and not is_leaf:
            _find(INSIDE, start, end, goals.places[goal], goals.lengths[goal], work)


@inlined
def _need(start: int, end: int, place: int, length: int, work: Workspace) -> None:
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
def _push(trie_node: int, position: int, count: int, hole: int, work: Workspace) -> None:
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
def _step(state: int, start: int, end: int, source: Int32Array, grammar: GrammarArrays, work: Workspace) -> None:
    """Replace a state by those that follow it: over a token, or over a non-terminal that is derivable or the hole."""
    trie_node, position, count, hole = (
        work.trie_nodes[state],
        work.positions[state],
        work.counts[state],
        work.holes[state],
    )
    for at in range(2 * count):
        work.spans[at] = work.bounds[state, at]
    work.used[STATES] = state
    behind = successor(grammar.trie, trie_node, source[position])
    if behind != NOWHERE:
        _push(behind, position + 1, count, hole, work)
    behind = grammar.over_nt[trie_node]
    if behind == NOWHERE:
        return
    for stop in range(position + 1, end + 1):
        if stop - position == end - start:
            break
        work.spans[2 * count], work.spans[2 * count + 1] = position, stop
        if work.cells[position, stop] != NOTHING:
            _push(behind, stop, count + 1, hole, work)
        is_leaf = stop == position + 1 and source[position] <= LEAF
        if hole == NOTHING and not is_leaf:
            _push(behind, stop, count + 1, count, work)


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
def _first_occurrence(place: int, length: int, target: Int32Array) -> int:
    for candidate in range(place):
        same = True
        for offset in range(length):
            if target[candidate + offset] != target[place + offset]:
                same = False
                break
        if same:
            return candidate
    return place


@inlined
def _solve(
    rule: int, hole: int, pair: int, target: Int32Array, grammar: GrammarArrays, goals: GoalWorkspace, work: Workspace
) -> None:
    """With goals picked for all other non-terminals, note what the hole would have to yield."""
    place, length = work.pairs[pair, 2], work.pairs[pair, 3]
    size = _hole_length(rule, hole, length, grammar, goals)
    if size == NOTHING:
        return
    found = _hole_place(rule, hole, size, place, target, grammar, goals)
    if found != NOTHING:
        first = _first_occurrence(found, size, target)
        _need(work.spans[2 * hole], work.spans[2 * hole + 1], first, size, work)


@inlined
def _solve_all(
    rule: int, hole: int, pair: int, target: Int32Array, grammar: GrammarArrays, goals: GoalWorkspace, work: Workspace
) -> None:
    """Try the rule with every combination of goals for its non-terminals other than the hole."""
    arity = grammar.arities[rule]
    for at in range(arity):
        goals.nodes[at] = NOTHING if at == hole else work.cells[work.spans[2 * at], work.spans[2 * at + 1]]
    more = pick_first(arity, goals)
    while more and not work.used[OUT_OF_ROOM]:
        _solve(rule, hole, pair, target, grammar, goals, work)
        more = pick_next(arity, goals)


@inlined
def _cover(
    pair: int, source: Int32Array, target: Int32Array, grammar: GrammarArrays, goals: GoalWorkspace, work: Workspace
) -> None:
    """Lay every rule over a needed pair, one non-terminal left open."""
    start, end = work.pairs[pair, 0], work.pairs[pair, 1]
    work.used[STATES] = 0
    _push(ROOT, start, 0, NOTHING, work)
    while work.used[STATES] > 0 and not work.used[OUT_OF_ROOM]:
        state = work.used[STATES] - 1
        if work.positions[state] < end:
            _step(state, start, end, source, grammar, work)
            continue
        work.used[STATES] = state
        if work.holes[state] == NOTHING:
            continue
        for at in range(2 * work.counts[state]):
            work.spans[at] = work.bounds[state, at]
        trie_node = work.trie_nodes[state]
        for rule in grammar.trie.items[grammar.trie.first_item[trie_node] : grammar.trie.first_item[trie_node + 1]]:
            if grammar.active[rule]:
                _solve_all(rule, work.holes[state], pair, target, grammar, goals, work)


@inlined
def _find_outside(
    source: Int32Array, target: Int32Array, grammar: GrammarArrays, goals: GoalWorkspace, work: Workspace
) -> None:
    count = len(source)
    work.newest_pair[: count + 1, : count + 1] = NOTHING
    work.used[PAIRS] = 0
    _need(0, count, 0, len(target), work)
    pair = 0
    while pair < work.used[PAIRS] and not work.used[OUT_OF_ROOM]:
        _cover(pair, source, target, grammar, goals, work)
        pair += 1
    for pair in range(1, work.used[PAIRS]):
        row = work.pairs[pair]
        _find(OUTSIDE, row[0], row[1], row[2], row[3], work)


@inlined
def _spread(first: int, last: int, count: int, charts: Graphs, work: Workspace) -> None:
    """The table of the spans' nodes."""
    work.cells[: count + 1, : count + 1] = NOTHING
    for node in range(first, last):
        work.cells[charts.starts[node], charts.ends[node]] = node - first


class Sides(NamedTuple):
    """The two sides of several rules, end to end, non-terminals as leaves."""

    first_source: Int32Array
    sources: Int32Array
    first_target: Int32Array
    targets: Int32Array


@unmanaged_kernel
def fill_candidates(
    begin: int,
    sides: Sides,
    grammar: GrammarArrays,
    charts: Graphs,
    goals: GoalWorkspace,
    work: Workspace,
    first_found: Int64Array,
    out: Int32Array,
) -> int:
    """Pass over the rules from `begin` on; returns the first one that did not fit, or their number.

    What is found for rule r lands in rows first_found[r]:first_found[r + 1] of `out`.
    """
    for rule in range(begin, len(sides.first_source) - 1):
        source = sides.sources[sides.first_source[rule] : sides.first_source[rule + 1]]
        target = sides.targets[sides.first_target[rule] : sides.first_target[rule + 1]]
        first, last = charts.first_node[rule], charts.first_node[rule + 1]
        work.used[:] = 0
        if not find_goals(rule, target, False, grammar, charts, goals):
            return rule
        _spread(first, last, len(source), charts, work)
        _find_inside(source, first, charts, goals, work)
        _find_outside(source, target, grammar, goals, work)
        at = first_found[rule]
        if work.used[OUT_OF_ROOM] or at + work.used[FOUND] > len(out):
            return rule
        for row in range(work.used[FOUND]):
            for column in range(5):
                out[at + row, column] = work.found[row, column]
        first_found[rule + 1] = at + work.used[FOUND]
    return len(sides.first_source) - 1
