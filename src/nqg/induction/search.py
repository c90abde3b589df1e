"""The greedy search of appendix A.2: add the rule that saves most bits, remove what it makes superfluous, repeat.

After every step the rules derive every pair that they derived before, so the grammar is valid at any time.

The data term of a candidate is worked out only when the candidate comes to the top of a queue, and kept as long as no
step touches the same examples; in between, candidates are ranked by what was last known of them. The candidate that is
taken has always been looked at since, and before the search ends every candidate that might still save bits is.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.inside import Floats
from nqg.induction.bench import Bench, superfluous
from nqg.induction.candidates import SplitSettings, candidates
from nqg.induction.corpus import Corpus, Mask
from nqg.induction.description_length import data_bits, label_bits
from nqg.induction.labels import LabelRule
from nqg.induction.settings import InductionSettings

AHEAD = 64  # candidates that are put on the bench together


@dataclass(frozen=True, slots=True)
class Move:
    """A rule added, the rules that it makes superfluous, and the bits that this saves."""

    added: LabelRule
    removed: tuple[LabelRule, ...]
    grammar_bits: float
    data_bits: float


@dataclass(slots=True)
class Candidate:
    """A rule that could be added, the rules that could go then (ELIM), and what it was last seen to save."""

    rule: LabelRule
    bits: float
    replaces: dict[LabelRule, float] = field(default_factory=dict)  # with their bits
    data_bits: float = 0.0  # saved in the data term when last looked at
    seen_at: int | None = None  # the number of steps that had been made then
    touched: Mask | None = None

    @property
    def grammar_bits(self) -> float:
        """Saved in the grammar."""
        return sum(self.replaces.values()) - self.bits

    @property
    def saving(self) -> float:
        """Saved in all, as far as is known."""
        return self.grammar_bits + self.data_bits


class Search:
    """A grammar that becomes smaller step by step."""

    def __init__(
        self, corpus: Corpus, rules: Iterable[LabelRule], settings: InductionSettings, splits: SplitSettings
    ) -> None:
        self.corpus, self.settings, self.splits = corpus, settings, splits
        self.rules: dict[LabelRule, float] = {rule: label_bits(rule, settings) for rule in rules}
        self.data_bits: Floats = np.zeros(len(corpus))
        self._bench = Bench(self.rules)
        self._touches: list[Mask] = []  # per step: the examples whose derivations it changed
        self._candidates: dict[LabelRule, Candidate] = {}
        self._proposed_for: dict[LabelRule, set[LabelRule]] = {}
        self._queue: list[tuple[float, LabelRule]] = []
        self._rules_with = _Index(self.rules)
        self._refresh_data_bits(np.ones(len(corpus), dtype=np.bool_))
        self._propose(list(self.rules))

    @property
    def grammar_bits(self) -> float:
        """Bits to write the rules down."""
        return sum(self.rules.values())

    def moves(self) -> Iterator[Move]:
        """Make one step after the other until none saves enough."""
        while (best := self._best()) is not None:
            move = self._completed(best)
            self.make(move)
            yield move

    def make(self, move: Move) -> None:
        """Change the grammar as `move` says, and everything that depends on it."""
        self._put_on_bench(move.added)
        self._bench.switch(move.added, move.removed)
        for rule in move.removed:
            self._forget(rule)
        self.rules[move.added] = label_bits(move.added, self.settings)
        self._rules_with.add(move.added)
        self._candidates.pop(move.added, None)
        touched = self.corpus.touched_by(move.added)
        self._touches.append(touched)
        self._refresh_data_bits(touched)
        self._propose(self._rules_with.all_of(move.added))

    def _best(self) -> Candidate | None:
        """The candidate that saves most, or None if none saves more than the least gain asked for."""
        while True:
            while self._queue:
                negative, rule = self._queue[0]
                candidate = self._candidates.get(rule)
                if candidate is None or candidate.saving != -negative:
                    heapq.heappop(self._queue)
                elif not self._is_up_to_date(candidate):
                    self._look_at(candidate)
                elif candidate.saving > self.settings.minimum_gain:
                    return candidate
                else:
                    break
            if not self._look_at_the_rest():
                return None

    def _look_at_the_rest(self) -> bool:
        """Look at every candidate whose rank is out of date and that might save bits; whether one does."""
        promising = False
        for candidate in list(self._candidates.values()):
            if not self._is_up_to_date(candidate):
                most = candidate.grammar_bits + float(self.data_bits[self._touched(candidate)].sum())
                if most > self.settings.minimum_gain:
                    self._look_at(candidate)
                    promising |= candidate.saving > self.settings.minimum_gain
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
            candidate.touched = self.corpus.touched_by(candidate.rule)
        return candidate.touched

    def _look_at(self, candidate: Candidate) -> None:
        """Work out what the candidate saves in the data term, and queue it anew."""
        self._put_on_bench(candidate.rule)
        candidate.data_bits = self._saved_data_bits(candidate, candidate.replaces)
        candidate.seen_at = len(self._touches)
        self._enqueue(candidate)

    def _put_on_bench(self, rule: LabelRule) -> None:
        """See to it that the rule can be switched on, and those that are likely to be looked at next."""
        if rule not in self._bench:
            ahead = [rule for _, rule in heapq.nsmallest(AHEAD, self._queue) if rule in self._candidates]
            self._bench = Bench(self.rules, [rule, *ahead])

    def _saved_data_bits(self, candidate: Candidate, removed: Iterable[LabelRule]) -> float:
        examples = self._sample(candidate)
        grammar = self._bench.switched(candidate.rule, removed)
        after = data_bits(grammar, *self.corpus.selected(examples))
        return float(self.data_bits[examples].sum() - after.sum())

    def _sample(self, candidate: Candidate) -> NDArray[np.int64]:
        """The examples on which a candidate's data term is worked out: those it touches, or some of them."""
        examples, most = np.flatnonzero(self._touched(candidate)), self.settings.sample
        if most is None or len(examples) <= most:
            return examples
        rng = random.Random(f"{self.settings.seed} {candidate.rule}")
        return np.array(sorted(rng.sample(examples.tolist(), most)))

    def _completed(self, candidate: Candidate) -> Move:
        """The step that takes the candidate; rules that the others now derive go as well if that saves bits."""
        removed = dict(candidate.replaces)
        self._put_on_bench(candidate.rule)
        around = [rule for rule in self._rules_with.all_of(candidate.rule) if rule not in removed]
        also = {rule: self.rules[rule] for rule in superfluous(around, self._bench.switched(candidate.rule, removed))}
        if also:
            saved = self._saved_data_bits(candidate, [*removed, *also])
            if saved + sum(also.values()) >= candidate.data_bits:
                return self._move(candidate, {**removed, **also}, saved)
        return self._move(candidate, removed, candidate.data_bits)

    def _move(self, candidate: Candidate, removed: dict[LabelRule, float], saved: float) -> Move:
        return Move(candidate.rule, tuple(sorted(removed)), sum(removed.values()) - candidate.bits, saved)

    def _refresh_data_bits(self, touched: Mask) -> None:
        examples = np.flatnonzero(touched)
        self.data_bits[examples] = data_bits(self._bench.arrays, *self.corpus.selected(examples))

    def _propose(self, rules: Sequence[LabelRule]) -> None:
        """Find the candidates of rules that are new, or whose surroundings have changed."""
        for rule, found in zip(rules, candidates(rules, self._bench.arrays, self.splits), strict=True):
            known = self._proposed_for.setdefault(rule, set())
            for proposed in sorted(found - known):
                if proposed not in self.rules:
                    self._candidate(proposed).replaces[rule] = self.rules[rule]
                    self._renew(self._candidates[proposed])
            known |= found

    def _candidate(self, rule: LabelRule) -> Candidate:
        if rule not in self._candidates:
            self._candidates[rule] = Candidate(rule, label_bits(rule, self.settings))
        return self._candidates[rule]

    def _forget(self, rule: LabelRule) -> None:
        """Take a rule out of the grammar and out of what its candidates replace."""
        del self.rules[rule]
        self._rules_with.remove(rule)
        for proposed in sorted(self._proposed_for.pop(rule)):
            candidate = self._candidates.get(proposed)
            if candidate is None:
                continue
            candidate.replaces.pop(rule, None)
            if candidate.replaces:
                self._renew(candidate)
            else:
                del self._candidates[proposed]

    def _renew(self, candidate: Candidate) -> None:
        """What the candidate replaces has changed."""
        candidate.seen_at = None
        self._enqueue(candidate)

    def _enqueue(self, candidate: Candidate) -> None:
        heapq.heappush(self._queue, (-candidate.saving, candidate.rule))


class _Index:
    """Rules by the terminals on either side."""

    def __init__(self, rules: Iterable[LabelRule]) -> None:
        self._sides: tuple[defaultdict[int, set[LabelRule]], ...] = (defaultdict(set), defaultdict(set))
        self._all: set[LabelRule] = set()
        for rule in rules:
            self.add(rule)

    def add(self, rule: LabelRule) -> None:
        self._all.add(rule)
        for index, side in zip(self._sides, rule, strict=True):
            for label in side:
                index[label].add(rule)

    def remove(self, rule: LabelRule) -> None:
        self._all.discard(rule)
        for index, side in zip(self._sides, rule, strict=True):
            for label in side:
                index[label].discard(rule)

    def all_of(self, rule: LabelRule) -> list[LabelRule]:
        """The rules that hold all of the terminals of `rule`, on both sides: those that it could help to derive."""
        holders = [index[label] for index, side in zip(self._sides, rule, strict=True) for label in side if label >= 0]
        return sorted(set.intersection(*sorted(holders, key=len)) if holders else self._all)
