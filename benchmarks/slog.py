"""SLOG, 17 kinds of structural generalisation (Li et al., EMNLP 2023): `nqg.train`, then a table by kind.

    python benchmarks/slog.py gen [--seed N] [--folds N] [--run FOLDER] [--model FOLDER] [--each N]
    python benchmarks/slog.py held-out [CATEGORY …] [--folds N] [--run FOLDER] [--model FOLDER] [--each N]

The first trains on all 32,755 pairs and tests on the generalisation sets, which are unpacked in
memory with the password that the dataset's README publishes. The second never opens them: it trains
without a fifth of the pairs and without the categories that are named (cp_4, pp_4, center_embed_4,
...), and tests on those; `ditransitive` leaves out all relative clauses with a recipient. Settings are
chosen on the second.

Data comes from $NQG_DATA_MIRROR or ../shared/data. CPU seconds, one core.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

import nqg
from nqg import Example
from nqg.answers import exact_match
from nqg.inference.decoding import DecodeOptions
from nqg.pipeline.settings import ConfidenceSettings, TrainSettings
from timing import peak_megabytes

MIRROR = Path(
    os.environ.get(
        "NQG_DATA_MIRROR", Path(__file__).resolve().parents[2] / "shared" / "data"
    )
)
PASSWORD = b"SLOG"
HELD_OUT_SHARE = 5
DITRANSITIVE = "ditransitive"


def examples_of(text: str) -> list[Example]:
    """The pairs of a file; the id of each is its category."""
    examples = []
    for line in text.splitlines():
        source, target, category = line.split("\t")
        examples.append(Example(source, target, id=category))
    return examples


def training_pairs() -> list[Example]:
    return examples_of(gzip.open(MIRROR / "slog" / "train.tsv.gz", "rt").read())


def generalisation_pairs() -> list[Example]:
    with zipfile.ZipFile(MIRROR / "slog" / "generalization_sets.zip") as archive:
        text = archive.read("generalization_sets/gen_varfreeLF.tsv", PASSWORD)
    return examples_of(text.decode())


def has_ditransitive_clause(example: Example) -> bool:
    """Whether a relative clause has a recipient."""
    _, _, clause = example.target.partition(" nmod = ")
    return " recipient = " in clause


def held_out(categories: Sequence[str]) -> tuple[list[Example], list[Example]]:
    """What is trained on, and what is not: a random fifth, and all of some categories."""
    pairs = training_pairs()
    random.Random(0).shuffle(pairs)
    train: list[Example] = []
    test: list[Example] = []
    for number, example in enumerate(pairs):
        if DITRANSITIVE in categories and has_ditransitive_clause(example):
            example = replace(example, id=DITRANSITIVE)
        is_held_out = example.id in categories or number % HELD_OUT_SHARE == 0
        (test if is_held_out else train).append(example)
    return train, test


def drawn(examples: Sequence[Example], each: int) -> list[Example]:
    """So many examples of each kind, at random."""
    kinds: defaultdict[str, list[Example]] = defaultdict(list)
    for example in examples:
        kinds[str(example.id)].append(example)
    sample = []
    for kind in sorted(kinds):
        pairs = kinds[kind]
        sample += random.Random(0).sample(pairs, min(each, len(pairs)))
    return sample


def report(system: nqg.Parser, test: Sequence[Example]) -> None:
    """A row for each kind: right and answered, by default and when all is answered."""
    sources = [example.source for example in test]
    counts = Counter[str]()
    modes = {"": DecodeOptions()}
    # Without confidence, all is answered anyway.
    calibrator = system.model.calibrator
    is_gated = calibrator is not None and calibrator.threshold > 0
    if is_gated:
        modes["forced "] = DecodeOptions(least_confidence=0.0)
    for label, options in modes.items():
        answers = nqg.Parser(system.model, options).answers(sources)
        for example, answer in zip(test, answers, strict=True):
            for kind in (str(example.id), "all"):
                counts[f"{label}answered {kind}"] += answer.target is not None
                is_right = exact_match(answer.target, example.target)
                counts[f"{label}right {kind}"] += is_right
    totals = Counter(str(example.id) for example in test)
    totals["all"] = len(test)
    print("kind | pairs | right | answered | precision | right, all answered")
    for kind, total in sorted(totals.items()):
        right, answered = counts[f"right {kind}"], counts[f"answered {kind}"]
        row = [100 * right / total, 100 * answered / total]
        row += [100 * right / max(1, answered)]
        if is_gated:
            row += [100 * counts[f"forced right {kind}"] / total]
        cells = " | ".join(f"{share:.1f}" for share in row)
        print(f"| {kind} | {total:,} | {cells} |", flush=True)


def trained(
    train: Sequence[Example],
    settings: TrainSettings,
    model: Path | None,
    run: Path | None = None,
) -> nqg.Parser:
    """A parser, with what its training tells and costs on the screen; it is saved to `model`."""
    started = time.process_time()

    def listen(event: object) -> None:
        name = type(event).__name__
        if name != "WorkDone":
            print(f"{time.process_time() - started:7.0f} s  {event}"[:400], flush=True)

    system = nqg.train(train, settings=settings, run_folder=run, listener=listen)
    seconds = time.process_time() - started
    print(f"{len(train):,} pairs: {seconds:.0f} CPU s, {peak_megabytes():.0f} MB")
    assert isinstance(system, nqg.Parser), "no second reader is asked for"
    if model:
        system.save(model)
    return system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=["gen", "held-out"])
    parser.add_argument("categories", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folds", type=int)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--model", type=Path, help="written, or read if it is there")
    parser.add_argument("--each", type=int, help="sentences of each kind; all without")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    settings = TrainSettings(
        training=nqg.TrainingSettings(seed=chosen.seed),
        confidence=ConfidenceSettings(folds=chosen.folds),
    )
    if chosen.mode == "gen":
        train, test = training_pairs(), generalisation_pairs()
    else:
        train, test = held_out(chosen.categories)

    if chosen.each:
        test = drawn(test, chosen.each)
    if chosen.model and chosen.model.exists():
        report(nqg.Parser.load(chosen.model), test)
        return
    report(trained(train, settings, chosen.model, chosen.run), test)


if __name__ == "__main__":
    main()
