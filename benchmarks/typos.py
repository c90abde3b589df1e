"""Typos: how many right answers survive one random typo in each sentence, and how sure the wrong ones are.

python benchmarks/typos.py MODEL EXAMPLES.tsv [SEEDS]

Of the sentences that the model gets right each has a letter added, dropped or changed, or two neighbours swapped, in
a random word of four letters or more; and once more in a word of any length.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import replace

from nqg import Parser
from nqg.answers import Answer, exact_match
from nqg.data.examples import Example, read_examples
from nqg.inference.corrections import misspelt

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SURE = 0.9


def with_typo(sentence: str, shortest: int, rng: random.Random) -> str:
    words = sentence.split()
    places = [place for place, word in enumerate(words) if len(word) >= shortest and word.isalpha()]
    if places:
        place = rng.choice(places)
        words[place] = misspelt(words[place], LETTERS, rng)
    return " ".join(words)


def outcome(answer: Answer, example: Example) -> str:
    if answer.target is None:
        return "abstained"
    return "right" if exact_match(answer.target, example.target) else "wrong"


def main(folder: str, file: str, seeds: str = "5") -> None:
    parser = Parser.load(folder, "cpu")
    exact, examples = parser.with_options(replace(parser.options, exact=True)), read_examples(file)
    before = zip(exact.answers(each.source for each in examples), examples, strict=True)
    right = [example for answer, example in before if outcome(answer, example) == "right"]
    print(f"{len(right)} of {len(examples)} sentences are right without typos")
    for shortest in (4, 2):
        for system, name in ((exact, "exact"), (parser, "corrected")):
            counts, sure, rng = Counter[str](), Counter[str](), random.Random(0)
            for _ in range(int(seeds)):
                written = [with_typo(example.source, shortest, rng) for example in right]
                for text, answer, example in zip(written, system.answers(written), right, strict=True):
                    said = outcome(answer, example)
                    counts[said] += 1
                    sure[said] += (answer.confidence or 0) > SURE
                    if said == "wrong" and "-v" in sys.argv:
                        print(
                            f"{text} → {answer.target}, expected {example.target}; {answer.confidence}",
                            *map(str, answer.corrections),
                        )
            shares = ", ".join(
                f"{said} {counts[said] / counts.total():.1%}" for said in ("right", "abstained", "wrong")
            )
            print(
                f"{shortest} letters or more, {name:9} of {counts.total():,}: {shares}; "
                f"confidence over {SURE}: {sure['right']:,} right, {sure['wrong']:,} wrong"
            )


if __name__ == "__main__":
    main(*(word for word in sys.argv[1:] if word != "-v"))
