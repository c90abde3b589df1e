"""Spider's "exact set match without values": whether two queries ask the same, values and order of parts aside.

What the official program does, from its definition in words. Both queries are read (`spider_parser`), made alike
(`spider_normal`), and compared component by component.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from nqg.data.spider_schema import Schema
from nqg.errors import FormatError
from nqg.evaluation.spider_hardness import Hardness, hardness
from nqg.evaluation.spider_normal import normalised
from nqg.evaluation.spider_parser import parse_query
from nqg.evaluation.spider_query import Query


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a prediction matches, and how hard the gold query is; `differing` names the components that do not agree.

    `reason` says why a prediction could not be read. `predicted` and `gold` are the components that each query has.
    """

    is_match: bool
    hardness: Hardness
    differing: tuple[str, ...] = ()
    predicted: tuple[str, ...] = ()
    gold: tuple[str, ...] = ()
    reason: str = ""


def spider_match(predicted: str | None, gold: str, schema: Schema) -> Verdict:
    """The verdict on a prediction; one that cannot be read, or is none, is wrong.

    >>> from nqg.data.spider_schema import Table
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
        return Verdict(False, level, tuple(COMPONENTS), (), present(goal), error.reason)
    differing = differences(answer, goal)
    return Verdict(not differing, level, differing, present(answer), present(goal))


def differences(predicted: Query, gold: Query) -> tuple[str, ...]:
    """The names of the components in which two normalised queries differ."""
    unequal = {name for name, content in COMPONENTS.items() if content(predicted) != content(gold)}
    if predicted.branch and gold.branch and differences(predicted.branch.query, gold.branch.query):
        unequal.add("set operators")
    if not gold.tables:
        unequal.discard("tables")
    return tuple(name for name in COMPONENTS if name in unequal)


def present(query: Query) -> tuple[str, ...]:
    """The names of the components that a query has."""
    return tuple(name for name, content in COMPONENTS.items() if content(query))


def _keywords(query: Query) -> frozenset[str]:
    return frozenset(_clause_words(query)) | frozenset(_condition_words(query))


def _clause_words(query: Query) -> Iterator[str]:
    for word in ("where", "group", "having", "order"):
        if getattr(query, word):
            yield word
    if query.order:
        yield query.order.direction
    if query.limit is not None:
        yield "limit"
    if query.branch:
        yield query.branch.operator


def _condition_words(query: Query) -> Iterator[str]:
    for clause in (query.on, query.where, query.having):
        yield from ("or" for word in clause.connectors if word == "or")
    for condition in query.conditions():
        if condition.is_negated:
            yield "not"
        if condition.operator in ("in", "like"):
            yield condition.operator


def _bare(column: str) -> str:
    return column.rpartition(".")[2]


COMPONENTS: Mapping[str, Callable[[Query], object]] = {
    "select": lambda query: Counter(query.items),
    "select without aggregates": lambda query: Counter(item.expression for item in query.items),
    "where": lambda query: Counter(query.where.in_turn),
    "where without operators": lambda query: Counter(condition.left for condition in query.where),
    "connectors": lambda query: frozenset(query.where.connectors),
    "group": lambda query: query.group and (tuple(unit.column for unit in query.group), query.having),
    "group without having": lambda query: tuple(_bare(unit.column) for unit in query.group),
    "order": lambda query: query.order and (query.order, query.limit is not None),
    "set operators": lambda query: query.branch and query.branch.operator,
    "keywords": _keywords,
    "tables": lambda query: Counter(query.tables),
}
"""What each component of a query holds; two queries agree in it where this is equal. The ones with "without" are
weaker than their namesakes and only tell more about a query that does not match."""
