"""From sentences to hypergraphs: the kernels with buffers that are large enough for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nqg.errors import LimitExceeded
from nqg.grammar import vectorized
from nqg.grammar.arrays import Int64Array
from nqg.grammar.chart_kernels import (
    GRAPH_FULL,
    LIMIT_REACHED,
    NO_LIMIT,
    GraphBuffer,
    fill_charts,
    workspace,
)
from nqg.grammar.encoding import ANY_TYPE, GrammarArrays, slot_rules
from nqg.grammar.goal_kernels import fill_goals, fill_types, goal_workspace
from nqg.grammar.grammar import ChartGrammar
from nqg.grammar.hypergraph import Hypergraph, concatenate
from nqg.grammar.ragged import Ragged

if TYPE_CHECKING:
    from nqg.types.tree_automaton import Typing

# How many entries the buffers have at first; a sentence that needs more gets four times as many.
INITIAL_CAPACITY = 1 << 14
# Numbers of nodes and hyperedges are 32-bit integers.
MAX_CAPACITY = 1 << 30
# How many hyperedges are gathered before they are moved out, at most.
OUTPUT_CAPACITY = 1 << 18
# How many of them a token is expected to have in a chart. Where it has more, they are moved out in
# several steps. Induction makes thousands of charts of a few words; for two sentences of eight
# words a call takes 30 microseconds with such an output, and 85 with OUTPUT_CAPACITY hyperedges.
HYPEREDGES_PER_TOKEN = 16
# How many tokens an error shows of a sentence.
SHOWN_TOKENS = 8

Tokens = Sequence[str]
# Writes the graphs of the sentences from a number on, with buffers of a capacity; returns the first
# sentence that did not fit, and the buffer, which says why.
Fill = Callable[[int, int, Hypergraph], tuple[int, GraphBuffer]]


class StepBudget:
    """The steps that the chart of a sentence may take; sentences that need more are noted.

    A step of a kernel is an item that may be extended, a hyperedge, or a combination of the types
    or goals of children. They are counted, not timed: whether a sentence is within its budget
    depends on nothing but the sentence and the grammar.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.exceeded: set[int] = set()


def charts(
    grammar: ChartGrammar,
    sources: Sequence[Tokens],
    *,
    prune: bool = True,
    limit: int | StepBudget | None = None,
) -> Hypergraph:
    """Every derivation of every span of the sources or, pruned, of every source as a whole.

    If the grammar is typed, only well-typed ones: a node for every span and every type that it has;
    what covers a whole source has one node, that of legal targets. `limit` bounds the steps that
    any one sentence's chart takes, and a sentence that needs more is an error; with a `StepBudget`, its
    chart is empty.
    """
    # Types only rule out derivations, so the untyped charts are made first and refined.
    full = untyped_charts(grammar, sources, prune=prune, limit=limit)
    if grammar.typing is None:
        return full
    return typed_charts(grammar, grammar.typing, sources, full, prune, limit)


def untyped_charts(
    grammar: ChartGrammar,
    sources: Sequence[Tokens],
    *,
    prune: bool = True,
    limit: int | StepBudget | None = None,
) -> Hypergraph:
    """The charts of sources, whatever the types."""
    encoded = grammar.encoded
    numbers = encoded.encode(sources)
    return encoded_charts(encoded.arrays, numbers, sources, prune=prune, limit=limit)


def typed_charts(
    grammar: ChartGrammar,
    typing: Typing,
    sources: Sequence[Tokens],
    full: Hypergraph,
    prune: bool = True,
    limit: int | StepBudget | None = None,
    wanted: Int64Array | None = None,
) -> Hypergraph:
    """The well-typed derivations of untyped charts, which were made with the same `prune`.

    `wanted` has, for every node, the mask of types that matter; without it all types do.
    """
    if wanted is None:
        wanted = np.full(full.nodes, ANY_TYPE, dtype=np.int64)
    arrays = grammar.encoded.arrays
    max_arity = arrays.max_arity
    lengths = np.array([len(source) for source in sources], dtype=np.int64)

    most_nodes, types, steps = full.most_nodes, len(typing.types), _steps(limit)
    if vectorized.is_suited(full):
        rules = slot_rules(full.rules, arrays.values)
        refiner = vectorized.TypeRefiner(
            full, rules, typing.arrays, lengths, wanted, steps
        )
        return _refined(refiner, prune, limit, sources)

    def fill(begin: int, capacity: int, out: Hypergraph) -> tuple[int, GraphBuffer]:
        work = goal_workspace(most_nodes, types, max_arity, capacity, steps)
        end = fill_types(
            lengths, begin, prune, arrays, typing.arrays, full, wanted, work, out
        )
        return end, work.graph

    return _filled(fill, len(sources), full.hyperedges, max_arity, limit, sources)


def goal_charts(
    grammar: ChartGrammar,
    sources: Hypergraph,
    targets: Sequence[Tokens],
    limit: int | StepBudget | None = None,
) -> Hypergraph:
    """Of the pruned charts of sources, the derivations that yield the targets."""
    encoded = grammar.with_meanings(sources, targets)
    numbers = encoded.encode(targets)
    if vectorized.is_suited(sources):
        refiner = vectorized.GoalRefiner(
            sources, encoded.arrays, numbers, _steps(limit)
        )
        return _refined(refiner, True, limit, targets)
    return encoded_goals(encoded.arrays, sources, numbers, targets, limit=limit)


