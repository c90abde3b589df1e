"""From sentences to hypergraphs: encodes them, gives the kernels room, and joins what they find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nqg.errors import LimitExceeded
from nqg.grammar.arrays import FloatArray, Int32Array, Int64Array
from nqg.grammar.chart_kernels import Graphs, fill_charts, workspace
from nqg.grammar.count_kernels import Pairs, count_workspace, fill_counts
from nqg.grammar.encoding import GrammarArrays
from nqg.grammar.goal_kernels import fill_goals, goal_workspace
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph, concatenated
from nqg.grammar.semirings import log_inside

FIRST_ROOM = 1 << 12  # entries of scratch to begin with; four times as many whenever a sentence needs more
MOST_ROOM = 1 << 30  # numbers of nodes and hyperedges are 32-bit integers
OUTPUT_ROOM = 1 << 18  # hyperedges gathered before they are moved out

Tokens = Sequence[str]
Fill = Callable[[int, int, Graphs], int]


def charts(grammar: Grammar, sources: Sequence[Tokens], *, prune: bool = True, limit: int | None = None) -> Hypergraph:
    """Every derivation of every span of the sources or, pruned, of every source as a whole.

    `limit` bounds the entries (states, steps, hyperedges) of any one sentence's chart.
    """
    encoded = grammar.encoded
    describe = partial(_described, sources)
    return encoded_charts(encoded.arrays, Batch(*encoded.laid_out(sources), describe), prune=prune, limit=limit)


def goal_charts(
    grammar: Grammar, sources: Hypergraph, targets: Sequence[Tokens], *, limit: int | None = None
) -> Hypergraph:
    """Of the pruned charts of sources, the derivations that yield the targets."""
    encoded = grammar.encoded
    describe = partial(_described, targets)
    return encoded_goals(encoded.arrays, sources, Batch(*encoded.laid_out(targets), describe), limit=limit)


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentences as the numbers of their tokens, end to end; `describe` names one in an error."""

    first_token: Int32Array
    tokens: Int32Array
    describe: Callable[[int], str] = "sentence {}".format

    def __len__(self) -> int:
        return len(self.first_token) - 1

    @property
    def longest(self) -> int:
        """The number of tokens of the longest sentence."""
        return int(np.diff(self.first_token).max(initial=0))


def encoded_charts(arrays: GrammarArrays, batch: Batch, *, prune: bool = True, limit: int | None = None) -> Hypergraph:
    """`charts` of sentences that are numbers already."""
    max_arity = int(arrays.arities.max(initial=0))

    def fill(begin: int, room: int, out: Graphs) -> int:
        work = workspace(batch.longest, len(arrays.over_nt), max_arity, room)
        return fill_charts(batch.first_token, batch.tokens, begin, prune, arrays, work, out)

    return _filled(fill, batch, max_arity, limit, goals=False)


def encoded_goals(
    arrays: GrammarArrays, sources: Hypergraph, targets: Batch, *, limit: int | None = None
) -> Hypergraph:
    """`goal_charts` of targets that are numbers already."""
    max_arity = int(arrays.arities.max(initial=0))
    most_nodes = int(np.diff(sources.first_node).max(initial=0))
    view = kernel_view(sources)

    def fill(begin: int, room: int, out: Graphs) -> int:
        work = goal_workspace(most_nodes, targets.longest, max_arity, room)
        return fill_goals(targets.first_token, targets.tokens, begin, arrays, view, work, out)

    return _filled(fill, targets, max_arity, limit, goals=True)


