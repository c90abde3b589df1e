"""CPU time that raw text costs a sentence: `python benchmarks/text.py EXAMPLES.tsv`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from nqg import fit_text, read_examples

ROUNDS, REPEATS = 5, 20
Item = TypeVar("Item")


def microseconds(work: Callable[[Item], object], items: Sequence[Item]) -> float:
    """The best of some rounds."""
    rounds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(REPEATS):
            for item in items:
                work(item)
        rounds.append((time.process_time() - started) / REPEATS / len(items) * 1e6)
    return min(rounds)


def main(path: str) -> None:
    examples = read_examples(path)
    text = fit_text(examples)
    sentences = [example.source for example in examples]
    programs = [text.programs.normalized(example.target) for example in examples]
    reading = microseconds(text.tokenized, sentences)
    writing = microseconds(text.programs.render, programs)
    print(
        f"{len(examples):,} pairs: reading a sentence {reading:.0f} µs, writing a program {writing:.0f} µs"
    )


if __name__ == "__main__":
    main(sys.argv[1])
