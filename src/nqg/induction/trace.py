"""The trace of a search: a line of JSON for what it began with, one for every step, as it is made, and one for the end.

A process that is killed leaves a whole trace except, perhaps, for its last line; that line is dropped when the search
is resumed. `grammar_comments` writes the same provenance on top of a grammar.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from nqg.data.examples import Example
from nqg.errors import FormatError, NqgError, Place, counted
from nqg.files import decoded, numbered_lines, strict_json
from nqg.grammar.grammar import Rule
from nqg.grammar.target_grammar import TargetGrammar
from nqg.induction.description_length import DescriptionLength
from nqg.induction.induce import InductionStep
from nqg.induction.search import Phase
from nqg.induction.settings import InductionSettings
from nqg.run_config import DataFingerprint, RunConfig, sha256
from nqg.settings_reader import read_dataclass

KIND = "nqg induction trace"
VERSION = 1
SETTINGS_MARK = "# settings: "
FINISHED = '{"finished": true}\n'  # behind the last step of a search that ended by itself


def induction_config(
    examples: Sequence[Example],
    settings: InductionSettings,
    seed_rules: Iterable[Rule] = (),
    target_grammar: TargetGrammar | None = None,
) -> RunConfig:
    """What a search begins with: equal configurations make equal steps."""
    rules, legal = [str(rule) for rule in seed_rules], "" if target_grammar is None else str(target_grammar)
    return RunConfig.of("induction", examples, settings, seed_rules=rules, target_grammar=legal)


def grammar_comments(config: RunConfig) -> list[str]:
    """Lines for the top of a grammar file."""
    seed_rules = config.extra["seed_rules"]
    seeds = f" and {len(seed_rules):,} seed rules {sha256(' '.join(seed_rules))[:16]}" if seed_rules else ""
    if legal := config.extra["target_grammar"]:
        seeds += f", with the target grammar {sha256(legal)[:16]}"
    return [
        f"# induced by nqg {config.nqg_version} from {counted(config.data.examples, 'example')}{seeds}",
        f"# sha256 of the examples: {config.data.fingerprint}",
        SETTINGS_MARK + json.dumps(dict(config.settings)),
    ]


def recorded_settings(path: Path) -> dict[str, Any]:
    """The settings on top of a grammar file, or nothing where it has none that can be read."""
    for _, line in numbered_lines(path):
        if line.startswith(SETTINGS_MARK):
            try:
                settings = json.loads(line.removeprefix(SETTINGS_MARK))
            except (ValueError, RecursionError):
                return {}  # a comment of someone else's: comments can be anything
            return settings if isinstance(settings, dict) else {}
        if not line.startswith("#"):
            break
    return {}


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a trace: where the search began."""

    kind: str
    version: int
    nqg: str
    examples: int
    sha256: str
    settings: Mapping[str, Any]
    seed_rules: tuple[str, ...]
    rules: int
    grammar_bits: float
    data_bits: float
    target_grammar: str = ""  # its text

    @classmethod
    def of(cls, config: RunConfig, rules: int, length: DescriptionLength) -> Header:
        data, seeds = (config.data.examples, config.data.fingerprint), tuple(config.extra["seed_rules"])
        bits = (length.grammar_bits, length.data_bits)
        legal = config.extra["target_grammar"]
        return cls(KIND, VERSION, config.nqg_version, *data, config.settings, seeds, rules, *bits, legal)

    @property
    def config(self) -> RunConfig:
        data = DataFingerprint(self.examples, self.sha256)
        extra = {"seed_rules": list(self.seed_rules), "target_grammar": self.target_grammar}
        return RunConfig("induction", data, self.settings, extra, self.nqg)

    @property
    def length(self) -> DescriptionLength:
        return DescriptionLength(self.grammar_bits, self.data_bits)

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def parse(cls, values: Any, place: Place) -> Header:
        """The header with these JSON values, which must be one of this version."""
        if not isinstance(values, dict) or values.get("kind") != KIND:
            raise FormatError(f"expected the header of a trace ('kind': '{KIND}'), found something else", place)
        if (version := values.get("version")) != VERSION:
            raise FormatError(f"written in version {version} of the format; this nqg reads version {VERSION}", place)
        return read_dataclass(cls, values, "the header", place)


