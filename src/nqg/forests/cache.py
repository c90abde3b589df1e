"""Forests that were built before, found again by what they were built from.

An entry is one file, named after a fingerprint of grammar and examples and after the checksum of its own bytes: it
appears whole or not at all, several processes may write the same one, and damage shows.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nqg
from nqg.data.dataset import Dataset
from nqg.data.download import CACHE_VARIABLE
from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.forests.files import VERSION, read_forests, write_forests
from nqg.forests.forest import Forests
from nqg.grammar.grammar import Grammar


@dataclass(frozen=True, slots=True)
class ForestCache:
    """A folder of forests."""

    folder: Path

    @classmethod
    def of_this_machine(cls) -> ForestCache:
        """The one beside the downloaded datasets: in NQG_DATA_CACHE, or where the system keeps caches."""
        import pooch

        return cls(Path(os.environ.get(CACHE_VARIABLE) or pooch.os_cache("nqg")) / "forests")

    def find(self, grammar: Grammar, examples: Sequence[Example]) -> Forests | None:
        """The forests of `examples`, if they are there; a damaged entry is removed."""
        for path in sorted(self.folder.glob(f"{fingerprint(grammar, examples)}.*.npz")):
            if path.name.split(".")[1] == _checksum(path):
                return read_forests(path)
            path.unlink(missing_ok=True)
        return None

    def add(self, grammar: Grammar, examples: Sequence[Example], forests: Forests) -> None:
        """Keep the forests of `examples`."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".part.") as part:
                path = Path(part) / "forests.npz"
                write_forests(path, forests)
                os.replace(path, self.folder / f"{fingerprint(grammar, examples)}.{_checksum(path)}.npz")
        except OSError as error:
            raise NqgError(f"{self.folder}: forests cannot be kept there ({error.strerror})") from error


def fingerprint(grammar: Grammar, examples: Sequence[Example]) -> str:
    """SHA-256 of all that forests are made of: rules in their order, examples in theirs, and the code's versions."""
    facts = (nqg.__version__, str(VERSION), Dataset("examples", examples).fingerprint, str(grammar))
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
