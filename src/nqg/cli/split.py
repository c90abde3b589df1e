"""`nqg split` and `nqg check-split`: divide a dataset into train, test and perhaps dev; measure such a division."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from nqg.cli.options import Setting, changes_option, chosen_settings, command
from nqg.cli.terminal import make_folder, out, output, progress_bar, report_written
from nqg.data.dataset import Dataset, Split, read_split, write_split
from nqg.data.example import Example
from nqg.data.example_files import read_examples, required_examples, write_examples
from nqg.errors import NqgError
from nqg.preprocessing.preprocessor import TextSettings
from nqg.preprocessing.training_text import fit_text, tokenized
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
    "target_divergence": (SplitMethod.TMCD,),
    "changes": (SplitMethod.TMCD,),
}

PARTS = "TRAIN TEST [DEV]"
SEARCH_PANEL = "Search, for tmcd"
PROGRAMS_PANEL = "How programs are read, for template and tmcd"
size_option = partial(typer.Option, metavar="N", rich_help_panel="Sizes")
Language = Annotated[
    str | None,
    typer.Option(
        "--language",
        metavar="NAME",
        help=f"One of: {', '.join(COMPOUND_LANGUAGES)}.",
        show_default="guessed from the targets",
        rich_help_panel=PROGRAMS_PANEL,
    ),
]
Blank = Annotated[
    str | None,
    typer.Option(
        "--blank",
        metavar="REGEX",
        help="A template is the target without what this matches.",
        show_default="by language",
        rich_help_panel=PROGRAMS_PANEL,
    ),
]


@dataclass(frozen=True, kw_only=True)
class SplitOptions:
    """Which examples go where."""

    method: Annotated[
        SplitMethod, typer.Argument(metavar="METHOD", help="random, length, template or tmcd.")
    ]
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Examples: a .tsv or .jsonl file, plain or .gz.")
    ]
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Where to write.",
            show_default="DATA-METHOD, here",
        ),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="S", help="Seed of the random numbers.", show_default="0"),
    ] = None
    train: Annotated[
        str | None,
        size_option(
            "--train-size", help="Examples in train, or their share.", show_default="the rest"
        ),
    ] = None
    test: Annotated[
        str | None,
        size_option("--test-size", help="Examples in test, or their share.", show_default="0.25"),
    ] = None
    dev: Annotated[str, size_option("--dev-size", help="Examples in dev, or their share.")] = "0"
    by: Annotated[
        Side | None,
        typer.Option(
            "--by",
            metavar="source|target",
            help="For length: the side whose length counts.",
            show_default="source",
        ),
    ] = None
    language: Language = None
    blank: Blank = None
    target_divergence: Annotated[
        float | None,
        Setting(
            "target_divergence",
            "D",
            "Compound divergence to approach.",
            default="the largest",
            panel=SEARCH_PANEL,
        ),
    ] = None
    changes: Annotated[
        list[str],
        changes_option("method=greedy, max_atom_divergence=0.02, seconds=60", panel=SEARCH_PANEL),
    ] = field(default_factory=list)


@command(SplitOptions, TmcdSettings())
def split(options: SplitOptions) -> None:
    """Divide a dataset into train and test: random, length, template or tmcd.

    Example: nqg split tmcd geoquery.tsv --test-size 440 -o geoquery-tmcd

    random shuffles. length trains on the shortest examples and tests on the
    longest. template keeps programs that differ only in names and numbers on one
    side. tmcd maximises compound divergence between train and test, with every
    atom in train: atoms are the symbols of programs, compounds the ways in which
    they are combined (section 3 of the paper).
    """
    _check_fits_method(options)
    data = options.data
    examples = required_examples(data)
    with progress_bar() as progress:
        made = divide(
            _with_tokenized_programs(examples),
            options.method,
            train=_amount(options.train, "train"),
            test=_amount(options.test, "test"),
            dev=_amount(options.dev, "dev") or 0,
            seed=options.seed or 0,
            by=options.by or Side.SOURCE,
            language=options.language,
            blank=options.blank,
            settings=chosen_settings(TmcdSettings(), options, options.changes),
            progress=progress,
        )
    source = {"data": data.name, "data_sha256": Dataset(data.name, examples).fingerprint}
    _write_parts(options, replace(made, made_by={**made.made_by, **source}), examples)


def _check_fits_method(options: SplitOptions) -> None:
    for name, methods in METHODS_OF.items():
        if getattr(options, name) not in (None, []) and options.method not in methods:
            flag = "--set" if name == "changes" else f"--{name.replace('_', '-')}"
            raise typer.BadParameter(
                f"is for {' and '.join(methods)}; omit it with {options.method}", param_hint=flag
            )


def _amount(text: str | None, part: str) -> Amount | None:
    """A number of examples, or a share of them."""
    if text is None:
        return None
    try:
        return float(text) if "." in text else int(text)
    except ValueError as error:
        reason = f"'{text}' is neither a number of examples nor a share such as 0.25"
        raise typer.BadParameter(reason, param_hint=f"--{part}-size") from error


def _write_parts(options: SplitOptions, made: Split, examples: Sequence[Example]) -> None:
    """Write the split file and its parts, in the format of the data, and report them."""
    data = options.data
    extension = "".join(data.suffixes[-2:] if data.suffix == ".gz" else data.suffixes[-1:])
    folder = options.output or Path(f"{data.name.removesuffix(extension)}-{made.made_by['method']}")
    chosen = made.parts(examples)
    parts = (
        {"train": chosen.train}
        | ({"dev": chosen.dev} if chosen.dev else {})
        | {"test": chosen.test}
    )
    files = {part: folder / f"{part}{extension}" for part in parts}
    if data.resolve() in [path.resolve() for path in files.values()]:
        raise NqgError(f"{data}: a part would overwrite the data; choose another folder with -o")
    make_folder(folder)
    for part, path in files.items():
        write_examples(path, parts[part])
    write_split(folder / "split.json", made)
    sizes = {part: len(held) for part, held in parts.items()}
    if output.as_json:
        written = [str(path) for path in files.values()]
        out.print_json(data={"sizes": sizes, "made_by": dict(made.made_by), "files": written})
    else:
        reached = made.made_by.get("compound_divergence")
        divergence = "" if reached is None else f"; compound divergence {reached:.4f}"
        out.print(", ".join(f"{size:,} {part}" for part, size in sizes.items()) + divergence)
    report_written(folder / "split.json", *files.values())


def _with_tokenized_programs(examples: Sequence[Example]) -> Sequence[Example]:
    """Examples with programs as `check-split` sees them; sentences, and programs that are tokenised already, stay."""
    programs = fit_programs(example.target for example in examples)
    if programs.scheme == "spaces":
        return examples
    return [
        replace(example, target=" ".join(programs.normalized(example.target)))
        for example in examples
    ]


@dataclass(frozen=True, kw_only=True)
class CheckSplitOptions:
    """Which splits are measured: two files, or split files of a dataset."""

    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar=PARTS, help="The examples of each part.", show_default=False),
    ] = None
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="All examples, for --split.")
    ] = None
    split_files: Annotated[
        list[Path],
        typer.Option("--split", metavar="FILE", help="A split file of --data; may be repeated."),
    ] = field(default_factory=list)
    language: Language = None
    blank: Blank = None


@command(CheckSplitOptions)
def check_split(options: CheckSplitOptions) -> None:
    """Measure splits: sizes, unseen atoms, divergences, shared templates, lengths.

    Example: nqg check-split train.tsv test.tsv

    To compare several splits of one dataset:
    nqg check-split --data pairs.tsv --split a/split.json --split b/split.json
    """
    examples, splits = _splits_to_check(options)
    examples = list(tokenized(examples, fit_text(examples, TextSettings(slots="given"))))
    found = audits(examples, splits, language_of(examples, options.language, options.blank))
    if output.as_json:
        out.print_json(data=[each.to_dict() for each in found])
    else:
        out.print(audit_text(found))


def _splits_to_check(options: CheckSplitOptions) -> tuple[Sequence[Example], dict[str, Split]]:
    """All examples, and the splits of them by name."""
    files, data, split_files = options.files or [], options.data, options.split_files
    if data is None and split_files:
        raise typer.BadParameter(
            "a split file holds only positions; give --data with it", param_hint="--split"
        )
    if data and files:
        raise typer.BadParameter(
            "give the files of the parts, or a dataset and its splits, not both"
        )
    if data and not split_files:
        raise typer.BadParameter(
            "give at least one split file of the dataset", param_hint="--split"
        )
    if data:
        examples = required_examples(data)
        # A split is named after its file, or its folder if `nqg split` wrote it, or its whole path.
        names = [
            path.resolve().parent.name if path.name == "split.json" else path.stem
            for path in split_files
        ]
        if len(set(names)) < len(names):
            names = [str(path.with_suffix("")) for path in split_files]
        return examples, {
            name: read_split(path, len(examples))
            for name, path in zip(names, split_files, strict=True)
        }
    if len(files) not in (2, 3):
        raise typer.BadParameter(
            "give the files of train and test, or --data and --split", param_hint=PARTS
        )
    train, test = map(required_examples, files[:2])
    dev = read_examples(files[2]) if len(files) == 3 else []
    dev_start = len(train)
    test_start = len(train) + len(dev)
    total = test_start + len(test)
    made = Split(
        tuple(range(dev_start)),
        tuple(range(test_start, total)),
        tuple(range(dev_start, test_start)),
    )
    return [*train, *dev, *test], {f"{files[0].stem} / {files[1].stem}": made}
