"""Refined charts: of all derivations of a source those that yield one target, or well-typed ones.

The chart of the source is refined from the bottom up: every node (a span) becomes one node, a *goal*, for each
substring of the target that the span can yield. A substring is named by its first occurrence and its length, so equal
strings have equal names and repeated non-terminals need no special case. Whether a rule's target with its children's
substrings filled in is again a substring of the target is decided by comparing it with the target at every position
where it could begin.

Types refine a chart in the same way: a goal is then a type that the span can have, and the rule's table of types says
which one it has over its children's (`nqg.types.tree_automaton`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import Int32Array, Int64Array, inlined, unmanaged_kernel
from nqg.grammar.chart_kernels import (
    NOTHING,
    OUT_HYPEREDGES,
    OUT_NODES,
    OUT_SENTENCES,
    emit_hyperedge,
    ints,
    numbered,
)
from nqg.grammar.encoding import LEAF, NO_TYPE, GrammarArrays, TypeArrays, slot_rule, value_row
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.ragged import Ragged

GOALS, GOAL_HYPEREDGES, GOALS_FULL = range(3)  # the counters of a GoalWorkspace


class GoalWorkspace(NamedTuple):
    """Scratch arrays for one (source, target) pair, used again for the next."""

    used: Int64Array  # by GOAL…
    first_goal: Int32Array  # per node of the chart: its goals begin at
    owners: Int32Array  # per goal: node of the chart
    positions: Int32Array  # per goal: where its substring of the target begins; or its type
    lengths: Int32Array  # per goal: how long that substring is; 0 if it is a type
    newest_goal: (
        Int32Array  # per position in the target: newest goal of the current node that begins there
    )
    older_goal: Int32Array  # per goal: the one before it at the same position
    chosen_goals: Int32Array  # (K,) for the children of the current hyperedge
    nodes: Int32Array  # (K,) those children
    heads: Int32Array  # per hyperedge: the goal it yields
    rules: Int32Array  # per hyperedge
    children: Int32Array  # (hyperedges, K)
    kept: Int32Array  # per goal: its number after pruning, or NOTHING
    order: Int64Array  # per goal: where its next hyperedge is written


def goal_workspace(
    most_nodes: int, longest_target: int, max_arity: int, capacity: int
) -> GoalWorkspace:
    """Scratch arrays with a capacity for goals and hyperedges."""
    return GoalWorkspace(
        used=np.zeros(3, dtype=np.int64),
        first_goal=ints(most_nodes + 1),
        owners=ints(capacity),
        positions=ints(capacity),
        lengths=ints(capacity),
        newest_goal=np.full(longest_target + 1, NOTHING, dtype=np.int32),
        older_goal=ints(capacity),
        chosen_goals=ints(max_arity),
        nodes=ints(max_arity),
        heads=ints(capacity),
        rules=ints(capacity),
        children=ints(capacity, max_arity),
        kept=ints(capacity),
        order=np.empty(capacity + 1, dtype=np.int64),
    )


@inlined
def _matches_at(
    position: int, rule: int, target: Int32Array, grammar: GrammarArrays, work: GoalWorkspace
) -> bool:
    """Whether the rule's target, the chosen goals filled in, reads exactly as `target` from `position` on."""
    for at in range(grammar.targets.offsets[rule], grammar.targets.offsets[rule + 1]):
        symbol = grammar.targets.values[at]
        if symbol >= 0:
            if target[position] != symbol:
                return False
            position += 1
            continue
        goal = work.chosen_goals[-symbol - 1]
        first, length = work.positions[goal], work.lengths[goal]
        if first != position:
            for offset in range(length):
                if target[first + offset] != target[position + offset]:
                    return False
        position += length
    return True


@inlined
def _find_substring(
    rule: int, whole: bool, target: Int32Array, grammar: GrammarArrays, work: GoalWorkspace
) -> tuple[int, int]:
    """Where in `target` (if `whole`, as all of it) the rule's yield occurs first, or NOTHING, and its length."""
    length = 0
    for at in range(grammar.targets.offsets[rule], grammar.targets.offsets[rule + 1]):
        symbol = grammar.targets.values[at]
        length += 1 if symbol >= 0 else work.lengths[work.chosen_goals[-symbol - 1]]
    if not whole or length == len(target):
        for position in range(len(target) - length + 1):
            if _matches_at(position, rule, target, grammar, work):
                return position, length
    return NOTHING, length


