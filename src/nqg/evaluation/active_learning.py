"""Which sentences to annotate next: those that would teach a parser most.

A sentence teaches what is new in it: words that no rule knows, a pattern that joins known phrases,
rules in positions where training never had them. A novelty that many sentences share is worth more
than one of a single sentence, and less once a chosen sentence has it. So sentences are chosen one
after the other, each for what is still new.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from nqg.answers import TOO_AMBIGUOUS, Answer
from nqg.data.example import Example, in_scope
from nqg.data.example_files import format_of, read_examples
from nqg.errors import FormatError, LimitExceeded, NqgError, Place
from nqg.evaluation.data_checks import flaws
from nqg.files import append_line, numbered_lines, strict_json
from nqg.grammar.grammar import Grammar, Rule
from nqg.inference.gaps import Gaps, explained, gaps, nearest_sentence, words_lacking
from nqg.inference.parser import Parser
from nqg.model.confidence import rule_pairs
from nqg.preprocessing.training_text import tokenized
from nqg.slots.slot import Tokenize

# Only the last sentences of a log are considered. Most lines may be training examples already, so
# that more lines are read than sentences are wanted.
LAST_SENTENCES = 20_000
LINES_PER_SENTENCE = 10
# benchmarks/suggest.py simulates an annotator with these: what is left of a novelty's worth once a
# chosen sentence has it, and the confidence above which an answer teaches nothing.
REPEATED_WORTH = 0.25
SURE = 0.95


@dataclass(frozen=True)
class Suggestion:
    """A sentence to annotate, what is new in it, and where to begin: a program to correct, the
    nearest rule.

    Where the program is a guess, `guess_of` is the training sentence, or the phrase, whose program
    it is.
    """

    source: str
    why: str
    program: str | None
    nearest: Rule | None
    gaps: tuple[str, ...]
    guess_of: str | None = None


def read_log_reversed(path: Path, lines: int | None = None) -> Iterator[str]:
    """The sentences of a log, the last one first: plain lines, examples, or lines of JSON with a
    `source`.

    Of a long log only so many last lines are read.
    """
    # With a bound, the deque keeps the memory small, however long the log is.
    for where, line in reversed(deque(numbered_lines(path), maxlen=lines)):
        if path.suffix != ".jsonl":
            yield line.partition("\t")[0]
            continue
        values = strict_json(line, where)
        if not isinstance(values, dict) or not isinstance(values.get("source"), str):
            raise FormatError(
                f"expected an object with a 'source', found {line[:80]}", where
            )
        yield values["source"]


def suggested(
    parser: Parser,
    log: Path,
    train: Path | None,
    count: int,
    most: int = LAST_SENTENCES,
) -> list[Suggestion]:
    """What to annotate of the last sentences of a log that the training file does not have."""
    sentences, examples = logged_sentences(log, train, most)
    return list(suggestions(parser, sentences, count, examples))


def logged_sentences(
    log: Path, train: Path | None, most: int = LAST_SENTENCES
) -> tuple[list[str], Sequence[Example]]:
    """The last distinct sentences of a log that a training file does not have, and its examples."""
    examples = read_examples(train, allows_out_of_scope=True) if train else []
    # Sentences that differ only in their spaces count as the same.
    annotated = {" ".join(example.source.split()) for example in examples}
    logged = read_log_reversed(log, LINES_PER_SENTENCE * most)
    new = (
        sentence for sentence in logged if " ".join(sentence.split()) not in annotated
    )
    # The log was read from its end; the suggestions are made in the order of the log.
    latest = list(islice(new, most))
    return distinct_sentences(reversed(latest)), in_scope(examples)


def distinct_sentences(sentences: Iterable[str]) -> list[str]:
    """Sentences without repetitions; those that differ only in their spaces are the same."""
    return list(dict.fromkeys(" ".join(sentence.split()) for sentence in sentences))


def addable_examples(train: Path) -> list[Example]:
    """The examples of a file, perhaps a new one, if more can be added to it."""
    if train.suffix == ".gz":
        raise FormatError(
            "pairs cannot be added to a compressed file; unpack it: gunzip", train
        )
    format_of(train)
    if not train.exists():
        return []
    return read_examples(train, allows_out_of_scope=True)


def add_example(train: Path, example: Example, parser: Parser) -> None:
    """Add a pair to a training file, unless `nqg check-data` would find a flaw in it."""
    raw = [*addable_examples(train), example]
    line = format_of(train).line(example, Place(train, len(raw)))
    for flaw in flaws(raw, tokenized(raw, parser.model.text)):
        if flaw.line == len(raw):
            raise NqgError(f"{train} stays as it is: {flaw.found}; {flaw.remedy}")
    append_line(train, line)


class UnansweredSentence(NamedTuple):
    """A sentence with its answer, and what is new in it."""

    answer: Answer
    novelties: tuple[str, ...]

    def value(self, worth: dict[str, float]) -> float:
        """What the sentence teaches; a long one takes longer to annotate."""
        answer, doubt = self.answer, 1.0
        if answer.target is not None:
            doubt = 1 - (answer.confidence or answer.probability or 0.0)
        total = sum(worth[novelty] for novelty in self.novelties)
        return doubt * total / math.sqrt(len(answer.source_tokens))


def suggestions(
    parser: Parser, sentences: Iterable[str], count: int, known: Sequence[Example] = ()
) -> Iterator[Suggestion]:
    """The sentences that teach most, best first; equal ones are suggested once, in the order of the
    log.

    Where the parser has no program for a sentence, that of the nearest of the `known` examples is a
    guess.
    """
    explaining = parser.with_options(replace(parser.options, gaps=True))
    answers = explaining.answers(distinct_sentences(sentences))
    return chosen_suggestions(parser, answers, count, known)


def chosen_suggestions(
    parser: Parser, answers: Iterable[Answer], count: int, known: Sequence[Example] = ()
) -> Iterator[Suggestion]:
    """The `suggestions` among sentences whose answers, with gaps, are there already."""
    candidates = []
    for answer in answers:
        new = novelties(answer, parser) if answer.source_tokens else ()
        if new:
            candidates.append(UnansweredSentence(answer, new))
    # A novelty is worth more the more sentences have it, on a logarithmic scale.
    demand = Counter(
        chain.from_iterable(candidate.novelties for candidate in candidates)
    )
    worth = {novelty: 1 + math.log(times) for novelty, times in demand.items()}
    # Choose greedily: what a chosen sentence teaches is worth less in the next.
    for _ in range(min(count, len(candidates))):
        best = max(candidates, key=lambda candidate: candidate.value(worth))
        candidates.remove(best)
        for novelty in best.novelties:
            worth[novelty] *= REPEATED_WORTH
        yield _suggestion(best, parser, known)


def novelties(answer: Answer, parser: Parser) -> tuple[str, ...]:
    """What is new to a parser in a sentence; sentences that lack the same have the same texts."""
    if answer.target is None:
        lacking = gaps_of(answer, parser)
        new = [f"the word '{word}'" for word in lacking.unknown_tokens]
        if not lacking.is_whole:
            new.append(f"the pattern '{lacking.pattern}'")
        return tuple(new)
    confidence = answer.probability if answer.confidence is None else answer.confidence
    if answer.reading is None or confidence is None or confidence > SURE:
        return ()
    derivation, grammar = answer.reading.derivation, parser.model.grammar
    rules = [hyperedge.rule for hyperedge in derivation.hyperedges]
    # Without manual rules, pairs of rules that training never had are what is new.
    calibrator = parser.model.calibrator
    if calibrator and all(rule in grammar.numbers for rule in rules):
        new = []
        for pair in rule_pairs(derivation, grammar.numbers):
            if not calibrator.pairs.count(pair):
                new.append(f"'{grammar[pair.child]}' in a new place")
        if new:
            return tuple(new)
    return (f"which of its readings is meant: '{rules[0]}'",)


def gaps_of(answer: Answer, parser: Parser) -> Gaps:
    """What the grammar lacks for a sentence that was not answered; of one that is too costly to
    chart, its unknown words.
    """
    if answer.gaps is not None:
        return answer.gaps
    words = answer.source_tokens
    if answer.reason == TOO_AMBIGUOUS:
        return words_lacking(parser.grammar, words)
    try:
        return gaps(parser.grammar, words, parser.options.limit)
    except LimitExceeded:
        return words_lacking(parser.grammar, words)


def _suggestion(
    candidate: UnansweredSentence, parser: Parser, known: Sequence[Example]
) -> Suggestion:
    answer, new = candidate
    nearest = nearest_rule(parser.grammar, answer.source_tokens)
    if answer.target is not None:
        return Suggestion(
            answer.source, f"unsure: {', '.join(new)}", answer.target, nearest, new
        )
    program, guess_of = _guess(answer, parser, known)
    return Suggestion(
        answer.source, explained(answer).reason, program, nearest, new, guess_of
    )


def _guess(
    answer: Answer, parser: Parser, known: Sequence[Example]
) -> tuple[str | None, str | None]:
    """A program for a sentence without an answer and, if it is that of another text, this text."""
    # A program may be ruled out by its types alone.
    untyped = parser.with_options(replace(parser.options, typed=False, readings=1))
    if answer.reason != TOO_AMBIGUOUS:
        for reading in next(iter(untyped.answers([answer.source]))).readings:
            return reading.target, None
    # The nearest training sentence may have a similar program.
    nearest = nearest_example(
        known, answer.source, parser.model.text.sentences.tokenize
    )
    if nearest:
        return nearest.target, nearest.source
    # No example has a word of the sentence: the longest phrase that has an answer is all there is.
    words = answer.source_tokens
    islands = gaps_of(answer, parser).islands
    phrases = [" ".join(words[island.start : island.end]) for island in islands]
    for phrase in parser.answers(sorted(phrases, key=len, reverse=True)):
        if phrase.target:
            return phrase.target, phrase.source
    return None, None


def nearest_example(
    known: Sequence[Example], sentence: str, tokenize: Tokenize
) -> Example | None:
    """The example that has most words in common with a sentence, and fewest others; rare words
    count for more.

    >>> lamp, fan = Example("turn on the lamp", "on(lamp)"), Example("turn off the fan", "off(fan)")
    >>> nearest_example([lamp, fan], "is the fan off", str.split).target
    'off(fan)'
    """
    examples = {example.source: example for example in reversed(known)}
    nearest = nearest_sentence(list(examples)[::-1], sentence, tokenize)
    return None if nearest is None else examples[nearest]


def nearest_rule(grammar: Grammar, words: Sequence[str]) -> Rule | None:
    """The rule that has most words in common with a sentence, and fewest others; None if it has no
    word of any.

    >>> rules = Grammar.parse("turn on NT_1 ### on ( NT_1 )\\nNT_1 and NT_2 ### NT_1 ; NT_2")
    >>> print(nearest_rule(rules, "turn it on".split()))
    turn on NT_1 ### on ( NT_1 )
    """

    def likeness(rule: Rule) -> tuple[int, int]:
        terminals = {symbol for symbol in rule.source if isinstance(symbol, str)}
        return len(terminals.intersection(words)), -len(terminals.difference(words))

    # Even the best rule may have no word in common, and then none is near.
    best = max(grammar, key=likeness, default=None)
    return best if best and likeness(best)[0] else None
