"""The greedy search of appendix A.2: add the rule that saves most bits, remove what it replaces.

After every step the rules derive every example, so the grammar is valid at any time.

Three things go beyond the paper. *Factoring*: NEW proposes a rule only where the grammar derives
its counterpart; once no such candidate is left, rules are also split into two that are both new,
which pays where several rules share one of the two. *Pruning*: a rule that no example needs any
more is removed, if that saves bits, even if no other rules derive it. *Returning* is backtracking:
each rule is removed on trial, and the examples that need it are searched again.

What a search does next depends on its rules, its phase and the settings alone, never on the steps
that led there.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

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
from nqg.induction.work import CHART_UNITS, MATCH_UNITS, RULE_UNITS, WorkMeter

# How many candidates are encoded together: at least AHEAD, or one for AHEAD_SHARE rules. They trade
# the time of building tries for that of larger ones.
AHEAD, AHEAD_SHARE = 8, 16
# A bound of work: so many examples, the shortest ones, become rules again when a rule is removed on
# trial.
MAX_REINSERTED = 100
# So many examples tell, in most cases, that a rule is needed: in trials on GeoQuery, 94 of 100.
FIRST_LOOK = 32
# A logarithm that rounding cannot bring to log 1 or log 2.
BETWEEN_ONE_AND_TWO = np.log(1.5)


@dataclass(frozen=True, slots=True)
class Replacement:
    """The bits that a candidate saves by replacing a rule, less those of a companion.

    A candidate g of SPLIT(f) = (g, h) has h for a companion where the grammar does not derive h.
    """

    bits: float
    companion: LabelRule | None = None


@dataclass(slots=True)
class DataTerm:
    """The data bits that examples would have with a candidate in the grammar."""

    examples: Int64Array  # the numbers of those on which the candidate is judged
    is_current: Mask
    data_bits: FloatArray
    # How many examples each of them stands for, where they are a sample.
    scale: float = 1.0

    def forget(self, examples: Mask) -> bool:
        """Forget examples whose derivations have changed, and tell whether there were any."""
        changed = examples[self.examples]
        self.is_current &= ~changed
        return bool(np.any(changed))


@dataclass(slots=True)
class Candidate:
    """A rule that could be added, the rules that could go then (ELIM), and what that saves.

    `data_bits` are saved in the data term, or None where they have yet to be computed.
    """

    rule: LabelRule
    grammar_bits: float
    replaces: dict[LabelRule, Replacement] = field(default_factory=dict)
    data_bits: float | None = None
    outcome: DataTerm | None = None

    @property
    def added(self) -> tuple[LabelRule, ...]:
        """The candidate and its companions, each once, however many rules share it."""
        companions: set[LabelRule] = set()
        for replacement in self.replaces.values():
            if replacement.companion is not None:
                companions.add(replacement.companion)
        return (self.rule, *sorted(companions - {self.rule}))


class Agenda:
    """All candidates that are not in the grammar, best first; equal ones in order of their labels.

    A candidate counts for what it saves in the grammar, less what it costs in the data. A gain in
    the data does not count, so what the grammar saves is a bound, and the data term is needed only
    for candidates that come to the front: the first one that has it is the best of all.

    The queue holds a stale entry for each change of a candidate; `first` drops them.
    """

    def __init__(
        self,
        grammar: Container[LabelRule],
        settings: InductionSettings,
        data_weight: float,
    ) -> None:
        self._grammar, self._settings, self._data_weight = (
            grammar,
            settings,
            data_weight,
        )
        self._candidates: dict[LabelRule, Candidate] = {}
        self._evaluated: dict[LabelRule, Candidate] = {}
        self._proposed_for: defaultdict[LabelRule, set[LabelRule]] = defaultdict(set)
        self._queue: list[tuple[float, LabelRule]] = []

    def propose(
        self, rule: LabelRule, replaced: LabelRule, replacement: Replacement
    ) -> None:
        """Let `rule` be a candidate that replaces `replaced`; the replacement of more bits wins."""
        # A new candidate begins with its own cost, and gains with each replaced rule.
        candidate = self._candidates.get(rule)
        if candidate is None:
            candidate = self._candidates[rule] = Candidate(
                rule, -label_bits(rule, self._settings)
            )
        before = candidate.replaces.get(replaced, Replacement(0.0))
        if replaced in candidate.replaces and before.bits >= replacement.bits:
            return
        candidate.grammar_bits += replacement.bits - before.bits
        candidate.replaces[replaced] = replacement
        self._proposed_for[replaced].add(rule)
        self._renew(candidate)

    def withdraw(self, replaced: LabelRule) -> None:
        """Let no candidate replace a rule that left the grammar; it may be a candidate again."""
        for proposed in sorted(self._proposed_for.pop(replaced, ())):
            candidate = self._candidates[proposed]
            candidate.grammar_bits -= candidate.replaces.pop(replaced).bits
            if candidate.replaces:
                self._renew(candidate)
            else:
                del self._candidates[proposed]
                self._evaluated.pop(proposed, None)
        if replaced in self._candidates:
            self._enqueue(self._candidates[replaced])

    def record_data_term(self, candidate: Candidate, data_bits: float) -> None:
        """Rank a candidate by what it saves in the data term, too."""
        candidate.data_bits = data_bits
        self._evaluated[candidate.rule] = candidate
        self._enqueue(candidate)

    def invalidate(self, examples: Mask) -> None:
        """Drop the data terms that depend on examples whose derivations have changed."""
        for candidate in self._evaluated.values():
            if candidate.outcome is not None and candidate.outcome.forget(examples):
                candidate.data_bits = None
                self._enqueue(candidate)

    def redraw(self) -> None:
        """Drop all data terms, so that each candidate is judged on a new sample."""
        for candidate in self._evaluated.values():
            candidate.outcome = candidate.data_bits = None
            self._enqueue(candidate)
        self._evaluated.clear()

    def first(self) -> Candidate | None:
        """The best candidate as far as is known, or None if none saves more than the least gain."""
        while self._queue and -self._queue[0][0] > self._settings.least_gain:
            negative, rule = self._queue[0]
            candidate = self._candidates.get(rule)
            is_open = candidate is not None and rule not in self._grammar
            if (
                candidate is not None
                and is_open
                and self.saving(candidate) == -negative
            ):
                return candidate
            heapq.heappop(self._queue)
        return None

    def top(self, count: int) -> list[Candidate]:
        """About `count` of the first candidates: those that lie near the top of the heap."""
        ranked = sorted(self._queue[: 4 * count])[:count]
        return [
            self._candidates[rule] for _, rule in ranked if rule in self._candidates
        ]

    def saving(self, candidate: Candidate) -> float:
        return candidate.grammar_bits + self._data_weight * min(
            0.0, candidate.data_bits or 0.0
        )

    def _renew(self, candidate: Candidate) -> None:
        candidate.data_bits = candidate.outcome = None
        self._evaluated.pop(candidate.rule, None)
        self._enqueue(candidate)

    def _enqueue(self, candidate: Candidate) -> None:
        saving = self.saving(candidate)
        if saving > self._settings.least_gain:
            heapq.heappush(self._queue, (-saving, candidate.rule))


class CandidateGrammar:
    """Arrays of rules in force and of rules on trial: a trie is slow to build, a switch is not."""

    def __init__(
        self, rules: Iterable[LabelRule], tried: Iterable[LabelRule] = ()
    ) -> None:
        in_force = list(rules)
        encoded = list(dict.fromkeys([*in_force, *tried]))
        self._numbers = {rule: number for number, rule in enumerate(encoded)}
        self.arrays = grammar_arrays(
            [rule.source for rule in encoded], [rule.target for rule in encoded]
        )
        self.arrays.active[len(in_force) :] = False

    def __contains__(self, rule: LabelRule) -> bool:
        return rule in self._numbers

    def switch(self, added: Iterable[LabelRule], removed: Iterable[LabelRule]) -> None:
        self.arrays = self.switched(added, removed)

    def switched(
        self, added: Iterable[LabelRule], removed: Iterable[LabelRule]
    ) -> GrammarArrays:
        """The arrays with some rules put in force, and others out of force."""
        active = self.arrays.active.copy()
        active[[self._numbers[rule] for rule in added]] = True
        active[[self._numbers[rule] for rule in removed]] = False
        return self.arrays._replace(active=active)


def derivable_rules(
    rules: Sequence[LabelRule], grammar: GrammarArrays, meter: WorkMeter | None = None
) -> list[LabelRule]:
    """Of `rules`, all in force, those that the others derive too: they have a second derivation.

    All of them can go at once. A derivation of a rule's sides uses shorter rules, or one that is as
    long but has non-terminals where the rule has words, so no two rules can each need the other.
    """
    full = encoded_charts(grammar, Ragged.of(rule.leaf_source() for rule in rules))
    if meter is not None:
        meter.add(CHART_UNITS + full.hyperedges)
    goal = encoded_goals(grammar, full, Ragged.of(rule.leaf_target() for rule in rules))
    counts = log_derivation_counts(goal)
    return [rule for rule, count in zip(rules, counts) if count > BETWEEN_ONE_AND_TWO]


class RuleIndex:
    """Answers which rules another rule could help to derive.

    The rules that have a label on a side are indexed by the number of the side and the label.
    """

    def __init__(self, rules: Iterable[LabelRule]) -> None:
        self._holders: defaultdict[tuple[int, int], set[LabelRule]] = defaultdict(set)
        self._all: set[LabelRule] = set()
        for rule in rules:
            self.add(rule)

    def add(self, rule: LabelRule) -> None:
        self._all.add(rule)
        for key in _side_labels(rule):
            self._holders[key].add(rule)

    def remove(self, rule: LabelRule) -> None:
        self._all.discard(rule)
        for key in _side_labels(rule):
            self._holders[key].discard(rule)

    def around(self, rules: Iterable[LabelRule]) -> list[LabelRule]:
        """The rules that hold, on both sides, all of the terminals of one of `rules`."""
        around: set[LabelRule] = set()
        for rule in rules:
            holders = [
                self._holders[side, label]
                for side, label in _side_labels(rule)
                if label >= 0
            ]
            around |= set.intersection(*sorted([*holders, self._all], key=len))
        return sorted(around)

    def joins(self, rule: LabelRule) -> bool:
        """Whether a rule with non-terminals has the words of `rule`.

        If so, new sentences can have these words without `rule`.
        """
        holders = set.intersection(*(self._holders[0, label] for label in rule.source))
        return any(holder.arity for holder in holders)


def _side_labels(rule: LabelRule) -> Iterator[tuple[int, int]]:
    for side, labels in enumerate(rule):
        for label in labels:
            yield side, label


class Phase(StrEnum):
    """What kind of step is made."""

    SPLITTING = "splitting"
    FACTORING = "factoring"
    PRUNING = "pruning"
    RETURNING = "returning"
    # Between two searches: more examples are searched, and targets get back their common affix.
    SAMPLING = "sampling"
    FRAMING = "framing"


@dataclass(frozen=True, slots=True)
class Move:
    """Rules added, rules removed, and the bits that this saves."""

    phase: Phase
    added: tuple[LabelRule, ...]
    removed: tuple[LabelRule, ...]
    grammar_bits: float
    data_bits: float


class Search:
    """A grammar that becomes smaller step by step.

    `rules` are the rules with their bits, `data_bits` those of each example. The `lexicon` has the
    lexical rules, and whether pruning leaves them in any case. `evaluations` counts how often
    grammars were charted; the `meter` counts all work, and stops the search at its limit: a
    `SearchStopped` leaves valid rules behind.
    """

    def __init__(
        self,
        corpus: EncodedExamples,
        rules: Iterable[LabelRule],
        settings: InductionSettings,
        splits: SplitSettings,
        lexicon: Mapping[LabelRule, bool],
        proposals: ProposalCache | None = None,
        meter: WorkMeter | None = None,
    ) -> None:
        self.meter = meter or WorkMeter()
        self.corpus, self.settings, self.splits, self.lexicon = (
            corpus,
            settings,
            splits,
            lexicon,
        )
        self._proposals: ProposalCache = {} if proposals is None else proposals
        self.rules = {rule: label_bits(rule, settings) for rule in rules}
        self._index = RuleIndex(self.rules)
        self._agenda = Agenda(self.rules, settings, settings.data_weight)
        self._grammar = CandidateGrammar(self.rules)
        self.evaluations = 0
        self.data_bits = self._data_bits(np.arange(len(corpus)))

    @property
    def grammar_bits(self) -> float:
        return sum(self.rules.values())

    def moves(self) -> Iterator[Move]:
        """Make one step after the other until none saves enough."""
        # Pruning may open the door to new splits.
        has_changed = True
        while has_changed:
            yield from self._splitting_moves(list(self.rules))
            if self.settings.factoring:
                yield from self._splitting_moves(list(self.rules), Phase.FACTORING)
            has_changed = False
            for move in self._pruning_moves():
                has_changed = True
                yield move
        has_changed = self.settings.returning
        while has_changed:
            has_changed = False
            for move in self._returning_moves():
                has_changed = True
                yield move

    def apply(self, move: Move) -> None:
        self._encode(move.added)
        self._grammar.switch(move.added, move.removed)
        for rule in move.removed:
            del self.rules[rule]
            self._index.remove(rule)
        for rule in move.added:
            self.rules[rule] = label_bits(rule, self.settings)
            self._index.add(rule)
        touched = self._touched((*move.added, *move.removed))
        self.data_bits[touched] = self._data_bits(touched)

    def _splitting_moves(
        self, rules: Sequence[LabelRule], phase: Phase = Phase.SPLITTING
    ) -> Iterator[Move]:
        """Take the best candidate of `rules`, and of all rules around it, until none
        saves enough.
        """
        # Factoring draws on a pool of splits, and weighs data bits in full.
        pool, weight = None, self.settings.data_weight
        if phase is Phase.FACTORING:
            pool, weight = (
                SplitPool(
                    self.splits, self._side_bits, self.settings.least_gain, self.meter
                ),
                1.0,
            )
        self._agenda = Agenda(self.rules, self.settings, weight)
        self._propose(rules, pool)
        while True:
            candidate = self._best(pool)
            if candidate is None:
                return
            # Without a data term a candidate ranks by a bound: compute it and go on.
            self.meter.check()
            if candidate.data_bits is None:
                self._agenda.record_data_term(
                    candidate, self._saved_data_bits(candidate)
                )
                continue
            move = self._take(candidate, phase)
            # What the move has touched is no longer up to date on the agenda.
            for rule in move.removed:
                self._agenda.withdraw(rule)
                if pool:
                    pool.remove(rule)
            if self.settings.sample is None:
                touched = self._touched_mask((*move.added, *move.removed))
                self._agenda.invalidate(touched)
            else:
                self._agenda.redraw()
            # The move is made, so it is reported before the search may stop.
            yield move
            self._propose(self._index.around(move.added), pool)

    def _propose(self, rules: Sequence[LabelRule], pool: SplitPool | None) -> None:
        """Put the candidates of rules on the agenda that are new, or whose surroundings changed.

        When factoring, also the best factors of all splits, each with the other as companion.
        """
        self.evaluations += 1
        proposals = candidates(
            rules, self._grammar.arrays, self.splits, self._proposals, self.meter
        )
        for rule, proposed in zip(rules, proposals):
            for candidate in sorted(proposed):
                self._agenda.propose(candidate, rule, Replacement(self.rules[rule]))
            # Splits that have a proposed rule for a factor are released in any case.
            if pool:
                pool.add(rule)
                pool.release(proposed)
        if pool:
            for factor, companion, rule in pool.released():
                bits = self.rules[rule] - label_bits(companion, self.settings)
                self._agenda.propose(factor, rule, Replacement(bits, companion))

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

    def _touched(self, rules: Iterable[LabelRule]) -> Int64Array:
        """The numbers of the examples in whose derivations the rules could take part."""
        return np.flatnonzero(self._touched_mask(rules))

    def _touched_mask(self, rules: Iterable[LabelRule]) -> Mask:
        self.meter.add(MATCH_UNITS * len(self.corpus))
        return self.corpus.touched_by(rules)

    def _saved_data_bits(self, candidate: Candidate) -> float:
        """What a candidate saves in the data term; only examples that changed are charted again."""
        if candidate.outcome is None:
            examples, scale = self.judging_examples(candidate)
            size = len(examples)
            candidate.outcome = DataTerm(
                examples, np.zeros(size, np.bool_), np.zeros(size), scale
            )
        # Chart only the examples whose data bits are missing or out of date.
        outcome = candidate.outcome
        missing = ~outcome.is_current
        self._encode(candidate.added)
        outcome.data_bits[missing] = self._data_bits(
            outcome.examples[missing], candidate.added, candidate.replaces
        )
        outcome.is_current |= missing
        return outcome.scale * float(
            self.data_bits[outcome.examples].sum() - outcome.data_bits.sum()
        )

    def judging_examples(self, candidate: Candidate) -> tuple[Int64Array, float]:
        """The examples on which a candidate is judged, and how many each stands for.

        With `settings.sample`, they are drawn among all that the candidate touches.
        """
        touched, most = self._touched(candidate.added), self.settings.sample
        if most is None or len(touched) <= most:
            return touched, 1.0
        # The seed names the grammar and the candidate: each step draws anew, and neither the order
        # of trials nor the steps before matter.
        grammar = f"{len(self.rules)} {self.grammar_bits}"
        rng = random.Random(f"{self.settings.seed} {grammar} {candidate.rule}")
        drawn = np.array(rng.sample(touched.tolist(), most), dtype=np.int64)
        return np.sort(drawn), len(touched) / most

    def _data_bits(
        self,
        examples: Int64Array,
        added: Iterable[LabelRule] = (),
        removed: Iterable[LabelRule] = (),
    ) -> FloatArray:
        """The data bits of some examples if the grammar were changed."""
        self.evaluations += 1
        chosen = self.corpus.select(examples)
        return data_bits(
            self._grammar.switched(added, removed),
            chosen.sources,
            chosen.targets,
            self.meter,
        )

    def _encode(self, rules: Sequence[LabelRule]) -> None:
        """Encode rules that are not yet, and those that are likely to be looked at next."""
        if all(rule in self._grammar for rule in rules):
            return
        tried = list(rules)
        for candidate in self._agenda.top(max(AHEAD, len(self.rules) // AHEAD_SHARE)):
            tried += candidate.added
        self.meter.add(RULE_UNITS * (len(self.rules) + len(tried)))
        self._grammar = CandidateGrammar(self.rules, tried)

    def _take(self, candidate: Candidate, phase: Phase) -> Move:
        """Add a candidate; rules that the others now derive go as well if that saves bits."""
        assert candidate.outcome is not None, "the best candidate has a data term"
        assert candidate.data_bits is not None, "the best candidate has a data term"
        examples = candidate.outcome.examples
        added, removed, saved = (
            candidate.added,
            list(candidate.replaces),
            candidate.data_bits,
        )
        # Only rules that hold the terminals of an added one can be derivable now.
        around = [
            rule for rule in self._index.around(added) if rule not in candidate.replaces
        ]
        self._encode(added)
        changed = self._grammar.switched(added, removed)
        also = derivable_rules(around, changed, self.meter)
        if also:
            if self.settings.sample is None:
                # Those rules may touch examples that the candidate does not.
                examples = np.union1d(examples, self._touched(also))
            after = self._data_bits(examples, added, [*removed, *also])
            saved_with = candidate.outcome.scale * float(
                self.data_bits[examples].sum() - after.sum()
            )
            if saved_with + self._rule_bits(also) >= saved:
                removed, saved = [*removed, *also], saved_with
        bits = self._rule_bits(removed)
        bits -= sum(label_bits(rule, self.settings) for rule in added)
        move = Move(phase, added, tuple(sorted(removed)), bits, saved)
        self.apply(move)
        return move

    def _pruning_moves(self) -> Iterator[Move]:
        """Remove one rule after the other that no example needs, the one that saves most first."""
        savings = self._removable(self.rules) if self.settings.pruning else {}
        while savings:
            saving, rule = max(
                (self.rules[rule] + bits, rule) for rule, bits in savings.items()
            )
            if saving <= self.settings.least_gain:
                return
            move = Move(Phase.PRUNING, (), (rule,), self.rules[rule], savings.pop(rule))
            self.apply(move)
            # A removal changes what others save only where they touch its examples.
            yield move
            touched = self._touched_mask([rule])
            stale = [
                left for left in savings if np.any(self._touched_mask([left]) & touched)
            ]
            for left in stale:
                del savings[left]
            savings |= self._removable(stale)

    def _removable(self, rules: Iterable[LabelRule]) -> dict[LabelRule, float]:
        """The rules that no example needs, and the bits that each saves in the data term."""
        savings: dict[LabelRule, float] = {}
        for rule in rules:
            self.meter.check()
            # Pruning spares cognates, and words that no rule with non-terminals holds.
            if rule in self.lexicon and (
                self.lexicon[rule] or not self._index.joins(rule)
            ):
                continue
            examples = self._touched([rule])
            # Rules that are needed mostly show it early, so the rest is charted later.
            after = self._data_bits(examples[:FIRST_LOOK], (), [rule])
            if np.all(np.isfinite(after)):
                after = np.append(
                    after, self._data_bits(examples[FIRST_LOOK:], (), [rule])
                )
                if np.all(np.isfinite(after)):
                    savings[rule] = float(self.data_bits[examples].sum() - after.sum())
        return savings

    def spared_bits(self) -> float:
        """What lexical rules cost that pruning leaves although no example needs them."""
        spared: list[LabelRule] = []
        for rule in sorted(self.lexicon.keys() & self.rules.keys()):
            if np.all(
                np.isfinite(self._data_bits(self._touched([rule]), (), [*spared, rule]))
            ):
                spared.append(rule)
        return self._rule_bits(spared)

    def _rule_bits(self, rules: Iterable[LabelRule]) -> float:
        return sum(self.rules[rule] for rule in rules)

    def _returning_moves(self) -> Iterator[Move]:
        """Remove one rule after the other where that leads to a shorter description.

        A step that once paid may stand in the way of a better one, since only what is not derived
        makes proposals.
        """
        bits = self._total_bits()
        for rule in sorted(self.rules):
            self.meter.check()
            # A move for an earlier rule may have removed this one.
            if rule not in self.rules:
                continue
            search = self._remove_and_research(rule)
            if search is None:
                continue
            # Where the rules alone take too many bits, the data term is left out.
            after = search._total_bits(bits)
            if after >= bits - self.settings.least_gain:
                continue
            added = sorted(search.rules.keys() - self.rules)
            removed = sorted(self.rules.keys() - search.rules - {rule})
            move = Move(
                Phase.RETURNING,
                tuple(added),
                (rule, *removed),
                self.grammar_bits - search.grammar_bits,
                float(self.data_bits.sum() - search.data_bits.sum()),
            )
            self.apply(move)
            bits = after
            yield move

    def _remove_and_research(self, rule: LabelRule) -> Search | None:
        """What a search finds that begins without `rule`, but with rules for examples that need it.

        None where there is nothing to find: one example alone needs the rule, or what replaces it
        leaves others out.
        """
        # Lexical rules and identity rules are never removed on trial.
        if rule in self.lexicon or rule.source == rule.target:
            return None
        touched = self._touched([rule])
        lost = touched[~np.isfinite(self._data_bits(touched, (), [rule]))]
        if len(lost) == 1:
            return None
        begin = partial(
            Search,
            settings=self.settings.changed(returning=False),
            splits=replace(self.splits, tabu=rule),
            lexicon=self.lexicon,
            proposals=self._proposals,
            meter=self.meter,
        )
        # Search with some of the lost examples; the others are left out at first.
        reinserted = [self.corpus.pair(number) for number in lost[:MAX_REINSERTED]]
        numbers = np.setdiff1d(np.arange(len(self.corpus)), lost[MAX_REINSERTED:])
        rules = dict.fromkeys(self.rules)
        del rules[rule]
        rules |= dict.fromkeys(reinserted)
        search = begin(self.corpus.select(numbers), rules)
        for _ in search._splitting_moves(reinserted):
            pass
        self.evaluations += search.evaluations
        if len(lost) > MAX_REINSERTED:
            search = begin(self.corpus, search.rules)
            self.evaluations += search.evaluations
        # The rule may be an example itself, and come back as one.
        if rule in search.rules or not np.all(np.isfinite(search.data_bits)):
            return None
        return search

    def _total_bits(self, most: float = math.inf) -> float:
        """The objective; where the rules alone take more than `most`, only their bits."""
        if self.grammar_bits >= most:
            return self.grammar_bits
        bits = self.data_bits
        if self.settings.fitted:
            bits = fitted_data_bits(
                self._grammar.arrays, self.corpus.sources, self.corpus.targets
            )
        return self.grammar_bits + float(bits.sum())
