"""From examples to confidence and a gate: systems are fitted to some examples and tried on the
others.

Every training example is held out once: in each of several folds a system is fitted to the others.
What its grammar answers for the held-out examples, and whether that is right, trains the
`Calibrator` of the model. Where a fallback is tried on the same examples, the trials also train the
gate of a hybrid.

Which examples are held out together decides what is learned. Held out at random they are as easy as
the training examples, and both systems look better than they are on new combinations. Held out by
template (no program of the fold occurs, names and numbers aside, in the rest) or by length they are
as hard as a compositional split.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

import numpy as np

from nqg.answers import Answer, System, exact_match
from nqg.data.dataset import Split
from nqg.data.example import Example, distinct_pairs
from nqg.errors import NqgError, SettingsError
from nqg.evaluation.evaluation import ExactJudge
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar
from nqg.inference.corrections import correction_trials
from nqg.inference.hybrid import DECIMALS, NEVER, Calibration, Gate, Hybrid, gate_score
from nqg.inference.parser import Parser
from nqg.model.confidence import (
    LEAST_CONFIDENCE,
    Calibrator,
    Evidence,
    KnownContexts,
    Observation,
    RulePairs,
    ValueContext,
    Weights,
    WordPairs,
    context_words,
    rule_pairs,
    value_contexts,
)
from nqg.slots.instantiate import instantiate_slots, mentions_of
from nqg.splits.compounds import likely_language
from nqg.splits.partition import split as divide

# Below FEW examples there are 5 folds, up to MANY 8, above 4. Not measured: a fold costs more than
# its steps, and many examples need few folds.
FEW, MANY = 200, 2000
# More examples than these take time and teach a few weights nothing new (not measured).
MOST_EXAMPLES = 10_000
# The precision that answers to held-out examples must have; their templates are new, so they are
# harder than most.
LEAST_PRECISION = 0.8
TRIAL_FOLDS = 5


class HeldOut(StrEnum):
    """How the examples that are held out differ from the others."""

    RANDOM = "random"
    TEMPLATE = "template"
    LENGTH = "length"
    TMCD = "tmcd"


def held_out(
    examples: Sequence[Example], kind: HeldOut, *, share: float = 0.25, seed: int = 0
) -> Split:
    """A split of the distinct examples whose test examples are held out."""
    return divide(distinct_pairs(examples), kind, test=share, seed=seed)


def folds(
    examples: Sequence[Example],
    kind: HeldOut,
    count: int | None = None,
    *,
    seed: int = 0,
) -> list[Split]:
    """Splits of the distinct examples whose test sets are disjoint and, together, all of them.

    Examples of one template are in one fold. By length and by TMCD there is one split: examples are
    held out once. Without a `count` there are 8 folds; of fewer than 200 examples 5, because each
    costs more than its steps; of more than 2,000 4.

    >>> walks = [Example("walk", "W"), Example("walk twice", "W W"), Example("walk now", "W")]
    >>> [split.test for split in folds(walks, HeldOut.TEMPLATE, 2)]
    [(0, 2), (1,)]
    """
    examples = distinct_pairs(examples)
    if count is None:
        count = 8
        if len(examples) < FEW:
            count = 5
        elif len(examples) > MANY:
            count = 4
    # These kinds have one split: the longest, or the most divergent, examples.
    if kind in (HeldOut.LENGTH, HeldOut.TMCD):
        return [held_out(examples, kind, share=1 / count, seed=seed)]

    # Group the positions that must stay together.
    groups = [[position] for position in range(len(examples))]
    noun = "example"
    if kind is HeldOut.TEMPLATE:
        noun = "template"
        template = likely_language(examples).template
        by_template = defaultdict(list)
        for position, example in enumerate(examples):
            by_template[template(example.target)].append(position)
        groups = list(by_template.values())
    if len(groups) < 2:
        raise SettingsError(f"{len(groups)} {noun} cannot fill two folds")

    # Put the largest group that is left into the smallest fold.
    groups = random.Random(seed).sample(groups, len(groups))
    tests: list[list[int]] = [[] for _ in range(min(count, len(groups)))]
    for group in sorted(groups, key=len, reverse=True):
        min(tests, key=len).extend(group)
    splits = []
    for test in tests:
        train = sorted(set(range(len(examples))).difference(test))
        splits.append(Split(tuple(train), tuple(sorted(test))))
    return splits


@dataclass(frozen=True)
class GateTrial:
    """What both systems of a hybrid made of a held-out sentence.

    The probability is the grammar's confidence, where that is known, and None where the grammar
    abstained. The `evidence` is what a confidence is computed from.
    """

    probability: float | None
    grammar_is_right: bool
    fallback_is_right: bool
    evidence: Evidence | None = None

    @classmethod
    def of(
        cls,
        by_grammar: Answer,
        by_fallback: Answer,
        example: Example,
        is_right: Callable[[str, Example], bool],
    ) -> GateTrial:
        """The trial of two answers; a hybrid whose fallback abstains answers as its grammar."""
        program, fallback_program = by_grammar.target, by_fallback.target
        # No probability means that the grammar abstained, which counts as not right.
        probability = None
        grammar_is_right = False
        if program is not None:
            probability = gate_score(by_grammar)
            grammar_is_right = is_right(program, example)
        if fallback_program is None:
            return cls(probability, grammar_is_right, grammar_is_right)
        return cls(probability, grammar_is_right, is_right(fallback_program, example))

    def is_right(self, gate: Gate) -> bool:
        if self.probability is not None and gate.accepts(self.probability):
            return self.grammar_is_right
        return self.fallback_is_right


def calibrated_gate(trials: Sequence[GateTrial]) -> Gate:
    """The gate with which most trials are right; among equals the one that accepts most, "grammar
    first".

    >>> wrong_when_unsure = [GateTrial(0.4, False, True), GateTrial(0.7, True, True)]
    >>> calibrated_gate(wrong_when_unsure).threshold
    0.7
    """
    if not trials:
        raise NqgError(
            "a gate is calibrated on held-out examples, found none; hold out a larger share"
        )
    # What is gained by handing over to the fallback, by the grammar's probability.
    gains: Counter[float] = Counter()
    for trial in trials:
        if trial.probability is not None:
            gain = trial.fallback_is_right - trial.grammar_is_right
            gains[round(trial.probability, DECIMALS)] += gain
    trusts_only_readings = gains.pop(1.0, 0) <= 0

    # A threshold hands over all that lies below it. Thresholds rise, so the first of the best
    # accepts most.
    levels = sorted(gains)
    thresholds = [*levels[1:], 1.0 if trusts_only_readings else NEVER]
    best_threshold, best_gain, gain = 0.0, 0, 0
    for level, threshold in zip(levels, thresholds):
        gain += gains[level]
        if gain > best_gain:
            best_threshold, best_gain = threshold, gain
    gate = Gate(best_threshold, trusts_only_readings)
    calibration = Calibration(
        len(trials),
        grammar_alone=sum(trial.grammar_is_right for trial in trials),
        fallback_alone=sum(trial.fallback_is_right for trial in trials),
        grammar_first=sum(trial.is_right(Gate()) for trial in trials),
        gated=sum(trial.is_right(gate) for trial in trials),
    )
    return replace(gate, calibration=calibration)


class NoFallback:
    """A fallback that abstains."""

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        return map(Answer, sentences)


def trials(
    parser: System,
    fallback: System,
    test: Sequence[Example],
    train: Sequence[Example] = (),
) -> Iterator[GateTrial]:
    """How both systems, fitted to `train`, answer `test`; the trials of a parser have evidence."""
    if isinstance(parser, Parser):
        pairs_seen = RulePairs.of(
            right_derivations(parser, train), parser.grammar.numbers
        )
        model = replace(
            parser.model,
            calibrator=Calibrator(Weights(), pairs_seen, trials=0, right=0),
        )
        # Corrected typos are not evidence.
        parser = Parser(
            model, replace(parser.options, exact=True, least_confidence=0.0)
        )
    # Both systems answer every example.
    answers = Hybrid(parser, fallback, asks_both=True).answers(
        example.source for example in test
    )
    for example, answer in zip(test, answers):
        by_grammar, by_fallback = answer.parts
        trial = GateTrial.of(by_grammar, by_fallback, example, ExactJudge().is_right)
        reading = by_grammar.reading
        if isinstance(parser, Parser) and reading:
            pairs = rule_pairs(reading.derivation, parser.grammar.numbers)
            trial = replace(
                trial, evidence=Evidence.of(reading.probability, pairs, pairs_seen)
            )
        yield trial


def right_derivations(
    parser: Parser, examples: Sequence[Example]
) -> Iterator[Derivation]:
    """The parser's derivations of those distinct examples that it gets right."""
    examples = distinct_pairs(examples)
    answers = parser.answers(example.source for example in examples)
    for answer, example in zip(answers, examples):
        if answer.reading and exact_match(answer.target, example.target):
            yield answer.reading.derivation


