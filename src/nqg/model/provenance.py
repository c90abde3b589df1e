"""Where a model comes from: the data, the settings and the steps of its training, and the scores measured on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from nqg.data.dataset import Dataset
from nqg.data.example import Example
from nqg.data.strict_json import strict_json
from nqg.errors import FormatError, Place
from nqg.files import numbered_lines
from nqg.model.settings import TrainingSettings

Record = Mapping[str, Any]  # one line of `training.jsonl`


@dataclass(frozen=True, slots=True)
class DataPrint:
    """Which examples: how many, and the SHA-256 of their `.tsv` lines; `name` says what they are called.

    >>> DataPrint.of([Example("jump", "I_JUMP")]).fingerprint[:12]
    '56527c363320'
    """

    examples: int
    fingerprint: str
    name: str = ""

    @classmethod
    def of(cls, examples: Sequence[Example], name: str = "") -> DataPrint:
        """The print of `examples`, in their order."""
        return cls(len(examples), Dataset("examples", examples).fingerprint, name)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Scores of a model on some data, by name; None where one has no value, as precision where nothing is answered."""

    data: DataPrint
    scores: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Provenance:
    """What is known of a model's making; all of it may be missing."""

    data: DataPrint | None = None
    training: Mapping[str, Any] = field(default_factory=dict)  # the settings
    records: Sequence[Record] = ()  # what was noted after each step
    measurements: Sequence[Measurement] = ()

    @classmethod
    def of(cls, examples: Sequence[Example], training: TrainingSettings, records: Iterable[Record] = ()) -> Provenance:
        """The provenance of a model that was fitted to `examples`."""
        return cls(DataPrint.of(examples), asdict(training), tuple(records))

    def facts(self) -> dict[str, Any]:
        """Everything but the records, as JSON has it."""
        return {
            "data": None if self.data is None else asdict(self.data),
            "training": dict(self.training),
            "measurements": [{"data": asdict(each.data), "scores": dict(each.scores)} for each in self.measurements],
        }

    @classmethod
    def of_facts(cls, facts: Any, records: Sequence[Record], place: Path) -> Provenance:
        """The opposite of `facts`; what does not fit is refused."""
        found = _object(facts, ("data", "training", "measurements"), "provenance", place)
        data = None if found["data"] is None else _data_print(found["data"], place)
        training = _object(found["training"], None, "training", place)
        if not isinstance(found["measurements"], list):
            raise FormatError("'measurements' should be a list", place)
        return cls(data, training, records, tuple(_measurement(each, place) for each in found["measurements"]))


def record_lines(records: Iterable[Record]) -> str:
    """Records as `training.jsonl` has them, one a line."""
    return "".join(f"{json.dumps(dict(record))}\n" for record in records)


def read_records(path: Path) -> tuple[Record, ...]:
    """The records in a file."""
    return tuple(_record(strict_json(line, place), place) for place, line in numbered_lines(path))


def _record(value: Any, place: Place) -> Record:
    if not isinstance(value, dict):
        raise FormatError("expected a JSON object with what was noted after a step", place)
    return value


def _measurement(value: Any, place: Path) -> Measurement:
    found = _object(value, ("data", "scores"), "measurements", place)
    return Measurement(_data_print(found["data"], place), _object(found["scores"], None, "scores", place))


def _data_print(value: Any, place: Path) -> DataPrint:
    found = _object(value, [each.name for each in fields(DataPrint)], "data", place)
    if not isinstance(found["examples"], int):
        raise FormatError("'examples' should be a number", place)
    return DataPrint(found["examples"], str(found["fingerprint"]), str(found["name"]))


def _object(value: Any, keys: Sequence[str] | None, name: str, place: Path) -> dict[str, Any]:
    """A JSON object, with just these keys where they are known."""
    if not isinstance(value, dict) or (keys is not None and set(value) != set(keys)):
        wanted = "an object" if keys is None else f"an object with {', '.join(keys)}"
        raise FormatError(f"'{name}' should be {wanted}", place)
    return value
