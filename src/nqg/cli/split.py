"""`nqg split`: divide a dataset into train, test and perhaps dev, in one of four ways."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import typer

from nqg.cli.terminal import out, progress_bar, report_written
from nqg.data.dataset import Dataset
from nqg.data.example import Example
from nqg.data.example_files import read_examples, write_examples
from nqg.data.split import Split
from nqg.data.split_files import write_split
from nqg.errors import NqgError
from nqg.splits.languages import LANGUAGES, Language, language_named, likely_language
from nqg.splits.length import Side, length_split
from nqg.splits.settings import Method, TmcdSettings
from nqg.splits.shuffled import random_split
from nqg.splits.sizes import Amount, Sizes, sizes_for
from nqg.splits.template import regex_template, template_split

app = typer.Typer(no_args_is_help=True, help="Divide a dataset into train and test: random, length, template or tmcd.")


DATA = typer.Argument(metavar="DATA", help="Examples: a .tsv or .jsonl file, plain or .gz.")
FOLDER = typer.Option(None, "-o", "--output", metavar="FOLDER", help="Where to write. Default: DATA-METHOD, here.")
SEED = typer.Option(0, "--seed", help="Another seed, another split.")
TRAIN = typer.Option(None, "--train-size", metavar="N", help="Examples in train, or their share. Default: the rest.")
TEST = typer.Option(None, "--test-size", metavar="N", help="Examples in test, or their share. Default: 0.25.")
DEV = typer.Option("0", "--dev-size", metavar="N", help="Examples in dev, or their share.")
LANGUAGE = typer.Option(
    None,
    "--language",
    metavar="NAME",
    help=f"What targets are written in: {', '.join(LANGUAGES)}. Default: as they look.",
)
BLANK = typer.Option(
    None, "--blank", metavar="REGEX", help="A template is the target without what this matches. Default: by language."
)
JSON = typer.Option(False, "--json", help="Print JSON.")


@app.command("random")
def by_chance(
    data: Path = DATA,
    folder: Path | None = FOLDER,
    seed: int = SEED,
    train: str | None = TRAIN,
    test: str | None = TEST,
    dev: str = DEV,
    as_json: bool = JSON,
) -> None:
    """Shuffle and cut."""
    examples = read_examples(data)
    split = random_split(examples, _sizes(examples, train, test, dev), random.Random(seed))
    _write(data, examples, _recorded(split, seed=seed), folder, as_json)


@app.command("length")
def by_length(
    data: Path = DATA,
    folder: Path | None = FOLDER,
    by: Side = typer.Option(Side.SOURCE, "--by", help="The side whose length counts."),
    train: str | None = TRAIN,
    test: str | None = TEST,
    dev: str = DEV,
    as_json: bool = JSON,
) -> None:
    """Train on the shortest examples, test on the longest."""
    examples = read_examples(data)
    split = length_split(examples, _sizes(examples, train, test, dev), by=by)
    _write(data, examples, split, folder, as_json)


@app.command("template")
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
    """Keep programs that differ only in names and numbers on one side."""
    examples = read_examples(data)
    spoken = chosen_language(examples, language, blank)
    split = template_split(examples, _sizes(examples, train, test, dev), spoken.template, random.Random(seed))
    _write(data, examples, _recorded(split, seed=seed, language=spoken.name, blank=blank), folder, as_json)


@app.command("tmcd")
def by_compounds(
    data: Path = DATA,
    folder: Path | None = FOLDER,
    seed: int = SEED,
    train: str | None = TRAIN,
    test: str | None = TEST,
    dev: str = DEV,
    language: str | None = LANGUAGE,
    method: Method = typer.Option(Method.ANNEALING, "--method", help="Our search, or the paper's."),
    target_divergence: float | None = typer.Option(
        None, "--target-divergence", help="Compound divergence to come near to. Default: as large as possible."
    ),
    tolerance: float = typer.Option(0.001, "--tolerance", help="How near to --target-divergence is near enough."),
    max_atom_divergence: float | None = typer.Option(
        None, "--max-atom-divergence", help="Bound on atom divergence, 0.02 in Keysers et al. Default: none."
    ),
    moves: int | None = typer.Option(None, "--moves", help="Swaps to weigh in one start. Default: 1000 an example."),
    restarts: int | None = typer.Option(None, "--restarts", help="Random starts. Default: 1 to 15, by size of data."),
    seconds: float | None = typer.Option(
        None, "--seconds", help="Start again until this time is up; results then depend on the machine."
    ),
    as_json: bool = JSON,
) -> None:
    """Let the compounds of train and test differ as much as possible, with every atom in train."""
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
    from nqg.splits.bags import decomposed
    from nqg.splits.search import SearchStep, completed
    from nqg.splits.tmcd import tmcd_search

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
