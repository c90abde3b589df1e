"""Induction: what it costs, what it finds beside the published implementation, and how the cost grows.

    python benchmarks/induction.py                       # all tables, in Markdown (about ten minutes)
    python benchmarks/induction.py --only growth --plot docs/pictures/induction-growth.png
    python benchmarks/induction.py --measure scan length shortest=250 sample=10

Every figure comes from a process of its own (`--measure`), so that the peak of memory is that of one induction, and
most from two, under different hash seeds, whose grammars must be equal. CPU seconds are the best of the runs, kernels
loaded before. Published figures: ../shared/reference.md. Data comes from $NQG_DATA_MIRROR or ../shared/data.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nqg import Example
from nqg.grammar.grammar import Grammar
from nqg.induction.description_length import description_length
from nqg.induction.induce import Induction, induce
from nqg.induction.settings import InductionSettings
from nqg.model.forests import build_forests
from nqg.paper import load_dataset
from nqg.paper.spider import nqg_examples
from timing import peak_megabytes

SHARED = Path(__file__).resolve().parents[2] / "shared"
MIRROR = Path(os.environ.get("NQG_DATA_MIRROR", SHARED / "data"))
HASH_SEEDS, ONE_SEED = (1, 2), (0,)  # one where an induction takes minutes
Changes = tuple[tuple[str, Any], ...]  # settings and their values
PUBLISHED = {  # user CPU seconds of several runs: least and most
    ("scan", "jump"): (9, 12),
    ("scan", "length"): (7, 10),
    ("scan", "turn-left"): (7, 13),
    ("scan", "mcd1"): (7, 13),
    ("geoquery", "standard"): (482, 604),
    ("geoquery", "template"): (754, 846),
    ("geoquery", "length"): (42, 48),
    ("geoquery", "tmcd"): (154, 169),
    ("spider-ssp", "random"): (1046, 1046),
}
GEOQUERY = ("standard", "template", "length", "tmcd")
FULL_WEIGHT, NO_FACTORING = ("data_weight", 1.0), ("factoring", False)
CHOICES: Mapping[str, Changes] = {
    "ours": (),
    "full weight": (FULL_WEIGHT,),
    "full weight, no factoring": (FULL_WEIGHT, NO_FACTORING),
    "the paper's": (FULL_WEIGHT, NO_FACTORING, ("pruning", False), ("sample", 10)),
}
EVERYTHING = (("scan", "length"), ("scan", "jump"), ("spider-ssp", "random"))
GROWTH = {
    ("scan", "length"): (250, 500, 1000, 2000, 4000, 8000, None),
    ("spider-ssp", "random"): (250, 500, 1000, 2000, None),
}
QUALITY = ("rules", "bits: grammar + data", "sources covered", "pairs derivable")
TABLES = ("published", "choices", "everything", "growth")


@dataclass(frozen=True, slots=True)
class Case:
    """A training set, and the settings that differ from our own for its dataset."""

    dataset: str
    split: str
    changes: Changes = ()

    @property
    def name(self) -> str:
        return f"{self.dataset} {self.split}"

    @property
    def settings(self) -> InductionSettings:
        return InductionSettings.named(self.dataset).changed(**dict(self.changes))

    def parts(self) -> tuple[list[Example], list[Example]]:
        """Training and test examples, for Spider in the form that the grammar works on."""
        train, test = load_dataset(self.dataset, mirror=MIRROR).split(self.split)
        if self.dataset.startswith("spider"):
            return nqg_examples(train), nqg_examples(test)
        return list(train), list(test)


@dataclass(frozen=True, slots=True)
class Quality:
    """What a grammar is worth: its size, the objective on the training set, and what it derives of the test set."""

    rules: int
    grammar_bits: float
    data_bits: float
    covered: float  # share of test sources with a derivation
    derivable: float  # share of test pairs

    @classmethod
    def of(cls, grammar: Grammar, case: Case) -> Quality:
        train, test = case.parts()
        length = description_length(grammar, train, case.settings)
        forests = build_forests(grammar, test)
        covered = float(np.mean(np.diff(forests.full.first_node) > 0))
        derivable = 1 - len(forests.underivable()) / len(test)
        return cls(
            len(grammar), length.grammar_bits, length.data_bits, covered, derivable
        )

    def __str__(self) -> str:
        bits = f"{self.grammar_bits:,.0f} + {self.data_bits:,.0f} = {self.grammar_bits + self.data_bits:,.0f}"
        return f"{self.rules:,} | {bits} | {self.covered:.1%} | {self.derivable:.1%}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one process found out about a case."""

    seconds: float
    start_up_megabytes: float  # peak before induction began
    peak_megabytes: float
    steps: int
    searched_rules: int  # before examples left out of the search get rules of their own
    quality: Quality
    digest: str  # of the grammar's text


