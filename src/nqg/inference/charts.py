"""The charts of a batch of sentences, made once: forests to decode and reasons to abstain are
derived from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nqg.errors import LimitExceeded
from nqg.grammar.chart import StepBudget, typed_charts, untyped_charts
from nqg.grammar.derivation import Tokens
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import NO_CHILD, Hypergraph, NodeId, Span, subgraph
from nqg.slots.instantiate import SlotInstances, instantiate_slots
from nqg.slots.matcher import Mention, Sentence, words_of


@dataclass(frozen=True)
class BatchCharts:
    """Every derivable span of some sentences or, if pruned, only those that whole
    derivations use.

    With a `StepBudget`, sentences that need more steps have no derivable span, and are noted there.
    """

    grammar: SlotInstances  # with the values in the sentences
    sources: Sequence[Tokens]
    untyped: Hypergraph  # whatever the types
    is_pruned: bool
    limit: int | StepBudget | None = None  # of the steps of a sentence's chart

    @classmethod
    def of(
        cls,
        grammar: Grammar,
        sentences: Sequence[Sentence],
        mentions: Sequence[Sequence[Mention]] | None = None,
        *,
        prune: bool = False,
        limit: int | StepBudget | None = None,
    ) -> BatchCharts:
        """Chart sentences; `mentions` are those of the grammar's slots, where they are known."""
        instances = instantiate_slots(grammar, sentences, mentions)
        sources = [words_of(sentence) for sentence in sentences]
        untyped = untyped_charts(instances, sources, prune=prune, limit=limit)
        return cls(instances, sources, untyped, prune, limit)

    def select(self, sentence: int) -> BatchCharts:
        """The chart of one sentence; what exceeds the limit is an error from now on."""
        untyped = self.untyped.select([sentence])
        return replace(
            self, sources=[self.sources[sentence]], untyped=untyped, limit=self._steps
        )

    @cached_property
    def forests(self) -> Hypergraph:
        """The derivations of whole sentences, whatever the types."""
        if self.is_pruned:
            return self.untyped
        return pruned(self.untyped, sorted(self.derivable(self.untyped)))

    @cached_property
    def typed_forests(self) -> Hypergraph:
        """The derivations of whole sentences that are well-typed, if the grammar has types."""
        typing = self.grammar.typing
        if typing is None:
            return self.forests
        rules = self.grammar.model_rule_ids(self.forests.rules)
        limit = self.limit
        legal = typing.reducer.reduce(self.forests, rules, self._steps)
        if isinstance(limit, StepBudget):
            limit.exceeded |= legal.exceeded
        return typed_charts(
            self.grammar, typing, self.sources, legal.forest, True, limit, legal.wanted
        )

    @cached_property
    def typed_spans(self) -> list[Span]:
        """The spans of the chart of one sentence that have a well-typed derivation.

        Unlike `typed`, they take no combinations of types: see `nqg.types.legal_forest`.
        """
        untyped, typing = self.untyped, self.grammar.typing
        (source,) = self.sources
        nodes = list(untyped.node_ids())
        if typing is not None:
            rules = self.grammar.model_rule_ids(untyped.rules)
            limit = self._steps
            is_typed = typing.reducer.typed_nodes(untyped, rules, len(source), limit)
            if is_typed is None:
                raise LimitExceeded(f"{' '.join(source)[:80]}: too many types of spans")
            nodes = [NodeId(node) for node in np.flatnonzero(is_typed).tolist()]
        return list(map(untyped.span, nodes))

    def without_free_text(self) -> BatchCharts:
        """The charts of the words that rules and values of other slots read.

        Free text may be any words, so that what it derives says nothing of them.
        """
        slots, untyped = self.grammar.slots, self.untyped
        if slots is None or not slots.free_text:
            return self
        # The numbers of free text come after those of all other rules.
        is_read = untyped.rules < self.grammar.encoded.arrays.values.texts.first
        owners, children = untyped.owners(), untyped.children
        is_derived = np.zeros(untyped.nodes, dtype=bool)
        while True:
            has_children = ((children == NO_CHILD) | is_derived[children]).all(axis=1)
            is_kept = is_read & has_children
            if is_derived[owners[is_kept]].all():
                return replace(self, untyped=subgraph(untyped, is_kept))
            is_derived[owners[is_kept]] = True

    @property
    def _steps(self) -> int | None:
        return self.limit.steps if isinstance(self.limit, StepBudget) else self.limit

    @cached_property
    def typed(self) -> Hypergraph:
        """All derivable spans, as far as they are well-typed."""
        typing = self.grammar.typing
        if typing is None:
            return self.untyped
        return typed_charts(
            self.grammar, typing, self.sources, self.untyped, False, self.limit
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
    # Level by level, mark what the roots lead to.
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
    return subgraph(full, is_used[owners])