@dataclass(frozen=True, slots=True)
class TracedStep:
    """A step, its number from 1 on, and the seconds that the search had taken when it was made."""

    number: int
    step: InductionStep
    seconds: float

    def line(self) -> str:
        """The step as a line of JSON.

        >>> from nqg.induction.induce import Induction
        >>> pairs = [Example(*pair.split(" = ")) for pair in ("jump = J", "jump twice = J J", "run twice = R R")]
        >>> step = next(Induction(pairs, InductionSettings.named("scan")).steps())
        >>> print(TracedStep(1, step, 0.5).line()[:100])
        {"step": 1, "phase": "splitting", "added": ["NT_1 twice ### NT_1 NT_1"], "removed": ["jump twice ###
        """
        step = self.step
        rules = (tuple(map(str, step.added)), tuple(map(str, step.removed)))
        saved = (step.saved.grammar_bits, step.saved.data_bits)
        length = (step.length.grammar_bits, step.length.data_bits)
        line = StepLine(self.number, step.phase, *rules, *saved, step.rules, *length, round(self.seconds, 6))
        return json.dumps(asdict(line)) + "\n"

    @classmethod
    def parse(cls, values: Any, place: Place) -> TracedStep:
        """The step with these JSON values, which must have the number that belongs to its place."""
        line = read_dataclass(StepLine, values, "the step", place)
        if line.step != place.line - 1:
            raise FormatError(f"expected step {place.line - 1}, found step {line.step}", place)
        try:
            changed = (tuple(map(Rule.parse, line.added)), tuple(map(Rule.parse, line.removed)))
        except FormatError as error:
            raise error.at(place) from error
        saved = DescriptionLength(line.saved_grammar_bits, line.saved_data_bits)
        length = DescriptionLength(line.grammar_bits, line.data_bits)
        return cls(line.step, InductionStep(line.phase, *changed, saved, line.rules, length), line.seconds)


@dataclass(frozen=True, slots=True)
class StepLine:
    """The keys of a step in the file, in their order."""

    step: int
    phase: Phase
    added: tuple[str, ...]
    removed: tuple[str, ...]
    saved_grammar_bits: float
    saved_data_bits: float
    rules: int
    grammar_bits: float
    data_bits: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Trace:
    """What a trace file holds; `size` counts the bytes of its whole lines, behind which a line may be cut short."""

    header: Header
    steps: tuple[TracedStep, ...]
    size: int
    is_cut: bool = False
    is_finished: bool = False

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
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise NqgError(f"{path}: no such file") from error
    except OSError as error:
        raise NqgError(f"{path}: cannot be read ({error.strerror})") from error
    size = raw.rfind(b"\n") + 1
    if not size:
        raise FormatError("expected a trace of 'nqg induce', found no whole line; begin one with --trace", path)
    is_finished = raw.endswith(b"\n" + FINISHED.encode())
    lines = enumerate(raw[: size - 1 - is_finished * len(FINISHED)].split(b"\n"), start=1)
    values = ((Place(path, number), decoded(line, Place(path, number))) for number, line in lines)
    header, *steps = [(strict_json(text, place), place) for place, text in values]
    parsed = tuple(TracedStep.parse(*step) for step in steps)
    return Trace(Header.parse(*header), parsed, size, size < len(raw), is_finished)


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace that is open for appending."""

    path: Path
    file: FileIO

    @classmethod
    @contextmanager
    def opened(cls, path: Path, begin: Header | Trace) -> Iterator[TraceFile]:
        """A new trace with this header, or one that was read before and is continued.

        A new trace takes the place of nothing but the beginning of the same header; of one that is continued, what
        stands behind its last whole line is cut off.
        """
        try:
            file = FileIO(path, "a+")
        except FileNotFoundError as error:
            raise NqgError(f"{path}: the folder {path.parent} does not exist") from error
        except OSError as error:
            raise NqgError(f"{path}: cannot write there ({error.strerror})") from error
        with file:
            trace = cls(path, file)
            if isinstance(begin, Trace):
                file.truncate(begin.size)
            else:
                file.seek(0)
                if not begin.line().encode().startswith(file.readall()):
                    raise NqgError(f"{path}: the file exists already; continue it with --resume {path}, or remove it")
                file.truncate(0)
                trace.add(begin)
            yield trace

    def add(self, line: Header | TracedStep | None) -> None:
        """Append a line, without a buffer in between; None for the end."""
        raw = (line.line() if line else FINISHED).encode()
        try:
            written = self.file.write(raw)
        except OSError as error:
            raise NqgError(f"{self.path}: cannot be written ({error.strerror})") from error
        if written < len(raw):
            raise NqgError(f"{self.path}: only a part of a line could be written; is the disk full?")
