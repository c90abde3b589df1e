"""The greedy search of appendix A.2: add the rule that saves most bits, remove what it makes superfluous, repeat.

After every step the rules derive every example, so the grammar is valid at any time.

Two things go beyond the paper. *Factoring*: NEW proposes a rule only where the grammar derives its counterpart; once
no such candidate is left, rules are also split into two that are both new, which pays where several rules share one of
the two. *Pruning*: a rule that no example needs any more is removed, if that saves bits, even if no other rules derive
it.

What a search does next depends on its rules, its phase and the settings alone, never on how it came there.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from nqg.grammar.arrays import FloatArray, Int64Array
from nqg.grammar.chart import encoded_charts, encoded_goals
from nqg.grammar.encoding import GrammarArrays, grammar_arrays
from nqg.grammar.ragged import Ragged
from nqg.grammar.semirings import log_derivation_counts
from nqg.induction.candidates import ProposalCache, SplitPool, SplitSettings, candidates
from nqg.induction.corpus import EncodedExamples, Mask
from nqg.induction.description_length import LabelRule, Labels, data_bits, label_bits
from nqg.induction.probabilities import fitted_data_bits
from nqg.induction.settings import InductionSettings

AHEAD, AHEAD_SHARE = (
    8,
    16,
)  # candidates encoded together: at least so many, or one for so many rules
MAX_REINSERTED = 100  # examples that come back as rules of their own when a rule is done without, the shortest ones
FIRST_LOOK = 32  # examples that tell, in most cases, that a rule is needed
BETWEEN_ONE_AND_TWO = np.log(1.5)  # of derivations: the logarithm lies between those of 1 and 2


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

    examples: Int64Array  # the numbers of those on which the candidate is judged
    known: Mask
    data_bits: FloatArray

    def forget(self, examples: Mask) -> bool:
        """These examples' derivations have changed; whether that matters here."""
        changed = examples[self.examples]
        self.known &= ~changed
        return bool(np.any(changed))


@dataclass(slots=True)
class Candidate:
    """A rule that could be added, the rules that could go then (ELIM), and what that saves."""

    rule: LabelRule
    grammar_bits: float  # saved in the grammar
    replaces: dict[LabelRule, Replacement] = field(default_factory=dict)
    data_bits: float | None = (
        None  # saved in the data term; None where that has yet to be worked out
    )
    outcome: DataTerm | None = None

    @property
    def added(self) -> tuple[LabelRule, ...]:
        """The candidate and its companions, each once, however many rules share it."""
        companions = {
            each.companion for each in self.replaces.values() if each.companion is not None
        }
        return (self.rule, *sorted(companions - {self.rule}))


class Agenda:
    """All candidates that are not in the grammar, best first; equal ones in the order of their labels.

    A candidate counts for what it saves in the grammar, less what it costs in the data. A gain in the data does not
    count, so what the grammar saves is a bound, and the data term needs to be worked out only for candidates that come
    to the front: the first one for which it is known is the best of all.
    """

    def __init__(
        self, grammar: Container[LabelRule], settings: InductionSettings, data_weight: float
    ) -> None:
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

    def withdraw(self, replaced: LabelRule) -> None:
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

    def record_data_term(self, candidate: Candidate, data_bits: float) -> None:
        """Note what the candidate saves in the data term, and rank it by that."""
        candidate.data_bits = data_bits
        self._worked_out[candidate.rule] = candidate
        self._enqueue(candidate)

    def invalidate(self, examples: Mask) -> None:
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
            if (
                candidate is not None
                and rule not in self._grammar
                and self.saving(candidate) == -negative
            ):
                return candidate
            heapq.heappop(self._queue)
        return None

    def top(self, count: int) -> list[Candidate]:
        """About as many of the first candidates: those that lie near the top of the heap."""
        ranked = (
            self._candidates.get(rule) for _, rule in sorted(self._queue[: 4 * count])[:count]
        )
        return [candidate for candidate in ranked if candidate is not None]

    def saving(self, candidate: Candidate) -> float:
        return candidate.grammar_bits + self._data_weight * min(0.0, candidate.data_bits or 0.0)

    def _renew(self, candidate: Candidate) -> None:
        candidate.data_bits = candidate.outcome = None
        self._worked_out.pop(candidate.rule, None)
        self._enqueue(candidate)

    def _enqueue(self, candidate: Candidate) -> None:
        saving = self.saving(candidate)
        if saving > self._settings.least_gain:
            heapq.heappush(self._queue, (-saving, candidate.rule))


