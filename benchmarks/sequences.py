"""Several commands in one sentence: how many of 100 sentences "A and B" a model reads right.

    python benchmarks/sequences.py MODEL TEST.tsv

The sentences are joined from test sentences that the model answers correctly on their own, drawn
with a fixed seed. Both begin with a small letter, and the first loses its final mark, as a person
would write them. The model needs no example of a sequence: the benchmark sets the format of
sequences of calls, as `[text] sequence = "allow"` does. Rows differ in what is answered: everything
(`--min-confidence 0`) or what is above the model's threshold, and in where A and B come from.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nqg import Example, exact_match, read_examples
from nqg.inference.decoding import DecodeOptions
from nqg.inference.hybrid import Hybrid, load_with_grammar
from nqg.inference.parser import Parser
from nqg.text.sequences import SequenceFormat, fit_sequences

SENTENCES, SEED = 100, 0
MARKS = ".!?"


@dataclass(frozen=True, slots=True)
class Score:
    """The answers to sentences that hold two commands, and those that are wrong."""

    right: int
    answered: int
    divided: int
    wrong: tuple[tuple[str, str], ...]


def with_format(system: Parser | Hybrid, form: SequenceFormat) -> Parser | Hybrid:
    """The system, which looks for several commands in a sentence."""
    if isinstance(system, Hybrid):
        assert isinstance(system.parser, Parser)
        return replace(system, parser=with_format(system.parser, form))
    text = replace(system.model.text, sequence=form)
    return replace(system, model=replace(system.model, text=text))


def compounds(
    examples: Sequence[Example], form: SequenceFormat, rng: random.Random
) -> list[Example]:
    """Sentences "A and B" and the sequences of their programs; A and B are always different."""
    pairs = []
    for _ in range(SENTENCES):
        first, second = rng.sample(examples, 2)
        opening = as_written(first.source).rstrip(MARKS).rstrip()
        sentence = f"{opening} and {as_written(second.source)}"
        pairs.append(Example(sentence, form.join([first.target, second.target])))
    return pairs


def as_written(sentence: str) -> str:
    """A sentence as it stands inside of another one."""
    sentence = sentence.strip()
    return sentence[:1].lower() + sentence[1:]


def measured(system: Parser | Hybrid, examples: Sequence[Example]) -> Score:
    answers = list(system.answers(example.source for example in examples))
    wrong = []
    for answer, example in zip(answers, examples):
        if answer.target and not exact_match(answer.target, example.target):
            wrong.append((example.source, answer.target))
    answered = [answer for answer in answers if answer.target is not None]
    return Score(
        right=len(answered) - len(wrong),
        answered=len(answered),
        divided=sum(bool(answer.commands) for answer in answered),
        wrong=tuple(wrong),
    )


def right_alone(system: Parser | Hybrid, examples: Sequence[Example]) -> list[Example]:
    answers = system.answers(example.source for example in examples)
    right = []
    for answer, example in zip(answers, examples):
        if exact_match(answer.target, example.target):
            right.append(example)
    return right


def main(model: str, test: str) -> None:
    examples = read_examples(Path(test))
    sources = [example.source for example in examples]
    targets = [example.target for example in examples]
    form = fit_sequences(sources, targets, "allow")
    assert form is not None
    loaded = load_with_grammar(model, "cpu")
    everything, threshold = DecodeOptions(least_confidence=0.0), DecodeOptions()
    rows = [
        ("everything", everything, everything),
        ("above the threshold", everything, threshold),
        ("above the threshold", threshold, threshold),
    ]
    print("| answered | A and B from | answered | divided | right |")
    print("|---|---|--:|--:|--:|")
    missed = []
    for name, drawn_with, asked_with in rows:
        right = right_alone(loaded.with_options(drawn_with), examples)
        pairs = compounds(right, form, random.Random(SEED))
        system = with_format(loaded, form).with_options(asked_with)
        score = measured(system, pairs)
        origin = f"{len(right)} right alone"
        figures = f"{score.answered} | {score.divided} | {score.right}"
        print(f"| {name} | {origin} | {figures} |")
        missed.append((f"{name}, {origin}", score.wrong))
    for name, wrong in missed:
        print(f"\n{name}:")
        for sentence, target in wrong:
            print(f"- {sentence} → {target}")


if __name__ == "__main__":
    main(*sys.argv[1:])
