"""Full and goal forests: what the parsing model sums over (section 4.1.2 of the paper), in memory and on disk.

The full forest of a source holds every derivation of it with any target; the goal forest of a pair holds those that
yield the target. With a typed grammar there is a third, that of the derivations of legal targets. All are hypergraphs
in topological order, and only what the root leads to is in them. They are kept in files that are mapped into memory:
those of a dataset for its next training, those of a large corpus in parts.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nqg.data.download import cache_folder
from nqg.data.examples import Example
from nqg.engines import Engine, Here
from nqg.errors import FormatError, NqgError, SettingsError
from nqg.files import read_json, write_text, written_atomically
from nqg.grammar.arrays import Int64Array
from nqg.grammar.chart import goal_charts, typed_charts, untyped_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph, concatenated, starts_of
from nqg.grammar.slots import columns, of_sentences
from nqg.run_config import RunConfig
from nqg.settings_reader import read_dataclass


@dataclass(frozen=True, slots=True)
class Forests:
    """The forests of a list of pairs, in its order: everything that training needs of grammar and data."""

    full: Hypergraph
    goal: Hypergraph
    legal: Hypergraph | None = None  # of typed grammars

    def __post_init__(self) -> None:
        for name, graph in self.graphs().items():
            if len(self.full) != len(graph):
                raise FormatError(f"{len(self.full)} full forests but {len(graph)} {name} forests; expected as many")

    def graphs(self) -> dict[str, Hypergraph]:
        """Those that are there, by name."""
        both = {"full": self.full, "goal": self.goal}
        return both if self.legal is None else {**both, "legal": self.legal}

    def __len__(self) -> int:
        return len(self.full)

    @property
    def nbytes(self) -> int:
        return sum(graph.nbytes for graph in self.graphs().values())

    def select(self, pairs: Sequence[int]) -> Forests:
        """The forests of some pairs as one batch, in the order asked for."""
        return Forests(**{name: graph.select(pairs) for name, graph in self.graphs().items()})

    def underivable(self) -> list[int]:
        """The pairs whose target no derivation yields: training cannot use them."""
        return [int(pair) for pair in np.flatnonzero(np.diff(self.goal.first_node) == 0)]


def joined(parts: Iterable[Forests]) -> Forests:
    graphs = [part.graphs() for part in parts]
    return Forests(**{name: concatenated(part[name] for part in graphs) for name in graphs[0]})


PART_SIZE = 512  # pairs in a part: milliseconds of work, so that progress moves and workers stay busy


def forest_parts(
    grammar: Grammar, examples: Sequence[Example], *, workers: int | None = None, limit: int | None = None
) -> Iterator[Forests]:
    """The forests of `examples` in consecutive parts, as they are done; `workers` defaults to the machine's cores."""
    workers = os.cpu_count() or 1 if workers is None else workers
    if workers < 1:
        raise SettingsError(f"workers is {workers}; expected 1 or more")
    _ = grammar.encoded, grammar.typing  # made once, before threads ask for them
    starts = range(0, len(examples), PART_SIZE)
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda start: _part(grammar, examples[start : start + PART_SIZE], limit), starts)


def build_forests(
    grammar: Grammar, examples: Sequence[Example], *, workers: int | None = None, limit: int | None = None
) -> Forests:
    parts = list(forest_parts(grammar, examples, workers=workers, limit=limit))
    return joined(parts) if parts else _part(grammar, (), limit)


def _part(grammar: Grammar, examples: Sequence[Example], limit: int | None) -> Forests:
    sources, targets = ([each.source_tokens for each in examples], [each.target_tokens for each in examples])
    grammar = of_sentences(grammar, sources)
    full, legal = untyped_charts(grammar, sources, limit=limit), None
    if grammar.typing is not None:
        legal = replace(typed_charts(grammar, grammar.typing, sources, full, limit=limit), types=None)
    goal = goal_charts(grammar, legal or full, targets, limit=limit)
    if legal is not None and grammar.slots is not None and grammar.slots.free_text:
        full, legal = legal, None  # without types any run of words is anything: a hundred times as many derivations
    forests = Forests(full, goal, legal)
    graphs = forests.graphs().items()
    return Forests(**{name: replace(graph, rules=columns(grammar, graph.rules)) for name, graph in graphs})


