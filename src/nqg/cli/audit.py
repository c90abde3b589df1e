"""`nqg audit`: what a split measures, as a table, as JSON, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from nqg.cli.split import BLANK, JSON, LANGUAGE, chosen_language
from nqg.cli.terminal import out, report_written
from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.data.split import Split
from nqg.data.split_files import read_split


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
    from nqg.splits.audit import audits
    from nqg.splits.plot import write_plot
    from nqg.splits.report import audit_text

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
