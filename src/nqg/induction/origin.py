"""What a search began with: recorded in its trace and on top of its grammar, so that both tell how they were made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nqg
from nqg.data.dataset import Dataset
from nqg.data.example import Example
from nqg.files import numbered_lines
from nqg.grammar.rule import Rule
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
