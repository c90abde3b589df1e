"""What `nqg train` costs: CPU seconds and memory over the number of pairs, with its defaults.

    python benchmarks/cost.py measure DATASET [PAIRS] [--folds N]
    python benchmarks/cost.py curves RESULTS.jsonl [DATASET …] [--folds N]
    python benchmarks/cost.py plot RESULTS.jsonl FIGURE

The first trains once on so many pairs drawn at random, all without a number, and prints a line of
JSON: CPU seconds of each stage and in all, the peak of memory, rules, and the share of test
sentences that are right if all are answered. The second does so in a process each for sizes that
double, and appends the lines to a file. The third draws them.

`sql` are the 150 pairs of GeoQuery in SQL with the longest queries of at most 110 tokens, `shell` the
pairs of shell_commands.py, and `cogs-like` are drawn from a grammar that is induced from 4,000
pairs of COGS. Data comes from $NQG_DATA_MIRROR or ../shared/data. One core.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import nqg
from induction_default import MIRROR, Induced, cogs_examples
from nqg import Example
from nqg.answers import exact_match
from nqg.data.example_files import read_examples
from nqg.induction.sampling import GrammarSampler
from nqg.inference.decoding import DecodeOptions
from nqg.paper.plots import write_picture
from nqg.pipeline.events import StageStarted, TrainReport
from nqg.pipeline.settings import ConfidenceSettings, TrainSettings
from shell_commands import pairs as shell_pairs
from slog import training_pairs as slog_pairs
from timing import peak_megabytes

SQL_PAIRS, LONGEST_QUERY = 150, 110
COGS_LIKE, INDUCED_FROM = 100_000, 4_000
SHELL_PAIRS = 600
MOST_TESTED = 1_000
SMALLEST = 150  # pairs of a curve
CURVES = (
    "slog",
    "cogs",
    "cogs-like",
    "overnight-calendar",
    "overnight-blocks",
    "ha-en",
)
SINGLE = ("sql", "shell")
Pairs = Sequence[Example]


def folder(name: str) -> tuple[Pairs, Pairs]:
    train, test = (
        read_examples(MIRROR / name / f"{part}.tsv") for part in ("train", "test")
    )
    return train, test


def sql() -> tuple[Pairs, Pairs]:
    """Questions with their values, and their queries: the longest but for a few."""
    queries: dict[str, str] = {}
    for entry in json.loads((MIRROR / "geoquery_sql" / "geography.json").read_text()):
        for sentence in entry["sentences"]:
            text, query = sentence["text"], entry["sql"][0]
            for variable, value in sentence["variables"].items():
                text, query = (
                    text.replace(variable, value),
                    query.replace(variable, value),
                )
            queries.setdefault(text.strip(), query)
    sized = sorted(
        (len(re.findall(r"\w+|[^\w\s]", query)), text, query)
        for text, query in queries.items()
    )
    fitting = [row for row in sized if row[0] <= LONGEST_QUERY][-SQL_PAIRS:]
    return [Example(text, query) for _, text, query in fitting], []


def shell() -> tuple[Pairs, Pairs]:
    everything = shell_pairs(SHELL_PAIRS + SHELL_PAIRS // 4)
    return everything[:SHELL_PAIRS], everything[SHELL_PAIRS:]


def cogs_like() -> tuple[Pairs, Pairs]:
    """New pairs, and COGS' own for a test."""
    train = random.Random(0).sample(cogs_examples("train"), INDUCED_FROM)
    found = Induced.of(train)
    sampler = GrammarSampler(found.grammar.typed_by(found.types), train)
    return sampler.samples(COGS_LIKE), cogs_examples("test")


DATASETS: dict[str, Callable[[], tuple[Pairs, Pairs]]] = {
    "slog": lambda: (slog_pairs(), []),
    "cogs": lambda: (cogs_examples("train"), cogs_examples("test")),
    "cogs-like": cogs_like,
    "overnight-calendar": lambda: folder("overnight/calendar"),
    "overnight-blocks": lambda: folder("overnight/blocks"),
    "ha-en": lambda: folder("home_assistant/en"),
    "sql": sql,
    "shell": shell,
}


