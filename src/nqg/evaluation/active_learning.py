"""Which sentences to annotate next: those that would teach a parser most.

A sentence teaches what is new in it: words that no rule knows, a pattern that joins known phrases,
rules in positions where training never had them. A novelty that many sentences share is worth more
than one of a single sentence, and less once a chosen sentence has it. So sentences are chosen one
after the other, each for what is still new.

Each comes with a program to accept or to correct: the best one that a reader has, even where it was
not sure enough to be an answer, or that of a similar sentence. Only legal programs are offered.
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
from nqg.calls import calls_or_none, read_calls
from nqg.data.example import Example, in_scope
from nqg.data.example_files import format_of, read_examples
from nqg.errors import FormatError, LimitExceeded, NqgError, Place
from nqg.evaluation.data_checks import flaws
from nqg.evaluation.legality import ModelTypes, ProgramCheck
from nqg.files import append_line, numbered_lines, strict_json, write_text
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar, Rule
from nqg.inference.gaps import Gaps, explained, gaps, words_lacking
from nqg.inference.hybrid import Hybrid
from nqg.inference.parser import Parser
from nqg.model.checkpoint import SavedModel
from nqg.model.confidence import rule_pairs
from nqg.preprocessing.training_text import tokenized
from nqg.slots.slot import Tokenize
from nqg.text.known_sentences import KnownSentences

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

    The program is legal. It is a guess where the model would not answer with it: then `guess_of` may
    be the training sentence, or the phrase, whose program it is.
    """

    source: str
    why: str
    program: str | None
    nearest: Rule | None
    gaps: tuple[str, ...]
    guess_of: str | None = None
    is_guess: bool = False
    confidence: float | None = None


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
    system: Parser | Hybrid,
    log: Path,
    train: Path | None,
    count: int,
    most: int = LAST_SENTENCES,
) -> list[Suggestion]:
    """What to annotate of the last sentences of a log that the training file does not have."""
    sentences, examples = logged_sentences(log, train, most)
    return list(suggestions(system, sentences, count, examples))


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


def check_example(train: Path, example: Example, types: ModelTypes) -> ProgramCheck:
    """What is wrong with a pair for a training file: a flaw that `nqg check-data` would find, or a
    program that is not legal.
    """
    raw = [*addable_examples(train), example]
    for flaw in flaws(raw, tokenized(raw, types.model.text)):
        if flaw.line == len(raw):
            return ProgramCheck(f"{flaw.found}; {flaw.remedy}")
    if example.is_out_of_scope:
        return ProgramCheck()
    # Where all programs are calls, another notation is a mistake, not something new.
    known = in_scope(raw[:-1])
    if known and all(calls_or_none(pair.target) is not None for pair in known):
        try:
            read_calls(example.target)
        except FormatError as error:
            return ProgramCheck(error.reason)
    return types.check(example.target)


def add_example(
    train: Path, example: Example, types: ModelTypes, *, allows_new: bool = False
) -> None:
    """Add a pair to a training file, unless something is wrong with it.

    A program outside of the model's types is refused, too, unless it `allows_new` ones.
    """
    line = _line_of(train, example)
    check = check_example(train, example, types)
    if check.problem:
        raise NqgError(f"{train} stays as it is: {check.problem}")
    if check.new and not allows_new:
        raise NqgError(f"{train} stays as it is: {check.new}")
    append_line(train, line)


def remove_last_example(train: Path, example: Example) -> None:
    """Take back the pair that was added to a training file last, if it is this one."""
    line = _line_of(train, example).encode()
    content = train.read_bytes() if train.exists() else b""
    before, _, last = content.removesuffix(b"\n").rpartition(b"\n")
    if last != line:
        raise NqgError(
            f"{train} stays as it is: its last pair is another one; edit the file"
        )
    write_text(train, before.decode() + "\n" if before else "")


def _line_of(train: Path, example: Example) -> str:
    place = Place(train, len(addable_examples(train)) + 1)
    return format_of(train).line(example, place)


class UnansweredSentence(NamedTuple):
    """A sentence with its answer, and what is new in it."""

    answer: Answer
    novelties: tuple[str, ...]

    def value(self, worth: dict[str, float]) -> float:
        """What the sentence teaches; a long one takes longer to annotate."""
        judged, doubt = proposed(self.answer), 1.0
        if judged:
            doubt = 1 - (judged.confidence or judged.probability or 0.0)
        total = sum(worth[novelty] for novelty in self.novelties)
        return doubt * total / math.sqrt(len(self.answer.source_tokens))


def suggestions(
    system: Parser | Hybrid,
    sentences: Iterable[str],
    count: int,
    known: Sequence[Example] = (),
) -> Iterator[Suggestion]:
    """The sentences that teach most, best first; equal ones are suggested once, in the order of the
    log.

    Where no reader has a program for a sentence, that of the nearest of the `known` examples is a
    guess.
    """
    # Ask the grammar about every distinct sentence: a second reader would take long.
    parser = parser_of(system)
    explaining = parser.with_options(replace(parser.options, gaps=True))
    answers = explaining.answers(distinct_sentences(sentences))
    return chosen_suggestions(system, answers, count, known)


def chosen_suggestions(
    system: Parser | Hybrid,
    answers: Iterable[Answer],
    count: int,
    known: Sequence[Example] = (),
) -> Iterator[Suggestion]:
    """The `suggestions` among sentences whose answers by the grammar, with gaps, are there."""
    parser = parser_of(system)
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
    proposer = Proposer(system, parser, ModelTypes.of(parser.model), known)
    suggested = 0
    while suggested < count and candidates:
        chosen = most_instructive(candidates, worth, count - suggested)
        # Both readers together may be sure of what the grammar alone is not.
        for suggestion in proposer.suggestions(chosen):
            suggested += 1
            yield suggestion


