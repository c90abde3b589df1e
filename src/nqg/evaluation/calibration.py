"""From examples to confidence and a gate: hold some out, fit the system to the rest, and see who is right about them.

Every training example is held out once: in each of several folds the system is fitted to the others. What its grammar
says of those held out, and whether that is right, teaches the `Calibrator` of the model; and the gate of a hybrid,
where its fallback was asked too, whom to believe.

Which examples are held out together decides what is learned. Held out at random they are as easy as the training
examples, and both parts look better than they are on new combinations. Held out by template (no program of the held-out
part occurs, names and numbers aside, in the rest) or by length they are as hard as a compositional split.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate, chain
from typing import TypeVar

import numpy as np

from nqg.answers import Answer, System, exact_match
from nqg.data.dataset import Split
from nqg.data.example import Example, distinct_pairs
from nqg.errors import NqgError, SettingsError
from nqg.evaluation.metrics import Match
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar
from nqg.inference.hybrid import DECIMALS, NEVER, Calibration, Gate, Hybrid, gate_score, grammar_of
from nqg.inference.parser import Parser
from nqg.model.confidence import (
    LEAST_CONFIDENCE,
    Calibrator,
    Evidence,
    KnownContexts,
    Observation,
    RulePairs,
    Weights,
    WordPairs,
    context_words,
    rule_pairs,
    value_contexts,
)
from nqg.slots.instantiate import instantiate_slots, mentions_of
from nqg.splits.compounds import likely_language
from nqg.splits.partition import length_split, random_split, sizes_for, template_split

FEW, MANY = 200, 2000  # examples
MOST_EXAMPLES = (
    10_000  # that are divided into folds: more take time, and teach a few weights nothing new
)
SHARE = 0.25  # of the examples are held out
LEAST_PRECISION = (
    0.8  # of answers to held-out examples, which are harder than most: their templates are new
)
TRIAL_PARTS = 5  # of trials, each judged by what the others teach

Wanted = TypeVar("Wanted")


class HeldOut(StrEnum):
    """How the examples that are held out differ from the others."""

    RANDOM = "random"
    TEMPLATE = "template"
    LENGTH = "length"
    TMCD = "tmcd"


def held_out(
    examples: Sequence[Example], kind: HeldOut, *, share: float = SHARE, seed: int = 0
) -> Split:
    """A split whose test part is held out; equal examples are one."""
    examples = distinct_pairs(examples)
    sizes, rng = sizes_for(len(examples), test=share), random.Random(seed)
    match kind:
        case HeldOut.RANDOM:
            return random_split(examples, sizes, rng)
        case HeldOut.LENGTH:
            return length_split(examples, sizes)
        case HeldOut.TEMPLATE:
            return template_split(examples, sizes, likely_language(examples).template, rng)
        case HeldOut.TMCD:
            from nqg.splits.tmcd import tmcd_split  # which most trainings do not need

            return tmcd_split(examples, sizes, likely_language(examples).decomposition, rng)


def folds(
    examples: Sequence[Example], kind: HeldOut, count: int | None = None, *, seed: int = 0
) -> list[Split]:
    """Splits of the different examples whose test parts are disjoint and, together, all of them.

    Examples of one template are in one fold. By length and by TMCD there is one split: examples are held out once.
    Without a `count` there are 8 folds; of fewer than 200 examples 5, because each costs more than its steps; of more
    than 2,000 4.

    >>> walks = [Example("walk", "W"), Example("walk twice", "W W"), Example("walk now", "W")]
    >>> [split.test for split in folds(walks, HeldOut.TEMPLATE, 2)]
    [(0, 2), (1,)]
    """
    examples = distinct_pairs(examples)
    count = count or (5 if len(examples) < FEW else 8 if len(examples) <= MANY else 4)
    if kind in (HeldOut.LENGTH, HeldOut.TMCD):
        return [held_out(examples, kind, share=1 / count, seed=seed)]
    template = likely_language(examples).template if kind is HeldOut.TEMPLATE else None
    groups: dict[object, list[int]] = defaultdict(list)
    for position, example in enumerate(examples):
        groups[template(example.target) if template else position].append(position)
    if len(groups) < 2:
        raise SettingsError(
            f"{len(groups)} {'template' if template else 'example'} cannot fill two folds"
        )
    order = random.Random(seed).sample(list(groups.values()), len(groups))
    parts: list[list[int]] = [[] for _ in range(min(count, len(groups)))]
    for group in sorted(order, key=len, reverse=True):
        min(parts, key=len).extend(group)
    everything = range(len(examples))
    return [
        Split(
            tuple(sorted({*everything}.difference(part))),
            tuple(sorted(part)),
            made_by={"method": str(kind)},
        )
        for part in parts
    ]


@dataclass(frozen=True, slots=True)
class GateTrial:
    """What both parts made of a held-out sentence; the probability is None where the grammar abstained.

    It is the grammar's confidence, where that is known; the `evidence` is what a confidence is made of.
    """

    probability: float | None
    grammar_is_right: bool
    fallback_is_right: bool
    evidence: Evidence | None = None

    @classmethod
    def of(
        cls, own: Answer, other: Answer, wanted: Wanted, is_right: Callable[[str, Wanted], bool]
    ) -> GateTrial:
        """What came of asking both; where the fallback has no answer, the hybrid stays with the grammar's."""
        handed_over = own.target if other.target is None else other.target
        by_grammar, by_other = (
            target is not None and is_right(target, wanted) for target in (own.target, handed_over)
        )
        return cls(None if own.target is None else gate_score(own), by_grammar, by_other)

    def is_right(self, gate: Gate) -> bool:
        by_grammar = self.probability is not None and gate.accepts(self.probability)
        return self.grammar_is_right if by_grammar else self.fallback_is_right


