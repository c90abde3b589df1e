"""Splits: what searching and measuring cost on real data, and how both grow. `python benchmarks/splits.py [--seeds N]`.

Compare with the published implementation (user CPU seconds): greedy on GeoQuery 0.3 s reaching 0.15-0.24, on
Spider-SSP 68 s reaching 0.15; measuring one Spider split 81 s. Real data comes from $NQG_DATA_MIRROR or ../shared/data.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from nqg.data.dataset import read_split
from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.splits.audit import audit
from nqg.splits.compounds import Language, load_language
from nqg.splits.partition import Sizes, sizes_for
from nqg.splits.swap_search import decomposed
from nqg.splits.tmcd import Method, TmcdSettings, tmcd_split
from timing import cpu_seconds, peak_megabytes

MIRROR = Path(
    os.environ.get(
        "NQG_DATA_MIRROR", Path(__file__).resolve().parents[2] / "shared" / "data"
    )
)
GROWTH = (1_000, 10_000, 100_000)


def searches(name: str, language: Language, sizes: Sizes, seeds: int) -> Iterator[str]:
    """One row for each method: CPU seconds and the divergences of all seeds."""
    examples = read_examples(MIRROR / name / "expected_dataset.tsv")
    for method in reversed(Method):
        runs = [
            _search(examples, language, sizes, seed, TmcdSettings(method=method))
            for seed in range(seeds)
        ]
        reached = ", ".join(f"{divergence:.4f}" for _, divergence in runs)
        yield f"{name:10} {method:10} {min(seconds for seconds, _ in runs):10.2f}   {reached}"


def _search(
    examples: list[Example],
    language: Language,
    sizes: Sizes,
    seed: int,
    settings: TmcdSettings,
) -> tuple[float, float]:
    """CPU seconds, decomposition of the targets included, and the divergence reached."""
    start = time.process_time()
    split = tmcd_split(
        examples, sizes, language.decomposition, random.Random(seed), settings
    )
    seconds = time.process_time() - start
    return seconds, audit(examples, split, language).compound_divergence


def measuring(name: str, language: Language, split: str) -> str:
    examples = read_examples(MIRROR / name / "expected_dataset.tsv")
    positions = read_split(MIRROR / name / "splits" / f"{split}.json")
    seconds = cpu_seconds(lambda: audit(examples, positions, language))
    return f"{name:10} {split:10} {seconds:10.2f}"


def synthetic_examples(count: int) -> list[Example]:
    """Random programs over a vocabulary that grows slowly, as real ones do."""
    rng = random.Random(count)
    functions, constants = 40, 100 + count // 100

    def term(depth: int) -> str:
        if depth == 0 or rng.random() < 0.3:
            return f"c{int(constants * rng.random() ** 3)}"
        arguments = " , ".join(term(depth - 1) for _ in range(rng.choice((1, 1, 2))))
        return f"f{int(functions * rng.random() ** 2)} ( {arguments} )"

    return [
        Example(f"sentence {number}", f"answer ( {term(4)} )")
        for number in range(count)
    ]


def growth(count: int) -> str:
    """One row, measured in this process: it should run in one of its own, for the peak of memory."""
    examples = synthetic_examples(count)
    language = load_language("brackets")
    sizes = sizes_for(count)
    _search(
        synthetic_examples(1_000),
        language,
        sizes_for(1_000),
        0,
        TmcdSettings(moves=1_000),
    )  # compiles, or loads from disk
    start = time.process_time()
    data = decomposed(examples, language.decomposition)
    prepared = time.process_time() - start
    seconds, reached = _search(examples, language, sizes, 0, TmcdSettings())
    bytes_held = sum(
        column.nbytes for bags in (data.atoms, data.compounds) for column in bags[:4]
    )
    return (
        f"{count:10,} {prepared:12.2f} {seconds:10.1f} {reached:12.4f} "
        f"{bytes_held / 1e6:14.1f} {peak_megabytes():14.0f}"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--seeds", type=int, default=5, help="searches for each method"
    )
    options.add_argument(
        "--growth", type=int, help="print one row of the growth table and stop"
    )
    chosen = options.parse_args()
    if chosen.growth:
        print(growth(chosen.growth))
        return
    funql, sql = load_language("funql"), load_language("sql")
    print("TMCD       method       CPU s, best   compound divergence of each seed")
    for row in searches("geoquery", funql, Sizes(440, 440), chosen.seeds):
        print(row, flush=True)
    for row in searches("spider", sql, Sizes(3282, 1094), chosen.seeds):
        print(row, flush=True)
    print("\naudit of     split      CPU s, best")
    print(
        measuring("geoquery", funql, "tmcd_1"),
        measuring("spider", sql, "tmcd_1"),
        sep="\n",
    )
    print(
        "\n  examples  decompose s   search s   divergence   bags held, MB   peak of all, MB"
    )
    for count in GROWTH:
        subprocess.run([sys.executable, __file__, "--growth", str(count)], check=True)


if __name__ == "__main__":
    main()
