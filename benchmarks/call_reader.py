"""The constants of the call reader, one at a time, on held-out training pairs of many datasets.

    python benchmarks/call_reader.py --mirror ../shared/data [--folds 2] [--datasets NAME …]

The call reader alone reads each fold: it needs no grammar and no training, so that a value of a constant
costs seconds. For each value the table has the sentences whose likeliest program is right and, in
brackets, those with a right program among its `READINGS`. No test sentence is read.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import nqg.model.call_reader
from nqg import Example, TrainSettings, exact_match
from nqg.data.example import distinct_pairs, in_scope
from nqg.evaluation.calibration import HeldOut, folds
from nqg.preprocessing.preprocessor import Preprocessor, TokenizedPair
from nqg.preprocessing.training_text import fit_text
from nqg.training.call_alignment import fit_call_reader
from projects import PROJECTS, Job
from real_use_datasets import DATASETS, EXAMPLES, Folder

SETS = (
    *PROJECTS,
    *(f"{project}-hour" for project in PROJECTS),
    *("ha-en", "ha-fr", "snips-playmusic", "snips-getweather"),
    *("home-en", "home-de", "tools"),
)
MOST_EXAMPLES = 300
VALUES: Mapping[str, Sequence[float]] = {
    "VOCABULARY": (500, 8000),
    "FORM_WEIGHT": (1.0, 4.0),
    "CONTEXT_SMOOTHING": (1.0, 4.0),
    "MOST_CONTEXT": (2.0, 4.0),
    "BEHIND_WEIGHT": (0.4, 1.0),
    "USE_SMOOTHING": (0.15, 0.6),
    "LEAST_NEW": (0.0, 0.3),
    "SLOT_VALUES": (10.0, 40.0),
    "RESEMBLANCE": (0.15, 0.6),
    "NEW_WORD_ODDS": (2.0, 8.0),
    "NEW_VALUE": (0.15, 0.6),
    "EDGE_SHARE": (0.08, 0.3),
    "ENOUGH_CALLS": (2, 1000),
    "READINGS": (1, 6),
}


@dataclass(frozen=True)
class Fold:
    """Pairs to count, and pairs to read."""

    text: Preprocessor
    pairs: Sequence[TokenizedPair]
    held_out: Sequence[Example]

    def right(self) -> tuple[int, int]:
        """How many likeliest programs are right, and how many of all."""
        texts = self.text.slots.free_text
        reader = fit_call_reader(self.pairs, texts)
        first = any_of_them = 0
        for example in self.held_out if reader else ():
            assert reader
            sentence = self.text.tokenized(example.source)[0]
            words, mentions = sentence.words, self.text.slots.mentions(sentence)
            found = reader.readings(words, sentence.words_as_written, mentions, texts)
            rights = []
            for reading in found:
                program = self.text.program(reading.tokens, words)
                rights.append(exact_match(program, example.target))
            first += rights[:1] == [True]
            any_of_them += any(rights)
        return first, any_of_them


def training_pairs(
    name: str, mirror: Path, folder: Path
) -> tuple[list[Example], TrainSettings]:
    settings = TrainSettings()
    project, _, stage = name.partition("-")
    if project in PROJECTS:
        examples = Job(project, stage or "start", ()).examples()
    else:
        sources = {**DATASETS, "tools": Folder("tools", "tools", EXAMPLES)}
        dataset = sources[name].load(name, mirror, folder)
        examples = list(dataset.train)
        if dataset.settings:
            settings = TrainSettings.read(dataset.settings)
    return distinct_pairs(in_scope(examples))[:MOST_EXAMPLES], settings


def folds_of(name: str, mirror: Path, folder: Path, count: int) -> Iterator[Fold]:
    examples, settings = training_pairs(name, mirror, folder)
    for split in islice(folds(examples, HeldOut.RANDOM), count):
        parts = split.parts(examples)
        train = list(parts.train)
        text = fit_text(train, settings.text, settings.slots, settings.file)
        raw = [(example.source, example.target) for example in train]
        yield Fold(text, text.tokenized_pairs(raw), list(parts.test))


@contextmanager
def changed(name: str, value: float) -> Iterator[None]:
    module = nqg.model.call_reader
    own = getattr(module, name)
    setattr(module, name, type(own)(value))
    try:
        yield
    finally:
        setattr(module, name, own)


def row(label: str, found: Mapping[str, Sequence[Fold]]) -> str:
    cells = []
    first_of_all = any_of_all = 0
    for parts in found.values():
        rights = [part.right() for part in parts]
        first_of_all += sum(first for first, _ in rights)
        any_of_all += sum(any_of_them for _, any_of_them in rights)
        cells.append(str(sum(first for first, _ in rights)))
    return f"| {label} | {first_of_all} ({any_of_all}) | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mirror", type=Path, default=Path("../shared/data"))
    parser.add_argument("--folder", type=Path, default=Path("call_reader_data"))
    parser.add_argument("--datasets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--constants", nargs="+", choices=VALUES, default=[*VALUES])
    chosen = parser.parse_args()
    found = {}
    for name in chosen.datasets:
        parts = folds_of(name, chosen.mirror, chosen.folder, chosen.folds)
        found[name] = list(parts)
    sizes = [sum(len(each.held_out) for each in parts) for parts in found.values()]
    print(f"| | all | {' | '.join(found)} |")
    print("|---|" + "--:|" * (len(found) + 1))
    print(f"| sentences | {sum(sizes)} | {' | '.join(map(str, sizes))} |")
    print(row("as it is", found), flush=True)
    for name in chosen.constants:
        for value in VALUES[name]:
            with changed(name, value):
                print(row(f"{name} {value:g}", found), flush=True)


if __name__ == "__main__":
    main()