class CandidateGrammar:
    """Arrays of the rules that are in force and of others that are only tried: building a trie costs, switching not."""

    def __init__(self, rules: Iterable[LabelRule], tried: Iterable[LabelRule] = ()) -> None:
        in_force = list(rules)
        self._numbers = {
            rule: number for number, rule in enumerate(dict.fromkeys([*in_force, *tried]))
        }
        everything = list(self._numbers)
        self.arrays = grammar_arrays(
            [rule.source for rule in everything], [rule.target for rule in everything]
        )
        self.arrays.active[len(in_force) :] = False

    def __contains__(self, rule: LabelRule) -> bool:
        return rule in self._numbers

    def switch(self, added: Iterable[LabelRule], removed: Iterable[LabelRule]) -> None:
        self.arrays = self.switched(added, removed)

    def switched(self, added: Iterable[LabelRule], removed: Iterable[LabelRule]) -> GrammarArrays:
        """The arrays with some rules put in force, and others out of force."""
        active = self.arrays.active.copy()
        active[[self._numbers[rule] for rule in added]] = True
        active[[self._numbers[rule] for rule in removed]] = False
        return self.arrays._replace(active=active)


def derivable_rules(rules: Sequence[LabelRule], grammar: GrammarArrays) -> list[LabelRule]:
    """Of `rules`, all in force, those that the others derive too: their sides have a second derivation.

    All of them can go at once. A derivation of a rule's sides uses shorter rules, or one that is as long but has
    non-terminals where the rule has words, so no two rules can each need the other.
    """
    full = encoded_charts(grammar, Ragged.of(rule.leaf_source() for rule in rules))
    goal = encoded_goals(grammar, full, Ragged.of(rule.leaf_target() for rule in rules))
    return [
        rule
        for rule, count in zip(rules, log_derivation_counts(goal), strict=True)
        if count > BETWEEN_ONE_AND_TWO
    ]


class RuleIndex:
    """Answers which rules another rule could help to derive."""

    def __init__(self, rules: Iterable[LabelRule]) -> None:
        self._sides: tuple[defaultdict[int, set[LabelRule]], ...] = (
            defaultdict(set),
            defaultdict(set),
        )
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

    def joins(self, rule: LabelRule) -> bool:
        """Whether a rule with non-terminals has the words of `rule`, so that new sentences can hold them without it."""
        around = set.intersection(*(self._sides[0][label] for label in rule.source))
        return any(other.arity for other in around)


class Phase(StrEnum):
    """What kind of steps is made; where pruning changed anything, splitting begins again, and so does returning."""

    SPLITTING = "splitting"
    FACTORING = "factoring"
    PRUNING = "pruning"
    RETURNING = "returning"  # when no step of the others saves anything
    SAMPLING = (
        "sampling"  # no step of a search, but between two of them: more examples are looked at
    )
    FRAMING = "framing"  # likewise: targets get back what they all begin and end with