def log_counts(arrays: GrammarArrays, sources: Batch, targets: Batch) -> tuple[FloatArray, FloatArray]:
    """For every pair the logarithm of the number of the source's derivations, and of those that yield the target."""
    pairs = Pairs(sources.first_token, sources.tokens, targets.first_token, targets.tokens)
    everything, right = np.zeros(len(sources)), np.zeros(len(sources))
    max_arity, longest = int(arrays.arities.max(initial=0)), sources.longest
    begin, room = 0, FIRST_ROOM
    while begin < len(sources):
        work = workspace(longest, len(arrays.over_nt), max_arity, room)
        goals = goal_workspace(longest * (longest + 1) // 2, targets.longest, max_arity, room)
        end = fill_counts(begin, pairs, arrays, work, goals, count_workspace(longest, room), everything, right)
        room = more_room(room, MOST_ROOM, sources.describe(begin)) if end == begin else room
        begin = end
    if not np.isfinite(everything).all():
        return _graph_log_counts(arrays, sources, targets)
    with np.errstate(divide="ignore"):
        return np.log(everything), np.log(right)


def _graph_log_counts(arrays: GrammarArrays, sources: Batch, targets: Batch) -> tuple[FloatArray, FloatArray]:
    """`log_counts` by way of forests, where the numbers themselves are too large for floats."""
    full = encoded_charts(arrays, sources)
    goal = encoded_goals(arrays, full, targets)
    return tuple(np.append(log_inside(graph), -np.inf)[graph.roots()] for graph in (full, goal))  # type: ignore[return-value]


def _filled(fill: Fill, sentences: Batch, max_arity: int, limit: int | None, *, goals: bool) -> Hypergraph:
    """Call `fill` until every sentence is done, with more room whenever one did not fit."""
    most = MOST_ROOM if limit is None else limit
    begin, room, parts = 0, min(FIRST_ROOM, most), list[Hypergraph]()
    while begin < len(sentences):
        out = _empty_graphs(len(sentences) - begin, max(room, OUTPUT_ROOM), max_arity, goals=goals)
        end = fill(begin, room, out)
        if end == begin:
            room = more_room(room, most, sentences.describe(begin))
        parts.append(_filled_part(out, goals=goals))
        begin = end
    return concatenated(parts) if parts else _filled_part(_empty_graphs(0, 0, max_arity, goals=goals), goals=goals)


def more_room(room: int, most: int, sentence: str) -> int:
    """Four times the room, up to `most`; LimitExceeded, naming the sentence, where that much was not enough."""
    if room >= most:
        raise LimitExceeded(
            f"the chart of {sentence} needs more than {most:,} entries; "
            "give a higher limit, a shorter sentence or a less ambiguous grammar"
        )
    return min(4 * room, most)


def _described(sentences: Sequence[Tokens], number: int, most: int = 8) -> str:
    sentence = sentences[number]
    shortened = " ".join(sentence[:most]) + (" …" if len(sentence) > most else "")
    return f"'{shortened}' ({len(sentence)} tokens)"


def _empty_graphs(sentences: int, room: int, max_arity: int, *, goals: bool) -> Graphs:
    def ints(*shape: int) -> Int32Array:
        return np.empty(shape, dtype=np.int32)

    return Graphs(
        sizes=np.zeros(3, dtype=np.int64),
        first_node=_from_zero(sentences + 1),
        starts=ints(room),
        ends=ints(room),
        first_hyperedge=_from_zero(room + 1),
        rules=ints(room),
        children=ints(room, max_arity),
        target_starts=ints(room if goals else 0),
        target_lengths=ints(room if goals else 0),
    )


def _from_zero(size: int) -> Int64Array:
    """A table of group starts, of which only the first is set: the kernels write the others."""
    firsts = np.empty(size, dtype=np.int64)
    firsts[0] = 0
    return firsts


def _filled_part(out: Graphs, *, goals: bool) -> Hypergraph:
    sentences, nodes, hyperedges = (int(size) for size in out.sizes)
    return Hypergraph(
        first_node=out.first_node[: sentences + 1].copy(),
        starts=out.starts[:nodes].copy(),
        ends=out.ends[:nodes].copy(),
        first_hyperedge=out.first_hyperedge[: nodes + 1].copy(),
        rules=out.rules[:hyperedges].copy(),
        children=out.children[:hyperedges].copy(),
        target_starts=out.target_starts[:nodes].copy() if goals else None,
        target_lengths=out.target_lengths[:nodes].copy() if goals else None,
    )


def kernel_view(graph: Hypergraph) -> Graphs:
    """A finished graph as kernels read it."""
    nothing = np.empty(0, dtype=np.int32)
    sizes = np.array([len(graph), graph.nodes, graph.hyperedges], dtype=np.int64)
    return Graphs(
        sizes,
        graph.first_node,
        graph.starts,
        graph.ends,
        graph.first_hyperedge,
        graph.rules,
        graph.children,
        nothing,
        nothing,
    )
