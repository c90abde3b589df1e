"""Who answers where the grammar does not: anything with `predict`, or a file of what another system predicted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from nqg.data.strict_json import json_kind, strict_json
from nqg.errors import FormatError, NqgError, Place
from nqg.files import numbered_lines


class Fallback(Protocol):
    """A system that turns sentences into programs; None is its way to say that it has no answer."""

    def predict(self, sources: Sequence[str]) -> Sequence[str | None]:
        """A program, or None, for each sentence, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Prediction:
    """What another system says of a sentence."""

    source: str
    target: str | None


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
        parse = _format_of(path)
        targets: dict[str, str | None] = {}
        for place, line in numbered_lines(path):
            said = parse(line, place)
            if targets.setdefault(said.source, said.target) != said.target:
                raise FormatError(f"another prediction for '{said.source}' than on an earlier line", place)
        return cls(path, targets, refuses_unknown)

    def predict(self, sources: Sequence[str]) -> list[str | None]:
        """What the file says of each sentence."""
        return [self._target(spaced(source)) for source in sources]

    def _target(self, source: str) -> str | None:
        if self.refuses_unknown and source not in self.targets:
            raise NqgError(f"{self.path}: no prediction for '{source}'; the file must hold one for every sentence")
        return self.targets.get(source)


def spaced(text: str) -> str:
    """`text` with one space between its tokens.

    >>> spaced("  answer (  state )")
    'answer ( state )'
    """
    return " ".join(text.split())


def _format_of(path: Path) -> Callable[[str, Place], Prediction]:
    extension = Path(path.name.removesuffix(".gz")).suffix
    if extension not in _FORMATS:
        raise FormatError(f"expected the extension .tsv or .jsonl (or either with .gz), found '{extension}'", path)
    return _FORMATS[extension]


def _tsv_prediction(line: str, place: Place) -> Prediction:
    columns = line.split("\t")
    if len(columns) != 2:
        found = f"{len(columns)} column{'s' if len(columns) > 1 else ''}" if line else "an empty line"
        raise FormatError(f"expected 'source<TAB>prediction', found {found}", place)
    return _checked(columns[0], columns[1], place)


def _jsonl_prediction(line: str, place: Place) -> Prediction:
    """A line of JSON; what `nqg parse --json` prints is one, other keys than the two needed are left aside."""
    facts = strict_json(line, place)
    if not isinstance(facts, dict):
        raise FormatError(f'expected an object {{"source": …, "prediction": …}}, found {json_kind(facts)}', place)
    key = "target" if "target" in facts and "prediction" not in facts else "prediction"
    for needed in ("source", key):
        if needed not in facts:
            raise FormatError(f"the key '{needed}' is missing; expected source and prediction", place)
        if not isinstance(facts[needed], str) and (needed == "source" or facts[needed] is not None):
            raise FormatError(f"the {needed} is {json_kind(facts[needed])}, expected a string", place)
    return _checked(facts["source"], facts[key] or "", place)


def _checked(source: str, target: str, place: Place) -> Prediction:
    if not source.strip():
        raise FormatError("the source is empty", place)
    return Prediction(spaced(source), spaced(target) or None)


_FORMATS = {".tsv": _tsv_prediction, ".jsonl": _jsonl_prediction}
