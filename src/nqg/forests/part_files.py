"""A part of the forests of a large corpus, as two files: arrays that can be mapped, and a header that describes them.

`part-000017.arrays` holds the arrays end to end; `part-000017.json` says where each of them lies, what they were made
from, and their checksum. The header is written last, so a part is there or it is not.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nqg.data.strict_json import strict_json
from nqg.errors import FormatError, Place
from nqg.files import numbered_lines, write_text, written_atomically
from nqg.forests.forest import Forests
from nqg.grammar.graph import Graph

KIND = "nqg forests, a part"
VERSION = 1
BLOCK = 64  # bytes; arrays begin at multiples of it
LARGEST = 1 << 40  # of all sizes in a header, so that no sum of two of them is too large for a file


@dataclass(frozen=True, slots=True)
class Column:
    """Where an array lies among the arrays of its part."""

    first_byte: int
    shape: tuple[int, ...]

    def view(self, whole: NDArray[np.uint8], name: str) -> NDArray[Any]:
        """The array, as a view of all bytes."""
        kind = np.dtype(np.int64 if name.partition(".")[2].startswith("first_") else np.int32)
        size = math.prod(self.shape) * kind.itemsize
        return whole[self.first_byte : self.first_byte + size].view(kind).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class PartHeader:
    """What is known of a part without a look at its arrays."""

    fingerprint: str  # of the grammar and the examples
    sha256: str  # of the arrays
    pairs: int
    underivable: tuple[int, ...]  # pairs whose target no derivation yields
    columns: Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class PartFiles:
    """The two files of a part, which may not be there yet."""

    folder: Path
    number: int

    @property
    def arrays(self) -> Path:
        """Where the arrays are."""
        return self.folder / f"part-{self.number:06}.arrays"

    @property
    def header(self) -> Path:
        """Where the header is."""
        return self.folder / f"part-{self.number:06}.json"

    def write(self, forests: Forests, fingerprint: str) -> None:
        """Write forests, each file whole or not at all."""
        digest, columns, at = hashlib.sha256(), {}, 0
        with written_atomically(self.arrays) as file:
            for name, array in _named_arrays(forests).items():
                raw = array.tobytes()
                raw += bytes(-len(raw) % BLOCK)
                columns[name], at = Column(at, array.shape), at + len(raw)
                file.write(raw)
                digest.update(raw)
        header = PartHeader(fingerprint, digest.hexdigest(), len(forests), tuple(forests.underivable()), columns)
        write_text(self.header, json.dumps({"kind": KIND, "version": VERSION, **asdict(header)}) + "\n")

    def read_header(self) -> PartHeader:
        """The header; anything else is refused with the reason."""
        text = "\n".join(line for _, line in numbered_lines(self.header))
        fields = strict_json(text, Place(self.header, 1))
        if not isinstance(fields, dict) or (fields.pop("kind", None), fields.pop("version", None)) != (KIND, VERSION):
            raise FormatError(
                f"expected the header of '{KIND}' in version {VERSION}, found something else", self.header
            )
        try:
            return _header(**fields)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise FormatError(f"damaged header ({error!r}); build the forests again", self.header) from error

    def mapped(self, header: PartHeader) -> Forests:
        """The forests, of which the operating system reads what is looked at; checksum and numbers are checked first.

        For that they are read once as plain bytes: pages that are looked at in a map would count as memory of ours.
        """
        try:
            raw = self.arrays.read_bytes()
        except OSError as error:
            raise FormatError(f"cannot be read ({error.strerror}); build the forests again", self.arrays) from error
        if hashlib.sha256(raw).hexdigest() != header.sha256:
            raise FormatError("damaged: another checksum than in its header; build the forests again", self.arrays)
        try:
            for graph in _graphs(header, np.frombuffer(raw, np.uint8)):
                graph.check()
            return Forests(*_graphs(header, np.memmap(self.arrays, np.uint8, "r")))
        except (KeyError, TypeError, ValueError, FormatError) as error:
            raise FormatError(f"no forests ({error}); build them again", self.arrays) from error


def _header(
    fingerprint: str, sha256: str, pairs: Any, underivable: Any, columns: Mapping[str, Mapping[str, Any]]
) -> PartHeader:
    """The header with these fields, its numbers being numbers that a file can have."""
    found = {name: Column(_size(at["first_byte"]), tuple(map(_size, at["shape"]))) for name, at in columns.items()}
    return PartHeader(fingerprint, sha256, _size(pairs), tuple(map(_size, underivable)), found)


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise ValueError(f"{value!r:.50} is no size")
    return value


def _graphs(header: PartHeader, whole: NDArray[np.uint8]) -> list[Graph]:
    sides: dict[str, dict[str, NDArray[Any]]] = {"full": {}, "goal": {}}
    for name, column in header.columns.items():
        side, _, array = name.partition(".")
        sides[side][array] = column.view(whole, name)
    return [Graph(**arrays) for arrays in sides.values()]


def _named_arrays(forests: Forests) -> dict[str, NDArray[Any]]:
    sides = (("full", forests.full), ("goal", forests.goal))
    return {f"{side}.{name}": array for side, graph in sides for name, array in graph.arrays().items()}
