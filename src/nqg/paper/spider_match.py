"""Spider's "exact set match without values": whether two queries ask the same, values and order of
parts aside.

What the official program does, from its definition in words. Both queries are read
(`spider_parser`), made alike, and compared component by component.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from nqg.errors import FormatError
from nqg.evaluation.metrics import Scores, percent
from nqg.paper.spider_parser import (
    Condition,
    Expression,
    Query,
    Unit,
    parse_query,
    plain_tables,
)
from nqg.sql.schema import Schema


def normalised(query: Query, schema: Schema) -> Query:
    """The query as it is compared.

    Values go from conditions at every level. `distinct` and foreign keys are seen to in the
    outermost query and its branches alone, and derived tables stay as they are: that is what the
    official program does.
    """
    representatives, tables = representative_columns(schema), plain_tables(query.tables)

    def plain(unit: Unit) -> Unit:
        column = unit.column
        if unit.table in tables:
            column = representatives.get(column, column)
        return Unit(column, unit.aggregate)

    return comparable(query, plain)


def representative_columns(schema: Schema) -> Mapping[str, str]:
    """For every column of a foreign key the first of the columns that are taken for the same.

    A key joins the first group that has either of its columns. Groups are never united, and where
    they share a column the later one decides, as in the official program.
    """
    # Columns that foreign keys connect, in the order of the keys.
    groups: list[set[str]] = []
    for key in schema.foreign_keys:
        ends = {key.column, key.refers_to}
        for group in groups:
            if group & ends:
                group |= ends
                break
        else:
            groups.append(ends)
    representatives: dict[str, str] = {}
    for group in groups:
        first = min(group, key=schema.columns.index)
        representatives.update(dict.fromkeys(group, first))
    return representatives


def comparable(query: Query, plain: Callable[[Unit], Unit] | None = None) -> Query:
    """The query, its branches and the queries in its conditions without the values that conditions
    compare with.

    With `plain`, units are changed by it and `distinct` goes, but not in the queries in conditions.
    """

    def changed(expression: Expression) -> Expression:
        return expression.with_units(plain) if plain else expression

    def without_values(condition: Condition) -> Condition:
        queries = [
            comparable(value) if isinstance(value, Query) else None
            for value in condition.values
        ]
        return replace(condition, left=changed(condition.left), values=tuple(queries))

    # Only units and conditions change; tables and the set operator stay.
    order = query.order
    if order:
        order = replace(order, expressions=tuple(map(changed, order.expressions)))
    if plain:
        query = replace(query, group=tuple(map(plain, query.group)), is_distinct=False)
    return replace(
        query,
        items=tuple(map(changed, query.items)),
        on=query.on.changed(without_values),
        where=query.where.changed(without_values),
        having=query.having.changed(without_values),
        order=order,
        branch=query.branch and comparable(query.branch, plain),
    )


class Hardness(StrEnum):
    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"
    EXTRA = "extra"


def hardness(query: Query) -> Hardness:
    """The level of a query, from the number of its clauses, sub-queries and repeated parts."""
    clauses = max(len(query.tables) - 1, 0)
    clauses += sum(
        map(bool, (query.where, query.group, query.order, query.limit is not None))
    )
    for clause in (query.on, query.where, query.having):
        clauses += clause.connectors.count("or")
    # A query behind a set operator counts as nested, as those in conditions do.
    nested = int(query.branch is not None)
    for condition in query.conditions():
        clauses += condition.operator == "like"
        nested += len(condition.subqueries())
    sizes = aggregates(query), len(query.items), len(query.where), len(query.group)
    repeated = sum(size > 1 for size in sizes)
    # The bounds of the levels are those of the official program.
    if nested:
        is_hard = nested == 1 and clauses <= 1 and repeated == 0
        return Hardness.HARD if is_hard else Hardness.EXTRA
    if clauses <= 1 and repeated == 0:
        return Hardness.EASY
    if (clauses <= 1 and repeated <= 2) or (clauses <= 2 and repeated < 2):
        return Hardness.MEDIUM
    if (clauses <= 2 < repeated) or (clauses == 3 and repeated <= 2):
        return Hardness.HARD
    return Hardness.EXTRA


def aggregates(query: Query) -> int:
    """Aggregates as the official program counts them: it takes `not`, and `and` and `or` of
    `having`, for some.
    """
    # Whatever the official program takes for an aggregate.
    marks: list[object] = [item.aggregate for item in query.items]
    units = list(query.group)
    if query.order:
        for expression in query.order.expressions:
            units += expression.units()
    marks += [unit.aggregate for unit in units]
    conditions = query.where.conditions + query.having.conditions
    marks += [condition.is_negated for condition in conditions]
    return sum(map(bool, [*marks, *query.having.connectors]))


@dataclass(frozen=True, slots=True)
class SpiderVerdict:
    """Whether a prediction matches, and how hard the gold query is; `differing` names the
    components that do not agree.

    `reason` says why a prediction could not be read.
    """

    is_match: bool
    hardness: Hardness
    differing: tuple[str, ...] = ()
    reason: str = ""


def spider_match(predicted: str | None, gold: str, schema: Schema) -> SpiderVerdict:
    """The verdict on a prediction; one that cannot be read, or is none, is wrong.

    >>> from nqg.sql.schema import Table
    >>> schema = Schema("pets_1", (Table("pets", ("id", "weight")),))
    >>> gold = "SELECT id FROM pets WHERE weight > 10"
    >>> spider_match("SELECT id FROM pets WHERE weight > 3", gold, schema).is_match
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
        return SpiderVerdict(False, level, tuple(COMPONENTS), error.reason)
    differing = differences(answer, goal)
    return SpiderVerdict(not differing, level, differing)


