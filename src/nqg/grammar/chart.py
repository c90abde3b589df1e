"""From sentences to hypergraphs and counts: encodes them, gives the kernels room, and joins what they find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nqg.errors import LimitExceeded
from nqg.grammar.arrays import FloatArray, Int32Array
from nqg.grammar.chart_kernels import Graphs, fill_charts, workspace
from nqg.grammar.encoding import EncodedGrammar, GrammarArrays, firsts_of, flat
from nqg.grammar.goal_kernels import CountWorkspace, EncodedPairs, fill_counts, fill_goals, fill_types, goal_workspace
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph, concatenated
from nqg.grammar.semirings import log_derivation_counts
from nqg.grammar.slots import SentenceGrammar
from nqg.grammar.types import Typing

FIRST_ROOM = 1 << 14  # entries of scratch to begin with; four times as many whenever a sentence needs more
MOST_ROOM = 1 << 30  # numbers of nodes and hyperedges are 32-bit integers
OUTPUT_ROOM = 1 << 18  # hyperedges gathered before they are moved out
SHOWN_TOKENS = 8  # of a sentence that an error names

Tokens = Sequence[str]


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Sentences as the numbers of their tokens, end to end; `describe` names one in an error."""

    first_token: Int32Array
    tokens: Int32Array
    describe: Callable[[int], str] = "sentence {}".format

    @classmethod
    def of(cls, grammar: EncodedGrammar, sentences: Sequence[Tokens]) -> EncodedBatch:
        def described(number: int) -> str:
            sentence = sentences[number]
            more = " …" if len(sentence) > SHOWN_TOKENS else ""
            return f"'{' '.join(sentence[:SHOWN_TOKENS])}{more}' ({len(sentence)} tokens)"

        return cls(*grammar.collate(sentences), described)

    @classmethod
    def of_labels(cls, sentences: Sequence[Sequence[int]]) -> EncodedBatch:
        return cls(firsts_of(sentences), flat(sentences))

    def __len__(self) -> int:
        return len(self.first_token) - 1

    @property
    def longest(self) -> int:
        return int(np.diff(self.first_token).max(initial=0))


def charts(grammar: Grammar, sources: Sequence[Tokens], *, prune: bool = True, limit: int | None = None) -> Hypergraph:
    """Every derivation of every span of the sources or, pruned, of every source as a whole.

    If the grammar is typed, only well-typed ones: a node for every span and every type that it has; what covers a whole
    source has one node, that of legal targets. `limit` bounds the entries (states, steps, hyperedges) of any one
    sentence's chart.
    """
    full = untyped_charts(grammar, sources, prune=prune, limit=limit)
    return full if grammar.typing is None else typed_charts(grammar, grammar.typing, sources, full, prune, limit)


def untyped_charts(
    grammar: Grammar, sources: Sequence[Tokens], *, prune: bool = True, limit: int | None = None
) -> Hypergraph:
    """The charts of sources, whatever the types."""
    return encoded_charts(grammar.encoded.arrays, EncodedBatch.of(grammar.encoded, sources), prune=prune, limit=limit)


def typed_charts(
    grammar: Grammar,
    typing: Typing,
    sources: Sequence[Tokens],
    full: Hypergraph,
    prune: bool = True,
    limit: int | None = None,
) -> Hypergraph:
    """Of untyped charts of sources the well-typed derivations; `prune` says how they were made, too."""
    arrays, batch, view = grammar.encoded.arrays, EncodedBatch.of(grammar.encoded, sources), Graphs.of(full)
    most_nodes = int(np.diff(full.first_node).max(initial=0))

    def fill(begin: int, room: int, out: Graphs) -> int:
        work = goal_workspace(most_nodes, len(typing.types), arrays.max_arity, room)
        return fill_types(batch.first_token, begin, prune, arrays, typing.arrays, view, work, out)

    typed = _filled(fill, batch, arrays.max_arity, limit, goals=True)
    return replace(typed, types=typed.target_starts, target_starts=None, target_lengths=None)


