"""COGS (Kim and Linzen, EMNLP 2020) as published, or without variables: `nqg.train`, then a table by kind.

    python benchmarks/cogs.py original|variable-free [--part dev|gen] [--seed N] [--folds N] [--each N]

Programs as published have variables that are positions of words. Data comes from $NQG_DATA_MIRROR
or ../shared/data. CPU seconds, one core.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import torch

import nqg
from nqg import Example
from nqg.pipeline.settings import ConfidenceSettings, TrainSettings
from slog import MIRROR, drawn, examples_of, report, trained


def pairs(form: str, part: str) -> list[Example]:
    """The pairs of a part; the id of each is its category."""
    if form == "original":
        path = MIRROR / "cogs_original" / f"{part}.tsv.gz"
        return examples_of(gzip.open(path, "rt").read())
    return examples_of((MIRROR / "cogs" / f"{part}.tsv").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("form", choices=["original", "variable-free"])
    parser.add_argument("--part", choices=["dev", "gen"], default="gen")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--each", type=int, help="sentences of each kind; all without")
    parser.add_argument("--model", type=Path, help="written, or read if it is there")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    test = pairs(chosen.form, chosen.part)
    if chosen.each:
        test = drawn(test, chosen.each)
    if chosen.model and chosen.model.exists():
        report(nqg.Parser.load(chosen.model), test)
        return
    settings = TrainSettings(
        training=nqg.TrainingSettings(seed=chosen.seed),
        confidence=ConfidenceSettings(folds=chosen.folds),
    )
    train = pairs(chosen.form, "train")
    report(trained(train, settings, chosen.model), test)


if __name__ == "__main__":
    main()
