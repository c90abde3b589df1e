"""The charts of a batch of sentences, made once: forests to decode and reasons to abstain are
derived from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nqg.grammar.chart import typed_charts, untyped_charts
from nqg.grammar.derivation import Tokens
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import NO_CHILD, Hypergraph
from nqg.grammar.ragged import offsets_from_lengths
from nqg.slots.instantiate import SlotInstances, instantiate_slots
from nqg.slots.matcher import Mention, Sentence, words_of


@dataclass(frozen=True)
class BatchCharts:
    """Every derivable span of some sentences or, if pruned, only those that whole
    derivations use.
    """

    grammar: SlotInstances  # with the values in the sentences
    sources: Sequence[Tokens]
    untyped: Hypergraph  # whatever the types
    is_pruned: bool
    limit: int | None = None  # of the entries of a sentence's chart

    @classmethod
    def of(
        cls,
        grammar: Grammar,
        sentences: Sequence[Sentence],
        mentions: Sequence[Sequence[Mention]] | None = None,
        *,
        prune: bool = False,
        limit: int | None = None,
    ) -> BatchCharts:
        """Chart sentences; `mentions` are those of the grammar's slots, where they are known."""
        instances = instantiate_slots(grammar, sentences, mentions)
        sources = [words_of(sentence) for sentence in sentences]
        untyped = untyped_charts(instances, sources, prune=prune, limit=limit)
        return cls(instances, sources, untyped, prune, limit)

    def select(self, sentence: int) -> BatchCharts:
        """The chart of one sentence."""
        untyped = self.untyped.select([sentence])
        return replace(self, sources=[self.sources[sentence]], untyped=untyped)

    @cached_property
    def forests(self) -> Hypergraph:
        """The derivations of whole sentences, whatever the types."""
        if self.is_pruned:
            return self.untyped
        return pruned(self.untyped, sorted(self.derivable(self.untyped)))

    @cached_property
    def typed_forests(self) -> Hypergraph:
        """The derivations of whole sentences that are well-typed, if the grammar has types."""
        return self._typed(self.forests, prune=True)

    @cached_property
    def typed(self) -> Hypergraph:
        """All derivable spans, as far as they are well-typed."""
        return self._typed(self.untyped, prune=False)

    def _typed(self, full: Hypergraph, *, prune: bool) -> Hypergraph:
        grammar = self.grammar
        if grammar.typing is None:
            return full
        return typed_charts(
            grammar, grammar.typing, self.sources, full, prune, self.limit
        )

    def derivable(self, full: Hypergraph) -> set[int]:
        """The sentences that have a node over all their words: the last one, if any."""
        charted = np.flatnonzero(np.diff(full.first_node))
        last = full.roots()[charted]
        lengths = np.array([len(source) for source in self.sources], dtype=np.int64)
        is_whole = (full.starts[last] == 0) & (full.ends[last] == lengths[charted])
        return set(charted[is_whole].tolist())


def pruned(full: Hypergraph, sentences: Sequence[int]) -> Hypergraph:
    """The charts of some sentences, reduced to what their roots lead to; the others are empty."""
    # 1. Level by level, mark what the roots lead to.
    owners = full.owners()
    is_used = np.zeros(full.nodes, dtype=bool)
    is_new = np.zeros(full.nodes, dtype=bool)
    is_new[full.roots()[sentences]] = True
    while is_new.any():
        is_used |= is_new
        children = full.children[is_new[owners]]
        is_new[:] = False
        is_new[children[children != NO_CHILD]] = True
        is_new &= ~is_used
    # 2. The nodes that are left get new numbers.
    numbers = offsets_from_lengths(is_used)
    hyperedges = np.diff(full.first_hyperedge)[is_used]
    children = full.children[is_used[owners]]
    renumbered = np.where(children == NO_CHILD, NO_CHILD, numbers[children])
    return Hypergraph(
        first_node=numbers[full.first_node],
        starts=full.starts[is_used],
        ends=full.ends[is_used],
        first_hyperedge=offsets_from_lengths(hyperedges),
        rules=full.rules[is_used[owners]],
        children=renumbered.astype(np.int32),
    )
