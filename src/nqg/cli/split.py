"""`nqg split` and `nqg audit`: divide a dataset into train, test and perhaps dev; measure such a division."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import typer

from nqg.cli.terminal import JSON, make_folder, out, progress_bar, report_written
from nqg.data.dataset import Dataset, Split, read_split, write_split
from nqg.data.examples import Example, fit_text, read_examples, required_examples, tokenized, write_examples
from nqg.errors import NqgError
from nqg.splits.audit import audit_text, audits, write_plot
from nqg.splits.compounds import LANGUAGES, language_of
from nqg.splits.partition import Side
from nqg.splits.split import split as divide
from nqg.splits.tmcd import Method, TmcdSettings
from nqg.text.preprocessing import TextSettings
from nqg.text.programs import fit_programs

HELP = """Divide a dataset into train and test: random, length, template or tmcd.

Example: nqg split tmcd geoquery.tsv --test-size 440
"""
split = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="rich", subcommand_metavar="METHOD ...", help=HELP
)

DATA = typer.Argument(metavar="DATA", help="Examples: a .tsv or .jsonl file, plain or .gz.")
FOLDER = typer.Option(
    None, "-o", "--output", metavar="FOLDER", help="Where to write.", show_default="DATA-METHOD, here"
)
SEED = typer.Option(0, "--seed", metavar="S", help="Seed of the random numbers.")

size_option = partial(typer.Option, metavar="N", rich_help_panel="Sizes")
TRAIN = size_option(None, "--train-size", help="Examples in train, or their share.", show_default="the rest")
TEST = size_option(None, "--test-size", help="Examples in test, or their share.", show_default="0.25")
DEV = size_option("0", "--dev-size", help="Examples in dev, or their share.")

target_option = partial(typer.Option, None, rich_help_panel="How targets are read")
LANGUAGE = target_option(
    "--language", metavar="NAME", help=f"One of: {', '.join(LANGUAGES)}.", show_default="guessed from the targets"
)
BLANK = target_option(
    "--blank", metavar="REGEX", help="A template is the target without what this matches.", show_default="by language"
)

search_option = partial(typer.Option, rich_help_panel="Search")
METHOD = search_option(Method.ANNEALING, "--method", metavar="annealing|greedy", help="Our search, or the paper's.")
TARGET_DIVERGENCE = search_option(
    None, "--target-divergence", metavar="D", help="Compound divergence to approach.", show_default="the largest"
)
TOLERANCE = search_option(0.001, "--tolerance", metavar="D", help="How close to --target-divergence is close enough.")
MAX_ATOM_DIVERGENCE = search_option(
    None, "--max-atom-divergence", metavar="D", help="Upper bound, 0.02 in Keysers et al.", show_default="none"
)
MOVES = search_option(None, "--moves", metavar="N", help="Swaps tried in one start.", show_default="1000 an example")
RESTARTS = search_option(None, "--restarts", metavar="N", help="Random starts.", show_default="1 to 15, by data size")
SECONDS = search_option(
    None, "--seconds", metavar="S", help="Start again until this time is up; the result then depends on the machine."
)


@split.command("random")
def by_chance(
    context: typer.Context,
    data: Path = DATA,
    folder: Path | None = FOLDER,
    seed: int = SEED,
    train: str | None = TRAIN,
    test: str | None = TEST,
    dev: str = DEV,
    as_json: bool = JSON,
) -> None:
    """Shuffle and cut.

    Example: nqg split random pairs.tsv --test-size 0.2 --dev-size 0.1
    """
    _divide_file(context.params, "random")


@split.command("length")
def by_length(
    context: typer.Context,
    data: Path = DATA,
    folder: Path | None = FOLDER,
    by: Side = typer.Option(Side.SOURCE, "--by", metavar="source|target", help="The side whose length counts."),
    train: str | None = TRAIN,
    test: str | None = TEST,
    dev: str = DEV,
    as_json: bool = JSON,
) -> None:
    """Train on the shortest examples, test on the longest.

    Example: nqg split length pairs.tsv --by target
    """
    _divide_file(context.params, "length")


@split.command("template")
def by_template(
    context: typer.Context,
    data: Path = DATA,
    folder: Path | None = FOLDER,
    seed: int = SEED,
    train: str | None = TRAIN,
    test: str | None = TEST,
    dev: str = DEV,
    language: str | None = LANGUAGE,
    blank: str | None = BLANK,
    as_json: bool = JSON,
) -> None:
    """Keep programs that differ only in names and numbers on one side.

    Example: nqg split template pairs.tsv --language sql
    """
    _divide_file(context.params, "template")


@split.command("tmcd")
def by_compounds(
    context: typer.Context,
    data: Path = DATA,
    folder: Path | None = FOLDER,
    seed: int = SEED,
    train: str | None = TRAIN,
    test: str | None = TEST,
    dev: str = DEV,
    language: str | None = LANGUAGE,
    method: Method = METHOD,
    target_divergence: float | None = TARGET_DIVERGENCE,
    tolerance: float = TOLERANCE,
    max_atom_divergence: float | None = MAX_ATOM_DIVERGENCE,
    moves: int | None = MOVES,
    restarts: int | None = RESTARTS,
    seconds: float | None = SECONDS,
    as_json: bool = JSON,
) -> None:
    """Maximise compound divergence between train and test, with every atom in train.

    Example: nqg split tmcd geoquery.tsv --test-size 440 -o geoquery-tmcd

    Atoms are the symbols of programs; compounds are the ways in which they are
    combined (section 3 of the paper).
    """
    given = context.params | {"method": method}  # which older versions of Typer leave a string there
    settings = TmcdSettings(**{each.name: given.pop(each.name) for each in fields(TmcdSettings)})
    with progress_bar() as progress:
        _divide_file({**given, "settings": settings, "progress": progress}, "tmcd")


def _divide_file(given: Mapping[str, Any], method: str) -> None:
    """Write the split file and its parts, in the format of the data, and report them."""
    options = dict(given)
    data, folder, as_json = (options.pop(name) for name in ("data", "folder", "as_json"))
    for part in ("train", "test", "dev"):
        try:
            if (text := options[part]) is not None:
                options[part] = float(text) if "." in text else int(text)
        except ValueError as error:
            reason = f"'{text}' is neither a number of examples nor a share such as 0.25"
            raise typer.BadParameter(reason, param_hint=f"--{part}-size") from error
    examples = required_examples(data)
    made = divide(_with_tokenized_programs(examples), method, **options)
    source = {"data": data.name, "data_sha256": Dataset(data.name, examples).fingerprint}
    made = replace(made, made_by={**made.made_by, **source})
    extension = "".join(data.suffixes[-2:] if data.suffix == ".gz" else data.suffixes[-1:])
    folder = folder or Path(f"{data.name.removesuffix(extension)}-{made.made_by['method']}")
    chosen = made.parts(examples)
    parts = {"train": chosen.train} | ({"dev": chosen.dev} if chosen.dev else {}) | {"test": chosen.test}
    files = {part: folder / f"{part}{extension}" for part in parts}
    if data.resolve() in [path.resolve() for path in files.values()]:
        raise NqgError(f"{data}: a part would overwrite the data; choose another folder with -o")
    make_folder(folder)
    for part, path in files.items():
        write_examples(path, parts[part])
    write_split(folder / "split.json", made)
    sizes = {part: len(held) for part, held in parts.items()}
    if as_json:
        written = [str(path) for path in files.values()]
        out.print_json(data={"sizes": sizes, "made_by": dict(made.made_by), "files": written})
    else:
        reached = made.made_by.get("compound_divergence")
        divergence = "" if reached is None else f"; compound divergence {reached:.4f}"
        out.print(", ".join(f"{size:,} {part}" for part, size in sizes.items()) + divergence)
    report_written(folder / "split.json", *files.values())


def _with_tokenized_programs(examples: Sequence[Example]) -> Sequence[Example]:
    """Examples with programs as `audit` sees them; sentences, and programs that are tokenised already, stay."""
    programs = fit_programs(example.target for example in examples)
    if programs.scheme == "spaces":
        return examples
    return [replace(example, target=" ".join(programs.normalized(example.target))) for example in examples]


def audit(
    files: list[Path] = typer.Argument(None, metavar="TRAIN TEST", help="The examples of each part."),
    dataset: Path | None = typer.Option(None, "--dataset", metavar="FILE", help="All examples, for --split."),
    split_files: list[Path] = typer.Option(
        [], "--split", metavar="FILE", help="A split file of --dataset; may be repeated."
    ),
    dev: Path | None = typer.Option(None, "--dev", metavar="FILE", help="Dev examples, beside TRAIN and TEST."),
    language: str | None = LANGUAGE,
    blank: str | None = BLANK,
    plot: Path | None = typer.Option(None, "--plot", metavar="FILE", help="Draw a plot, .png or .svg."),
    as_json: bool = JSON,
) -> None:
    """Measure splits: sizes, unseen atoms, divergences, shared templates, lengths.

    Example: nqg audit train.tsv test.tsv --plot split.png

    To compare several splits of one dataset:
    nqg audit --dataset pairs.tsv --split a/split.json --split b/split.json
    """
    if dataset is None and split_files:
        raise typer.BadParameter("a split file holds only positions; give --dataset with it", param_hint="--split")
    if dataset and (files or dev):
        raise typer.BadParameter("give the files of the parts, or a dataset and its splits, not both")
    if dataset and not split_files:
        raise typer.BadParameter("give at least one split file of the dataset", param_hint="--split")
    if dataset:
        examples = required_examples(dataset)
        # A split is named after its file, or its folder if `nqg split` wrote it, or its whole path.
        names = [path.resolve().parent.name if path.name == "split.json" else path.stem for path in split_files]
        if len(set(names)) < len(names):
            names = [str(path.with_suffix("")) for path in split_files]
        splits = {name: read_split(path, len(examples)) for name, path in zip(names, split_files, strict=True)}
    elif files and len(files) == 2:
        train, test = map(required_examples, files)
        held_out = read_examples(dev) if dev else []
        examples = [*train, *held_out, *test]
        ends = len(train), len(train) + len(held_out), len(examples)
        made = Split(tuple(range(ends[0])), tuple(range(ends[1], ends[2])), tuple(range(ends[0], ends[1])))
        splits = {f"{files[0].stem} / {files[1].stem}": made}
    else:
        raise typer.BadParameter("give the files of train and test, or --dataset and --split", param_hint="TRAIN TEST")
    examples = list(tokenized(examples, fit_text(examples, TextSettings(slots="given"))))
    found = audits(examples, splits, language_of(examples, language, blank))
    if as_json:
        out.print_json(data=[each.to_dict() for each in found])
    else:
        out.print(audit_text(found))
    if plot:
        write_plot(plot, found)
        report_written(plot)
