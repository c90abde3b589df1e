"""Confidence: how likely an answer is to be right, which its probability within the grammar does
not say.

The probability compares the readings that a grammar has of a sentence; the only reading has
probability 1, however odd it is. What tells right from wrong is how new a derivation is: whether
its rules are arguments of the same rules as in derivations of the training examples and, if not,
how surprising that is. A `Calibrator` weighs both. It is fitted to answers to held-out training
examples (`nqg.evaluation.calibration`), and is stored in the model folder. Two signs lower a
confidence:

- Free text can contain anything. What training has as values of other slots behind the same words
  speaks against a reading that makes it free text (`KnownContexts`).
- A real-word typo ("us" for "is") is suspected where a similar word fits its context better
  (`WordPairs`). A corrected typo costs confidence, too (`CorrectionTrials`).

The tuned numbers, here and where confidence is learned:

- MOST_LOG_ODDS 8: a probability over 0.9997 counts as 0.9997. Not measured.
- MOST_SUPPORT 20: a pair that was seen more often counts as 20 times. Not measured.
- MOST_UNSEEN 3: more unseen pairs count as three. Seen on folds; not shown.
- `Weights`, seven means: confidence before the first trial. Folds of most data; not shown.
- `Weights`, seven precisions: how many trials it takes to change that. Not measured.
- CONTEXT_WINDOW 3: words to either side that reveal a typo. docs/parsing.md shows the effect.
- MAX_SUSPECT_CONFIDENCE 0.75: of a suspected typo. Folds of GeoQuery and COGS; docs/parsing.md.
- LEAST_CONFIDENCE 0.5: below it a model with free text abstains if trials do not tell what is
  enough. SNIPS and home assistants; docs/slots.md.
- 1 / (count + 2), in `KnownContexts` and `CorrectionTrials`: a prior of one half. Not measured.
- `nqg.evaluation.calibration`: LEAST_PRECISION 0.8 (SNIPS and home assistants; docs/slots.md);
  five folds of trials, and 5, 8 or 4 folds of examples (not measured).
- `nqg.pipeline.confidence`: FOLD_STEPS 1.75 and FREE_TEXT_FOLDS 5 (docs/training.md has their
  cost).
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from functools import cached_property
from itertools import product
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nqg.errors import FormatError, SettingsError
from nqg.files import read_json, write_text
from nqg.grammar.arrays import FloatArray
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar, Rule, SlotInstance
from nqg.settings_reader import read_dataclass
from nqg.slots.matcher import Mention

CONFIDENCE_FILE = "confidence.json"  # in a model folder
MOST_COUNT = (
    1 << 53
)  # of a pair: more is not a number of examples, and too much for arithmetic
ROOT_PARENT = -1  # the parent of a derivation's first rule
LEAST_CONFIDENCE = 0.5
# Beyond these odds a probability depends on how long a model was trained.
MOST_LOG_ODDS = 8.0
MOST_SUPPORT = 20
MOST_UNSEEN = 3
CONTEXT_WINDOW = 3
# A suspected word is a typo as often as not. On folds of GeoQuery and COGS half of the answers to
# typos were right, and so were all other answers whose confidence would have been high.
MAX_SUSPECT_CONFIDENCE = 0.75


class RulePair(NamedTuple):
    """A rule as an argument of another one: the numbers of both in the grammar, and the
    argument's.
    """

    parent: int
    argument: int
    child: int


def rule_pairs(
    derivation: Derivation, numbers: Mapping[Rule, int]
) -> Iterator[RulePair]:
    """The pairs of a derivation, that of its root included."""
    rules = [numbers[hyperedge.rule] for hyperedge in derivation.hyperedges]
    yield RulePair(ROOT_PARENT, 0, rules[0])
    for parent, children in zip(rules, derivation.child_numbers()):
        for argument, child in enumerate(children):
            yield RulePair(parent, argument, rules[child])


@dataclass(frozen=True)
class RulePairs:
    """How often each pair of rules occurs in the derivations of the training examples."""

    rows: tuple[tuple[int, int, int, int], ...]  # parent, argument, child, count

    @classmethod
    def of(
        cls, derivations: Iterable[Derivation], numbers: Mapping[Rule, int]
    ) -> RulePairs:
        counts: Counter[RulePair] = Counter()
        for derivation in derivations:
            counts.update(rule_pairs(derivation, numbers))
        return cls(tuple((*pair, count) for pair, count in sorted(counts.items())))

    @cached_property
    def children(self) -> Mapping[tuple[int, int], Counter[int]]:
        """The rules that are each argument, and how often."""
        counts: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
        for parent, argument, child, count in self.rows:
            counts[parent, argument][child] += count
        return counts

    @cached_property
    def arguments(self) -> Mapping[int, Counter[tuple[int, int]]]:
        """The arguments that each rule is, and how often."""
        counts: dict[int, Counter[tuple[int, int]]] = defaultdict(Counter)
        for parent, argument, child, count in self.rows:
            counts[child][parent, argument] += count
        return counts

    def count(self, pair: RulePair) -> int:
        return self.children[pair[:2]][pair.child]

    def unseen(self, pairs: Iterable[RulePair], trained: float = math.inf) -> int:
        """How many pairs training never had.

        Pairs of rules by hand, from number `trained` on, do not count: training could not have any.
        """
        learned = {pair for pair in pairs if max(pair.parent, pair.child) < trained}
        return sum(not self.count(pair) for pair in learned)

    def expected(self, pair: RulePair) -> float:
        """How often a pair should have been seen, judged by the distribution of its child.

        Go from the argument to a rule that it was, to an argument that this rule was, to a rule
        that this argument was: such walks end at the child with some probability, and as often as
        the argument was seen, the child could have been met there. If no walk leads to the child
        (0), it is of another type than the rules that the argument was.
        """
        expected = 0.0
        for sibling, count in self.children[pair[:2]].items():
            arguments = self.arguments[sibling]
            for argument, times in arguments.items():
                children = self.children[argument]
                reached = count * times / arguments.total()
                expected += reached * children[pair.child] / children.total()
        return expected


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a confidence is computed from: the probability, and how well training knew the pairs.

    `support` is how often training had the rarest pair of the derivation, `unseen` how many it
    never had. `surprise` is the probability that it would have had one of these if all are
    possible; `foreign` says that one of them has a child of another type than all that the argument
    was.
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
        """The evidence for a derivation with these pairs; rules from `trained` on were written by
        hand.

        That training never had a rule by hand is not surprising, and says nothing about its type.
        """
        counts = {pair: known.count(pair) for pair in pairs}
        unseen = [pair for pair, count in counts.items() if not count]
        # Pairs with rules by hand count as unseen, but not as surprising.
        learned = [pair for pair in unseen if max(pair.parent, pair.child) < trained]
        expected = [known.expected(pair) for pair in learned]
        # With Poisson counts, this is the chance that one of them would have been seen.
        surprise = 1 - math.exp(-sum(expected))
        return cls(
            probability, min(counts.values()), len(unseen), surprise, 0.0 in expected
        )

    def features(self) -> tuple[float, ...]:
        """What is weighed, in the order of `Weights`."""
        # Odds are not finite at 0 and 1: keep the probability away from both.
        probability = min(max(self.probability, 1e-12), 1 - 1e-12)
        log_odds = math.log(probability / (1 - probability)) / MOST_LOG_ODDS
        log_odds = min(max(log_odds, -1.0), 1.0)
        values = {
            "known": 1 - self.surprise,
            "known_log_odds": (1 - self.surprise) * log_odds,
            "new": self.surprise,
            "new_log_odds": self.surprise * log_odds,
        }
        # Beside a foreign pair, neither probability nor surprise is weighed.
        if self.foreign:
            values = {"foreign": 1.0}
        values["support"] = math.log1p(min(self.support, MOST_SUPPORT)) / math.log1p(
            MOST_SUPPORT
        )
        values["unseen"] = float(min(self.unseen, MOST_UNSEEN))
        return tuple(values.get(weight.name, 0.0) for weight in fields(Weights))


class Observation(NamedTuple):
    """An answer to a held-out example."""

    evidence: Evidence
    is_right: bool


def _weight(mean: float, precision: float, sign: int = 0) -> Any:
    """A weight with a Gaussian prior and, unless `sign` is 0, a sign that it must have."""
    return field(default=mean, metadata={"precision": precision, "sign": sign})


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a logistic regression, and what is believed of them before the first trial.

    The weights for what is known and for what is new are mixed by how surprising an answer is, so
    that thousands of known combinations that are right say nothing about a new one. The prior: the
    only reading of known combinations is right seven times in eight, as on folds of most data, and
    a new or foreign one once in four. It takes more than a few trials to believe that what is new
    is right.
    """

    known: float = _weight(0.0, 0.5)
    known_log_odds: float = _weight(2.0, 0.5, sign=1)
    new: float = _weight(-1.0, 2.0)
    new_log_odds: float = _weight(0.0, 0.5, sign=1)
    foreign: float = _weight(-1.0, 2.0)
    support: float = _weight(0.0, 0.5, sign=1)
    unseen: float = _weight(0.0, 0.5, sign=-1)

    def __post_init__(self) -> None:
        for weight in fields(self):
            if getattr(self, weight.name) * weight.metadata["sign"] < 0:
                expected = (
                    "log odds and support of 0 or more, and unseen pairs of 0 or less"
                )
                raise SettingsError(f"{self}: expected {expected}")

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
        """The most probable weights that have the right signs.

        The posterior is concave: its constrained maximum is the best of the maxima with some of the
        signed weights held at 0 that have the right signs. There are 16 of them.
        """
        prior = np.array(astuple(cls()))
        precision = np.array([weight.metadata["precision"] for weight in fields(cls)])
        signs = np.array([weight.metadata["sign"] for weight in fields(cls)])
        rows = [observation.evidence.features() for observation in observations]
        features = np.array(rows).reshape(-1, len(prior))
        rights = np.array([float(observation.is_right) for observation in observations])
        best, least_loss = prior, math.inf
        # Try every choice of signed weights to leave free; the others are held at 0.
        for is_free in product((True, False), repeat=int(np.count_nonzero(signs))):
            free = signs == 0
            free[~free] = is_free
            weights = np.zeros(len(prior))
            weights[free], loss = newton(
                features[:, free], rights, prior[free], precision[free]
            )
            # Weights that are held at 0 still pay for their distance from the prior.
            loss += float(precision[~free] @ prior[~free] ** 2 / 2)
            if loss < least_loss and (weights * signs >= 0).all():
                best, least_loss = weights, loss
        return cls(*best.tolist())


