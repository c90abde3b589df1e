"""The chart of a source: every way in which rules cover its spans, for a batch of sentences.

CKY without binarisation. Source sides sit in a trie. For a fixed start, a *state* is a trie node reached at some
position; it is reached over a token, or over a non-terminal that covers a span already found derivable. Equal states
are merged and remember all their ways in (*steps*), so the walk forward is polynomial; when a state ends a rule, the
walk back over its steps lists the children of every application.

Starts run from right to left and ends from left to right. A rule's non-terminals cover spans that start further right,
or at the same place and end earlier (no rule is a lone non-terminal), so every span is complete when it is needed, and
the order in which choices are found is topological.

A token that is a leaf covers itself: an application whose number is the token's own. Induction charts the two sides of
a rule that way, its non-terminals being the leaves.

Kernels never grow an array. Where room runs out they stop and say so; the caller makes more room and goes on from the
sentence that did not fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.compiled import inlined, unmanaged_kernel
from nqg.grammar.encoding import LEAF, GrammarArrays
from nqg.grammar.trie import NOWHERE, ROOT, Integers, successor

Longs = NDArray[np.int64]
NOTHING = -1  # no child, no step, no choice
STATES, OPEN, STEPS, CHOICES, APPLICATIONS, STAMP, OUT_OF_ROOM = range(7)  # what Workspace.used counts


class Workspace(NamedTuple):
    """Scratch arrays for one sentence, used again for the next."""

    used: Longs
    nodes: Integers  # per state: trie node
    positions: Integers  # per state: how far it has read
    open_states: Integers  # the states from which a non-terminal leads on
    last_step: Integers  # per state: its newest way in
    step_origin: Integers  # per step: state it came from
    step_child: Integers  # per step: choice that it passed over, or NOTHING for a token
    older_step: Integers  # per step: another way into the same state
    seen: Longs  # per trie node: stamp of the position where a state of it was last made
    state_of: Integers  # per trie node: that state
    first_state: Integers  # per position: states there begin at
    cells: Integers  # (n + 1, n + 1): choice of a span, or NOTHING
    path: Integers  # the steps of one way through a rule's source
    starts: Integers  # per choice
    ends: Integers  # per choice
    first_application: Longs  # per choice
    rules: Integers  # per application
    children: Integers  # (applications, K)
    kept: Integers  # per choice: its number after pruning, or NOTHING


def workspace(longest: int, trie_nodes: int, max_arity: int, room: int) -> Workspace:
    """Scratch arrays for sentences of at most `longest` tokens with `room` for states, steps and applications."""
    spans = longest * (longest + 1) // 2

    def ints(*shape: int) -> Integers:
        return np.empty(shape, dtype=np.int32)

    return Workspace(
        used=np.zeros(7, dtype=np.int64),
        nodes=ints(room),
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
        first_application=np.empty(spans + 1, dtype=np.int64),
        rules=ints(room),
        children=ints(room, max_arity),
        kept=ints(spans),
    )


class Graphs(NamedTuple):
    """And-or graphs of several sentences end to end, in arrays that may have room to spare (see `sizes`)."""

    sizes: Longs  # [sentences, choices, applications] used so far
    first_choice: Longs  # per sentence
    starts: Integers
    ends: Integers
    first_application: Longs
    rules: Integers
    children: Integers
    target_starts: Integers  # of goal graphs; empty otherwise
    target_lengths: Integers


@inlined
def reach(node: int, position: int, origin: int, child: int, grammar: GrammarArrays, work: Workspace) -> None:
    """Enter trie `node` at `position`, coming from state `origin` over `child`."""
    used = work.used
    if used[STEPS] == len(work.step_child) or used[STATES] == len(work.nodes):
        used[OUT_OF_ROOM] = 1
        return
    if work.seen[node] != used[STAMP]:
        work.seen[node] = used[STAMP]
        work.state_of[node] = used[STATES]
        _open_state(node, position, grammar, work)
    state, step = work.state_of[node], used[STEPS]
    work.step_origin[step] = origin
    work.step_child[step] = child
    work.older_step[step] = work.last_step[state]
    work.last_step[state] = step
    used[STEPS] += 1


@inlined
def _open_state(node: int, position: int, grammar: GrammarArrays, work: Workspace) -> None:
    state = work.used[STATES]
    work.nodes[state], work.positions[state], work.last_step[state] = node, position, NOTHING
    work.used[STATES] += 1
    if grammar.over_nt[node] != NOWHERE:
        work.open_states[work.used[OPEN]] = state
        work.used[OPEN] += 1


@inlined
def advance(end: int, token: int, grammar: GrammarArrays, work: Workspace) -> None:
    """Find all states at `end`, over the last token or over a non-terminal that ends there."""
    for state in range(work.first_state[end - 1], work.first_state[end]):
        node = successor(grammar.trie, work.nodes[state], token)
        if node != NOWHERE:
            reach(node, end, state, NOTHING, grammar, work)
    for at in range(work.used[OPEN]):
        state = work.open_states[at]
        child = work.cells[work.positions[state], end]
        if child != NOTHING:
            reach(grammar.over_nt[work.nodes[state]], end, state, child, grammar, work)


@inlined
def apply_rules(state: int, grammar: GrammarArrays, work: Workspace) -> None:
    """List the applications of the rules that end at `state`: one for each way back to the start."""
    trie, node, depth = grammar.trie, work.nodes[state], 0
    first, last = trie.first_item[node], trie.first_item[node + 1]
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
                    _append_application(rule, depth, work)
            work.path[depth] = work.older_step[step]
        else:
            depth += 1
            work.path[depth] = work.last_step[work.step_origin[step]]


@inlined
def _append_application(rule: int, depth: int, work: Workspace) -> None:
    """Add `rule` with the children that the current path passed over (the path runs from right to left)."""
    application, arity = work.used[APPLICATIONS], 0
    if application == len(work.rules):
        work.used[OUT_OF_ROOM] = 1
        return
    work.rules[application] = rule
    for at in range(depth, -1, -1):
        child = work.step_child[work.path[at]]
        if child != NOTHING:
            work.children[application, arity] = child
            arity += 1
    work.children[application, arity:] = NOTHING
    work.used[APPLICATIONS] += 1


@inlined
def _complete(start: int, end: int, token: int, grammar: GrammarArrays, work: Workspace) -> None:
    """Make the choice of the span, if any rule covers it, and let rules begin with it."""
    used = work.used
    before = used[APPLICATIONS]
    if token <= LEAF and end == start + 1:
        _append_application(token, NOTHING, work)
    for state in range(work.first_state[end], used[STATES]):
        apply_rules(state, grammar, work)
    if used[APPLICATIONS] > before:
        choice = used[CHOICES]
        work.starts[choice], work.ends[choice] = start, end
        work.first_application[choice + 1] = used[APPLICATIONS]
        work.cells[start, end] = choice
        used[CHOICES] += 1
        if grammar.over_nt[ROOT] != NOWHERE:
            reach(grammar.over_nt[ROOT], end, 0, choice, grammar, work)


@inlined
def _chart(tokens: Integers, grammar: GrammarArrays, work: Workspace) -> bool:
    """Fill the workspace with the chart of one sentence; False when its room ran out."""
    used, count = work.used, len(tokens)
    used[CHOICES] = used[APPLICATIONS] = used[OUT_OF_ROOM] = 0
    work.cells[: count + 1, : count + 1] = NOTHING
    work.first_application[0] = 0
    for start in range(count - 1, -1, -1):
        used[STATES], used[OPEN], used[STEPS] = 1, 0, 0
        work.nodes[0] = ROOT  # never among the open states: the span that a rule begins with is not known yet
        work.first_state[start], work.first_state[start + 1] = 0, 1
        for end in range(start + 1, count + 1):
            used[STAMP] += 1
            advance(end, tokens[end - 1], grammar, work)
            _complete(start, end, tokens[end - 1], grammar, work)
            work.first_state[end + 1] = used[STATES]
            if used[OUT_OF_ROOM]:
                return False
    return True


@inlined
def _keep_reachable(root: int, work: Workspace) -> int:
    """Number the choices that `root` leads to, in order; the rest get NOTHING."""
    choices = work.used[CHOICES]
    work.kept[:choices] = NOTHING
    if root == NOTHING:
        return 0
    work.kept[root] = root
    for choice in range(root, -1, -1):
        if work.kept[choice] != NOTHING:
            _keep_children(choice, work)
    return numbered(work.kept[:choices])


@inlined
def _keep_children(choice: int, work: Workspace) -> None:
    for application in range(work.first_application[choice], work.first_application[choice + 1]):
        for child in work.children[application]:
            if child != NOTHING:
                work.kept[child] = child


@inlined
def _keep_all(work: Workspace) -> int:
    work.kept[: work.used[CHOICES]] = 0
    return numbered(work.kept[: work.used[CHOICES]])


@inlined
def numbered(kept: Integers) -> int:
    """Number the entries other than NOTHING by their order, in place; returns how many there are."""
    count = 0
    for choice in range(len(kept)):
        if kept[choice] != NOTHING:
            kept[choice] = count
            count += 1
    return count


@inlined
def _emit(choices: int, work: Workspace, out: Graphs) -> bool:
    """Append the kept choices and their applications to `out`; False where they do not fit."""
    first_choice, first = out.sizes[1], out.sizes[2]
    if first_choice + choices > len(out.starts) or first + work.used[APPLICATIONS] > len(out.rules):
        return False
    for choice in range(work.used[CHOICES]):
        if work.kept[choice] == NOTHING:
            continue
        at = out.sizes[1]
        out.starts[at], out.ends[at] = work.starts[choice], work.ends[choice]
        for application in range(work.first_application[choice], work.first_application[choice + 1]):
            _emit_application(application, first_choice, work, out)
        out.sizes[1] += 1
        out.first_application[at + 1] = out.sizes[2]
    return True


@inlined
def _emit_application(application: int, first_choice: int, work: Workspace, out: Graphs) -> None:
    at = out.sizes[2]
    out.rules[at] = work.rules[application]
    for position in range(out.children.shape[1]):
        child = work.children[application, position]
        out.children[at, position] = NOTHING if child == NOTHING else work.kept[child] + first_choice
    out.sizes[2] += 1


@unmanaged_kernel
def fill_charts(
    first_token: Integers,
    tokens: Integers,
    begin: int,
    prune: bool,
    grammar: GrammarArrays,
    work: Workspace,
    out: Graphs,
) -> int:
    """Chart the sentences from `begin` on into `out`; returns the first one that did not fit, or their number."""
    for sentence in range(begin, len(first_token) - 1):
        source = tokens[first_token[sentence] : first_token[sentence + 1]]
        if not _chart(source, grammar, work):
            return sentence
        root = work.cells[0, len(source)]
        kept = _keep_reachable(root, work) if prune else _keep_all(work)
        if not _emit(kept, work, out):
            return sentence
        out.sizes[0] += 1
        out.first_choice[out.sizes[0]] = out.sizes[1]
    return len(first_token) - 1
