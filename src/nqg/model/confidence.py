"""Confidence: how likely an answer is to be right, which its probability within the grammar does
not say.

The probability compares the readings that a grammar has of a sentence; the only reading has
probability 1, however odd it is. What tells right from wrong is little: how probable the program
is for each reader, whether both readers know it, how many pairs of rules in its derivation
training never had, how many words, and what the call reader makes of it. A logistic regression
(`Weights`) turns this `Evidence` into a confidence. The readers of each fold of the training
examples are tried on what they have not seen (`nqg.pipeline.confidence`), and their right and wrong
programs fit the weights. The same confidence chooses among the candidates of two readers, and a
threshold on it decides what is answered.

The tuned numbers:

- MOST_LOG_ODDS 8: a probability over 0.9997 counts as 0.9997 (`benchmarks/constants.py`).
- MOST_COUNTED 3: more unseen pairs or unknown words count as three (`benchmarks/constants.py`).
- `PRIORS`: the weights before the first trial, those of ten datasets together.
- PRIOR_PRECISION 0.5: how strongly a dataset must speak against them. The log loss of a held-out
  sentence is 0.284 with 0.1, 0.287 with 0.5, 0.294 with 3 and 0.305 with 10.
- OUT_OF_SCOPE_SHARE 0.1: 9.5 % of the sentences out of scope have a confidence over 0.9, and mean
  confidence differs from the share right by 0.046. With 0.02 it is 11.8 % and 0.025, with 0.3 6.8 %
  and 0.097. An answer that ignores words lacks so much of certainty, too: 44.0 % of the held-out
  sentences of fifteen datasets are answered rightly with and without that limit.
- LEAST_ALONE 0.85: the confidence from which on 95 % of the answers that the call reader alone gives
  are right, on folds of fifteen datasets (157 of 164). From 0.5 on it is 81 %, from 0.8 on 89 %.
  The answers of a dataset reach 95 % together because those with a derivation are surer.
- BEST_FIT 4: a sentence that a call explains better than this counts as explained so well.
- CONTEXT_WINDOW 3: words to either side that reveal a typo. docs/parsing.md shows the effect.
- The weight of unusual text, -8.2: that of eight datasets with free text together (the examples tools,
  shop and home_assistant, the projects gym, farm and library_desk, SNIPS PlayMusic). With a weight that
  the other seven taught, the log loss of a dataset is 0.170 on average, and 0.244 without the signs of
  `nqg.model.free_text`. One weight for any sign gives 0.175, and one for each sign 0.171. No second
  reader was asked: there the weight is the same.

The ten datasets are the training examples of Home Assistant in English and French, SNIPS PlayMusic
and GetWeather, GeoQuery in raw text, the starter, and the examples robot, shop and home_assistant.
`benchmarks/confidence_priors.py` fits the numbers again.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from functools import cached_property
from operator import mul
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nqg.errors import FormatError, SettingsError
from nqg.files import read_json, write_text
from nqg.grammar.arrays import FloatArray
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar, Rule, SlotInstance
from nqg.model.free_text import KnownTexts
from nqg.settings_reader import read_dataclass
from nqg.slots.matcher import Mention

CONFIDENCE_FILE = "confidence.json"  # in a model folder
MOST_COUNT = (
    1 << 53
)  # of a pair: more is not a number of examples, and too much for arithmetic
ROOT_PARENT = -1  # the parent of a derivation's first rule
# Beyond these odds a probability depends on how long a model was trained.
MOST_LOG_ODDS = 8.0
MOST_COUNTED = 3
PRIOR_PRECISION = 0.5
OUT_OF_SCOPE_SHARE = 0.1
CONTEXT_WINDOW = 3
BEST_FIT = 4.0
LEAST_ALONE = 0.85


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

    def count(self, pair: RulePair) -> int:
        return self.children[pair[:2]][pair.child]

    @cached_property
    def used(self) -> frozenset[int]:
        """The rules that training has, and the parent of the first."""
        return frozenset((ROOT_PARENT, *(row[2] for row in self.rows)))

    def unseen(self, pairs: Iterable[RulePair], trained: float = math.inf) -> int:
        """How many pairs training never had.

        A rule that no training example needs is unseen once, where it stands: all pairs of its
        arguments are unseen whatever they are, and tell nothing. Pairs of rules by hand, from number
        `trained` on, do not count: training could not have any.
        """
        learned = {pair for pair in pairs if max(pair.parent, pair.child) < trained}
        return sum(
            pair.parent in self.used and not self.count(pair) for pair in learned
        )


@dataclass(frozen=True, slots=True)
class CallEvidence:
    """What the call reader makes of a program: see `nqg.model.call_reader.CallReading`.

    Its probability is None where the reader has no such reading of the sentence.
    """

    probability: float | None = None
    fit: float = 0.0
    new_values: int = 0
    unread: int = 0
    # Whether a new value hides what training has as a value of another slot.
    hides_value: bool = False
    unread_words: tuple[str, ...] = ()

    def features(self) -> tuple[float, ...]:
        if self.probability is None:
            return (0.0, 1.0, *NO_CALL_FEATURES[2:])
        log_odds = _log_odds(self.probability)
        fit = min(max(self.fit / BEST_FIT, -1.0), 1.0)
        # What speaks for a program says less where words are not read: they may change the meaning.
        is_unread = float(bool(self.unread_words))
        return (
            log_odds,
            0.0,
            fit,
            _share(self.new_values),
            _share(self.unread),
            _share(len(self.unread_words)),
            is_unread,
            is_unread * log_odds,
            is_unread * fit,
        )


# Of a model without call reader.
NO_CALL_FEATURES = (0.0,) * 9


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the confidence in a program is computed from.

    `probability` is the program's among those that the grammar derives from the sentence, and None
    if the grammar does not derive it; `has_derivation` says whether it derives any. `unseen` pairs
    of rules are those that training never had, `unknown` words are those of the sentence. `log_probability`
    is that of the program for the sequence-to-sequence model, if there is one. Four signs of a
    misreading: words that were `corrected` as typos, a word that `is_suspect` of being one, free
    text that `hides_value`, something that training has as a value of another slot, and
    `text_signs`, in how many ways free text is unlike that of training.
    """

    probability: float | None
    has_derivation: bool = True
    unseen: int = 0
    unknown: int = 0
    log_probability: float | None = None
    corrected: int = 0
    is_suspect: bool = False
    hides_value: bool = False
    text_signs: int = 0
    call: CallEvidence | None = None

    @property
    def is_call_alone(self) -> bool:
        """Whether no other reader has the program of the call reader."""
        is_call = self.call is not None and self.call.probability is not None
        return is_call and self.probability is None and self.log_probability is None

    def least_confidence(self, threshold: float, precision: float) -> float:
        """The confidence from which on the program is an answer, where others are from a threshold
        on.
        """
        if self.is_call_alone:
            return max(threshold, min(LEAST_ALONE, precision))
        return threshold

    @property
    def has_unread_words(self) -> bool:
        """Whether the call reader leaves words out of the program, and no derivation reads them.

        A second reader may have the program, too: nothing shows which words it goes by.
        """
        is_call = self.call is not None and bool(self.call.unread_words)
        return is_call and self.probability is None

    def features(self) -> tuple[float, ...]:
        """What is weighed, in the order of `Weights`; all are between -1 and 1."""
        grammar, seq2seq = 0.0, 0.0
        if self.probability is not None:
            grammar = _log_odds(self.probability)
        if self.log_probability is not None:
            seq2seq = _log_odds(math.exp(min(self.log_probability, 0.0)))
        is_derived = self.probability is not None
        return (
            1.0,
            grammar,
            seq2seq,
            float(not self.has_derivation),
            float(self.has_derivation and not is_derived),
            _share(self.unseen),
            _share(self.unknown),
            _share(self.corrected),
            float(self.is_suspect),
            float(self.hides_value),
            _share(self.text_signs),
            *(self.call.features() if self.call else NO_CALL_FEATURES),
        )


