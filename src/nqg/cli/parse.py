"""`nqg parse`: what a trained model makes of a sentence, or of every line of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from nqg.cli.terminal import DEVICE, ENGINE, WORKERS, Workforce, out
from nqg.cli.train import MOST_NON_TERMINALS
from nqg.data.examples import streamed_examples
from nqg.engines import Here, in_parts
from nqg.errors import NqgError, Place
from nqg.files import decoded, numbered_lines
from nqg.grammar.grammar import Grammar
from nqg.memory import keep_large_blocks_apart, release_holes

if TYPE_CHECKING:
    from nqg.answers import Answer, Reading

STDIN = "-"
TIDY_EVERY = 4  # parts; more often costs time
EXAMPLES = (".tsv", ".jsonl")  # files of examples, whose sources are parsed

MODEL = typer.Argument(metavar="MODEL", help="A folder that `nqg train` wrote.", show_default=False)
INPUT = typer.Argument(
    metavar="SENTENCE|FILE|-",
    help="A sentence, a file with one on each line or examples (.tsv, .jsonl), or - for stdin.",
    show_default=False,
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
    engine: str = ENGINE,
    workers: int | None = WORKERS,
    device: str | None = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Turn sentences into programs with a trained model.

    Example: nqg parse models/mine "walk twice" --explain

    For a sentence, prints its program, or `abstained:` and what the grammar lacks.
    For a file, prints one line for each sentence, separated by tabs: sentence,
    program, probability; if the model abstains, the program is empty and the reason
    comes last. A model with a fallback also says who answered and, if that was the
    fallback, why the grammar did not.
    """
    from nqg.inference.hybrid import has_fallback
    from nqg.inference.parser import WINDOW

    asked, is_single = _sentences(sentences)
    style = Style(readings, only_legal, explain, as_json, is_single, has_fallback(model))
    work = Workforce.chosen(engine, workers, device)
    if style.is_drawn and not isinstance(work.engine, Here):
        raise typer.BadParameter("workers cannot draw; leave it away, or add --json", param_hint="--explain")
    for texts in work.engine.map(partial(answering, model.resolve(), work.device, style), in_parts(asked, WINDOW)):
        for text in texts:
            print(text)


class Asked(NamedTuple):
    """A sentence to parse, and its id where it has one."""

    sentence: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Style:
    """What is asked of a model, and how its answers are written."""

    readings: int
    only_legal: bool
    explain: bool
    as_json: bool
    is_single: bool  # a sentence of its own, not a file
    is_hybrid: bool

    @property
    def is_drawn(self) -> bool:
        """Whether answers are written for reading, as wide as the terminal is."""
        return self.explain and not self.as_json

    def text(self, answer: Answer, name: str | None, model: Path) -> str:
        """An answer of a model as it is printed; `name` is the id of its sentence."""
        if self.as_json:
            named, who = {} if name is None else {"id": name}, {"by": answer.answered_by} if self.is_hybrid else {}
            return json.dumps(named | _facts(answer, self.explain, self.readings) | who, ensure_ascii=False)
        if self.is_single or self.explain:
            return "\n".join(_shown(answer, self.explain, self.is_hybrid, model))
        return "\t".join([_row(answer), answer.answered_by or ""] if self.is_hybrid else [_row(answer)])


def answering(model: Path, device: str | None, style: Style) -> Callable[[Sequence[Asked]], list[str]]:
    """A model, loaded, as what turns sentences into texts to print."""
    from nqg.inference.hybrid import load_model
    from nqg.inference.parser import DecodeOptions

    keep_large_blocks_apart()
    options = DecodeOptions(style.readings, style.only_legal, marginals=style.explain)
    system = load_model(model, device).with_options(options)
    parts = count(1)

    def texts(part: Sequence[Asked]) -> list[str]:
        if next(parts) % TIDY_EVERY == 0:
            release_holes()
        answers = system.answers(asked.sentence for asked in part)
        return [style.text(answer, asked.id, model) for answer, asked in zip(answers, part, strict=True)]

    return texts


def _sentences(argument: str) -> tuple[Iterable[Asked], bool]:
    """The sentences that an argument means, and whether it is one itself."""
    if argument == STDIN:
        return map(Asked, _stdin_lines()), False
    if Path(argument).is_file():
        return _file_sentences(Path(argument)), False
    if _looks_like_a_file(argument):
        raise NqgError(
            f"{argument}: no such file; to parse it as a sentence, pipe it in: echo '{argument}' | nqg parse …"
        )
    return [Asked(argument)], True