def newton(
    features: FloatArray, rights: FloatArray, prior: FloatArray, precision: FloatArray
) -> tuple[FloatArray, float]:
    """The weights of least loss of a logistic regression with a Gaussian prior, and their loss."""

    def loss(weights: FloatArray) -> float:
        losses = np.logaddexp(0, np.where(rights > 0, -1, 1) * (features @ weights))
        return float(losses.sum() + precision @ (weights - prior) ** 2 / 2)

    weights = prior
    for _ in range(100):
        chances = np.exp(-np.logaddexp(0, -(features @ weights)))
        gradient = features.T @ (chances - rights) + precision * (weights - prior)
        curvature = (features.T * (chances * (1 - chances))) @ features + np.diag(
            precision
        )
        step = np.linalg.solve(curvature, gradient)
        # Halve the step until it does not raise the loss.
        size, before = 1.0, loss(weights)
        while size > 1e-6 and loss(weights - size * step) > before:
            size /= 2
        weights = weights - size * step
        if np.abs(size * step).max(initial=0.0) < 1e-10:
            break
    return weights, loss(weights)


@dataclass(frozen=True, slots=True)
class CorrectionTrials:
    """How many answers were given although a word was read as another, and how many were right.

    >>> CorrectionTrials(8, 8).share, CorrectionTrials().share
    (0.9, 0.5)
    """

    answers: int = 0
    right: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.answers < MOST_COUNT:
            raise SettingsError(
                f"{self}: expected as many answers as are right, or more"
            )

    @property
    def share(self) -> float:
        """The probability that a right answer stays right; one half before the first trial."""
        return (self.right + 1) / (self.answers + 2)