@inlined
def _value_matches_at(position: int, rule: int, target: Int32Array, grammar: GrammarArrays) -> bool:
    """Whether the target of a value's slot, its tokens for the slot's terminal, is `target` from there."""
    values, value, of_slot = (
        grammar.values,
        value_row(rule, grammar.values),
        slot_rule(rule, grammar.values),
    )
    first, size = values.first_token[value], values.sizes[value]
    for at in range(grammar.targets.offsets[of_slot], grammar.targets.offsets[of_slot + 1]):
        symbol = grammar.targets.values[at]
        if symbol != values.slots[of_slot]:
            if target[position] != symbol:
                return False
            position += 1
            continue
        for offset in range(size):
            if target[position + offset] != values.tokens[first + offset]:
                return False
        position += size
    return True


@inlined
def _find_value(
    rule: int, whole: bool, target: Int32Array, grammar: GrammarArrays
) -> tuple[int, int]:
    """`_find_substring` for the rule of a value; one without tokens is in no target."""
    values, of_slot, length = grammar.values, slot_rule(rule, grammar.values), 0
    size = values.sizes[value_row(rule, values)]
    for symbol in grammar.targets.values[
        grammar.targets.offsets[of_slot] : grammar.targets.offsets[of_slot + 1]
    ]:
        length += size if symbol == values.slots[of_slot] else 1
    if size > 0 and (not whole or length == len(target)):
        for position in range(len(target) - length + 1):
            if _value_matches_at(position, rule, target, grammar):
                return position, length
    return NOTHING, length


@inlined
def _goal_of(node: int, position: int, length: int, work: GoalWorkspace) -> int:
    """The goal of this node for that substring of the target, made if it is new; NOTHING when the buffer is full."""
    goal: int = work.newest_goal[position]
    while goal != NOTHING and work.lengths[goal] != length:
        goal = work.older_goal[goal]
    if goal == NOTHING:
        goal = work.used[GOALS]
        if goal == len(work.positions):
            work.used[GOALS_FULL] = 1
            return NOTHING
        work.owners[goal], work.positions[goal], work.lengths[goal] = node, position, length
        work.older_goal[goal] = work.newest_goal[position]
        work.newest_goal[position] = goal
        work.used[GOALS] += 1
    return goal


@inlined
def choose_first(arity: int, work: GoalWorkspace) -> bool:
    """Choose the first goal of each of `nodes`, but for those that are NOTHING; whether all have one."""
    for at in range(arity):
        node = work.nodes[at]
        if node != NOTHING:
            work.chosen_goals[at] = work.first_goal[node]
            if work.first_goal[node] == work.first_goal[node + 1]:
                return False
    return True


@inlined
def choose_next(arity: int, work: GoalWorkspace) -> bool:
    """Choose the next combination of goals, the last node's changing fastest; whether there is one."""
    for at in range(arity - 1, -1, -1):
        node = work.nodes[at]
        if node != NOTHING:
            work.chosen_goals[at] += 1
            if work.chosen_goals[at] < work.first_goal[node + 1]:
                return True
            work.chosen_goals[at] = work.first_goal[node]
    return False


@inlined
def _record(
    node: int, position: int, length: int, rule: int, arity: int, work: GoalWorkspace
) -> None:
    """Add a hyperedge that yields that substring of the target over the chosen goals."""
    goal, hyperedge = _goal_of(node, position, length, work), work.used[GOAL_HYPEREDGES]
    if goal == NOTHING or hyperedge == len(work.rules):
        work.used[GOALS_FULL] = 1
        return
    work.heads[hyperedge], work.rules[hyperedge] = goal, rule
    for at in range(work.children.shape[1]):
        work.children[hyperedge, at] = work.chosen_goals[at] if at < arity else NOTHING
    work.used[GOAL_HYPEREDGES] += 1


