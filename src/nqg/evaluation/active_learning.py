"""Which sentences to annotate next: those that would teach a parser most.

A sentence teaches what is new in it: words that no rule knows, a way to join known parts, rules in places where
training never had them. A gap that many sentences share is worth more than one that is a single sentence's, and a gap
that a chosen sentence has closed already is worth less. So sentences are chosen one after the other, each for what
those before it leave open.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from nqg.answers import Answer
from nqg.data.example import Example
from nqg.data.example_files import format_of, read_examples
from nqg.errors import FormatError, NqgError, Place
from nqg.evaluation.data_checks import flaws
from nqg.files import append_line, numbered_lines, strict_json
from nqg.grammar.grammar import Grammar, NonTerminal, Rule
from nqg.inference.gaps import Gaps, explained, gaps
from nqg.inference.parser import Parser
from nqg.model.confidence import rule_pairs
from nqg.preprocessing.training_text import tokenized
from nqg.slots.slot import Tokenize

LAST_SENTENCES = 20_000  # sentences of a log that are looked at: its last ones
LINES_PER_SENTENCE = 10  # that are looked at for each of them, because most may be known already
CLOSED = 0.25  # what a gap is still worth after a sentence that closes it was chosen
SURE = 0.95  # answers of more confidence teach nothing that is not known


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A sentence to annotate, what is new in it, and where to begin: a program to correct, the nearest rule."""

    source: str
    why: str
    program: str | None
    nearest: Rule | None
    gaps: tuple[str, ...]
    guess_of: str | None = (
        None  # of a guess: the training sentence, or the part of this one, whose program it is
    )


def logged(path: Path, lines: int | None = None) -> Iterator[str]:
    """The sentences of a log, the last one first: plain lines, examples, or lines of JSON with a `source`.

    Of a long log only so many last lines are looked at.
    """
    for place, line in reversed(deque(numbered_lines(path), maxlen=lines)):
        yield _sentence(line, place)


def _sentence(line: str, place: Place) -> str:
    if place.path.suffix != ".jsonl":
        return line.partition("\t")[0]
    values = strict_json(line, place)
    source = values.get("source") if isinstance(values, dict) else None
    if not isinstance(source, str):
        raise FormatError(f"expected an object with a 'source', found {line[:80]}", place)
    return source


def suggested(
    parser: Parser, log: Path, train: Path | None, count: int, most: int = LAST_SENTENCES
) -> list[Suggestion]:
    """What to annotate of the last sentences of a log that the training file does not have."""
    examples = read_examples(train) if train else []
    known = {" ".join(example.source.split()) for example in examples}
    last = logged(log, LINES_PER_SENTENCE * most)
    new = islice((sentence for sentence in last if " ".join(sentence.split()) not in known), most)
    return list(suggestions(parser, reversed(list(new)), count, examples))


def addable_examples(train: Path) -> list[Example]:
    """The examples of a file, perhaps a new one, if more can be added to it."""
    if train.suffix == ".gz":
        raise FormatError("pairs cannot be added to a compressed file; unpack it: gunzip", train)
    format_of(train)
    return read_examples(train) if train.exists() else []


def add_example(train: Path, example: Example, parser: Parser) -> None:
    """Add a pair to a training file, unless `nqg check-data` would find a flaw in it."""
    raw = [*addable_examples(train), example]
    line = format_of(train).line(example, Place(train, len(raw)))
    for flaw in flaws(raw, tokenized(raw, parser.model.text)):
        if flaw.line == len(raw):
            raise NqgError(f"{train} stays as it is: {flaw.found}; {flaw.remedy}")
    append_line(train, line)


def suggestions(
    parser: Parser, sentences: Iterable[str], count: int, known: Sequence[Example] = ()
) -> Iterator[Suggestion]:
    """The sentences that teach most, best first; of equal ones each is asked for once, in the order of the log.

    Where the parser has no program for one, that of the nearest of the `known` examples is a guess.
    """
    distinct = list(dict.fromkeys(" ".join(sentence.split()) for sentence in sentences))
    explaining = parser.with_options(replace(parser.options, gaps=True))
    answers = [answer for answer in explaining.answers(distinct) if answer.source_tokens]
    lacking = [novelties(answer, parser) for answer in answers]
    demand = Counter(gap for own in lacking for gap in own)
    worth = {gap: 1 + math.log(times) for gap, times in demand.items()}
    left = [place for place, own in enumerate(lacking) if own]
    for _ in range(min(count, len(left))):
        best = max(left, key=lambda place: (_value(answers[place], lacking[place], worth), -place))
        left.remove(best)
        for gap in lacking[best]:
            worth[gap] *= CLOSED
        found = suggestion(answers[best], lacking[best], parser)
        yield found if found.program else guessed(found, answers[best], parser, known)


