"""The chart of a source: every way in which rules cover its spans, for a batch of sentences.

CKY without binarisation. Source sides sit in a trie. For a fixed start, an *item* is a trie node reached at some
position; it is reached by scanning a token, or by completing a non-terminal over a span already found derivable. Equal
items are merged and keep all their *back-pointers*, so the walk forward is polynomial; when an item ends a rule, the
walk back over its back-pointers lists the children of every hyperedge.

Starts run from right to left and ends from left to right. A rule's non-terminals cover spans that start further right,
or at the same position and end earlier (no rule is a lone non-terminal), so every span is complete when it is needed,
and the order in which nodes are found is topological.

A token that is a leaf covers itself: a hyperedge whose number is the token's own. Induction charts the two sides of
a rule that way, its non-terminals being the leaves. Values of slots cover their spans likewise, as rules of their own.

Kernels never grow an array. Where a buffer is full they stop and say so; the caller makes a larger one and goes on from
the sentence that did not fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import Int32Array, Int64Array, inlined, unmanaged_kernel
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

NOTHING = -1  # no child, no back-pointer, no node
# The counters of a Workspace.
CHART_ITEMS, CHART_OPEN, CHART_POINTERS, CHART_NODES, CHART_HYPEREDGES, CHART_STAMP, CHART_FULL = (
    range(7)
)
# The counters of a batch of graphs that is being written.
OUT_SENTENCES, OUT_NODES, OUT_HYPEREDGES = range(3)


class Workspace(NamedTuple):
    """Scratch arrays for one sentence, used again for the next."""

    used: Int64Array  # by CHART_…
    trie_nodes: Int32Array  # per item: trie node
    positions: Int32Array  # per item: how far it has read
    open_items: Int32Array  # the items that a non-terminal may follow
    newest_pointer: Int32Array  # per item
    pointer_origin: Int32Array  # per back-pointer: item that it leads back to
    pointer_child: Int32Array  # per back-pointer: node that it passed over, or NOTHING for a token
    older_pointer: Int32Array  # per back-pointer: another one of the same item
    seen: Int64Array  # per trie node: stamp of the position where an item of it was last made
    item_of: Int32Array  # per trie node: that item
    first_item_at: Int32Array  # per position: items there begin at
    cells: Int32Array  # (n + 1, n + 1): node of a span, or NOTHING
    path: Int32Array  # the back-pointers of one way through a rule's source
    starts: Int32Array  # per node
    ends: Int32Array  # per node
    first_hyperedge: Int64Array  # per node
    rules: Int32Array  # per hyperedge
    children: Int32Array  # (hyperedges, K)
    kept: Int32Array  # per node: its number after pruning, or NOTHING


def ints(*shape: int) -> Int32Array:
    return np.empty(shape, dtype=np.int32)


def workspace(longest: int, trie_nodes: int, max_arity: int, capacity: int) -> Workspace:
    """Scratch arrays for sentences of at most `longest` tokens, with a capacity for items, pointers and hyperedges."""
    spans = longest * (longest + 1) // 2
    return Workspace(
        used=np.zeros(7, dtype=np.int64),
        trie_nodes=ints(capacity),
        positions=ints(capacity),
        open_items=ints(capacity),
        newest_pointer=ints(capacity),
        pointer_origin=ints(capacity),
        pointer_child=ints(capacity),
        older_pointer=ints(capacity),
        seen=np.zeros(trie_nodes, dtype=np.int64),
        item_of=ints(trie_nodes),
        first_item_at=ints(longest + 2),
        cells=ints(longest + 1, longest + 1),
        path=ints(longest + 1),
        starts=ints(spans),
        ends=ints(spans),
        first_hyperedge=np.empty(spans + 1, dtype=np.int64),
        rules=ints(capacity),
        children=ints(capacity, max_arity),
        kept=ints(spans),
    )


@inlined
def push_item(
    trie_node: int, position: int, origin: int, child: int, grammar: GrammarArrays, work: Workspace
) -> None:
    """The item of `trie_node` at `position`, made if it is new, gets a pointer back to `origin` over `child`."""
    used = work.used
    if used[CHART_POINTERS] == len(work.pointer_child) or used[CHART_ITEMS] == len(work.trie_nodes):
        used[CHART_FULL] = 1
        return
    if work.seen[trie_node] != used[CHART_STAMP]:
        item = used[CHART_ITEMS]
        work.seen[trie_node], work.item_of[trie_node] = used[CHART_STAMP], item
        work.trie_nodes[item], work.positions[item], work.newest_pointer[item] = (
            trie_node,
            position,
            NOTHING,
        )
        used[CHART_ITEMS] += 1
        if grammar.over_nt[trie_node] != NOWHERE:
            work.open_items[used[CHART_OPEN]] = item
            used[CHART_OPEN] += 1
    item, pointer = work.item_of[trie_node], used[CHART_POINTERS]
    work.pointer_origin[pointer], work.pointer_child[pointer] = origin, child
    work.older_pointer[pointer], work.newest_pointer[item] = work.newest_pointer[item], pointer
    used[CHART_POINTERS] += 1


@inlined
def scan_and_complete(end: int, token: int, grammar: GrammarArrays, work: Workspace) -> None:
    """Find all items at `end`, over the last token or over a non-terminal that ends there."""
    for item in range(work.first_item_at[end - 1], work.first_item_at[end]):
        trie_node = successor(grammar.trie, work.trie_nodes[item], token)
        if trie_node != NOWHERE:
            push_item(trie_node, end, item, NOTHING, grammar, work)
    for at in range(work.used[CHART_OPEN]):
        item = work.open_items[at]
        child = work.cells[work.positions[item], end]
        if child != NOTHING:
            push_item(grammar.over_nt[work.trie_nodes[item]], end, item, child, grammar, work)


@inlined
def apply_rules(item: int, grammar: GrammarArrays, work: Workspace) -> None:
    """List the hyperedges of the rules that end at `item`: one for each way back to the start."""
    trie, trie_node, depth = grammar.trie, work.trie_nodes[item], 0
    first, last = trie.first_item[trie_node], trie.first_item[trie_node + 1]
    if first == last:
        return
    work.path[0] = work.newest_pointer[item]
    while depth >= 0:
        pointer = work.path[depth]
        if pointer == NOTHING:
            depth -= 1
            if depth >= 0:
                work.path[depth] = work.older_pointer[work.path[depth]]
        elif work.pointer_origin[pointer] == 0:
            for rule in trie.items[first:last]:
                if grammar.active[rule]:
                    append_hyperedge(rule, depth, work)
            work.path[depth] = work.older_pointer[pointer]
        else:
            depth += 1
            work.path[depth] = work.newest_pointer[work.pointer_origin[pointer]]


@inlined
def append_hyperedge(rule: int, depth: int, work: Workspace) -> None:
    """Add `rule` with the children that the current path passed over (the path runs from right to left)."""
    hyperedge, arity = work.used[CHART_HYPEREDGES], 0
    if hyperedge == len(work.rules):
        work.used[CHART_FULL] = 1
        return
    work.rules[hyperedge] = rule
    for at in range(depth, -1, -1):
        child = work.pointer_child[work.path[at]]
        if child != NOTHING:
            work.children[hyperedge, arity] = child
            arity += 1
    work.children[hyperedge, arity:] = NOTHING
    work.used[CHART_HYPEREDGES] += 1


@inlined
def _append_texts(
    start: int, end: int, first: int, grammar: GrammarArrays, work: Workspace
) -> None:
    """Add all that free text can be over a span of the sentence whose first token is number `first` of all."""
    values, size = grammar.values, end - start
    if size <= values.texts.max_length:
        for text in range(values.texts.rules):
            if size <= values.text_lengths[text]:
                append_hyperedge(
                    inlined_free_text_id(values.texts, first + start, size, text), NOTHING, work
                )


@inlined
def _chart(
    sentence: int, first: int, tokens: Int32Array, grammar: GrammarArrays, work: Workspace
) -> bool:
    """Fill the workspace with the chart of one sentence; False when a buffer is full."""
    used, count, values, value, last_value = work.used, len(tokens), grammar.values, 0, 0
    if len(values.first_value) > 0:
        value, last_value = values.first_value[sentence], values.first_value[sentence + 1]
    used[CHART_NODES] = used[CHART_HYPEREDGES] = used[CHART_FULL] = 0
    work.cells[: count + 1, : count + 1] = NOTHING
    work.first_hyperedge[0] = 0
    for start in range(count - 1, -1, -1):
        # Item 0 is the root of the trie. It is never open: `push_item` below lets rules begin with a non-terminal.
        used[CHART_ITEMS], used[CHART_OPEN], used[CHART_POINTERS] = 1, 0, 0
        work.trie_nodes[0] = TRIE_ROOT
        work.first_item_at[start], work.first_item_at[start + 1] = 0, 1
        for end in range(start + 1, count + 1):
            used[CHART_STAMP] += 1
            token, before = tokens[end - 1], used[CHART_HYPEREDGES]
            # All hyperedges over the span: a leaf, rules, values of slots, free text.
            scan_and_complete(end, token, grammar, work)
            if token <= LEAF and end == start + 1:
                append_hyperedge(token, NOTHING, work)
            for item in range(work.first_item_at[end], used[CHART_ITEMS]):
                apply_rules(item, grammar, work)
            while (
                value < last_value and values.starts[value] == start and values.ends[value] == end
            ):
                append_hyperedge(values.first + value, NOTHING, work)
                value += 1
            _append_texts(start, end, first, grammar, work)
            # A span with hyperedges gets a node, with which rules may begin.
            if used[CHART_HYPEREDGES] > before:
                node = used[CHART_NODES]
                work.starts[node], work.ends[node], work.cells[start, end] = start, end, node
                work.first_hyperedge[node + 1] = used[CHART_HYPEREDGES]
                used[CHART_NODES] += 1
                if grammar.over_nt[TRIE_ROOT] != NOWHERE:
                    push_item(grammar.over_nt[TRIE_ROOT], end, 0, node, grammar, work)
            work.first_item_at[end + 1] = used[CHART_ITEMS]
            if used[CHART_FULL]:
                return False
    return True


@inlined
def _keep(root: int, prune: bool, work: Workspace) -> int:
    """Number the nodes in order, if pruned those that `root` leads to (the others get NOTHING); returns how many."""
    kept = work.kept[: work.used[CHART_NODES]]
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
    row: int,
    hyperedge: int,
    first_node: int,
    rules: Int32Array,
    children: Int32Array,
    kept: Int32Array,
    out: Hypergraph,
) -> None:
    """Write a hyperedge to a row of `out`, its children by the numbers that they were kept under."""
    out.rules[row] = rules[hyperedge]
    for position in range(out.children.shape[1]):
        child = children[hyperedge, position]
        out.children[row, position] = NOTHING if child == NOTHING else kept[child] + first_node


@inlined
def _emit(nodes: int, work: Workspace, out: Hypergraph, written: Int64Array) -> bool:
    """Append the kept nodes and their hyperedges to `out`; False where they do not fit."""
    first_node, first = written[OUT_NODES], written[OUT_HYPEREDGES]
    if first_node + nodes > len(out.starts) or first + work.used[CHART_HYPEREDGES] > len(out.rules):
        return False
    for node in range(work.used[CHART_NODES]):
        if work.kept[node] == NOTHING:
            continue
        row = written[OUT_NODES]
        out.starts[row], out.ends[row] = work.starts[node], work.ends[node]
        for hyperedge in range(work.first_hyperedge[node], work.first_hyperedge[node + 1]):
            emit_hyperedge(
                written[OUT_HYPEREDGES],
                hyperedge,
                first_node,
                work.rules,
                work.children,
                work.kept,
                out,
            )
            written[OUT_HYPEREDGES] += 1
        written[OUT_NODES] += 1
        out.first_hyperedge[row + 1] = written[OUT_HYPEREDGES]
    return True


@unmanaged_kernel
def fill_charts(
    sources: Ragged,
    begin: int,
    prune: bool,
    grammar: GrammarArrays,
    work: Workspace,
    out: Hypergraph,
    written: Int64Array,
) -> int:
    """Chart the sentences from `begin` on into `out`; returns the first one that did not fit, or their number."""
    count = len(sources.offsets) - 1
    for sentence in range(begin, count):
        first = sources.offsets[sentence]
        tokens = sources.values[first : sources.offsets[sentence + 1]]
        if not _chart(sentence, first, tokens, grammar, work):
            return sentence
        nodes = _keep(work.cells[0, len(tokens)], prune, work)
        if not _emit(nodes, work, out, written):
            return sentence
        written[OUT_SENTENCES] += 1
        out.first_node[written[OUT_SENTENCES]] = written[OUT_NODES]
    return count
