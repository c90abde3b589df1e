"""Refined charts: of all derivations of a source those that yield one target, or well-typed ones; and their number.

The chart of the source is refined from the bottom up: every node (a span) becomes one node, a *goal*, for each part of
the target that the span can yield. A part is named by its first occurrence in the target and its length, so equal
strings have equal names and repeated non-terminals need no special case. Whether a rule's target with its children's
parts filled in is again a part of the target is decided by laying it over the target at every place where it could
begin.

Types refine a chart in the same way: a goal is then a type that the span can have, and the rule's table of types says
which one it has over its children's (`nqg.grammar.types`).

Induction asks for numbers, for every candidate rule and every example that the rule touches, so counting has kernels of
its own. The number of all derivations needs no hyperedges: merged states carry the number of ways into them. For the
number that yields the target, a span counts as derivable only if it yields a part of the target, which leaves little to
combine. Numbers are floats; where one is too large the result is infinite, and the caller counts in logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import FloatArray, Int32Array, Int64Array, inlined, unmanaged_kernel
from nqg.grammar.chart_kernels import (
    HYPEREDGES,
    NODES,
    NOTHING,
    OPEN,
    OUT_OF_ROOM,
    STAMP,
    STATES,
    Graphs,
    Workspace,
    add_node,
    advance,
    apply_rules,
    begin_rules,
    begin_sentence,
    emit_hyperedge,
    ints,
    numbered,
)
from nqg.grammar.encoding import LEAF, NOWHERE, ROOT, GrammarArrays, meaning_of, slot_rule, successor
from nqg.grammar.types import NO_TYPE, TypeArrays

GOALS, GOAL_HYPEREDGES, NO_ROOM_FOR_GOALS = range(3)  # what GoalWorkspace.used counts


class EncodedPairs(NamedTuple):
    """Sources and targets in numbers, end to end; those of pair i begin at first_source[i] and first_target[i]."""

    first_source: Int32Array
    sources: Int32Array
    first_target: Int32Array
    targets: Int32Array


class GoalWorkspace(NamedTuple):
    """Scratch arrays for one (source, target) pair, used again for the next."""

    used: Int64Array
    first_goal: Int32Array  # per node of the chart: its goals begin at
    owners: Int32Array  # per goal: node of the chart
    places: Int32Array  # per goal: where its part of the target begins; or its type
    lengths: Int32Array  # per goal: how long that part is; 0 if it is a type
    goal_at: Int32Array  # per place in the target: newest goal of the current node that begins there
    older_goal: Int32Array  # per goal: the one before it at the same place
    picked: Int32Array  # (K,) goals picked for the children of the current hyperedge
    nodes: Int32Array  # (K,) those children
    heads: Int32Array  # per hyperedge: the goal it yields
    rules: Int32Array  # per hyperedge
    children: Int32Array  # (hyperedges, K)
    kept: Int32Array  # per goal: its number after pruning, or NOTHING
    order: Int64Array  # per goal: where its next hyperedge is written


class CountWorkspace(NamedTuple):
    """Scratch arrays beside those of the chart and of goals."""

    ways: FloatArray  # per state: number of ways into it
    spans: FloatArray  # (n + 1, n + 1): number of derivations of each span
    goals: FloatArray  # per goal: number of derivations that yield it


def goal_workspace(most_nodes: int, longest_target: int, max_arity: int, room: int) -> GoalWorkspace:
    """Scratch arrays with `room` for goals and hyperedges."""
    return GoalWorkspace(
        used=np.zeros(3, dtype=np.int64),
        first_goal=ints(most_nodes + 1),
        owners=ints(room),
        places=ints(room),
        lengths=ints(room),
        goal_at=np.full(longest_target + 1, NOTHING, dtype=np.int32),
        older_goal=ints(room),
        picked=ints(max_arity),
        nodes=ints(max_arity),
        heads=ints(room),
        rules=ints(room),
        children=ints(room, max_arity),
        kept=ints(room),
        order=np.empty(room + 1, dtype=np.int64),
    )


@inlined
def _lies_at(place: int, rule: int, target: Int32Array, grammar: GrammarArrays, work: GoalWorkspace) -> bool:
    """Whether the rule's target, with the picked parts filled in, reads exactly as `target` from `place` on."""
    for at in range(grammar.first_target[rule], grammar.first_target[rule + 1]):
        symbol = grammar.targets[at]
        if symbol >= 0:
            if target[place] != symbol:
                return False
            place += 1
            continue
        goal = work.picked[-symbol - 1]
        part, length = work.places[goal], work.lengths[goal]
        if part != place:
            for offset in range(length):
                if target[part + offset] != target[place + offset]:
                    return False
        place += length
    return True