def measure(dataset: str, count: int | None, folds: int | None) -> dict[str, Any]:
    train, test = DATASETS[dataset]()
    if count is not None and count < len(train):
        train = random.Random(0).sample(train, count)
    # Pairs that were made here are not part of the cost.
    started = time.process_time()
    stages: dict[str, float] = defaultdict(float)
    stage, since, rules = "beginning", started, 0

    def listen(event: object) -> None:
        nonlocal stage, since, rules
        if isinstance(event, StageStarted | TrainReport):
            now = time.process_time()
            stages[stage] += now - since
            since = now
        if isinstance(event, StageStarted):
            stage = str(event.stage)
        elif isinstance(event, TrainReport):
            rules = event.rules

    settings = TrainSettings(confidence=ConfidenceSettings(folds=folds))
    system = nqg.train(train, settings=settings, listener=listen, device="cpu")
    seconds, megabytes = time.process_time() - started, peak_megabytes()
    assert isinstance(system, nqg.Parser), "no second reader is asked for"

    parser = nqg.Parser(system.model, DecodeOptions(least_confidence=0.0))
    tested = test[:MOST_TESTED]
    answers = parser.answers(example.source for example in tested)
    right = 0
    for answer, example in zip(answers, tested, strict=True):
        right += exact_match(answer.target, example.target)
    return {
        "dataset": dataset,
        "pairs": len(train),
        "folds": folds,
        "seconds": round(seconds, 1),
        "stages": {name: round(each, 1) for name, each in stages.items()},
        "megabytes": round(megabytes),
        "rules": rules,
        "right": round(100 * right / len(tested), 1) if tested else None,
    }


def curves(results: Path, datasets: Sequence[str], folds: int | None) -> None:
    """A process for each size, so that memory is that of one training."""
    for dataset in datasets or [*SINGLE, *CURVES]:
        most = len(DATASETS[dataset]()[0]) if dataset != "cogs-like" else COGS_LIKE
        sizes = [most]
        while dataset in CURVES and sizes[-1] >= 2 * SMALLEST:
            sizes.append(sizes[-1] // 2)
        for size in reversed(sizes):
            command = [sys.executable, __file__, "measure", dataset, str(size)]
            if folds is not None:
                command += ["--folds", str(folds)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            line = done.stdout.strip().splitlines()[-1:] or [
                json.dumps(
                    {"dataset": dataset, "pairs": size, "error": done.stderr[-400:]}
                )
            ]
            print(line[0], flush=True)
            with results.open("a") as file:
                file.write(line[0] + "\n")


def plot(results: Path, figure: Path) -> None:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in results.read_text().splitlines():
        row = json.loads(line)
        if "error" not in row:
            rows[row["dataset"]].append(row)

    def draw(figure_class: Any) -> Any:
        picture = figure_class(figsize=(8, 3.6), layout="constrained")
        cost, memory = picture.subplots(1, 2)
        for dataset, measured in rows.items():
            measured.sort(key=lambda row: int(row["pairs"]))
            counts = [row["pairs"] for row in measured]
            marker = "o" if len(counts) > 1 else "s"
            for axes, name in ((cost, "seconds"), (memory, "megabytes")):
                values = [row[name] for row in measured]
                axes.plot(counts, values, marker=marker, markersize=4, label=dataset)
        cost.set(
            xscale="log", yscale="log", xlabel="training pairs", ylabel="CPU seconds"
        )
        memory.set(xscale="log", xlabel="training pairs", ylabel="MB")
        memory.set_ylim(bottom=0)
        cost.legend(frameon=False, fontsize=7)
        return picture

    write_picture(figure, draw)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode", choices=["measure", "curves", "plot"])
    parser.add_argument("words", nargs="+")
    parser.add_argument("--folds", type=int)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    first, *rest = chosen.words
    if chosen.mode == "measure":
        count = int(rest[0]) if rest else None
        print(json.dumps(measure(first, count, chosen.folds)), flush=True)
    elif chosen.mode == "curves":
        curves(Path(first), rest, chosen.folds)
    else:
        plot(Path(first), Path(rest[0]))


if __name__ == "__main__":
    main()
