"""Records of runs: a line of `records.jsonl` for each system, weights and seed of a recipe."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from nqg.errors import FormatError, NqgError
from nqg.evaluation.error_analysis import Cause
from nqg.evaluation.metrics import Spread, spread
from nqg.files import numbered_lines, strict_json, write_text
from nqg.model_folder import exclusive
from nqg.paper.recipe import SYSTEMS, Recipe, SystemName
from nqg.settings_reader import read_dataclass

RESULTS_FILE = "records.jsonl"
KIND = "nqg result"
VERSION = 1
# Other ways to answer, by the names in figures. The paper's NQG abstains where its best derivation
# is illegal; `BEST_LEGAL` goes on to the best legal one.
BEST_LEGAL = "best_legal"
# A hybrid with the fallback of seed 0, whatever the seed of the grammar: table 9 of the paper has
# one checkpoint of T5 for all its hybrids.
ONE_FALLBACK = "one_fallback"
# A fallback decoded under the target grammar.
LEGAL = "legal"
# The same, with entities only where things of their kinds may stand.
WITH_KINDS = "kinds"
# The paper's causes of errors, section 6.2.
ERRORS = (Cause.UNSEEN_TRIGRAM, Cause.RARE_ATOM, Cause.UNSEEN_ATOM, Cause.LONGER_TARGET)


class SystemStyle(NamedTuple):
    """How tables and plots show a system; `paper` is what the paper calls the one that it is
    compared with.
    """

    title: str
    colour: str
    paper: str


STYLES: dict[SystemName, SystemStyle] = {
    "nqg": SystemStyle("NQG", "#4477aa", "NQG"),
    "paper-induction": SystemStyle("NQG, the paper's induction", "#88ccee", "NQG"),
    "typed": SystemStyle("NQG with types", "#332288", "NQG"),
    "inferred": SystemStyle("NQG with inferred types", "#aa3377", "NQG"),
    "syntactic-attention": SystemStyle(
        "Syntactic Attention", "#bbbbbb", "Syntactic Attn."
    ),
    "cgps": SystemStyle("CGPS", "#777777", "CGPS"),
    "seq2seq": SystemStyle("T5", "#ccbb44", "T5-Base"),
    "schemaless": SystemStyle("T5 without schema", "#ddcc77", "T5-Base - schema"),
    "geca": SystemStyle("T5 with GECA", "#bbbb44", "T5-Base"),
    "augmented": SystemStyle("T5 taught by the grammar", "#ee7733", "T5-Base"),
    "taught": SystemStyle("T5 taught, decoded with types", "#cc3311", "T5-Base"),
    "hybrid": SystemStyle("NQG-T5", "#228833", "NQG-T5-Base"),
    "gated": SystemStyle("NQG-T5 with a gate", "#66ccee", "NQG-T5-Base"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: a system with given weights on a recipe, with a seed.

    >>> Cell("geoquery-tmcd", "nqg", "embedded", 0).key
    ('geoquery-tmcd', 'nqg-embedded-0')
    """

    recipe: str
    system: SystemName
    weights: str
    seed: int

    @property
    def key(self) -> tuple[str, str]:
        """Where the record stands among others."""
        return self.recipe, self.stem

    @property
    def stem(self) -> str:
        return f"{self.system}-{self.weights.replace('/', '_')}-{self.seed}"

    def __str__(self) -> str:
        return f"{self.recipe} {self.system} seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Record:
    """What a run gave, and all that is needed to know how it came about."""

    cell: Cell
    # Shares and counts; None is "undefined".
    figures: Mapping[str, int | float | None]
    # The weights that the recipe names.
    asked: str
    # Of what the recipe says about the system.
    fingerprint: str
    # The fingerprint of the examples, train and test.
    data: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    commit: str = "unknown"
    hardware: str = "unknown"
    date: str = "unknown"

    @property
    def is_stand_in(self) -> bool:
        """Whether other weights were used than the recipe names."""
        return self.cell.weights not in (self.asked, self.asked.replace("/", "_"))

    def is_of(self, recipe: Recipe) -> bool:
        """Whether the recipe still says what it said when this was run."""
        return self.fingerprint == recipe.fingerprint(
            self.cell.system, self.cell.weights
        )

    def line(self) -> str:
        return json.dumps({"kind": KIND, "version": VERSION, **asdict(self)}) + "\n"