@inlined
def _find_yield(
    rule: int, whole: bool, target: Int32Array, grammar: GrammarArrays, work: GoalWorkspace
) -> tuple[int, int]:
    """Where in `target` (if `whole`, as all of it) the rule's yield occurs first, or NOTHING, and its length."""
    length = 0
    for at in range(grammar.first_target[rule], grammar.first_target[rule + 1]):
        symbol = grammar.targets[at]
        length += 1 if symbol >= 0 else work.lengths[work.picked[-symbol - 1]]
    if not whole or length == len(target):
        for place in range(len(target) - length + 1):
            if _lies_at(place, rule, target, grammar, work):
                return place, length
    return NOTHING, length


@inlined
def _value_lies_at(place: int, rule: int, target: Int32Array, grammar: GrammarArrays) -> bool:
    """Whether the target of a value's slot, its tokens in the place of the slot's terminal, is `target` from there."""
    values, value, known = grammar.values, meaning_of(rule, grammar.values), slot_rule(rule, grammar.values)
    first, size = values.first_token[value], values.sizes[value]
    for at in range(grammar.first_target[known], grammar.first_target[known + 1]):
        symbol = grammar.targets[at]
        if symbol != values.slots[known]:
            if target[place] != symbol:
                return False
            place += 1
            continue
        for offset in range(size):
            if target[place + offset] != values.tokens[first + offset]:
                return False
        place += size
    return True


@inlined
def _find_value(rule: int, whole: bool, target: Int32Array, grammar: GrammarArrays) -> tuple[int, int]:
    """`_find_yield` for the rule of a value; one without tokens is part of no target."""
    values, known, length = grammar.values, slot_rule(rule, grammar.values), 0
    size = values.sizes[meaning_of(rule, values)]
    for symbol in grammar.targets[grammar.first_target[known] : grammar.first_target[known + 1]]:
        length += size if symbol == values.slots[known] else 1
    if size > 0 and (not whole or length == len(target)):
        for place in range(len(target) - length + 1):
            if _value_lies_at(place, rule, target, grammar):
                return place, length
    return NOTHING, length


@inlined
def _goal_of(node: int, place: int, length: int, work: GoalWorkspace) -> int:
    """The goal of this node for that part of the target, made if it is new; NOTHING when room ran out."""
    goal: int = work.goal_at[place]
    while goal != NOTHING and work.lengths[goal] != length:
        goal = work.older_goal[goal]
    if goal == NOTHING:
        goal = work.used[GOALS]
        if goal == len(work.places):
            work.used[NO_ROOM_FOR_GOALS] = 1
            return NOTHING
        work.owners[goal], work.places[goal], work.lengths[goal] = node, place, length
        work.older_goal[goal] = work.goal_at[place]
        work.goal_at[place] = goal
        work.used[GOALS] += 1
    return goal


@inlined
def pick_first(arity: int, work: GoalWorkspace) -> bool:
    """Pick the first goal of each of `nodes`, but for those that are NOTHING; whether all have one."""
    for at in range(arity):
        node = work.nodes[at]
        if node != NOTHING:
            work.picked[at] = work.first_goal[node]
            if work.first_goal[node] == work.first_goal[node + 1]:
                return False
    return True


@inlined
def pick_next(arity: int, work: GoalWorkspace) -> bool:
    """Pick the next combination of goals, the last node's changing fastest; whether there is one."""
    for at in range(arity - 1, -1, -1):
        node = work.nodes[at]
        if node != NOTHING:
            work.picked[at] += 1
            if work.picked[at] < work.first_goal[node + 1]:
                return True
            work.picked[at] = work.first_goal[node]
    return False


