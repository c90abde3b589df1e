"""`nqg parse`: what a trained model makes of a sentence, or of every line of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nqg.cli.drawing import drawn
from nqg.cli.train import DEVICE, checked_device
from nqg.errors import NqgError, Place
from nqg.files import decoded, numbered_lines

if TYPE_CHECKING:
    from nqg.inference.parser import Parse, Reading

STDIN = "-"
TOGETHER = 1024  # sentences that are read before the first of them is answered

MODEL = typer.Argument(metavar="MODEL", help="A folder that `nqg train` wrote.", show_default=False)
INPUT = typer.Argument(
    metavar="SENTENCE|FILE|-", help="A sentence, a file with one on each line, or - for stdin.", show_default=False
)
EXPLAIN = typer.Option(False, "--explain", help="Draw the derivation, and give its program's probability.")
READINGS = typer.Option(0, "--readings", metavar="K", min=0, help="Show the K most probable programs too.")
ONLY_LEGAL = typer.Option(
    False, "--only-legal", help="Where the best program is illegal, take the best legal one instead of none."
)
JSON = typer.Option(False, "--json", help="Print a line of JSON for each sentence.")


def parse(
    model: Path = MODEL,
    sentences: str = INPUT,
    explain: bool = EXPLAIN,
    readings: int = READINGS,
    only_legal: bool = ONLY_LEGAL,
    device: str | None = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Turn sentences into programs with a trained model.

    Example: nqg parse models/mine "walk twice" --explain

    A sentence gives its program, or `abstained:` and the reason. A file gives a line for each of its lines, separated
    by tabs: sentence, program, probability; for an abstention the program is empty and the reason stands last.
    """
    from nqg.inference.parser import Parser

    lines, is_single = _sentences(sentences)
    parser = Parser.load(model, checked_device(device))
    for batch in _batches(lines):
        for found in parser.parse_all(batch, readings=readings, only_legal=only_legal):
            if as_json:
                print(json.dumps(_facts(found, explain, readings), ensure_ascii=False))
            elif is_single or explain:
                print(_shown(found, explain))
            else:
                print(_row(found))


def _sentences(argument: str) -> tuple[Iterable[str], bool]:
    """The sentences that an argument means, and whether it is one itself."""
    if argument == STDIN:
        return _stdin_lines(), False
    if Path(argument).is_file():
        return (line for _, line in numbered_lines(Path(argument))), False
    if _looks_like_a_file(argument):
        raise NqgError(
            f"{argument}: no such file; to parse it as a sentence, pipe it in: echo '{argument}' | nqg parse …"
        )
    return [argument], True


def _looks_like_a_file(argument: str) -> bool:
    """Whether someone meant a file.

    >>> [_looks_like_a_file(text) for text in ("walk twice", "walk", "sentences.txt", "data/test.txt.gz")]
    [False, False, True, True]
    """
    return len(argument.split()) == 1 and argument.endswith((".txt", ".gz"))


def _stdin_lines() -> Iterator[str]:
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        yield decoded(raw.rstrip(b"\r\n"), Place(Path("<stdin>"), number))


def _batches(lines: Iterable[str]) -> Iterator[list[str]]:
    lines = iter(lines)
    while batch := list(islice(lines, TOGETHER)):
        yield batch


def _shown(found: Parse, explain: bool) -> str:
    """A parse for reading: the program or the abstention, the drawing, the readings."""
    lines = [drawn(found.best.derivation), ""] if explain and found.best else []
    lines += [found.target or ""] if found.best else [f"abstained: {found.reason}"]
    if explain and found.best:
        lines += [f"probability {found.best.probability:.6g}"]
    lines += [_reading_row(reading) for reading in found.readings]
    return "\n".join([*lines, ""] if explain else lines)


def _reading_row(reading: Reading) -> str:
    illegal = "" if reading.is_legal else "\tillegal"
    return f"{reading.probability:.6g}\t{' '.join(reading.target)}{illegal}"


def _row(found: Parse) -> str:
    said = f"{found.best.probability:.6g}" if found.best else f"abstained: {found.reason}"
    return "\t".join([" ".join(found.source), found.target or "", said])


def _facts(found: Parse, explain: bool, readings: int) -> dict[str, Any]:
    facts: dict[str, Any] = {"source": " ".join(found.source), "target": found.target, "probability": found.probability}
    if not found.best:
        facts["reason"] = found.reason
    if explain and found.best:
        facts["derivation"] = str(found.best.derivation)
    return facts | ({"readings": _readings(found.readings)} if readings else {})


def _readings(readings: Sequence[Reading]) -> list[dict[str, Any]]:
    return [
        {"target": " ".join(each.target), "probability": each.probability, "is_legal": each.is_legal}
        for each in readings
    ]
