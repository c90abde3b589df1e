"""How many derivations a source has, and how many of them yield its target, without writing any of them down.

Induction asks this of every candidate rule and every example that the rule touches, so it has kernels of its own. The
number of all derivations needs no hyperedges: merged states carry the number of ways into them. For the number that
yields the target, a span counts as derivable only if it yields a part of the target, which leaves little to combine.

Numbers are floats. Where one is too large for a float the result is infinite, and the caller counts in logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import FloatArray, Int32Array, inlined, unmanaged_kernel
from nqg.grammar.chart_kernels import (
    HYPEREDGES,
    NODES,
    NOTHING,
    OPEN,
    OUT_OF_ROOM,
    STAMP,
    STATES,
    STEPS,
    Workspace,
    advance,
    apply_rules,
    reach,
)
from nqg.grammar.encoding import NOWHERE, ROOT, GrammarArrays, successor
from nqg.grammar.goal_kernels import GOALS, GoalWorkspace, first_place, goal_of, pick_first, pick_next, yield_length
from nqg.grammar.goal_kernels import OUT_OF_ROOM as NO_ROOM_FOR_GOALS


class CountWorkspace(NamedTuple):
    """Scratch arrays beside those of the chart and of goals."""

    ways: FloatArray  # per state: number of ways into it
    spans: FloatArray  # (n + 1, n + 1): number of derivations of each span
    goals: FloatArray  # per goal: number of derivations that yield it


def count_workspace(longest: int, room: int) -> CountWorkspace:
    """Scratch arrays for sentences of at most `longest` tokens with `room` for states and goals."""
    return CountWorkspace(np.empty(room), np.empty((longest + 1, longest + 1)), np.empty(room))


@inlined
def _enter(
    trie_node: int, position: int, ways: float, grammar: GrammarArrays, work: Workspace, counts: CountWorkspace
) -> None:
    """Add to the ways into trie `node` at `position`."""
    used = work.used
    if work.seen[trie_node] != used[STAMP]:
        if used[STATES] == len(work.trie_nodes):
            used[OUT_OF_ROOM] = 1
            return
        state = used[STATES]
        work.seen[trie_node] = used[STAMP]
        work.state_of[trie_node] = state
        work.trie_nodes[state], work.positions[state], counts.ways[state] = trie_node, position, 0.0
        used[STATES] += 1
        if grammar.over_nt[trie_node] != NOWHERE:
            work.open_states[used[OPEN]] = state
            used[OPEN] += 1
    counts.ways[work.state_of[trie_node]] += ways


@inlined
def _count_span(end: int, token: int, grammar: GrammarArrays, work: Workspace, counts: CountWorkspace) -> float:
    """Find all states at `end`; the number of derivations of the span up to there."""
    for state in range(work.first_state[end - 1], work.first_state[end]):
        trie_node = successor(grammar.trie, work.trie_nodes[state], token)
        if trie_node != NOWHERE:
            _enter(trie_node, end, counts.ways[state], grammar, work, counts)
    for at in range(work.used[OPEN]):
        state = work.open_states[at]
        below = counts.spans[work.positions[state], end]
        if below > 0.0:
            _enter(grammar.over_nt[work.trie_nodes[state]], end, counts.ways[state] * below, grammar, work, counts)
    total = 0.0
    for state in range(work.first_state[end], work.used[STATES]):
        trie_node = work.trie_nodes[state]
        for rule in grammar.trie.items[grammar.trie.first_item[trie_node] : grammar.trie.first_item[trie_node + 1]]:
            if grammar.active[rule]:
                total += counts.ways[state]
    return total


@inlined
def _count_all(tokens: Int32Array, grammar: GrammarArrays, work: Workspace, counts: CountWorkspace) -> float:
    """The number of derivations of a source; what is in `used` tells whether room ran out."""
    used, count = work.used, len(tokens)
    counts.spans[: count + 1, : count + 1] = 0.0
    for start in range(count - 1, -1, -1):
        used[STATES], used[OPEN] = 1, 0
        work.trie_nodes[0], counts.ways[0] = ROOT, 1.0
        work.first_state[start], work.first_state[start + 1] = 0, 1
        for end in range(start + 1, count + 1):
            used[STAMP] += 1
            total = _count_span(end, tokens[end - 1], grammar, work, counts)
            counts.spans[start, end] = total
            if total > 0.0 and grammar.over_nt[ROOT] != NOWHERE:
                _enter(grammar.over_nt[ROOT], end, total, grammar, work, counts)
            work.first_state[end + 1] = used[STATES]
            if used[OUT_OF_ROOM]:
                return 0.0
    return float(counts.spans[0, count]) if count > 0 else 0.0


@inlined
def _count_combination(
    node: int,
    rule: int,
    whole: bool,
    target: Int32Array,
    grammar: GrammarArrays,
    goals: GoalWorkspace,
    counts: CountWorkspace,
) -> None:
    """Count the derivations of the rule over the picked goals towards the part of the target that it yields."""
    length = yield_length(rule, grammar, goals)
    if length > len(target) or (whole and length < len(target)):
        return
    place = first_place(rule, length, target, grammar, goals)
    if place == NOTHING:
        return
    before = goals.used[GOALS]
    goal = goal_of(node, place, length, goals)
    if goal == NOTHING:
        return
    if goals.used[GOALS] > before:
        counts.goals[goal] = 0.0
    ways = 1.0
    for at in range(grammar.arities[rule]):
        ways *= counts.goals[goals.picked[at]]
    counts.goals[goal] += ways


@inlined
def _count_hyperedge(
    node: int,
    hyperedge: int,
    whole: bool,
    target: Int32Array,
    grammar: GrammarArrays,
    work: Workspace,
    goals: GoalWorkspace,
    counts: CountWorkspace,
) -> None:
    """Try a hyperedge with every combination of its children's goals."""
    rule = work.rules[hyperedge]
    arity = grammar.arities[rule]
    for at in range(arity):
        goals.nodes[at] = work.children[hyperedge, at]
    more = pick_first(arity, goals)
    while more and not goals.used[NO_ROOM_FOR_GOALS]:
        _count_combination(node, rule, whole, target, grammar, goals, counts)
        more = pick_next(arity, goals)


