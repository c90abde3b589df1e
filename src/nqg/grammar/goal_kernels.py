"""Goal graphs: of all derivations of a source, those that yield one given target.

The chart of the source is refined from the bottom up: every node (a span) becomes one node for each part of the
target that the span can yield. A part is named by its first occurrence in the target and its length, so equal strings
have equal names and repeated non-terminals need no special case. Whether a rule's target with its children's parts
filled in is again a part of the target is decided by laying it over the target at every place where it could begin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import Int32Array, Int64Array, inlined, unmanaged_kernel
from nqg.grammar.chart_kernels import NOTHING, Graphs, numbered
from nqg.grammar.encoding import LEAF, GrammarArrays

GOALS, HYPEREDGES, OUT_OF_ROOM = range(3)  # what GoalWorkspace.used counts


class GoalWorkspace(NamedTuple):
    """Scratch arrays for one (source, target) pair, used again for the next."""

    used: Int64Array
    first_goal: Int32Array  # per node of the chart: its goals begin at
    owners: Int32Array  # per goal: node of the chart
    places: Int32Array  # per goal: where its part of the target begins
    lengths: Int32Array  # per goal: how long that part is
    goal_at: Int32Array  # per place in the target: newest goal of the current node that begins there
    older_goal: Int32Array  # per goal: the one before it at the same place
    picked: Int32Array  # (K,) goals picked for the children of the current hyperedge
    nodes: Int32Array  # (K,) those children
    heads: Int32Array  # per hyperedge: the goal it yields
    rules: Int32Array  # per hyperedge
    children: Int32Array  # (hyperedges, K)
    kept: Int32Array  # per goal: its number after pruning, or NOTHING
    order: Int64Array  # per goal: where its next hyperedge is written


def goal_workspace(most_nodes: int, longest_target: int, max_arity: int, room: int) -> GoalWorkspace:
    """Scratch arrays with `room` for goals and hyperedges."""

    def ints(*shape: int) -> Int32Array:
        return np.empty(shape, dtype=np.int32)

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
def yield_length(rule: int, grammar: GrammarArrays, work: GoalWorkspace) -> int:
    """How long the rule's target is with the picked parts filled in."""
    length = 0
    for at in range(grammar.first_target[rule], grammar.first_target[rule + 1]):
        symbol = grammar.targets[at]
        length += 1 if symbol >= 0 else work.lengths[work.picked[-symbol - 1]]
    return length


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
def first_place(rule: int, length: int, target: Int32Array, grammar: GrammarArrays, work: GoalWorkspace) -> int:
    """Where in `target` the rule's yield occurs first, or NOTHING."""
    for place in range(len(target) - length + 1):
        if _lies_at(place, rule, target, grammar, work):
            return place
    return NOTHING


@inlined
def goal_of(node: int, place: int, length: int, work: GoalWorkspace) -> int:
    """The goal of this node for that part of the target, made if it is new; NOTHING when room ran out."""
    goal: int = work.goal_at[place]
    while goal != NOTHING and work.lengths[goal] != length:
        goal = work.older_goal[goal]
    if goal == NOTHING:
        goal = work.used[GOALS]
        if goal == len(work.places):
            work.used[OUT_OF_ROOM] = 1
            return NOTHING
        work.owners[goal], work.places[goal], work.lengths[goal] = node, place, length
        work.older_goal[goal] = work.goal_at[place]
        work.goal_at[place] = goal
        work.used[GOALS] += 1
    return goal


@inlined
def _add(
    node: int, rule: int, arity: int, whole: bool, target: Int32Array, grammar: GrammarArrays, work: GoalWorkspace
) -> None:
    """Add the hyperedge of `rule` to the picked goals if it yields a part of the target (at the root: all of it)."""
    length = yield_length(rule, grammar, work)
    if length > len(target) or (whole and length < len(target)):
        return
    place = first_place(rule, length, target, grammar, work)
    if place == NOTHING:
        return
    _record(node, place, length, rule, arity, work)


@inlined
def _add_leaf(node: int, leaf: int, target: Int32Array, work: GoalWorkspace) -> None:
    """A leaf yields itself, wherever it stands first in the target."""
    for place in range(len(target)):
        if target[place] == leaf:
            _record(node, place, 1, leaf, 0, work)
            return


