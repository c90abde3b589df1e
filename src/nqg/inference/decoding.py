"""Decoding: from the scores of all hyperedges of a sentence to its best readings, their probabilities and figures."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import pairwise

import numpy as np

from nqg.answers import GRAMMAR, ILLEGAL, LONG_TARGET, Answer, ChartSpan, Reading
from nqg.grammar.arrays import FloatArray, Int64Array
from nqg.grammar.chart import goal_charts
from nqg.grammar.derivation import MAX_TARGET_TOKENS, Derivation, Tokens
from nqg.grammar.grammar import SLOT, SlotInstance, Symbols
from nqg.grammar.hypergraph import Hypergraph, NodeId
from nqg.grammar.semirings import (
    best_derivations,
    k_best_derivations,
    log_inside,
    marginals,
    max_inside,
)
from nqg.model.checkpoint import SavedModel
from nqg.model.confidence import rule_pairs
from nqg.model.spans import SpanTable
from nqg.slots.instantiate import SlotInstances
from nqg.text.programs import kind_of
from nqg.text.sentences import TokenizedSentence
from nqg.types.target_grammar import TargetGrammar

N_BEST = 40  # derivations among which one is looked for that is legal, and whose pairs of rules training had
DERIVATIONS_PER_READING = (
    4  # best derivations that are looked at for every reading that is asked for
)


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """What a parser gives beside the best reading.

    `readings` asks for that many of the most probable targets: those found among four times as many best derivations,
    in a model with confidence those first whose derivations have the fewest pairs of rules that training never had.
    A `typed` parser has only legal derivations; the paper's, which is not, abstains if its best target is illegal.
    Without a choice the parser does as it was trained. `marginals` asks for those of every hyperedge, `chart` for every
    derivable span, `gaps` for what the grammar lacks where a sentence has no derivation. `limit` bounds the entries of
    any one sentence's chart; a target of more than `most_tokens` is not written down, and the parser abstains. An
    `exact` parser does not correct typos. One with confidence abstains below `least_confidence`; without a choice that
    is what training has learned where the grammar has free text, which can be made of any words, and 0 otherwise. What
    is said relative to `today` is, without a choice, so on the day of parsing.
    """

    readings: int = 0
    typed: bool | None = None
    marginals: bool = False
    chart: bool = False
    gaps: bool = False
    limit: int | None = None
    most_tokens: int = MAX_TARGET_TOKENS
    exact: bool = False
    least_confidence: float | None = None
    today: date | None = None


def quoted_values(derivation: Derivation) -> Iterator[tuple[SlotInstance, str]]:
    """The values in a derivation's target, each with the quote inside of which the program puts it, if any."""
    # The target is put together once more, with a name of its own in the place of each value.
    values: dict[str, SlotInstance] = {}
    sides: list[Symbols] = []
    for number, hyperedge in enumerate(derivation.hyperedges):
        rule, side = hyperedge.rule, hyperedge.rule.target
        if isinstance(rule, SlotInstance):
            name = f"{SLOT}{number}"
            values[name] = rule
            side = tuple(
                name if symbol == rule.terminal else symbol for symbol in rule.slot_rule.target
            )
        sides.append(side)
    if not values:
        return
    quote = ""
    for token in derivation.substituted(sides):
        if token in values:
            yield values[token], quote
        else:
            _, quote = kind_of(token, quote)


