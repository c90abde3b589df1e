"""Confidence: how likely an answer is to be right, which its probability within the grammar does not say.

That probability compares the readings that a grammar has of a sentence; the only reading has probability 1, however odd
it is. What tells right from wrong is how new a derivation is: whether its rules fill slots of other rules that they
filled in derivations of the training examples too and, if not, how surprising that is. A `Calibrator` weighs both. It
is fitted to answers about held-out training examples (`nqg.evaluation.calibration`), and is part of a model folder.
Free text can swallow anything: what training has as values of other slots behind the same words speaks against it.
A typo can be a known word, too: one among words among which training rather has a similar one is not sure to be meant.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import cached_property, lru_cache
from itertools import chain, product
from operator import mul
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nqg.errors import FormatError, SettingsError
from nqg.files import read_json, write_text
from nqg.grammar.arrays import FloatArray
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar, Rule, SlotInstance
from nqg.settings_reader import read_dataclass
from nqg.slots.mention import Mention

CONFIDENCE_FILE = "confidence.json"  # in a model folder
MOST_COUNT = 1 << 53  # of a pair: more is no number of examples, and too much for arithmetic
ROOT_PARENT = -1  # the parent of a derivation's first rule
LEAST_CONFIDENCE = 0.5  # where trials do not tell which is enough
MOST_LOG_ODDS = (
    8.0  # a probability of 0.9997: what lies beyond depends on how long a model was trained
)
MOST_SUPPORT = 20  # times that a pair was seen; more make no difference
MOST_UNSEEN = 3  # pairs; answers with more are wrong as often as those with three
# Of each weight; it takes more than a few trials to believe that what is new is right.
PRIOR_PRECISION = (0.5, 0.5, 2.0, 0.5, 2.0, 0.5, 0.5)
REACH = 3  # words to either side, which tell whether one is in its place
# At most, where a word may be a typo. It is taken to be one as often as not; on folds of GeoQuery and COGS half of the
# answers to typos were right, and all others that would have been sure.
DOUBTED = 0.75


class RulePair(NamedTuple):
    """A rule that fills a slot of another one: the numbers of both in the grammar, and the slot's, left to right."""

    parent: int
    slot: int
    child: int


def rule_pairs(derivation: Derivation, numbers: Mapping[Rule, int]) -> Iterator[RulePair]:
    """The pairs of a derivation, that of its root included."""
    rules = [numbers[each.rule] for each in derivation.hyperedges]
    yield RulePair(ROOT_PARENT, 0, rules[0])
    for parent, children in zip(rules, derivation.child_numbers(), strict=True):
        for slot, child in enumerate(children):
            yield RulePair(parent, slot, rules[child])


