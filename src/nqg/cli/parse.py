"""`nqg parse`: the programs that a trained model gives for a sentence, or for every line of a file, with their drawing.

A derivation is drawn as the sentence and, for each hyperedge, its span, score, rule and yield. Spans are brackets under
the words of the sentence; a sentence too long for that is drawn as a tree of rules, whose words are the sentence's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from importlib import import_module
from itertools import accumulate, count
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

import typer
from rich.cells import cell_len
from rich.text import Text

from nqg.answers import Answer, Reading, System, in_percent
from nqg.cli.terminal import DATABASE, DEVICE, ENGINE, EXACT, LEAST_CONFIDENCE, MODEL, TODAY, WORKERS, Workforce, out
from nqg.data.examples import streamed_examples
from nqg.engines import Here, in_parts, keep_large_blocks_apart, release_holes
from nqg.errors import NqgError, Place
from nqg.files import decoded, is_url, numbered_lines
from nqg.grammar.derivation import target_spans
from nqg.grammar.grammar import NonTerminal, Symbol, spelled
from nqg.inference.gaps import explained
from nqg.inference.hybrid import Hybrid, grammar_of, level, load_system
from nqg.inference.parser import WINDOW, DecodeOptions

Item = TypeVar("Item")

STDIN = "-"
TIDY_EVERY = 4  # parts; more often costs time
EXAMPLES = (".tsv", ".jsonl")  # files of examples, whose sources are parsed
LEAST_FOR_RULES = 40  # columns; with fewer beside the brackets, a tree is drawn
DEEPEST = 12  # levels of a tree that are indented; those below are numbered
COLOURS = ("cyan", "green", "magenta", "yellow", "blue")

INPUT = typer.Argument(
    None,
    metavar="SENTENCE|FILE|-",
    help="A sentence, a file with one on each line or examples (.tsv, .jsonl), or - for stdin.",
    show_default="a prompt",
)
EXPLAIN = typer.Option(False, "--explain", metavar="", help="Draw the derivation: spans, scores, rules, yields.")
READINGS = typer.Option(0, "--readings", metavar="K", min=0, help="Also show the K most probable programs.")
UNTYPED = typer.Option(
    False,
    "--untyped",
    metavar="",
    help="Parse without types, as the paper does: abstain where the best program is illegal.",
)
EXECUTE = typer.Option(False, "--execute", metavar="", help="Show the rows that queries give; needs --database.")
LOG = typer.Option(None, "--log", metavar="FILE", help="Add sentences and answers to this file: see `nqg suggest`.")
JSON = typer.Option(False, "--json", metavar="", help="Print a line of JSON for each sentence.")


def parse(
    model: Path = MODEL,
    sentences: str | None = INPUT,
    explain: bool = EXPLAIN,
    readings: int = READINGS,
    untyped: bool = UNTYPED,
    exact: bool = EXACT,
    least_confidence: float | None = LEAST_CONFIDENCE,
    today: datetime | None = TODAY,
    database: str | None = DATABASE,
    execute: bool = EXECUTE,
    log: Path | None = LOG,
    engine: str = ENGINE,
    workers: int | None = WORKERS,
    device: str | None = DEVICE,
    as_json: bool = JSON,
) -> None:
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
    is_file = sentences is not None and names_file(sentences)
    is_piped = sentences == STDIN or (sentences is None and not sys.stdin.isatty())
    if execute and not database:
        raise typer.BadParameter("rows come from a database; name one with --database", param_hint="--execute")
    is_single, place = not (is_file or is_piped), database
    if database and not is_url(database):
        place = str(Path(database).resolve())  # workers may begin elsewhere
    typed, day = False if untyped else None, today and today.date()
    options = DecodeOptions(readings, typed, explain, exact=exact, least_confidence=least_confidence, today=day)
    style = Style(options, explain, as_json, is_single, place, execute, log)
    work = Workforce.chosen(engine, workers, device)
    if explain and not as_json and not isinstance(work.engine, Here):
        raise typer.BadParameter("workers cannot draw; omit it, or add --json", param_hint="--explain")
    parts: Iterable[Sequence[Sentence]]
    if is_piped:
        parts = as_they_come(from_stdin(), WINDOW)
    elif sentences is None:
        parts = prompted()
    else:
        parts = in_parts(from_file(Path(sentences)) if is_file else [Sentence(sentences)], WINDOW)
    for texts in work.engine.map(partial(answering, model.resolve(), work.device, style), parts):
        for text in texts:
            print(text)
        sys.stdout.flush()


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
        raise NqgError(f"{text}: no such file; to parse it as a sentence, pipe it in: echo '{text}' | nqg parse …")
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
class Style:
    """What is asked of a model, and how its answers are written."""

    options: DecodeOptions = DecodeOptions()  # noqa: RUF009 (frozen)
    explain: bool = False
    as_json: bool = False
    is_single: bool = False  # a sentence of its own, not a file
    database: str | None = None  # where queries are run
    execute: bool = False  # and their rows shown
    log: Path | None = None  # where sentences and answers are added


def answering(model: Path, device: str | None, style: Style) -> Callable[[Sequence[Sentence]], list[str]]:
    """Load a model; the result turns sentences into texts to print."""
    keep_large_blocks_apart()
    loaded = load_system(model, device).with_options(style.options)
    is_hybrid, grammar, parts = isinstance(loaded, Hybrid), grammar_of(loaded), count(1)
    system: System = loaded
    if style.database:
        from nqg.data.database import Database
        from nqg.inference.execution import Executed

        system = Executed(loaded, Database.open(style.database))

    def texts(part: Sequence[Sentence]) -> list[str]:
        if next(parts) % TIDY_EVERY == 0:
            release_holes()
        answers = system.answers(sentence.text for sentence in part)
        found = [explained(answer, grammar) if grammar else answer for answer in answers]
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
            return "\n".join(_described(answer, style, is_hybrid))
        said = answer.reason if answer.answered_by else f"abstained: {answer.reason}"
        is_sure = answer.reading or (answer.target is not None and not is_hybrid)
        sure = f"{level(answer):.6g}" if is_sure else said
        row = [" ".join(answer.source.split()), answer.target or "", sure]
        row += [answer.answered_by or ""] if is_hybrid else []
        return "\t".join([*row, *([", ".join(map(str, answer.corrections))] if answer.corrections else [])])

    return texts


def _described(answer: Answer, style: Style, is_hybrid: bool) -> Iterator[str]:
    """An answer for reading: the drawing, the program or the abstention, who answered, the readings."""
    best = answer.reading if style.explain else None
    if best:
        with out.capture() as drawing:
            out.print(drawn(best, out.width if out.is_terminal else None), end="\n\n")
        yield drawing.get().removesuffix("\n")
    yield answer.target or "" if answer.answered_by else f"abstained: {answer.reason}"
    if is_hybrid and answer.answered_by:
        yield f"by the {answer.answered_by}" + (f": {answer.reason}" if answer.reason else "")
    yield from map(str, answer.corrections)
    if answer.confidence is not None:
        yield f"confidence {in_percent(answer.confidence)}"
    if best:
        yield f"probability within the grammar {best.probability:.6g}"
    if style.execute and answer.rows:
        yield from answer.rows.lines()
    for reading in answer.first.readings:
        yield f"{reading.probability:.6g}\t{reading.program}" + ("" if reading.is_legal else "\tillegal")
    if style.explain:
        yield ""


def _to_dict(answer: Answer, style: Style) -> dict[str, Any]:
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
    if style.execute and answer.rows:
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
                "yields": " ".join(best.target[span.start : span.end]),
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
            {"target": each.program, "probability": each.probability, "is_legal": each.is_legal}
            for each in answer.first.readings
        ]
    return values


def drawn(reading: Reading, width: int | None = None) -> Text:
    """The reading as aligned text, cut to `width` columns; without a width, nothing is left out.

    >>> from nqg.grammar.derivation import Derivation
    >>> derivation = Derivation.parse('''
    ... [0:2] NT_1 twice ### NT_1 NT_1
    ...   [0:1] jump ### I_JUMP
    ... ''')
    >>> print(drawn(Reading(derivation.target, 1.0, derivation, scores=(0.5, -1.25), marginals=(1.0, 0.75))).plain)
    jump twice    score     p  rule
    ╰────────╯     0.50  1.00  NT_1 twice → NT_1 NT_1  ⇒ I_JUMP I_JUMP
    ╰──╯          -1.25  0.75  jump → I_JUMP
    """
    words = [_visible(word) for word in reading.derivation.source]
    hyperedges, depths = reading.derivation.hyperedges, list(reading.derivation.depths())
    title = Text(f"{'  score' * bool(reading.scores)}{'     p' * bool(reading.marginals)}  ", "dim")
    room = cell_len(" ".join(words)) + cell_len(title.plain) + 2
    is_tree = width is not None and width - room < LEAST_FOR_RULES
    if is_tree:
        lines = [title.append("rule", "dim")]
        lefts = [Text(guide, "dim") for guide in tree_guides(depths)]
    else:
        lines = [Text.assemble((" ".join(words), "bold"), "  ", title, ("rule", "dim"))]
        lefts = _brackets(reading, words)
    for number, (hyperedge, span) in enumerate(zip(hyperedges, target_spans(reading.derivation), strict=True)):
        figures = Text(f"{reading.scores[number]:7.2f}" if reading.scores else "")
        if reading.marginals:
            chance = reading.marginals[number]
            figures.append(f"{chance:6.2f}", "green" if chance >= 0.9 else "yellow" if chance >= 0.5 else "red")
        rule = Text.assemble(_side(hyperedge.rule.source), (" → ", "dim"), _side(hyperedge.rule.target))
        if hyperedge.rule.arity:
            rule.append(f"  ⇒ {' '.join(map(_visible, reading.target[span.start : span.end]))}", "dim")
        figures.append("  ")
        left = lefts[number]
        lines.append(Text.assemble(figures, left, rule) if is_tree else Text.assemble(left, "  ", figures, rule))
    for line in lines:
        line.rstrip()
        if width is not None:
            line.truncate(width, overflow="ellipsis")
    sentence = [Text(" ".join(words), "bold")] if is_tree else []  # as long as it is: the terminal wraps it
    return Text("\n").join([*sentence, *lines])


def _brackets(reading: Reading, words: Sequence[str]) -> list[Text]:
    """A bracket for each hyperedge, under the words of its span."""
    columns = [0, *accumulate(cell_len(word) + 1 for word in words)]  # where each word begins
    found = []
    for hyperedge, depth in zip(reading.derivation.hyperedges, reading.derivation.depths(), strict=True):
        left, right = columns[hyperedge.span.start], columns[hyperedge.span.end] - 1
        bracket = "│" if right - left == 1 else f"╰{'─' * (right - left - 2)}╯"
        found.append(Text((" " * left + bracket).ljust(columns[-1] - 1), COLOURS[depth % len(COLOURS)]))
    return found


def tree_guides(depths: Sequence[int]) -> list[str]:
    """The lines that lead from a rule to those under it.

    >>> tree_guides([0, 1, 2, 1])
    ['', '├─ ', '│  └─ ', '└─ ']
    """
    guides: list[str] = []
    goes_on: dict[int, bool] = {}  # whether a sister follows at a depth, as seen from below
    for depth in reversed(depths):
        shown = range(1, min(depth, DEEPEST))
        stem = "".join("│  " if goes_on.get(level) else "   " for level in shown)
        branch = "├─ " if goes_on.get(depth) else "└─ "
        number = f"[{depth}] " if depth > DEEPEST else ""
        guides.append(f"{stem}{branch}{number}" if depth else "")
        goes_on = {level: each for level, each in goes_on.items() if level < depth} | {depth: True}
    return guides[::-1]


def _side(symbols: Iterable[Symbol]) -> Text:
    """One side of a rule; words stand out from non-terminals."""
    parts = (Text(_visible(spelled(each)), "" if isinstance(each, NonTerminal) else "bold") for each in symbols)
    return Text(" ").join(parts)


def _visible(word: str) -> str:
    r"""A word without characters that would do something to a terminal.

    >>> _visible("caf\u00e9\x1b[2J")
    'café�[2J'
    """
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in word)
