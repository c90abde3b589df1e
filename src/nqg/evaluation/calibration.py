"""What confidence is fitted to: readers of some training examples are tried on the others.

Every training example may be held out once: in each of several folds readers are fitted to the
others. Their candidates for the held-out examples, and which of these are right, fit the weights of
a `Calibrator`, and choose its threshold. Sentences that are made of halves of others, of their words
in disorder, or of others with words inserted show what candidates look like where none is right.

Which examples are held out together decides what is learned. Held out at random, they are like the
next sentence of a user. Held out by template (no program of the fold occurs, names and numbers
aside, in the rest) or by length they are as hard as a compositional split.
"""

from __future__ import annotations

import math
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from nqg.answers import exact_match
from nqg.calls import calls_or_none
from nqg.data.dataset import Split
from nqg.data.example import Example, distinct_pairs
from nqg.errors import SettingsError
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import Parser
from nqg.model.confidence import (
    PRIORS,
    Calibrator,
    Expectation,
    HeldOutSentence,
    KnownContexts,
    RulePairs,
    ValueContext,
    Weights,
    WordPairs,
    context_words,
    value_contexts,
)
from nqg.model.free_text import KnownTexts, TextUse
from nqg.slots.instantiate import instantiate_slots, mentions_of
from nqg.splits.compounds import likely_language
from nqg.splits.partition import split as divide
from nqg.text.sentences import TokenizedSentence

# Folds of the examples; benchmarks/constants.py varies it.
CALIBRATION_FOLDS = 5
# Folds of held-out sentences: the confidence in those of one is fitted to the others;
# benchmarks/constants.py varies it.
TRIAL_FOLDS = 5
# Answers are given that are right rather than wrong, unless fewer right ones are wanted.
EVEN_ODDS = 0.5
# A sentence without a program has confidence 0, and is not answered.
SMALLEST_CONFIDENCE = 1e-9
# By how many standard deviations answers may fall short of the precision that is wanted.
# `benchmarks/confidence_priors.py --thresholds` prints the curve.
TOLERANCE = 0.5
# So many words are inserted at most. Not measured: other numbers were not tried.
MOST_INSERTED = 4
# So that rounding decides nothing: twenty answers are enough for a precision of 0.95.
COUNT_ROUNDING = 1e-9


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
    count: int = CALIBRATION_FOLDS,
    *,
    seed: int = 0,
) -> list[Split]:
    """Splits of the distinct examples whose test sets are disjoint and, together, all of them.

    Examples of one template are in one fold. By length and by TMCD there is one split: examples are
    held out once.

    >>> walks = [Example("walk", "W"), Example("walk twice", "W W"), Example("walk now", "W")]
    >>> [split.test for split in folds(walks, HeldOut.TEMPLATE, 2)]
    [(0, 2), (1,)]
    """
    examples = distinct_pairs(examples)
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


def made_out_of_scope(
    sentences: Sequence[str], count: int, rng: random.Random
) -> list[str]:
    """Sentences that mean nothing, or nothing that training shows: half of them begin like one
    sentence and end like another, the others are the words of one in disorder.

    >>> made_out_of_scope(["turn on the lamp", "what time is it"], 2, random.Random(0))
    ['lamp on the turn', 'what time the lamp']
    """
    made: list[str] = []
    known = {" ".join(sentence.split()) for sentence in sentences}
    # Short sentences may give only sentences that are known: then there are fewer.
    for number in range(4 * count):
        first, second = rng.choice(sentences).split(), rng.choice(sentences).split()
        words = _joined(first, second)
        if number % 2:
            words = rng.sample(first, len(first))
        sentence = " ".join(words)
        if sentence not in known and len(made) < count:
            made.append(sentence)
    return made


def joined_halves(
    examples: Sequence[Example], count: int, rng: random.Random
) -> list[str]:
    """At most `count` sentences that begin like a call of one function and end like one of another.

    >>> pairs = [Example("feed the cows", "feed(cows)"), Example("close all valves", "close()")]
    >>> joined_halves(pairs, 1, random.Random(0))
    ['feed the all valves']
    """
    by_function: dict[str, list[str]] = defaultdict(list)
    for example in examples:
        calls = calls_or_none(example.target)
        if calls:
            by_function[calls[0].name].append(example.source)
    if len(by_function) < 2:
        return []
    joined = []
    for _ in range(count):
        functions = rng.sample(sorted(by_function), 2)
        first, second = (rng.choice(by_function[name]).split() for name in functions)
        joined.append(" ".join(_joined(first, second)))
    return joined


