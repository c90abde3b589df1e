"""Whether two checkouts of nqg give the same answers with the same model.

    python benchmarks/same_answers.py MODEL SENTENCES --old OLD_CHECKOUT [--count 4000] [--plain]

SENTENCES is a file with a sentence, or an example, on each line. Every checkout answers in a process of
its own. Programs and derivations must be equal, probabilities and confidences within 1e-5; the
largest differences and the CPU time of both are printed. Kernels are compiled; with `--plain` this
checkout answers as one does without Numba. Exits with 1 if answers differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
TOLERANCE = 1e-5
ANSWER = """
import json, sys, time
import nqg
try:
    from nqg.grammar import compilation
    compilation._state.is_compiled = sys.argv[4] == "compiled"
    compilation._state.is_fixed = True
except ImportError:
    pass  # an older checkout always compiles
parser = nqg.load(sys.argv[1])
sentences = [line.rstrip("\\n").split("\\t")[0] for line in open(sys.argv[2])]
sentences = sentences[: int(sys.argv[3])]
list(parser.answers(sentences[:64]))
started = time.process_time()
for answer in parser.answers(sentences):
    derivation = str(answer.reading.derivation) if answer.reading else None
    figures = [answer.probability, answer.confidence]
    print(json.dumps([answer.source, answer.target, answer.reason, derivation, figures]))
print(json.dumps(time.process_time() - started))
"""


def answered(
    checkout: Path, model: Path, sentences: Path, count: int, kernels: str
) -> tuple[list[Any], float]:
    """The answers of a checkout, and the CPU time that they took without loading."""
    run = subprocess.run(
        [sys.executable, "-c", ANSWER, model, sentences, str(count), kernels],
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    *answers, seconds = map(json.loads, run.stdout.splitlines())
    return answers, float(seconds)


def differences(old: list[Any], new: list[Any]) -> Iterator[float]:
    """How far the figures of one answer are apart; infinitely where one is missing."""
    for one, other in zip(old[-1], new[-1], strict=True):
        if (one is None) != (other is None):
            yield float("inf")
        elif one is not None:
            yield abs(one - other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--old", type=Path, required=True)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--plain", action="store_true")
    asked = parser.parse_args()
    what = asked.model, asked.sentences, asked.count
    kernels = "plain" if asked.plain else "compiled"
    old, old_seconds = answered(asked.old, *what, "compiled")
    new, new_seconds = answered(PROJECT, *what, kernels)
    wrong = 0
    largest = 0.0
    for one, other in zip(old, new, strict=True):
        if one[:-1] != other[:-1]:
            wrong += 1
            print("differs:", one, other, sep="\n  ")
        largest = max([largest, *differences(one, other)])
    print(
        f"{asked.model.name}: {len(old):,} sentences, {wrong} answers differ, "
        f"figures differ by {largest:.1e} at most; "
        f"{len(old) / old_seconds:,.0f} and {len(new) / new_seconds:,.0f} sentences a second"
    )
    sys.exit(int(wrong > 0 or largest > TOLERANCE))


if __name__ == "__main__":
    main()
