"""`nqg parse`: the programs of a trained model for a sentence, or for every line of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from nqg.answers import Answer, Reading, System
from nqg.calls import calls_or_none
from nqg.cli.options import (
    DatabasePlace,
    Device,
    MinConfidence,
    Model,
    NoSpellCorrection,
    ParallelEngine,
    Today,
    WorkerCount,
    argument,
    command,
    option,
)
from nqg.cli.terminal import Workers, out, output
from nqg.data.example_files import streamed_examples
from nqg.errors import FormatError, NqgError, Place
from nqg.extensions import load_extension
from nqg.files import decoded, is_url, numbered_lines
from nqg.grammar.derivation import target_spans
from nqg.inference.decoding import DecodeOptions
from nqg.inference.explanation import described, drawn
from nqg.inference.gaps import explained
from nqg.inference.hybrid import Hybrid, load
from nqg.inference.parser import WINDOW
from nqg.inference.sequences import score as confidence_or_probability
from nqg.parallel import in_chunks

STDIN = "-"
SENTENCE_METAVAR = "SENTENCE|FILE|-"
# Of files of examples the sources are parsed.
EXAMPLES = (".tsv", ".csv", ".jsonl")
# The most bytes that are read from stdin at once.
BLOCK = 1 << 14


@dataclass(frozen=True)
class ParseOptions:
    """Which sentences are parsed, and what is told of them."""

    model: Model
    words: Annotated[
        list[str] | None,
        argument(
            SENTENCE_METAVAR,
            "A sentence, a file with one on each line or examples (.tsv, .csv, .jsonl), or - for stdin.",
            "a prompt",
        ),
    ] = None
    explain: Annotated[
        bool,
        option("--explain", "", "Draw the derivation: spans, scores, rules, yields."),
    ] = False
    readings: Annotated[
        int, option("--readings", "K", "Also show the K most probable programs.", min=0)
    ] = 0
    no_spell_correction: NoSpellCorrection = False
    min_confidence: MinConfidence = None
    today: Today = None
    database: DatabasePlace = None
    execute: Annotated[
        bool,
        option("--execute", "", "Show the rows that queries give; needs --database."),
    ] = False
    log: Annotated[
        Path | None,
        option(
            "--log",
            "FILE",
            "Add sentences and answers to this file: see `nqg suggest`.",
        ),
    ] = None
    engine: ParallelEngine = "local"
    workers: WorkerCount = None
    device: Device = None


@command(ParseOptions)
def parse(options: ParseOptions) -> None:
    """Turn sentences into programs with a trained model.

    Example: nqg parse models/mine "walk twice" --explain

    For a sentence, prints its program, or `abstained:` and the reason.
    For a file, prints one line per sentence, with tabs between sentence, program
    and confidence. If the model abstains, the program is empty and the reason
    comes last. A model without confidence prints the in-grammar probability.
    A model with two readers also prints which of them answered.
    An unknown word that resembles a known one is corrected, and the correction is
    reported. Without a sentence there is a prompt, which Ctrl-D ends.
    """
    # Refuse what does not go together.
    words = options.words or []
    if len(words) > 1 and not any(map(names_file, words)):
        # A sentence that was typed without quotes.
        words = [" ".join(words)]
    elif len(words) > 1:
        reason = f"expected one sentence or file, found {len(words)}"
        raise typer.BadParameter(reason, param_hint=SENTENCE_METAVAR)
    if options.execute and not options.database:
        reason = "rows come from a database; name one with --database"
        raise typer.BadParameter(reason, param_hint="--execute")

    # Where the sentences come from.
    chunks: Iterable[Sequence[Sentence]]
    is_single = True
    if words == [STDIN] or (not words and not sys.stdin.isatty()):
        is_single = False
        chunks = from_stdin()
    elif not words:
        chunks = prompted()
    elif names_file(words[0]):
        is_single = False
        chunks = in_chunks(from_file(Path(words[0])), WINDOW)
    else:
        chunks = [[Sentence(words[0])]]

    # Load the model in each worker, and print what they answer.
    engine, device = Workers.chosen(options.engine, options.workers, options.device)
    if options.explain and not output.as_json and not engine.is_serial:
        reason = "workers cannot draw; omit it, or add --json"
        raise typer.BadParameter(reason, param_hint="--explain")
    # Workers may begin in another folder.
    options = replace(options, model=options.model.resolve(), device=device)
    if options.database and not is_url(options.database):
        options = replace(options, database=str(Path(options.database).resolve()))
    load_model = partial(
        answering, options, as_json=output.as_json, is_single=is_single
    )
    for texts in engine.map(load_model, chunks):
        for text in texts:
            print(text)
        sys.stdout.flush()


class Sentence(NamedTuple):
    text: str
    id: str | None = None


def names_file(text: str) -> bool:
    """Whether an argument names a file; a missing file that can be nothing else is an error."""
    try:
        if Path(text).is_file():
            return True
    except OSError:
        # The text is too long for a name.
        return False
    if len(text.split()) == 1 and text.endswith((".txt", ".gz", *EXAMPLES)):
        advice = f"to parse it as a sentence, pipe it in: echo '{text}' | nqg parse …"
        raise NqgError(f"{text}: no such file; {advice}")
    return False


def from_file(path: Path) -> Iterator[Sentence]:
    if path.name.removesuffix(".gz").endswith(EXAMPLES):
        return (
            Sentence(example.source, example.id)
            for example in streamed_examples(path, allows_out_of_scope=True)
        )
    return (Sentence(line) for _, line in numbered_lines(path))


def from_stdin() -> Iterator[list[Sentence]]:
    """Chunks of what arrived while the chunk before was answered, so that no sentence waits."""
    number, unfinished, block = 0, b"", b"\n"
    stream: Any = sys.stdin.buffer
    while block:
        block = stream.read1(BLOCK)
        *lines, unfinished = (unfinished + block).split(b"\n")
        if not block and unfinished:
            lines.append(unfinished)
        chunk: list[Sentence] = []
        for line in lines:
            number += 1
            try:
                text = decoded(line.rstrip(b"\r"), Place(Path("<stdin>"), number))
            except FormatError:
                # What came before the error is answered.
                yield chunk
                raise
            chunk.append(Sentence(text))
        yield chunk


def prompted() -> Iterator[list[Sentence]]:
    """What somebody types, a sentence at a time; the arrow keys bring back earlier sentences."""
    # This module gives `input` its history. Windows lacks it, and has a history of its own.
    with suppress(ImportError):
        import_module("readline")
    while True:
        try:
            line = input("> ")
        except EOFError:
            print()
            return
        if line.strip():
            yield [Sentence(line)]


def answering(
    options: ParseOptions, *, as_json: bool = False, is_single: bool = False
) -> Callable[[Sequence[Sentence]], list[str]]:
    """Load a model; the result turns sentences into texts to print."""
    decoding = DecodeOptions(
        readings=options.readings,
        marginals=options.explain,
        gaps=True,
        exact=options.no_spell_correction,
        least_confidence=options.min_confidence,
        today=options.today and options.today.date(),
    )
    # The model is loaded once; the inner functions serve any number of chunks.
    loaded = load(options.model, options.device).with_options(decoding)
    is_hybrid = isinstance(loaded, Hybrid)
    system: System = loaded
    # The modules for SQL are optional, so they are loaded only where they are needed.
    if options.database:
        database = load_extension("nqg.sql.database:Database").open(options.database)
        system = load_extension("nqg.sql.execution:Executed")(loaded, database)

    def texts(chunk: Sequence[Sentence]) -> list[str]:
        answers = system.answers(sentence.text for sentence in chunk)
        printed = []
        for answer, sentence in zip(map(explained, answers), chunk):
            # With a database every query is run, to refuse those that fail; rows are
            # optional.
            if not options.execute:
                answer = replace(answer, rows=None)
            if options.log:
                answer.log_to(options.log)
            printed.append(text(answer, sentence.id))
        return printed

    def text(answer: Answer, name: str | None) -> str:
        if as_json:
            values = _to_dict(answer, options, is_hybrid)
            if name is not None:
                values = {"id": name} | values
            return json.dumps(values, ensure_ascii=False)
        if options.explain:
            return described(answer, drawn_for_terminal) + "\n"
        if is_single:
            return described(answer)
        return "\t".join(_columns(answer, is_hybrid))

    return texts


def _columns(answer: Answer, is_hybrid: bool) -> Iterator[str]:
    """Sentence, program and confidence or reason; of a hybrid who answered; corrected words."""
    yield " ".join(answer.source.split())
    yield answer.target or ""
    is_scored = answer.reading is not None or bool(answer.commands)
    if answer.target is not None and (is_scored or not is_hybrid):
        yield f"{confidence_or_probability(answer):.6g}"
    else:
        yield answer.reason if answer.answered_by else f"abstained: {answer.reason}"
    if is_hybrid:
        yield answer.answered_by or ""
    if answer.all_corrections:
        yield ", ".join(map(str, answer.all_corrections))


def drawn_for_terminal(reading: Reading) -> str:
    """The drawing of a reading, in colours and no wider than the terminal where there is one."""
    with out.capture() as drawing:
        out.print(drawn(reading, out.width if out.is_terminal else None), end="")
    return drawing.get()


def _to_dict(answer: Answer, options: ParseOptions, is_hybrid: bool) -> dict[str, Any]:
    best = answer.reading
    probability = None if answer.parts else answer.probability
    values: dict[str, Any] = {
        "source": " ".join(answer.source.split()),
        "target": answer.target,
        "confidence": answer.confidence,
        "probability": best.probability if best else probability,
    }
    # Leave out the keys that have nothing to say about this answer.
    calls = calls_or_none(answer.target)
    if calls:
        values["calls"] = [call.to_json() for call in calls]
    if answer.reason:
        values["reason"] = answer.reason
    if answer.target is None:
        values |= abstention_to_dict(answer)
    if answer.corrections:
        values["corrections"] = list(map(asdict, answer.corrections))
    if answer.rows:
        values["rows"] = answer.rows.to_dict()
    if options.explain and best:
        values["derivation"] = str(best.derivation)
        values["applications"] = list(_applications(best))
    if options.readings:
        rows = []
        for reading in answer.first.readings:
            row = {"target": reading.target, "probability": reading.probability}
            rows.append(row | {"is_legal": reading.is_legal})
        values["readings"] = rows
    if answer.commands:
        values["commands"] = [
            _to_dict(command, options, is_hybrid) for command in answer.commands
        ]
    if is_hybrid:
        values["by"] = answer.answered_by
    return values


def abstention_to_dict(answer: Answer) -> dict[str, Any]:
    """Why there is no program, what it would have been, and what is missing."""
    withheld, nearest = answer.withheld, answer.nearest
    values: dict[str, Any] = {"kind": answer.kind, "missing": list(answer.missing)}
    if withheld:
        values["withheld"] = {
            "target": withheld.target,
            "confidence": withheld.confidence,
        }
    if nearest:
        values["nearest"] = {"source": nearest.source, "target": nearest.target}
    return values


def _applications(reading: Reading) -> Iterator[dict[str, Any]]:
    """The rules that a derivation applies, parents first."""
    derivation = reading.derivation
    # All five are in the order of the derivation, so they must have one length.
    for yielded, hyperedge, depth, score, marginal in zip(
        target_spans(derivation),
        derivation.hyperedges,
        derivation.depths(),
        reading.scores,
        reading.marginals,
        strict=True,
    ):
        yield {
            "span": [hyperedge.span.start, hyperedge.span.end],
            "depth": depth,
            "rule": str(hyperedge.rule),
            "score": score,
            "marginal": marginal,
            "yields": " ".join(reading.tokens[yielded.start : yielded.end]),
        }