def _value(answer: Answer, lacking: Sequence[str], worth: dict[str, float]) -> float:
    """What a sentence teaches, for each of its words, because a long one takes longer to annotate."""
    doubt = 1.0 if answer.target is None else 1 - (answer.confidence or answer.probability or 0.0)
    return doubt * sum(worth[gap] for gap in lacking) / math.sqrt(len(answer.source_tokens))


def novelties(answer: Answer, parser: Parser) -> tuple[str, ...]:
    """What a parser does not know of a sentence, in words that are the same for sentences with the same gap."""
    if answer.target is None:
        found = gaps_of(answer, parser)
        unknown = [f"the word '{word}'" for word in found.unknown_tokens]
        return (*unknown, *([] if found.is_whole else [f"the pattern '{found.pattern}'"]))
    sureness = answer.probability if answer.confidence is None else answer.confidence
    if answer.reading is None or sureness is None or sureness > SURE:
        return ()
    calibrator, numbers = parser.model.calibrator, parser.model.grammar.numbers
    rules = [each.rule for each in answer.reading.derivation.hyperedges]
    if calibrator and all(rule in numbers for rule in rules):
        pairs = [
            pair
            for pair in rule_pairs(answer.reading.derivation, numbers)
            if not calibrator.pairs.count(pair)
        ]
        if pairs:
            return tuple(f"'{parser.model.grammar[pair.child]}' in a new place" for pair in pairs)
    return (f"which of its readings is meant: '{rules[0]}'",)


def gaps_of(answer: Answer, parser: Parser) -> Gaps:
    """What the grammar lacks for an abstention; of a sentence that it derives, only words can be new."""
    return answer.gaps or gaps(parser.grammar, answer.source_tokens)


def suggestion(answer: Answer, lacking: tuple[str, ...], parser: Parser) -> Suggestion:
    if answer.target is None:
        why = explained(answer).reason
        untyped = parser.with_options(replace(parser.options, typed=False, readings=1))
        readings = next(iter(untyped.answers([answer.source]))).readings
        program = readings[0].target if readings else None
    else:
        why, program = f"unsure: {', '.join(lacking)}", answer.target
    return Suggestion(
        answer.source, why, program, nearest_rule(parser.grammar, answer.source_tokens), lacking
    )


def guessed(
    found: Suggestion, answer: Answer, parser: Parser, known: Sequence[Example]
) -> Suggestion:
    """The suggestion with the program of the nearest example or, where none has a word of it, of its longest part."""
    if nearest := nearest_example(known, found.source, parser.model.text.sentences.tokenize):
        return replace(found, program=nearest.target, guess_of=nearest.source)
    words = answer.source_tokens
    parts = [" ".join(words[part.start : part.end]) for part in gaps_of(answer, parser).islands]
    answered = [
        each for each in parser.answers(sorted(parts, key=len, reverse=True)) if each.target
    ]
    return (
        replace(found, program=answered[0].target, guess_of=answered[0].source)
        if answered
        else found
    )


def nearest_example(known: Sequence[Example], sentence: str, tokenize: Tokenize) -> Example | None:
    """The example that has most words in common with a sentence, and fewest others; rare words count for more.

    >>> lamp, fan = Example("turn on the lamp", "on(lamp)"), Example("turn off the fan", "off(fan)")
    >>> nearest_example([lamp, fan], "is the fan off", str.split).target
    'off(fan)'
    """
    cut = [{word.casefold() for word in tokenize(example.source)} for example in known]
    examples_with = Counter(word for words in cut for word in words)
    own = {word.casefold() for word in tokenize(sentence)}

    def weight(words: Iterable[str]) -> float:
        return sum(math.log1p(len(known) / (1 + examples_with[word])) for word in sorted(words))

    likeness = [2 * weight(words & own) / (weight(words) + weight(own) or 1.0) for words in cut]
    best = max(range(len(known)), key=lambda place: (likeness[place], -place), default=None)
    return known[best] if best is not None and likeness[best] > 0 else None


def nearest_rule(grammar: Grammar, words: Sequence[str]) -> Rule | None:
    """The rule that has most words in common with a sentence, and fewest others; None if it has no word of any.

    >>> rules = Grammar.parse("turn on NT_1 ### on ( NT_1 )\\nNT_1 and NT_2 ### NT_1 ; NT_2\\nlamp ### lamp")
    >>> print(nearest_rule(rules, "turn it on".split()))
    turn on NT_1 ### on ( NT_1 )
    """
    said = set(words)

    def likeness(rule: Rule) -> tuple[int, int]:
        own = {symbol for symbol in rule.source if not isinstance(symbol, NonTerminal)}
        return len(own & said), -len(own - said)

    best = max(grammar, key=likeness, default=None)
    return best if best and likeness(best)[0] else None
