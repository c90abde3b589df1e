"""The chart of a source: every way in which rules cover its spans, for a batch of sentences.

CKY without binarisation. Source sides sit in a trie. For a fixed start, an *item* is a trie node
reached at some position; it is reached by scanning a token, or by completing a non-terminal over a
span already found derivable. Equal items are merged and keep all their *back-pointers*, so the walk
forward is polynomial; when an item ends a rule, the walk back over its back-pointers lists the
children of every hyperedge.

Starts run from right to left and ends from left to right. A rule's non-terminals cover spans that
start further right, or at the same position and end earlier (no rule is a lone non-terminal), so
every span is complete when it is needed, and the order in which nodes are found is topological.

A token that is a leaf covers itself: a hyperedge whose number is the token's own. Induction charts
the two sides of a rule that way, its non-terminals being the leaves. Values of slots cover their
spans likewise, as rules of their own.

Data structures. A `Workspace` holds the items of one start and their back-pointers: items lie in
the order of their positions, and the back-pointers of an item are a linked list, newest first. A
`GraphBuffer` holds the hypergraph of one sentence; `goal_kernels` builds its graphs in one, too.
What is kept of it is appended to a `Hypergraph`, sentence by sentence.

Kernels never grow an array. Where a buffer is full they stop and say so; the caller makes a larger
one and goes on from the sentence that did not fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import Int32Array, Int64Array
from nqg.grammar.compilation import inlined, unmanaged_kernel
from nqg.grammar.encoding import (
    LEAF,
    NOWHERE,
    TRIE_ROOT,
    GrammarArrays,
    inlined_free_text_id,
    successor,
)
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.ragged import Ragged

# No child, no back-pointer, no node.
NOTHING = -1
# The counters of a GraphBuffer. GRAPH_FULL is 1 once something did not fit into any buffer, and 2
# once a sentence took more steps than GRAPH_LIMIT allows.
GRAPH_NODES, GRAPH_HYPEREDGES, GRAPH_FULL, GRAPH_STEPS, GRAPH_LIMIT = range(5)
BUFFER_FULL, LIMIT_REACHED = 1, 2
# Steps that nobody counts.
NO_LIMIT = 1 << 62
# The counters of a Workspace.
CHART_ITEMS, CHART_OPEN, CHART_POINTERS, CHART_STAMP = range(4)


class GraphBuffer(NamedTuple):
    """The hypergraph of one sentence while it is built, used again for the next.

    Nodes are in topological order, children first. So are the hyperedges, by the heads' order in
    the chart; those of different goals of one chart node may be mixed.
    """

    used: Int64Array  # by GRAPH_…
    starts: Int32Array  # per node
    ends: Int32Array  # per node
    kept: Int32Array  # per node: its number in the output, or NOTHING if it is pruned
    heads: Int32Array  # per hyperedge: the node that it derives
    rules: Int32Array  # per hyperedge
    children: Int32Array  # (hyperedges, K)


class Workspace(NamedTuple):
    """The items of one start and their back-pointers, used again for the next start."""

    graph: GraphBuffer
    used: Int64Array  # by CHART_…
    trie_nodes: Int32Array  # per item: trie node
    positions: Int32Array  # per item: how far it has read
    open_items: Int32Array  # the items that a non-terminal may follow
    newest_pointer: Int32Array  # per item
    pointer_origin: Int32Array  # per back-pointer: item that it leads back to
    pointer_child: (
        Int32Array  # per back-pointer: node that it passed over, or NOTHING for a token
    )
    older_pointer: Int32Array  # per back-pointer: another one of the same item
    seen: Int64Array  # per trie node: stamp of the position where an item of it was last made
    item_of: Int32Array  # per trie node: that item
    first_item_at: Int32Array  # per position: items there begin at
    path: Int32Array  # the back-pointers of one way through a rule's source
    cells: Int32Array  # (n + 1, n + 1): node of a span, or NOTHING


def ints(*shape: int) -> Int32Array:
    return np.empty(shape, dtype=np.int32)


def graph_buffer(
    nodes: int, hyperedges: int, max_arity: int, limit: int = NO_LIMIT
) -> GraphBuffer:
    """Room for a graph, for which a kernel may take `limit` steps."""
    used = np.zeros(5, dtype=np.int64)
    used[GRAPH_LIMIT] = limit
    children = ints(hyperedges, max_arity)
    return GraphBuffer._make([used, *ints(3, nodes), *ints(2, hyperedges), children])


def workspace(
    longest: int, trie_nodes: int, max_arity: int, capacity: int, limit: int = NO_LIMIT
) -> Workspace:
    """Scratch arrays for sentences of at most `longest` tokens, each with `limit` steps.

    There is room for `capacity` items, as many back-pointers and as many hyperedges. Arrays of one
    length are rows of one block: small charts are many, and their allocations cost more than they.
    """
    arrays = [
        np.zeros(4, dtype=np.int64),
        *ints(7, capacity),
        np.zeros(trie_nodes, dtype=np.int64),
        ints(trie_nodes),
        *ints(2, longest + 2),
        ints(longest + 1, longest + 1),
    ]
    graph = graph_buffer(longest * (longest + 1) // 2, capacity, max_arity, limit)
    return Workspace._make([graph, *arrays])


@inlined
def clear(values: Int64Array, value: int) -> None:
    for at in range(len(values)):
        values[at] = value


@inlined
def begin_graph(graph: GraphBuffer) -> None:
    """Empty a buffer for the next sentence, whose steps are counted from 0."""
    for counter in range(GRAPH_LIMIT):
        graph.used[counter] = 0


@inlined
def count_steps(steps: int, graph: GraphBuffer) -> None:
    """Count steps of a kernel, which must stop once they are more than the limit."""
    graph.used[GRAPH_STEPS] += steps
    if graph.used[GRAPH_STEPS] > graph.used[GRAPH_LIMIT]:
        graph.used[GRAPH_FULL] = LIMIT_REACHED


@inlined
def clear_table(table: Int32Array, count: int) -> None:
    """Set the first rows and columns of a table to NOTHING."""
    for row in range(count):
        for column in range(count):
            table[row, column] = NOTHING


@inlined
def push_item(
    trie_node: int,
    position: int,
    origin: int,
    child: int,
    grammar: GrammarArrays,
    work: Workspace,
) -> None:
    """Give the item of `trie_node` at `position` a pointer back to `origin` over `child`.

    The item is made if it is new.
    """
    used, capacity = work.used, len(work.trie_nodes)
    # Nothing is raised here: a flag tells the caller to retry with more room.
    if used[CHART_POINTERS] == capacity or used[CHART_ITEMS] == capacity:
        work.graph.used[GRAPH_FULL] = BUFFER_FULL
        return
    # Items are new under a new stamp, so that `seen` need not be cleared each time.
    if work.seen[trie_node] != used[CHART_STAMP]:
        item = used[CHART_ITEMS]
        work.seen[trie_node], work.item_of[trie_node] = used[CHART_STAMP], item
        work.trie_nodes[item], work.positions[item] = trie_node, position
        work.newest_pointer[item] = NOTHING
        used[CHART_ITEMS] += 1
        # Only items that a nonterminal can extend have to be visited again later.
        if grammar.over_nt[trie_node] != NOWHERE:
            work.open_items[used[CHART_OPEN]] = item
            used[CHART_OPEN] += 1
    # The pointers of an item are a linked list, the newest one first.
    item, pointer = work.item_of[trie_node], used[CHART_POINTERS]
    work.pointer_origin[pointer], work.pointer_child[pointer] = origin, child
    work.older_pointer[pointer], work.newest_pointer[item] = (
        work.newest_pointer[item],
        pointer,
    )
    used[CHART_POINTERS] += 1


@inlined
def scan_and_complete(
    end: int, token: int, grammar: GrammarArrays, work: Workspace
) -> None:
    """Find all items at `end`, over the last token or over a non-terminal that ends there."""
    for item in range(work.first_item_at[end - 1], work.first_item_at[end]):
        trie_node = successor(grammar.trie, work.trie_nodes[item], token)
        if trie_node != NOWHERE:
            push_item(trie_node, end, item, NOTHING, grammar, work)
    for at in range(work.used[CHART_OPEN]):
        item = work.open_items[at]
        child = work.cells[work.positions[item], end]
        if child != NOTHING:
            push_item(
                grammar.over_nt[work.trie_nodes[item]], end, item, child, grammar, work
            )


@inlined
def apply_rules(item: int, grammar: GrammarArrays, work: Workspace) -> None:
    """List the hyperedges of the rules that end at `item`: one for each way back to the start."""
    graph, trie, trie_node, depth = work.graph, grammar.trie, work.trie_nodes[item], 0
    first, last = trie.first_item[trie_node], trie.first_item[trie_node + 1]
    if first == last:
        return
    # Depth first over the back-pointers; `path` is the stack, and item 0 is the start.
    work.path[0] = work.newest_pointer[item]
    while depth >= 0:
        pointer = work.path[depth]
        if pointer == NOTHING:
            depth -= 1
            if depth >= 0:
                work.path[depth] = work.older_pointer[work.path[depth]]
        elif work.pointer_origin[pointer] == 0:
            for rule in trie.items[first:last]:
                if not grammar.active[rule]:
                    continue
                hyperedge, arity = (
                    append_hyperedge(graph.used[GRAPH_NODES], rule, graph),
                    0,
                )
                if hyperedge == NOTHING:
                    return
                # The path runs from right to left.
                for at in range(depth, -1, -1):
                    child = work.pointer_child[work.path[at]]
                    if child != NOTHING:
                        graph.children[hyperedge, arity] = child
                        arity += 1
            work.path[depth] = work.older_pointer[pointer]
        else:
            depth += 1
            work.path[depth] = work.newest_pointer[work.pointer_origin[pointer]]


@inlined
def append_hyperedge(head: int, rule: int, graph: GraphBuffer) -> int:
    """Add `rule` under a node, no children yet; NOTHING where the buffer is full."""
    hyperedge: int = graph.used[GRAPH_HYPEREDGES]
    if hyperedge == len(graph.rules):
        graph.used[GRAPH_FULL] = BUFFER_FULL
        return NOTHING
    graph.heads[hyperedge], graph.rules[hyperedge] = head, rule
    for at in range(graph.children.shape[1]):
        graph.children[hyperedge, at] = NOTHING
    graph.used[GRAPH_HYPEREDGES] += 1
    return hyperedge


@inlined
def _chart(
    sentence: int,
    first: int,
    tokens: Int32Array,
    grammar: GrammarArrays,
    work: Workspace,
) -> None:
    """Fill the graph buffer with the chart of one sentence, unless it is full before.

    Tokens are numbered through all sentences, those of this one from `first` on.
    """
    graph, used, count = work.graph, work.used, len(tokens)
    values, value, last_value = grammar.values, 0, 0
    if len(values.first_value) > 0:
        value, last_value = (
            values.first_value[sentence],
            values.first_value[sentence + 1],
        )
    begin_graph(graph)
    clear_table(work.cells, count + 1)
    for start in range(count - 1, -1, -1):
        # Item 0 is the root of the trie. It is never open: `push_item` below lets rules begin with
        # a non-terminal.
        used[CHART_ITEMS], used[CHART_OPEN], used[CHART_POINTERS] = 1, 0, 0
        work.trie_nodes[0] = TRIE_ROOT
        work.first_item_at[start], work.first_item_at[start + 1] = 0, 1
        for end in range(start + 1, count + 1):
            used[CHART_STAMP] += 1
            token, node = tokens[end - 1], graph.used[GRAPH_NODES]
            before = graph.used[GRAPH_HYPEREDGES]
            # A step is an item that may be extended, or a hyperedge.
            scanned = work.first_item_at[end] - work.first_item_at[end - 1]
            count_steps(scanned + used[CHART_OPEN], graph)
            # All hyperedges over the span: a leaf, rules, values of slots, free text.
            scan_and_complete(end, token, grammar, work)
            if token <= LEAF and end == start + 1:
                append_hyperedge(node, token, graph)
            for item in range(work.first_item_at[end], used[CHART_ITEMS]):
                apply_rules(item, grammar, work)
            while (
                value < last_value
                and values.starts[value] == start
                and values.ends[value] == end
            ):
                append_hyperedge(node, values.first + value, graph)
                value += 1
            size = end - start
            for text in range(values.texts.rules):
                if (
                    size <= values.texts.max_length
                    and size <= values.text_lengths[text]
                ):
                    rule = inlined_free_text_id(values.texts, first + start, size, text)
                    append_hyperedge(node, rule, graph)
            count_steps(graph.used[GRAPH_HYPEREDGES] - before, graph)
            # A span with hyperedges gets a node, with which rules may begin.
            if graph.used[GRAPH_HYPEREDGES] > before:
                graph.starts[node], graph.ends[node], work.cells[start, end] = (
                    start,
                    end,
                    node,
                )
                graph.used[GRAPH_NODES] += 1
                if grammar.over_nt[TRIE_ROOT] != NOWHERE:
                    push_item(grammar.over_nt[TRIE_ROOT], end, 0, node, grammar, work)
            work.first_item_at[end + 1] = used[CHART_ITEMS]
            if graph.used[GRAPH_FULL]:
                return


@inlined
def emit(
    sentence: int, root: int, prune: bool, graph: GraphBuffer, out: Hypergraph
) -> bool:
    """Write the graph as that sentence of `out`; False where `out` or the buffer is full.

    If it is pruned, write what `root` leads to, nothing if that is NOTHING. No node is without a
    hyperedge, so that nodes fit into `out` wherever hyperedges do.
    """
    first_node, first_hyperedge = out.first_node[sentence], out.first_hyperedge
    end, hyperedges, kept = (
        first_hyperedge[first_node],
        graph.used[GRAPH_HYPEREDGES],
        graph.kept,
    )
    if graph.used[GRAPH_FULL] or end + hyperedges > len(out.rules):
        return False
    # Mark the nodes to keep. From the last hyperedge to the first, parents come before children.
    for node in range(graph.used[GRAPH_NODES]):
        kept[node] = NOTHING if prune else 0
    if prune and root != NOTHING:
        kept[root] = 0
        for hyperedge in range(hyperedges - 1, -1, -1):
            if kept[graph.heads[hyperedge]] != NOTHING:
                for at in range(graph.children.shape[1]):
                    child = graph.children[hyperedge, at]
                    if child != NOTHING:
                        kept[child] = 0
    # Number them, in their order.
    nodes = first_node
    for node in range(graph.used[GRAPH_NODES]):
        if kept[node] != NOTHING:
            kept[node] = nodes
            out.starts[nodes], out.ends[nodes] = graph.starts[node], graph.ends[node]
            first_hyperedge[nodes] = 0
            nodes += 1
    out.first_node[sentence + 1] = nodes
    # Group the hyperedges by node: count those of each, and note where they end.
    for hyperedge in range(hyperedges):
        head = kept[graph.heads[hyperedge]]
        if head != NOTHING:
            first_hyperedge[head] += 1
    for node in range(first_node, nodes):
        end += first_hyperedge[node]
        first_hyperedge[node] = end
    first_hyperedge[nodes] = end
    # Write them from the last to the first, which moves the ends back to the beginnings.
    for hyperedge in range(hyperedges - 1, -1, -1):
        head = kept[graph.heads[hyperedge]]
        if head == NOTHING:
            continue
        first_hyperedge[head] -= 1
        row = first_hyperedge[head]
        out.rules[row] = graph.rules[hyperedge]
        for at in range(out.children.shape[1]):
            child = graph.children[hyperedge, at]
            out.children[row, at] = NOTHING if child == NOTHING else kept[child]
    return True


@unmanaged_kernel
def fill_charts(
    sources: Ragged,
    begin: int,
    prune: bool,
    grammar: GrammarArrays,
    work: Workspace,
    out: Hypergraph,
) -> int:
    """Chart the sentences from `begin` on into `out`; returns the first that did not fit, if any.

    If all do, their number is returned.
    """
    count = len(sources.offsets) - 1
    for sentence in range(begin, count):
        first = sources.offsets[sentence]
        tokens = sources.values[first : sources.offsets[sentence + 1]]
        _chart(sentence, first, tokens, grammar, work)
        # The root is the cell that covers the whole sentence.
        root = work.cells[0, len(tokens)]
        if not emit(sentence - begin, root, prune, work.graph, out):
            return sentence
    return count
