"""Checks of training data: what in a file of pairs will teach a parser nothing, or something wrong.

`flaws` are faults of single lines, each with what to do about it. `singletons` are what only one
example shows. `expected_derivability` is how much of data like this a grammar of it derives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from nqg.calls import Call, all_calls, calls_or_none
from nqg.data.example import Example, distinct_pairs
from nqg.evaluation.calibration import HeldOut, folds
from nqg.induction.corpus import underivable
from nqg.induction.induce import induce
from nqg.induction.settings import InductionSettings
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.preprocessing.training_text import TrainingText
from nqg.slots.delexicalize import strip_indices
from nqg.splits.compounds import (
    BRACKETED,
    FUNQL,
    TOKENS_LANGUAGE,
    Language,
    likely_language,
)
from nqg.text.brackets import BRACKETS, CODE_QUOTES, bracket_error
from nqg.text.json_calls import lost_programs

# Words that people write above columns of sentences and of programs.
SOURCE_HEADERS = (
    "source",
    "sentence",
    "utterance",
    "input",
    "text",
    "question",
    "query",
    "command",
    "x",
)
TARGET_HEADERS = (
    "target",
    "program",
    "output",
    "logical form",
    "logical_form",
    "sql",
    "label",
    "y",
    "parse",
)
# The kinds of flaws that teach something wrong.
SERIOUS = ("header", "unbalanced", "contradiction", "notation")


class Flaw(NamedTuple):
    """What is wrong with a line, counted from 1, and what to do about it."""

    line: int
    kind: str
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.found}; {self.remedy}"


def flaws(raw: Sequence[Example], tokens: Sequence[Example]) -> Iterator[Flaw]:
    """The faults of examples, raw and tokenised, each the line of its number, in the order of the
    lines.

    >>> pairs = [Example("on", "off ( )"), Example("lamp", "on ( lamp"), Example("on", "on ( )")]
    >>> for flaw in flaws(pairs, pairs):
    ...     print(f"{flaw.line}: {flaw}")
    2: unbalanced: '(' is never closed; mend the program, or leave the pair out
    3: contradiction: 'on' has another program on line 1; keep the right one, or say more in the sentence
    """
    targets = list(dict.fromkeys(example.target for example in tokens))
    lost_numbers = lost_programs([target.split() for target in targets])
    lost = {targets[number] for number in lost_numbers}
    first_lines: dict[str, dict[str, int]] = defaultdict(dict)
    repeated = cache(lambda line: f"the same pair is on line {line}")
    bracket_error_of = cache(lambda target: bracket_error(target.split(), CODE_QUOTES))
    for line, (example, tokenized) in enumerate(zip(raw, tokens), start=1):
        if line == 1 and _is_heading(example):
            yield Flaw(
                line, "header", "this is a heading, not a pair", "delete the line"
            )
        # A program whose brackets do not match is not a tree.
        error = bracket_error_of(tokenized.target)
        if error:
            yield Flaw(
                line, "unbalanced", error, "mend the program, or leave the pair out"
            )
        if tokenized.target in lost:
            yield Flaw(
                line,
                "notation",
                "the other programs are calls in JSON, and this one is not",
                "write it so: then all are learned as calls",
            )
        # A sentence may have come before, with the same program or with another.
        earlier = first_lines[tokenized.source]
        if tokenized.target in earlier:
            same = repeated(earlier[tokenized.target])
            yield Flaw(line, "duplicate", same, "it is learned from once; keep one")
        elif earlier:
            conflict = f"'{example.source}' has another program on line {min(earlier.values())}"
            remedy = "keep the right one, or say more in the sentence"
            yield Flaw(line, "contradiction", conflict, remedy)
        earlier.setdefault(tokenized.target, line)


def _is_heading(example: Example) -> bool:
    source = example.source.strip().casefold()
    return source in SOURCE_HEADERS and (
        example.target.strip().casefold() in TARGET_HEADERS
    )


def singletons(raw: Sequence[Example], text: Preprocessor) -> dict[str, dict[str, int]]:
    """What only one distinct pair shows, with its line: words, program words, and constructions.

    Values of slots do not count, because a parser need not know them.
    """
    training_text = TrainingText.of(raw, text)
    examples = training_text.examples
    language = likely_language(distinct_pairs(examples))
    lines: dict[str, dict[str, set[int]]] = {
        "words": {},
        "program_words": {},
        "templates": {},
    }
    first_lines: dict[tuple[str, str], int] = {}
    delexicalized = training_text.delexicalize(examples)
    for line, (example, marked) in enumerate(zip(examples, delexicalized), start=1):
        # The lines of equal pairs count as the first of them.
        line = first_lines.setdefault((example.source, example.target), line)
        program = strip_indices(marked.target_tokens)
        sides = {
            "words": strip_indices(marked.source_tokens),
            "program_words": program,
            "templates": constructions(" ".join(program), language),
        }
        for kind, items in sides.items():
            for item in items:
                lines[kind].setdefault(item, set()).add(line)
    single: dict[str, dict[str, int]] = {}
    for kind, by_item in lines.items():
        single[kind] = {}
        for item, seen in by_item.items():
            if len(seen) == 1:
                single[kind][item] = min(seen)
    return single


def constructions(program: str, language: Language) -> list[str]:
    """What a program is put together from, but for the names and values in it.

    They are the functions that it calls, each with the names or the number of its arguments; a
    query is one, without its constants. Nobody knows those of a sequence of tokens.

    >>> constructions("at ( 7:00 , dim ( room = hall , percent = 20 ) )", BRACKETED)
    ['at(_, _)', 'dim(room=_, percent=_)']
    >>> constructions("kitchen . lights", BRACKETED), constructions("JUMP JUMP", TOKENS_LANGUAGE)
    ([], [])
    """
    if language.name == TOKENS_LANGUAGE.name:
        return []
    calls = calls_or_none(program)
    if calls is None:
        is_name = not any(bracket in program for bracket in BRACKETS)
        is_query = language.name not in (BRACKETED.name, FUNQL.name)
        return [language.template(program)] if is_query or not is_name else []
    return [_frame(call) for call in all_calls(list(calls))]


def _frame(call: Call) -> str:
    arguments = ["_"] * len(call.positional)
    arguments += [f"{name}=_" for name in call.arguments]
    return f"{call.name}({', '.join(arguments)})"


def expected_derivability(
    raw: Sequence[Example], text: Preprocessor, count: int = 4
) -> Iterator[float]:
    """Fold by fold, the share of held-out examples that a grammar of the others derives."""
    # With slots, grammars are induced from delexicalized examples.
    training_text = TrainingText.of(raw, text)
    examples, seeds, _ = training_text.searched(
        distinct_pairs(training_text.examples), None
    )
    settings = (
        InductionSettings.for_slots()
        if training_text.has_slots
        else InductionSettings()
    )
    for split in folds(examples, HeldOut.RANDOM, count):
        fold = split.parts(examples)
        grammar = induce(fold.train, settings, seeds)
        yield 1 - len(underivable(grammar, fold.test)) / len(fold.test)
