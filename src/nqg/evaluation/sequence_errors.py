"""Where a predicted program goes wrong, and what of the right one training had never shown (section 6.2 of the paper).

The paper's measures of a sequence-to-sequence model's errors: whether, at the first wrong symbol, the right one has
probability 0 under a trigram language model of the training targets; whether the right program holds an atom that only
one training example has; and, on length splits, whether it is longer than every training target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nqg.evaluation.metrics import normalised_tokens

START, END = "<start>", "<end>"
Trigram = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a program differs from the right one, and the two symbols there; END is its end."""

    place: int
    found: str
    expected: str

    def __str__(self) -> str:
        found, expected = ("the end" if symbol == END else f"'{symbol}'" for symbol in (self.found, self.expected))
        return f"symbol {self.place + 1} is {found}, expected {expected}"


def first_difference(prediction: str, gold: str) -> Difference | None:
    """Where a prediction leaves the right program; nothing if it never does.

    >>> print(first_difference("answer ( state )", "answer ( city )"))
    symbol 3 is 'state', expected 'city'
    """
    pairs = zip(_ended(prediction), _ended(gold), strict=False)
    return next((Difference(place, *pair) for place, pair in enumerate(pairs) if pair[0] != pair[1]), None)


def _ended(program: str) -> tuple[str, ...]:
    return (*normalised_tokens(program), END)


def trigrams(target: str) -> Iterator[Trigram]:
    """Every symbol of a target, and its end, with the two symbols before it."""
    symbols = (START, START, *_ended(target))
    return zip(symbols, symbols[1:], symbols[2:], strict=False)


@dataclass(frozen=True, slots=True)
class TargetStatistics:
    """What training targets have shown: their trigrams, in how many examples each symbol is, the greatest length."""

    trigrams: frozenset[Trigram]
    examples_with: Counter[str]
    longest: int

    @classmethod
    def of(cls, targets: Iterable[str]) -> TargetStatistics:
        """The statistics of some targets."""
        targets = list(targets)
        symbols = [normalised_tokens(target) for target in targets]
        return cls(
            frozenset(trigram for target in targets for trigram in trigrams(target)),
            Counter(symbol for each in symbols for symbol in set(each)),
            max(map(len, symbols), default=0),
        )

    def is_longer(self, target: str) -> bool:
        """Whether a target is longer than every one seen."""
        return len(normalised_tokens(target)) > self.longest

    def knows_trigram(self, target: str, place: int) -> bool:
        """Whether the symbol at `place` of a target, or its end, was seen after the two symbols before it."""
        return list(trigrams(target))[place] in self.trigrams

    def atoms_seen(self, target: str, times: int) -> tuple[str, ...]:
        """The symbols of a target that were seen in just so many examples, in their order, each once."""
        return tuple(each for each in dict.fromkeys(normalised_tokens(target)) if self.examples_with[each] == times)
