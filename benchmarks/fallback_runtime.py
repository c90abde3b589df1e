"""A fallback on two cores: PyTorch's `generate` in float32 beside CTranslate2 in eight bits, on the same sentences.

    python benchmarks/fallback_runtime.py MODEL/seq2seq test.tsv

Seconds are of wall and of CPU; the latter hold on a busy machine, too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from nqg.answers import Answer, exact_match
from nqg.data.examples import read_examples
from nqg.seq2seq.quantized import QuantizedSeq2seq
from nqg.seq2seq.seq2seq import Seq2seq

THREADS = 2


def timed(answers: Callable[[list[str]], list[Answer]], sentences: list[str]) -> tuple[list[Answer], float, float]:
    answers(sentences[:4])  # whatever is made on first use
    wall, cpu = time.perf_counter(), time.process_time()
    found = answers(sentences)
    return found, time.perf_counter() - wall, time.process_time() - cpu


def main(folder: Path, path: Path) -> None:
    torch.set_num_threads(THREADS)
    examples = read_examples(path)
    sentences = [example.source for example in examples]
    slow = Seq2seq.load(folder, "cpu")
    fast = QuantizedSeq2seq.load(slow, folder)
    if fast is None:
        raise SystemExit(f"{folder}: CTranslate2 is not installed, or does not know this model")
    results = {"generate, float32": timed(slow.answers, sentences), "CTranslate2, int8": timed(fast.answers, sentences)}
    for name, (answers, wall, cpu) in results.items():
        right = sum(exact_match(answer.target, each.target) for answer, each in zip(answers, examples, strict=True))
        speed = f"{len(sentences) / wall:8.1f} sentences a second, {cpu:7.2f} s of CPU"
        print(f"{name}: {speed}, {right} of {len(sentences)} right")
    (one, wall, cpu), (other, fast_wall, fast_cpu) = results.values()
    same = sum(first.target == second.target for first, second in zip(one, other, strict=True))
    print(
        f"{same} answers are the same; {wall / fast_wall:.1f} times as fast, with {cpu / fast_cpu:.1f} times less CPU"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
