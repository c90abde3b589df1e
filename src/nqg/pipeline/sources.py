"""What `nqg.train` learns from: a file, pairs, examples, or rows of a `datasets.Dataset`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from nqg.data.example import Example, in_scope, out_of_scope
from nqg.data.example_files import (
    SIDE_NAMES,
    first_line,
    read_examples,
    scoped_example,
)
from nqg.errors import FormatError, NqgError, Place

ExampleSource: TypeAlias = "Path | str | Iterable[Example | tuple[str, str | Mapping[str, Any]] | Mapping[str, Any]]"


@dataclass(frozen=True)
class NamedExamples:
    """Raw examples, what messages call the place that they come from, and sentences of the same
    place that are out of scope.

    `lines` has the line of each example where sentences out of scope, or a heading, stand between
    them.
    """

    examples: tuple[Example, ...]
    path: Path
    out_of_scope: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()

    def place(self, number: int) -> Place:
        """Where example `number` stands: a line of a file, or a position in what was given."""
        return Place(self.path, self.lines[number] if self.lines else number + 1)


def read_source(source: ExampleSource, name: str = "examples") -> NamedExamples:
    """Raw examples from whatever holds them; messages call what is not a file `name`.

    >>> read_source([("walk", "W"), {"question": "run", "query": "R"}]).examples[1].target
    'R'
    >>> read_source([("walk", {"name": "go", "arguments": {}})]).examples[0].target
    '{"name": "go", "arguments": {}}'
    """
    if isinstance(source, str | Path):
        path = Path(source)
        examples = read_examples(path, allows_out_of_scope=True)
        start = first_line(path)
    else:
        path, start = Path(name), 1
        examples = [
            _example(row, Place(path, number))
            for number, row in enumerate(source, start=1)
        ]
    others = tuple(example.source for example in out_of_scope(examples))
    if len(others) == len(examples):
        actual = "sentences that are out of scope" if others else "none"
        raise FormatError(f"expected at least one example, found {actual}", path)
    if not others and start == 1:
        return NamedExamples(tuple(examples), path)
    lines = []
    for line, example in enumerate(examples, start=start):
        if not example.is_out_of_scope:
            lines.append(line)
    return NamedExamples(tuple(in_scope(examples)), path, others, tuple(lines))


def _example(row: object, place: Place) -> Example:
    # An example, a dictionary or a pair.
    if isinstance(row, Example):
        example = row
    elif isinstance(row, Mapping):
        source, target = (_field(row, side, place) for side in SIDE_NAMES)
        name = row.get("id")
        example = Example(source, target, None if name is None else str(name))
    elif (
        isinstance(row, tuple | list)
        and len(row) == 2
        and isinstance(row[0], str)
        and isinstance(row[1], str | Mapping)
    ):
        example = Example(row[0], _program(row[1]))
    else:
        expected = (
            "an Example, a pair of strings, or a dictionary with 'source' and 'target'"
        )
        raise NqgError(f"{place}: expected {expected}, found {row!r:.200}")
    return scoped_example(example, place)


def _program(program: str | Mapping[str, Any]) -> str:
    """A program as text: a call that is an object is written as JSON."""
    if isinstance(program, str):
        return program
    return json.dumps(dict(program), ensure_ascii=False)


def _field(row: Mapping[Any, Any], side: str, place: Place) -> str:
    kinds = str if side == "source" else str | Mapping
    for name in SIDE_NAMES[side]:
        if isinstance(row.get(name), kinds):
            return _program(row[name])
    expected = f"'{side}' (or {', '.join(SIDE_NAMES[side][1:])})"
    raise NqgError(f"{place}: expected {expected}, found {', '.join(map(str, row))}")
