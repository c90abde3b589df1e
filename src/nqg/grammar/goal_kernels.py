"""Refined charts: of all derivations of a source those that yield one target, or well-typed ones.

The chart of the source is refined from the bottom up: every node (a span) becomes one node, a
*goal*, for each substring of the target that the span can yield. A substring is named by its first
occurrence and its length, so equal strings have equal names and repeated non-terminals need no
special case. Whether a rule's target with its children's substrings filled in is again a substring
of the target is decided by comparing it with the target at every position where it could begin.

Types refine a chart in the same way: a goal is then a type that the span can have, and the rule's
table of types says which one it has over its children's (`nqg.types.tree_automaton`).

Data structures. Goals are the nodes of a `GraphBuffer`. Those of chart node n lie between
`first_goal[n]` and `first_goal[n + 1]`; while n is refined, `newest_goal` finds them by position,
as linked lists, and it is empty again when the next node begins. A hyperedge of the chart is tried
with every combination of its children's goals: `nodes` are the children, `chosen_goals` the
combination.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import Int32Array, Int64Array
from nqg.grammar.chart_kernels import (
    BUFFER_FULL,
    GRAPH_FULL,
    GRAPH_NODES,
    NO_LIMIT,
    NOTHING,
    GraphBuffer,
    append_hyperedge,
    begin_graph,
    count_steps,
    emit,
    graph_buffer,
    ints,
)
from nqg.grammar.compilation import inlined, unmanaged_kernel
from nqg.grammar.encoding import (
    LEAF,
    NO_TYPE,
    TYPE_BITS,
    GrammarArrays,
    TypeArrays,
    slot_rule,
    value_row,
)
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.ragged import Ragged

# A forest with fewer hyperedges is refined by types whatever that takes, so that nothing depends on
# whether it was reduced before (`nqg.types.legal_forest`).
LARGE_FOREST = 1 << 12
# A combination of goals takes another step for so many tokens of the target, in which its yield is
# looked for. Most programs have fewer.
TOKENS_OF_STEP = 64


class GoalWorkspace(NamedTuple):
    """Scratch arrays for one (source, target) pair, used again for the next."""

    graph: GraphBuffer  # its nodes are the goals
    positions: (
        Int32Array  # per goal: where its substring of the target begins; or its type
    )
    lengths: Int32Array  # per goal: how long that substring is; 0 if it is a type
    older_goal: Int32Array  # per goal: the one before it at the same position
    newest_goal: (
        Int32Array  # per position in the target: newest goal of the current node
    )
    first_goal: Int32Array  # per node of the chart: its goals begin at
    chosen_goals: Int32Array  # (K,) for the children of the current hyperedge
    nodes: Int32Array  # (K,) those children


def goal_workspace(
    most_nodes: int,
    longest_target: int,
    max_arity: int,
    capacity: int,
    limit: int = NO_LIMIT,
) -> GoalWorkspace:
    """Scratch arrays with a capacity for goals and hyperedges, for `limit` steps a sentence."""
    newest_goal = np.full(longest_target + 1, NOTHING, dtype=np.int32)
    arrays = [
        *ints(3, capacity),
        newest_goal,
        ints(most_nodes + 1),
        *ints(2, max_arity),
    ]
    graph = graph_buffer(capacity, capacity, max_arity, limit)
    return GoalWorkspace._make([graph, *arrays])


@inlined
def _matches_at(
    position: int,
    rule: int,
    slot: int,
    value: int,
    target: Int32Array,
    grammar: GrammarArrays,
    work: GoalWorkspace,
) -> bool:
    """Whether the rule's yield over the chosen goals reads as `target` from `position` on.

    In the rule of a slot, `slot` is the slot's terminal, for which the tokens of row `value` stand;
    in any other rule it is NOTHING.
    """
    for at in range(grammar.targets.offsets[rule], grammar.targets.offsets[rule + 1]):
        symbol = grammar.targets.values[at]
        if symbol < 0:
            # The substring of a goal may lie elsewhere in the target.
            goal = work.chosen_goals[-symbol - 1]
            first, length = work.positions[goal], work.lengths[goal]
            if first != position:
                for offset in range(length):
                    if target[first + offset] != target[position + offset]:
                        return False
            position += length
        elif symbol == slot:
            first = grammar.values.first_token[value]
            for offset in range(grammar.values.sizes[value]):
                if grammar.values.tokens[first + offset] != target[position + offset]:
                    return False
            position += grammar.values.sizes[value]
        else:
            if target[position] != symbol:
                return False
            position += 1
    return True


@inlined
def choose_first(arity: int, work: GoalWorkspace) -> bool:
    """Choose the first goal of each of `nodes` but NOTHING; False if one has none."""
    for at in range(arity):
        node = work.nodes[at]
        if node != NOTHING:
            work.chosen_goals[at] = work.first_goal[node]
            if work.first_goal[node] == work.first_goal[node + 1]:
                return False
    return True


@inlined
def choose_next(arity: int, work: GoalWorkspace) -> bool:
    """Choose the next combination of goals, the last node's fastest; False if none is left."""
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
    node: int,
    position: int,
    length: int,
    rule: int,
    arity: int,
    charts: Hypergraph,
    work: GoalWorkspace,
) -> None:
    """Add a hyperedge over the chosen goals to the goal of a node and that substring of the target.

    The goal is made if it is new.
    """
    graph = work.graph
    # Look for the goal among those of this position, which are a linked list.
    goal = work.newest_goal[position]
    while goal != NOTHING and work.lengths[goal] != length:
        goal = work.older_goal[goal]
    if goal == NOTHING:
        goal = graph.used[GRAPH_NODES]
        # The buffer is full: set the flag, and let the caller retry with more room.
        if goal == len(graph.starts):
            graph.used[GRAPH_FULL] = BUFFER_FULL
            return
        graph.starts[goal], graph.ends[goal] = charts.starts[node], charts.ends[node]
        work.positions[goal], work.lengths[goal] = position, length
        work.older_goal[goal] = work.newest_goal[position]
        work.newest_goal[position] = goal
        graph.used[GRAPH_NODES] += 1
    hyperedge = append_hyperedge(goal, rule, graph)
    if hyperedge != NOTHING:
        for at in range(arity):
            graph.children[hyperedge, at] = work.chosen_goals[at]


