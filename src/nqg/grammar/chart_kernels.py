"""The chart of a source: every way in which rules cover its spans, for a batch of sentences.

CKY without binarisation. Source sides sit in a trie. For a fixed start, a *state* is a trie node reached at some
position; it is reached over a token, or over a non-terminal that covers a span already found derivable. Equal states
are merged and remember all their ways in (*steps*), so the walk forward is polynomial; when a state ends a rule, the
walk back over its steps lists the children of every hyperedge.

Starts run from right to left and ends from left to right. A rule's non-terminals cover spans that start further right,
or at the same place and end earlier (no rule is a lone non-terminal), so every span is complete when it is needed, and
the order in which nodes are found is topological.

A token that is a leaf covers itself: a hyperedge whose number is the token's own. Induction charts the two sides of
a rule that way, its non-terminals being the leaves. Values of slots cover their spans likewise, as rules of their own.

Kernels never grow an array. Where room runs out they stop and say so; the caller makes more room and goes on from the
sentence that did not fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import Int32Array, Int64Array, inlined, unmanaged_kernel
from nqg.grammar.encoding import LEAF, NOWHERE, ROOT, GrammarArrays, successor
from nqg.grammar.hypergraph import Hypergraph

NOTHING = -1  # no child, no step, no node
STATES, OPEN, STEPS, NODES, HYPEREDGES, STAMP, OUT_OF_ROOM = range(7)  # what Workspace.used counts


class Workspace(NamedTuple):
    """Scratch arrays for one sentence, used again for the next."""

    used: Int64Array
    trie_nodes: Int32Array  # per state: trie node
    positions: Int32Array  # per state: how far it has read
    open_states: Int32Array  # the states from which a non-terminal leads on
    last_step: Int32Array  # per state: its newest way in
    step_origin: Int32Array  # per step: state it came from
    step_child: Int32Array  # per step: node that it passed over, or NOTHING for a token
    older_step: Int32Array  # per step: another way into the same state
    seen: Int64Array  # per trie node: stamp of the position where a state of it was last made
    state_of: Int32Array  # per trie node: that state
    first_state: Int32Array  # per position: states there begin at
    cells: Int32Array  # (n + 1, n + 1): node of a span, or NOTHING
    path: Int32Array  # the steps of one way through a rule's source
    starts: Int32Array  # per node
    ends: Int32Array  # per node
    first_hyperedge: Int64Array  # per node
    rules: Int32Array  # per hyperedge
    children: Int32Array  # (hyperedges, K)
    kept: Int32Array  # per node: its number after pruning, or NOTHING


def ints(*shape: int) -> Int32Array:
    return np.empty(shape, dtype=np.int32)


def workspace(longest: int, trie_nodes: int, max_arity: int, room: int) -> Workspace:
    """Scratch arrays for sentences of at most `longest` tokens with `room` for states, steps and hyperedges."""
    spans = longest * (longest + 1) // 2
    return Workspace(
        used=np.zeros(7, dtype=np.int64),
        trie_nodes=ints(room),
        positions=ints(room),
        open_states=ints(room),
        last_step=ints(room),
        step_origin=ints(room),
        step_child=ints(room),
        older_step=ints(room),
        seen=np.zeros(trie_nodes, dtype=np.int64),
        state_of=ints(trie_nodes),
        first_state=ints(longest + 2),
        cells=ints(longest + 1, longest + 1),
        path=ints(longest + 1),
        starts=ints(spans),
        ends=ints(spans),
        first_hyperedge=np.empty(spans + 1, dtype=np.int64),
        rules=ints(room),
        children=ints(room, max_arity),
        kept=ints(spans),
    )


class Graphs(NamedTuple):
    """Hypergraphs of several sentences end to end, in arrays that may have room to spare (see `sizes`)."""

    sizes: Int64Array  # [sentences, nodes, hyperedges] used so far
    first_node: Int64Array  # per sentence
    starts: Int32Array
    ends: Int32Array
    first_hyperedge: Int64Array
    rules: Int32Array
    children: Int32Array
    target_starts: Int32Array  # of goal graphs; empty otherwise
    target_lengths: Int32Array

    @classmethod
    def empty(cls, sentences: int, room: int, max_arity: int, *, goals: bool) -> Graphs:
        """Room to write to; of the tables of group starts only the first entry is set."""
        first_node, first_hyperedge = np.empty(sentences + 1, dtype=np.int64), np.empty(room + 1, dtype=np.int64)
        first_node[0] = first_hyperedge[0] = 0
        sizes, parts = np.zeros(3, dtype=np.int64), room if goals else 0
        nodes, hyperedges = (ints(room), ints(room)), (ints(room), ints(room, max_arity))
        return cls(sizes, first_node, *nodes, first_hyperedge, *hyperedges, ints(parts), ints(parts))

    @classmethod
    def of(cls, graph: Hypergraph) -> Graphs:
        """A finished graph, to read from."""
        sizes = np.array([len(graph), graph.nodes, graph.hyperedges], dtype=np.int64)
        nodes, hyperedges = (graph.starts, graph.ends), (graph.rules, graph.children)
        return cls(sizes, graph.first_node, *nodes, graph.first_hyperedge, *hyperedges, ints(0), ints(0))

    def hypergraph(self, *, goals: bool) -> Hypergraph:
        """A copy of what has been written."""
        sentences, nodes, hyperedges = (int(size) for size in self.sizes)
        return Hypergraph(
            first_node=self.first_node[: sentences + 1].copy(),
            starts=self.starts[:nodes].copy(),
            ends=self.ends[:nodes].copy(),
            first_hyperedge=self.first_hyperedge[: nodes + 1].copy(),
            rules=self.rules[:hyperedges].copy(),
            children=self.children[:hyperedges].copy(),
            target_starts=self.target_starts[:nodes].copy() if goals else None,
            target_lengths=self.target_lengths[:nodes].copy() if goals else None,
        )


@inlined
def reach(trie_node: int, position: int, origin: int, child: int, grammar: GrammarArrays, work: Workspace) -> None:
    """Enter `trie_node` at `position`, coming from state `origin` over `child`."""
    used = work.used
    if used[STEPS] == len(work.step_child) or used[STATES] == len(work.trie_nodes):
        used[OUT_OF_ROOM] = 1
        return
    if work.seen[trie_node] != used[STAMP]:
        state = used[STATES]
        work.seen[trie_node], work.state_of[trie_node] = used[STAMP], state
        work.trie_nodes[state], work.positions[state], work.last_step[state] = trie_node, position, NOTHING
        used[STATES] += 1
        if grammar.over_nt[trie_node] != NOWHERE:
            work.open_states[used[OPEN]] = state
            used[OPEN] += 1
    state, step = work.state_of[trie_node], used[STEPS]
    work.step_origin[step], work.step_child[step], work.older_step[step] = origin, child, work.last_step[state]
    work.last_step[state] = step
    used[STEPS] += 1


@inlined
def advance(end: int, token: int, grammar: GrammarArrays, work: Workspace) -> None:
    """Find all states at `end`, over the last token or over a non-terminal that ends there."""
    for state in range(work.first_state[end - 1], work.first_state[end]):
        trie_node = successor(grammar.trie, work.trie_nodes[state], token)
        if trie_node != NOWHERE:
            reach(trie_node, end, state, NOTHING, grammar, work)
    for at in range(work.used[OPEN]):
        state = work.open_states[at]
        child = work.cells[work.positions[state], end]
        if child != NOTHING:
            reach(grammar.over_nt[work.trie_nodes[state]], end, state, child, grammar, work)


@inlined
def apply_rules(state: int, grammar: GrammarArrays, work: Workspace) -> None:
    """List the hyperedges of the rules that end at `state`: one for each way back to the start."""
    trie, trie_node, depth = grammar.trie, work.trie_nodes[state], 0
    first, last = trie.first_item[trie_node], trie.first_item[trie_node + 1]
    if first == last:
        return
    work.path[0] = work.last_step[state]
    while depth >= 0:
        step = work.path[depth]
        if step == NOTHING:
            depth -= 1
            if depth >= 0:
                work.path[depth] = work.older_step[work.path[depth]]
        elif work.step_origin[step] == 0:
            for rule in trie.items[first:last]:
                if grammar.active[rule]:
                    append_hyperedge(rule, depth, work)
            work.path[depth] = work.older_step[step]
        else:
            depth += 1
            work.path[depth] = work.last_step[work.step_origin[step]]


@inlined
def append_hyperedge(rule: int, depth: int, work: Workspace) -> None:
    """Add `rule` with the children that the current path passed over (the path runs from right to left)."""
    hyperedge, arity = work.used[HYPEREDGES], 0
    if hyperedge == len(work.rules):
        work.used[OUT_OF_ROOM] = 1
        return
    work.rules[hyperedge] = rule
    for at in range(depth, -1, -1):
        child = work.step_child[work.path[at]]
        if child != NOTHING:
            work.children[hyperedge, arity] = child
            arity += 1
    work.children[hyperedge, arity:] = NOTHING
    work.used[HYPEREDGES] += 1


@inlined
def begin_sentence(count: int, work: Workspace) -> None:
    """Forget the sentence before: no span of this one has a node yet."""
    work.used[NODES] = work.used[HYPEREDGES] = work.used[OUT_OF_ROOM] = 0
    work.cells[: count + 1, : count + 1] = NOTHING


@inlined
def begin_rules(start: int, work: Workspace) -> None:
    """Begin at the root of the trie, which is never among the open states: what rules begin with is not known yet."""
    work.used[STATES], work.used[OPEN], work.used[STEPS] = 1, 0, 0
    work.trie_nodes[0] = ROOT
    work.first_state[start], work.first_state[start + 1] = 0, 1


@inlined
def add_node(start: int, end: int, grammar: GrammarArrays, work: Workspace) -> None:
    """Make the node of a span that is derivable, and let rules begin with it."""
    node = work.used[NODES]
    work.cells[start, end] = node
    work.used[NODES] += 1
    if grammar.over_nt[ROOT] != NOWHERE:
        reach(grammar.over_nt[ROOT], end, 0, node, grammar, work)


@inlined
def _append_texts(start: int, end: int, first: int, grammar: GrammarArrays, work: Workspace) -> None:
    """Add all that free text can be over a span of the sentence whose first token is number `first` of all."""
    values, size = grammar.values, end - start
    if size <= values.longest:
        number = values.first_text + ((first + start) * values.longest + size - 1) * len(values.text_rules)
        for text in range(len(values.text_rules)):
            if size <= values.text_lengths[text]:
                append_hyperedge(number + text, NOTHING, work)


@inlined
def _chart(sentence: int, first: int, tokens: Int32Array, grammar: GrammarArrays, work: Workspace) -> bool:
    """Fill the workspace with the chart of one sentence; False when its room ran out."""
    used, count, values, value, last_value = work.used, len(tokens), grammar.values, 0, 0
    if len(values.first_value) > 0:
        value, last_value = values.first_value[sentence], values.first_value[sentence + 1]
    begin_sentence(count, work)
    work.first_hyperedge[0] = 0
    for start in range(count - 1, -1, -1):
        begin_rules(start, work)
        for end in range(start + 1, count + 1):
            used[STAMP] += 1
            token, before = tokens[end - 1], used[HYPEREDGES]
            advance(end, token, grammar, work)
            if token <= LEAF and end == start + 1:
                append_hyperedge(token, NOTHING, work)
            for state in range(work.first_state[end], used[STATES]):
                apply_rules(state, grammar, work)
            while value < last_value and values.starts[value] == start and values.ends[value] == end:
                append_hyperedge(values.first + value, NOTHING, work)
                value += 1
            _append_texts(start, end, first, grammar, work)
            if used[HYPEREDGES] > before:
                work.starts[used[NODES]], work.ends[used[NODES]] = start, end
                work.first_hyperedge[used[NODES] + 1] = used[HYPEREDGES]
                add_node(start, end, grammar, work)
            work.first_state[end + 1] = used[STATES]
            if used[OUT_OF_ROOM]:
                return False
    return True


@inlined
def _keep(root: int, prune: bool, work: Workspace) -> int:
    """Number the nodes in order, if pruned those that `root` leads to (the others get NOTHING); returns how many."""
    kept = work.kept[: work.used[NODES]]
    kept[:] = NOTHING if prune else 0
    if prune and root != NOTHING:
        kept[root] = 0
        for node in range(root, -1, -1):
            if kept[node] == NOTHING:
                continue
            for hyperedge in range(work.first_hyperedge[node], work.first_hyperedge[node + 1]):
                for child in work.children[hyperedge]:
                    if child != NOTHING:
                        kept[child] = 0
    return numbered(kept)


@inlined
def numbered(kept: Int32Array) -> int:
    """Number the entries other than NOTHING by their order, in place; returns how many there are."""
    count = 0
    for node in range(len(kept)):
        if kept[node] != NOTHING:
            kept[node] = count
            count += 1
    return count


@inlined
def emit_hyperedge(
    at: int, hyperedge: int, first_node: int, rules: Int32Array, children: Int32Array, kept: Int32Array, out: Graphs
) -> None:
    """Write a hyperedge to place `at` of `out`, its children by the numbers that they were kept under."""
    out.rules[at] = rules[hyperedge]
    for position in range(out.children.shape[1]):
        child = children[hyperedge, position]
        out.children[at, position] = NOTHING if child == NOTHING else kept[child] + first_node


@inlined
def _emit(nodes: int, work: Workspace, out: Graphs) -> bool:
    """Append the kept nodes and their hyperedges to `out`; False where they do not fit."""
    first_node, first = out.sizes[1], out.sizes[2]
    if first_node + nodes > len(out.starts) or first + work.used[HYPEREDGES] > len(out.rules):
        return False
    for node in range(work.used[NODES]):
        if work.kept[node] == NOTHING:
            continue
        at = out.sizes[1]
        out.starts[at], out.ends[at] = work.starts[node], work.ends[node]
        for hyperedge in range(work.first_hyperedge[node], work.first_hyperedge[node + 1]):
            emit_hyperedge(out.sizes[2], hyperedge, first_node, work.rules, work.children, work.kept, out)
            out.sizes[2] += 1
        out.sizes[1] += 1
        out.first_hyperedge[at + 1] = out.sizes[2]
    return True


@unmanaged_kernel
def fill_charts(
    first_token: Int32Array,
    tokens: Int32Array,
    begin: int,
    prune: bool,
    grammar: GrammarArrays,
    work: Workspace,
    out: Graphs,
) -> int:
    """Chart the sentences from `begin` on into `out`; returns the first one that did not fit, or their number."""
    for sentence in range(begin, len(first_token) - 1):
        first = first_token[sentence]
        source = tokens[first : first_token[sentence + 1]]
        is_filled = _chart(sentence, first, source, grammar, work)
        if not is_filled or not _emit(_keep(work.cells[0, len(source)], prune, work), work, out):
            return sentence
        out.sizes[0] += 1
        out.first_node[out.sizes[0]] = out.sizes[1]
    return len(first_token) - 1
