"""The trace of a search: a file with a line of JSON for its origin and one for every step, written as they happen.

A process that is killed leaves a whole trace but, perhaps, its last line; that line is dropped when the search is taken
up again (`trace_file` writes it).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

import nqg
from nqg.data.dataset import Dataset
from nqg.data.examples import Example
from nqg.errors import FormatError, NqgError, Place
from nqg.files import decoded, json_kind, numbered_lines, strict_json
from nqg.grammar.rule import Rule
from nqg.induction.description_length import DescriptionLength
from nqg.induction.induce import Step
from nqg.induction.search import Phase
from nqg.induction.settings import InductionSettings

SETTINGS_MARK = "# settings: "


@dataclass(frozen=True, slots=True)
class Origin:
    """The version of nqg, the examples, the settings and the seed rules: equal origins make equal steps.

    >>> there = Origin.of([Example("jump", "J")], InductionSettings())
    >>> here = Origin.of([Example("jump", "J")], InductionSettings(terminal_bits=32.0))
    >>> here.difference(there)
    'terminal_bits was 8.0 there and is 32.0 here'
    """

    nqg: str
    examples: int
    sha256: str
    settings: Mapping[str, Any]
    seed_rules: tuple[str, ...] = ()

    @classmethod
    def of(cls, examples: Sequence[Example], settings: InductionSettings, seed_rules: Iterable[Rule] = ()) -> Origin:
        """The origin of a search by this version of nqg."""
        fingerprint = Dataset("examples", examples).fingerprint
        return cls(nqg.__version__, len(examples), fingerprint, asdict(settings), tuple(map(str, seed_rules)))

    def difference(self, there: Origin) -> str | None:
        """Why steps from `there` need not be steps from here, or None if the two are equal."""
        if self.sha256 != there.sha256:
            return (
                f"the examples are others: {there.examples:,} with sha256 {there.sha256[:12]}… there, "
                f"{self.examples:,} with {self.sha256[:12]}… here"
            )
        for name in sorted({*self.settings, *there.settings}):
            before, now = (settings.get(name, "unknown") for settings in (there.settings, self.settings))
            if before != now:
                return f"{name} was {before} there and is {now} here"
        if self.seed_rules != there.seed_rules:
            return f"the seed rules are others: {len(there.seed_rules):,} there, {len(self.seed_rules):,} here"
        return None if self.nqg == there.nqg else f"it was made by nqg {there.nqg}, this is {self.nqg}"

    def comments(self) -> list[str]:
        """Lines for the top of a grammar file."""
        seeds = f" and {len(self.seed_rules):,} seed rules" if self.seed_rules else ""
        return [
            f"# induced by nqg {self.nqg} from {self.examples:,} examples{seeds}",
            f"# sha256 of the examples: {self.sha256}",
            SETTINGS_MARK + json.dumps(dict(self.settings)),
        ]


def recorded_settings(path: Path) -> dict[str, Any]:
    """The settings on top of a grammar file, or nothing where it has none that can be read."""
    for _, line in numbered_lines(path):
        if line.startswith(SETTINGS_MARK):
            return _settings_of(line.removeprefix(SETTINGS_MARK))
        if not line.startswith("#"):
            break
    return {}


def _settings_of(text: str) -> dict[str, Any]:
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError):
        return {}  # a comment of someone else's: comments can be anything
    return settings if isinstance(settings, dict) else {}


KIND = "nqg induction trace"
VERSION = 1
_BITS = {"grammar_bits": float, "data_bits": float}
_ORIGIN = {"nqg": str, "examples": int, "sha256": str, "settings": dict, "seed_rules": list}
_HEADER = {"kind": str, "version": int, **_ORIGIN, "rules": int, **_BITS}
_STEP = {
    "step": int,
    "phase": str,
    "added": list,
    "removed": list,
    "saved_grammar_bits": float,
    "saved_data_bits": float,
    "rules": int,
    **_BITS,
    "seconds": float,
}
_KINDS = {str: "a string", int: "an integer", float: "a number", list: "a list", dict: "an object"}
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Header:
    """The first line: where the search began."""

    origin: Origin
    rules: int
    length: DescriptionLength

    def line(self) -> str:
        """The header as a line of JSON."""
        start = {"rules": self.rules, **asdict(self.length)}
        return json.dumps({"kind": KIND, "version": VERSION, **asdict(self.origin), **start}) + "\n"


@dataclass(frozen=True, slots=True)
class TracedStep:
    """A step, its number from 1 on, and the seconds that the search had taken when it was made."""

    number: int
    step: Step
    seconds: float

    def line(self) -> str:
        """The step as a line of JSON.

        >>> from nqg.data.examples import Example
        >>> from nqg.induction.induce import Induction, InductionSettings
        >>> pairs = [Example(*pair.split(" = ")) for pair in ("jump = J", "jump twice = J J", "run twice = R R")]
        >>> step = next(Induction(pairs, InductionSettings.named("scan")).steps())
        >>> print(TracedStep(1, step, 0.5).line()[:100])
        {"step": 1, "phase": "splitting", "added": ["NT_1 twice ### NT_1 NT_1"], "removed": ["jump twice ###
        """
        step = self.step
        fields = {
            "step": self.number,
            "phase": step.phase.value,
            "added": [str(rule) for rule in step.added],
            "removed": [str(rule) for rule in step.removed],
            **{f"saved_{part}": bits for part, bits in asdict(step.saved).items()},
            "rules": step.rules,
            **asdict(step.length),
            "seconds": round(self.seconds, 6),
        }
        return json.dumps(fields) + "\n"


@dataclass(frozen=True, slots=True)
class Trace:
    """What a trace file holds; `size` counts the bytes of its whole lines, behind which a line may be cut short."""

    header: Header
    steps: tuple[TracedStep, ...]
    size: int
    is_cut: bool

    @property
    def seconds(self) -> float:
        """How long the search had run when the last step was made."""
        return self.steps[-1].seconds if self.steps else 0.0

    @property
    def rules(self) -> int:
        """How many rules there were at the end."""
        return self.steps[-1].step.rules if self.steps else self.header.rules

    @property
    def length(self) -> DescriptionLength:
        """The description length at the end."""
        return self.steps[-1].step.length if self.steps else self.header.length


def read_trace(path: Path) -> Trace:
    """The trace in a file; a last line without an end is left out, any other bad line refused with its place."""
    raw = _raw(path)
    size = raw.rfind(b"\n") + 1
    lines = raw[:size].split(b"\n")[:-1]
    if not lines:
        raise FormatError("expected a trace of 'nqg induce', found no whole line; begin one with --trace", path)
    header, *steps = [(Place(path, number), line) for number, line in enumerate(lines, start=1)]
    return Trace(_read(*header, _header), tuple(_read(*step, _traced_step) for step in steps), size, size < len(raw))


def _raw(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NqgError(f"{path}: no such file") from error
    except OSError as error:
        raise NqgError(f"{path}: cannot be read ({error.strerror})") from error


def _read(place: Place, line: bytes, reader: Callable[[Any, int], Read]) -> Read:
    fields = strict_json(decoded(line, place), place)
    try:
        return reader(fields, place.line)
    except FormatError as error:
        raise error.at(place) from error


def _header(fields: Any, line: int) -> Header:
    if not isinstance(fields, dict) or fields.get("kind") != KIND:
        raise FormatError(f"expected the header of a trace ('kind': '{KIND}'), found something else")
    if fields.get("version") != VERSION:
        raise FormatError(f"written in version {fields.get('version')} of the format; this nqg reads version {VERSION}")
    known = _checked(fields, _HEADER)
    origin = {name: known[name] for name in _ORIGIN} | {"seed_rules": tuple(map(str, known["seed_rules"]))}
    return Header(Origin(**origin), known["rules"], _length(known))


def _traced_step(fields: Any, line: int) -> TracedStep:
    known = _checked(fields, _STEP)
    if known["step"] != line - 1:
        raise FormatError(f"expected step {line - 1}, found step {known['step']}")
    if known["phase"] not in list(Phase):
        raise FormatError(f"the phase is '{known['phase']}', expected {', '.join(Phase)}")
    step = Step(
        phase=Phase(known["phase"]),
        added=_rules(known["added"]),
        removed=_rules(known["removed"]),
        saved=_length(known, "saved_"),
        rules=known["rules"],
        length=_length(known),
    )
    return TracedStep(known["step"], step, known["seconds"])


def _checked(fields: Any, expected: Mapping[str, type]) -> dict[str, Any]:
    """The fields of a JSON object, which must be those expected and of their types."""
    if not isinstance(fields, dict):
        raise FormatError(f"expected an object, found {json_kind(fields)}")
    for name in [*expected, *fields]:
        if name not in fields or name not in expected:
            reason = "is missing" if name in expected else "is unknown"
            raise FormatError(f"the key '{name}' {reason}; expected {', '.join(expected)}")
    for name, kind in expected.items():
        if type(fields[name]) not in ((int, float) if kind is float else (kind,)):
            raise FormatError(f"'{name}' is {json_kind(fields[name])}, expected {_KINDS[kind]}")
    return fields


def _rules(texts: list[Any]) -> tuple[Rule, ...]:
    return tuple(Rule.parse(str(text)) for text in texts)


def _length(fields: Mapping[str, Any], prefix: str = "") -> DescriptionLength:
    return DescriptionLength(fields[f"{prefix}grammar_bits"], fields[f"{prefix}data_bits"])


@dataclass(frozen=True, slots=True)
class TraceFile:
    """An open trace."""

    path: Path
    _file: FileIO

    def add(self, line: Header | TracedStep) -> None:
        """Append a line, without a buffer in between."""
        raw = line.line().encode()
        try:
            written = self._file.write(raw)
        except OSError as error:
            raise NqgError(f"{self.path}: cannot be written ({error.strerror})") from error
        if written < len(raw):
            raise NqgError(f"{self.path}: only a part of a line could be written; is the disk full?")


@contextmanager
def begun_trace(path: Path, header: Header) -> Iterator[TraceFile]:
    """A new trace with its header; a file with anything in it but the beginning of this header is refused."""
    with _opened(path, size=None) as file:
        if not header.line().encode().startswith(file.readall()):
            raise NqgError(f"{path}: the file exists already; go on with it by --resume {path}, or remove it")
        file.truncate(0)
        trace = TraceFile(path, file)
        trace.add(header)
        yield trace


@contextmanager
def continued_trace(path: Path, trace: Trace) -> Iterator[TraceFile]:
    """A trace that was read, open behind its last whole line; what stands there of a cut line is taken off."""
    with _opened(path, trace.size) as file:
        yield TraceFile(path, file)


@contextmanager
def _opened(path: Path, size: int | None) -> Iterator[FileIO]:
    """The file for appending, cut to `size` where one is given."""
    try:
        file = FileIO(path, "a+")
    except FileNotFoundError as error:
        raise NqgError(f"{path}: the folder {path.parent} does not exist") from error
    except OSError as error:
        raise NqgError(f"{path}: cannot write there ({error.strerror})") from error
    with file:
        if size is not None:
            file.truncate(size)
        file.seek(0)
        yield file