@inlined
def _count_goals(
    start: int,
    end: int,
    whole: bool,
    target: Int32Array,
    grammar: GrammarArrays,
    work: Workspace,
    goals: GoalWorkspace,
    counts: CountWorkspace,
) -> None:
    """Find what the span can yield; only if that is something does the span become a node."""
    used, node, begin = work.used, work.used[NODES], goals.used[GOALS]
    used[HYPEREDGES] = 0
    for state in range(work.first_state[end], used[STATES]):
        apply_rules(state, grammar, work)
    goals.first_goal[node] = begin
    for hyperedge in range(used[HYPEREDGES]):
        _count_hyperedge(node, hyperedge, whole, target, grammar, work, goals, counts)
    for goal in range(begin, goals.used[GOALS]):
        goals.goal_at[goals.places[goal]] = NOTHING
    if goals.used[GOALS] > begin:
        goals.first_goal[node + 1] = goals.used[GOALS]
        work.cells[start, end] = node
        used[NODES] += 1
        if grammar.over_nt[ROOT] != NOWHERE:
            reach(grammar.over_nt[ROOT], end, 0, node, grammar, work)


@inlined
def _count_right(
    source: Int32Array,
    target: Int32Array,
    grammar: GrammarArrays,
    work: Workspace,
    goals: GoalWorkspace,
    counts: CountWorkspace,
) -> float:
    """The number of derivations of `source` that yield `target`."""
    used, count = work.used, len(source)
    used[NODES] = 0
    goals.used[:] = 0
    work.cells[: count + 1, : count + 1] = NOTHING
    for start in range(count - 1, -1, -1):
        used[STATES], used[OPEN], used[STEPS] = 1, 0, 0
        work.trie_nodes[0] = ROOT
        work.first_state[start], work.first_state[start + 1] = 0, 1
        for end in range(start + 1, count + 1):
            used[STAMP] += 1
            advance(end, source[end - 1], grammar, work)
            whole = end - start == count
            _count_goals(start, end, whole, target, grammar, work, goals, counts)
            work.first_state[end + 1] = used[STATES]
            if used[OUT_OF_ROOM] or goals.used[NO_ROOM_FOR_GOALS]:
                used[OUT_OF_ROOM] = 1
                return 0.0
    if count == 0 or work.cells[0, count] == NOTHING:
        return 0.0
    return float(counts.goals[goals.used[GOALS] - 1])


class Pairs(NamedTuple):
    """Sources and targets of a batch, end to end."""

    first_source: Int32Array
    sources: Int32Array
    first_target: Int32Array
    targets: Int32Array


@unmanaged_kernel
def fill_counts(
    begin: int,
    pairs: Pairs,
    grammar: GrammarArrays,
    work: Workspace,
    goals: GoalWorkspace,
    counts: CountWorkspace,
    everything: FloatArray,
    right: FloatArray,
) -> int:
    """Count the derivations of the pairs from `begin` on; returns the first one that did not fit, or their number."""
    for pair in range(begin, len(pairs.first_source) - 1):
        source = pairs.sources[pairs.first_source[pair] : pairs.first_source[pair + 1]]
        target = pairs.targets[pairs.first_target[pair] : pairs.first_target[pair + 1]]
        work.used[OUT_OF_ROOM] = 0
        everything[pair] = _count_all(source, grammar, work, counts)
        if not work.used[OUT_OF_ROOM]:
            right[pair] = _count_right(source, target, grammar, work, goals, counts)
        if work.used[OUT_OF_ROOM]:
            return pair
    return len(pairs.first_source) - 1