def calibrated_gate(trials: Sequence[GateTrial]) -> Gate:
    """The gate with which most trials are right; among equals the one that lets most pass, "grammar first".

    >>> wrong_when_unsure = [GateTrial(0.4, False, True), GateTrial(0.7, True, True), GateTrial(1.0, True, False)]
    >>> calibrated_gate(wrong_when_unsure).threshold
    0.7
    """
    if not trials:
        raise NqgError(
            "a gate is calibrated on held-out examples, found none; hold out a larger share"
        )
    gains: Counter[float] = Counter()  # of handing over, by the grammar's probability
    for trial in trials:
        if trial.probability is not None:
            gains[round(trial.probability, DECIMALS)] += (
                trial.fallback_is_right - trial.grammar_is_right
            )
    trusts_only_readings = gains.pop(1.0, 0) <= 0
    levels = sorted(gains)
    handed_over = accumulate(
        (gains[level] for level in levels), initial=0
    )  # all that lies below a threshold
    thresholds = [0.0, *levels[1:], 1.0 if trusts_only_readings else NEVER]
    best = max(
        zip(handed_over, thresholds, strict=False), key=lambda choice: (choice[0], -choice[1])
    )
    gate = Gate(best[1], trusts_only_readings)
    calibration = Calibration(
        len(trials),
        grammar_alone=sum(trial.grammar_is_right for trial in trials),
        fallback_alone=sum(trial.fallback_is_right for trial in trials),
        grammar_first=sum(trial.is_right(Gate()) for trial in trials),
        gated=sum(trial.is_right(gate) for trial in trials),
    )
    return replace(gate, calibration=calibration)


def trials(
    parser: System,
    fallback: System,
    examples: Sequence[Example],
    is_right: Match = exact_match,
    known: RulePairs | None = None,
) -> Iterator[GateTrial]:
    """How both parts do on `examples`, each asked about all; with evidence, given the pairs `known` in training."""
    answers = Hybrid(parser, fallback, asks_both=True).answers(
        example.source for example in examples
    )
    grammar = grammar_of(parser)
    for example, answer in zip(examples, answers, strict=True):
        own, other = answer.parts
        trial = GateTrial.of(own, other, example.target, is_right)
        if known and grammar and own.reading:
            pairs = rule_pairs(own.reading.derivation, grammar.numbers)
            trial = replace(trial, evidence=Evidence.of(own.reading.probability, pairs, known))
        yield trial


@dataclass(frozen=True, slots=True)
class Silence:
    """The fallback of a model that has none."""

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        return (Answer(sentence) for sentence in sentences)


def fold_trials(
    examples: Sequence[Example],
    split: Split,
    trained_parser: Callable[[Sequence[Example]], System],
    trained_fallback: Callable[[Sequence[Example]], System] | None = None,
    is_right: Match = exact_match,
) -> list[GateTrial]:
    """What two parts that are fitted to the train part of `split`, of the different examples, make of its test part."""
    parts = split.parts(distinct_pairs(examples))
    parser, known = trained_parser(parts.train), None
    fallback = trained_fallback(parts.train) if trained_fallback else Silence()
    if isinstance(parser, Parser):
        known = known_pairs(parser, parts.train)
        model = replace(parser.model, calibrator=Calibrator(Weights(), known, trials=0, right=0))
        options = replace(
            parser.options, exact=True, least_confidence=0.0
        )  # corrections are no part of the evidence
        parser = Parser(model, options)
    return list(trials(parser, fallback, parts.test, is_right, known))


