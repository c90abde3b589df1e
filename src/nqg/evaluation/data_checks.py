"""Checks of training data: what in a file of pairs will teach a parser nothing, or something wrong.

`flaws` are faults of single lines, each with what to do about it. `thin_places` are what only one example shows.
`expected_derivability` is how much of data like this a grammar of it derives.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nqg.data.example import Example, distinct_pairs
from nqg.evaluation.calibration import HeldOut, folds
from nqg.induction.corpus import underivable
from nqg.induction.induce import induce
from nqg.induction.settings import InductionSettings
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.preprocessing.training_text import TrainingText
from nqg.slots.delexicalize import strip_indices
from nqg.splits.compounds import likely_language
from nqg.text.brackets import CODE_QUOTES, bracket_error

# Words that people write above columns of sentences and of programs.
HEADERS = (
    {"source", "sentence", "utterance", "input", "text", "question", "query", "command", "x"},
    {"target", "program", "output", "logical form", "logical_form", "sql", "label", "y", "parse"},
)
SERIOUS = ("header", "unbalanced", "contradiction")  # what teaches something wrong


class Flaw(NamedTuple):
    """What is wrong with a line, counted from 1, and what to do about it."""

    line: int
    kind: str
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.found}; {self.remedy}"


def flaws(raw: Sequence[Example], tokens: Sequence[Example]) -> Iterator[Flaw]:
    """The faults of examples, raw and tokenised, each the line of its number, in the order of the lines.

    >>> pairs = [Example("on", "off ( )"), Example("lamp", "on ( lamp"), Example("on", "on ( )")]
    >>> for flaw in flaws(pairs, pairs):
    ...     print(f"{flaw.line}: {flaw}")
    2: unbalanced: '(' is never closed; mend the program, or leave the pair out
    3: contradiction: 'on' has another program on line 1; keep the right one, or say more in the sentence
    """
    first: dict[str, dict[str, int]] = defaultdict(dict)
    for line, (example, cut) in enumerate(zip(raw, tokens, strict=True), start=1):
        if line == 1 and all(
            side.strip().casefold() in names
            for side, names in zip((example.source, example.target), HEADERS, strict=True)
        ):
            yield Flaw(line, "header", "this is a heading, not a pair", "delete the line")
        if fault := bracket_error(cut.target_tokens, CODE_QUOTES):
            yield Flaw(line, "unbalanced", fault, "mend the program, or leave the pair out")
        earlier = first[cut.source]
        if cut.target in earlier:
            found = f"the same pair is on line {earlier[cut.target]}"
            yield Flaw(line, "duplicate", found, "it is learned from once; keep one")
        elif earlier:
            found = f"'{example.source}' has another program on line {min(earlier.values())}"
            yield Flaw(
                line, "contradiction", found, "keep the right one, or say more in the sentence"
            )
        earlier.setdefault(cut.target, line)


@dataclass(frozen=True, slots=True)
class ThinPlaces:
    """What only one example shows, with its line: words of sentences, words of programs, templates of programs."""

    words: dict[str, int]
    program_words: dict[str, int]
    templates: dict[str, int]


def thin_places(raw: Sequence[Example], text: Preprocessor) -> ThinPlaces:
    """What a parser can learn from one line alone; values of slots do not count, for it need not know them."""
    training_text = TrainingText.of(raw, text)
    examples = training_text.examples
    marked = training_text.delexicalize(examples)
    template = likely_language(distinct_pairs(examples)).template
    sides = (
        [strip_indices(example.source_tokens) for example in marked],
        [strip_indices(example.target_tokens) for example in marked],
        [(str(template(" ".join(strip_indices(example.target_tokens)))),) for example in marked],
    )
    pairs = [(example.source, example.target) for example in examples]
    return ThinPlaces(*(_once(side, pairs) for side in sides))


def _once(sides: Sequence[Sequence[str]], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """What occurs in a single distinct pair, and the line where it first does."""
    lines: dict[tuple[str, str], int] = {}
    for line, pair in enumerate(pairs, start=1):
        lines.setdefault(pair, line)
    counts = Counter(each for line in lines.values() for each in set(sides[line - 1]))
    return {
        each: line
        for line in lines.values()
        for each in dict.fromkeys(sides[line - 1])
        if counts[each] == 1
    }


def expected_derivability(
    raw: Sequence[Example], text: Preprocessor, count: int = 4, seed: int = 0
) -> Iterator[float]:
    """Fold by fold, the share of held-out examples that a grammar of the others derives."""
    training_text = TrainingText.of(raw, text)
    examples, seeds, _ = training_text.searched(distinct_pairs(training_text.examples), None)
    settings = InductionSettings.for_slots() if training_text.has_slots else InductionSettings()
    for split in folds(examples, HeldOut.RANDOM, count, seed=seed):
        train, test = ([examples[place] for place in part] for part in (split.train, split.test))
        yield 1 - len(underivable(induce(train, settings, seeds), test)) / len(test)
