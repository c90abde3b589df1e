"""COGS (Kim and Linzen, EMNLP 2020) as published, or without variables: `nqg.train`, then a table by kind.

    python benchmarks/cogs.py original|variable-free [--part dev|gen|words] [--seed N] [--folds N] [--each N]

Programs as published have variables that are positions of words. With `words`, the test are training
sentences without variables, in which a noun that training has once stands in the place of another.
Data comes from $NQG_DATA_MIRROR or ../shared/data. CPU seconds, one core.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

import nqg
from nqg import Example
from nqg.pipeline.settings import ConfidenceSettings, TrainSettings
from slog import MIRROR, drawn, examples_of, report, trained

# Nouns that one training sentence has.
SINGLE_NOUNS = ("hippo", "hedgehog", "cobra", "cockroach")
# A clause whose only argument is a noun, and one with an agent and a theme.
ONE_ARGUMENT = re.compile(r"(\w+) \( (agent|theme) = (?:\* )?([a-z]\w+) \)")
TWO_ARGUMENTS = re.compile(r"(\w+) \( agent = [^()]*, theme = ")
# Of main clauses, so many for each verb.
MAIN_CLAUSES = 4


def pairs(form: str, part: str) -> list[Example]:
    """The pairs of a part; the id of each is its category."""
    if form == "original":
        path = MIRROR / "cogs_original" / f"{part}.tsv.gz"
        return examples_of(gzip.open(path, "rt").read())
    return examples_of((MIRROR / "cogs" / f"{part}.tsv").read_text())


def with_single_nouns(train: Sequence[Example]) -> Iterator[Example]:
    """Sentences with a verb without its object, or an unaccusative one, about each single noun."""
    shuffled = random.Random(5).sample(train, len(train))
    active = [each for each in shuffled if " was " not in each.source]
    transitive = set[str]()
    for example in active:
        transitive.update(TWO_ARGUMENTS.findall(example.target))
    seen = Counter[tuple[str, str]]()
    for example in active:
        clause = ONE_ARGUMENT.search(example.target)
        if clause is None:
            continue
        verb, role, noun = clause.groups()
        if example.source_tokens.count(noun) != 1:
            continue
        if role == "agent" and verb not in transitive:
            continue
        where = "subordinate" if " that " in example.source else "main"
        if where == "main":
            seen[verb, role] += 1
            if seen[verb, role] > MAIN_CLAUSES:
                continue
        for single in SINGLE_NOUNS:
            source, target = (
                re.sub(rf"\b{noun}\b", single, text)
                for text in (example.source, example.target)
            )
            kind = f"{single} as {role}, {where} clause"
            yield replace(example, source=source, target=target, id=kind)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("form", choices=["original", "variable-free"])
    parser.add_argument("--part", choices=["dev", "gen", "words"], default="gen")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--each", type=int, help="sentences of each kind; all without")
    parser.add_argument("--model", type=Path, help="written, or read if it is there")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    train = pairs(chosen.form, "train")
    test = list(with_single_nouns(train))
    if chosen.part != "words":
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
    report(trained(train, settings, chosen.model), test)


if __name__ == "__main__":
    main()