def measured(case: Case, runs: int) -> Measurement:
    """Measure in this process, which should be a new one."""
    induce(
        [Example("a b", "x y"), Example("a", "x")], InductionSettings(factoring=True)
    )  # loads the kernels
    train, _ = case.parts()
    gc.freeze()  # the examples are no garbage: without this the collector walks over them in the measured time
    start_up, seconds = peak_megabytes(), []
    for _ in range(runs):
        start = time.process_time()
        induction = Induction(train, case.settings)
        steps = sum(1 for _ in induction.steps())
        grammar = induction.grammar
        seconds.append(time.process_time() - start)
    peak, digest = peak_megabytes(), hashlib.sha256(str(grammar).encode()).hexdigest()
    quality = Quality.of(grammar, case)
    return Measurement(
        min(seconds), start_up, peak, steps, induction.searched_rules, quality, digest
    )


@cache
def measured_apart(
    case: Case, runs: int = 1, hash_seeds: tuple[int, ...] = HASH_SEEDS
) -> Measurement:
    """The quickest of some new processes with different hash seeds, which must all find the same grammar."""
    results = [_measured_in_process(case, runs, seed) for seed in hash_seeds]
    assert len({result.digest for result in results}) == 1, (
        f"{case.name}: the grammar depends on the hash seed"
    )
    return min(results, key=lambda result: result.seconds)


def _measured_in_process(case: Case, runs: int, hash_seed: int) -> Measurement:
    changes = [f"{name}={json.dumps(value)}" for name, value in case.changes]
    command = [
        sys.executable,
        __file__,
        "--runs",
        str(runs),
        "--measure",
        case.dataset,
        case.split,
        *changes,
    ]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    output = subprocess.run(
        command, check=True, env=environment, stdout=subprocess.PIPE, text=True
    ).stdout
    fields = json.loads(output)
    return Measurement(**{**fields, "quality": Quality(**fields["quality"])})


def heading(*columns: str) -> Iterator[str]:
    yield f"| training set | {' | '.join(columns)} |"
    yield "|---|" + "--:|" * len(columns)


def published_table() -> Iterator[str]:
    yield from heading("CPU s", "published s", "ratio", "peak MB", *QUALITY)
    for (dataset, split), (least, most) in PUBLISHED.items():
        case = Case(dataset, split)
        found = measured_apart(case, runs=3)
        published = f"{least:,}-{most:,}" if least < most else f"{least:,}"
        ratio = f"{least / found.seconds:.0f}" + (
            f"-{most / found.seconds:.0f}" if least < most else ""
        )
        cost = (
            f"{found.seconds:.2f} | {published} | {ratio} | {found.peak_megabytes:.0f}"
        )
        yield f"| {case.name} | {cost} | {found.quality} |"
        reference = SHARED / "reference" / f"{dataset}-{split}.rules.txt"
        if reference.exists():
            yield f"| their grammar | | | | | {Quality.of(Grammar.read(reference), case)} |"