@inlined
def _record(node: int, place: int, length: int, rule: int, arity: int, work: GoalWorkspace) -> None:
    """Add a hyperedge that yields that part of the target over the picked goals."""
    goal, hyperedge = _goal_of(node, place, length, work), work.used[GOAL_HYPEREDGES]
    if goal == NOTHING or hyperedge == len(work.rules):
        work.used[NO_ROOM_FOR_GOALS] = 1
        return
    work.heads[hyperedge], work.rules[hyperedge] = goal, rule
    for at in range(work.children.shape[1]):
        work.children[hyperedge, at] = work.picked[at] if at < arity else NOTHING
    work.used[GOAL_HYPEREDGES] += 1


@inlined
def _refine(
    node: int,
    hyperedge: int,
    whole: bool,
    first_node: int,
    target: Int32Array,
    grammar: GrammarArrays,
    charts: Graphs,
    work: GoalWorkspace,
) -> None:
    """Try `hyperedge` of the chart with every combination of its children's goals; a leaf yields itself."""
    rule = charts.rules[hyperedge]
    if rule >= grammar.values.first:
        place, length = _find_value(rule, whole, target, grammar)
        if place != NOTHING:
            _record(node, place, length, rule, 0, work)
        return
    if rule <= LEAF:
        for place in range(len(target)):
            if target[place] == rule:
                _record(node, place, 1, rule, 0, work)
                return
        return
    arity = grammar.arities[rule]
    for at in range(arity):
        work.nodes[at] = charts.children[hyperedge, at] - first_node
    more = pick_first(arity, work)
    while more and not work.used[NO_ROOM_FOR_GOALS]:
        place, length = _find_yield(rule, whole, target, grammar, work)
        if place != NOTHING:
            _record(node, place, length, rule, arity, work)
        more = pick_next(arity, work)


@inlined
def find_goals(
    sentence: int, target: Int32Array, rooted: bool, grammar: GrammarArrays, charts: Graphs, work: GoalWorkspace
) -> bool:
    """Fill the workspace with all goals of one pair; False when its room ran out.

    Where the charts are `rooted` (pruned), the last node covers the source, and only the whole target will do for it.
    """
    work.used[:] = 0
    first, last = charts.first_node[sentence], charts.first_node[sentence + 1]
    for node in range(last - first):
        begin = work.used[GOALS]
        work.first_goal[node] = begin
        whole = rooted and node == last - first - 1
        for hyperedge in range(charts.first_hyperedge[first + node], charts.first_hyperedge[first + node + 1]):
            _refine(node, hyperedge, whole, first, target, grammar, charts, work)
        _forget_places(begin, work)
        work.first_goal[node + 1] = work.used[GOALS]
        if work.used[NO_ROOM_FOR_GOALS]:
            return False
    return True


@inlined
def _type_of(rule: int, arity: int, types: TypeArrays, work: GoalWorkspace) -> tuple[int, int]:
    """The type of the rule over the picked goals, or NO_TYPE; and over how many of them, for others cannot mend it."""
    place, at = types.first_place[rule], 0
    for child in range(arity):
        kind = types.classes[place + child, work.places[work.picked[child]]]
        if kind == NO_TYPE:
            return NO_TYPE, child + 1
        at = at * types.sizes[place + child] + kind
    return int(types.results[types.first_result[rule] + at]), arity


@inlined
def _find_types(
    sentence: int, length: int, grammar: GrammarArrays, types: TypeArrays, charts: Graphs, work: GoalWorkspace
) -> bool:
    """Fill the workspace with the goals of one sentence, which are types here; False when its room ran out.

    Of what covers the whole sentence only what is legal has a goal, and all of that has one goal together.
    """
    work.used[:] = 0
    first, last = charts.first_node[sentence], charts.first_node[sentence + 1]
    for node in range(last - first):
        begin = work.used[GOALS]
        work.first_goal[node] = begin
        is_whole = charts.starts[first + node] == 0 and charts.ends[first + node] == length
        for hyperedge in range(charts.first_hyperedge[first + node], charts.first_hyperedge[first + node + 1]):
            rule = charts.rules[hyperedge]
            known = slot_rule(rule, grammar.values)
            arity = grammar.arities[known]
            for at in range(arity):
                work.nodes[at] = charts.children[hyperedge, at] - first
            more = pick_first(arity, work)
            while more and not work.used[NO_ROOM_FOR_GOALS]:
                kind, tried = _type_of(known, arity, types, work)
                if kind != NO_TYPE and is_whole:
                    kind = len(types.is_whole) if types.is_whole[kind] else NO_TYPE
                if kind != NO_TYPE:
                    _record(node, kind, 0, rule, arity, work)
                more = pick_next(tried, work)
        _forget_places(begin, work)
        work.first_goal[node + 1] = work.used[GOALS]
        if work.used[NO_ROOM_FOR_GOALS]:
            return False
    return True


