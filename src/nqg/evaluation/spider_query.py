"""A query as Spider's metric sees it: columns resolved to `table.column`, everything else as flat as it was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Unit:
    """A column, perhaps under an aggregate; `*` is a column of no table."""

    column: str
    aggregate: str | None = None
    is_distinct: bool = False

    @property
    def table(self) -> str:
        """The table of the column; that of `*` has no name."""
        return self.column.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Expression:
    """A unit, or two of them under one of `- + * /`."""

    left: Unit
    operator: str | None = None
    right: Unit | None = None

    def with_units(self, change: Callable[[Unit], Unit]) -> Expression:
        """The same expression of changed units."""
        return replace(self, left=change(self.left), right=change(self.right) if self.right else None)

    def units(self) -> Iterator[Unit]:
        """Its one or two units."""
        yield self.left
        if self.right:
            yield self.right


@dataclass(frozen=True, slots=True)
class Item:
    """What a query selects: an expression, perhaps under an aggregate."""

    expression: Expression
    aggregate: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with one value, or with two for `between`; a value that does not count is None."""

    left: Expression
    operator: str
    values: tuple[Value, ...]
    is_negated: bool = False

    def subqueries(self) -> Iterator[Query]:
        """The values that are queries."""
        return (value for value in self.values if isinstance(value, Query))


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions and the words between them, in turn; a forgotten word shifts what follows into the wrong turn."""

    parts: tuple[Condition | str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.parts)

    @property
    def in_turn(self) -> tuple[Condition | str, ...]:
        """What stands where conditions belong."""
        return self.parts[::2]

    @property
    def connectors(self) -> tuple[Condition | str, ...]:
        """What stands where `and` and `or` belong."""
        return self.parts[1::2]

    def __iter__(self) -> Iterator[Condition]:
        return (part for part in self.parts if isinstance(part, Condition))

    def changed(self, change: Callable[[Condition], Condition]) -> Conditions:
        """The same list of changed conditions."""
        return Conditions(tuple(change(part) if isinstance(part, Condition) else part for part in self.parts))


@dataclass(frozen=True, slots=True)
class Order:
    """What a result is sorted by, and the one direction that the metric knows for all of it."""

    expressions: tuple[Expression, ...]
    direction: str = "asc"


@dataclass(frozen=True, slots=True)
class Branch:
    """The query behind `intersect`, `union` or `except`."""

    operator: str
    query: Query


@dataclass(frozen=True, slots=True)
class Query:
    """One `select` with its clauses; a table is a name or a query."""

    items: tuple[Item, ...]
    tables: tuple[str | Query, ...]
    on: Conditions = Conditions()
    where: Conditions = Conditions()
    group: tuple[Unit, ...] = ()
    having: Conditions = Conditions()
    order: Order | None = None
    limit: int | None = None
    branch: Branch | None = None
    is_distinct: bool = False

    @property
    def plain_tables(self) -> tuple[str, ...]:
        """The tables that are names, in order."""
        return tuple(table for table in self.tables if isinstance(table, str))

    def conditions(self) -> Iterator[Condition]:
        """Those of `on`, `where` and `having`."""
        for clause in (self.on, self.where, self.having):
            yield from clause


Value = str | float | Unit | Query | None
