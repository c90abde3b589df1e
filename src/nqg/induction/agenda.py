"""The candidates of a search, what each would replace, and the queue that ranks them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from nqg.induction.corpus import Mask
from nqg.induction.description_length import label_bits
from nqg.induction.labels import LabelRule
from nqg.induction.settings import InductionSettings


@dataclass(frozen=True, slots=True)
class Replacement:
    """One rule that a candidate makes superfluous: the bits that this saves, less those of a rule that must come too.

    A candidate g of SPLIT(f) = (g, h) has no companion where the grammar derives h; otherwise h is its companion.
    """

    bits: float
    companion: LabelRule | None = None


@dataclass(slots=True)
class Candidate:
    """A rule that could be added, the rules that could go then (ELIM), and what it was last seen to save."""

    rule: LabelRule
    grammar_bits: float  # saved in the grammar
    replaces: dict[LabelRule, Replacement] = field(default_factory=dict)
    data_bits: float = 0.0  # saved in the data term when last looked at
    seen_at: int | None = None  # the number of steps that had been made then
    touched: Mask | None = None

    @property
    def added(self) -> tuple[LabelRule, ...]:
        """The candidate and its companions."""
        companions = (replacement.companion for replacement in self.replaces.values())
        return (self.rule, *(companion for companion in companions if companion is not None))


class Agenda:
    """All candidates, best first by what is known of them; equal ones in the order of their labels."""

    def __init__(self, settings: InductionSettings) -> None:
        self._settings = settings
        self._data_weight = settings.data_weight
        self._candidates: dict[LabelRule, Candidate] = {}
        self._proposed_for: dict[LabelRule, set[LabelRule]] = {}
        self._queue: list[tuple[float, LabelRule]] = []

    def __iter__(self) -> Iterator[Candidate]:
        return iter(list(self._candidates.values()))

    def __len__(self) -> int:
        return len(self._candidates)

    def propose(self, rule: LabelRule, replaced: LabelRule, replacement: Replacement) -> None:
        """Let `rule` be a candidate that replaces `replaced`; a replacement without companion goes before one with."""
        candidate = self._candidates.get(rule)
        if candidate is None:
            candidate = self._candidates[rule] = Candidate(rule, -label_bits(rule, self._settings))
        before = candidate.replaces.get(replaced)
        if before is not None and before.bits >= replacement.bits:
            return
        candidate.grammar_bits += replacement.bits - (before.bits if before else 0.0)
        candidate.replaces[replaced] = replacement
        self._proposed_for.setdefault(replaced, set()).add(rule)
        self._renew(candidate)

    def withdraw(self, rule: LabelRule) -> None:
        """`rule` is in the grammar now: it is no candidate."""
        self._candidates.pop(rule, None)

    def forget(self, replaced: LabelRule) -> None:
        """`replaced` is no longer in the grammar: no candidate replaces it."""
        for proposed in sorted(self._proposed_for.pop(replaced, ())):
            candidate = self._candidates.get(proposed)
            replacement = candidate.replaces.pop(replaced, None) if candidate else None
            if candidate is None or replacement is None:
                continue
            candidate.grammar_bits -= replacement.bits
            if candidate.replaces:
                self._renew(candidate)
            else:
                del self._candidates[proposed]

    def saving(self, candidate: Candidate) -> float:
        """Bits that the candidate saves in all, as far as is known, the data term weighted."""
        return candidate.grammar_bits + self._data_weight * candidate.data_bits

    def weigh(self, data_weight: float) -> None:
        """Give the data term another weight from now on."""
        self._data_weight = data_weight
        self._queue = sorted((-self.saving(candidate), rule) for rule, candidate in self._candidates.items())

    def enqueue(self, candidate: Candidate) -> None:
        """Rank the candidate by what it saves now."""
        heapq.heappush(self._queue, (-self.saving(candidate), candidate.rule))

    def first(self) -> Candidate | None:
        """The candidate that is ranked first."""
        while self._queue:
            negative, rule = self._queue[0]
            candidate = self._candidates.get(rule)
            if candidate is not None and self.saving(candidate) == -negative:
                return candidate
            heapq.heappop(self._queue)
        return None

    def foremost(self, count: int) -> list[Candidate]:
        """About as many of the first candidates: those that lie near the top of the heap."""
        ranked = (self._candidates.get(rule) for _, rule in sorted(self._queue[: 4 * count])[:count])
        return [candidate for candidate in ranked if candidate is not None]

    def _renew(self, candidate: Candidate) -> None:
        candidate.seen_at = None
        candidate.touched = None
        self.enqueue(candidate)
