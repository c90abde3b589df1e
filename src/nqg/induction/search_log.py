"""The log of a search, a line of JSON for every step, and the comments on top of a grammar file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nqg.data.example import Example
from nqg.errors import FormatError, counted
from nqg.files import numbered_lines, strict_json
from nqg.grammar.grammar import Rule
from nqg.induction.description_length import DescriptionLength
from nqg.induction.induce import Induction, InductionStep
from nqg.induction.settings import InductionSettings
from nqg.run_config import RunConfig, sha256
from nqg.settings_reader import read_dataclass
from nqg.types.target_grammar import TargetGrammar

SETTINGS_MARK = "# settings: "
BEGINNING = "beginning"


def induction_config(
    examples: Sequence[Example],
    settings: InductionSettings,
    seed_rules: Iterable[Rule] = (),
    target_grammar: TargetGrammar | None = None,
) -> RunConfig:
    """What a search begins with: equal configurations make equal steps."""
    rules = list(map(str, seed_rules))
    legal = str(target_grammar or "")
    return RunConfig.of(
        "induction", examples, settings, seed_rules=rules, target_grammar=legal
    )


def grammar_comments(config: RunConfig) -> list[str]:
    """Lines for the top of a grammar file."""
    origin = counted(config.data.examples, "example")
    seed_rules, legal = config.extra["seed_rules"], config.extra["target_grammar"]
    if seed_rules:
        origin += (
            f" and {len(seed_rules):,} seed rules {sha256(' '.join(seed_rules))[:16]}"
        )
    if legal:
        origin += f", with the target grammar {sha256(legal)[:16]}"
    return [
        f"# induced by nqg {config.nqg_version} from {origin}",
        f"# sha256 of the examples: {config.data.fingerprint}",
        SETTINGS_MARK + json.dumps(dict(config.settings)),
    ]


def settings_in_comments(path: Path) -> dict[str, Any]:
    """The settings on top of a grammar file, or nothing where it has none that can be read."""
    for _, line in numbered_lines(path):
        if line.startswith(SETTINGS_MARK):
            try:
                settings = json.loads(line.removeprefix(SETTINGS_MARK))
            except (ValueError, RecursionError):
                # Comments of other programs can be anything.
                return {}
            return settings if isinstance(settings, dict) else {}
        if not line.startswith("#"):
            break
    return {}


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A line of the log: what a step changed, and the rules and bits after it.

    Step 0 is where the search began.
    """

    step: int
    phase: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    rules: int
    grammar_bits: float
    data_bits: float
    seconds: float

    @classmethod
    def of_beginning(cls, induction: Induction) -> StepRecord:
        bits = asdict(induction.length)
        return cls(0, BEGINNING, (), (), induction.searched_rules, seconds=0.0, **bits)

    @classmethod
    def of_step(cls, number: int, step: InductionStep, seconds: float) -> StepRecord:
        """The record of a step that ended `seconds` after the beginning.

        >>> pairs = [Example("jump", "J"), Example("jump twice", "J J"), Example("run twice", "R R")]
        >>> step = next(Induction(pairs, InductionSettings(repeated_targets=True)).steps())
        >>> StepRecord.of_step(1, step, 0.5).added
        ('NT_1 twice ### NT_1 NT_1',)
        """
        return cls(
            number,
            step.phase,
            tuple(map(str, step.added)),
            tuple(map(str, step.removed)),
            step.rules,
            seconds=round(seconds, 6),
            **asdict(step.length),
        )

    @property
    def length(self) -> DescriptionLength:
        return DescriptionLength(self.grammar_bits, self.data_bits)

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


def read_search_log(path: Path) -> list[StepRecord]:
    """The records of a log; a line that is none is refused with its place."""
    records: list[StepRecord] = []
    for location, line in numbered_lines(path):
        values = strict_json(line, location)
        record = read_dataclass(StepRecord, values, "the step", location, complete=True)
        if record.step != len(records):
            raise FormatError(
                f"expected step {len(records)}, found step {record.step}", location
            )
        records.append(record)
    if not records:
        raise FormatError("expected the log of a search, found no line", path)
    return records