def fingerprint(grammar: Grammar, examples: Sequence[Example]) -> str:
    """SHA-256 of all that forests are made of: rules in their order, examples in theirs, and the code's versions."""
    types, slots = str(grammar.target_grammar or ""), repr(grammar.slots or "")
    return RunConfig.of("forests", examples, grammar=str(grammar), types=types, slots=slots, format=VERSION).fingerprint


KIND = "nqg forests"
VERSION = 3
BLOCK = 64  # bytes; arrays begin at multiples of it
LARGEST = 1 << 40  # of all sizes in a header, so that no sum of two of them is too large for a file


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """Where an array lies among the others of its file."""

    first_byte: int
    shape: tuple[int, ...]

    def view(self, whole: NDArray[np.uint8], name: str) -> NDArray[Any]:
        kind = np.dtype(np.int64 if name.partition(".")[2].startswith("first_") else np.int32)
        size = math.prod(self.shape) * kind.itemsize
        return whole[self.first_byte : self.first_byte + size].view(kind).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class ForestHeader:
    """What is known of forests without a look at their arrays."""

    fingerprint: str  # of the grammar and the examples
    sha256: str  # of the arrays
    pairs: int
    underivable: tuple[int, ...]  # pairs whose target no derivation yields
    columns: Mapping[str, ArrayPlace]


@dataclass(frozen=True, slots=True)
class ForestFiles:
    """The two files that hold forests, `NAME.json` and `NAME.arrays`, which may not be there yet."""

    folder: Path
    name: str

    @property
    def arrays(self) -> Path:
        return self.folder / f"{self.name}.arrays"

    @property
    def header(self) -> Path:
        return self.folder / f"{self.name}.json"

    def write(self, forests: Forests, fingerprint: str) -> None:
        """Write forests, each file whole or not at all."""
        digest, columns, at, sides = hashlib.sha256(), {}, 0, forests.graphs().items()
        with written_atomically(self.arrays) as file:
            arrays = ((f"{side}.{name}", each) for side, graph in sides for name, each in graph.arrays().items())
            for name, array in arrays:
                raw = array.tobytes()
                raw += bytes(-len(raw) % BLOCK)
                columns[name], at = ArrayPlace(at, array.shape), at + len(raw)
                file.write(raw)
                digest.update(raw)
        header = ForestHeader(fingerprint, digest.hexdigest(), len(forests), tuple(forests.underivable()), columns)
        write_text(self.header, json.dumps({"kind": KIND, "version": VERSION, **asdict(header)}) + "\n")

    def read_header(self) -> ForestHeader:
        """The header; anything else is refused with the reason."""
        values = read_json(self.header)
        expected = {"kind": KIND, "version": VERSION}
        if not isinstance(values, dict) or {name: values.pop(name, None) for name in expected} != expected:
            reason = f"expected the header of '{KIND}' in version {VERSION}, found something else"
            raise FormatError(reason, self.header)
        try:
            header = read_dataclass(ForestHeader, values, "the header", complete=True)
            places = (number for column in header.columns.values() for number in (column.first_byte, *column.shape))
            for number in (header.pairs, *header.underivable, *places):
                if not 0 <= number <= LARGEST:
                    raise FormatError(f"{number!r:.50} is not a size")
        except FormatError as error:
            raise FormatError(f"damaged header ({error}); build the forests again", self.header) from error
        return header

    def find(self, fingerprint: str) -> Forests | None:
        """The forests, if they are there, whole, and made of what has this fingerprint."""
        try:
            header = self.read_header()
            return self.mapped(header) if header.fingerprint == fingerprint else None
        except NqgError:
            return None

    def mapped(self, header: ForestHeader) -> Forests:
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
            for graph in _forests(header, np.frombuffer(raw, np.uint8)).graphs().values():
                graph.check()
            return _forests(header, np.memmap(self.arrays, np.uint8, "r"))
        except (KeyError, TypeError, ValueError, FormatError) as error:
            raise FormatError(f"no forests ({error}); build them again", self.arrays) from error