@dataclass(frozen=True)
class ScoredCharts:
    """The charts of B sentences and the scores of their A hyperedges; all but `spans` need a derivation of each."""

    grammar: SlotInstances
    full: Hypergraph
    scores: FloatArray  # (A,)
    target_grammar: TargetGrammar | None = None
    model: SavedModel | None = None  # knows how programs are written

    def select(self, sentences: Sequence[int]) -> ScoredCharts:
        """The charts of some sentences, in the order asked for; a sentence may be asked for twice."""
        bounds = self.full.first_hyperedge[self.full.first_node]
        scores = [
            np.empty(0),
            *(self.scores[bounds[sentence] : bounds[sentence + 1]] for sentence in sentences),
        ]
        return replace(self, full=self.full.select(sentences), scores=np.concatenate(scores))

    def answers(
        self, sentences: Sequence[TokenizedSentence], options: DecodeOptions
    ) -> Iterator[Answer]:
        """The answer to each sentence: its best reading, unless that is illegal or too long to be written down."""
        derivations = self.best()
        short = [
            number
            for number, each in enumerate(derivations)
            if each.target_length <= options.most_tokens
        ]
        readings = self.select(short).readings([derivations[number] for number in short], options)
        first_readings = dict(zip(short, readings, strict=True))
        for number, sentence in enumerate(sentences):
            answer = Answer(sentence.raw, system=GRAMMAR, words=sentence.words)
            if options.readings:
                n_best = self.n_best(number, options.readings * DERIVATIONS_PER_READING, options)
                answer = replace(answer, readings=n_best[: options.readings])
            if number not in first_readings:
                yield replace(answer, reason=LONG_TARGET)
                continue
            best = self.rerank(number, first_readings[number], options)
            if best.is_legal:
                yield replace(
                    answer, target=best.target, probability=best.probability, reading=best
                )
            else:
                yield replace(answer, reason=self.problem(best.derivation, best.target) or ILLEGAL)

    def rerank(self, sentence: int, first: Reading, options: DecodeOptions) -> Reading:
        """The reading of the best derivation or, where its program is not one or its pairs are new, a better one."""
        if not first.is_legal and self.model and self.model.text.programs.problem(first.target):
            legal = [
                reading for reading in self.n_best(sentence, N_BEST, options) if reading.is_legal
            ]
            return legal[0] if legal else first
        if self.unseen_rule_pairs(first.derivation):
            return self.rerank_by_unseen_pairs(sentence, first, options)
        return first

    def best(self) -> list[Derivation]:
        found = best_derivations(self.grammar, self.full, self.scores)
        return [each.derivation for each in found if each is not None]

    def rerank_by_unseen_pairs(
        self, sentence: int, first: Reading, options: DecodeOptions
    ) -> Reading:
        """The most probable of the legal readings with the fewest unseen pairs; `first` where none has fewer."""
        derivations = self.select([sentence]).best_of_targets(N_BEST, options.most_tokens)
        unseen = [self.unseen_rule_pairs(derivation) for derivation in derivations]
        fewest = min(unseen)
        if fewest == self.unseen_rule_pairs(first.derivation):
            return first
        candidates = [
            each for each, count in zip(derivations, unseen, strict=True) if count == fewest
        ]
        readings = self.select([sentence] * len(candidates)).readings(candidates, options)
        legal = [reading for reading in readings if reading.is_legal]
        return min(legal, key=lambda reading: (-reading.probability, reading.tokens), default=first)

    def unseen_rule_pairs(self, derivation: Derivation) -> int:
        """How many pairs of rules a derivation has that training never had; 0 where that tells nothing.

        The scores of rules are learned from the words at both ends of a span. In sentences longer than all of training
        they mislead, where what fills which slot still tells how the parts of a sentence are joined. It tells nothing
        where there is free text: that may hold any words, and what holds most of them has the fewest pairs.
        """
        model, slots = self.model, self.grammar.slots
        if model is None or model.calibrator is None or (slots and slots.free_text):
            return 0
        pairs, known = rule_pairs(derivation, self.grammar.numbers), model.calibrator.pairs
        return known.unseen(pairs, len(model.trained_rules)) if known.rows else 0

    def n_best(self, sentence: int, n: int, options: DecodeOptions) -> tuple[Reading, ...]:
        """The targets of the n best derivations, those with the fewest unseen pairs and the most probable first."""
        derivations = self.select([sentence]).best_of_targets(n, options.most_tokens)
        readings = self.select([sentence] * len(derivations)).readings(derivations, options)

        def rank(reading: Reading) -> tuple[int, float, Tokens]:
            return self.unseen_rule_pairs(reading.derivation), -reading.probability, reading.tokens

        return tuple(sorted(readings, key=rank))

    def best_of_targets(self, count: int, most_tokens: int = MAX_TARGET_TOKENS) -> list[Derivation]:
        """For every target among the `count` best derivations the one with the fewest unseen pairs, if short enough."""
        (ranked,) = k_best_derivations(self.grammar, self.full, self.scores, count)
        found: dict[Tokens, Derivation] = {}
        for derivation in sorted((each.derivation for each in ranked), key=self.unseen_rule_pairs):
            if derivation.target_length <= most_tokens:
                found.setdefault(derivation.target, derivation)
        return list(found.values())

    def readings(self, derivations: Sequence[Derivation], options: DecodeOptions) -> list[Reading]:
        """The readings that derivations, one of each sentence, are."""
        targets = [derivation.target for derivation in derivations]
        chances = self.probabilities(targets).tolist()
        scores = self.hyperedge_scores(derivations)
        figures: list[tuple[float, ...]] = [()] * len(derivations)
        if options.marginals:
            figures = self.hyperedge_marginals(derivations)
        readings = []
        for number, (derivation, target) in enumerate(zip(derivations, targets, strict=True)):
            program = self.written(target)
            is_legal = self.target_grammar is None or self.target_grammar.accepts(target)
            is_legal = is_legal and not self.problem(derivation, program)
            readings.append(
                Reading(
                    program, chances[number], derivation, is_legal, scores[number], figures[number]
                ),
            )
        return readings

    def written(self, target: Tokens) -> str:
        """A target as the training data would write it."""
        if self.model is None:
            return " ".join(target)
        return (self.model.language or self.model.text.programs).render(target)

    def problem(self, derivation: Derivation, program: str) -> str:
        """Why a program means nothing to the model's database, if it has one, or is unlike all that training has."""
        if self.model is None:
            return ""
        for rule, quote in quoted_values(derivation):
            value = tuple(map(str, rule.value))
            if not self.model.text.slots.is_safely_quoted(rule.slot, value, quote):
                return f"{ILLEGAL}: a value has marks that would end it too soon: {' '.join(value):.80}"
        reason = (self.model.language or self.model.text.programs).problem(program)
        return reason and f"{ILLEGAL}: {reason}"

    def probabilities(self, targets: Sequence[Tokens]) -> FloatArray:
        """The probability of a target of each sentence, all derivations that yield it together: (B,)."""
        goal = goal_charts(self.grammar, self.full, targets)
        asked = self._table.numbers(goal)[goal.owners()] * len(
            self.grammar
        ) + self.grammar.model_rule_ids(goal.rules)
        goal_scores = self.scores[self._hyperedges_of(asked)]
        log_full = log_inside(self.full, self.scores)[self.full.roots()]
        log_goal = np.append(log_inside(goal, goal_scores), -np.inf)[goal.roots()]
        chances: FloatArray = np.minimum(
            np.exp(log_goal - log_full), 1.0
        )  # rounding may lead past 1
        return chances

    @cached_property
    def _table(self) -> SpanTable:
        return SpanTable.of(self.full)

    @cached_property
    def _pairs(self) -> Int64Array:
        """For every hyperedge its pair of span and rule, which has one score wherever its children meet: (A,)."""
        rules = self.grammar.model_rule_ids(self.full.rules)
        return self._table.numbers(self.full)[self.full.owners()] * len(self.grammar) + rules

    @cached_property
    def _order(self) -> Int64Array:
        return np.argsort(self._pairs, kind="stable")

    def _hyperedges_of(self, pairs: Int64Array) -> Int64Array:
        """For every pair of span and rule the first hyperedge that has it."""
        return self._order[np.searchsorted(self._pairs[self._order], pairs)]

    def _pairs_of(self, derivations: Sequence[Derivation]) -> Int64Array:
        """The pairs of the hyperedges of a derivation of each sentence, one derivation after the other."""
        numbers, width = self.grammar.numbers, self._table.width
        asked = [
            ((sentence * width + each.span.start) * width + each.span.end, numbers[each.rule])
            for sentence, derivation in enumerate(derivations)
            for each in derivation.hyperedges
        ]
        spans, rules = np.array(asked, dtype=np.int64).reshape(-1, 2).T
        return self._table.find(spans) * len(self.grammar) + rules

    def hyperedge_scores(self, derivations: Sequence[Derivation]) -> list[tuple[float, ...]]:
        return _unflatten(
            self.scores[self._hyperedges_of(self._pairs_of(derivations))], derivations
        )

    def hyperedge_marginals(self, derivations: Sequence[Derivation]) -> list[tuple[float, ...]]:
        """For a derivation of each sentence how probable it is that its rules are applied to their spans."""
        pairs, of_hyperedges = np.unique(self._pairs, return_inverse=True)
        chances = np.bincount(
            of_hyperedges, marginals(self.full, self.scores), minlength=len(pairs)
        )
        asked = np.searchsorted(pairs, self._pairs_of(derivations))
        return _unflatten(np.minimum(chances[asked], 1.0), derivations)  # rounding may lead past 1

    def spans(self, derivable: Collection[int]) -> Iterator[tuple[ChartSpan, ...]]:
        """The spans of each sentence, short ones first; only those of `derivable` sentences have a probability."""
        full, of_nodes = self.full, self._table.numbers(self.full)
        best, first = max_inside(full, self.scores)
        chances = np.bincount(
            of_nodes[full.owners()], marginals(full, self.scores), minlength=len(self._table.starts)
        )
        for sentence, (low, high) in enumerate(pairwise(full.first_node.tolist())):
            found: dict[int, NodeId] = {}  # of the nodes of a span the best
            for node in map(NodeId, range(low, high)):
                span = int(of_nodes[node])
                if span not in found or best[node] > best[found[span]]:
                    found[span] = node
            spans = [
                ChartSpan(
                    full.span(node),
                    self.grammar[int(full.rules[first[node]])],
                    float(best[node]),
                    min(float(chances[span]), 1.0) if sentence in derivable else 0.0,
                )
                for span, node in found.items()
            ]
            yield tuple(
                sorted(spans, key=lambda each: (each.span.end - each.span.start, each.span))
            )


def _unflatten(values: FloatArray, derivations: Sequence[Derivation]) -> list[tuple[float, ...]]:
    """Values of hyperedges, one derivation after the other, as a tuple for each derivation."""
    rest = iter(values.tolist())
    return [tuple(next(rest) for _ in derivation.hyperedges) for derivation in derivations]