def encoded_charts(
    arrays: GrammarArrays,
    sources: Ragged,
    names: Sequence[Tokens] | None = None,
    *,
    prune: bool = True,
    limit: int | StepBudget | None = None,
) -> Hypergraph:
    """`charts` of sentences that are numbers already; `names` are their tokens, for errors."""
    max_arity, steps = arrays.max_arity, _steps(limit)
    longest, trie_nodes = sources.longest, len(arrays.over_nt)

    def fill(begin: int, capacity: int, out: Hypergraph) -> tuple[int, GraphBuffer]:
        work = workspace(longest, trie_nodes, max_arity, capacity, steps)
        return fill_charts(sources, begin, prune, arrays, work, out), work.graph

    expected = HYPEREDGES_PER_TOKEN * len(sources.values)
    return _filled(fill, sources.rows, expected, max_arity, limit, names)


def encoded_goals(
    arrays: GrammarArrays,
    sources: Hypergraph,
    targets: Ragged,
    names: Sequence[Tokens] | None = None,
    *,
    limit: int | StepBudget | None = None,
) -> Hypergraph:
    """`goal_charts` of targets that are numbers already."""
    max_arity, steps = arrays.max_arity, _steps(limit)
    most_nodes, longest = sources.most_nodes, targets.longest

    def fill(begin: int, capacity: int, out: Hypergraph) -> tuple[int, GraphBuffer]:
        work = goal_workspace(most_nodes, longest, max_arity, capacity, steps)
        return fill_goals(targets, begin, arrays, sources, work, out), work.graph

    return _filled(fill, targets.rows, sources.hyperedges, max_arity, limit, names)


def _steps(limit: int | StepBudget | None) -> int:
    if limit is None:
        return NO_LIMIT
    return limit.steps if isinstance(limit, StepBudget) else limit


def _refined(
    refiner: vectorized.TypeRefiner | vectorized.GoalRefiner,
    prune: bool,
    limit: int | StepBudget | None,
    names: Sequence[Tokens],
) -> Hypergraph:
    """What a refiner makes of charts."""
    graph = refiner.refine(prune)
    for sentence in np.flatnonzero(refiner.exceeded).tolist():
        if not isinstance(limit, StepBudget):
            raise _too_large(_described(names[sentence]), _steps(limit))
        limit.exceeded.add(sentence)
    return graph


def _filled(
    fill: Fill,
    count: int,
    expected: int,
    max_arity: int,
    limit: int | StepBudget | None,
    names: Sequence[Tokens] | None,
) -> Hypergraph:
    """Call `fill` until `count` sentences are done, with larger buffers whenever one did not fit.

    About so many hyperedges are `expected`.
    """
    # Begin with small buffers, which grow only for a sentence that needs more.
    gathered = min(expected, OUTPUT_CAPACITY)
    begin, capacity = 0, max(INITIAL_CAPACITY, gathered)
    graphs: list[Hypergraph] = []
    while begin < count:
        out = Hypergraph.with_capacity(
            count - begin, max(capacity, gathered), max_arity
        )
        end, graph = fill(begin, capacity, out)
        # Some sentences fitted: keep them, and go on with the first that did not.
        if end > begin:
            graphs.append(out.truncate(end - begin))
            begin = end
            continue
        sentence = f"sentence {begin}"
        if names:
            sentence = _described(names[begin])
        # Not even one sentence fitted: it is beyond the limit, or needs larger buffers.
        if graph.used[GRAPH_FULL] != LIMIT_REACHED:
            capacity = grow(capacity, MAX_CAPACITY, sentence)
        elif isinstance(limit, StepBudget):
            limit.exceeded.add(begin)
            graphs.append(empty_charts(1, max_arity))
            begin += 1
        else:
            raise _too_large(sentence, _steps(limit))
    if not graphs:
        return Hypergraph.with_capacity(0, 0, max_arity)
    return concatenate(graphs)


def empty_charts(sentences: int, max_arity: int) -> Hypergraph:
    """The charts of sentences without any derivation."""
    graph = Hypergraph.with_capacity(sentences, 0, max_arity)
    graph.first_node[:] = 0
    return graph


def grow(capacity: int, largest: int, sentence: str) -> int:
    """Four times the capacity, up to `largest`; a sentence that needs more is an error."""
    if capacity >= largest:
        raise _too_large(sentence, largest)
    return min(4 * capacity, largest)


def _too_large(sentence: str, largest: int) -> LimitExceeded:
    return LimitExceeded(
        f"the chart of {sentence} needs more than {largest:,} entries; "
        "give a higher limit, a shorter sentence or a less ambiguous grammar"
    )


def _described(sentence: Tokens) -> str:
    more = " …" if len(sentence) > SHOWN_TOKENS else ""
    return f"'{' '.join(sentence[:SHOWN_TOKENS])}{more}' ({len(sentence)} tokens)"