def _forests(header: ForestHeader, whole: NDArray[np.uint8]) -> Forests:
    sides: dict[str, dict[str, NDArray[Any]]] = {}
    for name, column in header.columns.items():
        side, _, array = name.partition(".")
        sides.setdefault(side, {})[array] = column.view(whole, name)
    return Forests(**{side: Hypergraph(**arrays) for side, arrays in sides.items()})


@dataclass(frozen=True, slots=True)
class ForestCache:
    """A folder of forests, named by what they were made of."""

    folder: Path

    @classmethod
    def of_this_machine(cls) -> ForestCache:
        """The one beside the downloaded datasets."""
        return cls(cache_folder() / "forests")

    def find(self, grammar: Grammar, examples: Sequence[Example]) -> Forests | None:
        """The forests of `examples`, if they are there; damaged ones are none."""
        made_from = fingerprint(grammar, examples)
        return ForestFiles(self.folder, made_from).find(made_from)

    def add(self, grammar: Grammar, examples: Sequence[Example], forests: Forests) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NqgError(f"{self.folder}: forests cannot be kept there ({error.strerror})") from error
        made_from = fingerprint(grammar, examples)
        ForestFiles(self.folder, made_from).write(forests, made_from)


PAIRS = 8192  # in a part: what a worker has in memory at once


def part_files(folder: Path, number: int) -> ForestFiles:
    return ForestFiles(folder, f"part-{number:06}")


@dataclass(frozen=True)
class ForestFolder:
    """The forests of a list of pairs, in its order, on disk."""

    folder: Path
    headers: tuple[ForestHeader, ...] = field(repr=False)
    firsts: Int64Array = field(repr=False)  # the number of each part's first pair, and of all pairs
    _parts: dict[int, Forests] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, folder: Path | str) -> ForestFolder:
        """The forests in a folder that `build_folder` wrote."""
        folder = Path(folder)
        count = len(list(folder.glob("part-*.json")))
        if not count:
            raise NqgError(f"{folder}: there are no forests in this folder")
        headers = tuple(part_files(folder, number).read_header() for number in range(count))
        return cls(folder, headers, starts_of(np.array([header.pairs for header in headers])))

    def __len__(self) -> int:
        return int(self.firsts[-1])

    @property
    def nbytes(self) -> int:
        return sum(part_files(self.folder, number).arrays.stat().st_size for number in range(len(self.headers)))

    def part(self, number: int) -> Forests:
        """One part; it is checked when it is first asked for."""
        if number not in self._parts:
            self._parts[number] = part_files(self.folder, number).mapped(self.headers[number])
        return self._parts[number]

    def select(self, pairs: Sequence[int]) -> Forests:
        """The forests of some pairs, read into memory, in the order asked for."""
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
    for path in folder.glob("part-*.json"):  # another corpus may have left more parts behind
        number = path.stem.removeprefix("part-")
        if not number.isdecimal() or int(number) >= count:
            path.unlink()
            path.with_suffix(".arrays").unlink(missing_ok=True)
    threads = None if isinstance(engine, Here) else 1
    parts = ((number, list(examples[number * PAIRS : (number + 1) * PAIRS])) for number in range(count))
    done = 0
    for pairs in engine.map(partial(_part_builder, folder, grammar, threads), parts):
        done += pairs
        yield done


def _part_builder(
    folder: Path, grammar: Grammar, threads: int | None
) -> Callable[[tuple[int, Sequence[Example]]], int]:
    def build(part: tuple[int, Sequence[Example]]) -> int:
        number, examples = part
        files, made_from = part_files(folder, number), fingerprint(grammar, examples)
        if files.find(made_from) is None:
            files.write(build_forests(grammar, examples, workers=threads), made_from)
        return len(examples)

    return build