def most_instructive(
    candidates: list[UnansweredSentence], worth: dict[str, float], count: int
) -> list[UnansweredSentence]:
    """The sentences that teach most, chosen greedily and taken out of the candidates.

    What a chosen sentence teaches is worth less in the next.
    """
    chosen = []
    for _ in range(min(count, len(candidates))):
        best = max(candidates, key=lambda candidate: candidate.value(worth))
        candidates.remove(best)
        for novelty in best.novelties:
            worth[novelty] *= REPEATED_WORTH
        chosen.append(best)
    return chosen


def parser_of(system: Parser | Hybrid) -> Parser:
    """The parser whose gaps sentences could fill."""
    parser = system.parser if isinstance(system, Hybrid) else system
    if not isinstance(parser, Parser):
        raise NqgError(
            f"expected a Parser, whose gaps sentences could fill, found {type(parser).__name__}"
        )
    return parser


def novelties(answer: Answer, parser: Parser) -> tuple[str, ...]:
    """What is new to a parser in a sentence; sentences that lack the same have the same texts."""
    judged = proposed(answer)
    if judged is None:
        lacking = gaps_of(answer, parser)
        new = [f"the word '{word}'" for word in lacking.unknown_tokens]
        if not lacking.is_whole:
            new.append(f"the pattern '{lacking.pattern}'")
        return tuple(new)
    confidence = judged.probability if judged.confidence is None else judged.confidence
    if judged.reading is None or confidence is None:
        return ()
    if answer.target is not None and confidence > SURE:
        return ()
    derivation = judged.reading.derivation
    new = [f"the word '{word}'" for word in judged.unknown_words]
    new += new_pairs(derivation, parser.model)
    if new:
        return tuple(new)
    root = derivation.hyperedges[0].rule
    return (f"which of its readings is meant: '{root}'",)


def new_pairs(derivation: Derivation, model: SavedModel) -> list[str]:
    """The rules of a derivation that training never had below the rule above them.

    Training says nothing about derivations with manual rules.
    """
    numbers, calibrator = model.grammar.numbers, model.calibrator
    if calibrator is None:
        return []
    if any(hyperedge.rule not in numbers for hyperedge in derivation.hyperedges):
        return []
    new = [
        pair.child
        for pair in rule_pairs(derivation, numbers)
        if not calibrator.pairs.count(pair)
    ]
    return [f"'{model.grammar[child]}' in a new place" for child in new]


def proposed(answer: Answer) -> Answer | None:
    """What the model answers or, below its threshold, would answer."""
    return answer.withheld if answer.target is None else answer


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


@dataclass(frozen=True)
class Proposer:
    """Finds a legal program for each sentence to annotate."""

    system: Parser | Hybrid
    parser: Parser
    types: ModelTypes
    known: Sequence[Example]

    def suggestions(self, chosen: Sequence[UnansweredSentence]) -> Iterator[Suggestion]:
        """The sentences with their best programs, but for those that both readers are sure of."""
        answers: Iterable[Answer] = [candidate.answer for candidate in chosen]
        if isinstance(self.system, Hybrid):
            answers = self.system.answers(answer.source for answer in answers)
        for candidate, answer in zip(chosen, answers):
            confidence = answer.confidence or 0.0
            if answer.target is None or confidence <= SURE:
                yield self._with_program(candidate, answer)

    def _with_program(
        self, candidate: UnansweredSentence, answer: Answer
    ) -> Suggestion:
        """A suggestion with the first legal program of several, if there is one."""
        by_grammar, new = candidate
        why = explained(by_grammar).reason or answer.reason
        if answer.target is not None:
            why = f"unsure: {', '.join(new)}"
        elif answer.withheld:
            why = f"{why}; {', '.join(new)}"
        nearest_by_words = nearest_rule(self.parser.grammar, by_grammar.source_tokens)
        suggestion = Suggestion(answer.source, why, None, nearest_by_words, new)
        best = proposed(answer)
        if best and best.target and self.types.is_legal(best.target):
            return replace(
                suggestion,
                program=best.target,
                is_guess=answer.target is None,
                confidence=best.confidence,
            )
        # The nearest training sentence may have a similar program.
        tokenize = self.parser.model.text.sentences.tokenize
        nearest = nearest_example(self.known, answer.source, tokenize)
        if nearest:
            if not self.types.is_legal(nearest.target):
                return suggestion
            return _guessed(suggestion, nearest.target, nearest.source)
        # No example has a word of the sentence: the longest phrase that has an answer is all
        # there is.
        words = by_grammar.source_tokens
        islands = gaps_of(by_grammar, self.parser).islands
        phrases = [" ".join(words[island.start : island.end]) for island in islands]
        for phrase in self.parser.answers(sorted(phrases, key=len, reverse=True)):
            if phrase.target and self.types.is_legal(phrase.target):
                return _guessed(suggestion, phrase.target, phrase.source)
        return suggestion


def _guessed(suggestion: Suggestion, program: str, guess_of: str) -> Suggestion:
    return replace(suggestion, program=program, guess_of=guess_of, is_guess=True)


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
    nearest = KnownSentences(list(examples)[::-1], tokenize).nearest(sentence)
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
