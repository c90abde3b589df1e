"""Several commands in one sentence: each is read by itself, by whatever system answers.

The reading of the whole sentence competes with those of its divisions into commands. A division
counts only if every command has an answer, and its confidence is the product of theirs, as if they
were independent. The whole sentence wins ties, so that "play rock and roll" stays one command
unless "play rock" and "roll" are commands that the system is more sure of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

from nqg.answers import UNSURE, Answer, exact_match
from nqg.errors import NqgError
from nqg.inference.gaps import explained
from nqg.text.sequences import SequenceFormat

AnswerAll = Callable[[Sequence[str]], Iterable[Answer]]
Completed = Callable[[Answer], Answer]
Span = tuple[int, int]


def unchanged(answer: Answer) -> Answer:
    """The same answer."""
    return answer


def sequence_answers(
    answer_all: AnswerAll,
    sentences: Sequence[str],
    form: SequenceFormat | None,
    completed: Completed = unchanged,
) -> Iterator[Answer]:
    """The answers to sentences, of which some may hold several commands; without a format none do.

    `answer_all` reads each sentence as one command. It is asked once: about the sentences, and
    about every distinct text in them that may be a command. What is shown of these answers is
    `completed` by what the others do not need.

    >>> programs = {"lamp on": "on(lamp)", "fan off": "off(fan)"}
    >>> def answer_all(sentences):
    ...     return [Answer(sentence, programs.get(sentence), 1.0) for sentence in sentences]
    >>> (answer,) = sequence_answers(answer_all, ["lamp on and fan off"], SequenceFormat())
    >>> answer.target, [command.source for command in answer.commands]
    ('on(lamp); off(fan)', ['lamp on', 'fan off'])
    """
    # Most sentences hold one clause, and cost no more than the search for connectives.
    divided: dict[str, list[Span]] = {}
    if form is not None:
        for sentence in sentences:
            clauses = form.clauses(sentence)
            if len(clauses) > 1:
                divided[sentence] = clauses
    if form is None or not divided:
        yield from map(completed, answer_all(sentences))
        return
    # Ask about everything together.
    texts: dict[str, None] = {}
    for sentence, clauses in divided.items():
        texts.update(dict.fromkeys(possible_commands(sentence, clauses)))
    for sentence in sentences:
        texts.pop(sentence, None)
    queries = [*sentences, *texts]
    answers = list(answer_all(queries))
    if len(answers) != len(queries):
        counts = f"about {len(queries)} sentences and gave {len(answers)} answers"
        raise NqgError(f"the system was asked {counts}")
    by_text = dict(zip(queries, answers))
    for sentence, whole in zip(sentences, answers):
        if sentence in divided:
            yield with_commands(whole, divided[sentence], by_text, form, completed)
        else:
            yield completed(whole)


def possible_commands(sentence: str, clauses: Sequence[Span]) -> Iterator[str]:
    """Every run of neighbouring clauses but the whole sentence."""
    for first, last in combinations(range(len(clauses) + 1), 2):
        if last - first < len(clauses):
            yield sentence[clauses[first][0] : clauses[last - 1][1]]


def divisions(sentence: str, clauses: Sequence[Span]) -> Iterator[list[str]]:
    """The ways to divide a sentence into several commands, those with the fewest first.

    >>> list(divisions("a, b, c", [(0, 1), (3, 4), (6, 7)]))
    [['a', 'b, c'], ['a, b', 'c'], ['a', 'b', 'c']]
    """
    count = len(clauses)
    for commands in range(2, count + 1):
        for inner in combinations(range(1, count), commands - 1):
            limits = (0, *inner, count)
            division = []
            for first, last in pairwise(limits):
                division.append(sentence[clauses[first][0] : clauses[last - 1][1]])
            yield division


def with_commands(
    whole: Answer,
    clauses: Sequence[Span],
    answers: Mapping[str, Answer],
    form: SequenceFormat,
    completed: Completed = unchanged,
) -> Answer:
    """The answer to a sentence with several clauses: of the whole, or of its best division."""
    best: list[Answer] = []
    best_score = -1.0
    if whole.target is not None:
        best_score = score(whole)
    # The division that has a program for most of the sentence explains an abstention.
    nearest: list[Answer] = []
    most_read = 0
    for division in divisions(whole.source, clauses):
        commands = [answers[text] for text in division]
        read = [command for command in commands if _is_command(command, form)]
        if len(read) == len(commands):
            product = math.prod(map(score, commands))
            if product > best_score:
                best, best_score = commands, product
        characters = sum(len(command.source) for command in read)
        if characters > most_read:
            nearest, most_read = commands, characters
    if best:
        sequence = joined(whole, best, form)
        # Where both say the same, the whole sentence has a derivation to show.
        if exact_match(whole.target, sequence.target or ""):
            return whole
        return sequence
    if whole.target is None and nearest:
        commands = list(map(completed, nearest))
        return abstention(completed(whole), commands, form)
    return completed(whole)


def score(answer: Answer) -> float:
    """What answers are compared by: confidence or, in a system without, probability.

    An answer without either is worth least.
    """
    if answer.confidence is not None:
        return answer.confidence
    return answer.probability or 0.0


def joined(whole: Answer, commands: Sequence[Answer], form: SequenceFormat) -> Answer:
    """The answer of several commands, which are independent."""
    programs: list[str] = []
    probabilities: list[float | None] = []
    confidences: list[float | None] = []
    systems: dict[str, None] = {}
    for command in commands:
        programs.append(command.target or "")
        probabilities.append(command.probability)
        confidences.append(command.confidence)
        systems[command.system] = None
    return Answer(
        whole.source,
        form.join(programs),
        _product(probabilities),
        " and ".join(systems),
        confidence=_product(confidences),
        words=whole.words,
        commands=tuple(map(explained, commands)),
    )


def abstention(
    whole: Answer, commands: Sequence[Answer], form: SequenceFormat
) -> Answer:
    """The abstention of the whole, whose reason names the commands that have no program."""
    reasons = []
    # The whole may have a program that is only too uncertain.
    if whole.reason.startswith(UNSURE):
        reasons.append(whole.reason)
    explained_commands = []
    for command in map(explained, commands):
        explained_commands.append(command)
        if command.target is None:
            reasons.append(f"'{command.source}' has no answer: {command.reason}")
        elif not form.is_command(command.target):
            reasons.append(f"'{command.source}' is not a command: {command.target}")
    return replace(
        whole,
        reason="; ".join(reasons),
        # What the grammar lacks for the whole sentence is not why it was not answered.
        parts=(),
        gaps=None,
        commands=tuple(explained_commands),
    )


def _is_command(answer: Answer, form: SequenceFormat) -> bool:
    return answer.target is not None and form.is_command(answer.target)


def _product(figures: Sequence[float | None]) -> float | None:
    """The product, unless a figure is missing."""
    product = 1.0
    for figure in figures:
        if figure is None:
            return None
        product *= figure
    return product
