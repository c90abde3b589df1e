"""From sentences to hypergraphs: the kernels with buffers that are large enough for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nqg.errors import LimitExceeded
from nqg.grammar.chart_kernels import fill_charts, workspace
from nqg.grammar.encoding import GrammarArrays
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
# sentence that did not fit.
Fill = Callable[[int, int, Hypergraph], int]


def charts(
    grammar: ChartGrammar,
    sources: Sequence[Tokens],
    *,
    prune: bool = True,
    limit: int | None = None,
) -> Hypergraph:
    """Every derivation of every span of the sources or, pruned, of every source as a whole.

    If the grammar is typed, only well-typed ones: a node for every span and every type that it has;
    what covers a whole source has one node, that of legal targets. `limit` bounds the entries
    (items, pointers, hyperedges) of any one sentence's chart.
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
    limit: int | None = None,
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
    limit: int | None = None,
) -> Hypergraph:
    """The well-typed derivations of untyped charts, which were made with the same `prune`."""
    arrays = grammar.encoded.arrays
    max_arity = arrays.max_arity
    lengths = np.array([len(source) for source in sources], dtype=np.int64)

    def fill(begin: int, capacity: int, out: Hypergraph) -> int:
        work = goal_workspace(full.most_nodes, len(typing.types), max_arity, capacity)
        return fill_types(lengths, begin, prune, arrays, typing.arrays, full, work, out)

    return _filled(fill, len(sources), full.hyperedges, max_arity, limit, sources)


def goal_charts(
    grammar: ChartGrammar, sources: Hypergraph, targets: Sequence[Tokens]
) -> Hypergraph:
    """Of the pruned charts of sources, the derivations that yield the targets."""
    encoded = grammar.with_meanings(sources, targets)
    return encoded_goals(encoded.arrays, sources, encoded.encode(targets), targets)


def encoded_charts(
    arrays: GrammarArrays,
    sources: Ragged,
    names: Sequence[Tokens] | None = None,
    *,
    prune: bool = True,
    limit: int | None = None,
) -> Hypergraph:
    """`charts` of sentences that are numbers already; `names` are their tokens, for errors."""
    max_arity = arrays.max_arity

    def fill(begin: int, capacity: int, out: Hypergraph) -> int:
        work = workspace(sources.longest, len(arrays.over_nt), max_arity, capacity)
        return fill_charts(sources, begin, prune, arrays, work, out)

    expected = HYPEREDGES_PER_TOKEN * len(sources.values)
    return _filled(fill, sources.rows, expected, max_arity, limit, names)


def encoded_goals(
    arrays: GrammarArrays,
    sources: Hypergraph,
    targets: Ragged,
    names: Sequence[Tokens] | None = None,
    *,
    limit: int | None = None,
) -> Hypergraph:
    """`goal_charts` of targets that are numbers already."""
    max_arity = arrays.max_arity

    def fill(begin: int, capacity: int, out: Hypergraph) -> int:
        work = goal_workspace(sources.most_nodes, targets.longest, max_arity, capacity)
        return fill_goals(targets, begin, arrays, sources, work, out)

    return _filled(fill, targets.rows, sources.hyperedges, max_arity, limit, names)


def _filled(
    fill: Fill,
    count: int,
    expected: int,
    max_arity: int,
    limit: int | None,
    names: Sequence[Tokens] | None,
) -> Hypergraph:
    """Call `fill` until `count` sentences are done, with larger buffers whenever one did not fit.

    About so many hyperedges are `expected`.
    """
    # Begin with small buffers, which grow only for a sentence that needs more.
    largest = MAX_CAPACITY if limit is None else limit
    gathered = min(expected, OUTPUT_CAPACITY)
    begin, capacity = 0, min(max(INITIAL_CAPACITY, gathered), largest)
    graphs: list[Hypergraph] = []
    while begin < count:
        out = Hypergraph.with_capacity(
            count - begin, max(capacity, gathered), max_arity
        )
        end = fill(begin, capacity, out)
        # Some sentences fitted: keep them, and go on with the first that did not.
        if end > begin:
            graphs.append(out.truncate(end - begin))
            begin = end
            continue
        # Not even one sentence fitted, so it needs larger buffers.
        sentence = f"sentence {begin}"
        if names:
            sentence = _described(names[begin])
        capacity = grow(capacity, largest, sentence)
    if not graphs:
        return Hypergraph.with_capacity(0, 0, max_arity)
    return concatenate(graphs)


def grow(capacity: int, largest: int, sentence: str) -> int:
    """Four times the capacity, up to `largest`; a sentence that needs more is an error."""
    if capacity >= largest:
        raise LimitExceeded(
            f"the chart of {sentence} needs more than {largest:,} entries; "
            "give a higher limit, a shorter sentence or a less ambiguous grammar"
        )
    return min(4 * capacity, largest)


def _described(sentence: Tokens) -> str:
    more = " …" if len(sentence) > SHOWN_TOKENS else ""
    return f"'{' '.join(sentence[:SHOWN_TOKENS])}{more}' ({len(sentence)} tokens)"