def goal_charts(
    grammar: Grammar, sources: Hypergraph, targets: Sequence[Tokens], *, limit: int | None = None
) -> Hypergraph:
    """Of the pruned charts of sources, the derivations that yield the targets."""
    encoded = grammar.with_meanings(sources, targets) if isinstance(grammar, SentenceGrammar) else grammar.encoded
    return encoded_goals(encoded.arrays, sources, EncodedBatch.of(encoded, targets), limit=limit)


def encoded_charts(
    arrays: GrammarArrays, batch: EncodedBatch, *, prune: bool = True, limit: int | None = None
) -> Hypergraph:
    """`charts` of sentences that are numbers already."""

    def fill(begin: int, room: int, out: Graphs) -> int:
        work = workspace(batch.longest, len(arrays.over_nt), arrays.max_arity, room)
        return fill_charts(batch.first_token, batch.tokens, begin, prune, arrays, work, out)

    return _filled(fill, batch, arrays.max_arity, limit, goals=False)


def encoded_goals(
    arrays: GrammarArrays, sources: Hypergraph, targets: EncodedBatch, *, limit: int | None = None
) -> Hypergraph:
    """`goal_charts` of targets that are numbers already."""
    most_nodes = int(np.diff(sources.first_node).max(initial=0))
    full = Graphs.of(sources)

    def fill(begin: int, room: int, out: Graphs) -> int:
        work = goal_workspace(most_nodes, targets.longest, arrays.max_arity, room)
        return fill_goals(targets.first_token, targets.tokens, begin, arrays, full, work, out)

    return _filled(fill, targets, arrays.max_arity, limit, goals=True)


def _filled(
    fill: Callable[[int, int, Graphs], int], sentences: EncodedBatch, max_arity: int, limit: int | None, *, goals: bool
) -> Hypergraph:
    """Call `fill` until every sentence is done, with more room whenever one did not fit."""
    most = MOST_ROOM if limit is None else limit
    begin, room, parts = 0, min(FIRST_ROOM, most), list[Hypergraph]()
    while begin < len(sentences):
        out = Graphs.empty(len(sentences) - begin, max(room, OUTPUT_ROOM), max_arity, goals=goals)
        end = fill(begin, room, out)
        if end == begin:
            room = more_room(room, most, sentences.describe(begin))
        parts.append(out.hypergraph(goals=goals))
        begin = end
    return concatenated(parts or [Graphs.empty(0, 0, max_arity, goals=goals).hypergraph(goals=goals)])


def more_room(room: int, most: int, sentence: str) -> int:
    """Four times the room, up to `most`; LimitExceeded, naming the sentence, where that much was not enough."""
    if room >= most:
        raise LimitExceeded(
            f"the chart of {sentence} needs more than {most:,} entries; "
            "give a higher limit, a shorter sentence or a less ambiguous grammar"
        )
    return min(4 * room, most)


def log_counts(arrays: GrammarArrays, sources: EncodedBatch, targets: EncodedBatch) -> tuple[FloatArray, FloatArray]:
    """For every pair the logarithm of the number of the source's derivations, and of those that yield the target."""
    pairs = EncodedPairs(sources.first_token, sources.tokens, targets.first_token, targets.tokens)
    everything, right = np.zeros(len(sources)), np.zeros(len(sources))
    begin, room, longest, max_arity = 0, FIRST_ROOM, sources.longest, arrays.max_arity
    while begin < len(sources):
        work = workspace(longest, len(arrays.over_nt), max_arity, room)
        goals = goal_workspace(longest * (longest + 1) // 2, targets.longest, max_arity, room)
        counts = CountWorkspace(np.empty(room), np.empty((longest + 1, longest + 1)), np.empty(room))
        end = fill_counts(begin, pairs, arrays, work, goals, counts, everything, right)
        room = more_room(room, MOST_ROOM, sources.describe(begin)) if end == begin else room
        begin = end
    if np.isfinite(everything).all():
        with np.errstate(divide="ignore"):
            return np.log(everything), np.log(right)
    full = encoded_charts(arrays, sources)  # too many for floats: the forests are counted in logarithms
    return log_derivation_counts(full), log_derivation_counts(encoded_goals(arrays, full, targets))
