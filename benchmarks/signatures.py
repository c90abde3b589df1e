"""Whether answers call functions with keywords that these functions never had.

python benchmarks/signatures.py [--project NAME …] [--folder PATH …]

Each project is trained by default. Its model reads its test sentences, and sentences that are made
to mislead it: halves of two sentences, and sentences whose words are exchanged for those of others.
A call is *foreign* if it has a keyword that no training program gives its function. Readings are
counted at any confidence, so that a withheld answer counts as well. The project `tools-calls` is
`tools` with its JSON written as calls: ten functions with 25 keywords.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import nqg
from nqg.answers import Answer, exact_match
from nqg.calls import read_calls
from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.inference.decoding import DecodeOptions
from nqg.pipeline.settings import TrainSettings
from real_use_datasets import EXAMPLES, STARTER
from type_inference import calls_of

PROJECTS = {
    "starter": STARTER,
    "robot": EXAMPLES / "robot",
    "home-en": EXAMPLES / "home_assistant" / "en",
    "home-de": EXAMPLES / "home_assistant" / "de",
    "tools": EXAMPLES / "tools",
}
AS_CALLS = "tools-calls"
MISLEADING = 500
READINGS = 20


def known_keywords(examples: Iterable[Example]) -> Mapping[str, set[str]]:
    keywords = defaultdict[str, set[str]](set)
    for example in examples:
        for call in calls_of(example.target):
            keywords[call.name].update(call.arguments)
    return keywords


def is_foreign(program: str, known: Mapping[str, set[str]]) -> bool:
    calls = calls_of(program)
    return any(not known[call.name].issuperset(call.arguments) for call in calls)


def misleading(examples: Sequence[Example], rng: random.Random) -> list[str]:
    """Halves of two sentences, or a sentence with two words of another one in its midst."""
    sentences = []
    for number in range(MISLEADING):
        first = rng.choice(examples).source.split()
        second = rng.choice(examples).source.split()
        if number % 2:
            words = [*first[: (len(first) + 1) // 2], *second[len(second) // 2 :]]
        else:
            at, start = rng.randrange(len(first)), rng.randrange(len(second))
            words = [*first[:at], *second[start : start + 2], *first[at + 1 :]]
        sentences.append(" ".join(words))
    return sentences


def programs_of(answer: Answer) -> list[str]:
    programs = [reading.target for reading in answer.readings if reading.is_legal]
    if answer.target is not None:
        programs.append(answer.target)
    return programs


def written_as_calls(example: Example) -> Example:
    """The example with its JSON as `set_timer(minutes=5, label="tea")`, calls with `; ` between.

    >>> program = '{"name": "set_timer", "arguments": {"minutes": 5, "label": "tea"}}'
    >>> written_as_calls(Example("tea timer", program)).target
    'set_timer(minutes=5, label="tea")'
    """
    calls = []
    for call in read_calls(example.target):
        arguments = []
        for keyword, value in call.arguments.items():
            arguments.append(f"{keyword}={json.dumps(value, ensure_ascii=False)}")
        calls.append(f"{call.name}({', '.join(arguments)})")
    return replace(example, target="; ".join(calls))


def measure(name: str, folder: Path) -> str:
    """The row of a project."""
    train = list(read_examples(folder / "train.tsv"))
    test = list(read_examples(folder / "test.tsv"))
    if name == AS_CALLS:
        train = list(map(written_as_calls, train))
        test = list(map(written_as_calls, test))
    settings = TrainSettings()
    if (folder / "nqg.toml").exists():
        settings = TrainSettings.read(folder / "nqg.toml")
    system = nqg.train(train, settings=settings)
    defaults = list(system.answers(pair.source for pair in test))
    options = DecodeOptions(least_confidence=0.0, readings=READINGS)
    forced = system.with_options(options)
    right = 0
    for answer, pair in zip(forced.answers(pair.source for pair in test), test):
        right += exact_match(answer.target, pair.target)
    answered = sum(map(bool, defaults))
    # Foreign keywords, in what tests and misleading sentences are read as.
    known = known_keywords(train)
    made = misleading([*train, *test], random.Random(0))
    programs: list[str] = []
    for answer in forced.answers([*(pair.source for pair in test), *made]):
        programs += programs_of(answer)
    foreign = [program for program in programs if is_foreign(program, known)]
    shown = foreign[0] if foreign else ""
    return (
        f"| {name} | {right} of {len(test)} | {answered} | {len(programs):,} | "
        f"{len(foreign):,} | {shown} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    projects = PROJECTS | {AS_CALLS: PROJECTS["tools"]}
    parser.add_argument("--project", nargs="*", choices=projects, default=[*projects])
    parser.add_argument("--folder", nargs="*", type=Path, default=[])
    arguments = parser.parse_args()
    folders = {name: projects[name] for name in arguments.project}
    folders |= {folder.name: folder for folder in arguments.folder}
    print("| project | right, all answered | answered | readings | foreign | one |")
    print("|---|--:|--:|--:|--:|---|")
    for name, folder in folders.items():
        print(measure(name, folder), flush=True)


if __name__ == "__main__":
    main()
