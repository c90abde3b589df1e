"""Checks of training data: what in a file of pairs will teach a parser nothing, or something wrong.

`flaws` are faults of single lines, each with what to do about it. `thin_places` are what only one example shows.
`expected_derivability` is how much of data like this a grammar of it derives.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nqg.data.examples import Example, Values, distinct_pairs, tokenized
from nqg.evaluation.calibration import HeldOut, folds
from nqg.grammar.grammar import Rule
from nqg.grammar.slots import unnumbered
from nqg.induction.corpus import underivable
from nqg.induction.induce import induce
from nqg.induction.settings import InductionSettings
from nqg.splits.compounds import likely_language
from nqg.text.preprocessing import Preprocessor

# Words that people write above columns of sentences and of programs.
HEADERS = (
    {"source", "sentence", "utterance", "input", "text", "question", "query", "command", "x"},
    {"target", "program", "output", "logical form", "logical_form", "sql", "label", "y", "parse"},
)
CLOSING = {")": "(", "]": "[", "}": "{"}
SERIOUS = ("header", "unbalanced", "contradiction")  # what teaches something wrong
QUOTES = "\"'`"


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
        if fault := imbalance(cut.target_tokens):
            yield Flaw(line, "unbalanced", fault, "mend the program, or leave the pair out")
        earlier = first[cut.source]
        if cut.target in earlier:
            found = f"the same pair is on line {earlier[cut.target]}"
            yield Flaw(line, "duplicate", found, "it is learned from once; keep one")
        elif earlier:
            found = f"'{example.source}' has another program on line {min(earlier.values())}"
            yield Flaw(line, "contradiction", found, "keep the right one, or say more in the sentence")
        earlier.setdefault(cut.target, line)


def imbalance(program: Sequence[str]) -> str:
    """What is wrong with the brackets of a program; those inside quotes, where quotes come in pairs, do not count.

    >>> imbalance("f ( a , ' :) ' )".split()), imbalance("f ( a ] )".split())
    ('', "']' closes '('")
    """
    opened: list[str] = []
    quote = ""
    quotes = {each for each in QUOTES if program.count(each) % 2 == 0}
    for token in program:
        if token in quotes and quote in ("", token):
            quote = "" if quote else token
        elif quote:
            continue
        elif token in CLOSING.values():
            opened.append(token)
        elif token in CLOSING:
            if not opened:
                return f"'{token}' closes nothing"
            if opened[-1] != CLOSING[token]:
                return f"'{token}' closes '{opened[-1]}'"
            opened.pop()
    return f"'{opened[-1]}' is never closed" if opened else ""


@dataclass(frozen=True, slots=True)
class ThinPlaces:
    """What only one example shows, with its line: words of sentences, words of programs, templates of programs."""

    words: dict[str, int]
    program_words: dict[str, int]
    templates: dict[str, int]


def thin_places(raw: Sequence[Example], text: Preprocessor) -> ThinPlaces:
    """What a parser can learn from one line alone; values of slots do not count, for it need not know them."""
    examples, values = tokenized(raw, text), Values.of(raw, text)
    marked = values.mark(examples) if values else examples
    template = likely_language(distinct_pairs(examples)).template
    sides = (
        [unnumbered(example.source_tokens) for example in marked],
        [unnumbered(example.target_tokens) for example in marked],
        [(str(template(" ".join(unnumbered(example.target_tokens)))),) for example in marked],
    )
    pairs = [(example.source, example.target) for example in examples]
    return ThinPlaces(*(_once(side, pairs) for side in sides))


def _once(sides: Sequence[Sequence[str]], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """What occurs in a single distinct pair, and the line where it first does."""
    lines: dict[tuple[str, str], int] = {}
    for line, pair in enumerate(pairs, start=1):
        lines.setdefault(pair, line)
    counts = Counter(each for line in lines.values() for each in set(sides[line - 1]))
    return {each: line for line in lines.values() for each in dict.fromkeys(sides[line - 1]) if counts[each] == 1}


def expected_derivability(raw: Sequence[Example], text: Preprocessor, count: int = 4, seed: int = 0) -> Iterator[float]:
    """Fold by fold, the share of held-out examples that a grammar of the others derives."""
    examples, values = distinct_pairs(tokenized(raw, text)), Values.of(raw, text)
    settings, seeds = InductionSettings.for_slots() if values else InductionSettings(), list[Rule]()
    if values:
        examples, seeds, _ = values.searched(examples, None)
    for split in folds(examples, HeldOut.RANDOM, count, seed=seed):
        train, test = ([examples[place] for place in part] for part in (split.train, split.test))
        yield 1 - len(underivable(induce(train, settings, seeds), test)) / len(test)
