"""`nqg split`: divide a dataset into train, test and perhaps dev, in one of four ways."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from nqg.cli.help_pages import Verb, Verbs
from nqg.cli.terminal import out, progress_bar, report_written
from nqg.data.dataset import Dataset, Split, read_split, write_split
from nqg.data.examples import Example, read_examples, write_examples
from nqg.errors import NqgError
from nqg.splits.compounds import LANGUAGES, Language, language_named, likely_language
from nqg.splits.partition import (
    Amount,
    Side,
    Sizes,
    length_split,
    random_split,
    regex_template,
    sizes_for,
    template_split,
)
from nqg.splits.tmcd import Method, TmcdSettings

ABOUT = """Divide a dataset into train and test: random, length, template or tmcd.

Example: nqg split tmcd geoquery.tsv --test-size 440
"""
app = typer.Typer(cls=Verbs, no_args_is_help=True, subcommand_metavar="METHOD ...", help=ABOUT)

SIZES, TARGETS, SEARCH = "Sizes", "How targets are read", "The search"


def _size(default: str | None, flag: str, words: str) -> Any:
    return typer.Option(default, flag, metavar="N", help=words, rich_help_panel=SIZES, show_default=False)


DATA = typer.Argument(metavar="DATA", help="Examples: a .tsv or .jsonl file, plain or .gz.")
FOLDER = typer.Option(None, "-o", "--output", metavar="FOLDER", help="Where to write. Default: DATA-METHOD, here.")
SEED = typer.Option(0, "--seed", metavar="S", help="Another seed, another split.")
TRAIN = _size(None, "--train-size", "Examples in train, or their share. Default: the rest.")
TEST = _size(None, "--test-size", "Examples in test, or their share. Default: 0.25.")
DEV = _size("0", "--dev-size", "Examples in dev, or their share. Default: 0.")
LANGUAGE = typer.Option(
    None,
    "--language",
    metavar="NAME",
    help=f"What targets are written in: {', '.join(LANGUAGES)}. Default: as they look.",
    rich_help_panel=TARGETS,
)
BLANK = typer.Option(
    None,
    "--blank",
    metavar="REGEX",
    help="A template is the target without what this matches. Default: by language.",
    rich_help_panel=TARGETS,
)
JSON = typer.Option(False, "--json", help="Print JSON.")


def _search(default: Any, flag: str, metavar: str, words: str) -> Any:
    return typer.Option(default, flag, metavar=metavar, help=words, rich_help_panel=SEARCH)


METHOD = _search(Method.ANNEALING, "--method", "annealing|greedy", "Our search, or the paper's.")
TARGET_DIVERGENCE = _search(
    None, "--target-divergence", "D", "Compound divergence to come near to. Default: as large as possible."
)
TOLERANCE = _search(0.001, "--tolerance", "D", "How near to --target-divergence is near enough.")
MAX_ATOM_DIVERGENCE = _search(
    None, "--max-atom-divergence", "D", "Bound on atom divergence, 0.02 in Keysers et al. Default: none."
)
MOVES = _search(None, "--moves", "N", "Swaps to weigh in one start. Default: 1000 an example.")
RESTARTS = _search(None, "--restarts", "N", "Random starts. Default: 1 to 15, by size of data.")
SECONDS = _search(None, "--seconds", "S", "Start again until this time is up; results then depend on the machine.")


@app.command("random", cls=Verb)
def by_chance(
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
    examples = read_examples(data)
    split = random_split(examples, _sizes(examples, train, test, dev), random.Random(seed))
    _write(data, examples, _recorded(split, seed=seed), folder, as_json)


@app.command("length", cls=Verb)
def by_length(
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
    examples = read_examples(data)
    split = length_split(examples, _sizes(examples, train, test, dev), by=by)
    _write(data, examples, split, folder, as_json)


@app.command("template", cls=Verb)
def by_template(
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
    examples = read_examples(data)
    spoken = chosen_language(examples, language, blank)
    split = template_split(examples, _sizes(examples, train, test, dev), spoken.template, random.Random(seed))
    _write(data, examples, _recorded(split, seed=seed, language=spoken.name, blank=blank), folder, as_json)


@app.command("tmcd", cls=Verb)
def by_compounds(
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
    """Let the compounds of train and test differ, with every atom in train.

    Example: nqg split tmcd geoquery.tsv --test-size 440 -o geoquery-tmcd

    Atoms are the symbols of programs, compounds how they are put together (section 3 of the paper).
    """
    examples = read_examples(data)
    sizes = _sizes(examples, train, test, dev)
    spoken = chosen_language(examples, language)
    settings = TmcdSettings(
        method=method,
        target_divergence=target_divergence,
        tolerance=tolerance,
        max_atom_divergence=max_atom_divergence,
        moves=moves,
        restarts=restarts,
        seconds=seconds,
    )
    split = _searched(examples, sizes, spoken, random.Random(seed), settings)
    _write(data, examples, _recorded(split, seed=seed, language=spoken.name), folder, as_json)


def chosen_language(examples: Sequence[Example], name: str | None, blank: str | None = None) -> Language:
    """The language that was asked for, or the one that targets look like; `blank` replaces its templates."""
    chosen = likely_language(examples) if name is None else language_named(name)
    return chosen if blank is None else replace(chosen, template=regex_template(blank))


def _searched(
    examples: Sequence[Example], sizes: Sizes, spoken: Language, rng: random.Random, settings: TmcdSettings
) -> Split:
    """The TMCD split, with a bar while it is looked for."""
    from nqg.splits.divergence import decomposed
    from nqg.splits.tmcd import SearchStep, completed, tmcd_search

    search = tmcd_search(decomposed(examples, spoken.decomposition), sizes, rng, settings)
    with progress_bar() as progress:
        task = progress.add_task("compound divergence", total=100)

        def draw(step: SearchStep) -> None:
            shown = f"start {step.start}: compound divergence {step.divergence:.3f}"
            progress.update(task, completed=int(100 * step.done), description=shown)

        return completed(search, draw)


def _sizes(examples: Sequence[Example], train: str | None, test: str | None, dev: str) -> Sizes:
    return sizes_for(
        len(examples),
        train=_amount(train, "--train-size") if train else None,
        test=_amount(test, "--test-size") if test else None,
        dev=_amount(dev, "--dev-size"),
    )


def _amount(text: str, option: str) -> Amount:
    try:
        return float(text) if "." in text else int(text)
    except ValueError as error:
        reason = f"'{text}' is neither a number of examples nor a share such as 0.25"
        raise typer.BadParameter(reason, param_hint=option) from error


def _recorded(split: Split, **settings: str | int | None) -> Split:
    known = {name: value for name, value in settings.items() if value is not None}
    return replace(split, made_by={**split.made_by, **known})


def _write(data: Path, examples: Sequence[Example], split: Split, folder: Path | None, as_json: bool) -> None:
    """Write the split file and its parts, in the format of the data, and say what was made."""
    split = _recorded(split, data=data.name, data_sha256=Dataset(data.name, examples).fingerprint)
    extension = "".join(data.suffixes[-2:] if data.suffix == ".gz" else data.suffixes[-1:])
    folder = folder or Path(f"{data.name.removesuffix(extension)}-{split.made_by['method']}")
    chosen = split.parts(examples)
    parts = {"train": chosen.train} | ({"dev": chosen.dev} if chosen.dev else {}) | {"test": chosen.test}
    files = {part: folder / f"{part}{extension}" for part in parts}
    if data.resolve() in [path.resolve() for path in files.values()]:
        raise NqgError(f"{data}: a part would be written over the data; choose another folder with -o")
    _make(folder)
    for part, path in files.items():
        write_examples(path, parts[part])
    write_split(folder / "split.json", split)
    _report(split, {part: len(held) for part, held in parts.items()}, list(files.values()), as_json)
    report_written(folder / "split.json", *files.values())


def _report(split: Split, sizes: Mapping[str, int], files: Sequence[Path], as_json: bool) -> None:
    if as_json:
        out.print_json(data={"sizes": sizes, "made_by": dict(split.made_by), "files": list(map(str, files))})
        return
    reached = split.made_by.get("compound_divergence")
    divergence = "" if reached is None else f"; compound divergence {reached:.4f}"
    out.print(", ".join(f"{size:,} {part}" for part, size in sizes.items()) + divergence)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NqgError(f"{folder}: cannot be made a folder ({error.strerror}); choose another with -o") from error


@dataclass(frozen=True, slots=True)
class Audited:
    """The examples to look at, and the named splits of them."""

    examples: Sequence[Example]
    splits: dict[str, Split]


def audit(
    files: list[Path] = typer.Argument(None, metavar="[TRAIN TEST]", help="The examples of each part."),
    dataset: Path | None = typer.Option(None, "--dataset", metavar="FILE", help="All examples, for --split."),
    split: list[Path] = typer.Option([], "--split", metavar="FILE", help="A split file of --dataset; may be repeated."),
    dev: Path | None = typer.Option(None, "--dev", metavar="FILE", help="Dev examples, beside TRAIN and TEST."),
    language: str | None = LANGUAGE,
    blank: str | None = BLANK,
    plot: Path | None = typer.Option(None, "--plot", metavar="FILE", help="Draw a picture, .png or .svg."),
    as_json: bool = JSON,
) -> None:
    """Measure splits: sizes, unseen atoms, divergences, shared templates, lengths.

    Example: nqg audit train.tsv test.tsv --plot split.png

    To compare several splits of one dataset: nqg audit --dataset pairs.tsv --split random/split.json --split
    tmcd/split.json
    """
    from nqg.splits.audit import audit_text, audits, write_plot

    asked = _asked(files or [], dev, dataset, split)
    found = audits(asked.examples, asked.splits, chosen_language(asked.examples, language, blank))
    if as_json:
        out.print_json(data=[each.as_json() for each in found])
    else:
        out.print(audit_text(found))
    if plot:
        write_plot(plot, found)
        report_written(plot)


def _asked(files: Sequence[Path], dev: Path | None, dataset: Path | None, splits: Sequence[Path]) -> Audited:
    if dataset is None and splits:
        raise typer.BadParameter("a split file holds positions only; give --dataset with it", param_hint="--split")
    if dataset is None:
        return _of_files(files, dev)
    if files or dev:
        raise typer.BadParameter("give the files of the parts, or a dataset and its splits, not both")
    return _of_dataset(dataset, splits)


def _of_dataset(dataset: Path, files: Sequence[Path]) -> Audited:
    if not files:
        raise typer.BadParameter("give at least one split file of the dataset", param_hint="--split")
    examples = read_examples(dataset)
    names = _names(files)
    return Audited(examples, {name: read_split(path, len(examples)) for name, path in zip(names, files, strict=True)})


def _names(files: Sequence[Path]) -> list[str]:
    """What the splits are called: their files, or their folders where `nqg split` wrote them, or their whole paths."""
    names = [path.resolve().parent.name if path.name == "split.json" else path.stem for path in files]
    return names if len(set(names)) == len(names) else [str(path.with_suffix("")) for path in files]


def _of_files(files: Sequence[Path], dev: Path | None) -> Audited:
    if len(files) != 2:
        raise typer.BadParameter("give the files of train and test, or --dataset and --split", param_hint="TRAIN TEST")
    train, test = map(read_examples, files)
    held = read_examples(dev) if dev else []
    ends = len(train), len(train) + len(held), len(train) + len(held) + len(test)
    split = Split(tuple(range(ends[0])), tuple(range(ends[1], ends[2])), tuple(range(ends[0], ends[1])))
    return Audited([*train, *held, *test], {f"{files[0].stem} / {files[1].stem}": split})
