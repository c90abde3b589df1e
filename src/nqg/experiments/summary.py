"""Records put together: mean and deviation over seeds, for each recipe, system and weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nqg.evaluation.seeds import Spread, spread
from nqg.experiments.recipe import SYSTEMS, System
from nqg.experiments.records import Record

TITLES: dict[System, str] = {"nqg": "NQG", "seq2seq": "T5", "hybrid": "NQG-T5", "gated": "NQG-T5 with a gate"}


@dataclass(frozen=True, slots=True)
class Series:
    """A system with its weights: one row of a table.

    >>> Series("gated", "minilm+flan-t5-small").title
    'NQG-T5 with a gate (minilm+flan-t5-small)'
    """

    system: System
    weights: str

    @property
    def title(self) -> str:
        """How a table names it."""
        return f"{TITLES[self.system]} ({self.weights})"


@dataclass(frozen=True, slots=True)
class Results:
    """All records of a folder, by recipe and series."""

    records: tuple[Record, ...]

    @classmethod
    def collected(cls, records: Iterable[Record]) -> Results:
        """Records in a fixed order, whatever order they came in."""
        return cls(tuple(sorted(records, key=lambda record: (record.cell.recipe, record.cell.stem))))

    def series(self, recipes: Sequence[str]) -> list[Series]:
        """The series that have a record of one of the recipes: in the order of systems."""
        found = {Series(each.cell.system, each.cell.weights) for each in self.records if each.cell.recipe in recipes}
        return sorted(found, key=lambda series: (SYSTEMS.index(series.system), series.weights))

    def figure(self, recipe: str, series: Series, name: str) -> Spread | None:
        """A figure over all seeds; None where nothing was run, or where it is undefined."""
        found = [record.figures.get(name) for record in self.of(recipe, series)]
        known = [value for value in found if value is not None]
        return spread(known) if known else None

    def split_fact(self, recipe: str, name: str) -> float | None:
        """A figure of the split itself, which is the same in every record that has it."""
        values = (each.figures.get(name) for each in self.records if each.cell.recipe == recipe)
        return next((value for value in values if value is not None), None)

    def seeds(self, recipe: str, series: Series) -> int:
        """How many seeds were run."""
        return len(self.of(recipe, series))

    def of(self, recipe: str, series: Series) -> list[Record]:
        """The records of a series, one a seed."""
        return [
            each
            for each in self.records
            if (each.cell.recipe, each.cell.system, each.cell.weights) == (recipe, series.system, series.weights)
        ]
