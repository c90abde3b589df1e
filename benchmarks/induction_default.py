"""Induction by default: SCAN's ten splits and COGS from examples to answers, GeoQuery, and how figures grow with data.

    python benchmarks/induction_default.py scan [SPLIT …]
    python benchmarks/induction_default.py cogs [STEPS]
    python benchmarks/induction_default.py geoquery [SPLIT …]
    python benchmarks/induction_default.py sizes cogs|scan|geoquery [SIZE …] [--plot FILE]
    python benchmarks/induction_default.py folds [SETTING=VALUE …]

The last holds out parts of GeoQuery's *training* examples: those with a quarter of the programs, four times, the
longest quarter, and the test halves of six TMCD splits. Three non-terminals, a data weight of 1/64, factoring, no
returning and what is given are set; nothing is chosen. Neither this nor `geoquery`, which is `nqg induce`, has types.

Otherwise settings are chosen by trials on the training examples. Rules and answers respect the types inferred from the
training programs, and the embedded encoder learns on one core. Data comes from $NQG_DATA_MIRROR or ../shared/data.
"""

from __future__ import annotations

import math
import os
import random
import sys
import time
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nqg import Example, Grammar, Parser, TrainingSettings, infer_target_grammar
from nqg.answers import exact_match
from nqg.induction.corpus import underivable
from nqg.induction.induce import induce
from nqg.induction.settings import InductionSettings
from nqg.induction.tuning import chosen_settings
from nqg.paper import load_dataset
from nqg.paper.plots import write_picture
from nqg.pipeline.parser import fit_parser
from nqg.splits.partition import split
from nqg.types.target_grammar import TargetGrammar
from timing import peak_megabytes

MIRROR = Path(
    os.environ.get(
        "NQG_DATA_MIRROR", Path(__file__).resolve().parents[2] / "shared" / "data"
    )
)
PART_SIZE = 1000
SPLITS = (
    *("jump", "turn-left", "length", "mcd1", "mcd2", "mcd3"),
    *("around-right", "opposite-right", "jump-around-right", "right"),
)
FOLDS, TMCD_SPLITS = 4, 6
SMALLEST = 90  # examples of a curve over sizes, twice as many each time


