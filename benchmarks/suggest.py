"""How many labels `nqg suggest` saves: a simulated annotator, who labels what is suggested or what is drawn at random.

Begins with a few random pairs of a dataset's training part, the same for both; in each round the annotator labels the
next ones, a parser is trained from scratch, without folds, and answers the test part. Prints accuracy over labels for
both ways to choose, and how many labels suggestions need for what random ones reach. With `--held-out` a quarter of
the training part is the test part: whoever changes how sentences are chosen looks at that.

    python benchmarks/suggest.py geoquery --mirror ../shared/data --plot curve.png
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from nqg import Example, InductionSettings, Parser, TrainingSettings, induce
from nqg.answers import exact_match
from nqg.data.example import distinct_pairs
from nqg.evaluation.active_learning import suggestions
from nqg.paper import load_dataset
from nqg.paper.plots import write_picture
from nqg.pipeline.parser import fit_parser
from nqg.types.inference import infer_target_grammar

POOL, TESTED = 2000, 1000  # pairs of a large dataset
Choose = Callable[[Parser, Sequence[Example], int, random.Random], list[Example]]
Curve = Mapping[int, float]  # accuracy by labels


@dataclass(frozen=True, slots=True)
class Task:
    """Training and test part, how rules are induced, and how many labels there are first, more each round, at most."""

    train: Sequence[Example]
    test: Sequence[Example]
    induction: InductionSettings
    first: int
    more: int
    most: int

    @classmethod
    def named(cls, name: str, mirror: Path) -> Task:
        if name == "geoquery":
            parts = load_dataset(name, mirror).split("standard")
            return cls(*parts, InductionSettings.named(name), 40, 40, 280)
        rows = {
            part: (mirror / "cogs" / f"{part}.tsv").read_text().splitlines()
            for part in ("train", "test")
        }
        train, test = (
            [Example(*line.split("\t")[:2]) for line in rows[part]] for part in rows
        )
        return cls(
            train,
            test,
            InductionSettings(max_non_terminals=4, repeated_targets=True),
            50,
            50,
            400,
        )

    def curve(self, choose: Choose, seed: int, *, held_out: bool) -> Curve:
        rng = random.Random(seed)
        pool = distinct_pairs(self.train)
        pool = rng.sample(pool, min(POOL, len(pool)))
        test = random.Random(0).sample(list(self.test), min(TESTED, len(self.test)))
        if held_out:
            test, pool = pool[: len(pool) // 4], pool[len(pool) // 4 :]
        labelled, found = pool[: self.first], dict[int, float]()
        while True:
            parser = self.trained(labelled, seed)
            answers = parser.answers(example.source for example in test)
            right = sum(
                exact_match(each.target, example.target)
                for each, example in zip(answers, test, strict=True)
            )
            found[len(labelled)] = right / len(test)
            print(
                f"{choose.__name__:9} seed {seed}: {len(labelled):4} labels, {right / len(test):.1%}",
                flush=True,
            )
            if len(labelled) >= self.most:
                return found
            left = [example for example in pool if example not in labelled]
            labelled = labelled + choose(parser, left, self.more, rng)

    def trained(self, examples: Sequence[Example], seed: int) -> Parser:
        training = TrainingSettings(steps=64, warm_up=16, seed=seed)
        legal = infer_target_grammar(example.target_tokens for example in examples)
        grammar = induce(examples, self.induction)
        return fit_parser(
            grammar, examples, target_grammar=legal, training=training, device="cpu"
        )


def suggested(
    parser: Parser, pool: Sequence[Example], count: int, rng: random.Random
) -> list[Example]:
    by_source = {" ".join(example.source.split()): example for example in pool}
    chosen = [by_source[each.source] for each in suggestions(parser, by_source, count)]
    rest = [example for example in pool if example not in chosen]
    return chosen + rng.sample(rest, min(len(rest), count - len(chosen)))


def at_random(
    parser: Parser, pool: Sequence[Example], count: int, rng: random.Random
) -> list[Example]:
    return rng.sample(list(pool), min(len(pool), count))


def labels_for(accuracy: float, curve: Curve) -> float | None:
    """How many labels a curve needs for an accuracy, between its points on straight lines; None where it ends below.

    >>> labels_for(0.5, {100: 0.4, 200: 0.6})
    150.0
    """
    points = sorted(curve.items())
    for (less, low), (more, high) in pairwise(points):
        if low <= accuracy <= high:
            return less + (more - less) * (accuracy - low) / (high - low or 1)
    return None


def figure_of(curves: Mapping[str, Sequence[Curve]], figure_class: Any) -> Any:
    figure = figure_class(figsize=(5, 3.5), layout="constrained")
    plot = figure.subplots()
    for name, each in curves.items():
        means = mean_of(each)
        (line,) = plot.plot(
            means.keys(),
            [100 * share for share in means.values()],
            marker="o",
            label=name,
        )
        for curve in each:
            plot.plot(
                curve.keys(),
                [100 * share for share in curve.values()],
                color=line.get_color(),
                alpha=0.25,
            )
    plot.set(xlabel="labelled pairs", ylabel="% right", ylim=(0, 101))
    plot.legend(frameon=False, loc="lower right")
    return figure


def mean_of(curves: Sequence[Curve]) -> Curve:
    return {
        labels: statistics.mean(each[labels] for each in curves) for labels in curves[0]
    }


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("name", choices=["geoquery", "cogs"])
    options.add_argument("--mirror", type=Path, default=Path("../shared/data"))
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--held-out", action="store_true")
    options.add_argument("--plot", type=Path)
    given = options.parse_args()
    torch.set_num_threads(1)
    began, task = time.process_time(), Task.named(given.name, given.mirror)
    curves: dict[str, list[Curve]] = {}
    for name, choose in (("suggested", suggested), ("at random", at_random)):
        curves[name] = [
            task.curve(choose, seed, held_out=given.held_out)
            for seed in range(given.seeds)
        ]
    taught, drawn = (mean_of(each) for each in curves.values())
    print("labels | suggested | at random | labels that suggestions need for as much")
    for labels, share in drawn.items():
        needed = labels_for(share, taught)
        print(
            f"{labels:6} | {taught[labels]:9.1%} | {share:9.1%} | {f'{needed:.0f}' if needed else '-'}"
        )
    print(f"{time.process_time() - began:.0f} s of CPU time")
    if given.plot:
        write_picture(given.plot, lambda figure_class: figure_of(curves, figure_class))


if __name__ == "__main__":
    main()
