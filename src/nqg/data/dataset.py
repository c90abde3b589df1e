"""A dataset: its examples, its splits into train, test and perhaps dev, and the files of splits."""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from nqg.data.example import Example
from nqg.errors import FormatError, UnknownName
from nqg.files import read_json, write_text
from nqg.settings_reader import read_dataclass, read_value

Provenance = Mapping[str, str | int | float | bool | None]


class Parts(NamedTuple):
    """The examples of a split; `_asdict` names them in this order."""

    train: list[Example]
    dev: list[Example]
    test: list[Example]


@dataclass(frozen=True, slots=True)
class Split:
    """Zero-based positions in a dataset. `made_by` says how they were chosen (method, seed, settings).

    A position may repeat inside one part (SCAN's published jump split repeats one command), never across parts.

    >>> examples = [Example("jump", "J"), Example("walk", "W"), Example("run", "R")]
    >>> [example.source for example in Split(train=(0, 2), test=(1,)).parts(examples).train]
    ['jump', 'run']
    """

    train: tuple[int, ...]
    test: tuple[int, ...]
    dev: tuple[int, ...] = ()
    made_by: Provenance = field(default_factory=dict)

    def __post_init__(self) -> None:
        train, test, dev = set(self.train), set(self.test), set(self.dev)
        shared = (train & test) | (train & dev) | (test & dev)
        if shared:
            raise FormatError(
                f"position {min(shared)} stands in more than one part of the split"
            )
        first = min(train | test | dev, default=0)
        if first < 0:
            raise FormatError(f"position {first} is negative; positions count from 0")

    def fitting(self, size: int) -> Split:
        """This split, or an error where it points past the end of a dataset of `size` examples.

        >>> Split(train=(0, 1), test=(7,)).fitting(3)
        Traceback (most recent call last):
        nqg.errors.FormatError: position 7 lies outside a dataset of 3 examples (positions 0 to 2)
        """
        last = max((*self.train, *self.test, *self.dev), default=-1)
        if last >= size:
            raise FormatError(
                f"position {last} lies outside a dataset of {size} examples (positions 0 to {size - 1})"
            )
        return self

    def parts(self, examples: Sequence[Example]) -> Parts:
        """The examples at the positions of each part, in the order of the split."""
        self.fitting(len(examples))
        parts = []
        for positions in (self.train, self.dev, self.test):
            part = [examples[at] for at in positions]
            parts.append(part)
        return Parts(*parts)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Examples with named splits. A split is made, or its file fetched, when it is asked for.

    >>> jump, run = Example("jump", "I_JUMP"), Example("run", "I_RUN")
    >>> dataset = Dataset("tiny", (jump, run), {"halves": lambda: Split(train=(0,), test=(1,))})
    >>> train, test = dataset.split("halves")
    >>> test
    [Example(source='run', target='I_RUN', id=None)]
    """

    name: str
    examples: Sequence[Example]
    split_makers: Mapping[str, Callable[[], Split]] = field(
        default_factory=dict, repr=False
    )
    licence: str = ""
    addresses: tuple[str, ...] = ()

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits."""
        return tuple(self.split_makers)

    def split(self, name: str) -> tuple[list[Example], list[Example]]:
        """The train and the test examples of a split. `parts` gives its dev examples too."""
        parts = self.parts(name)
        return parts.train, parts.test

    def parts(self, name: str) -> Parts:
        """The train, dev and test examples of a split."""
        return self.positions(name).parts(self.examples)

    def positions(self, name: str) -> Split:
        """The split itself: positions in `examples`, and how they were chosen."""
        if name not in self.split_makers:
            raise UnknownName(f"split of {self.name}", name, self.splits)
        return self.split_makers[name]()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the examples written as a `.tsv` file."""
        digest = hashlib.sha256()
        for example in self.examples:
            digest.update(f"{example.source}\t{example.target}\n".encode())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class McdSplit:
    """A split as the files of SCAN's MCD splits have it."""

    trainIdxs: tuple[int, ...]  # noqa: N815 (so it stands in the files)
    testIdxs: tuple[int, ...]  # noqa: N815
    devIdxs: tuple[int, ...] = ()  # noqa: N815


def read_split(path: Path | str, size: int | None = None) -> Split:
    """The split in a file, ours or one of those published. Given the dataset's `size`, it must fit that.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "split.json"
    ...     write_split(path, Split((0, 2), (1,)))
    ...     read_split(path, size=3).test
    (1,)
    """
    path, values = Path(path), read_json(Path(path))
    try:
        if isinstance(values, dict) and "trainIdxs" in values:
            published = read_dataclass(McdSplit, values, "the split")
            split = Split(published.trainIdxs, published.testIdxs, published.devIdxs)
        else:
            split = read_dataclass(Split, values, "the split")
        return split if size is None else split.fitting(size)
    except FormatError as error:
        raise error.at(path) from error


def write_split(path: Path | str, split: Split) -> None:
    """Write a split file, atomically: same split, same bytes, positions many to a line.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_split(Path(folder) / "split.json", Split((0,), (1,)))
    ...     print((Path(folder) / "split.json").exists())
    True
    """
    path = Path(path)
    try:
        write_text(path, split_text(split))
    except (TypeError, ValueError) as error:
        raise FormatError(
            f"made_by cannot be written as JSON: {error}", path
        ) from error


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
    made_by = read_value(Provenance, split.made_by, "made_by")
    shown = [f'  "made_by": {json.dumps(made_by, ensure_ascii=False, allow_nan=False)}']
    # Positions fill their lines, since one to a line makes very long files.
    for name in Parts._fields:
        positions = getattr(split, name)
        if positions:
            lines = textwrap.fill(", ".join(map(str, positions)), 96)
            shown.append(f'  "{name}": [\n{textwrap.indent(lines, "    ")}\n  ]')
        elif name != "dev":
            shown.append(f'  "{name}": []')
    return "{\n" + ",\n".join(shown) + "\n}\n"