def known_contexts(
    grammar: Grammar, derivations: Sequence[Derivation]
) -> KnownContexts:
    """The words before which derivations have values of a slot, and free text has none."""
    if grammar.slots is None or not grammar.slots.free_text:
        return KnownContexts()
    contexts: list[ValueContext] = []
    mentions = mentions_of(grammar, [derivation.source for derivation in derivations])
    for derivation, values in zip(derivations, mentions):
        contexts += value_contexts(derivation, values, grammar.slots.free_text)
    return KnownContexts.of(contexts)


def used_rules(grammar: Grammar, examples: Sequence[Example]) -> Grammar:
    """The rules in derivations of the examples: those that could be learned from them."""
    sources = [example.source_tokens for example in examples]
    targets = [example.target_tokens for example in examples]
    instances = instantiate_slots(grammar, sources)
    goal = goal_charts(instances, charts(instances, sources), targets)
    used = np.unique(instances.model_rule_ids(goal.rules)).tolist()
    return replace(grammar, rules=tuple(grammar[rule] for rule in used))


def observations(trials: Sequence[GateTrial]) -> list[Observation]:
    """The trials that have evidence, for a regression."""
    return [
        Observation(trial.evidence, trial.grammar_is_right)
        for trial in trials
        if trial.evidence
    ]


