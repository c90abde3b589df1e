"""Predictions that another system wrote down: `nqg evaluate` scores them, and a hybrid can fall back on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nqg.answers import Answer
from nqg.data.example_files import Tsv, format_of, tsv_columns
from nqg.errors import FormatError, NqgError, Place
from nqg.files import numbered_lines, strict_json
from nqg.settings_reader import read_value


@dataclass(frozen=True, slots=True)
class PredictionFile:
    """Predictions that another system wrote down; sentences are the same if their words are.

    A sentence that is not in the file has no answer or, with `refuses_unknown`, is an error.
    """

    path: Path
    targets: Mapping[str, str | None] = field(repr=False)
    refuses_unknown: bool = False

    @classmethod
    def read(cls, path: Path | str, *, refuses_unknown: bool = False) -> PredictionFile:
        """The predictions of a `.tsv` file (source, tab, prediction) or a `.jsonl` file, plain or `.gz`."""
        path = Path(path)
        is_tsv = format_of(path) is Tsv
        targets: dict[str, str | None] = {}
        for place, line in numbered_lines(path):
            columns = (
                tsv_columns(line, place, "prediction") if is_tsv else _jsonl_prediction(line, place)
            )
            source, target = (" ".join(text.split()) for text in columns)
            if not source:
                raise FormatError("the source is empty", place)
            if targets.setdefault(source, target or None) != (target or None):
                raise FormatError(
                    f"another prediction for '{source}' than on an earlier line", place
                )
        return cls(path, targets, refuses_unknown)

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        for sentence in sentences:
            source = " ".join(sentence.split())
            if self.refuses_unknown and source not in self.targets:
                raise NqgError(
                    f"{self.path}: no prediction for '{source}'; the file must hold one for every sentence"
                )
            target = self.targets.get(source)
            yield Answer(
                sentence,
                target,
                system=self.path.name,
                reason="no prediction" if target is None else "",
            )


def _jsonl_prediction(line: str, place: Place) -> tuple[str, str]:
    """A line of JSON; what `nqg parse --json` prints is one, other keys than the two needed are left aside."""
    values = read_value(dict[str, Any], strict_json(line, place), "the prediction", place)
    key = "target" if "target" in values and "prediction" not in values else "prediction"
    for needed in ("source", key):
        if needed not in values:
            raise FormatError(
                f"the key '{needed}' is missing; expected source and prediction", place
            )
    source = read_value(str, values["source"], "'source' of the prediction", place)
    return source, read_value(str | None, values[key], f"'{key}' of the prediction", place) or ""
