"""SLOG, 17 kinds of structural generalisation (Li et al., EMNLP 2023): `nqg.train`, then a table by kind.

    python benchmarks/slog.py gen [--seed N] [--folds N] [--run FOLDER] [--model FOLDER] [--each N]
    python benchmarks/slog.py held-out [CATEGORY …] [--share S] [--folds N] [--run FOLDER] [--model FOLDER] [--each N]

The first trains on all 32,755 pairs and tests on the generalisation sets, which are unpacked in
memory with the password that the dataset's README publishes. The second never opens them: it trains
without a fifth of the pairs and without the categories that are named (cp_4, pp_4, center_embed_4,
...) or that `CONSTRUCTIONS` define, and tests on those. Settings are chosen on the second.

Data comes from $NQG_DATA_MIRROR or ../shared/data. CPU seconds, one core.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import re
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
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


def clause_of(example: Example) -> str:
    """What follows the first binder of a relative clause, with the noun that it modifies."""
    _, _, clause = example.target.partition(" nmod = ")
    return clause


def depth(example: Example, keyword: str) -> int:
    """How often a keyword stands below itself, at least, in a program that goes to the right."""
    return len(re.findall(keyword, example.target))


# A noun that is the agent of its own relative clause.
REPEATED_AGENT = re.compile(r"(\w+) \( nmod = \w+ \( agent = (?:\* )?\1 ")

# Kinds of sentences that training can do without, by what a sentence or its program has.
CONSTRUCTIONS: dict[str, Callable[[Example], bool]] = {
    "rc_ditransitive": lambda each: " recipient = " in clause_of(each),
    "rc_passive": lambda each: " that was " in each.source and "nmod = " in each.target,
    "rc_subject": lambda each: bool(REPEATED_AGENT.search(each.target)),
    "who_verb": lambda each: bool(re.match(r"Who (?!did )", each.source)),
    "who_did": lambda each: each.source.startswith("Who did "),
    "what_did": lambda each: each.source.startswith("What did "),
    "pp_2": lambda each: depth(each, r"nmod \. ") > 1,
    "cp_2": lambda each: depth(each, r"ccomp = ") > 1,
    "pp_in_cp": lambda each: depth(each, r"nmod \. ") > 0 < depth(each, r"ccomp = "),
    "pp_in_ditransitive": lambda each: (
        "nmod . " in each.target and " recipient = " in each.target
    ),
    "passive_in_cp": lambda each: " ccomp = " in each.target and " was " in each.source,
    "ditransitive_in_cp": lambda each: (
        " ccomp = " in each.target and " recipient = " in each.target
    ),
    "center": lambda each: str(each.id).startswith("center"),
}


def kind_of(example: Example, categories: Sequence[str]) -> str:
    """The first category of an example that is named, or its own."""
    for category in categories:
        if category in CONSTRUCTIONS and CONSTRUCTIONS[category](example):
            return category
    return str(example.id)


def held_out(
    categories: Sequence[str], share: float = 1.0
) -> tuple[list[Example], list[Example]]:
    """What is trained on, and what is not: a random fifth, and all of some categories.

    `share` is that of the pairs; words with fewer than one pair in it stay.
    """
    pairs = training_pairs()
    random.Random(0).shuffle(pairs)
    train: list[Example] = []
    test: list[Example] = []
    seen: set[str] = set()
    for number, example in enumerate(pairs):
        words = set(example.source_tokens) | set(example.target_tokens)
        if number >= share * len(pairs) and words <= seen:
            continue
        example = replace(example, id=kind_of(example, categories))
        is_held_out = example.id in categories or number % HELD_OUT_SHARE == 0
        if not is_held_out:
            seen |= words
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
    # All is answered once; by default, those answers are given that are sure enough.
    forced = nqg.Parser(system.model, DecodeOptions(least_confidence=0.0))
    threshold = system.least_confidence
    is_gated = threshold > 0
    counts = Counter[str]()
    answers = forced.answers([example.source for example in test])
    for example, answer in zip(test, answers, strict=True):
        is_right = exact_match(answer.target, example.target)
        is_given = answer.target is not None
        if is_gated:
            is_given = (answer.confidence or 0.0) >= threshold
        for kind in (str(example.id), "all"):
            counts[f"answered {kind}"] += is_given
            counts[f"right {kind}"] += is_given and is_right
            counts[f"forced right {kind}"] += is_right
    print(f"threshold {threshold:.3f}")
    totals = Counter(str(example.id) for example in test)
    totals["all"] = len(test)
    print("kind | pairs | right | answered | precision | right, all answered")
    for kind, total in sorted(totals.items()):
        right, answered = counts[f"right {kind}"], counts[f"answered {kind}"]
        row = [100 * right / total, 100 * answered / total]
        row += [100 * right / max(1, answered)]
        if is_gated:
            row.append(100 * counts[f"forced right {kind}"] / total)
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
    parser.add_argument("--share", type=float, default=1.0, help="of the pairs")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    settings = TrainSettings(
        training=nqg.TrainingSettings(seed=chosen.seed),
        confidence=ConfidenceSettings(folds=chosen.folds),
    )
    if chosen.mode == "gen":
        train, test = training_pairs(), generalisation_pairs()
    else:
        train, test = held_out(chosen.categories, chosen.share)

    if chosen.each:
        test = drawn(test, chosen.each)
    if chosen.model and chosen.model.exists():
        report(nqg.Parser.load(chosen.model), test)
        return
    report(trained(train, settings, chosen.model, chosen.run), test)


if __name__ == "__main__":
    main()