@dataclass(frozen=True)
class RulePairs:
    """How often each pair of rules occurs in the derivations of the training examples."""

    rows: tuple[tuple[int, int, int, int], ...]  # parent, slot, child, count

    @classmethod
    def of(cls, derivations: Iterable[Derivation], numbers: Mapping[Rule, int]) -> RulePairs:
        counts = Counter(pair for each in derivations for pair in rule_pairs(each, numbers))
        return cls(tuple((*pair, count) for pair, count in sorted(counts.items())))

    @cached_property
    def children(self) -> Mapping[tuple[int, int], Counter[int]]:
        """What fills each slot, and how often."""
        found: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
        for parent, slot, child, count in self.rows:
            found[parent, slot][child] += count
        return dict(found)

    @cached_property
    def slots(self) -> Mapping[int, Counter[tuple[int, int]]]:
        """What each rule fills, and how often."""
        found: dict[int, Counter[tuple[int, int]]] = defaultdict(Counter)
        for parent, slot, child, count in self.rows:
            found[child][parent, slot] += count
        return dict(found)

    def count(self, pair: RulePair) -> int:
        return self.children.get((pair.parent, pair.slot), Counter[int]())[pair.child]

    def unseen(self, pairs: Iterable[RulePair], trained: float = math.inf) -> int:
        """How many pairs training never had; of those of rules by hand, from number `trained` on, it can have none."""
        return sum(
            max(pair.parent, pair.child) < trained and not self.count(pair) for pair in {*pairs}
        )

    def expected(self, pair: RulePair) -> float:
        """How often a pair should have been seen, to judge by the company of its child; 0 where that speaks against it.

        A rule that can fill a slot is known by its company. Go from the slot to a rule that fills it, to a slot that
        this rule fills, to a rule that fills that slot: such walks end at the child with some probability, and as often
        as the slot was filled, the child could have been met there. Where no walk leads to it, it is of another kind
        than the rules that fill the slot.
        """
        found = 0.0
        for filler, count in self.children.get((pair.parent, pair.slot), Counter[int]()).items():
            slots = self.slots[filler]
            for slot, times in slots.items():
                others = self.children[slot]
                found += count * times / slots.total() * others[pair.child] / others.total()
        return found


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for and against an answer: its probability, and how well training knew the pairs of its derivation.

    `support` is how often training had the rarest of them, `unseen` how many it never had. Of these, `surprise` is the
    probability that it would have had one, if all are possible; `foreign` says that one of them puts a rule into a slot
    that only rules of other kinds fill.
    """

    probability: float
    support: int
    unseen: int = 0
    surprise: float = 0.0
    foreign: bool = False

    @classmethod
    def of(
        cls,
        probability: float,
        pairs: Iterable[RulePair],
        known: RulePairs,
        trained: float = math.inf,
    ) -> Evidence:
        """The evidence for a derivation with these pairs; rules from number `trained` on were written by hand.

        That training never had a rule by hand is no surprise, and tells nothing of its kind.
        """
        counts = {pair: known.count(pair) for pair in pairs}
        unseen = [pair for pair, count in counts.items() if not count]
        expected = [
            known.expected(pair) for pair in unseen if max(pair.parent, pair.child) < trained
        ]
        return cls(
            probability,
            min(counts.values()),
            len(unseen),
            1 - math.exp(-sum(expected)),
            0.0 in expected,
        )

    def features(self) -> tuple[float, ...]:
        """What is weighed, in the order of `Weights`."""
        chance = min(max(self.probability, 1e-12), 1 - 1e-12)
        log_odds = min(max(math.log(chance / (1 - chance)) / MOST_LOG_ODDS, -1.0), 1.0)
        pairs = (
            math.log1p(min(self.support, MOST_SUPPORT)) / math.log1p(MOST_SUPPORT),
            float(min(self.unseen, MOST_UNSEEN)),
        )
        if self.foreign:
            return 0.0, 0.0, 0.0, 0.0, 1.0, *pairs
        known, new = 1 - self.surprise, self.surprise
        return known, known * log_odds, new, new * log_odds, 0.0, *pairs


class Observation(NamedTuple):
    """An answer to a held-out example."""

    evidence: Evidence
    is_right: bool


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a logistic regression; the defaults are what is believed before the first trial.

    Those for what is known and for what is new are mixed by how surprising an answer is, so that thousands of known
    combinations that are right say nothing about a new one. Until trials have shown otherwise, the only reading of
    known combinations is right seven times in eight, as on folds of most data, and a new or foreign one one in four.
    """

    known: float = 0.0
    known_log_odds: float = 2.0  # never negative
    new: float = -1.0
    new_log_odds: float = 0.0  # never negative
    foreign: float = -1.0
    support: float = 0.0  # never negative
    unseen: float = 0.0  # never positive

    def __post_init__(self) -> None:
        if min(self.known_log_odds, self.new_log_odds, self.support, -self.unseen) < 0:
            raise SettingsError(
                f"{self}: expected log odds and support of 0 or more, and unseen pairs of 0 or less"
            )

    def confidence(self, evidence: Evidence) -> float:
        """The probability of being right.

        >>> weights = Weights(known=3.0, unseen=-1.0)
        >>> evidence = Evidence(0.9, support=5), Evidence(1.0, support=0, unseen=1, surprise=0.7)
        >>> [round(weights.confidence(each), 2) for each in evidence]
        [0.97, 0.45]
        """
        logit = sum(map(mul, astuple(self), evidence.features()))
        return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0

    @classmethod
    def fit(cls, observations: Sequence[Observation]) -> Weights:
        """The most probable weights: a Gaussian prior around the defaults, and signs that are never wrong.

        The posterior is concave, so it is highest where it is highest with some of the signed weights held at 0.
        """
        prior, precision = np.array(astuple(cls())), np.array(PRIOR_PRECISION)
        features = np.array([each.evidence.features() for each in observations]).reshape(
            -1, len(prior)
        )
        rights = np.array([each.is_right for each in observations], dtype=float)
        signs = np.array([0, 1, 0, 1, 0, 1, -1])
        best: tuple[float, FloatArray] = (math.inf, prior)
        for held in product((False, True), repeat=int(np.abs(signs).sum())):
            free = signs == 0
            free[~free] = ~np.array(held)
            weights = np.zeros(len(prior))
            weights[free], loss = newton(features[:, free], rights, prior[free], precision[free])
            loss += float(precision[~free] @ prior[~free] ** 2 / 2)
            if loss < best[0] and (weights * signs >= 0).all():
                best = loss, weights
        return cls(*best[1].tolist())


