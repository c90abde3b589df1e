"""`nqg parse`: what a trained model makes of a sentence, or of every line of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nqg.cli.device import DEVICE, checked_device
from nqg.cli.terminal import out
from nqg.errors import NqgError, Place
from nqg.files import decoded, numbered_lines

if TYPE_CHECKING:
    from nqg.inference.hybrid import Answer
    from nqg.inference.reading import Reading

STDIN = "-"

MODEL = typer.Argument(metavar="MODEL", help="A folder that `nqg train` wrote.", show_default=False)
INPUT = typer.Argument(
    metavar="SENTENCE|FILE|-", help="A sentence, a file with one on each line, or - for stdin.", show_default=False
)
EXPLAIN = typer.Option(False, "--explain", help="Draw the derivation: spans, scores, rules, what they yield.")
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
    A model with a fallback also says who answered and, where that was the fallback, why the grammar did not.
    """
    from nqg.inference.hybrid import Answer, Hybrid, has_fallback
    from nqg.inference.parser import Parser

    lines, is_single = _sentences(sentences)
    place, is_hybrid = checked_device(device), has_fallback(model)
    wish: dict[str, Any] = {"readings": readings, "only_legal": only_legal, "marginals": explain}
    answers = (
        Hybrid.load(model, place).answers(lines, **wish)
        if is_hybrid
        else map(Answer.of_grammar, Parser.load(model, place).parses(lines, **wish))
    )
    for answer in answers:
        if as_json:
            who = {"by": answer.by} if is_hybrid else {}
            print(json.dumps(_facts(answer, explain, readings) | who, ensure_ascii=False))
        elif is_single or explain:
            _show(answer, explain, is_hybrid)
        else:
            print("\t".join([_row(answer), answer.by or ""] if is_hybrid else [_row(answer)]))


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


def _show(answer: Answer, explain: bool, is_hybrid: bool) -> None:
    """Print an answer for reading: the drawing, the program or the abstention, who answered, the readings."""
    best = answer.parse.best if answer.by == "grammar" else None
    if explain and best:
        from nqg.cli.drawing import drawn

        out.print(drawn(best, out.width if out.is_terminal else None), end="\n\n")
    print(answer.target if answer.by else f"abstained: {answer.reason}")
    if is_hybrid and answer.by:
        print(f"by the {answer.by}" + (f": {answer.reason}" if answer.reason else ""))
    if explain and best:
        print(f"probability {best.probability:.6g}")
    for reading in answer.parse.readings:
        print(_reading_row(reading))
    if explain:
        print()


def _reading_row(reading: Reading) -> str:
    illegal = "" if reading.is_legal else "\tillegal"
    return f"{reading.probability:.6g}\t{' '.join(reading.target)}{illegal}"


def _row(answer: Answer) -> str:
    said = answer.reason if answer.by else f"abstained: {answer.reason}"
    if answer.by == "grammar":
        said = f"{answer.parse.probability:.6g}"
    return "\t".join([" ".join(answer.parse.source), answer.target or "", said])


def _facts(answer: Answer, explain: bool, readings: int) -> dict[str, Any]:
    best = answer.parse.best if answer.by == "grammar" else None
    source, probability = " ".join(answer.parse.source), best and best.probability
    facts: dict[str, Any] = {"source": source, "target": answer.target, "probability": probability}
    if answer.reason:
        facts["reason"] = answer.reason
    if explain and best:
        facts |= {"derivation": str(best.derivation), "applications": list(_applications(best))}
    return facts | ({"readings": _readings(answer.parse.readings)} if readings else {})


def _applications(reading: Reading) -> Iterator[dict[str, Any]]:
    """What `--explain` draws, parents before children."""
    from nqg.inference.target_spans import target_spans

    applications = reading.derivation.applications
    columns = (applications, reading.derivation.depths(), reading.scores, reading.marginals)
    for span, application, depth, score, marginal in zip(target_spans(reading.derivation), *columns, strict=True):
        yield {
            "span": [application.span.start, application.span.end],
            "depth": depth,
            "rule": str(application.rule),
            "score": score,
            "marginal": marginal,
            "yields": " ".join(reading.target[span.start : span.end]),
        }


def _readings(readings: Sequence[Reading]) -> list[dict[str, Any]]:
    return [
        {"target": " ".join(each.target), "probability": each.probability, "is_legal": each.is_legal}
        for each in readings
    ]
