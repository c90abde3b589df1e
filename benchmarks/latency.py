"""What a sentence costs: p50, p99 and the worst, of sentences as people say them and of hostile ones.

    python benchmarks/latency.py --sentences 100000
    python benchmarks/latency.py --models FOLDER --project robot --sentences 5000 --most-ratio 100
    python benchmarks/latency.py --models FOLDER --sentences 10000 --seed 41 --costs costs.json

Each sentence is answered alone, explained as a server explains it and under a server's limits. Costs are
CPU seconds of this process, so that a busy machine does not show. `--most-ratio` makes it a check: the exit
code is 1 where the worst of all sentences costs more than so many times the median of ordinary ones.
With `--costs`, the costs of earlier runs in this file count, too: runs with other seeds add up.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from misleading import PROJECTS, misleading, trained
from nqg.answers import System
from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.files import write_text
from nqg.grammar.compilation import compile_kernels
from nqg.inference.decoding import DecodeOptions
from nqg.inference.hybrid import load
from nqg.web.middleware import Limits, token_count

ORDINARY = "as people say them"
# How many of a hundred sentences are of each kind.
SHARES = {ORDINARY: 80, "spliced": 10, "misleading": 5, "hostile": 5}
LIMITS = Limits()


def ordinary(examples: Sequence[Example], rng: random.Random) -> str:
    sentence = rng.choice(examples).source
    return rng.choice(("{}", "{}", "please {}", "{} please")).format(sentence)


def spliced(examples: Sequence[Example], rng: random.Random) -> str:
    first, second = (rng.choice(examples).source.split() for _ in range(2))
    return " ".join([*first[: (len(first) + 1) // 2], *second[len(second) // 2 :]])


def hostile(examples: Sequence[Example], rng: random.Random) -> str:
    """As long and as ambiguous as a server allows."""
    words = [word for example in examples for word in example.source.split()]
    sources = [example.source for example in examples]
    size = rng.randint(LIMITS.tokens // 2, LIMITS.tokens)
    forms: Sequence[Callable[[], str]] = (
        lambda: " ".join(rng.choices(words, k=size)),
        lambda: " ".join([rng.choice(words)] * size),
        lambda: " and ".join(rng.choices(sources, k=size // 6)),
        lambda: f" {rng.choice(words)} ".join(rng.choices(sources, k=size // 6)),
        lambda: f"{rng.choice(words)}," * (size // 2),
        lambda: "词" * size,
        lambda: " ".join(map(str, rng.choices(range(60), k=size))),
        lambda: "twice and " * (size // 2),
        lambda: " ".join(rng.sample(words, 2) * (size // 2)),
    )
    sentence = rng.choice(forms)()
    while token_count(sentence) > LIMITS.tokens:
        sentence = sentence[: len(sentence) * 9 // 10]
    return sentence


def sentences(
    name: str, examples: Sequence[Example], count: int, rng: random.Random
) -> Iterator[tuple[str, str]]:
    """Sentences with their kind."""
    tricks = [item.sentence for item in misleading(name, examples, rng)]
    kinds: Mapping[str, Callable[[], str]] = {
        ORDINARY: lambda: ordinary(examples, rng),
        "spliced": lambda: spliced(examples, rng),
        "misleading": lambda: rng.choice(tricks),
        "hostile": lambda: hostile(examples, rng),
    }
    for kind in rng.choices([*SHARES], [*SHARES.values()], k=count):
        yield kind, kinds[kind]()


def costs(system: System, asked: Iterator[tuple[str, str]]) -> dict[str, list[float]]:
    """Milliseconds of CPU time for each sentence, by kind."""
    options = DecodeOptions(
        chart=True,
        gaps=True,
        limit=LIMITS.chart_steps,
        most_tokens=LIMITS.target_tokens,
    )
    system = system.with_options(options)  # type: ignore[attr-defined]
    by_kind = defaultdict[str, list[float]](list)
    for kind, sentence in asked:
        start = time.process_time()
        list(system.answers([sentence]))
        by_kind[kind].append(1000 * (time.process_time() - start))
    return by_kind


def row(name: str, kind: str, milliseconds: Sequence[float]) -> str:
    ordered = sorted(milliseconds)
    middle, late = ordered[len(ordered) // 2], ordered[int(0.99 * len(ordered))]
    return f"| {name} | {kind} | {len(ordered):,} | {middle:.1f} | {late:.1f} | {ordered[-1]:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--project", nargs="*", choices=PROJECTS, default=[*PROJECTS])
    parser.add_argument("--models", type=Path, help="trained models, by project")
    parser.add_argument("--sentences", type=int, default=100_000, help="of all models")
    parser.add_argument("--most-ratio", type=float, help="of the worst to the median")
    parser.add_argument("--seed", type=int, default=40)
    parser.add_argument("--costs", type=Path, help="of the sentences of earlier runs")
    options = parser.parse_args()
    compile_kernels()
    rng, count = random.Random(options.seed), options.sentences // len(options.project)
    print("| model | sentences | number | p50, ms | p99, ms | worst, ms |")
    print("|---|---|--:|--:|--:|--:|")
    too_much = False
    every: dict[str, dict[str, list[float]]] = {}
    if options.costs and options.costs.exists():
        every = json.loads(options.costs.read_text())
    for name in options.project:
        folder = PROJECTS[name]
        examples = [
            *read_examples(folder / "train.tsv"),
            *read_examples(folder / "test.tsv"),
        ]
        system = load(options.models / name) if options.models else trained(folder)
        # The first sentences load what a server has loaded.
        costs(system, sentences(name, examples, 30, random.Random(0)))
        by_kind = costs(system, sentences(name, examples, count, rng))
        for kind, earlier in every.get(name, {}).items():
            by_kind[kind] += earlier
        every[name] = by_kind
        if options.costs:
            write_text(options.costs, json.dumps(every))
        for kind in SHARES:
            print(row(name, kind, by_kind[kind]), flush=True)
        usual = sorted(by_kind[ORDINARY])[len(by_kind[ORDINARY]) // 2]
        worst = max(map(max, by_kind.values()))
        print(
            f"{name}: the worst costs {worst / usual:.0f} times the median of ordinary ones"
        )
        too_much |= (
            options.most_ratio is not None and worst > options.most_ratio * usual
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"most memory: {peak} MB")
    sys.exit(too_much)


if __name__ == "__main__":
    main()