def newton(
    features: FloatArray, rights: FloatArray, prior: FloatArray, precision: FloatArray
) -> tuple[FloatArray, float]:
    """The weights of a logistic regression with a Gaussian prior that lose least, and what they lose."""

    def loss(weights: FloatArray) -> float:
        losses = np.logaddexp(0, np.where(rights > 0, -1, 1) * (features @ weights))
        return float(losses.sum() + precision @ (weights - prior) ** 2 / 2)

    weights = prior.copy()
    for _ in range(100):
        chances = np.exp(-np.logaddexp(0, -(features @ weights)))
        gradient = features.T @ (chances - rights) + precision * (weights - prior)
        curvature = (features.T * (chances * (1 - chances))) @ features + np.diag(precision)
        step, size, before = np.linalg.solve(curvature, gradient), 1.0, loss(weights)
        while size > 1e-6 and loss(weights - size * step) > before:
            size /= 2
        weights = weights - size * step
        if float(np.abs(size * step).max(initial=0.0)) < 1e-10:
            break
    return weights, loss(weights)


@dataclass(frozen=True, slots=True)
class CorrectionTrials:
    """How many answers were given although a word was read as another, and how many of them were right.

    >>> CorrectionTrials(8, 8).share, CorrectionTrials().share
    (0.9, 0.5)
    """

    answers: int = 0
    right: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.answers < MOST_COUNT:
            raise SettingsError(f"{self}: expected as many answers as are right, or more")

    @property
    def share(self) -> float:
        """The probability that a correction leaves a right answer right; before the first trial it is one half."""
        return (self.right + 1) / (self.answers + 2)


class ValueContext(NamedTuple):
    """A value of a slot in a derivation, and the word before it; `in_text` says that it is a part of free text."""

    word: str
    slot: str
    in_text: bool


def value_contexts(
    derivation: Derivation, mentions: Iterable[Mention], free_text: Container[str]
) -> Iterator[ValueContext]:
    """The values in a derivation, and what the sentence mentions inside of its free text, behind another word of it."""
    words, mentions = derivation.source, list(mentions)
    for rule, span in ((each.rule, each.span) for each in derivation.hyperedges):
        if not isinstance(rule, SlotInstance):
            continue
        if rule.slot in free_text:
            inside = (each for each in mentions if span.start < each.start and each.end <= span.end)
            yield from (ValueContext(words[each.start - 1], each.slot, True) for each in inside)
        elif span.start:
            yield ValueContext(words[span.start - 1], rule.slot, False)


@dataclass(frozen=True)
class KnownContexts:
    """Words before values of a slot, and how often: those of training before which none is a part of free text.

    >>> as_value, in_text = ValueContext("at", "time", False), ValueContext("at", "time", True)
    >>> KnownContexts.of([as_value] * 3).share([in_text]), KnownContexts.of([as_value, in_text]).share([in_text])
    (0.2, 1.0)
    """

    rows: tuple[tuple[str, str, int], ...] = ()  # word, slot, count

    def __post_init__(self) -> None:
        if wrong := [list(row) for row in self.rows if not 0 < row[2] < MOST_COUNT]:
            raise SettingsError(f"expected how often a value was seen, found {wrong[0]}")

    @classmethod
    def of(cls, contexts: Iterable[ValueContext]) -> KnownContexts:
        counts = Counter(contexts)
        values = (
            each
            for each in sorted(counts)
            if not each.in_text and not counts[each._replace(in_text=True)]
        )
        return cls(tuple((each.word, each.slot, counts[each]) for each in values))

    @cached_property
    def counts(self) -> Mapping[tuple[str, str], int]:
        return {(word, slot): count for word, slot, count in self.rows}

    def share(self, contexts: Iterable[ValueContext]) -> float:
        """The probability that text with such values in it is text, given how often they were values of their own."""
        found = (self.counts.get((each.word, each.slot), 0) for each in contexts if each.in_text)
        return min((1 / (count + 2) for count in found if count), default=1.0)


class SaidWord(NamedTuple):
    """A word of a sentence, or the slot of a value in it; `typed` is the one word that may be a typo, if it is one."""

    token: str
    typed: str | None


def said_words(derivation: Derivation, free_text: Container[str] = ()) -> list[SaidWord]:
    """What a derivation reads, with its beginning and end; free text is never a typo."""
    source, at, said = derivation.source, 0, [SaidWord("", None)]
    values = {
        each.span.start: each
        for each in derivation.hyperedges
        if isinstance(each.rule, SlotInstance)
    }
    while at < len(source):
        typed: str | None = source[at]
        token, end = source[at], at + 1
        if value := values.get(at):
            assert isinstance(value.rule, SlotInstance)
            token, end = value.rule.terminal, value.span.end
            typed = typed if end == at + 1 and value.rule.slot not in free_text else None
        said.append(SaidWord(token, typed))
        at = end
    return [*said, SaidWord("", None)]


