"""The forests of a corpus that memory cannot hold: a folder of parts, mapped, of which a batch reads its own rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from nqg.data.example import Example
from nqg.engines import Engine, Here
from nqg.errors import FormatError, NqgError
from nqg.forests.build import build_forests
from nqg.forests.cache import fingerprint
from nqg.forests.forest import Forests, joined
from nqg.forests.part_files import PartFiles, PartHeader
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import Longs, starts_of

PAIRS = 8192  # in a part: what a worker has in memory at once


@dataclass(frozen=True, slots=True)
class Portion:
    """Consecutive examples, whose forests make one part."""

    number: int
    examples: list[Example]


@dataclass(frozen=True)
class ForestFolder:
    """The forests of a list of pairs, in its order, on disk."""

    folder: Path
    headers: tuple[PartHeader, ...] = field(repr=False)
    firsts: Longs = field(repr=False)  # the number of each part's first pair, and of all pairs
    _parts: dict[int, Forests] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, folder: Path | str) -> ForestFolder:
        """The forests in a folder that `build_folder` wrote."""
        folder = Path(folder)
        count = len(list(folder.glob("part-*.json")))
        if not count:
            raise NqgError(f"{folder}: there are no forests in this folder")
        headers = tuple(PartFiles(folder, number).read_header() for number in range(count))
        return cls(folder, headers, starts_of(np.array([header.pairs for header in headers])))

    def __len__(self) -> int:
        return int(self.firsts[-1])

    @property
    def nbytes(self) -> int:
        """What they take on disk."""
        return sum(PartFiles(self.folder, number).arrays.stat().st_size for number in range(len(self.headers)))

    def part(self, number: int) -> Forests:
        """One part; it is checked when it is first asked for."""
        if number not in self._parts:
            self._parts[number] = PartFiles(self.folder, number).mapped(self.headers[number])
        return self._parts[number]

    def select(self, pairs: Sequence[int]) -> Forests:
        """The forests of some pairs as one batch in memory, in the order asked for."""
        asked = np.asarray(pairs, dtype=np.int64)
        if asked.size and not 0 <= asked.min() <= asked.max() < len(self):
            raise NqgError(f"there are forests of {len(self):,} pairs; pair {asked.max():,} was asked for")
        owners = np.searchsorted(self.firsts, asked, side="right") - 1
        numbers = np.unique(owners).tolist() or [0]
        picked = [np.flatnonzero(owners == number) for number in numbers]
        found = [
            self.part(number).select((asked[places] - self.firsts[number]).tolist())
            for number, places in zip(numbers, picked, strict=True)
        ]
        return joined(found).select(np.argsort(np.concatenate(picked)).tolist())

    def underivable(self) -> list[int]:
        """The pairs whose target no derivation yields: training cannot use them."""
        firsts = self.firsts[:-1].tolist()
        return [first + pair for first, part in zip(firsts, self.headers, strict=True) for pair in part.underivable]


def build_folder(
    folder: Path | str, grammar: Grammar, examples: Sequence[Example], engine: Engine | None = None
) -> Iterator[int]:
    """Build the forests of `examples` in a folder, part by part; yields how many pairs are done.

    Parts of the same grammar and examples that are there already are left as they are, so a build that was interrupted
    goes on. Workers on several machines must all see the folder.
    """
    folder, engine = Path(folder), engine or Here()
    count = -(-len(examples) // PAIRS)
    if not count:
        raise NqgError("there are no examples to build forests of")
    folder.mkdir(parents=True, exist_ok=True)
    _remove_parts_from(folder, count)
    threads = None if isinstance(engine, Here) else 1
    portions = (Portion(number, list(examples[number * PAIRS : (number + 1) * PAIRS])) for number in range(count))
    done = 0
    for pairs in engine.map(partial(_builder, folder, grammar, threads), portions):
        done += pairs
        yield done


def _remove_parts_from(folder: Path, first: int) -> None:
    """Forget parts that another corpus left behind."""
    for path in folder.glob("part-*.json"):
        number = path.stem.removeprefix("part-")
        if not number.isdecimal() or int(number) >= first:
            path.unlink()
            path.with_suffix(".arrays").unlink(missing_ok=True)


def _builder(folder: Path, grammar: Grammar, threads: int | None) -> Callable[[Portion], int]:
    """What builds a part, unless it is there already."""

    def build(portion: Portion) -> int:
        files, made_from = PartFiles(folder, portion.number), fingerprint(grammar, portion.examples)
        if not _is_there(files, made_from):
            files.write(build_forests(grammar, portion.examples, workers=threads), made_from)
        return len(portion.examples)

    return build


def _is_there(files: PartFiles, made_from: str) -> bool:
    try:
        header = files.read_header()
        files.mapped(header)
    except (FormatError, NqgError):
        return False
    return header.fingerprint == made_from