class ValueContext(NamedTuple):
    """A value of a slot in a derivation, and the word before it; `in_text`: inside of free text."""

    word: str
    slot: str
    in_text: bool


def value_contexts(
    derivation: Derivation, mentions: Sequence[Mention], free_text: Container[str]
) -> Iterator[ValueContext]:
    """The values in a derivation, and what its free text mentions behind its first word."""
    words = derivation.source
    for hyperedge in derivation.hyperedges:
        rule, span = hyperedge.rule, hyperedge.span
        if not isinstance(rule, SlotInstance):
            continue
        if rule.slot in free_text:
            for mention in mentions:
                if span.start < mention.start and mention.end <= span.end:
                    yield ValueContext(words[mention.start - 1], mention.slot, True)
        elif span.start:
            yield ValueContext(words[span.start - 1], rule.slot, False)


@dataclass(frozen=True)
class KnownContexts:
    """How often training has values of a slot behind a word behind which free text has none.

    >>> as_value, in_text = ValueContext("at", "time", False), ValueContext("at", "time", True)
    >>> KnownContexts.of([as_value] * 3).share([in_text])
    0.2
    >>> KnownContexts.of([as_value, in_text]).share([in_text])
    1.0
    """

    rows: tuple[tuple[str, str, int], ...] = ()  # word, slot, count

    def __post_init__(self) -> None:
        for row in self.rows:
            if not 0 < row[2] < MOST_COUNT:
                raise SettingsError(
                    f"expected how often a value was seen, found {list(row)}"
                )

    @classmethod
    def of(cls, contexts: Iterable[ValueContext]) -> KnownContexts:
        counts = Counter(contexts)
        rows = []
        for context, count in sorted(counts.items()):
            if not context.in_text and not counts[context._replace(in_text=True)]:
                rows.append((context.word, context.slot, count))
        return cls(tuple(rows))

    @cached_property
    def counts(self) -> Mapping[tuple[str, str], int]:
        return {(word, slot): count for word, slot, count in self.rows}

    def share(self, contexts: Iterable[ValueContext]) -> float:
        """The probability that free text with such values in it is free text."""
        counts = [
            self.counts.get(context[:2], 0) for context in contexts if context.in_text
        ]
        return min((1 / (count + 2) for count in counts if count), default=1.0)