@inlined
def _record(node: int, place: int, length: int, rule: int, arity: int, work: GoalWorkspace) -> None:
    """Add a hyperedge that yields that part of the target over the picked goals."""
    goal, hyperedge = goal_of(node, place, length, work), work.used[HYPEREDGES]
    if goal == NOTHING or hyperedge == len(work.rules):
        work.used[OUT_OF_ROOM] = 1
        return
    work.heads[hyperedge], work.rules[hyperedge] = goal, rule
    for at in range(work.children.shape[1]):
        work.children[hyperedge, at] = work.picked[at] if at < arity else NOTHING
    work.used[HYPEREDGES] += 1


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
    """Try `hyperedge` of the chart with every combination of its children's goals."""
    rule = charts.rules[hyperedge]
    if rule <= LEAF:
        _add_leaf(node, rule, target, work)
        return
    arity = grammar.arities[rule]
    for at in range(arity):
        work.nodes[at] = charts.children[hyperedge, at] - first_node
    more = pick_first(arity, work)
    while more and not work.used[OUT_OF_ROOM]:
        _add(node, rule, arity, whole, target, grammar, work)
        more = pick_next(arity, work)


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
        for goal in range(begin, work.used[GOALS]):
            work.goal_at[work.places[goal]] = NOTHING
        work.first_goal[node + 1] = work.used[GOALS]
        if work.used[OUT_OF_ROOM]:
            return False
    return True


@inlined
def _keep_reachable_goals(first_root: int, work: GoalWorkspace) -> int:
    """Number the goals that the root leads to; hyperedges run from the last to the first, parents before children."""
    goals = work.used[GOALS]
    work.kept[:goals] = NOTHING
    if first_root == goals:
        return 0
    work.kept[goals - 1] = 0
    for hyperedge in range(work.used[HYPEREDGES] - 1, -1, -1):
        if work.kept[work.heads[hyperedge]] != NOTHING:
            for child in work.children[hyperedge]:
                if child != NOTHING:
                    work.kept[child] = 0
    return numbered(work.kept[:goals])


@inlined
def _emit_goals(first_node: int, kept: int, charts: Graphs, work: GoalWorkspace, out: Graphs) -> bool:
    """Append the kept goals and their hyperedges, grouped by goal, to `out`; False where they do not fit."""
    base = out.sizes[1]
    if base + kept > len(out.starts) or out.sizes[2] + work.used[HYPEREDGES] > len(out.rules):
        return False
    _make_way(base, kept, work, out)
    for hyperedge in range(work.used[HYPEREDGES]):
        head = work.kept[work.heads[hyperedge]]
        if head != NOTHING:
            _emit_goal_hyperedge(hyperedge, head, base, work, out)
    for goal in range(work.used[GOALS]):
        if work.kept[goal] != NOTHING:
            at, node = base + work.kept[goal], first_node + work.owners[goal]
            out.starts[at], out.ends[at] = charts.starts[node], charts.ends[node]
            out.target_starts[at], out.target_lengths[at] = work.places[goal], work.lengths[goal]
    out.sizes[1] += kept
    return True


@inlined
def _make_way(base: int, kept: int, work: GoalWorkspace, out: Graphs) -> None:
    """Count each kept goal's hyperedges and set where they will be written."""
    work.order[:kept] = 0
    for hyperedge in range(work.used[HYPEREDGES]):
        head = work.kept[work.heads[hyperedge]]
        if head != NOTHING:
            work.order[head] += 1
    for goal in range(kept):
        count = work.order[goal]
        work.order[goal] = out.sizes[2]
        out.sizes[2] += count
        out.first_hyperedge[base + goal + 1] = out.sizes[2]


@inlined
def _emit_goal_hyperedge(hyperedge: int, head: int, base: int, work: GoalWorkspace, out: Graphs) -> None:
    at = work.order[head]
    out.rules[at] = work.rules[hyperedge]
    for position in range(out.children.shape[1]):
        child = work.children[hyperedge, position]
        out.children[at, position] = NOTHING if child == NOTHING else work.kept[child] + base
    work.order[head] += 1


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
            kept = _keep_reachable_goals(work.first_goal[last - first - 1], work)
            if not _emit_goals(first, kept, charts, work, out):
                return sentence
        out.sizes[0] += 1
        out.first_node[out.sizes[0]] = out.sizes[1]
    return len(first_token) - 1