def _joined(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The first half of some words, and the second half of others."""
    return [*first[: (len(first) + 1) // 2], *second[len(second) // 2 :]]


class Insertion(NamedTuple):
    """A sentence with words that change what it says, and these words."""

    sentence: str
    words: tuple[str, ...] = ()

    def is_in(self, program: str) -> bool:
        """Whether a program has one of the words."""
        return not set(self.words).isdisjoint(re.findall(r"\w+", program))


def with_insertions(
    sentences: Sequence[str], count: int, rng: random.Random
) -> list[Insertion]:
    """Sentences with one to four words more, before, behind or inside: words that nobody knows, and
    words of other sentences.

    >>> with_insertions(["turn on the lamp", "what time is it"], 1, random.Random(1))
    [Insertion(sentence='what turn on the lamp', words=('what',))]
    """
    vocabulary = sorted({word for sentence in sentences for word in sentence.split()})
    insertions = []
    for number in range(count):
        words = rng.choice(sentences).split()
        inserted = []
        for _ in range(rng.randint(1, MOST_INSERTED)):
            is_known = rng.random() < 0.5
            word = rng.choice(vocabulary) if is_known else _unknown_word(rng)
            inserted.append(word)
        places = 0, len(words), rng.randint(0, len(words))
        at = places[number % len(places)]
        sentence = " ".join((*words[:at], *inserted, *words[at:]))
        insertions.append(Insertion(sentence, tuple(inserted)))
    return insertions


def _unknown_word(rng: random.Random) -> str:
    """Letters that begin like no word."""
    letters: list[str] = []
    for _ in range(3):
        letters += (rng.choice("qzxwvkj"), rng.choice("aeiouy"))
    return "".join(letters)


def knowledge(
    parser: Parser, examples: Sequence[Example], *, has_seq2seq: bool
) -> Calibrator:
    """A calibrator that knows what training has, and answers everything; its weights are those of
    other datasets.

    `examples` are raw, as the parser reads them.
    """
    today = parser.model.text.slots.today
    parser = parser.with_options(replace(parser.options, today=today))
    derivations = list(right_derivations(parser, examples))
    vocabulary: set[str] = set()
    for example in examples:
        vocabulary.update(parser.model.text.tokenized(example.source)[0].words)
    return Calibrator(
        PRIORS[has_seq2seq],
        RulePairs.of(derivations, parser.grammar.numbers),
        contexts=known_contexts(parser.grammar, derivations),
        texts=known_texts(parser, examples, derivations),
        words=WordPairs.of(map(context_words, derivations)),
        vocabulary=tuple(sorted(vocabulary)),
        has_seq2seq=has_seq2seq,
    )


class Outcome(NamedTuple):
    """The best candidate for a held-out sentence: how sure it is, and whether it is right."""

    confidence: float
    is_right: bool
    is_new_template: bool
    is_in_scope: bool = True


def outcomes(
    sentences: Sequence[HeldOutSentence], precision: float = 0.0, *, has_seq2seq: bool
) -> list[Outcome]:
    """The best candidates for sentences that were not made, with weights that others taught.

    One that the wanted precision forbids whatever the threshold has confidence 0.
    """
    found = []
    for fold in range(TRIAL_FOLDS):
        others = [
            sentence
            for number, sentence in enumerate(sentences)
            if number % TRIAL_FOLDS != fold
        ]
        weights = Weights.fit(others, has_seq2seq=has_seq2seq)
        for sentence in sentences[fold::TRIAL_FOLDS]:
            if sentence.is_made:
                continue
            confidence, least, is_right = 0.0, 0.0, False
            for trial in sentence.candidates:
                trial_confidence = weights.confidence(trial.evidence)
                if trial_confidence > confidence:
                    confidence, is_right = trial_confidence, trial.is_right
                    least = trial.evidence.least_confidence(0.0, precision)
            if confidence < least:
                confidence = 0.0
            found.append(
                Outcome(
                    confidence, is_right, sentence.is_new_template, sentence.is_in_scope
                )
            )
    return found


def chosen_threshold(outcomes: Iterable[Outcome], precision: float) -> float | None:
    """The smallest confidence from which on held-out answers are precise enough, or None.

    They are if chance may explain what they lack (`are_precise`): one unlucky sentence among few
    must not silence the model. An answer that is rather wrong than right is not given, even if the
    surer ones make up for it.

    >>> right, wrong = Outcome(0.9, True, False), Outcome(0.6, False, False)
    >>> chosen_threshold([right] * 30 + [wrong] * 2, 0.95)
    0.6
    >>> chosen_threshold([right] * 30 + [wrong] * 3, 0.95)
    0.9
    """
    least = max(min(precision, EVEN_ODDS), SMALLEST_CONFIDENCE)
    ranked = sorted(
        (each for each in outcomes if each.confidence >= least), reverse=True
    )
    threshold, right = None, 0
    for count, outcome in enumerate(ranked, start=1):
        right += outcome.is_right
        # Answers with equal confidence are given together.
        is_last = count == len(ranked) or ranked[count].confidence < outcome.confidence
        if is_last and are_precise(right, count, precision):
            threshold = outcome.confidence
    return threshold


def are_precise(right: int, answers: int, precision: float) -> bool:
    """Whether so many answers are right that chance may explain what they lack of a precision.

    Of `n` answers with precision `p`, `n p` are right on average, with a standard deviation of
    `sqrt(n p (1 - p))`. Half of that may be missing. Answers that are too few to expect a wrong one
    among them show nothing: a few lucky ones must not decide.

    >>> are_precise(28, 30, 0.95), are_precise(27, 30, 0.95), are_precise(9, 9, 0.95)
    (True, False, False)
    """
    if answers * (1 - precision) < 1 - COUNT_ROUNDING:
        return False
    expected = precision * answers
    deviation = math.sqrt(expected * (1 - precision))
    return right >= expected - TOLERANCE * deviation


def expectation(outcomes: Sequence[Outcome], threshold: float) -> Expectation:
    """How the sentences fare if answers below the threshold are withheld."""
    answered = [
        outcome
        for outcome in outcomes
        if outcome.confidence >= max(threshold, SMALLEST_CONFIDENCE)
    ]
    right = sum(outcome.is_right for outcome in answered)
    return Expectation(len(outcomes), len(answered), right)


def fitted(
    calibrator: Calibrator, sentences: Sequence[HeldOutSentence], precision: float
) -> Calibrator:
    """The calibrator with weights and a threshold that fit held-out sentences."""
    has_seq2seq = calibrator.has_seq2seq
    best = outcomes(sentences, precision, has_seq2seq=has_seq2seq)
    threshold = chosen_threshold(best, precision)
    is_imprecise = threshold is None
    if threshold is None:
        threshold = EVEN_ODDS
    likely = [outcome for outcome in best if outcome.is_in_scope]
    new = [outcome for outcome in likely if outcome.is_new_template]
    others = [outcome for outcome in best if not outcome.is_in_scope]
    return replace(
        calibrator,
        weights=Weights.fit(sentences, has_seq2seq=has_seq2seq),
        threshold=threshold,
        least_precision=precision,
        is_imprecise=is_imprecise,
        expected=expectation(likely, threshold),
        new_templates=expectation(new, threshold),
        out_of_scope=expectation(others, threshold),
    )


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


def known_texts(
    parser: Parser, examples: Iterable[Example], derivations: Iterable[Derivation]
) -> KnownTexts:
    """What the free texts in derivations of examples are like."""
    slots = parser.grammar.slots
    if slots is None or not slots.free_text:
        return KnownTexts()
    by_words: dict[tuple[str, ...], TokenizedSentence] = {}
    for example in examples:
        for sentence in parser.model.text.tokenized(example.source):
            by_words.setdefault(sentence.words, sentence)
    uses = []
    for derivation in derivations:
        read = by_words.get(derivation.source)
        uses.append(TextUse.of(derivation, slots.free_text, read))
    return KnownTexts.of(uses)


def used_rules(grammar: Grammar, examples: Sequence[Example]) -> Grammar:
    """The rules in derivations of the examples: those that could be learned from them."""
    sources = [example.source_tokens for example in examples]
    targets = [example.target_tokens for example in examples]
    instances = instantiate_slots(grammar, sources)
    goal = goal_charts(instances, charts(instances, sources), targets)
    used = np.unique(instances.model_rule_ids(goal.rules)).tolist()
    return replace(grammar, rules=tuple(grammar[rule] for rule in used))