@dataclass(frozen=True)
class WordPairs:
    """Which words training has at most `REACH` words apart, in derivations that are right.

    >>> said = [[SaidWord(word, word) for word in each.split()] for each in ("what is the area", "us the area")]
    >>> [WordPairs.of(said[:1]).doubts(each, {"us": ["is"]}.get) for each in said]
    [False, True]
    """

    rows: tuple[tuple[str, str, int], ...] = ()  # left, right, how far apart

    def __post_init__(self) -> None:
        if wrong := [list(row) for row in self.rows if not 0 < row[2] <= REACH]:
            raise SettingsError(
                f"expected two words and how far apart they are, at most {REACH}, found {wrong[0]}"
            )

    @classmethod
    def of(cls, sentences: Iterable[Sequence[SaidWord]]) -> WordPairs:
        tokens = ([word.token for word in said] for said in sentences)
        pairs = {
            (each[left], each[right], right - left)
            for each in tokens
            for left, right in near(len(each))
        }
        return cls(tuple(sorted(pairs)))

    @cached_property
    def known(self) -> frozenset[tuple[str, str, int]]:
        return frozenset(self.rows)

    def unseen(self, tokens: Sequence[str]) -> Counter[int]:
        """How many words around each place training never has so far from what is there."""
        known = self.known
        pairs = [
            each
            for each in near(len(tokens))
            if (tokens[each[0]], tokens[each[1]], each[1] - each[0]) not in known
        ]
        return Counter(chain.from_iterable(pairs))

    def doubts(
        self, said: Sequence[SaidWord], similar: Callable[[str], Iterable[str] | None]
    ) -> bool:
        """Whether a word may be a typo: training has more of the words around it around a similar one."""
        tokens = [word.token for word in said]
        for at, count in self.unseen(tokens).items() if self.rows else ():
            typed, first = said[at].typed, max(at - REACH, 0)
            for other in (typed and similar(typed)) or ():
                around = [*tokens[first:at], other, *tokens[at + 1 : at + 1 + REACH]]
                if self.unseen(around)[at - first] < count:
                    return True
        return False


@lru_cache(1 << 8)
def near(count: int) -> list[tuple[int, int]]:
    """Those of so many places that are at most `REACH` apart."""
    return [
        (left, right)
        for left in range(count)
        for right in range(left + 1, min(left + REACH + 1, count))
    ]


@dataclass(frozen=True, slots=True)
class Calibrator:
    """What gives the answers of one model their confidence, and how many trials it was fitted to.

    Below `least_confidence` a model with free text does not answer.
    """

    weights: Weights
    pairs: RulePairs
    trials: int
    right: int
    corrections: CorrectionTrials = CorrectionTrials()
    least_confidence: float = LEAST_CONFIDENCE
    contexts: KnownContexts = KnownContexts()
    words: WordPairs = WordPairs()

    def __post_init__(self) -> None:
        if not 0 <= self.least_confidence <= 1:
            raise SettingsError(
                f"least_confidence is {self.least_confidence}; expected a number from 0 to 1"
            )

    def confidence(
        self, probability: float, pairs: Iterable[RulePair], trained: float = math.inf
    ) -> float:
        """How likely an answer is to be right, given its probability and the pairs of its derivation."""
        return self.weights.confidence(Evidence.of(probability, pairs, self.pairs, trained))

    def __str__(self) -> str:
        return f"confidence from {self.trials:,} answers to held-out examples, {self.right:,} of them right"

    def write(self, path: Path) -> None:
        """Write it as JSON; `read` gives it back."""
        write_text(path, json.dumps(asdict(self)) + "\n")

    @classmethod
    def read(cls, path: Path, grammar: Grammar) -> Calibrator:
        """What `write` wrote for a model with this grammar; anything else is refused with the reason."""
        found = read_dataclass(cls, read_json(path), "the calibrator", path)
        for row in found.pairs.rows:
            parent, slot, child, count = row
            arity = (
                1
                if parent == ROOT_PARENT
                else grammar[parent].arity
                if 0 <= parent < len(grammar)
                else 0
            )
            if not (0 <= slot < arity and 0 <= child < len(grammar) and 0 < count < MOST_COUNT):
                expected = (
                    f"a slot of one of {len(grammar)} rules, a rule that fills it, and how often"
                )
                raise FormatError(f"the calibrator: expected {expected}, found {list(row)}", path)
        return found
