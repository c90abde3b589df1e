"""Decoding: from the scores of all hyperedges of a sentence to its best readings, their
probabilities and figures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import groupby, islice, pairwise

import numpy as np

from nqg.answers import (
    ILLEGAL,
    LONG_TARGET,
    TOO_AMBIGUOUS,
    Answer,
    ChartSpan,
    Reading,
)
from nqg.grammar.arrays import FloatArray, Int64Array
from nqg.grammar.chart import StepBudget, goal_charts
from nqg.grammar.derivation import MAX_TARGET_TOKENS, Derivation, Tokens
from nqg.grammar.grammar import SLOT, SlotInstance, Symbol, Symbols
from nqg.grammar.hypergraph import Hypergraph, NodeId
from nqg.grammar.ragged import Ragged, distinct
from nqg.grammar.semirings import (
    best_derivations,
    handed_down,
    k_best_derivations,
    local_marginals,
    log_inside,
    max_inside,
)
from nqg.model.checkpoint import SavedModel
from nqg.model.confidence import rule_pairs
from nqg.model.spans import SpanTable
from nqg.slots.instantiate import SlotInstances
from nqg.text.json_calls import WrittenToken
from nqg.text.programs import kind_of
from nqg.types.target_grammar import TargetGrammar

# Derivations among which a legal one is looked for, and one whose pairs of rules training had
# (docs/training.md, "Which reading"), and the best derivations for every reading that is wanted.
# With other numbers as many held-out examples are right, and with a smaller N_BEST fewer are
# answered (docs/choices.md).
N_BEST = 40
DERIVATIONS_PER_READING = 4
# Steps that the chart of a sentence may take, and as many again for its types and for its programs.
# The most that a test sentence of the examples takes is 7,100 (examples/home_assistant/de).
# More are for recursion and long programs; a server, which strangers ask, allows fewer.
MAX_CHART_STEPS = 1 << 20
# Hyperedges of all copies of a forest that the readings of one sentence are compared in.
MAX_COMPARED_COPIES = 1 << 20
# Compared derivations may have a hyperedge for so many steps of the limit: on a server all 40 of
# a derivation of 51 hyperedges, more than a sentence of the examples has.
STEPS_PER_COMPARED_HYPEREDGE = 32


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """What a parser gives beside the best reading.

    `readings` asks for that many of the most probable targets: those found among four times as many
    best derivations, in a model with confidence those first whose derivations have the fewest pairs
    of rules that training never had. A `typed` parser has only legal derivations; the paper's,
    which is not, abstains if its best target is illegal. Without a choice the parser does as it was
    trained. `marginals` asks for those of every hyperedge, `chart` for every derivable span, `gaps`
    for what the grammar lacks where a sentence has no derivation. `limit` bounds the steps that the
    chart of any one sentence takes: where it needs more, the sentence is too ambiguous, and the
    parser abstains; None is no bound. A target of more than `most_tokens` is not written down, and the parser
    abstains. An `exact` parser does not correct typos. One with confidence abstains below
    `least_confidence`; without a choice that is the threshold that training has chosen. `today` is
    the reference date of expressions such as "tomorrow": by default, the day of parsing.
    """

    readings: int = 0
    typed: bool | None = None
    marginals: bool = False
    chart: bool = False
    gaps: bool = False
    limit: int | None = MAX_CHART_STEPS
    most_tokens: int = MAX_TARGET_TOKENS
    exact: bool = False
    least_confidence: float | None = None
    today: date | None = None


def quoted_values(derivation: Derivation) -> Iterator[tuple[SlotInstance, str]]:
    """The values in a derivation's target, each with the quote around it, if any."""
    # The target is composed once more, with a distinct name in the place of each value.
    values: dict[str, SlotInstance] = {}
    sides: list[Symbols] = []
    for number, hyperedge in enumerate(derivation.hyperedges):
        rule, side = hyperedge.rule, hyperedge.rule.target
        if isinstance(rule, SlotInstance):
            name = f"{SLOT}{number}"
            values[name] = rule
            names: dict[Symbol, Symbol] = {rule.terminal: name}
            side = tuple(names.get(symbol, symbol) for symbol in rule.slot_rule.target)
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
    """The charts of B sentences and the scores of their A hyperedges.

    All but `spans` need a derivation of each sentence. Hyperedges of one span and one rule are one
    *pair*, and have one score, wherever their children meet.
    """

    grammar: SlotInstances
    full: Hypergraph
    scores: FloatArray  # (A,)
    target_grammar: TargetGrammar | None = None
    model: SavedModel | None = None  # knows how programs are written

    def select(self, sentences: Sequence[int]) -> ScoredCharts:
        """The charts of some sentences, in the order asked for; a sentence may be asked
        for twice.
        """
        bounds = self.full.first_hyperedge[self.full.first_node]
        rows = Ragged(bounds, self.scores).select(np.asarray(sentences, dtype=np.int64))
        return replace(self, full=self.full.select(sentences), scores=rows.values)

    def answers(
        self, abstentions: Sequence[Answer], options: DecodeOptions
    ) -> Iterator[Answer]:
        """The answer to each sentence: its best reading, unless that is illegal or too long.

        `abstentions` are the answers to the sentences without a program.
        """
        derivations = self.best()
        # Leave out what is too long before any probability is computed.
        short = []
        for number, derivation in enumerate(derivations):
            if derivation.target_length <= options.most_tokens:
                short.append(number)
        readings = self.readings(
            [derivations[number] for number in short], short, options
        )
        first_readings = dict(zip(short, readings))
        for number, answer in enumerate(abstentions):
            # Other readings are shown even where the best target is too long.
            if options.readings:
                n_best = self.n_best(
                    number, options.readings * DERIVATIONS_PER_READING, options
                )
                answer = replace(answer, readings=tuple(n_best[: options.readings]))
            if number not in first_readings:
                yield replace(answer, reason=LONG_TARGET)
                continue
            if math.isnan(first_readings[number].probability):
                yield replace(answer, reason=TOO_AMBIGUOUS)
                continue
            best = self.rerank(number, first_readings[number], options)
            if best.is_legal:
                yield replace(
                    answer,
                    target=best.target,
                    probability=best.probability,
                    reading=best,
                )
            else:
                # Say which check failed; a program without a named problem is merely
                # illegal.
                yield replace(
                    answer, reason=self.problem(best.derivation, best.target) or ILLEGAL
                )

    def best(self) -> list[Derivation]:
        ranked = best_derivations(self.grammar, self.full, self.scores)
        return [best.derivation for best in ranked if best is not None]

    def rerank(self, sentence: int, first: Reading, options: DecodeOptions) -> Reading:
        """The reading of the best derivation, unless another one is better.

        Where its program is not one, that is the best legal reading; where training never had some
        of its pairs of rules, the most probable legal reading with the fewest such pairs.
        """
        model, words = self.model, first.derivation.source
        if not first.is_legal and model and model.is_misread(first.target, words):
            readings = self.n_best(sentence, N_BEST, options)
        else:
            unseen = self.unseen_rule_pairs(first.derivation)
            if not unseen:
                return first
            derivations = self.best_of_targets(sentence, N_BEST, options)
            # The derivations are sorted by unseen pairs, so that the first group has
            # the fewest.
            fewest, candidates = next(groupby(derivations, self.unseen_rule_pairs))
            # No other derivation is better known, so the best score decides.
            if fewest == unseen:
                return first
            readings = self._ranked(sentence, list(candidates), options)
        return next((reading for reading in readings if reading.is_legal), first)

    def unseen_rule_pairs(self, derivation: Derivation) -> int:
        """How many pairs of rules a derivation has that training never had; 0 where that tells
        nothing.

        The scores of rules are learned from the words at both ends of a span. In sentences longer
        than all of training they mislead, where the pairs still tell how phrases are joined. Pairs
        tell nothing where there is free text: it may hold any words, and the reading in which it
        holds most has the fewest pairs.
        """
        model, slots = self.model, self.grammar.slots
        if model is None or model.calibrator is None or (slots and slots.free_text):
            return 0
        seen = model.calibrator.pairs
        # A model that counted no pairs would call every pair unseen.
        if not seen.rows:
            return 0
        pairs = rule_pairs(derivation, self.grammar.numbers)
        return seen.unseen(pairs, len(model.trained_rules))

    def n_best(self, sentence: int, n: int, options: DecodeOptions) -> list[Reading]:
        """The targets of the n best derivations, those with the fewest unseen pairs first."""
        return self._ranked(
            sentence, self.best_of_targets(sentence, n, options), options
        )

    def best_of_targets(
        self, sentence: int, count: int, options: DecodeOptions
    ) -> list[Derivation]:
        """For every target among the `count` best derivations the one with the fewest unseen pairs.

        Targets that are too long are left out; derivations with fewer unseen pairs come first.
        """
        charts = self.select([sentence])
        # Every target is looked for in a copy of the forest.
        count = min(count, max(1, MAX_COMPARED_COPIES // charts.full.hyperedges))
        most = None
        if options.limit is not None:
            most = options.limit // STEPS_PER_COMPARED_HYPEREDGE
        (ranked,) = k_best_derivations(
            self.grammar, charts.full, charts.scores, count, most
        )
        best: dict[Tokens, Derivation] = {}
        # The sort is stable: among equally known derivations the best score comes
        # first.
        for derivation in sorted(
            (scored.derivation for scored in ranked), key=self.unseen_rule_pairs
        ):
            if derivation.target_length <= options.most_tokens:
                best.setdefault(derivation.target, derivation)
        return list(best.values())

    def _ranked(
        self, sentence: int, derivations: Sequence[Derivation], options: DecodeOptions
    ) -> list[Reading]:
        """Readings of a sentence, those with the fewest unseen pairs and the most
        probable first.
        """

        def rank(reading: Reading) -> tuple[int, float, Tokens]:
            return (
                self.unseen_rule_pairs(reading.derivation),
                -reading.probability,
                reading.tokens,
            )

        sentences = [sentence] * len(derivations)
        readings = self.readings(derivations, sentences, options)
        comparable = [each for each in readings if not math.isnan(each.probability)]
        return sorted(comparable, key=rank)

    def readings(
        self,
        derivations: Sequence[Derivation],
        sentences: Sequence[int],
        options: DecodeOptions,
    ) -> list[Reading]:
        """The readings that derivations of these sentences are."""
        targets = [derivation.target for derivation in derivations]
        # The probability of a target counts all derivations that yield it.
        limit = options.limit
        probabilities = self.probabilities(targets, sentences, limit).tolist()
        scores = self.hyperedge_scores(derivations, sentences)
        chances: list[tuple[float, ...]] = [()] * len(derivations)
        if options.marginals:
            chances = self.hyperedge_marginals(derivations, sentences)
        readings = []
        for number, (derivation, target) in enumerate(zip(derivations, targets)):
            program, written = " ".join(target), list[WrittenToken[str]]()
            if self.model:
                program = self.model.program(target, derivation.source)
                written = self.model.text.written(target)
            # A reading is legal if the target grammar has its tokens and `problem`
            # finds none.
            is_legal = self.target_grammar is None or self.target_grammar.accepts(
                target
            )
            readings.append(
                Reading(
                    program,
                    probabilities[number],
                    derivation,
                    is_legal and not self.problem(derivation, program),
                    scores[number],
                    chances[number],
                    tuple(written),
                )
            )
        return readings

    def problem(self, derivation: Derivation, program: str) -> str:
        """Why a program means nothing to the model's database, or is unlike all that
        training has.
        """
        if self.model is None:
            return ""
        for rule, quote in quoted_values(derivation):
            value = tuple(map(str, rule.value))
            if not self.model.text.slots.is_safely_quoted(rule.slot, value, quote):
                text = " ".join(value)
                return f"{ILLEGAL}: a value has marks that would end it too soon: {text:.80}"
        reason = self.model.problem(program, derivation.source)
        return reason and f"{ILLEGAL}: {reason}"

    def probabilities(
        self,
        targets: Sequence[Tokens],
        sentences: Sequence[int],
        limit: int | None = None,
    ) -> FloatArray:
        """The probability of each target of a sentence, all derivations that yield it together; not
        a number where it takes too many steps to find these: (n,).

        The targets of one sentence share `limit` steps. Those few that need more than their share
        divide as many steps once more.
        """
        if limit is None:
            return self._probabilities(targets, sentences, None)
        sharing = max(Counter(sentences).values(), default=1)
        probabilities = self._probabilities(targets, sentences, limit // sharing)
        unknown = np.flatnonzero(np.isnan(probabilities)).tolist()
        if sharing > 1 and unknown:
            of_unknown = [sentences[number] for number in unknown]
            sharing = max(Counter(of_unknown).values())
            probabilities[unknown] = self._probabilities(
                [targets[number] for number in unknown], of_unknown, limit // sharing
            )
        return probabilities

    def _probabilities(
        self,
        targets: Sequence[Tokens],
        sentences: Sequence[int],
        limit: int | None,
    ) -> FloatArray:
        """`probabilities` if each target may take as many steps as `limit`."""
        budget = None if limit is None else StepBudget(limit)
        sources = self.full.select(sentences)
        goal = goal_charts(self.grammar, sources, targets, budget)
        goal_scores = self._pair_scores[
            np.searchsorted(self._pairs[0], self._pair_keys(goal, sentences))
        ]
        inside, _ = self._local_marginals
        log_full = inside[self.full.roots()[sentences]]
        log_goal = np.append(log_inside(goal, goal_scores), -np.inf)[goal.roots()]
        # Rounding may lead past 1.
        probabilities = np.minimum(np.exp(log_goal - log_full), 1.0)
        if budget:
            probabilities[sorted(budget.exceeded)] = np.nan
        return probabilities

    @cached_property
    def _local_marginals(self) -> tuple[FloatArray, FloatArray]:
        """The inside values of nodes, and the local marginals of hyperedges: (N,), (A,)."""
        return local_marginals(self.full, self.scores)

    @cached_property
    def _marginals(self) -> FloatArray:
        """How probable hyperedges are: (A,)."""
        return handed_down(self.full, self._local_marginals[1])

    @cached_property
    def _table(self) -> SpanTable:
        return SpanTable.of(self.full)

    def _pair_keys(
        self, graph: Hypergraph, sentences: Sequence[int] | None = None
    ) -> Int64Array:
        """For every hyperedge of a graph one number for its span and its rule: (A,).

        The graph has these sentences; without a choice all.
        """
        chosen = None if sentences is None else np.array(sentences, dtype=np.int64)
        spans = self._table.numbers(graph, chosen)[graph.owners()]
        return spans * len(self.grammar) + self.grammar.model_rule_ids(graph.rules)

    @cached_property
    def _pairs(self) -> tuple[Int64Array, Int64Array]:
        """The keys of the P pairs, sorted, and for every hyperedge its pair: (P,), (A,)."""
        most = len(self._table.starts) * len(self.grammar)
        return distinct(self._pair_keys(self.full), most)

    @cached_property
    def _pair_scores(self) -> FloatArray:
        keys, of_hyperedges = self._pairs
        scores = np.empty(len(keys))
        scores[of_hyperedges] = self.scores
        return scores

    def _of_derivations(
        self,
        values: FloatArray,
        derivations: Sequence[Derivation],
        sentences: Sequence[int],
    ) -> list[tuple[float, ...]]:
        """The values of pairs that the hyperedges of derivations of these sentences are."""
        numbers, width = self.grammar.numbers, self._table.width
        spans, rules = [], []
        for sentence, derivation in zip(sentences, derivations, strict=True):
            for hyperedge in derivation.hyperedges:
                span = hyperedge.span
                spans.append((sentence * width + span.start) * width + span.end)
                rules.append(numbers[hyperedge.rule])
        found_spans = self._table.find(np.array(spans, dtype=np.int64))
        keys = found_spans * len(self.grammar) + np.array(rules, dtype=np.int64)
        rest = iter(values[np.searchsorted(self._pairs[0], keys)].tolist())
        return [
            tuple(islice(rest, len(derivation.hyperedges)))
            for derivation in derivations
        ]

    def hyperedge_scores(
        self, derivations: Sequence[Derivation], sentences: Sequence[int]
    ) -> list[tuple[float, ...]]:
        """For derivations of these sentences what their rules score over their spans."""
        return self._of_derivations(self._pair_scores, derivations, sentences)

    def hyperedge_marginals(
        self, derivations: Sequence[Derivation], sentences: Sequence[int]
    ) -> list[tuple[float, ...]]:
        """For derivations of these sentences how probable their rules are over their spans."""
        chances = np.minimum(np.bincount(self._pairs[1], self._marginals), 1.0)
        return self._of_derivations(chances, derivations, sentences)

    def spans(self, derivable: Collection[int]) -> Iterator[tuple[ChartSpan, ...]]:
        """The spans of each sentence, short ones first.

        Only those of `derivable` sentences have a probability.
        """
        full, of_nodes = self.full, self._table.numbers(self.full)
        best, first = max_inside(full, self.scores)
        chances = np.bincount(
            of_nodes[full.owners()],
            self._marginals,
            minlength=len(self._table.starts),
        )
        # The best node of each span; the first of those that are as good.
        order = np.lexsort((-best, of_nodes))
        _, first_rows = np.unique(of_nodes[order], return_index=True)
        nodes = order[first_rows].tolist()
        for sentence, (low, high) in enumerate(pairwise(self._table.first.tolist())):
            spans = []
            for number in range(low, high):
                node, chance = NodeId(nodes[number]), 0.0
                if sentence in derivable:
                    chance = min(float(chances[number]), 1.0)
                rule = self.grammar[int(full.rules[first[node]])]
                spans.append(
                    ChartSpan(full.span(node), rule, float(best[node]), chance)
                )
            spans.sort(key=lambda each: (each.span.end - each.span.start, each.span))
            yield tuple(spans)
