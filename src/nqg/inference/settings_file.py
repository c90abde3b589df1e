"""The settings of a project in one TOML file: a table for each stage, defaults for what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nqg.induction.settings import InductionSettings
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.toml import read_toml


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """How a project's grammar is induced, and its parser made and trained."""

    induction: InductionSettings = field(default_factory=InductionSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)


def read_settings(path: Path) -> ProjectSettings:
    """The settings in a file; an unknown key or a value of another type is refused by name."""
    table = read_toml(path, "the settings")
    table.only("induction", "model", "training")
    return ProjectSettings(
        table.table("induction").settings(InductionSettings),
        table.table("model").settings(ModelSettings),
        table.table("training").settings(TrainingSettings),
    )