class ContextWord(NamedTuple):
    """A token of a sentence, or the slot of a value; `word` is the one word that may be a typo."""

    token: str
    word: str | None


def context_words(
    derivation: Derivation, free_text: Container[str] = ()
) -> list[ContextWord]:
    """What a derivation reads, with its beginning and end; words of free text are never typos."""
    # Slots read their words whole: note where each value starts and ends.
    values = {}
    for hyperedge in derivation.hyperedges:
        if isinstance(hyperedge.rule, SlotInstance):
            values[hyperedge.span.start] = hyperedge.rule, hyperedge.span.end
    source, at = derivation.source, 0
    words = [ContextWord("", None)]
    while at < len(source):
        word = source[at]
        if at in values:
            rule, end = values[at]
            is_word = end == at + 1 and rule.slot not in free_text
            words.append(ContextWord(rule.terminal, word if is_word else None))
        else:
            end = at + 1
            words.append(ContextWord(word, word))
        at = end
    return [*words, ContextWord("", None)]


@dataclass(frozen=True)
class WordPairs:
    """Which words training has at most `CONTEXT_WINDOW` words apart, in derivations that are right.

    >>> right, typo = "what is the area".split(), "us the area".split()
    >>> pairs = WordPairs.of([[ContextWord(word, word) for word in right]])
    >>> pairs.is_suspect([ContextWord(word, word) for word in typo], {"us": ["is"]}.get)
    True
    """

    rows: tuple[tuple[str, str, int], ...] = ()  # left, right, how far apart

    def __post_init__(self) -> None:
        for row in self.rows:
            if not 0 < row[2] <= CONTEXT_WINDOW:
                expected = (
                    f"two words and how far apart they are, at most {CONTEXT_WINDOW}"
                )
                raise SettingsError(f"expected {expected}, found {list(row)}")

    @classmethod
    def of(cls, sentences: Iterable[Sequence[ContextWord]]) -> WordPairs:
        pairs = set()
        for words in sentences:
            for left, right in _near(len(words)):
                pairs.add((words[left].token, words[right].token, right - left))
        return cls(tuple(sorted(pairs)))

    @cached_property
    def seen(self) -> frozenset[tuple[str, str, int]]:
        return frozenset(self.rows)

    def unseen(self, tokens: Sequence[str]) -> Counter[int]:
        """How many words around each token training never has so far from it."""
        counts: Counter[int] = Counter()
        for left, right in _near(len(tokens)):
            if (tokens[left], tokens[right], right - left) not in self.seen:
                counts.update((left, right))
        return counts

    def is_suspect(
        self,
        words: Sequence[ContextWord],
        similar: Callable[[str], Iterable[str] | None],
    ) -> bool:
        """Whether a word may be a typo: training has more of its context around a similar word."""
        if not self.rows:
            return False
        tokens = [word.token for word in words]
        for at, count in self.unseen(tokens).items():
            word, first = words[at].word, max(at - CONTEXT_WINDOW, 0)
            if word is None:
                continue
            # Is the same context better known around a word that looks alike?
            for neighbour in similar(word) or ():
                after = tokens[at + 1 : at + 1 + CONTEXT_WINDOW]
                context = [*tokens[first:at], neighbour, *after]
                if self.unseen(context)[at - first] < count:
                    return True
        return False


