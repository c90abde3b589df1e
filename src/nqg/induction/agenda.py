"""The candidates of a search, what each would replace, and the queue that ranks them."""

from __future__ import annotations

import heapq
from collections.abc import Container
from dataclasses import dataclass, field

import numpy as np

from nqg.grammar.arrays import FloatArray
from nqg.induction.corpus import Mask
from nqg.induction.description_length import LabelRule, label_bits
from nqg.induction.settings import InductionSettings


@dataclass(frozen=True, slots=True)
class Replacement:
    """One rule that a candidate makes superfluous: the bits that this saves, less those of a rule that must come too.

    A candidate g of SPLIT(f) = (g, h) has no companion where the grammar derives h; otherwise h is its companion.
    """

    bits: float
    companion: LabelRule | None = None


@dataclass(slots=True)
class DataTerm:
    """The data bits that examples would have with a candidate in the grammar, as far as they are known."""

    examples: Mask  # those on which the candidate is judged
    known: Mask
    data_bits: FloatArray

    def forget(self, examples: Mask) -> bool:
        """These examples' derivations have changed; whether that matters here."""
        self.known &= ~examples
        return bool(np.any(self.examples & examples))


@dataclass(slots=True)
class Candidate:
    """A rule that could be added, the rules that could go then (ELIM), and what that saves."""

    rule: LabelRule
    grammar_bits: float  # saved in the grammar
    replaces: dict[LabelRule, Replacement] = field(default_factory=dict)
    data_bits: float | None = None  # saved in the data term; None where that has yet to be worked out
    outcome: DataTerm | None = None

    @property
    def added(self) -> tuple[LabelRule, ...]:
        """The candidate and its companions, each once, however many rules share it."""
        companions = {each.companion for each in self.replaces.values() if each.companion is not None}
        return (self.rule, *sorted(companions - {self.rule}))


class Agenda:
    """All candidates that are not in the grammar, best first; equal ones in the order of their labels.

    A candidate counts for what it saves in the grammar, less what it costs in the data. A gain in the data does not
    count, so what the grammar saves is a bound, and the data term needs to be worked out only for candidates that come
    to the front: the first one for which it is known is the best of all.
    """

    def __init__(self, grammar: Container[LabelRule], settings: InductionSettings, data_weight: float) -> None:
        self._grammar, self._settings, self._data_weight = grammar, settings, data_weight
        self._candidates: dict[LabelRule, Candidate] = {}
        self._worked_out: dict[LabelRule, Candidate] = {}
        self._proposed_for: dict[LabelRule, set[LabelRule]] = {}
        self._queue: list[tuple[float, LabelRule]] = []

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

    def leave(self, replaced: LabelRule) -> None:
        """`replaced` is no longer in the grammar: no candidate replaces it, and it may be a candidate again."""
        for proposed in sorted(self._proposed_for.pop(replaced, ())):
            candidate = self._candidates[proposed]
            candidate.grammar_bits -= candidate.replaces.pop(replaced).bits
            if candidate.replaces:
                self._renew(candidate)
            else:
                del self._candidates[proposed]
                self._worked_out.pop(proposed, None)
        if replaced in self._candidates:
            self._enqueue(self._candidates[replaced])

    def settle(self, candidate: Candidate, data_bits: float) -> None:
        """Note what the candidate saves in the data term, and rank it by that."""
        candidate.data_bits = data_bits
        self._worked_out[candidate.rule] = candidate
        self._enqueue(candidate)

    def disturb(self, examples: Mask) -> None:
        """The derivations of these examples have changed: whatever depends on them has to be worked out again."""
        for candidate in self._worked_out.values():
            if candidate.outcome is not None and candidate.outcome.forget(examples):
                candidate.data_bits = None
                self._enqueue(candidate)

    def first(self) -> Candidate | None:
        """The best candidate as far as is known, or None if none saves more than the least gain asked for."""
        while self._queue and -self._queue[0][0] > self._settings.least_gain:
            negative, rule = self._queue[0]
            candidate = self._candidates.get(rule)
            if candidate is not None and rule not in self._grammar and self._saving(candidate) == -negative:
                return candidate
            heapq.heappop(self._queue)
        return None

    def foremost(self, count: int) -> list[Candidate]:
        """About as many of the first candidates: those that lie near the top of the heap."""
        ranked = (self._candidates.get(rule) for _, rule in sorted(self._queue[: 4 * count])[:count])
        return [candidate for candidate in ranked if candidate is not None]

    def _saving(self, candidate: Candidate) -> float:
        return candidate.grammar_bits + self._data_weight * min(0.0, candidate.data_bits or 0.0)

    def _renew(self, candidate: Candidate) -> None:
        candidate.data_bits = candidate.outcome = None
        self._worked_out.pop(candidate.rule, None)
        self._enqueue(candidate)

    def _enqueue(self, candidate: Candidate) -> None:
        saving = self._saving(candidate)
        if saving > self._settings.least_gain:
            heapq.heappush(self._queue, (-saving, candidate.rule))