NEXT_PHASE = {
    Phase.SPLITTING: Phase.FACTORING,
    Phase.FACTORING: Phase.PRUNING,
    Phase.PRUNING: Phase.RETURNING,
}
AFTER_CHANGES = {Phase.PRUNING: Phase.SPLITTING, Phase.RETURNING: Phase.RETURNING}


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
        self,
        corpus: EncodedExamples,
        rules: Iterable[LabelRule],
        settings: InductionSettings,
        splits: SplitSettings,
        lexicon: Mapping[LabelRule, bool] | None = None,
        proposals: ProposalCache | None = None,
    ) -> None:
        self.corpus, self.settings, self.splits = corpus, settings, splits
        self._proposals = proposals or ProposalCache()
        self.lexicon = (
            lexicon or {}
        )  # lexical rules, and whether they stay although no example needs them
        self.rules: dict[LabelRule, float] = {
            rule: label_bits(rule, settings) for rule in rules
        }  # with their bits
        self._index = RuleIndex(self.rules)
        self._phase, self._has_changed = Phase.SPLITTING, False
        self._agenda = Agenda(self.rules, settings, settings.data_weight)
        self.evaluations = 0  # how often grammars were looked at, which takes most of the time
        self._grammar = CandidateGrammar(self.rules)
        self.data_bits = self._data_bits(np.arange(len(self.corpus)), (), ())  # per example

    @property
    def grammar_bits(self) -> float:
        return sum(self.rules.values())

    def moves(self) -> Iterator[Move]:
        """Make one step after the other until none saves enough."""
        while True:
            if self._phase is Phase.PRUNING:
                yield from self._pruning_moves()
            elif self._phase is Phase.RETURNING:
                yield from self._returning_moves()
            elif self._phase is Phase.SPLITTING or self.settings.factoring:
                yield from self._splitting_moves(list(self.rules))
            if self._phase in AFTER_CHANGES and self._has_changed:
                self._phase = AFTER_CHANGES[self._phase]
            elif self._phase is Phase.RETURNING or (
                self._phase is Phase.PRUNING and not self.settings.returning
            ):
                return
            else:
                self._phase = NEXT_PHASE[self._phase]
            self._has_changed = False

    def make(self, move: Move) -> None:
        self._encode(move.added)
        self._grammar.switch(move.added, move.removed)
        self._has_changed = True
        for rule in move.removed:
            del self.rules[rule]
            self._index.remove(rule)
        for rule in move.added:
            self.rules[rule] = label_bits(rule, self.settings)
            self._index.add(rule)
        touched = np.flatnonzero(self.corpus.touched_by((*move.added, *move.removed)))
        self.data_bits[touched] = self._data_bits(touched, (), ())

    def _splitting_moves(self, rules: Sequence[LabelRule]) -> Iterator[Move]:
        """Take the best candidate of `rules`, and of all that it has to do with, until none saves enough."""
        is_factoring = self._phase is Phase.FACTORING
        self._agenda = Agenda(
            self.rules, self.settings, 1.0 if is_factoring else self.settings.data_weight
        )
        pool = (
            SplitPool(self.splits, self._side_bits, self.settings.least_gain)
            if is_factoring
            else None
        )
        self._propose(rules, pool)
        while (candidate := self._best(pool)) is not None:
            if candidate.data_bits is None:
                self._agenda.record_data_term(candidate, self._saved_data_bits(candidate))
                continue
            move = self._completed(candidate, candidate.data_bits)
            self.make(move)
            for rule in move.removed:
                self._agenda.withdraw(rule)
                if pool:
                    pool.remove(rule)
            self._agenda.invalidate(self.corpus.touched_by((*move.added, *move.removed)))
            self._propose(self._index.around(move.added), pool)
            yield move

    def _propose(self, rules: Sequence[LabelRule], pool: SplitPool | None) -> None:
        """Put the candidates of rules on the agenda that are new, or whose surroundings have changed.

        When factoring, also the best parts of all splits, each with the other one as companion.
        """
        self.evaluations += 1
        proposals = candidates(rules, self._grammar.arrays, self.splits, self._proposals)
        for rule, proposed in zip(rules, proposals, strict=True):
            for candidate in sorted(proposed):
                self._agenda.propose(candidate, rule, Replacement(self.rules[rule]))
            if pool:
                pool.add(rule)
                pool.release(proposed)
        for part, companion, rule in pool.released() if pool else ():
            bits = self.rules[rule] - label_bits(companion, self.settings)
            self._agenda.propose(part, rule, Replacement(bits, companion))

    def _best(self, pool: SplitPool | None) -> Candidate | None:
        """The first candidate of the agenda, once all splits are there that could save as much."""
        while True:
            first = self._agenda.first()
            saving = self._agenda.saving(first) if first else self.settings.least_gain
            if pool is None or pool.threshold <= saving:
                return first
            pool.lower_threshold()
            self._propose((), pool)

    def _side_bits(self, side: Labels) -> float:
        return label_bits(LabelRule(side, ()), self.settings)

    def _saved_data_bits(self, candidate: Candidate) -> float:
        """What the candidate saves in the data term; of examples seen before, only changed ones are counted anew."""
        if candidate.outcome is None:
            examples, most = (
                np.flatnonzero(self.corpus.touched_by(candidate.added)),
                self.settings.sample,
            )
            if most is not None and len(examples) > most:
                rng = random.Random(f"{self.settings.seed} {candidate.rule}")
                examples = np.sort(np.array(rng.sample(examples.tolist(), most), dtype=np.int64))
            candidate.outcome = DataTerm(
                examples, np.zeros(len(examples), np.bool_), np.zeros(len(examples))
            )
        outcome = candidate.outcome
        missing = ~outcome.known
        self._encode(candidate.added)
        outcome.data_bits[missing] = self._data_bits(
            outcome.examples[missing], candidate.added, candidate.replaces
        )
        outcome.known |= missing
        return float(self.data_bits[outcome.examples].sum() - outcome.data_bits.sum())

    def _data_bits(
        self, examples: Int64Array, added: Iterable[LabelRule], removed: Iterable[LabelRule]
    ) -> FloatArray:
        """The data bits of some examples if the grammar were changed."""
        self.evaluations += 1
        chosen = self.corpus.select(examples)
        return data_bits(self._grammar.switched(added, removed), chosen.sources, chosen.targets)

    def _encode(self, rules: Sequence[LabelRule]) -> None:
        """See to it that the rules can be switched on, and those that are likely to be looked at next."""
        if not all(rule in self._grammar for rule in rules):
            foremost = self._agenda.top(max(AHEAD, len(self.rules) // AHEAD_SHARE))
            ahead = [rule for candidate in foremost for rule in candidate.added]
            self._grammar = CandidateGrammar(self.rules, [*rules, *ahead])

    def _completed(self, candidate: Candidate, saved: float) -> Move:
        """The step that takes the candidate; rules that the others now derive go as well if that saves bits."""
        assert candidate.outcome is not None, "the data bits of the best candidate are known"
        added, removed = candidate.added, list(candidate.replaces)
        around = [rule for rule in self._index.around(added) if rule not in candidate.replaces]
        self._encode(added)
        if also := derivable_rules(around, self._grammar.switched(added, removed)):
            examples = candidate.outcome.examples
            if (
                self.settings.sample is None
            ):  # those rules may touch examples that the candidate does not
                examples = np.union1d(examples, np.flatnonzero(self.corpus.touched_by(also)))
            after = self._data_bits(examples, added, [*removed, *also])
            saved_with = float(self.data_bits[examples].sum() - after.sum())
            if saved_with + sum(self.rules[rule] for rule in also) >= saved:
                removed, saved = [*removed, *also], saved_with
        bits = sum(self.rules[rule] for rule in removed) - sum(
            label_bits(rule, self.settings) for rule in added
        )
        return Move(self._phase, added, tuple(sorted(removed)), bits, saved)

    def _pruning_moves(self) -> Iterator[Move]:
        """Remove one rule after the other that no example needs, the one that saves most first."""
        savings = self._removable(self.rules) if self.settings.pruning else {}
        while savings:
            rule, saved = max(
                savings.items(), key=lambda item: (self.rules[item[0]] + item[1], item[0])
            )
            if self.rules[rule] + saved <= self.settings.least_gain:
                return
            move = Move(self._phase, (), (rule,), self.rules[rule], saved)
            self.make(move)
            touched = self.corpus.touched_by([rule])
            del savings[rule]
            stale = [
                other for other in savings if np.any(self.corpus.touched_by([other]) & touched)
            ]
            again = self._removable(stale)
            savings = {other: bits for other, bits in savings.items() if other not in stale} | again
            yield move

    def _removable(self, rules: Iterable[LabelRule]) -> dict[LabelRule, float]:
        """The rules without which every example can still be derived, and the bits that each saves in the data term."""
        found = {}
        for rule in rules:
            if rule in self.lexicon and (self.lexicon[rule] or not self._index.joins(rule)):
                continue
            examples = np.flatnonzero(self.corpus.touched_by([rule]))
            if not np.all(np.isfinite(self._data_bits(examples[:FIRST_LOOK], (), [rule]))):
                continue
            after = self._data_bits(examples, (), [rule])
            if np.all(np.isfinite(after)):
                found[rule] = float(self.data_bits[examples].sum() - after.sum())
        return found

    def spared_bits(self) -> float:
        """What lexical rules cost that pruning leaves although no example needs them."""
        spared: list[LabelRule] = []
        for rule in sorted(self.lexicon.keys() & self.rules.keys()):
            examples = np.flatnonzero(self.corpus.touched_by([rule]))
            if np.all(np.isfinite(self._data_bits(examples, (), [*spared, rule]))):
                spared.append(rule)
        return sum(self.rules[rule] for rule in spared)

    def _returning_moves(self) -> Iterator[Move]:
        """Do without one rule after the other where that leads to a shorter description.

        A step that once paid may stand in the way of a better one, since only what is not derived makes proposals.
        """
        bits = self._total_bits()
        for rule in sorted(self.rules):
            if rule not in self.rules:
                continue
            other = self._remove_and_research(rule)
            if (
                other is None
                or (after := other._total_bits(bits)) >= bits - self.settings.least_gain
            ):
                continue
            added, removed = (
                sorted(other.rules.keys() - self.rules),
                self.rules.keys() - other.rules - {rule},
            )
            saved = (
                self.grammar_bits - other.grammar_bits,
                float(self.data_bits.sum() - other.data_bits.sum()),
            )
            move = Move(Phase.RETURNING, tuple(added), (rule, *sorted(removed)), *saved)
            self.make(move)
            bits = after
            yield move

    def _remove_and_research(self, rule: LabelRule) -> Search | None:
        """What a search finds that begins without `rule`, with the examples that need it as rules of their own.

        None where there is nothing to find: one example alone needs the rule, or what replaces it leaves others out.
        """
        if rule in self.lexicon or rule.source == rule.target:
            return None
        touched = np.flatnonzero(self.corpus.touched_by([rule]))
        lost = touched[~np.isfinite(self._data_bits(touched, (), [rule]))]
        if len(lost) == 1:
            return None
        back = [self.corpus.pair(number) for number in lost[:MAX_REINSERTED]]
        others = self.corpus.select(
            np.setdiff1d(np.arange(len(self.corpus)), lost[MAX_REINSERTED:])
        )
        rules = dict.fromkeys([*(each for each in self.rules if each != rule), *back])
        settings, splits = self.settings.changed(returning=False), replace(self.splits, tabu=rule)
        search = Search(others, rules, settings, splits, self.lexicon, self._proposals)
        for _ in search._splitting_moves(back):
            pass
        self.evaluations += search.evaluations
        if len(lost) > MAX_REINSERTED:
            search = Search(
                self.corpus, search.rules, settings, splits, self.lexicon, self._proposals
            )
            self.evaluations += search.evaluations
        is_found = rule not in search.rules and bool(
            np.all(np.isfinite(search.data_bits))
        )  # it may be an example
        return search if is_found else None

    def _total_bits(self, most: float = math.inf) -> float:
        """The objective; where the rules alone take more than `most`, only their bits."""
        if self.grammar_bits >= most:
            return self.grammar_bits
        if not self.settings.fitted:
            return self.grammar_bits + float(self.data_bits.sum())
        bits = fitted_data_bits(self._grammar.arrays, self.corpus.sources, self.corpus.targets)
        return self.grammar_bits + float(bits.sum())