def _near(count: int) -> Iterator[tuple[int, int]]:
    """The pairs among so many positions that are at most `CONTEXT_WINDOW` apart."""
    for left in range(count):
        for right in range(left + 1, min(left + CONTEXT_WINDOW + 1, count)):
            yield left, right


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
        """How likely an answer is to be right, given its probability and the pairs of its
        derivation.
        """
        return self.weights.confidence(
            Evidence.of(probability, pairs, self.pairs, trained)
        )

    def __str__(self) -> str:
        answers = f"{self.trials:,} answers to held-out examples, {self.right:,} of them right"
        return f"confidence from {answers}"

    def write(self, path: Path) -> None:
        """Write it as JSON; `read` gives it back."""
        write_text(path, json.dumps(asdict(self)) + "\n")

    @classmethod
    def read(cls, path: Path, grammar: Grammar) -> Calibrator:
        """What `write` wrote for a model with this grammar; anything else is refused with the
        reason.
        """
        calibrator = read_dataclass(cls, read_json(path), "the calibrator", path)
        arities = {number: rule.arity for number, rule in enumerate(grammar.rules)}
        arities[ROOT_PARENT] = 1
        for row in calibrator.pairs.rows:
            parent, argument, child, count = row
            is_pair = 0 <= argument < arities.get(parent, 0) and 0 <= child < len(
                grammar
            )
            if not (is_pair and 0 < count < MOST_COUNT):
                expected = f"a slot of one of {len(grammar)} rules, a rule that fills it, and how often"
                raise FormatError(
                    f"the calibrator: expected {expected}, found {list(row)}", path
                )
        return calibrator
