"""Split files: JSON with the positions of each part and, in ours, a record of how the split was made.

Read too: the published `{"train": […], "test": […]}`, and SCAN-MCD's `{"trainIdxs": …, "devIdxs": …, "testIdxs": …}`.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nqg.data.split import Provenance, Split
from nqg.data.strict_json import json_kind, strict_json
from nqg.errors import FormatError, Place
from nqg.files import numbered_lines, write_text

_NAMES = {"made_by": "made_by", "train": "train", "dev": "dev", "test": "test"}
_MCD_NAMES = {"trainIdxs": "train", "devIdxs": "dev", "testIdxs": "test"}


def read_split(path: Path | str, size: int | None = None) -> Split:
    """The split in a file of any of the three forms; given the dataset's `size`, positions outside it are refused."""
    path = Path(path)
    text = "\n".join(line for _, line in numbered_lines(path))
    try:
        split = _split(strict_json(text, Place(path, 1)))
        return split if size is None else split.fitting(size)
    except FormatError as error:
        raise error if error.place else error.at(path) from error


def write_split(path: Path | str, split: Split) -> None:
    """Write a split file, atomically: same split, same bytes, positions many to a line."""
    path = Path(path)
    try:
        write_text(path, split_text(split))
    except (TypeError, ValueError) as error:
        raise FormatError(f"made_by cannot be written as JSON: {error}", path) from error


def split_text(split: Split) -> str:
    """The text of a split file.

    >>> print(split_text(Split(train=(0, 2), test=(1,), made_by={"method": "random", "seed": 7})), end="")
    {
      "made_by": {"method": "random", "seed": 7},
      "train": [
        0, 2
      ],
      "test": [
        1
      ]
    }
    """
    made_by = json.dumps(_provenance(dict(split.made_by)), ensure_ascii=False, allow_nan=False)
    parts = {"train": split.train, "dev": split.dev, "test": split.test}
    shown = [f'  "{name}": {_list_text(part)}' for name, part in parts.items() if part or name != "dev"]
    return "{\n" + ",\n".join([f'  "made_by": {made_by}', *shown]) + "\n}\n"


def _list_text(positions: Sequence[int]) -> str:
    if not positions:
        return "[]"
    lines = textwrap.fill(", ".join(map(str, positions)), 100, initial_indent="    ", subsequent_indent="    ")
    return f"[\n{lines}\n  ]"


def _split(fields: Any) -> Split:
    if not isinstance(fields, dict):
        raise FormatError(f'expected an object {{"train": […], "test": […]}}, found {json_kind(fields)}')
    names = _MCD_NAMES if "trainIdxs" in fields else _NAMES
    unknown = [key for key in fields if key not in names]
    missing = [key for key, name in names.items() if name in ("train", "test") and key not in fields]
    if unknown or missing:
        reason = f"unknown key '{unknown[0]}'" if unknown else f"the part '{missing[0]}' is missing"
        raise FormatError(f"{reason}; expected {', '.join(names)}")
    made_by = _provenance(fields.get("made_by", {}))
    parts = {name: _positions(key, fields[key]) for key, name in names.items() if name != "made_by" and key in fields}
    return Split(**parts, made_by=made_by)


def _positions(part: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise FormatError(f"the part '{part}' is {json_kind(value)}, expected a list of positions")
    for at, position in enumerate(value):
        if type(position) is not int:  # True is an int to isinstance
            raise FormatError(f"entry {at} of '{part}' is {json_kind(position)}, expected an integer")
    return tuple(value)


def _provenance(value: Any) -> Provenance:
    if not isinstance(value, dict):
        raise FormatError(f"made_by is {json_kind(value)}, expected an object")
    for key, setting in value.items():
        if isinstance(setting, list | dict):
            raise FormatError(f"the setting '{key}' of made_by is {json_kind(setting)}, expected a single value")
    return value
