"""The greedy search of appendix A.2: add the rule that saves most bits, remove what it makes superfluous, repeat.

After every step the rules derive every example, so the grammar is valid at any time.

Two things go beyond the paper. *Factoring*: NEW proposes a rule only where the grammar derives its counterpart; when
that has run dry, rules are also split into two that are both new, which pays where several rules share one of the two.
*Pruning*: a rule that no example needs any more is removed, if that saves bits, even if no other rules derive it.

What a search does next depends on its rules, its phase and the settings alone, never on how it came there.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from nqg.grammar.arrays import FloatArray
from nqg.grammar.chart import EncodedBatch, encoded_charts, encoded_goals
from nqg.grammar.encoding import GrammarArrays, firsts_of, flat, grammar_arrays
from nqg.grammar.semirings import log_derivation_counts
from nqg.induction.agenda import Agenda, Candidate, DataTerm, Replacement
from nqg.induction.candidates import SplitSettings, all_splits, candidates
from nqg.induction.corpus import EncodedExamples, Mask
from nqg.induction.description_length import LabelRule, data_bits, label_bits
from nqg.induction.settings import InductionSettings

AHEAD, AHEAD_SHARE = 8, 16  # candidates encoded together: at least so many, or one for so many rules
FIRST_LOOK = 32  # examples that tell, in most cases, that a rule is needed
AT_LEAST_TWO = np.log(1.5)  # a logarithm of a number of derivations that rounding cannot bring to either side


class CandidateGrammar:
    """Arrays of the rules that are in force and of others that are only tried: building a trie costs, switching not."""

    def __init__(self, rules: Iterable[LabelRule], tried: Iterable[LabelRule] = ()) -> None:
        in_force = list(rules)
        self._numbers = {rule: number for number, rule in enumerate(dict.fromkeys([*in_force, *tried]))}
        everything = list(self._numbers)
        self.arrays = grammar_arrays([rule.source for rule in everything], [rule.target for rule in everything])
        self.arrays.active[len(in_force) :] = False

    def __contains__(self, rule: LabelRule) -> bool:
        return rule in self._numbers

    def switch(self, added: Iterable[LabelRule], removed: Iterable[LabelRule]) -> None:
        """Put rules in force, and others out of force."""
        self.arrays = self.switched(added, removed)

    def switched(self, added: Iterable[LabelRule], removed: Iterable[LabelRule]) -> GrammarArrays:
        """The arrays as `switch` would leave them."""
        active = self.arrays.active.copy()
        active[[self._numbers[rule] for rule in added]] = True
        active[[self._numbers[rule] for rule in removed]] = False
        return self.arrays._replace(active=active)


def superfluous(rules: Sequence[LabelRule], grammar: GrammarArrays) -> list[LabelRule]:
    """Of `rules`, all in force, those that the others derive too: their sides have a second derivation.

    All of them can go at once. A derivation of a rule's sides uses shorter rules, or one that is as long but has
    non-terminals where the rule has words, so no two rules can each need the other.
    """
    sources, targets = [rule.leaf_source() for rule in rules], [rule.leaf_target() for rule in rules]
    full = encoded_charts(grammar, EncodedBatch(firsts_of(sources), flat(sources)))
    goal = encoded_goals(grammar, full, EncodedBatch(firsts_of(targets), flat(targets)))
    counts = log_derivation_counts(goal)
    return [rule for rule, count in zip(rules, counts, strict=True) if count > AT_LEAST_TWO]


class RuleIndex:
    """Answers which rules another rule could help to derive."""

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

    def around(self, rules: Iterable[LabelRule]) -> list[LabelRule]:
        """The rules that hold, on both sides, all of the terminals of one of `rules`."""
        found: set[LabelRule] = set()
        for rule in rules:
            sides = zip(self._sides, rule, strict=True)
            holders = [index[label] for index, side in sides for label in side if label >= 0]
            found |= set.intersection(*sorted(holders, key=len)) if holders else self._all
        return sorted(found)


class Phase(StrEnum):
    """What kind of steps is made; pruning, where it changed anything, is followed by splitting again."""

    SPLITTING = "splitting"
    FACTORING = "factoring"
    PRUNING = "pruning"
    SAMPLING = "sampling"  # no step of a search, but between two of them: more examples are looked at


NEXT_PHASE = {Phase.SPLITTING: Phase.FACTORING, Phase.FACTORING: Phase.PRUNING, Phase.PRUNING: Phase.SPLITTING}


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
        self, corpus: EncodedExamples, rules: Iterable[LabelRule], settings: InductionSettings, splits: SplitSettings
    ) -> None:
        self.corpus, self.settings, self.splits = corpus, settings, splits
        self.rules: dict[LabelRule, float] = {rule: label_bits(rule, settings) for rule in rules}  # with their bits
        self._grammar = CandidateGrammar(self.rules)
        self._index = RuleIndex(self.rules)
        self._phase, self._has_pruned = Phase.SPLITTING, False
        self._agenda = Agenda(self.rules, settings, settings.data_weight)
        self.data_bits = self._data_bits(np.ones(len(corpus), dtype=np.bool_), (), ())  # per example

    @property
    def grammar_bits(self) -> float:
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
            self._phase, self._has_pruned = NEXT_PHASE[self._phase], False

    def make(self, move: Move) -> None:
        """Change the grammar as `move` says."""
        if move.phase is not self._phase:
            self._phase, self._has_pruned = move.phase, False
        self._has_pruned |= move.phase is Phase.PRUNING
        self._encode(move.added)
        self._grammar.switch(move.added, move.removed)
        for rule in move.removed:
            del self.rules[rule]
            self._index.remove(rule)
        for rule in move.added:
            self.rules[rule] = label_bits(rule, self.settings)
            self._index.add(rule)
        touched = self.corpus.touched_by((*move.added, *move.removed))
        self.data_bits[touched] = self._data_bits(touched, (), ())

    def _splitting_moves(self) -> Iterator[Move]:
        weight = self.settings.data_weight if self._phase is Phase.SPLITTING else 1.0
        self._agenda = Agenda(self.rules, self.settings, weight)
        self._propose(list(self.rules))
        while (candidate := self._agenda.first()) is not None:
            if candidate.data_bits is None:
                self._agenda.settle(candidate, self._saved_data_bits(candidate))
                continue
            move = self._completed(candidate, candidate.data_bits)
            self.make(move)
            for rule in move.removed:
                self._agenda.leave(rule)
            self._agenda.disturb(self.corpus.touched_by((*move.added, *move.removed)))
            self._propose(self._index.around(move.added))
            yield move

    def _propose(self, rules: Sequence[LabelRule]) -> None:
        """Put the candidates of rules on the agenda that are new, or whose surroundings have changed.

        When factoring, also both parts of every split, each with the other as companion.
        """
        for rule, found in zip(rules, candidates(rules, self._grammar.arrays, self.splits), strict=True):
            for proposed in sorted(found):
                self._agenda.propose(proposed, rule, Replacement(self.rules[rule]))
            for pair in all_splits(rule, self.splits) if self._phase is Phase.FACTORING else ():
                for part, companion in (pair, pair[::-1]):
                    bits = self.rules[rule] - label_bits(companion, self.settings)
                    self._agenda.propose(part, rule, Replacement(bits, companion))

    def _saved_data_bits(self, candidate: Candidate) -> float:
        """What the candidate saves in the data term; of examples seen before, only changed ones are counted anew."""
        if candidate.outcome is None:
            examples, most = self.corpus.touched_by(candidate.added), self.settings.sample
            if most is not None and np.count_nonzero(examples) > most:
                rng = random.Random(f"{self.settings.seed} {candidate.rule}")
                sampled = rng.sample(np.flatnonzero(examples).tolist(), most)
                examples[:] = False
                examples[sampled] = True
            candidate.outcome = DataTerm(examples, np.zeros_like(examples), np.zeros(len(self.corpus)))
        outcome = candidate.outcome
        missing = outcome.examples & ~outcome.known
        self._encode(candidate.added)
        outcome.data_bits[missing] = self._data_bits(missing, candidate.added, candidate.replaces)
        outcome.known |= missing
        return float(self.data_bits[outcome.examples].sum() - outcome.data_bits[outcome.examples].sum())

    def _data_bits(self, examples: Mask, added: Iterable[LabelRule], removed: Iterable[LabelRule]) -> FloatArray:
        """The data bits of some examples if the grammar were changed."""
        grammar = self._grammar.switched(added, removed)
        return data_bits(grammar, *self.corpus.select(np.flatnonzero(examples)))

    def _encode(self, rules: Sequence[LabelRule]) -> None:
        """See to it that the rules can be switched on, and those that are likely to be looked at next."""
        if not all(rule in self._grammar for rule in rules):
            foremost = self._agenda.foremost(max(AHEAD, len(self.rules) // AHEAD_SHARE))
            ahead = [rule for candidate in foremost for rule in candidate.added]
            self._grammar = CandidateGrammar(self.rules, [*rules, *ahead])

    def _completed(self, candidate: Candidate, saved: float) -> Move:
        """The step that takes the candidate; rules that the others now derive go as well if that saves bits."""
        assert candidate.outcome is not None, "the data bits of the best candidate are known"
        added, removed = candidate.added, list(candidate.replaces)
        around = [rule for rule in self._index.around(added) if rule not in candidate.replaces]
        self._encode(added)
        also = superfluous(around, self._grammar.switched(added, removed))
        if also:
            examples = candidate.outcome.examples
            if self.settings.sample is None:  # those rules may touch examples that the candidate does not
                examples = examples | self.corpus.touched_by(also)
            after = self._data_bits(examples, added, [*removed, *also])
            saved_with = float(self.data_bits[examples].sum() - after.sum())
            if saved_with + sum(self.rules[rule] for rule in also) >= saved:
                removed, saved = [*removed, *also], saved_with
        bits = sum(self.rules[rule] for rule in removed) - sum(label_bits(rule, self.settings) for rule in added)
        return Move(self._phase, added, tuple(sorted(removed)), bits, saved)

    def _pruning_moves(self) -> Iterator[Move]:
        """Remove one rule after the other that no example needs, the one that saves most first."""
        savings = self._removable(self.rules) if self.settings.pruning else {}
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
