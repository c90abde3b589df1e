"""The pairs of span and rule that forests hold, each once: what gets a score, and nothing else does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nqg.forests.forest import Forests
from nqg.grammar.graph import Graph, Longs, starts_of
from nqg.model.anchors import sentence_numbers, span_numbers
from nqg.model.ragged import Ragged, on_device


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of a span and a rule, none of them twice."""

    spans: Tensor  # (P,)
    rules: Tensor  # (P,)


@dataclass(frozen=True, slots=True)
class PairTable:
    """The pairs of span and rule in many forests, each once, and for every application its pair.

    Spans and pairs are counted from the sentence's own first one. Applications of one pair differ in where their
    children meet, or in the part of the target that they yield; the model gives them one score.
    """

    first_span: Longs  # (n + 1,)
    spans: Ragged
    rules: Ragged
    of_full: Longs  # (A of full,)
    of_goal: Longs  # (A of goal,)

    @classmethod
    def of(cls, forests: Forests) -> PairTable:
        """The pairs of forests; whatever a goal forest has is also in the full one."""
        full, goal = forests.full, forests.goal
        rules = int(full.rules.max(initial=0)) + 1
        keys, of_full = np.unique(_keys(full, full, rules), return_inverse=True)
        of_goal = np.searchsorted(keys, _keys(goal, full, rules))
        spans, first = keys // rules, np.searchsorted(keys, full.first_choice * rules)
        own = np.repeat(full.first_choice[:-1], np.diff(first))
        return cls(
            full.first_choice,
            Ragged(first, spans - own),
            Ragged(first, keys % rules),
            of_full - first[sentence_numbers(full)[full.owners()]],
            of_goal - first[sentence_numbers(goal)[goal.owners()]],
        )

    def picked(self, batch: Longs, device: torch.device | str) -> Pairs:
        """The pairs of the sentences of a batch, on a device."""
        spans = self.first_span[batch + 1] - self.first_span[batch]
        return Pairs(*on_device([self.spans.picked(batch, starts_of(spans)[:-1]), self.rules.picked(batch)], device))


def _keys(graph: Graph, full: Graph, rules: int) -> Longs:
    """A number for the span and the rule of each application: (A,)."""
    return span_numbers(graph, full)[graph.owners()] * rules + graph.rules