def choices_table() -> Iterator[str]:
    yield from heading("settings", "CPU s", "steps", *QUALITY)
    for split in GEOQUERY:
        for name, changes in CHOICES.items():
            found = measured_apart(Case("geoquery", split, changes))
            yield f"| geoquery {split} | {name} | {found.seconds:.2f} | {found.steps:,} | {found.quality} |"


def everything_table() -> Iterator[str]:
    yield from heading("examples", "CPU s", "peak MB", "steps", *QUALITY)
    for dataset, split in EVERYTHING:
        case = Case(dataset, split, (("shortest", None),))
        found = measured_apart(case, hash_seeds=ONE_SEED)
        cost = f"{found.seconds:.1f} | {found.peak_megabytes:.0f} | {found.steps:,}"
        yield f"| {case.name} | {len(case.parts()[0]):,} | {cost} | {found.quality} |"


def growth_table(plot: Path | None) -> Iterator[str]:
    yield from heading(
        "examples searched",
        "CPU s",
        "CPU ms an example",
        "peak MB",
        "of it start-up",
        "steps",
        "rules",
    )
    curves: dict[str, list[tuple[int, Measurement]]] = {}
    for (dataset, split), sizes in GROWTH.items():
        for size in sizes:
            case = Case(dataset, split, (("shortest", size),))
            found, count = (
                measured_apart(case, hash_seeds=ONE_SEED),
                size or len(case.parts()[0]),
            )
            curves.setdefault(case.name, []).append((count, found))
            memory = f"{found.peak_megabytes:.0f} | {found.start_up_megabytes:.0f}"
            cost = (
                f"{found.seconds:.2f} | {1000 * found.seconds / count:.2f} | {memory}"
            )
            yield f"| {case.name} | {count:,} | {cost} | {found.steps:,} | {found.searched_rules:,} |"
    if plot is not None:
        draw(curves, plot)


def draw(curves: Mapping[str, Sequence[tuple[int, Measurement]]], path: Path) -> None:
    """Seconds and memory over the number of examples."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    seconds, memory = figure.subplots(1, 2)
    for name, points in curves.items():
        counts = [count for count, _ in points]
        seconds.loglog(
            counts, [found.seconds for _, found in points], marker="o", label=name
        )
        extra = [found.peak_megabytes - found.start_up_megabytes for _, found in points]
        memory.semilogx(counts, extra, marker="o", label=name)
    ticks = sorted(
        {count for points in curves.values() for count, _ in points if count % 250 == 0}
    )
    for axes, title in ((seconds, "CPU seconds"), (memory, "MB beyond start-up")):
        axes.set(title=title, xlabel="examples searched")
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.set_ylim(bottom=None if axes is seconds else 0)
    seconds.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _case(words: Sequence[str]) -> Case:
    """The case of `DATASET SPLIT setting=value …`."""
    dataset, split, *changes = words
    pairs = (change.split("=", 1) for change in changes)
    return Case(
        dataset, split, tuple((name, json.loads(value)) for name, value in pairs)
    )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", choices=TABLES, help="print one table")
    options.add_argument("--plot", type=Path, metavar="FILE", help="draw the growth")
    options.add_argument(
        "--measure",
        nargs="+",
        metavar="WORD",
        help="DATASET SPLIT setting=value …: measure here",
    )
    options.add_argument(
        "--runs",
        type=int,
        default=1,
        help="inductions of --measure, of which the quickest counts",
    )
    chosen = options.parse_args()
    if chosen.measure:
        print(json.dumps(asdict(measured(_case(chosen.measure), chosen.runs))))
        return
    tables = (
        published_table(),
        choices_table(),
        everything_table(),
        growth_table(chosen.plot),
    )
    for name, rows in zip(TABLES, tables, strict=True):
        if chosen.only in (None, name):
            print(f"\n## {name}\n")
            for row in rows:
                print(row, flush=True)


if __name__ == "__main__":
    main()