def known_pairs(parser: Parser, examples: Sequence[Example]) -> RulePairs:
    """The pairs of rules in the parser's derivations of those different examples that it gets right."""
    return RulePairs.of(right_derivations(parser, examples), parser.grammar.numbers)


def right_derivations(parser: Parser, examples: Sequence[Example]) -> Iterator[Derivation]:
    """The parser's derivations of those different examples that it gets right."""
    examples = distinct_pairs(examples)
    for answer, example in zip(
        parser.answers(each.source for each in examples), examples, strict=True
    ):
        if answer.reading and exact_match(answer.target, example.target):
            yield answer.reading.derivation


def known_contexts(grammar: Grammar, derivations: Sequence[Derivation]) -> KnownContexts:
    """Before which words derivations have values of a slot, and free text has none."""
    free_text, sources = (
        grammar.slots.free_text if grammar.slots else {},
        [each.source for each in derivations],
    )
    if not free_text:
        return KnownContexts()
    found = zip(derivations, mentions_of(grammar, sources), strict=True)
    return KnownContexts.of(chain.from_iterable(value_contexts(*each, free_text) for each in found))


def used_rules(grammar: Grammar, examples: Sequence[Example]) -> Grammar:
    """The rules in derivations of the examples: what of a grammar could have been learned from them."""
    sources = [example.source_tokens for example in examples]
    own = instantiate_slots(grammar, sources)
    goal = goal_charts(own, charts(own, sources), [example.target_tokens for example in examples])
    used = np.unique(own.model_rule_ids(goal.rules)).tolist()
    return replace(grammar, rules=tuple(grammar[rule] for rule in used))


def fitted_weights(trials: Sequence[GateTrial]) -> Weights:
    """The weights that make a confidence of the evidence in trials."""
    return Weights.fit(
        [Observation(each.evidence, each.grammar_is_right) for each in trials if each.evidence]
    )


def least_confidence(trials: Sequence[GateTrial], precision: float = LEAST_PRECISION) -> float:
    """The smallest confidence from which on so many answers were right; one half where none is high enough.

    The confidence of each trial is that which the others teach, by parts; one success and one failure more than there
    were keep a few lucky answers from deciding.
    """
    answered = [each for each in trials if each.evidence]
    parts = [answered[part::TRIAL_PARTS] for part in range(TRIAL_PARTS)]
    ranked: list[tuple[float, bool]] = []
    for number, part in enumerate(parts):
        weights = fitted_weights(
            [each for other in (*parts[:number], *parts[number + 1 :]) for each in other]
        )
        ranked += [
            (weights.confidence(trial.evidence), trial.grammar_is_right)
            for trial in part
            if trial.evidence
        ]
    right, precisions = 0, dict[float, float]()
    for count, (each, is_right) in enumerate(sorted(ranked, reverse=True), start=1):
        right += is_right
        precisions[each] = (right + 1) / (count + 2)  # of equal ones the last tells
    return min(
        (each for each, found in precisions.items() if found >= precision), default=LEAST_CONFIDENCE
    )


def fitted_calibrator(
    parser: Parser,
    examples: Sequence[Example],
    trials: Sequence[GateTrial],
    precision: float = LEAST_PRECISION,
) -> Calibrator:
    """The calibrator of a parser, given the examples that it is fitted to, and trials of others on folds of them."""
    answered = [each for each in trials if each.evidence]
    right = sum(each.grammar_is_right for each in answered)
    from nqg.inference.corrections import correction_trials

    derivations = list(right_derivations(parser, examples))
    return Calibrator(
        fitted_weights(trials),
        RulePairs.of(derivations, parser.grammar.numbers),
        len(answered),
        right,
        correction_trials(parser, distinct_pairs(examples)),
        least_confidence(trials, precision),
        known_contexts(parser.grammar, derivations),
        WordPairs.of(map(context_words, derivations)),
    )


def with_confidence(trials: Iterable[GateTrial], weights: Weights) -> list[GateTrial]:
    """The trials with the confidence of the grammar in the place of its probability."""
    return [
        replace(each, probability=weights.confidence(each.evidence)) if each.evidence else each
        for each in trials
    ]


def cross_fitted(
    examples: Sequence[Example],
    splits: Iterable[Split],
    trained_parser: Callable[[Sequence[Example]], System],
    trained_fallback: Callable[[Sequence[Example]], System],
    is_right: Match = exact_match,
) -> Gate:
    """The gate that is best on the test parts of all `splits` for parts of a hybrid that are fitted to the rest."""
    tried = [
        fold_trials(examples, split, trained_parser, trained_fallback, is_right) for split in splits
    ]
    together = [trial for each in tried for trial in each]
    return calibrated_gate(with_confidence(together, fitted_weights(together)))