@inlined
def _choose_children(
    hyperedge: int, arity: int, first_node: int, charts: Hypergraph, work: GoalWorkspace
) -> bool:
    """Choose the first goals of the children of a hyperedge; False if one has none."""
    for at in range(arity):
        work.nodes[at] = charts.children[hyperedge, at] - first_node
    return choose_first(arity, work)


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
    """Try `hyperedge` of the chart with every combination of its children's goals.

    If `whole`, it must yield all of the target.
    """
    rule = charts.rules[hyperedge]
    # A leaf yields itself.
    if rule <= LEAF:
        for position in range(len(target)):
            if target[position] == rule:
                _record(node, position, 1, rule, 0, charts, work)
                return
        return
    # The value of a slot yields what the slot's rule does. A value without tokens is in no target.
    of_slot, slot, value = rule, NOTHING, 0
    if rule >= grammar.values.first:
        of_slot, value = (
            slot_rule(rule, grammar.values),
            value_row(rule, grammar.values),
        )
        slot = grammar.values.slots[of_slot]
        if grammar.values.sizes[value] == 0:
            return
    arity = grammar.arities[of_slot]
    more = _choose_children(hyperedge, arity, first_node, charts, work)
    while more and not work.graph.used[GRAPH_FULL]:
        # Each position of the target is compared.
        count_steps(1 + len(target) // TOKENS_OF_STEP, work.graph)
        length = 0
        for at in range(
            grammar.targets.offsets[of_slot], grammar.targets.offsets[of_slot + 1]
        ):
            symbol = grammar.targets.values[at]
            if symbol < 0:
                length += work.lengths[work.chosen_goals[-symbol - 1]]
            elif symbol == slot:
                length += grammar.values.sizes[value]
            else:
                length += 1
        # The yield is named by its first occurrence in the target.
        if not whole or length == len(target):
            for position in range(len(target) - length + 1):
                if _matches_at(position, of_slot, slot, value, target, grammar, work):
                    _record(node, position, length, rule, arity, charts, work)
                    break
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
    """Fill the graph buffer with all goals of one pair; False when it is full.

    Where the charts are `rooted` (pruned), the last node covers the source, and it must yield the
    whole target.
    """
    begin_graph(work.graph)
    first, last = charts.first_node[sentence], charts.first_node[sentence + 1]
    work.first_goal[0] = 0
    # Children have smaller numbers than parents, so their goals are complete by now.
    for node in range(first, last):
        whole = rooted and node == last - 1
        for hyperedge in range(
            charts.first_hyperedge[node], charts.first_hyperedge[node + 1]
        ):
            _refine(node, hyperedge, whole, first, target, grammar, charts, work)
        _end_node(node - first, work)
        if work.graph.used[GRAPH_FULL]:
            return False
    return True


@inlined
def _end_node(node: int, work: GoalWorkspace) -> None:
    """Note where the goals of a chart node end, and empty the index for the next node."""
    goals = work.graph.used[GRAPH_NODES]
    for goal in range(work.first_goal[node], goals):
        work.newest_goal[work.positions[goal]] = NOTHING
    work.first_goal[node + 1] = goals


@inlined
def _type_of(
    rule: int, arity: int, types: TypeArrays, work: GoalWorkspace
) -> tuple[int, int]:
    """The type of the rule over the chosen goals, or NO_TYPE; and how many of them decided that."""
    first_argument, cell = types.first_place[rule], 0
    for child in range(arity):
        kind = types.classes[
            first_argument + child, work.positions[work.chosen_goals[child]]
        ]
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
    wanted: Int64Array,
    work: GoalWorkspace,
) -> bool:
    """Fill the graph buffer with the goals of one sentence, which are types; False when it is full.

    Of what covers the whole sentence only what is legal has a goal, all of it the same one. Types
    that are not wanted of a node have no goal.
    """
    begin_graph(work.graph)
    first, last = charts.first_node[sentence], charts.first_node[sentence + 1]
    hyperedges = charts.first_hyperedge[last] - charts.first_hyperedge[first]
    counted = 1 if hyperedges >= LARGE_FOREST else 0
    work.first_goal[0] = 0
    for node in range(first, last):
        is_whole = charts.starts[node] == 0 and charts.ends[node] == length
        for hyperedge in range(
            charts.first_hyperedge[node], charts.first_hyperedge[node + 1]
        ):
            rule = charts.rules[hyperedge]
            of_slot = slot_rule(rule, grammar.values)
            arity = grammar.arities[of_slot]
            more = _choose_children(hyperedge, arity, first, charts, work)
            while more and not work.graph.used[GRAPH_FULL]:
                count_steps(counted, work.graph)
                kind, tried = _type_of(of_slot, arity, types, work)
                if kind != NO_TYPE and not wanted[node] >> (kind % TYPE_BITS) & 1:
                    kind = NO_TYPE
                if kind != NO_TYPE and is_whole:
                    kind = len(types.is_whole) if types.is_whole[kind] else NO_TYPE
                if kind != NO_TYPE:
                    _record(node, kind, 0, rule, arity, charts, work)
                # Where the first children decided, the goals of the others do not matter.
                more = choose_next(tried, work)
        _end_node(node - first, work)
        if work.graph.used[GRAPH_FULL]:
            return False
    return True


