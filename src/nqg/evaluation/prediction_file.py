"""Predictions of another system, to be scored or to fall back on."""

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


@dataclass(frozen=True)
class PredictionFile:
    """Predictions that another system wrote down; sentences are the same if their words are.

    A sentence that is not in the file has no answer or, with `refuses_unknown`, is an error.
    """

    path: Path
    targets: Mapping[str, str | None] = field(repr=False)
    refuses_unknown: bool = False

    @classmethod
    def read(cls, path: Path | str, *, refuses_unknown: bool = False) -> PredictionFile:
        """The predictions of a `.tsv` or `.jsonl` file, plain or `.gz`."""
        path = Path(path)
        is_tsv = format_of(path) is Tsv
        targets: dict[str, str | None] = {}
        for where, line in numbered_lines(path):
            columns = (
                tsv_columns(line, where, "prediction")
                if is_tsv
                else _jsonl_prediction(line, where)
            )
            # Sentences and programs are compared by their words.
            source, target = (" ".join(text.split()) for text in columns)
            if not source:
                raise FormatError("the source is empty", where)
            if targets.setdefault(source, target or None) != (target or None):
                reason = f"another prediction for '{source}' than on an earlier line"
                raise FormatError(reason, where)
        return cls(path, targets, refuses_unknown)

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        for sentence in sentences:
            source = " ".join(sentence.split())
            if self.refuses_unknown and source not in self.targets:
                advice = "the file must hold one for every sentence"
                raise NqgError(f"{self.path}: no prediction for '{source}'; {advice}")
            target = self.targets.get(source)
            reason = "no prediction" if target is None else ""
            yield Answer(sentence, target, system=self.path.name, reason=reason)


def _jsonl_prediction(line: str, place: Place) -> list[str]:
    """A line of JSON, such as `nqg parse --json` prints; other keys than the two are ignored."""
    values = read_value(
        dict[str, Any], strict_json(line, place), "the prediction", place
    )
    # The output of `nqg parse` says target; where both keys stand, prediction wins.
    key = (
        "target" if "target" in values and "prediction" not in values else "prediction"
    )
    for name in ("source", key):
        if name not in values:
            reason = f"the key '{name}' is missing; expected source and prediction"
            raise FormatError(reason, place)
    source = read_value(str, values["source"], "'source' of the prediction", place)
    target = read_value(str | None, values[key], f"'{key}' of the prediction", place)
    # A missing program (null) is an abstention, which is written as an empty text.
    return [source, target or ""]
