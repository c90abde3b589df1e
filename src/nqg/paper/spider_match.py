"""Spider's "exact set match without values": whether two queries ask the same, values and order of parts aside.

What the official program does, from its definition in words. Both queries are read (`spider_parser`), made alike,
and compared component by component.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from nqg.errors import FormatError
from nqg.evaluation.metrics import Scores, percent
from nqg.paper.spider_parser import Condition, Expression, Query, Unit, parse_query, plain_tables
from nqg.sql.schema import Schema


def normalised(query: Query, schema: Schema) -> Query:
    """The query as it is compared.

    Values go from conditions at every level. `distinct` and foreign keys are seen to in the outermost query and its
    branches alone, and derived tables stay as they are: that is what the official program does.
    """
    representatives, tables = representative_columns(schema), frozenset(plain_tables(query.tables))

    def plain(unit: Unit) -> Unit:
        column = (
            representatives.get(unit.column, unit.column) if unit.table in tables else unit.column
        )
        return replace(unit, column=column, is_distinct=False)

    return comparable(query, plain)


def representative_columns(schema: Schema) -> Mapping[str, str]:
    """For every column of a foreign key the first of the columns that are taken for the same.

    A key joins the first group that has either of its columns. Groups are never united, and where they share a
    column the later one decides, as in the official program.
    """
    groups: list[set[str]] = []
    for ends in ({key.column, key.refers_to} for key in schema.foreign_keys):
        if group := next((group for group in groups if group & ends), None):
            group |= ends
        else:
            groups.append(ends)
    order = {column: number for number, column in enumerate(schema.columns)}
    return {column: min(group, key=order.__getitem__) for group in groups for column in group}


def comparable(query: Query, plain: Callable[[Unit], Unit] | None = None) -> Query:
    """The query, its branches and the queries in its conditions without the values that conditions compare with.

    With `plain`, units are changed by it and `distinct` goes, but not in the queries in conditions.
    """

    def changed(expression: Expression) -> Expression:
        return expression.with_units(plain) if plain else expression

    def without_values(condition: Condition) -> Condition:
        values = (
            comparable(value) if isinstance(value, Query) else None for value in condition.values
        )
        return replace(condition, left=changed(condition.left), values=tuple(values))

    order = query.order
    return replace(
        query,
        items=tuple(map(changed, query.items)),
        on=query.on.changed(without_values),
        where=query.where.changed(without_values),
        group=tuple(map(plain, query.group)) if plain else query.group,
        having=query.having.changed(without_values),
        order=order and replace(order, expressions=tuple(map(changed, order.expressions))),
        branch=query.branch and comparable(query.branch, plain),
        is_distinct=query.is_distinct and plain is None,
    )


class Hardness(StrEnum):
    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"
    EXTRA = "extra"


def hardness(query: Query) -> Hardness:
    """The level of a query, from the number of its clauses, sub-queries and repeated parts."""
    present = sum(map(bool, (query.where, query.group, query.order, query.limit is not None)))
    joins = max(len(query.tables) - 1, 0)
    either = sum(clause.connectors.count("or") for clause in (query.on, query.where, query.having))
    likes = sum(condition.operator == "like" for condition in query.conditions())
    clauses = present + joins + either + likes
    nested = sum(len(list(condition.subqueries())) for condition in query.conditions()) + (
        query.branch is not None
    )
    sizes = aggregates(query), len(query.items), len(query.where), len(query.group)
    repeated = sum(size > 1 for size in sizes)
    if nested:
        return Hardness.HARD if nested == 1 and clauses <= 1 and repeated == 0 else Hardness.EXTRA
    if clauses <= 1 and repeated == 0:
        return Hardness.EASY
    if (clauses <= 1 and repeated <= 2) or (clauses <= 2 and repeated < 2):
        return Hardness.MEDIUM
    return (
        Hardness.HARD
        if (clauses <= 2 < repeated) or (clauses == 3 and repeated <= 2)
        else Hardness.EXTRA
    )


def aggregates(query: Query) -> int:
    """Aggregates as the official program counts them: it takes `not`, and `and` and `or` of `having`, for some."""
    sorted_by = [
        unit for each in (query.order.expressions if query.order else ()) for unit in each.units()
    ]
    marked = [each.aggregate for each in query.items] + [
        unit.aggregate for unit in (*query.group, *sorted_by)
    ]
    negated = [
        condition.is_negated for condition in (*query.where.conditions, *query.having.conditions)
    ]
    return sum(map(bool, [*marked, *negated, *query.having.connectors]))


@dataclass(frozen=True, slots=True)
class SpiderVerdict:
    """Whether a prediction matches, and how hard the gold query is; `differing` names the components that do not agree.

    `reason` says why a prediction could not be read. `predicted` and `gold` are the components that each query has.
    """

    is_match: bool
    hardness: Hardness
    differing: tuple[str, ...] = ()
    predicted: tuple[str, ...] = ()
    gold: tuple[str, ...] = ()
    reason: str = ""


def spider_match(predicted: str | None, gold: str, schema: Schema) -> SpiderVerdict:
    """The verdict on a prediction; one that cannot be read, or is none, is wrong.

    >>> from nqg.sql.schema import Table
    >>> schema = Schema("pets_1", (Table("pets", ("id", "weight")),))
    >>> spider_match("SELECT id FROM pets WHERE weight > 3", "SELECT id FROM pets WHERE weight > 10", schema).is_match
    True
    >>> spider_match("SELECT id FROM pets LIMIT 1", "SELECT id FROM pets", schema).differing
    ('keywords',)
    >>> spider_match("SELECT name FROM pets", "SELECT id FROM pets", schema).reason
    "expected a column, found 'name'"
    """
    right = parse_query(gold, schema)
    level, goal = hardness(right), normalised(right, schema)
    try:
        answer = normalised(parse_query(predicted or "", schema), schema)
    except FormatError as error:
        return SpiderVerdict(False, level, tuple(COMPONENTS), (), present(goal), error.reason)
    differing = differences(answer, goal)
    return SpiderVerdict(not differing, level, differing, present(answer), present(goal))


def differences(predicted: Query, gold: Query) -> tuple[str, ...]:
    unequal = {name for name, content in COMPONENTS.items() if content(predicted) != content(gold)}
    if predicted.branch and gold.branch and differences(predicted.branch, gold.branch):
        unequal.add("set operators")
    if not gold.tables:
        unequal.discard("tables")
    return tuple(name for name in COMPONENTS if name in unequal)


def present(query: Query) -> tuple[str, ...]:
    return tuple(name for name, content in COMPONENTS.items() if content(query))


def keywords(query: Query) -> frozenset[str]:
    """The words that tell which clauses and comparisons a query has."""
    words = [word for word in ("where", "group", "having", "order") if getattr(query, word)]
    words += [query.order.direction] if query.order else []
    words += ["limit"] if query.limit is not None else []
    words += [query.set_operator] if query.set_operator else []
    words += ["or" for clause in (query.on, query.where, query.having) if "or" in clause.connectors]
    words += ["not" for condition in query.conditions() if condition.is_negated]
    words += [
        condition.operator
        for condition in query.conditions()
        if condition.operator in ("in", "like")
    ]
    return frozenset(words)


COMPONENTS: Mapping[str, Callable[[Query], object]] = {
    "select": lambda query: Counter(query.items),
    "select without aggregates": lambda query: Counter(
        replace(item, aggregate=None) for item in query.items
    ),
    "where": lambda query: Counter(query.where[::2]),
    "where without operators": lambda query: Counter(
        condition.left for condition in query.where.conditions
    ),
    "connectors": lambda query: frozenset(query.where.connectors),
    "group": lambda query: (
        query.group and (tuple(unit.column for unit in query.group), query.having)
    ),
    "group without having": lambda query: tuple(
        unit.column.rpartition(".")[2] for unit in query.group
    ),
    "order": lambda query: query.order and (query.order, query.limit is not None),
    "set operators": lambda query: query.set_operator,
    "keywords": keywords,
    "tables": lambda query: Counter(query.tables),
}
"""What each component of a query holds; two queries agree in it where this is equal. The ones with "without" are
weaker than their namesakes and only tell more about a query that does not match."""


@dataclass(frozen=True, slots=True)
class ComponentScores:
    """In how many predictions and golds a component is, and how often both have it and agree.

    A figure is undefined where there is nothing to divide by.
    """

    name: str
    predicted: int
    gold: int
    right: int

    @property
    def precision(self) -> float | None:
        return self.right / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        return self.right / self.gold if self.gold else None

    @property
    def f1(self) -> float | None:
        return 2 * self.right / (self.predicted + self.gold) if self.predicted + self.gold else None


@dataclass(frozen=True, slots=True)
class SpiderReport:
    """The tables of Spider's metric; levels of hardness that do not occur are left out."""

    levels: dict[Hardness, Scores]
    components: tuple[ComponentScores, ...]

    @classmethod
    def of(cls, verdicts: Sequence[SpiderVerdict]) -> SpiderReport:
        """The report on verdicts; a prediction that could not be read counts as none."""
        levels = {
            level: Scores.of(
                [
                    None if each.reason else each.is_match
                    for each in verdicts
                    if each.hardness == level
                ]
            )
            for level in Hardness
            if any(each.hardness == level for each in verdicts)
        }
        components = (
            ComponentScores(
                name,
                predicted=sum(name in each.predicted for each in verdicts),
                gold=sum(name in each.gold for each in verdicts),
                right=sum(name in each.gold and name not in each.differing for each in verdicts),
            )
            for name in COMPONENTS
        )
        return cls(levels, tuple(components))

    def tables(self) -> Iterator[tuple[Sequence[str], Sequence[Sequence[str]]]]:
        """Accuracy by hardness, and the scores of every component."""
        levels = []
        for level, scores in self.levels.items():
            interval = scores.intervals()["accuracy"]
            accuracy = percent(scores.accuracy) + (f" ({interval})" if interval else "")
            levels.append((level, f"{scores.examples:,}", accuracy))
        yield ("hardness", "examples", "accuracy"), levels
        components = [
            (each.name, percent(each.precision), percent(each.recall), percent(each.f1))
            for each in self.components
        ]
        yield ("component", "precision", "recall", "F1"), components

    def to_dict(self) -> dict[str, Any]:
        figures = {
            each.name: {f: getattr(each, f) for f in ("precision", "recall", "f1")}
            for each in self.components
        }
        levels = {str(level): scores.to_dict() for level, scores in self.levels.items()}
        return {"hardness": levels, "components": figures}