def _file_sentences(path: Path) -> Iterator[Asked]:
    """The sources of a file of examples, or the lines of any other file."""
    if path.name.removesuffix(".gz").endswith(EXAMPLES):
        return (Asked(example.source, example.id) for example in streamed_examples(path))
    return (Asked(line) for _, line in numbered_lines(path))


def _looks_like_a_file(argument: str) -> bool:
    """Whether someone meant a file.

    >>> [_looks_like_a_file(text) for text in ("walk twice", "walk", "sentences.txt", "data/test.tsv.gz")]
    [False, False, True, True]
    """
    return len(argument.split()) == 1 and argument.endswith((".txt", ".gz", *EXAMPLES))


def _stdin_lines() -> Iterator[str]:
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        yield decoded(raw.rstrip(b"\r\n"), Place(Path("<stdin>"), number))


def _shown(answer: Answer, explain: bool, is_hybrid: bool, model: Path) -> Iterator[str]:
    """An answer for reading: the drawing, the program or the abstention, who answered, the readings."""
    best = answer.reading
    if explain and best:
        from nqg.cli.drawing import drawn

        with out.capture() as drawing:
            out.print(drawn(best, out.width if out.is_terminal else None), end="\n\n")
        yield drawing.get().removesuffix("\n")
    reason = f"{answer.reason}{_gap(answer, model)}"
    yield answer.target or "" if answer.answered_by else f"abstained: {reason}"
    if is_hybrid and answer.answered_by:
        yield f"by the {answer.answered_by}" + (f": {reason}" if reason else "")
    if explain and best:
        yield f"probability {best.probability:.6g}"
    yield from map(_reading_row, answer.first.readings)
    if explain:
        yield ""


def _gap(answer: Answer, model: Path) -> str:
    """What the grammar does not know, where that is why it has no answer."""
    from nqg.answers import NO_DERIVATION
    from nqg.inference.gaps import gaps

    return f": {gaps(_grammar(model), answer.source_tokens)}" if answer.first.reason == NO_DERIVATION else ""


@lru_cache(maxsize=1)
def _grammar(model: Path) -> Grammar:
    return Grammar.read(model / "grammar.txt", MOST_NON_TERMINALS)


def _reading_row(reading: Reading) -> str:
    illegal = "" if reading.is_legal else "\tillegal"
    return f"{reading.probability:.6g}\t{' '.join(reading.target)}{illegal}"


def _row(answer: Answer) -> str:
    said = answer.reason if answer.answered_by else f"abstained: {answer.reason}"
    if answer.reading:
        said = f"{answer.reading.probability:.6g}"
    return "\t".join([" ".join(answer.source_tokens), answer.target or "", said])


def _facts(answer: Answer, explain: bool, readings: int) -> dict[str, Any]:
    best = answer.reading
    source, probability = " ".join(answer.source_tokens), best and best.probability
    facts: dict[str, Any] = {"source": source, "target": answer.target, "probability": probability}
    if answer.reason:
        facts["reason"] = answer.reason
    if explain and best:
        facts |= {"derivation": str(best.derivation), "applications": list(_hyperedges(best))}
    return facts | ({"readings": _readings(answer.first.readings)} if readings else {})


def _hyperedges(reading: Reading) -> Iterator[dict[str, Any]]:
    """What `--explain` draws, parents before children."""
    from nqg.grammar.derivation import target_spans

    hyperedges = reading.derivation.hyperedges
    columns = (hyperedges, reading.derivation.depths(), reading.scores, reading.marginals)
    for span, hyperedge, depth, score, marginal in zip(target_spans(reading.derivation), *columns, strict=True):
        yield {
            "span": [hyperedge.span.start, hyperedge.span.end],
            "depth": depth,
            "rule": str(hyperedge.rule),
            "score": score,
            "marginal": marginal,
            "yields": " ".join(reading.target[span.start : span.end]),
        }


def _readings(readings: Sequence[Reading]) -> list[dict[str, Any]]:
    return [
        {"target": " ".join(each.target), "probability": each.probability, "is_legal": each.is_legal}
        for each in readings
    ]