@inlined
def _root(nodes: int, work: GoalWorkspace) -> int:
    """The goal of the last of the chart's nodes, which has one at most, or NOTHING."""
    if nodes > 0 and work.first_goal[nodes - 1] < work.first_goal[nodes]:
        return int(work.first_goal[nodes]) - 1
    return NOTHING


@unmanaged_kernel
def fill_goals(
    targets: Ragged,
    begin: int,
    grammar: GrammarArrays,
    charts: Hypergraph,
    work: GoalWorkspace,
    out: Hypergraph,
) -> int:
    """Goal graphs of the pairs from `begin` on, as `fill_charts` writes charts.

    `charts` are the pruned charts of the sources.
    """
    count = len(targets.offsets) - 1
    for sentence in range(begin, count):
        target = targets.values[
            targets.offsets[sentence] : targets.offsets[sentence + 1]
        ]
        if not find_goals(sentence, target, True, grammar, charts, work):
            return sentence
        root = _root(
            charts.first_node[sentence + 1] - charts.first_node[sentence], work
        )
        if not emit(sentence - begin, root, True, work.graph, out):
            return sentence
    return count


@unmanaged_kernel
def fill_types(
    lengths: Int64Array,
    begin: int,
    prune: bool,
    grammar: GrammarArrays,
    types: TypeArrays,
    charts: Hypergraph,
    wanted: Int64Array,
    work: GoalWorkspace,
    out: Hypergraph,
) -> int:
    """Typed charts of sentences of these lengths, as `fill_charts` writes charts.

    `wanted` has a mask of types for every node of the charts.
    """
    for sentence in range(begin, len(lengths)):
        length = lengths[sentence]
        if not _find_types(sentence, length, grammar, types, charts, wanted, work):
            return sentence
        root = _root(
            charts.first_node[sentence + 1] - charts.first_node[sentence], work
        )
        if not emit(sentence - begin, root, prune, work.graph, out):
            return sentence
    return len(lengths)