def least_confidence(
    trials: Sequence[GateTrial], precision: float = LEAST_PRECISION
) -> float:
    """The smallest confidence above which so many answers were right; one half where none is high
    enough.

    The weights for each trial are fitted to other folds of trials. One success and one failure more
    than there were keep a few lucky answers from deciding.
    """
    # Rank the answers by a confidence that other folds taught.
    answered = observations(trials)
    tests = [answered[fold::TRIAL_FOLDS] for fold in range(TRIAL_FOLDS)]
    ranked: list[tuple[float, bool]] = []
    for fold, test in enumerate(tests):
        weights = Weights.fit(list(chain(*tests[:fold], *tests[fold + 1 :])))
        ranked += [(weights.confidence(seen.evidence), seen.is_right) for seen in test]
    # Go down the ranks; the last confidence with enough precision is the least.
    least, right = LEAST_CONFIDENCE, 0
    precisions: dict[float, float] = {}
    for count, (confidence, is_right) in enumerate(
        sorted(ranked, reverse=True), start=1
    ):
        right += is_right
        # Of answers with equal confidence, the last one overwrites the others.
        precisions[confidence] = (right + 1) / (count + 2)
    for confidence, reached in precisions.items():
        if reached >= precision:
            least = confidence
    return least


def fitted_calibrator(
    parser: Parser,
    examples: Sequence[Example],
    trials: Sequence[GateTrial],
    precision: float = LEAST_PRECISION,
) -> Calibrator:
    """The calibrator of a parser of these examples, given the trials of parsers of their folds."""
    # The weights come from parsers of the folds, which had not seen their examples.
    answered = observations(trials)
    # Pairs and contexts come from the derivations of the final parser.
    derivations = list(right_derivations(parser, examples))
    return Calibrator(
        Weights.fit(answered),
        RulePairs.of(derivations, parser.grammar.numbers),
        len(answered),
        sum(seen.is_right for seen in answered),
        correction_trials(parser, distinct_pairs(examples)),
        least_confidence(trials, precision),
        known_contexts(parser.grammar, derivations),
        WordPairs.of(map(context_words, derivations)),
    )


def with_confidence(trials: Iterable[GateTrial], weights: Weights) -> list[GateTrial]:
    """The trials with the confidence of the grammar instead of its probability."""
    confident = []
    for trial in trials:
        if trial.evidence:
            trial = replace(trial, probability=weights.confidence(trial.evidence))
        confident.append(trial)
    return confident
