"""A training under way: whom it tells how far it is, and the folder from which an interrupted one continues.

The folder holds what each stage has finished (the settings that trials chose, the grammar, the trials of each fold) and
the states of trainings that have not ended. Every file names the fingerprint of what it was made from, so that a
training with other data or settings begins anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nqg.files import read_json, write_text
from nqg.model_folder import exclusive
from nqg.pipeline.events import Level, Listener, Notice, Stage, StageStarted, WorkDone, ignore
from nqg.pipeline.settings import RunSettings
from nqg.settings_reader import read_dataclass
from nqg.training.processes import Processes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Result = TypeVar("Result", bound="DataclassInstance")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Run:
    """What all stages of one training share; `label` is what its bars begin with, as "fold 2 of 5 · "."""

    settings: RunSettings = RunSettings()  # noqa: RUF009 (frozen)
    folder: Path | None = None  # None: nothing is kept
    device: str | None = None
    processes: Processes = Processes()  # noqa: RUF009 (frozen)
    listener: Listener = ignore
    label: str = ""

    def locked(self) -> AbstractContextManager[None]:
        """Keep other trainings in the same folder away until the block ends."""
        if self.folder is None or not self.processes.is_main:
            return nullcontext()
        return exclusive(self.folder, wait=False)

    def stage(self, stage: Stage) -> None:
        self.listener(StageStarted(stage))

    def note(self, text: str) -> None:
        self.listener(Notice(text))

    def detail(self, text: str) -> None:
        self.listener(Notice(text, Level.DETAIL))

    def warn(self, text: str) -> None:
        self.listener(Notice(f"warning: {text}", Level.WARNING))

    def progress(self, what: str, done: int, total: int | None) -> None:
        self.listener(WorkDone(f"{self.label}{what}", done, total))

    def tracked(self, items: Iterable[Item], what: str, total: int | None) -> Iterator[Item]:
        """The items, each reported when it is done."""
        for done, item in enumerate(items, start=1):
            yield item
            self.progress(what, done, total)

    def path(self, name: str) -> Path | None:
        """Where a file of this training lies, in a folder that exists; None where nothing is kept."""
        if self.folder is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / name

    def remove_empty_folder(self) -> None:
        if self.folder is None or not self.folder.is_dir() or not self.processes.is_main:
            return
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def for_fold(self, number: int, count: int) -> Run:
        """The run of the training without one fold."""
        folder = self.folder and self.folder / f"fold-{number}"
        settings = replace(self.settings, tensorboard=None)
        return replace(self, folder=folder, settings=settings, label=f"fold {number} of {count} · ")

    def recorded(self, name: str, kind: type[Result], fingerprint: str) -> Result | None:
        """What an interrupted training has written as `name` for the same input, if anything."""
        path = self.path(name)
        if path is None or not path.exists():
            return None
        stored = read_dataclass(StageRecord, read_json(path), f"'{name}'", path)
        if stored.fingerprint != fingerprint:
            return None
        return read_dataclass(kind, stored.result, f"'result' of '{name}'", path)

    def record(self, name: str, result: DataclassInstance, fingerprint: str) -> None:
        """Keep what a stage found, for a training that continues this one."""
        path = self.path(name)
        if path is not None and self.processes.is_main:
            write_text(path, json.dumps(asdict(StageRecord(fingerprint, asdict(result)))) + "\n")


@dataclass(frozen=True, slots=True)
class StageRecord:
    """The result of a stage, and the fingerprint of what it began with."""

    fingerprint: str
    result: Mapping[str, Any]