@unmanaged_kernel
def fill_types(
    first_token: Int32Array,
    begin: int,
    prune: bool,
    grammar: GrammarArrays,
    types: TypeArrays,
    charts: Graphs,
    work: GoalWorkspace,
    out: Graphs,
) -> int:
    """Typed charts of the sentences from `begin` on into `out`; returns the first that did not fit, or their number."""
    for sentence in range(begin, len(first_token) - 1):
        length = first_token[sentence + 1] - first_token[sentence]
        first, last = charts.first_node[sentence], charts.first_node[sentence + 1]
        if first < last:
            if not _find_types(sentence, length, grammar, types, charts, work):
                return sentence
            if prune:
                kept = _keep_reachable(work.first_goal[last - first - 1], work)
            else:
                work.kept[: work.used[GOALS]] = 0
                kept = numbered(work.kept[: work.used[GOALS]])
            if not _emit(first, kept, charts, work, out):
                return sentence
        out.sizes[0] += 1
        out.first_node[out.sizes[0]] = out.sizes[1]
    return len(first_token) - 1


@inlined
def _forget_places(begin: int, work: GoalWorkspace) -> None:
    """The goals from `begin` on are a node's own; the next node begins with none."""
    for goal in range(begin, work.used[GOALS]):
        work.goal_at[work.places[goal]] = NOTHING


@inlined
def _keep_reachable(first_root: int, work: GoalWorkspace) -> int:
    """Number the goals that the root leads to; hyperedges run from the last to the first, parents before children."""
    goals = work.used[GOALS]
    work.kept[:goals] = NOTHING
    if first_root == goals:
        return 0
    work.kept[goals - 1] = 0
    for hyperedge in range(work.used[GOAL_HYPEREDGES] - 1, -1, -1):
        if work.kept[work.heads[hyperedge]] != NOTHING:
            for child in work.children[hyperedge]:
                if child != NOTHING:
                    work.kept[child] = 0
    return numbered(work.kept[:goals])


@inlined
def _emit(first_node: int, kept: int, charts: Graphs, work: GoalWorkspace, out: Graphs) -> bool:
    """Append the kept goals and their hyperedges, grouped by goal, to `out`; False where they do not fit."""
    base, order = out.sizes[1], work.order
    if base + kept > len(out.starts) or out.sizes[2] + work.used[GOAL_HYPEREDGES] > len(out.rules):
        return False
    order[:kept] = 0
    for hyperedge in range(work.used[GOAL_HYPEREDGES]):
        head = work.kept[work.heads[hyperedge]]
        if head != NOTHING:
            order[head] += 1
    for goal in range(kept):
        count = order[goal]
        order[goal] = out.sizes[2]
        out.sizes[2] += count
        out.first_hyperedge[base + goal + 1] = out.sizes[2]
    for hyperedge in range(work.used[GOAL_HYPEREDGES]):
        head = work.kept[work.heads[hyperedge]]
        if head != NOTHING:
            emit_hyperedge(order[head], hyperedge, base, work.rules, work.children, work.kept, out)
            order[head] += 1
    for goal in range(work.used[GOALS]):
        if work.kept[goal] != NOTHING:
            at, node = base + work.kept[goal], first_node + work.owners[goal]
            out.starts[at], out.ends[at] = charts.starts[node], charts.ends[node]
            out.target_starts[at], out.target_lengths[at] = work.places[goal], work.lengths[goal]
    out.sizes[1] += kept
    return True


