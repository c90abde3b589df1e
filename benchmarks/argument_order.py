"""What the order of named arguments is worth: right answers on folds of training data.

python benchmarks/argument_order.py --mirror ../shared/data [--datasets NAME …] [--folds 5]

The training pairs of each dataset are divided into fifths, and `--folds` of them are held out, one
after the other; test pairs are never read. A dataset whose programs show no order is not trained:
nothing changes there. Calls are functions whose order training shows, rules those of a fold.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import nqg
from nqg import Example, Parser, exact_match
from nqg.data.example import distinct_pairs
from nqg.inference.decoding import DecodeOptions
from nqg.preprocessing.training_text import fit_training_text
from nqg.text.argument_order import ArgumentOrder
from real_use_datasets import DATASETS, RealDataset, checked_names, load_datasets

FOLDS = 5


@dataclass
class Counts:
    """Sums over folds: rules, sentences, answers, and right ones without and with the order."""

    rules: int = 0
    sentences: int = 0
    answered: int = 0
    right_as_derived: int = 0
    right_in_order: int = 0

    def add(self, parser: Parser, held_out: Sequence[Example]) -> None:
        """Count what a parser makes of sentences that it was trained without."""
        # All is answered, so that confidence plays no part.
        options = DecodeOptions(least_confidence=0.0)
        in_order = parser.with_options(options)
        text = replace(parser.model.text, arguments=ArgumentOrder())
        as_derived = replace(in_order, model=replace(parser.model, text=text))
        self.rules += len(parser.model.grammar)
        self.sentences += len(held_out)
        sources = [example.source for example in held_out]
        for example, answer in zip(held_out, in_order.answers(sources)):
            self.answered += answer.target is not None
            self.right_in_order += exact_match(answer.target, example.target)
        for example, answer in zip(held_out, as_derived.answers(sources)):
            self.right_as_derived += exact_match(answer.target, example.target)


def settings_of(dataset: RealDataset) -> nqg.TrainSettings:
    """The settings of the project, without confidence, which takes folds of its own."""
    settings = nqg.TrainSettings()
    if dataset.settings:
        settings = nqg.TrainSettings.read(dataset.settings)
    return replace(settings, confidence=replace(settings.confidence, folds=0))


def row(dataset: RealDataset, folds: int) -> str:
    """A line of the table."""
    settings = settings_of(dataset)
    text = fit_training_text(
        dataset.train, settings.text, settings.slots, settings.file
    ).text
    known = len(text.arguments.calls)
    if not known:
        return f"| {dataset.name} | 0 | | | | | |"
    examples = list(distinct_pairs(dataset.train))
    random.Random(0).shuffle(examples)
    counts = Counts()
    for fold in range(folds):
        train = []
        for number, example in enumerate(examples):
            if number % FOLDS != fold:
                train.append(example)
        parser = nqg.train(train, settings=settings)
        assert isinstance(parser, Parser), "there is no second reader"
        counts.add(parser, examples[fold::FOLDS])
    figures = [
        known,
        round(counts.rules / folds),
        counts.sentences,
        counts.answered,
        counts.right_as_derived,
        counts.right_in_order,
    ]
    return f"| {dataset.name} | {' | '.join(map(str, figures))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mirror", type=Path, default=Path("../shared/data"))
    parser.add_argument("--files", type=Path, default=Path("real_use/files"))
    parser.add_argument("--datasets", nargs="*", default=list(DATASETS))
    parser.add_argument("--folds", type=int, default=FOLDS, choices=range(1, FOLDS + 1))
    options = parser.parse_args()
    datasets = load_datasets(options.mirror, options.files)
    print("| dataset | calls | rules | sentences | answered | as derived | in order |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in checked_names(options.datasets, DATASETS, "dataset"):
        print(row(datasets[name], options.folds), flush=True)


if __name__ == "__main__":
    main()