@inlined
def _refine(
    node: int,
    hyperedge: int,
    whole: bool,
    first_node: int,
    target: Int32Array,
    grammar: GrammarArrays,
    charts: Hypergraph,
    work: GoalWorkspace,
) -> None:
    """Try `hyperedge` of the chart with every combination of its children's goals; a leaf yields itself."""
    rule = charts.rules[hyperedge]
    if rule >= grammar.values.first:
        position, length = _find_value(rule, whole, target, grammar)
        if position != NOTHING:
            _record(node, position, length, rule, 0, work)
        return
    if rule <= LEAF:
        for position in range(len(target)):
            if target[position] == rule:
                _record(node, position, 1, rule, 0, work)
                return
        return
    arity = grammar.arities[rule]
    for at in range(arity):
        work.nodes[at] = charts.children[hyperedge, at] - first_node
    more = choose_first(arity, work)
    while more and not work.used[GOALS_FULL]:
        position, length = _find_substring(rule, whole, target, grammar, work)
        if position != NOTHING:
            _record(node, position, length, rule, arity, work)
        more = choose_next(arity, work)


@inlined
def find_goals(
    sentence: int,
    target: Int32Array,
    rooted: bool,
    grammar: GrammarArrays,
    charts: Hypergraph,
    work: GoalWorkspace,
) -> bool:
    """Fill the workspace with all goals of one pair; False when a buffer is full.

    Where the charts are `rooted` (pruned), the last node covers the source, and only the whole target will do for it.
    """
    work.used[:] = 0
    first, last = charts.first_node[sentence], charts.first_node[sentence + 1]
    for node in range(last - first):
        begin = work.used[GOALS]
        work.first_goal[node] = begin
        whole = rooted and node == last - first - 1
        for hyperedge in range(
            charts.first_hyperedge[first + node], charts.first_hyperedge[first + node + 1]
        ):
            _refine(node, hyperedge, whole, first, target, grammar, charts, work)
        _reset_index(begin, work)
        work.first_goal[node + 1] = work.used[GOALS]
        if work.used[GOALS_FULL]:
            return False
    return True


@inlined
def _type_of(rule: int, arity: int, types: TypeArrays, work: GoalWorkspace) -> tuple[int, int]:
    """The type of the rule over the chosen goals, or NO_TYPE; and how many of them decided that."""
    first_argument, cell = types.first_place[rule], 0
    for child in range(arity):
        kind = types.classes[first_argument + child, work.positions[work.chosen_goals[child]]]
        if kind == NO_TYPE:
            return NO_TYPE, child + 1
        cell = cell * types.sizes[first_argument + child] + kind
    return int(types.results[types.first_result[rule] + cell]), arity


@inlined
def _find_types(
    sentence: int,
    length: int,
    grammar: GrammarArrays,
    types: TypeArrays,
    charts: Hypergraph,
    work: GoalWorkspace,
) -> bool:
    """Fill the workspace with the goals of one sentence, which are types here; False when a buffer is full.

    Of what covers the whole sentence only what is legal has a goal, and all of that has one goal together.
    """
    work.used[:] = 0
    first, last = charts.first_node[sentence], charts.first_node[sentence + 1]
    for node in range(last - first):
        begin = work.used[GOALS]
        work.first_goal[node] = begin
        is_whole = charts.starts[first + node] == 0 and charts.ends[first + node] == length
        for hyperedge in range(
            charts.first_hyperedge[first + node], charts.first_hyperedge[first + node + 1]
        ):
            rule = charts.rules[hyperedge]
            of_slot = slot_rule(rule, grammar.values)
            arity = grammar.arities[of_slot]
            for at in range(arity):
                work.nodes[at] = charts.children[hyperedge, at] - first
            more = choose_first(arity, work)
            while more and not work.used[GOALS_FULL]:
                kind, tried = _type_of(of_slot, arity, types, work)
                if kind != NO_TYPE and is_whole:
                    kind = len(types.is_whole) if types.is_whole[kind] else NO_TYPE
                if kind != NO_TYPE:
                    _record(node, kind, 0, rule, arity, work)
                more = choose_next(tried, work)
        _reset_index(begin, work)
        work.first_goal[node + 1] = work.used[GOALS]
        if work.used[GOALS_FULL]:
            return False
    return True


