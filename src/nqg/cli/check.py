"""`nqg check`: faults of training data, each with its line and a remedy, and what to expect of a grammar of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from nqg.cli.settings import SETTINGS, read_settings
from nqg.cli.terminal import EXAMPLES, JSON, err, out, tracked
from nqg.data.examples import fit_text, required_examples, tokenized
from nqg.errors import FAILED, SettingsError, counted
from nqg.evaluation.data_checks import SERIOUS, Flaw, expected_derivability, flaws, thin_places

SHOWN = 20  # of each kind, where people read
FOLDS = typer.Option(
    4, "--folds", metavar="K", min=0, help="Hold out a K-th each time, and derive it; 0: leave that out."
)


def check(data: Path = EXAMPLES, settings: Path | None = SETTINGS, folds: int = FOLDS, as_json: bool = JSON) -> None:
    """Check training data: faults with their lines, and what to expect of it.

    Example: nqg check train.tsv

    Faults are headings, unbalanced brackets, sentences with two programs, and
    duplicates. Words and templates that one line alone shows are listed, because
    nothing else can teach them. With --folds, grammars of a part of the data are
    induced: the share of the rest that they derive is what a parser can expect of
    new sentences of the same kind. The exit code is 1 where there are faults
    other than duplicates.
    """
    chosen = read_settings(settings) if settings else None
    raw = required_examples(data)
    text = fit_text(raw, chosen.text, chosen.slots, settings) if chosen else fit_text(raw)
    found, thin = list(flaws(raw, tokenized(raw, text))), thin_places(raw, text)
    shares: list[float] = []
    if folds:
        try:
            shares = list(tracked(expected_derivability(raw, text, folds), "inducing grammars of folds", folds))
        except SettingsError as error:  # of examples too few, or too much alike
            err.print(f"nothing can be held out: {error}")
    expected = sum(shares) / len(shares) if shares else None
    if as_json:
        once = asdict(thin)
        out.print_json(
            data={"examples": len(raw), "flaws": [each._asdict() for each in found], **once, "derivable": expected}
        )
    else:
        _print(data, len(raw), found, asdict(thin), expected)
    if any(each.kind in SERIOUS for each in found):
        raise typer.Exit(FAILED)


def _print(
    data: Path, count: int, found: Sequence[Flaw], thin: Mapping[str, Mapping[str, int]], share: float | None
) -> None:
    for flaw in found[:SHOWN]:
        out.print(f"{data}:{flaw.line}: {flaw}")
    if len(found) > SHOWN:
        out.print(f"… and {len(found) - SHOWN:,} more; --json lists all")
    out.print(f"{counted(count, 'example')}, {len(found):,} with a fault")
    names = {
        "words": ("word", "sentence"),
        "program_words": ("word", "program"),
        "templates": ("construction", "program"),
    }
    for key, once in thin.items():
        if once:
            shown = ", ".join(f"{each} (line {line})" for each, line in list(once.items())[: SHOWN // 2])
            noun, holder = names[key]
            more = ", …" if len(once) > SHOWN // 2 else ""
            out.print(f"{counted(len(once), noun)} that one {holder} alone has: {shown}{more}")
    if share is not None:
        out.print(f"{share:.1%} of examples are derivable with a grammar of the others".replace("%", " %", 1))
        if share < 0.5:
            out.print("show each construction two or three times, with different words: docs/your-data.md")
