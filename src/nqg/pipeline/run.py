"""A training that runs: whom it tells how far it is, and the folder from which it can continue.

The folder holds the trials of finished folds, and the states of trainings that have not ended.
Every file names the fingerprint of what it was made from, so that a training with other data or
settings begins anew. Text, types and grammar are computed again: they take seconds, and the same
input gives the same grammar.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nqg.files import read_json, write_text
from nqg.model_folder import exclusive
from nqg.pipeline.events import (
    Level,
    Listener,
    Notice,
    Stage,
    StageStarted,
    WorkDone,
    ignore,
)
from nqg.pipeline.settings import RunSettings
from nqg.settings_reader import read_dataclass, read_value
from nqg.training.processes import Processes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Result = TypeVar("Result", bound="DataclassInstance")


@dataclass(frozen=True)
class Run:
    """What all stages of one training share; without a folder, nothing is kept.

    The bars of a training begin with its `label`, as "fold 2 of 5 · ". `stages` are those that it
    passes. A training without one of several `folds` has the number of that `fold`, from 1.
    """

    settings: RunSettings = RunSettings()  # noqa: RUF009 (frozen)
    folder: Path | None = None
    device: str | None = None
    processes: Processes = Processes()  # noqa: RUF009 (frozen)
    listener: Listener = ignore
    label: str = ""
    stages: tuple[Stage, ...] = ()
    fold: int = 0
    folds: int = 0

    def locked(self) -> AbstractContextManager[None]:
        """Keep other trainings in the same folder away until the block ends."""
        if self.folder is None or not self.processes.is_main:
            return nullcontext()
        return exclusive(self.folder, wait=False)

    def stage(self, stage: Stage) -> None:
        number = 0
        if stage in self.stages:
            number = self.stages.index(stage) + 1
        self.listener(StageStarted(stage, number, len(self.stages)))

    def note(self, text: str) -> None:
        self.listener(Notice(text))

    def detail(self, text: str) -> None:
        self.listener(Notice(text, Level.DETAIL))

    def warn(self, text: str) -> None:
        self.listener(Notice(f"warning: {text}", Level.WARNING))

    def progress(self, what: str, done: int, total: int | None) -> None:
        text = f"{self.label}{what}"
        self.listener(WorkDone(text, done, total, self.fold, self.folds))

    def path(self, name: str) -> Path | None:
        """The path of a file of this training, in a folder that exists; None if nothing is kept."""
        if self.folder is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / name

    def remove_empty_folder(self) -> None:
        if (
            self.folder is None
            or not self.folder.is_dir()
            or not self.processes.is_main
        ):
            return
        # A folder with records is kept: the training can continue.
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def for_fold(self, number: int, count: int) -> Run:
        """The run of the training without one fold."""
        folder = self.folder and self.folder / f"fold-{number}"
        label = f"fold {number} of {count} · "
        return replace(self, folder=folder, label=label, fold=number, folds=count)

    def recorded(
        self, name: str, kind: type[Result], fingerprint: str
    ) -> Result | None:
        """What an interrupted training has written as `name` for the same input, if anything."""
        path = self.path(name)
        if path is None or not path.exists():
            return None
        # A record of other data or settings is ignored.
        stored = read_value(dict[str, Any], read_json(path), f"'{name}'", path)
        if stored.get("fingerprint") != fingerprint:
            return None
        return read_dataclass(kind, stored.get("result"), f"'result' of '{name}'", path)

    def record(self, name: str, result: DataclassInstance, fingerprint: str) -> None:
        """Keep the result of a stage, for a training that continues this one."""
        path = self.path(name)
        if path is not None and self.processes.is_main:
            stored = {"fingerprint": fingerprint, "result": asdict(result)}
            write_text(path, json.dumps(stored) + "\n")
