"""The provenance of a run: what it began with, so that equal configurations give equal results, and what it ran on.

Traces of induction, states of training, caches of forests and records of experiments all keep a `RunConfig`, or parts
of one; a run is resumed only where `difference` finds none.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
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
    """Which examples: how many, and the SHA-256 of their `.tsv` lines; `name` says what they are called.

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
    """All that decides the course of a run; the values of `settings` and `extra` are plain, as JSON has them.

    >>> from nqg.induction.settings import InductionSettings
    >>> there = RunConfig.of("induction", [Example("jump", "J")], InductionSettings())
    >>> here = RunConfig.of("induction", [Example("jump", "J")], InductionSettings(terminal_bits=32.0))
    >>> here.difference(there)
    'terminal_bits was 8.0 there and is 32.0 here'
    """

    kind: str  # of run: "induction", "training"
    data: DataFingerprint
    settings: Mapping[str, Any]
    extra: Mapping[str, Any] = field(
        default_factory=dict
    )  # other inputs, such as seed rules or the hash of a grammar
    nqg_version: str = field(default_factory=lambda: nqg.__version__)

    @classmethod
    def of(cls, kind: str, examples: Sequence[Example], *settings: Any, **extra: Any) -> RunConfig:
        """The configuration of a run by this version of nqg; `settings` are dataclasses, whose fields are joined."""
        joined = {name: value for each in settings for name, value in asdict(each).items()}
        return cls(kind, DataFingerprint.of(examples), *json.loads(json.dumps([joined, extra])))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], place: Place | Path | None = None) -> RunConfig:
        return read_dataclass(cls, values, "the configuration of a run", place)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything, the key to cache results by."""
        return sha256(json.dumps(self.to_dict(), sort_keys=True))

    def difference(self, there: RunConfig) -> str | None:
        """Why a run from `there` need not be one from here, in words, or None if the two are equal."""
        if self.kind != there.kind:
            return f"it belongs to a run of {there.kind}, not of {self.kind}"
        if (self.data.examples, self.data.fingerprint) != (
            there.data.examples,
            there.data.fingerprint,
        ):
            return f"the examples differ: {there.data} there, {self.data} here"
        before, now = ({**each.settings, **each.extra} for each in (there, self))
        for name in {**now, **before}:
            old, new = before.get(name, UNKNOWN), now.get(name, UNKNOWN)
            if old != new and isinstance(old, list) and isinstance(new, list):
                return f"the {name.replace('_', ' ')} differ: {len(old):,} there, {len(new):,} here"
            if old != new:
                return f"{name} was {old} there and is {new} here"
        if self.nqg_version != there.nqg_version:
            return f"it was made by nqg {there.nqg_version}, this is nqg {self.nqg_version}"
        return None


def sha256(text: str) -> str:
    """The hash that stands for a longer input, such as a grammar, in `RunConfig.extra`."""
    return hashlib.sha256(text.encode()).hexdigest()


def versions(*packages: str) -> dict[str, str]:
    """Versions of nqg, Python and `packages`: what may change a figure."""
    found = {"nqg": nqg.__version__, "python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = UNKNOWN
    return found


def commit() -> str:
    """The commit of the checkout that nqg runs from, with a `+` if files differ from it; 'unknown' elsewhere."""
    if given := os.environ.get(
        "NQG_COMMIT"
    ):  # a copy of a checkout, as on a lent machine, has no .git
        return given
    git = ["git", "-C", str(Path(nqg.__file__).parent)]
    try:
        head = subprocess.check_output(
            [*git, "rev-parse", "--short=12", "HEAD"], text=True, stderr=subprocess.DEVNULL
        )
        changed = subprocess.check_output([*git, "status", "--porcelain", "--untracked-files=no"])
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN
    return head.strip() + ("+" if changed else "")


def hardware(device: str) -> str:
    """The processor that does the work, in words."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name()
    return f"{os.cpu_count()} cores, {platform.machine()}"