@unmanaged_kernel
def fill_goals(
    first_token: Int32Array,
    tokens: Int32Array,
    begin: int,
    grammar: GrammarArrays,
    charts: Graphs,
    work: GoalWorkspace,
    out: Graphs,
) -> int:
    """Goal graphs of the pairs from `begin` on into `out`; returns the first one that did not fit, or their number.

    `charts` are the pruned charts of the sources, `tokens` the targets end to end.
    """
    for sentence in range(begin, len(first_token) - 1):
        target = tokens[first_token[sentence] : first_token[sentence + 1]]
        first, last = charts.first_node[sentence], charts.first_node[sentence + 1]
        if first < last:
            if not find_goals(sentence, target, True, grammar, charts, work):
                return sentence
            kept = _keep_reachable(work.first_goal[last - first - 1], work)
            if not _emit(first, kept, charts, work, out):
                return sentence
        out.sizes[0] += 1
        out.first_node[out.sizes[0]] = out.sizes[1]
    return len(first_token) - 1


@inlined
def _enter(
    trie_node: int, position: int, ways: float, grammar: GrammarArrays, work: Workspace, counts: CountWorkspace
) -> None:
    """Add to the ways into `trie_node` at `position`."""
    used = work.used
    if work.seen[trie_node] != used[STAMP]:
        if used[STATES] == len(work.trie_nodes):
            used[OUT_OF_ROOM] = 1
            return
        state = used[STATES]
        work.seen[trie_node], work.state_of[trie_node] = used[STAMP], state
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
    """The number of derivations of a source; `used` tells whether room ran out."""
    used, count = work.used, len(tokens)
    counts.spans[: count + 1, : count + 1] = 0.0
    for start in range(count - 1, -1, -1):
        begin_rules(start, work)
        counts.ways[0] = 1.0
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
    """Count the derivations over every combination of the children's goals towards what the rule yields over them."""
    rule = work.rules[hyperedge]
    arity = grammar.arities[rule]
    for at in range(arity):
        goals.nodes[at] = work.children[hyperedge, at]
    more = pick_first(arity, goals)
    while more and not goals.used[NO_ROOM_FOR_GOALS]:
        place, length = _find_yield(rule, whole, target, grammar, goals)
        before = goals.used[GOALS]
        goal = NOTHING if place == NOTHING else _goal_of(node, place, length, goals)
        if goal != NOTHING:
            ways = 1.0
            for at in range(arity):
                ways *= counts.goals[goals.picked[at]]
            counts.goals[goal] = ways if goals.used[GOALS] > before else counts.goals[goal] + ways
        more = pick_next(arity, goals)


@inlined
def _count_right(
    source: Int32Array,
    target: Int32Array,
    grammar: GrammarArrays,
    work: Workspace,
    goals: GoalWorkspace,
    counts: CountWorkspace,
) -> float:
    """The number of derivations of `source` that yield `target`; only a span that yields something becomes a node."""
    used, count = work.used, len(source)
    begin_sentence(count, work)
    goals.used[:] = 0
    for start in range(count - 1, -1, -1):
        begin_rules(start, work)
        for end in range(start + 1, count + 1):
            used[STAMP] += 1
            advance(end, source[end - 1], grammar, work)
            node, begin = used[NODES], goals.used[GOALS]
            used[HYPEREDGES] = 0
            for state in range(work.first_state[end], used[STATES]):
                apply_rules(state, grammar, work)
            goals.first_goal[node] = begin
            for hyperedge in range(used[HYPEREDGES]):
                _count_hyperedge(node, hyperedge, end - start == count, target, grammar, work, goals, counts)
            _forget_places(begin, goals)
            if goals.used[GOALS] > begin:
                goals.first_goal[node + 1] = goals.used[GOALS]
                add_node(start, end, grammar, work)
            work.first_state[end + 1] = used[STATES]
            if used[OUT_OF_ROOM] or goals.used[NO_ROOM_FOR_GOALS]:
                used[OUT_OF_ROOM] = 1
                return 0.0
    if count == 0 or work.cells[0, count] == NOTHING:
        return 0.0
    return float(counts.goals[goals.used[GOALS] - 1])


@unmanaged_kernel
def fill_counts(
    begin: int,
    pairs: EncodedPairs,
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