def records(folder: Path) -> Iterator[Record]:
    """Every record in a folder of results, in the order of their keys."""
    path = folder / RESULTS_FILE
    if not path.exists():
        raise NqgError(
            f"{path}: no such file; `nqg reproduce NAME --results {folder}` writes records there"
        )
    for place, line in numbered_lines(path):
        values = strict_json(line, place)
        if not isinstance(values, dict) or values.pop("kind", None) != KIND:
            raise FormatError(f"expected a record of kind '{KIND}'", place)
        version = values.pop("version", None)
        if version != VERSION:
            raise FormatError(f"expected version {VERSION}, found {version!r}", place)
        yield read_dataclass(Record, values, "the record", place, complete=True)


def find_record(folder: Path, cell: Cell) -> Record | None:
    """The record of a cell, if there is one."""
    if not (folder / RESULTS_FILE).exists():
        return None
    for record in records(folder):
        if record.cell == cell:
            return record
    return None


# Systems that join the answers of others, and which.
HYBRIDS: tuple[SystemName, ...] = ("hybrid", "gated")
HYBRID_PARTS: tuple[SystemName, ...] = ("nqg", "seq2seq")


def is_stale(hybrid: Record, earlier: Iterable[Record]) -> bool:
    """Whether one of the records that a hybrid joins was replaced on a later day.

    A record that was replaced on the same day is not noticed, because records have no hour.
    """
    cell = hybrid.cell
    if cell.system not in HYBRIDS:
        return False
    grammar, fallback = HYBRID_PARTS
    encoder, _, model = cell.weights.partition("+")
    part = replace(cell, system=fallback, weights=model)
    joined = {replace(cell, system=grammar, weights=encoder), part}
    if f"{ONE_FALLBACK}_accuracy" in hybrid.figures:
        joined.add(replace(part, seed=0))
    return any(
        record.cell in joined and record.date > hybrid.date for record in earlier
    )


def write_record(folder: Path, record: Record) -> None:
    """Put a record in its place, instead of an earlier one of the same cell.

    The file is replaced as a whole, under a lock, so that neither a kill nor another run loses what
    is written.
    """
    with exclusive(folder / ".unfinished" / "records", wait=True):
        path = folder / RESULTS_FILE
        by_key = {}
        if path.exists():
            by_key = {earlier.cell.key: earlier for earlier in records(folder)}
        by_key[record.cell.key] = record
        write_text(path, "".join(by_key[key].line() for key in sorted(by_key)))


@dataclass(frozen=True, slots=True)
class Series:
    """A system with its weights: one row of a table.

    >>> Series("gated", "minilm+flan-t5-small").title
    'NQG-T5 with a gate (minilm+flan-t5-small)'
    """

    system: SystemName
    weights: str

    @property
    def title(self) -> str:
        return f"{STYLES[self.system].title} ({self.weights})"


@dataclass(frozen=True, slots=True)
class Results:
    records: tuple[Record, ...]

    @classmethod
    def collected(cls, records: Iterable[Record]) -> Results:
        return cls(tuple(sorted(records, key=lambda record: record.cell.key)))

    def series(
        self, recipes: Collection[str], systems: Sequence[SystemName] = SYSTEMS
    ) -> list[Series]:
        """The systems with their weights that any of the recipes has, in the order of systems."""
        series: set[Series] = set()
        for record in self.records:
            cell = record.cell
            if cell.recipe in recipes and cell.system in systems:
                series.add(Series(cell.system, cell.weights))
        return sorted(
            series, key=lambda each: (SYSTEMS.index(each.system), each.weights)
        )

    def of(self, recipe: str, series: Series) -> list[Record]:
        wanted = Cell(recipe, series.system, series.weights, seed=0)
        return [
            record for record in self.records if replace(record.cell, seed=0) == wanted
        ]

    def figure(self, recipe: str, series: Series, name: str) -> Spread | None:
        """A figure over all seeds; None where nothing was run, or where it is undefined."""
        figures = [record.figures.get(name) for record in self.of(recipe, series)]
        values = [figure for figure in figures if figure is not None]
        return spread(values) if values else None

    def split_figure(self, recipe: str, name: str) -> float | None:
        """A figure of the split itself, which is the same in every record that has it."""
        for record in self.records:
            if record.cell.recipe == recipe and record.figures.get(name) is not None:
                return record.figures[name]
        return None