def _log_odds(probability: float) -> float:
    """The log odds of a probability, which are not finite at 0 and 1, between -1 and 1."""
    probability = min(max(probability, 1e-12), 1 - 1e-12)
    log_odds = math.log(probability / (1 - probability)) / MOST_LOG_ODDS
    return min(max(log_odds, -1.0), 1.0)


def _share(count: int) -> float:
    return min(count, MOST_COUNTED) / MOST_COUNTED


@dataclass(frozen=True, slots=True)
class ProgramTrial:
    """A program for a held-out sentence, and whether it is right."""

    evidence: Evidence
    is_right: bool


@dataclass(frozen=True, slots=True)
class HeldOutSentence:
    """The candidates of readers that have not learned from a sentence; none where both abstain.

    A sentence that is out of scope has no right program; such sentences are given, or made of
    others. The program of a new template is unlike all that the readers have learned from, values
    aside.
    """

    candidates: tuple[ProgramTrial, ...]
    is_in_scope: bool = True
    is_new_template: bool = False
    is_made: bool = False


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a logistic regression over the features of `Evidence`."""

    bias: float
    grammar_log_odds: float
    seq2seq_log_odds: float
    # The grammar derives no program, or others but not this one.
    no_derivation: float
    other_derivations: float
    unseen_pairs: float
    unknown_words: float
    corrected_words: float
    suspect_word: float
    hidden_value: float
    unusual_text: float = 0.0  # which models of earlier versions do not have
    # The call reader, where there is one.
    call_log_odds: float = 0.0
    other_call: float = 0.0
    call_fit: float = 0.0
    new_values: float = 0.0
    unread_values: float = 0.0
    # Words that it does not account for: how many, whether there are any, and what these take from
    # the weights of the log odds and of the fit.
    unread_words: float = 0.0
    any_unread: float = 0.0
    unread_log_odds: float = 0.0
    unread_fit: float = 0.0

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, astuple(self))):
            raise SettingsError(f"{self}: expected finite numbers")

    def logit(self, evidence: Evidence) -> float:
        """The log odds of being right."""
        return float(sum(map(mul, astuple(self), evidence.features())))

    def confidence(self, evidence: Evidence) -> float:
        """The probability of being right.

        >>> alone = PRIORS[False]
        >>> evidence = Evidence(0.9), Evidence(1.0), Evidence(1.0, unseen=1), Evidence(1.0, unknown=2)
        >>> [round(alone.confidence(each), 2) for each in evidence]
        [0.71, 0.95, 0.89, 0.89]
        """
        logit = self.logit(evidence)
        confidence = 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0
        # Words that are left out may take a command back. Training has no sentence that shows how
        # often: as often as sentences are assumed to be out of scope.
        if evidence.has_unread_words:
            return min(confidence, 1 - OUT_OF_SCOPE_SHARE)
        return confidence

    @classmethod
    def fit(cls, sentences: Sequence[HeldOutSentence], *, has_seq2seq: bool) -> Weights:
        """The most probable weights, given those of other datasets and the trials of this one.

        However many sentences out of scope were made, they count as `OUT_OF_SCOPE_SHARE` of the others.
        One that was given counts like any other sentence.
        """
        prior = np.array(astuple(PRIORS[has_seq2seq]))
        in_scope = sum(sentence.is_in_scope for sentence in sentences)
        made = max(sum(sentence.is_made for sentence in sentences), 1)
        rows, rights, counts = [], [], []
        for sentence in sentences:
            count = 1.0
            if sentence.is_made:
                count = OUT_OF_SCOPE_SHARE * in_scope / made
            for trial in sentence.candidates:
                rows.append(trial.evidence.features())
                rights.append(float(trial.is_right))
                counts.append(count)
        features = np.array(rows).reshape(-1, len(prior))
        fitted = newton(features, np.array(rights), np.array(counts), prior)
        return cls(*fitted.tolist())


# Before the first trial: of a grammar alone, and of both readers. Corrected words and hidden values
# are rare in the datasets; their weights were set so that one such sign makes the surest answer
# doubtful. The last row of the first has the weights of the call reader, fitted on folds of the
# datasets of `benchmarks/confidence_priors.py --call-reader` with the others as they were, without
# SNIPS, and a project and its hour as one dataset. With SNIPS and all alike they are 4.9, 0.0, 0.7,
# 1.0, -5.5, -0.2, 0.4, -2.2 and -0.7.
# That of the second is fitted in the same way on one fold of Home Assistant in English and one in
# French, with flan-t5-small: other datasets were not measured with three readers.
PRIORS = {
    False: Weights(
        *(0.1, 2.9, 0.0, -1.1, -1.5, -2.8, -1.4, -6.0, -0.5, -2.5, -8.2),
        *(4.7, 0.1, 0.6, 1.6, -5.2, -0.3, 0.1, -2.1, -0.5),
    ),
    True: Weights(
        *(0.5, 2.2, 2.9, -1.9, -2.4, -1.3, -0.2, -3.0, -0.5, -1.5, -8.2),
        *(1.3, -0.5, 0.8, 0.0, -0.4, -1.0, 0.6, -0.5, -1.3),
    ),
}


def newton(
    features: FloatArray,
    rights: FloatArray,
    counts: FloatArray,
    prior: FloatArray,
    precision: float = PRIOR_PRECISION,
) -> FloatArray:
    """The weights of least loss of a logistic regression with a Gaussian prior."""
    signs = np.where(rights > 0, -1, 1)

    def loss(weights: FloatArray) -> float:
        losses = counts * np.logaddexp(0, signs * (features @ weights))
        return float(losses.sum() + precision * ((weights - prior) ** 2).sum() / 2)

    weights = prior
    for _ in range(100):
        chances = np.exp(-np.logaddexp(0, -(features @ weights)))
        gradient = features.T @ (counts * (chances - rights))
        gradient += precision * (weights - prior)
        curvature = (features.T * (counts * chances * (1 - chances))) @ features
        curvature += precision * np.eye(len(prior))
        step = np.linalg.solve(curvature, gradient)
        # Halve the step until it does not raise the loss.
        size, before = 1.0, loss(weights)
        while size > 1e-6 and loss(weights - size * step) > before:
            size /= 2
        weights = weights - size * step
        if np.abs(size * step).max(initial=0.0) < 1e-10:
            break
    return weights


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
    >>> KnownContexts.of([as_value] * 3).hides_value([in_text])
    True
    >>> KnownContexts.of([as_value, in_text]).hides_value([in_text])
    False
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
    def seen(self) -> frozenset[tuple[str, str]]:
        return frozenset((word, slot) for word, slot, _ in self.rows)

    def hides_value(self, contexts: Iterable[ValueContext]) -> bool:
        """Whether free text holds what training has as the value of another slot."""
        return any(context.in_text and context[:2] in self.seen for context in contexts)


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
class Expectation:
    """How held-out sentences would have fared with a threshold: how many were asked, answered,
    and answered rightly.
    """

    sentences: int = 0
    answered: int = 0
    right: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.answered <= self.sentences < MOST_COUNT:
            raise SettingsError(
                f"{self}: expected no more right answers than answers, and sentences"
            )

    @property
    def is_low(self) -> bool:
        """Whether fewer than half of the sentences are answered."""
        return 2 * self.answered < self.sentences

    def __str__(self) -> str:
        """
        >>> print(Expectation(120, 100, 95))
        83 % answered, 95 % of them rightly (120 held-out sentences)
        """
        answered = self.answered / max(self.sentences, 1)
        right = self.right / max(self.answered, 1)
        sentences = f"{self.sentences:,} held-out sentences"
        return f"{answered:.0%} answered, {right:.0%} of them rightly ({sentences})".replace(
            "%", " %"
        )


@dataclass(frozen=True)
class Calibrator:
    """What gives the answers of one model their confidence.

    Below `threshold` the model abstains. It was chosen for `least_precision`, which answers to
    held-out sentences had with it, unless the model `is_imprecise`: then no threshold reached it.
    `expected` is how sentences like those of training fare, `new_templates` those whose program is,
    values aside, unlike all of training, `out_of_scope` sentences that were given as such. Those are
    `refused` whenever they are asked. `vocabulary` are the words of the training sentences.
    """

    weights: Weights
    pairs: RulePairs
    threshold: float = 0.0
    least_precision: float = 0.0
    is_imprecise: bool = False
    expected: Expectation = Expectation()
    new_templates: Expectation = Expectation()
    out_of_scope: Expectation = Expectation()
    refused: tuple[str, ...] = ()
    contexts: KnownContexts = KnownContexts()
    texts: KnownTexts = field(default_factory=KnownTexts)
    words: WordPairs = WordPairs()
    vocabulary: tuple[str, ...] = ()
    has_seq2seq: bool = False

    def __post_init__(self) -> None:
        for name in ("threshold", "least_precision"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise SettingsError(f"{name} is {value}; expected a number from 0 to 1")

    def refuses(self, words: Sequence[str]) -> bool:
        """Whether training has a sentence of just these words as out of scope."""
        return " ".join(words) in self._refused

    @cached_property
    def _refused(self) -> frozenset[str]:
        return frozenset(self.refused)

    @cached_property
    def known_words(self) -> frozenset[str]:
        return frozenset(self.vocabulary)

    def __str__(self) -> str:
        lines = [f"sentences like these: {self.expected}"]
        if self.new_templates.sentences:
            lines.append(f"programs of a new form: {self.new_templates}")
        if self.out_of_scope.sentences:
            answered, asked = self.out_of_scope.answered, self.out_of_scope.sentences
            lines.append(f"sentences out of scope: {answered:,} of {asked:,} answered")
        if self.is_imprecise:
            wanted, least = self.least_precision, self.threshold
            lines.append(
                f"no confidence makes {wanted:.0%} of the answers right, so the model answers where "
                f"it is at least {least:.0%} sure".replace("%", " %")
            )
        return "\n".join(lines)

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
