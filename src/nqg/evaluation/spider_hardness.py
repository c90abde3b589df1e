"""How hard a gold query is, by Spider's four levels; only its outermost query is looked at."""

from __future__ import annotations

from enum import StrEnum

from nqg.evaluation.spider_query import Query


class Hardness(StrEnum):
    """Spider's levels, the easiest first."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"
    EXTRA = "extra"


def hardness(query: Query) -> Hardness:
    """The level of a query, from the number of its clauses, sub-queries and repeated parts."""
    clauses, nested, repeated = _clauses(query), _nested(query), _repeated(query)
    if nested == 0:
        return _flat_hardness(clauses, repeated)
    return Hardness.HARD if nested == 1 and clauses <= 1 and repeated == 0 else Hardness.EXTRA


def _flat_hardness(clauses: int, repeated: int) -> Hardness:
    """The level of a query without sub-queries and branches."""
    if clauses <= 1 and repeated == 0:
        return Hardness.EASY
    if (clauses <= 1 and repeated <= 2) or (clauses <= 2 and repeated < 2):
        return Hardness.MEDIUM
    if (clauses <= 2 and repeated > 2) or (clauses == 3 and repeated <= 2):
        return Hardness.HARD
    return Hardness.EXTRA


def _clauses(query: Query) -> int:
    present = (query.where, query.group, query.order, query.limit is not None)
    joins = max(len(query.tables) - 1, 0)
    either = sum(clause.connectors.count("or") for clause in (query.on, query.where, query.having))
    likes = sum(condition.operator == "like" for condition in query.conditions())
    return sum(map(bool, present)) + joins + either + likes


def _nested(query: Query) -> int:
    subqueries = sum(len(list(condition.subqueries())) for condition in query.conditions())
    return subqueries + (query.branch is not None)


def _repeated(query: Query) -> int:
    sizes = (_aggregates(query), len(query.items), len(query.where.parts), len(query.group))
    return sum(size > 1 for size in sizes)


def _aggregates(query: Query) -> int:
    """Aggregates as the official program counts them: it takes `not`, and `and` and `or` of `having`, for some."""
    sorted_by = [unit for each in (query.order.expressions if query.order else ()) for unit in each.units()]
    marked = [each.aggregate for each in query.items] + [unit.aggregate for unit in (*query.group, *sorted_by)]
    negated = [condition.is_negated for condition in (*query.where, *query.having)]
    return sum(map(bool, [*marked, *negated, *query.having.connectors]))