@inlined
def _reset_index(begin: int, work: GoalWorkspace) -> None:
    """The next node begins without the goals from `begin` on, which are the node's before it."""
    for goal in range(begin, work.used[GOALS]):
        work.newest_goal[work.positions[goal]] = NOTHING


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
def _emit(
    first_node: int,
    kept: int,
    charts: Hypergraph,
    work: GoalWorkspace,
    out: Hypergraph,
    written: Int64Array,
) -> bool:
    """Append the kept goals and their hyperedges, grouped by goal, to `out`; False where they do not fit."""
    base, order = written[OUT_NODES], work.order
    if base + kept > len(out.starts) or written[OUT_HYPEREDGES] + work.used[GOAL_HYPEREDGES] > len(
        out.rules
    ):
        return False
    # Count the hyperedges of each goal, then let `order` say where its next one is written.
    order[:kept] = 0
    for hyperedge in range(work.used[GOAL_HYPEREDGES]):
        head = work.kept[work.heads[hyperedge]]
        if head != NOTHING:
            order[head] += 1
    for goal in range(kept):
        count = order[goal]
        order[goal] = written[OUT_HYPEREDGES]
        written[OUT_HYPEREDGES] += count
        out.first_hyperedge[base + goal + 1] = written[OUT_HYPEREDGES]
    for hyperedge in range(work.used[GOAL_HYPEREDGES]):
        head = work.kept[work.heads[hyperedge]]
        if head != NOTHING:
            emit_hyperedge(order[head], hyperedge, base, work.rules, work.children, work.kept, out)
            order[head] += 1
    for goal in range(work.used[GOALS]):
        if work.kept[goal] != NOTHING:
            row, node = base + work.kept[goal], first_node + work.owners[goal]
            out.starts[row], out.ends[row] = charts.starts[node], charts.ends[node]
    written[OUT_NODES] += kept
    return True


@unmanaged_kernel
def fill_goals(
    targets: Ragged,
    begin: int,
    grammar: GrammarArrays,
    charts: Hypergraph,
    work: GoalWorkspace,
    out: Hypergraph,
    written: Int64Array,
) -> int:
    """Goal graphs of the pairs from `begin` on into `out`; returns the first one that did not fit, or their number.

    `charts` are the pruned charts of the sources.
    """
    count = len(targets.offsets) - 1
    for sentence in range(begin, count):
        target = targets.values[targets.offsets[sentence] : targets.offsets[sentence + 1]]
        first, last = charts.first_node[sentence], charts.first_node[sentence + 1]
        if first < last:
            if not find_goals(sentence, target, True, grammar, charts, work):
                return sentence
            kept = _keep_reachable(work.first_goal[last - first - 1], work)
            if not _emit(first, kept, charts, work, out, written):
                return sentence
        written[OUT_SENTENCES] += 1
        out.first_node[written[OUT_SENTENCES]] = written[OUT_NODES]
    return count


@unmanaged_kernel
def fill_types(
    lengths: Int64Array,
    begin: int,
    prune: bool,
    grammar: GrammarArrays,
    types: TypeArrays,
    charts: Hypergraph,
    work: GoalWorkspace,
    out: Hypergraph,
    written: Int64Array,
) -> int:
    """Typed charts of sentences of these lengths, as `fill_goals` does it."""
    for sentence in range(begin, len(lengths)):
        first, last = charts.first_node[sentence], charts.first_node[sentence + 1]
        if first < last:
            if not _find_types(sentence, lengths[sentence], grammar, types, charts, work):
                return sentence
            if prune:
                kept = _keep_reachable(work.first_goal[last - first - 1], work)
            else:
                work.kept[: work.used[GOALS]] = 0
                kept = numbered(work.kept[: work.used[GOALS]])
            if not _emit(first, kept, charts, work, out, written):
                return sentence
        written[OUT_SENTENCES] += 1
        out.first_node[written[OUT_SENTENCES]] = written[OUT_NODES]
    return len(lengths)