def differences(predicted: Query, gold: Query) -> tuple[str, ...]:
    differing: list[str] = []
    for name, content in COMPONENTS.items():
        is_different = content(predicted) != content(gold)
        # Behind a set operator the whole queries must agree.
        if name == "set operators" and predicted.branch and gold.branch:
            is_different |= bool(differences(predicted.branch, gold.branch))
        # A gold query without tables does not tell which ones are right.
        if is_different and (name != "tables" or gold.tables):
            differing.append(name)
    return tuple(differing)


def keywords(query: Query) -> set[str]:
    """The words that tell which clauses and comparisons a query has."""
    clauses = ("where", "group", "having", "order")
    words = {word for word in clauses if getattr(query, word)}
    if query.order:
        words.add(query.order.direction)
    if query.limit is not None:
        words.add("limit")
    if query.set_operator:
        words.add(query.set_operator)
    for clause in (query.on, query.where, query.having):
        if "or" in clause.connectors:
            words.add("or")
    for condition in query.conditions():
        if condition.is_negated:
            words.add("not")
        if condition.operator in ("in", "like"):
            words.add(condition.operator)
    return words


def grouping(query: Query) -> object:
    return query.group and ([unit.column for unit in query.group], query.having)


# What each component of a query holds; two queries agree in it where this is equal.
COMPONENTS: Mapping[str, Callable[[Query], object]] = {
    "select": lambda query: Counter(query.items),
    "where": lambda query: Counter(query.where[::2]),
    "connectors": lambda query: set(query.where.connectors),
    "group": grouping,
    "order": lambda query: query.order and (query.order, query.limit is not None),
    "set operators": lambda query: query.set_operator,
    "keywords": keywords,
    "tables": lambda query: Counter(query.tables),
}


@dataclass(frozen=True, slots=True)
class SpiderReport:
    """Accuracy by hardness; levels that do not occur are left out."""

    levels: dict[Hardness, Scores]

    @classmethod
    def of(cls, verdicts: Sequence[SpiderVerdict]) -> SpiderReport:
        """The report on verdicts; a prediction that could not be read counts as none."""
        matches: dict[Hardness, list[bool | None]] = defaultdict(list)
        for verdict in verdicts:
            is_right = None if verdict.reason else verdict.is_match
            matches[verdict.hardness].append(is_right)
        # From easy to extra hard, in whatever order the verdicts came.
        return cls(
            {level: Scores.of(matches[level]) for level in Hardness if level in matches}
        )

    def tables(self) -> Iterator[tuple[Sequence[str], Sequence[Sequence[str]]]]:
        rows = []
        for level, scores in self.levels.items():
            interval = scores.intervals()["accuracy"]
            accuracy = percent(scores.accuracy) + (f" ({interval})" if interval else "")
            rows.append((level, f"{scores.examples:,}", accuracy))
        yield ("hardness", "examples", "accuracy"), rows

    def to_dict(self) -> dict[str, Any]:
        return {
            "hardness": {
                str(level): scores.to_dict() for level, scores in self.levels.items()
            }
        }
