"""What a run began with: equal configurations give equal results.

States of training and results of stages keep a `RunConfig` or its fingerprint; a training is
resumed only where `difference` finds none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import nqg
from nqg.data.dataset import Dataset
from nqg.data.example import Example
from nqg.errors import Place
from nqg.settings_reader import read_dataclass

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DataFingerprint:
    """The number and the SHA-256 of some examples as `.tsv` lines, and their name.

    >>> print(DataFingerprint.of([Example("jump", "I_JUMP")]))
    1 with SHA-256 56527c363320…
    """

    examples: int
    fingerprint: str
    name: str = ""

    @classmethod
    def of(cls, examples: Sequence[Example], name: str = "") -> DataFingerprint:
        return cls(len(examples), Dataset("examples", examples).fingerprint, name)

    def __str__(self) -> str:
        return f"{self.examples:,} with SHA-256 {self.fingerprint[:12]}…"


@dataclass(frozen=True, slots=True)
class RunConfig:
    """All that decides the course of a run; `settings` and `extra` hold plain values, as in JSON.

    >>> from nqg.induction.settings import InductionSettings
    >>> there = RunConfig.of("induction", [Example("jump", "J")], InductionSettings())
    >>> settings = InductionSettings(terminal_bits=32.0)
    >>> here = RunConfig.of("induction", [Example("jump", "J")], settings)
    >>> here.difference(there)
    'terminal_bits was 8.0 there and is 32.0 here'
    """

    kind: str  # of run: "induction", "training"
    data: DataFingerprint
    settings: Mapping[str, Any]
    # Other inputs, such as seed rules or the hash of a grammar.
    extra: Mapping[str, Any] = field(default_factory=dict)
    nqg_version: str = field(default_factory=lambda: nqg.__version__)

    @classmethod
    def of(
        cls, kind: str, examples: Sequence[Example], *settings: Any, **extra: Any
    ) -> RunConfig:
        """The configuration of a run by this version of nqg, with the fields of all `settings`."""
        joined: dict[str, Any] = {}
        for table in settings:
            joined |= asdict(table)
        return cls(
            kind, DataFingerprint.of(examples), *json.loads(json.dumps([joined, extra]))
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], place: Place | Path | None = None
    ) -> RunConfig:
        return read_dataclass(cls, values, "the configuration of a run", place)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything, the key to cache results by."""
        return sha256(json.dumps(self.to_dict(), sort_keys=True))

    def difference(self, there: RunConfig) -> str | None:
        """What differs in a configuration, in words, or None if the two are equal."""
        if self.kind != there.kind:
            return f"it belongs to a run of {there.kind}, not of {self.kind}"
        # The name of the data does not count.
        if replace(self.data, name="") != replace(there.data, name=""):
            return f"the examples differ: {there.data} there, {self.data} here"
        before, now = {**there.settings, **there.extra}, {**self.settings, **self.extra}
        for name in now | before:
            old, new = before.get(name, UNKNOWN), now.get(name, UNKNOWN)
            if old == new:
                continue
            if isinstance(old, list) and isinstance(new, list):
                return f"the {name.replace('_', ' ')} differ: {len(old):,} there, {len(new):,} here"
            return f"{name} was {old} there and is {new} here"
        if self.nqg_version != there.nqg_version:
            return f"it was made by nqg {there.nqg_version}, this is nqg {self.nqg_version}"
        return None


def sha256(text: str) -> str:
    """The hash that stands for a longer input, such as a grammar, in `RunConfig.extra`."""
    return hashlib.sha256(text.encode()).hexdigest()