@dataclass(frozen=True, slots=True)
class Induced:
    """A grammar, the types that it respects, and the CPU seconds of the trials and of the search."""

    grammar: Grammar
    types: TargetGrammar
    choosing: float
    searching: float

    @classmethod
    def of(cls, train: Sequence[Example]) -> Induced:
        types = infer_target_grammar(example.target_tokens for example in train)
        start = time.process_time()
        settings = chosen_settings(train, types)
        middle = time.process_time()
        return cls(
            induce(train, settings, target_grammar=types),
            types,
            middle - start,
            time.process_time() - middle,
        )

    def derivable(self, examples: Sequence[Example]) -> float:
        """The percentage of examples with a well-typed derivation."""
        typed = self.grammar.typed_by(self.types)
        parts = (
            examples[first : first + PART_SIZE]
            for first in range(0, len(examples), PART_SIZE)
        )
        return 100 - 100 * sum(len(underivable(typed, part)) for part in parts) / len(
            examples
        )

    def parser(self, train: Sequence[Example], steps: int) -> Parser:
        training = TrainingSettings(
            steps=steps, batch_size=128, warm_up=min(32, steps // 4)
        )
        return fit_parser(
            self.grammar,
            train,
            target_grammar=self.types,
            training=training,
            device="cpu",
        )


def scan(splits: Sequence[str]) -> None:
    for name in splits or SPLITS:
        train, test = load_dataset("scan", mirror=MIRROR).split(name)
        found = Induced.of(train)
        start = time.process_time()
        parser = found.parser(train, 128)
        trained = time.process_time() - start
        answers = list(parser.answers(example.source for example in test))
        right = sum(
            exact_match(answer.target, each.target)
            for answer, each in zip(answers, test, strict=True)
        )
        seconds = f"{found.choosing:.1f} | {found.searching:.1f} | {trained:.1f}"
        shares = f"{found.derivable(test):.1f} | {100 * right / len(test):.2f}"
        print(f"| {name} | {len(found.grammar)} | {seconds} | {shares} |", flush=True)


def cogs_examples(name: str) -> list[Example]:
    """The pairs of a file; the id of each is its category."""
    rows = (
        line.split("\t")
        for line in (MIRROR / "cogs" / f"{name}.tsv").read_text().splitlines()
    )
    return [Example(source, target, id=category) for source, target, category in rows]


def cogs(steps: int = 256) -> None:
    train, gen = cogs_examples("train"), cogs_examples("gen")
    found = Induced.of(train)
    print(
        f"{len(found.grammar)} rules, {found.choosing:.0f} + {found.searching:.0f} s, {peak_megabytes():.0f} MB"
    )
    print(f"derivable: {found.derivable(gen):.2f} %", flush=True)
    parser = found.parser(train, steps)
    right, answered, everything = Counter[str](), Counter[str](), Counter[str]()
    for answer, example in zip(
        parser.answers(each.source for each in gen), gen, strict=True
    ):
        for category in (str(example.id), "all"):
            everything[category] += 1
            answered[category] += answer.target is not None
            right[category] += exact_match(answer.target, example.target)
    for category, count in sorted(everything.items()):
        precision = right[category] / max(1, answered[category])
        shares = f"{100 * answered[category] / count:.2f} | {100 * right[category] / count:.2f} | {100 * precision:.2f}"
        print(f"| {category} | {shares} |")


def geoquery(splits: Sequence[str]) -> None:
    """What `nqg induce` finds, which knows no types."""
    for name in splits or ("standard", "template", "length", "tmcd"):
        train, test = load_dataset("geoquery", mirror=MIRROR).split(name)
        start = time.process_time()
        grammar = induce(train)
        seconds, share = (
            time.process_time() - start,
            100 - 100 * len(underivable(grammar, test)) / len(test),
        )
        print(f"| {name} | {len(grammar)} | {seconds:.1f} | {share:.1f} |", flush=True)


def sizes(dataset: str, counts: Sequence[int], plot: Path | None) -> None:
    """Examples drawn at random, each time about twice as many, and what grammars of them derive of held-out ones."""
    if dataset == "cogs":
        train, held_out = (
            cogs_examples("train"),
            {name: cogs_examples(name) for name in ("gen", "test")},
        )
    else:
        train, test = load_dataset(dataset, mirror=MIRROR).split(
            "length" if dataset == "scan" else "standard"
        )
        held_out = {"test": test}
    drawn = random.Random(0).sample(train, len(train))
    curve = []
    for count in (
        counts
        or [
            count
            for doublings in range(9)
            if (count := len(train) >> doublings) >= SMALLEST
        ][::-1]
    ):
        found = Induced.of(drawn[:count])
        derivable = {
            name: found.derivable(examples) for name, examples in held_out.items()
        }
        curve.append(
            Measured(
                count, len(found.grammar), found.choosing, found.searching, derivable
            )
        )
        print(curve[-1], flush=True)
    if plot:
        write_picture(plot, lambda figure_class: figure_of(curve, figure_class))


def held_out_parts(
    train: Sequence[Example],
) -> Iterator[tuple[str, list[Example], list[Example]]]:
    """What is held out, the examples that are kept, and those that are not."""
    programs = sorted({example.target for example in train})
    random.Random(1).shuffle(programs)
    fold = {program: number % FOLDS for number, program in enumerate(programs)}
    for number in range(FOLDS):
        parts: tuple[list[Example], list[Example]] = ([], [])
        for example in train:
            parts[fold[example.target] == number].append(example)
        yield "programs", *parts
    by_length = sorted(train, key=lambda example: len(example.source_tokens))
    cut = len(train) - len(train) // FOLDS
    yield "longest", by_length[:cut], by_length[cut:]
    for seed in range(TMCD_SPLITS):
        halves = split(train, "tmcd", test=0.5, seed=seed)
        yield (
            "tmcd",
            [train[number] for number in halves.train],
            [train[number] for number in halves.test],
        )


def folds(changes: Mapping[str, Any]) -> None:
    """What grammars of a part of the training examples derive of the others."""
    usual = {
        "max_non_terminals": 3,
        "data_weight": 1 / 64,
        "factoring": True,
        "returning": False,
    }
    settings = InductionSettings.automatic().changed(**{**usual, **changes})
    every: dict[str, list[float]] = {}
    for name in ("template", "length", "tmcd"):
        train, _ = load_dataset("geoquery", mirror=MIRROR).split(name)
        shares = []
        for kind, kept, held_out in held_out_parts(train):
            missing = underivable(induce(kept, settings), held_out)
            shares.append(100 - 100 * len(missing) / len(held_out))
            every.setdefault(kind, []).append(shares[-1])
        print(
            f"| {name} |",
            " | ".join(f"{share:.1f}" for share in shares),
            "|",
            flush=True,
        )
    for kind, shares in every.items():
        print(f"{kind}: {sum(shares) / len(shares):.2f} % on average")


@dataclass(frozen=True, slots=True)
class Measured:
    """A point of the curves."""

    examples: int
    rules: int
    choosing: float
    searching: float
    derivable: Mapping[str, float]

    def __str__(self) -> str:
        shares = " | ".join(f"{share:.1f}" for share in self.derivable.values())
        return f"| {self.examples:,} | {self.rules:,} | {self.choosing:.1f} | {self.searching:.1f} | {shares} |"


def figure_of(curve: Sequence[Measured], figure_class: Any) -> Any:
    """Seconds beside a line that grows like n log n, and derivable shares."""
    figure = figure_class(figsize=(8, 3.5), layout="constrained")
    cost, share = figure.subplots(1, 2)
    counts, seconds = (
        [each.examples for each in curve],
        [each.choosing + each.searching for each in curve],
    )
    unit = seconds[0] / (counts[0] * math.log(counts[0]))
    cost.plot(counts, seconds, marker="o", label="trials and search")
    cost.plot(counts, [each.searching for each in curve], marker="o", label="search")
    cost.plot(
        counts,
        [unit * count * math.log(count) for count in counts],
        "k:",
        label="n log n",
    )
    cost.set(
        xscale="log", yscale="log", xlabel="training examples", ylabel="CPU seconds"
    )
    cost.legend(frameon=False)
    for name in curve[0].derivable:
        share.plot(
            counts, [each.derivable[name] for each in curve], marker="o", label=name
        )
    share.set(
        xscale="log", xlabel="training examples", ylabel="% derivable", ylim=(0, 101)
    )
    share.legend(frameon=False)
    return figure


def main() -> None:
    torch.set_num_threads(1)
    words = sys.argv[1:]
    plot = Path(words[words.index("--plot") + 1]) if "--plot" in words else None
    words = words[: words.index("--plot")] if plot else words
    match words:
        case ["scan", *splits]:
            scan(splits)
        case ["cogs", *steps]:
            cogs(*map(int, steps))
        case ["geoquery", *splits]:
            geoquery(splits)
        case ["sizes", dataset, *counts]:
            sizes(dataset, [*map(int, counts)], plot)
        case ["folds", *changes]:
            folds(
                {
                    name: literal_eval(value)
                    for name, value in (each.split("=") for each in changes)
                }
            )
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
