"""The greedy search of appendix A.2: add the rule that saves most bits, remove what it makes superfluous, repeat.

After every step the rules derive every example, so the grammar is valid at any time.

Two things go beyond the paper. *Factoring*: NEW proposes a rule only where the grammar derives its counterpart; when
that has run dry, rules are also split into two that are both new, which pays where several rules share one of the two.
*Pruning*: a rule that no example needs any more is removed, if that saves bits, even if no other rules derive it.

What a search does next depends on its rules, its phase and the settings alone, never on how it came there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from nqg.grammar.arrays import FloatArray
from nqg.induction.agenda import Agenda, Bench, Candidate, Outcome, Replacement, superfluous
from nqg.induction.candidates import SplitSettings, all_splits, candidates
from nqg.induction.corpus import Corpus, Mask
from nqg.induction.description_length import LabelRule, RuleIndex, data_bits, label_bits
from nqg.induction.settings import InductionSettings

AHEAD, AHEAD_SHARE = 8, 16  # candidates put on the bench together; at least so many, or one for so many rules
FIRST_LOOK = 32  # examples that tell, in most cases, that a rule is needed


class Phase(StrEnum):
    """What kind of steps is made; pruning, where it changed anything, is followed by splitting again."""

    SPLITTING = "splitting"
    FACTORING = "factoring"
    PRUNING = "pruning"
    SAMPLING = "sampling"  # no step of a search, but between two of them: more examples are looked at


_NEXT = {Phase.SPLITTING: Phase.FACTORING, Phase.FACTORING: Phase.PRUNING, Phase.PRUNING: Phase.SPLITTING}


@dataclass(frozen=True, slots=True)
class Move:
    """Rules added, rules removed, and the bits that this saves."""

    phase: Phase
    added: tuple[LabelRule, ...]
    removed: tuple[LabelRule, ...]
    grammar_bits: float
    data_bits: float


class Search:
    """A grammar that becomes smaller step by step."""

    def __init__(
        self, corpus: Corpus, rules: Iterable[LabelRule], settings: InductionSettings, splits: SplitSettings
    ) -> None:
        self.corpus, self.settings, self.splits = corpus, settings, splits
        self.rules: dict[LabelRule, float] = {rule: label_bits(rule, settings) for rule in rules}  # with their bits
        self.data_bits: FloatArray = np.zeros(len(corpus))  # per example
        self._bench = Bench(self.rules)
        self._index = RuleIndex(self.rules)
        self._phase, self._has_pruned = Phase.SPLITTING, False
        self._agenda = Agenda(self.rules, settings, settings.data_weight)
        self._refresh_data_bits(np.ones(len(corpus), dtype=np.bool_))

    @property
    def grammar_bits(self) -> float:
        """Bits to write the rules down."""
        return sum(self.rules.values())

    def moves(self) -> Iterator[Move]:
        """Make one step after the other until none saves enough."""
        while True:
            if self._phase is Phase.PRUNING:
                yield from self._pruning_moves()
                if not self._has_pruned:
                    return
            elif self._phase is Phase.SPLITTING or self.settings.factoring:
                yield from self._splitting_moves()
            self._enter(_NEXT[self._phase])

    def make(self, move: Move) -> None:
        """Change the grammar as `move` says."""
        if move.phase is not self._phase:
            self._enter(move.phase)
        self._has_pruned |= move.phase is Phase.PRUNING
        self._put_on_bench(move.added)
        self._bench.switch(move.added, move.removed)
        for rule in move.removed:
            del self.rules[rule]
            self._index.remove(rule)
        for rule in move.added:
            self.rules[rule] = label_bits(rule, self.settings)
            self._index.add(rule)
        self._refresh_data_bits(self.corpus.touched_by((*move.added, *move.removed)))

    def _enter(self, phase: Phase) -> None:
        self._phase, self._has_pruned = phase, False

    def _splitting_moves(self) -> Iterator[Move]:
        weight = self.settings.data_weight if self._phase is Phase.SPLITTING else 1.0
        self._agenda = Agenda(self.rules, self.settings, weight)
        self._propose(list(self.rules))
        while (best := self._best()) is not None:
            move = self._completed(best)
            self.make(move)
            for rule in move.removed:
                self._agenda.leave(rule)
            self._agenda.disturb(self.corpus.touched_by((*move.added, *move.removed)))
            self._propose(self._index.around(move.added))
            yield move

    def _best(self) -> Candidate | None:
        """The candidate that saves most, or None if none saves more than the least gain asked for."""
        while (candidate := self._agenda.first()) is not None and candidate.data_bits is None:
            self._agenda.settle(candidate, self._saved_data_bits(candidate))
        return candidate

    def _saved_data_bits(self, candidate: Candidate) -> float:
        """What the candidate saves in the data term; of examples seen before, only changed ones are counted anew."""
        if candidate.outcome is None:
            examples = self._sample(candidate)
            candidate.outcome = Outcome(examples, np.zeros_like(examples), np.zeros(len(self.corpus)))
        outcome = candidate.outcome
        missing = outcome.examples & ~outcome.known
        self._put_on_bench(candidate.added)
        outcome.data_bits[missing] = self._data_bits(missing, candidate.added, candidate.replaces)
        outcome.known |= missing
        return float(self.data_bits[outcome.examples].sum() - outcome.data_bits[outcome.examples].sum())

    def _data_bits(self, examples: Mask, added: Iterable[LabelRule], removed: Iterable[LabelRule]) -> FloatArray:
        """The data bits of some examples if the grammar were changed."""
        grammar = self._bench.switched(added, removed)
        return data_bits(grammar, *self.corpus.selected(np.flatnonzero(examples)))

    def _put_on_bench(self, rules: Sequence[LabelRule]) -> None:
        """See to it that the rules can be switched on, and those that are likely to be looked at next."""
        if not all(rule in self._bench for rule in rules):
            foremost = self._agenda.foremost(max(AHEAD, len(self.rules) // AHEAD_SHARE))
            ahead = [rule for candidate in foremost for rule in candidate.added]
            self._bench = Bench(self.rules, [*rules, *ahead])

    def _sample(self, candidate: Candidate) -> Mask:
        """The examples on which a candidate's data term is worked out: those it touches, or some of them."""
        touched, most = self.corpus.touched_by(candidate.added), self.settings.sample
        if most is not None and np.count_nonzero(touched) > most:
            rng = random.Random(f"{self.settings.seed} {candidate.rule}")
            sampled = np.zeros_like(touched)
            sampled[rng.sample(np.flatnonzero(touched).tolist(), most)] = True
            return sampled
        return touched

    def _completed(self, candidate: Candidate) -> Move:
        """The step that takes the candidate; rules that the others now derive go as well if that saves bits."""
        assert candidate.data_bits is not None, "the best candidate has been worked out"
        assert candidate.outcome is not None, "the best candidate has been worked out"
        removed = list(candidate.replaces)
        around = [rule for rule in self._index.around(candidate.added) if rule not in candidate.replaces]
        self._put_on_bench(candidate.added)
        also = superfluous(around, self._bench.switched(candidate.added, removed))
        if also:
            examples = candidate.outcome.examples
            if self.settings.sample is None:  # those rules may touch examples that the candidate does not
                examples = examples | self.corpus.touched_by(also)
            after = self._data_bits(examples, candidate.added, [*removed, *also])
            saved = float(self.data_bits[examples].sum() - after.sum())
            if saved + sum(self.rules[rule] for rule in also) >= candidate.data_bits:
                return self._move(candidate, [*removed, *also], saved)
        return self._move(candidate, removed, candidate.data_bits)

    def _move(self, candidate: Candidate, removed: Sequence[LabelRule], saved: float) -> Move:
        bits = sum(self.rules[rule] for rule in removed)
        bits -= sum(label_bits(rule, self.settings) for rule in candidate.added)
        return Move(self._phase, candidate.added, tuple(sorted(removed)), bits, saved)

    def _pruning_moves(self) -> Iterator[Move]:
        """Remove one rule after the other that no example needs, the one that saves most first."""
        if not self.settings.pruning:
            return
        savings = self._removable(self.rules)
        while savings:
            rule, saved = max(savings.items(), key=lambda item: (self.rules[item[0]] + item[1], item[0]))
            if self.rules[rule] + saved <= self.settings.least_gain:
                return
            move = Move(self._phase, (), (rule,), self.rules[rule], saved)
            self.make(move)
            touched = self.corpus.touched_by([rule])
            del savings[rule]
            stale = [other for other in savings if np.any(self.corpus.touched_by([other]) & touched)]
            again = self._removable(stale)
            savings = {
                other: again.get(other, saved)
                for other, saved in savings.items()
                if other in again or other not in stale
            }
            yield move

    def _removable(self, rules: Iterable[LabelRule]) -> dict[LabelRule, float]:
        """The rules without which every example can still be derived, and the bits that each saves in the data term."""
        found = {}
        for rule in rules:
            examples = self.corpus.touched_by([rule])
            first_look = examples & (np.cumsum(examples) <= FIRST_LOOK)
            if not np.all(np.isfinite(self._data_bits(first_look, (), [rule]))):
                continue
            after = self._data_bits(examples, (), [rule])
            if np.all(np.isfinite(after)):
                found[rule] = float(self.data_bits[examples].sum() - after.sum())
        return found

    def _refresh_data_bits(self, touched: Mask) -> None:
        self.data_bits[touched] = self._data_bits(touched, (), ())

    def _propose(self, rules: Sequence[LabelRule]) -> None:
        """Put the candidates of rules on the agenda that are new, or whose surroundings have changed."""
        for rule, found in zip(rules, candidates(rules, self._bench.arrays, self.splits), strict=True):
            for proposed in sorted(found):
                self._agenda.propose(proposed, rule, Replacement(self.rules[rule]))
            if self._phase is Phase.FACTORING:
                self._propose_factors(rule)

    def _propose_factors(self, rule: LabelRule) -> None:
        """Put both parts of every split on the agenda, each with the other as companion."""
        for pair in all_splits(rule, self.splits):
            for part, companion in (pair, pair[::-1]):
                bits = self.rules[rule] - label_bits(companion, self.settings)
                self._agenda.propose(part, rule, Replacement(bits, companion))
