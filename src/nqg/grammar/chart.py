"""From sentences to hypergraphs: encodes them, gives the kernels buffers that are large enough, joins the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nqg.errors import LimitExceeded
from nqg.grammar.arrays import Int64Array
from nqg.grammar.chart_kernels import (
    OUT_HYPEREDGES,
    OUT_NODES,
    OUT_SENTENCES,
    fill_charts,
    workspace,
)
from nqg.grammar.encoding import GrammarArrays
from nqg.grammar.goal_kernels import fill_goals, fill_types, goal_workspace
from nqg.grammar.grammar import ChartGrammar
from nqg.grammar.hypergraph import Hypergraph, concatenate
from nqg.grammar.ragged import Ragged

if TYPE_CHECKING:
    from nqg.types.tree_automaton import Typing

INITIAL_CAPACITY = (
    1 << 14
)  # entries of scratch to begin with; four times as many whenever a sentence needs more
MAX_CAPACITY = 1 << 30  # numbers of nodes and hyperedges are 32-bit integers
OUTPUT_CAPACITY = 1 << 18  # hyperedges gathered before they are moved out
SHOWN_TOKENS = 8  # of a sentence that an error names

Tokens = Sequence[str]
# Writes the graphs of the sentences from a number on with buffers of a capacity, and the counters of what is written;
# returns the first sentence that did not fit.
Fill = Callable[[int, int, Hypergraph, Int64Array], int]


def charts(
    grammar: ChartGrammar,
    sources: Sequence[Tokens],
    *,
    prune: bool = True,
    limit: int | None = None,
) -> Hypergraph:
    """Every derivation of every span of the sources or, pruned, of every source as a whole.

    If the grammar is typed, only well-typed ones: a node for every span and every type that it has; what covers a whole
    source has one node, that of legal targets. `limit` bounds the entries (items, pointers, hyperedges) of any one
    sentence's chart.
    """
    full = untyped_charts(grammar, sources, prune=prune, limit=limit)
    return (
        full
        if grammar.typing is None
        else typed_charts(grammar, grammar.typing, sources, full, prune, limit)
    )


def untyped_charts(
    grammar: ChartGrammar,
    sources: Sequence[Tokens],
    *,
    prune: bool = True,
    limit: int | None = None,
) -> Hypergraph:
    """The charts of sources, whatever the types."""
    encoded = grammar.encoded
    return encoded_charts(
        encoded.arrays, encoded.encode(sources), sources, prune=prune, limit=limit
    )


def typed_charts(
    grammar: ChartGrammar,
    typing: Typing,
    sources: Sequence[Tokens],
    full: Hypergraph,
    prune: bool = True,
    limit: int | None = None,
) -> Hypergraph:
    """Of untyped charts of sources the well-typed derivations; `prune` says how they were made, too."""
    arrays = grammar.encoded.arrays
    lengths = np.array([len(source) for source in sources], dtype=np.int64)
    most_nodes = int(np.diff(full.first_node).max(initial=0))

    def fill(begin: int, capacity: int, out: Hypergraph, written: Int64Array) -> int:
        work = goal_workspace(most_nodes, len(typing.types), arrays.max_arity, capacity)
        return fill_types(lengths, begin, prune, arrays, typing.arrays, full, work, out, written)

    return _filled(fill, len(sources), arrays.max_arity, limit, sources)


def goal_charts(
    grammar: ChartGrammar,
    sources: Hypergraph,
    targets: Sequence[Tokens],
    *,
    limit: int | None = None,
) -> Hypergraph:
    """Of the pruned charts of sources, the derivations that yield the targets."""
    encoded = grammar.with_meanings(sources, targets)
    return encoded_goals(encoded.arrays, sources, encoded.encode(targets), targets, limit=limit)


def encoded_charts(
    arrays: GrammarArrays,
    sources: Ragged,
    names: Sequence[Tokens] | None = None,
    *,
    prune: bool = True,
    limit: int | None = None,
) -> Hypergraph:
    """`charts` of sentences that are numbers already; `names` are their tokens, for errors."""

    def fill(begin: int, capacity: int, out: Hypergraph, written: Int64Array) -> int:
        work = workspace(sources.longest, len(arrays.over_nt), arrays.max_arity, capacity)
        return fill_charts(sources, begin, prune, arrays, work, out, written)

    return _filled(fill, sources.rows, arrays.max_arity, limit, names)


def encoded_goals(
    arrays: GrammarArrays,
    sources: Hypergraph,
    targets: Ragged,
    names: Sequence[Tokens] | None = None,
    *,
    limit: int | None = None,
) -> Hypergraph:
    """`goal_charts` of targets that are numbers already."""
    most_nodes = int(np.diff(sources.first_node).max(initial=0))

    def fill(begin: int, capacity: int, out: Hypergraph, written: Int64Array) -> int:
        work = goal_workspace(most_nodes, targets.longest, arrays.max_arity, capacity)
        return fill_goals(targets, begin, arrays, sources, work, out, written)

    return _filled(fill, targets.rows, arrays.max_arity, limit, names)


def _filled(
    fill: Fill, count: int, max_arity: int, limit: int | None, names: Sequence[Tokens] | None
) -> Hypergraph:
    """Call `fill` until every sentence is done, with larger buffers whenever one did not fit."""
    largest = MAX_CAPACITY if limit is None else limit
    begin, capacity = 0, min(INITIAL_CAPACITY, largest)
    graphs = [Hypergraph.with_capacity(0, 0, max_arity)]
    while begin < count:
        out = Hypergraph.with_capacity(count - begin, max(capacity, OUTPUT_CAPACITY), max_arity)
        written = np.zeros(3, dtype=np.int64)
        end = fill(begin, capacity, out, written)
        if end == begin:
            capacity = grow(
                capacity, largest, _described(names[begin]) if names else f"sentence {begin}"
            )
            continue
        sizes = written[OUT_SENTENCES], written[OUT_NODES], written[OUT_HYPEREDGES]
        graphs.append(out.truncate(*map(int, sizes)))
        begin = end
    return concatenate(graphs[1:] or graphs)


def grow(capacity: int, largest: int, sentence: str) -> int:
    """Four times the capacity, up to `largest`; LimitExceeded, naming the sentence, where that was not enough."""
    if capacity >= largest:
        raise LimitExceeded(
            f"the chart of {sentence} needs more than {largest:,} entries; "
            "give a higher limit, a shorter sentence or a less ambiguous grammar"
        )
    return min(4 * capacity, largest)


def _described(sentence: Tokens) -> str:
    more = " …" if len(sentence) > SHOWN_TOKENS else ""
    return f"'{' '.join(sentence[:SHOWN_TOKENS])}{more}' ({len(sentence)} tokens)"
