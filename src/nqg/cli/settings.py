"""The settings of a project in one TOML file: a table for each stage, defaults for what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from nqg.induction.settings import InductionSettings
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings
from nqg.settings_reader import read_dataclass, read_toml


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """How a project's grammar is induced, its parser made and trained, and perhaps a fallback beside it."""

    induction: InductionSettings = field(default_factory=InductionSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    seq2seq: Seq2seqSettings | None = None  # no fallback
    fine_tuning: FineTuningSettings = field(default_factory=FineTuningSettings)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """The settings of each stage under the name of their table; without a fallback, none of its."""
        for each in fields(self):
            if self.seq2seq is not None or each.name not in ("seq2seq", "fine_tuning"):
                yield each.name, getattr(self, each.name)


def read_settings(path: Path) -> ProjectSettings:
    """The settings in a file; an unknown key or a value of another type is refused by name.

    A table [seq2seq], be it empty, asks for a fallback.
    """
    return read_dataclass(ProjectSettings, read_toml(path), "the settings", path)
