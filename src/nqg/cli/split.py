"""`nqg split` and `nqg check-split`: divide a dataset into subsets, and measure such a split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nqg.cli.options import argument, changes_option, option
from nqg.cli.terminal import make_folder, print_results, progress_bar, report_written
from nqg.data.dataset import Dataset, Split, read_split, write_split
from nqg.data.example import Example
from nqg.data.example_files import (
    CSV,
    extension_of,
    read_examples,
    required_examples,
    write_examples,
)
from nqg.errors import NqgError
from nqg.preprocessing.preprocessor import TextSettings
from nqg.preprocessing.training_text import fit_text, tokenized
from nqg.settings_reader import changed_settings
from nqg.splits.audit import audit_text, audits
from nqg.splits.compounds import COMPOUND_LANGUAGES, language_of
from nqg.splits.partition import Amount, Side
from nqg.splits.partition import split as divide
from nqg.splits.tmcd import TmcdSettings
from nqg.text.programs import fit_programs


class SplitMethod(StrEnum):
    RANDOM = "random"
    LENGTH = "length"
    TEMPLATE = "template"
    TMCD = "tmcd"


# Which methods an option is for; the others are for all.
METHODS_OF = {
    "seed": (SplitMethod.RANDOM, SplitMethod.TEMPLATE, SplitMethod.TMCD),
    "by": (SplitMethod.LENGTH,),
    "language": (SplitMethod.TEMPLATE, SplitMethod.TMCD),
    "blank": (SplitMethod.TEMPLATE,),
    "target-divergence": (SplitMethod.TMCD,),
    "set": (SplitMethod.TMCD,),
}

PARTS = "TRAIN TEST [DEV]"
SEARCH_PANEL = "Search, for tmcd"
PROGRAMS_PANEL = "How programs are read, for template and tmcd"
SIZES_PANEL = "Sizes"
Language = Annotated[
    str | None,
    option(
        "--language",
        "NAME",
        f"One of: {', '.join(COMPOUND_LANGUAGES)}.",
        PROGRAMS_PANEL,
        show_default="guessed from the targets",
    ),
]
Blank = Annotated[
    str | None,
    option(
        "--blank",
        "REGEX",
        "A template is the target without what this matches.",
        PROGRAMS_PANEL,
        show_default="by language",
    ),
]


Method = Annotated[
    SplitMethod, argument("METHOD", "random, length, template or tmcd.", True)
]
DataFile = Annotated[
    Path, argument("DATA", "Examples: a .tsv, .csv or .jsonl file, plain or .gz.", True)
]
OutputFolder = Annotated[
    Path | None,
    option(
        "-o --output", "FOLDER", "Where to write.", show_default="DATA-METHOD, here"
    ),
]
Seed = Annotated[
    int | None, option("--seed", "S", "Seed of the random numbers.", show_default="0")
]
TrainSize = Annotated[
    str | None,
    option(
        "--train-size",
        "N",
        "Examples in train, or their share.",
        SIZES_PANEL,
        show_default="the rest",
    ),
]
TestSize = Annotated[
    str | None,
    option(
        "--test-size",
        "N",
        "Examples in test, or their share.",
        SIZES_PANEL,
        show_default="0.25",
    ),
]
DevSize = Annotated[
    str, option("--dev-size", "N", "Examples in dev, or their share.", SIZES_PANEL)
]
LengthSide = Annotated[
    Side | None,
    option(
        "--by",
        "source|target",
        "For length: the side whose length counts.",
        show_default="source",
    ),
]
TargetDivergence = Annotated[
    float | None,
    option(
        "--target-divergence",
        "D",
        "Compound divergence to approach.",
        SEARCH_PANEL,
        show_default="the largest",
    ),
]
Changes = Annotated[
    list[str] | None,
    changes_option("method=greedy, max_atom_divergence=0.02, seconds=60", SEARCH_PANEL),
]


def split(
    method: Method,
    data: DataFile,
    output: OutputFolder = None,
    seed: Seed = None,
    train: TrainSize = None,
    test: TestSize = None,
    dev: DevSize = "0",
    by: LengthSide = None,
    language: Language = None,
    blank: Blank = None,
    target_divergence: TargetDivergence = None,
    changes: Changes = None,
) -> None:
    """Divide a dataset into train and test: random, length, template or tmcd.

    Example: nqg split tmcd geoquery.tsv --test-size 440 -o geoquery-tmcd

    random shuffles. length trains on the shortest examples and tests on the
    longest. template keeps programs that differ only in names and numbers on one
    side. tmcd maximises compound divergence between train and test, with every
    atom in train: atoms are the symbols of programs, compounds the ways in which
    they are combined (section 3 of the paper).
    """
    # Refuse options of other methods.
    chosen = {
        "seed": seed,
        "by": by,
        "language": language,
        "blank": blank,
        "target-divergence": target_divergence,
        "set": changes or None,
    }
    for name, value in chosen.items():
        if value is not None and method not in METHODS_OF[name]:
            reason = f"is for {' and '.join(METHODS_OF[name])}; omit it with {method}"
            raise typer.BadParameter(reason, param_hint=f"--{name}")
    # Divide the examples.
    settings = TmcdSettings()
    if target_divergence is not None:
        settings = replace(settings, target_divergence=target_divergence)
    examples = required_examples(data)
    with progress_bar() as progress:
        divided = divide(
            _with_tokenized_programs(examples),
            method,
            train=_amount(train, "train"),
            test=_amount(test, "test"),
            dev=_amount(dev, "dev") or 0,
            seed=seed or 0,
            by=by or Side.SOURCE,
            language=language,
            blank=blank,
            settings=changed_settings(settings, changes or []),
            progress=progress,
        )
    source = {
        "data": data.name,
        "data_sha256": Dataset(data.name, examples).fingerprint,
    }
    divided = replace(divided, made_by={**divided.made_by, **source})

    # Write the files in the format of the data; of a .csv file as .tsv.
    suffixes = data.suffixes[-2:] if data.suffix == ".gz" else [data.suffix]
    extension = "".join(suffixes)
    folder = output or Path(f"{data.name.removesuffix(extension)}-{method}")
    if extension_of(data) == CSV:
        extension = ".tsv"
    subsets = divided.parts(examples)._asdict()
    if not subsets["dev"]:
        del subsets["dev"]
    files: dict[str, Path] = {}
    for name in subsets:
        files[name] = folder / f"{name}{extension}"
        if files[name].resolve() == data.resolve():
            raise NqgError(
                f"{data}: a part would overwrite the data; choose another folder with -o"
            )
    make_folder(folder)
    for name, path in files.items():
        write_examples(path, subsets[name])
    write_split(folder / "split.json", divided)
    # Report.
    sizes = {name: len(subset) for name, subset in subsets.items()}
    text = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
    reached = divided.made_by.get("compound_divergence")
    if reached is not None:
        text += f"; compound divergence {reached:.4f}"
    written = list(map(str, files.values()))
    print_results(
        {"sizes": sizes, "made_by": dict(divided.made_by), "files": written}, text
    )
    report_written(folder / "split.json", *files.values())


def _amount(text: str | None, part: str) -> Amount | None:
    """A number of examples, or a share of them."""
    if text is None:
        return None
    try:
        return float(text) if "." in text else int(text)
    except ValueError as error:
        reason = f"'{text}' is neither a number of examples nor a share such as 0.25"
        raise typer.BadParameter(reason, param_hint=f"--{part}-size") from error


def _with_tokenized_programs(examples: Sequence[Example]) -> Sequence[Example]:
    """Examples with programs as `check-split` sees them; sentences stay as they are."""
    programs = fit_programs(example.target for example in examples)
    if programs.scheme == "spaces":
        return examples
    return [
        replace(example, target=" ".join(programs.normalized(example.target)))
        for example in examples
    ]


def check_split(
    files: Annotated[
        list[Path] | None, argument(PARTS, "The examples of each part.")
    ] = None,
    data: Annotated[
        Path | None, option("--data", "FILE", "All examples, for --split.")
    ] = None,
    split_files: Annotated[
        list[Path] | None,
        option("--split", "FILE", "A split file of --data; may be repeated."),
    ] = None,
    language: Language = None,
    blank: Blank = None,
) -> None:
    """Measure splits: sizes, unseen atoms, divergences, shared templates, lengths.

    Example: nqg check-split train.tsv test.tsv

    To compare several splits of one dataset:
    nqg check-split --data pairs.tsv --split a/split.json --split b/split.json
    """
    if data is None:
        if split_files:
            reason = "a split file holds only positions; give --data with it"
            raise typer.BadParameter(reason, param_hint="--split")
        examples, splits = _split_of_files(files or [])
    else:
        if files:
            reason = (
                "give the files of the parts, or a dataset and its splits, not both"
            )
            raise typer.BadParameter(reason)
        if not split_files:
            reason = "give at least one split file of the dataset"
            raise typer.BadParameter(reason, param_hint="--split")
        examples = required_examples(data)
        # A split is named after its file, or its folder if `nqg split` wrote it.
        names = []
        for path in split_files:
            name = (
                path.resolve().parent.name if path.name == "split.json" else path.stem
            )
            names.append(name)
        if len(set(names)) < len(names):
            names = [str(path.with_suffix("")) for path in split_files]
        splits = {
            name: read_split(path, len(examples))
            for name, path in zip(names, split_files)
        }
    examples = list(
        tokenized(examples, fit_text(examples, TextSettings(slots="given")))
    )
    measured = audits(examples, splits, language_of(examples, language, blank))
    print_results([audit.to_dict() for audit in measured], audit_text(measured))


def _split_of_files(
    files: Sequence[Path],
) -> tuple[Sequence[Example], dict[str, Split]]:
    """The examples of all files, and the split that the files are."""
    if len(files) not in (2, 3):
        reason = "give the files of train and test, or --data and --split"
        raise typer.BadParameter(reason, param_hint=PARTS)
    # Train comes first, then dev, then test.
    train, test = map(required_examples, files[:2])
    dev = read_examples(files[2]) if len(files) == 3 else []
    examples = [*train, *dev, *test]
    positions = tuple(range(len(examples)))
    dev_start, test_start = len(train), len(train) + len(dev)
    divided = Split(
        positions[:dev_start], positions[test_start:], positions[dev_start:test_start]
    )
    return examples, {f"{files[0].stem} / {files[1].stem}": divided}
