"""The greedy search of appendix A.2: add the rule that saves most bits, remove what it makes superfluous, repeat.

After every step the rules derive every pair that they derived before, so the grammar is valid at any time.

The data term of a candidate is worked out only when the candidate comes to the front of the agenda, and kept as long
as no step touches the same examples; in between, candidates are ranked by what was last known of them. The candidate
that is taken has always been looked at since, and before the search ends every one that shortens the grammar is.

*Factoring* goes beyond the paper. NEW proposes a rule only where the grammar derives its counterpart. When that has
run dry, rules are also split into two that are both new, which pays where several rules share one of the two. In this
second part the data term always has its full weight.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.inside import Floats
from nqg.induction.agenda import Agenda, Candidate, Replacement
from nqg.induction.bench import Bench, superfluous
from nqg.induction.candidates import SplitSettings, all_splits, candidates
from nqg.induction.corpus import Corpus, Mask
from nqg.induction.description_length import data_bits, label_bits
from nqg.induction.labels import LabelRule
from nqg.induction.rule_index import RuleIndex
from nqg.induction.settings import InductionSettings

AHEAD = 64  # candidates that are put on the bench together


@dataclass(frozen=True, slots=True)
class Move:
    """Rules added, the rules that they make superfluous, and the bits that this saves."""

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
        self.data_bits: Floats = np.zeros(len(corpus))  # per example
        self._bench = Bench(self.rules)
        self._touches: list[Mask] = []  # per step: the examples whose derivations it changed
        self._agenda = Agenda(settings)
        self._index = RuleIndex(self.rules)
        self._is_factoring = False
        self._refresh_data_bits(np.ones(len(corpus), dtype=np.bool_))
        self._propose(list(self.rules))

    @property
    def grammar_bits(self) -> float:
        """Bits to write the rules down."""
        return sum(self.rules.values())

    def moves(self) -> Iterator[Move]:
        """Make one step after the other until none saves enough."""
        yield from self._greedy_moves()
        if self.settings.factoring:
            self._is_factoring = True
            self._agenda.weigh(1.0)
            self._propose(list(self.rules))
            yield from self._greedy_moves()

    def _greedy_moves(self) -> Iterator[Move]:
        while (best := self._best()) is not None:
            move = self._completed(best)
            self.make(move)
            yield move

    def make(self, move: Move) -> None:
        """Change the grammar as `move` says, and everything that depends on it."""
        self._put_on_bench(move.added)
        self._bench.switch(move.added, move.removed)
        for rule in move.removed:
            del self.rules[rule]
            self._index.remove(rule)
            self._agenda.forget(rule)
        for rule in move.added:
            self.rules[rule] = label_bits(rule, self.settings)
            self._index.add(rule)
            self._agenda.withdraw(rule)
        touched = self.corpus.touched_by(move.added)
        self._touches.append(touched)
        self._refresh_data_bits(touched)
        self._propose(self._index.around(move.added))

    def _best(self) -> Candidate | None:
        """The candidate that saves most, or None if none saves more than the least gain asked for."""
        while True:
            candidate = self._agenda.first()
            if candidate is not None and not self._is_up_to_date(candidate):
                self._look_at(candidate)
            elif candidate is not None and self._agenda.saving(candidate) > self.settings.minimum_gain:
                return candidate
            elif not self._look_at_the_rest():
                return None

    def _look_at_the_rest(self) -> bool:
        """Look at every candidate that shortens the grammar and whose rank is out of date; whether one saves bits."""
        promising = False
        for candidate in self._agenda:
            if candidate.grammar_bits > self.settings.minimum_gain and not self._is_up_to_date(candidate):
                self._look_at(candidate)
                promising |= self._agenda.saving(candidate) > self.settings.minimum_gain
        return promising

    def _is_up_to_date(self, candidate: Candidate) -> bool:
        if candidate.seen_at is None:
            return False
        touched = self._touched(candidate)
        if any(np.any(step & touched) for step in self._touches[candidate.seen_at :]):
            candidate.seen_at = None
            return False
        candidate.seen_at = len(self._touches)
        return True

    def _touched(self, candidate: Candidate) -> Mask:
        if candidate.touched is None:
            candidate.touched = self.corpus.touched_by(candidate.added)
        return candidate.touched

    def _look_at(self, candidate: Candidate) -> None:
        """Work out what the candidate saves in the data term, and rank it anew."""
        candidate.data_bits = self._saved_data_bits(candidate, candidate.replaces)
        candidate.seen_at = len(self._touches)
        self._agenda.enqueue(candidate)

    def _saved_data_bits(self, candidate: Candidate, removed: Iterable[LabelRule]) -> float:
        examples = self._sample(candidate)
        self._put_on_bench(candidate.added)
        grammar = self._bench.switched(candidate.added, removed)
        after = data_bits(grammar, *self.corpus.selected(examples))
        return float(self.data_bits[examples].sum() - after.sum())

    def _put_on_bench(self, rules: Sequence[LabelRule]) -> None:
        """See to it that the rules can be switched on, and those that are likely to be looked at next."""
        if not all(rule in self._bench for rule in rules):
            ahead = [rule for candidate in self._agenda.foremost(AHEAD) for rule in candidate.added]
            self._bench = Bench(self.rules, [*rules, *ahead])

    def _sample(self, candidate: Candidate) -> NDArray[np.int64]:
        """The examples on which a candidate's data term is worked out: those it touches, or some of them."""
        examples, most = np.flatnonzero(self._touched(candidate)), self.settings.sample
        if most is None or len(examples) <= most:
            return examples
        rng = random.Random(f"{self.settings.seed} {candidate.rule}")
        return np.array(sorted(rng.sample(examples.tolist(), most)))

    def _completed(self, candidate: Candidate) -> Move:
        """The step that takes the candidate; rules that the others now derive go as well if that saves bits."""
        removed = {rule: self.rules[rule] for rule in candidate.replaces}
        around = [rule for rule in self._index.around(candidate.added) if rule not in removed]
        self._put_on_bench(candidate.added)
        also = superfluous(around, self._bench.switched(candidate.added, removed))
        if also:
            saved = self._saved_data_bits(candidate, [*removed, *also])
            if saved + sum(self.rules[rule] for rule in also) >= candidate.data_bits:
                return self._move(candidate, [*removed, *also], saved)
        return self._move(candidate, list(removed), candidate.data_bits)

    def _move(self, candidate: Candidate, removed: list[LabelRule], saved: float) -> Move:
        bits = sum(self.rules[rule] for rule in removed)
        bits -= sum(label_bits(rule, self.settings) for rule in candidate.added)
        return Move(candidate.added, tuple(sorted(removed)), bits, saved)

    def _refresh_data_bits(self, touched: Mask) -> None:
        examples = np.flatnonzero(touched)
        self.data_bits[examples] = data_bits(self._bench.arrays, *self.corpus.selected(examples))

    def _propose(self, rules: Sequence[LabelRule]) -> None:
        """Put the candidates of rules on the agenda that are new, or whose surroundings have changed."""
        for rule, found in zip(rules, candidates(rules, self._bench.arrays, self.splits), strict=True):
            for proposed in sorted(found - self.rules.keys()):
                self._agenda.propose(proposed, rule, Replacement(self.rules[rule]))
            if self._is_factoring:
                self._propose_factors(rule)

    def _propose_factors(self, rule: LabelRule) -> None:
        """Put both parts of every split on the agenda, each with the other as companion."""
        for pair in all_splits(rule, self.splits):
            for part, companion in (pair, pair[::-1]):
                if part not in self.rules:
                    bits = self.rules[rule] - label_bits(companion, self.settings)
                    self._agenda.propose(part, rule, Replacement(bits, companion))
