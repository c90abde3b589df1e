"""`nqg parse`: the programs that a trained model gives for a sentence, or for every line of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from nqg.answers import Answer, Reading, System
from nqg.cli.options import (
    DatabasePlace,
    Device,
    MinConfidence,
    Model,
    NoSpellCorrection,
    ParallelEngine,
    Today,
    WorkerCount,
    command,
)
from nqg.cli.terminal import Workforce, out, output
from nqg.data.example_files import streamed_examples
from nqg.errors import NqgError, Place
from nqg.extensions import load_extension
from nqg.files import decoded, is_url, numbered_lines
from nqg.grammar.derivation import target_spans
from nqg.inference.decoding import DecodeOptions
from nqg.inference.explanation import described, drawn
from nqg.inference.gaps import explained
from nqg.inference.hybrid import Hybrid, gate_score, load
from nqg.inference.parser import WINDOW
from nqg.parallel import in_chunks

Item = TypeVar("Item")

STDIN = "-"
EXAMPLES = (".tsv", ".jsonl")  # files of examples, whose sources are parsed


@dataclass(frozen=True, kw_only=True)
class ParseOptions:
    """Which sentences are parsed, and what is told of them."""

    model: Model
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SENTENCE|FILE|-",
            help="A sentence, a file with one on each line or examples (.tsv, .jsonl), or - for stdin.",
            show_default="a prompt",
        ),
    ] = None
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", metavar="", help="Draw the derivation: spans, scores, rules, yields."
        ),
    ] = False
    readings: Annotated[
        int,
        typer.Option(
            "--readings", metavar="K", min=0, help="Also show the K most probable programs."
        ),
    ] = 0
    no_spell_correction: NoSpellCorrection = False
    min_confidence: MinConfidence = None
    today: Today = None
    database: DatabasePlace = None
    execute: Annotated[
        bool,
        typer.Option(
            "--execute", metavar="", help="Show the rows that queries give; needs --database."
        ),
    ] = False
    log: Annotated[
        Path | None,
        typer.Option(
            "--log",
            metavar="FILE",
            help="Add sentences and answers to this file: see `nqg suggest`.",
        ),
    ] = None
    engine: ParallelEngine = "local"
    workers: WorkerCount = None
    device: Device = None


@command(ParseOptions)
def parse(options: ParseOptions) -> None:
    """Turn sentences into programs with a trained model.

    Example: nqg parse models/mine "walk twice" --explain

    For a sentence, prints its program, or `abstained:` and what the grammar
    lacks. For a file, prints a line for each sentence, separated by tabs:
    sentence, program, confidence (of a model without, the probability within the
    grammar); if the model abstains, the program is empty and the reason comes
    last. A model with a fallback also says who answered and,
    if that was the fallback, why the grammar did not. A word that no rule knows
    and that resembles a known one is read as that one, which is said, too.
    Without a sentence there is a prompt, which Ctrl-D ends.
    """
    sentences = _sentence_or_file(options)
    if options.execute and not options.database:
        raise typer.BadParameter(
            "rows come from a database; name one with --database", param_hint="--execute"
        )
    is_file = sentences is not None and names_file(sentences)
    is_piped = sentences == STDIN or (sentences is None and not sys.stdin.isatty())
    style = AnswerFormat(
        DecodeOptions(
            readings=options.readings,
            marginals=options.explain,
            gaps=True,
            exact=options.no_spell_correction,
            least_confidence=options.min_confidence,
            today=options.today.date() if options.today else None,
        ),
        explain=options.explain,
        as_json=output.as_json,
        is_single=not (is_file or is_piped),
        database=_absolute(options.database),
        execute=options.execute,
        log=options.log,
    )
    work = Workforce.chosen(options.engine, options.workers, options.device)
    if options.explain and not output.as_json and not work.engine.is_serial:
        raise typer.BadParameter(
            "workers cannot draw; omit it, or add --json", param_hint="--explain"
        )
    parts: Iterable[Sequence[Sentence]]
    if is_piped:
        parts = as_they_come(from_stdin(), WINDOW)
    elif sentences is None:
        parts = prompted()
    else:
        parts = in_chunks(from_file(Path(sentences)) if is_file else [Sentence(sentences)], WINDOW)
    for texts in work.engine.map(
        partial(answering, options.model.resolve(), work.device, style), parts
    ):
        for text in texts:
            print(text)
        sys.stdout.flush()


def _sentence_or_file(options: ParseOptions) -> str | None:
    words = options.words or []
    if len(words) > 1:
        sentence = " ".join(words)
        reason = f'expected one sentence or file, found {len(words)}; put a sentence in quotes: "{sentence}"'
        raise typer.BadParameter(reason, param_hint="SENTENCE|FILE|-")
    return words[0] if words else None


def _absolute(database: str | None) -> str | None:
    """The place of a database for workers, which may begin in another folder."""
    if database is None or is_url(database):
        return database
    return str(Path(database).resolve())


class Sentence(NamedTuple):
    text: str
    id: str | None = None


def names_file(text: str) -> bool:
    """Whether an argument names a file; what can only be meant as one, and is not there, is an error."""
    try:
        if Path(text).is_file():
            return True
    except OSError:  # too long for a name
        return False
    if len(text.split()) == 1 and text.endswith((".txt", ".gz", *EXAMPLES)):
        raise NqgError(
            f"{text}: no such file; to parse it as a sentence, pipe it in: echo '{text}' | nqg parse …"
        )
    return False


def from_file(path: Path) -> Iterator[Sentence]:
    if path.name.removesuffix(".gz").endswith(EXAMPLES):
        return (Sentence(example.source, example.id) for example in streamed_examples(path))
    return (Sentence(line) for _, line in numbered_lines(path))


def from_stdin() -> Iterator[Sentence]:
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        yield Sentence(decoded(raw.rstrip(b"\r\n"), Place(Path("<stdin>"), number)))


def prompted() -> Iterator[list[Sentence]]:
    """What somebody types, a sentence at a time; the arrow keys bring back what was typed before."""
    with suppress(ImportError):  # Windows has none, and a history of its own
        import_module("readline")  # which gives `input` its history
    while True:
        try:
            line = input("> ")
        except EOFError:
            print()
            return
        if line.strip():
            yield [Sentence(line)]


def as_they_come(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """The parts of a stream that came while the one before was worked on: nobody waits for what was not said yet.

    >>> [each for part in as_they_come("jump", 2) for each in part]
    ['j', 'u', 'm', 'p']
    """
    queue: Queue[list[Item] | BaseException] = Queue(most)  # of single items; none ends it

    def fill() -> None:
        try:
            for item in items:
                queue.put([item])
            queue.put([])
        except Exception as error:
            queue.put(error)

    Thread(target=fill, daemon=True).start()
    while True:
        part: list[Item] = []
        while not part or (len(part) < most and not queue.empty()):
            found = queue.get()
            if isinstance(found, BaseException) or not found:
                if part:
                    yield part
                if isinstance(found, BaseException):
                    raise found
                return
            part += found
        yield part


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """What is asked of a model, and how its answers are written."""

    options: DecodeOptions = DecodeOptions()  # noqa: RUF009 (frozen)
    explain: bool = False
    as_json: bool = False
    is_single: bool = False  # a sentence of its own, not a file
    database: str | None = None  # where queries are run
    execute: bool = False  # and their rows shown
    log: Path | None = None  # where sentences and answers are added


def answering(
    model: Path, device: str | None, style: AnswerFormat
) -> Callable[[Sequence[Sentence]], list[str]]:
    """Load a model; the result turns sentences into texts to print."""
    loaded = load(model, device).with_options(style.options)
    is_hybrid = isinstance(loaded, Hybrid)
    system: System = loaded
    if style.database:
        database = load_extension("nqg.sql.database:Database").open(style.database)
        system = load_extension("nqg.sql.execution:Executed")(loaded, database)

    def texts(part: Sequence[Sentence]) -> list[str]:
        answers = system.answers(sentence.text for sentence in part)
        found = [explained(answer) for answer in answers]
        if not style.execute:
            found = [replace(answer, rows=None) for answer in found]
        if style.log:
            for answer in found:
                answer.log_to(style.log)
        return [text(answer, sentence.id) for answer, sentence in zip(found, part, strict=True)]

    def text(answer: Answer, name: str | None) -> str:
        if style.as_json:
            named = {} if name is None else {"id": name}
            by = {"by": answer.answered_by} if is_hybrid else {}
            return json.dumps(named | _to_dict(answer, style) | by, ensure_ascii=False)
        if style.is_single or style.explain:
            drawing = drawn_for_terminal(answer.reading) if style.explain and answer.reading else ""
            return described(answer, drawing) + ("\n" if style.explain else "")
        said = answer.reason if answer.answered_by else f"abstained: {answer.reason}"
        is_sure = answer.reading or (answer.target is not None and not is_hybrid)
        sure = f"{gate_score(answer):.6g}" if is_sure else said
        row = [" ".join(answer.source.split()), answer.target or "", sure]
        row += [answer.answered_by or ""] if is_hybrid else []
        return "\t".join(
            [*row, *([", ".join(map(str, answer.corrections))] if answer.corrections else [])]
        )

    return texts


def drawn_for_terminal(reading: Reading) -> str:
    """The drawing of a reading, in colours and no wider than the terminal where there is one."""
    with out.capture() as drawing:
        out.print(drawn(reading, out.width if out.is_terminal else None), end="")
    return drawing.get()


def _to_dict(answer: Answer, style: AnswerFormat) -> dict[str, Any]:
    best = answer.reading
    values: dict[str, Any] = {
        "source": " ".join(answer.source.split()),
        "target": answer.target,
        "confidence": answer.confidence,
        "probability": best.probability if best else None if answer.parts else answer.probability,
    }
    if answer.reason:
        values["reason"] = answer.reason
    if answer.corrections:
        values["corrections"] = [asdict(each) for each in answer.corrections]
    if answer.rows:
        values["rows"] = answer.rows.to_dict()
    if style.explain and best:
        values["derivation"] = str(best.derivation)
        values["applications"] = [
            {
                "span": [hyperedge.span.start, hyperedge.span.end],
                "depth": depth,
                "rule": str(hyperedge.rule),
                "score": score,
                "marginal": marginal,
                "yields": " ".join(best.tokens[span.start : span.end]),
            }
            for span, hyperedge, depth, score, marginal in zip(
                target_spans(best.derivation),
                best.derivation.hyperedges,
                best.derivation.depths(),
                best.scores,
                best.marginals,
                strict=True,
            )
        ]
    if style.options.readings:
        values["readings"] = [
            {"target": each.target, "probability": each.probability, "is_legal": each.is_legal}
            for each in answer.first.readings
        ]
    return values
