"""What Spider's metric does not look at, taken out: values, `distinct`, and which end of a foreign key is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from nqg.data.spider_schema import Schema
from nqg.evaluation.spider_query import Branch, Condition, Order, Query, Unit


def normalised(query: Query, schema: Schema) -> Query:
    """The query as it is compared.

    Values go from conditions at every level. `distinct` and foreign keys are seen to in the outermost query and its
    branches alone, and derived tables stay as they are: that is what the official program does.
    """
    representatives, tables = representative_columns(schema), frozenset(query.plain_tables)

    def plain(unit: Unit) -> Unit:
        column = representatives.get(unit.column, unit.column) if unit.table in tables else unit.column
        return replace(unit, column=column, is_distinct=False)

    return _without_distinct(_without_values(query), plain)


def representative_columns(schema: Schema) -> Mapping[str, str]:
    """For every column of a foreign key the first of the columns that are taken for the same.

    A key joins the first group that has either of its columns. Groups are never united, and where they share a
    column the later one decides, as in the official program.
    """
    groups: list[set[str]] = []
    for key in schema.foreign_keys:
        ends = {key.column, key.refers_to}
        group = next((group for group in groups if group & ends), None)
        if group is None:
            groups.append(ends)
        else:
            group |= ends
    order = {column: number for number, column in enumerate(schema.columns)}
    return {column: min(group, key=order.__getitem__) for group in groups for column in group}


def _without_values(query: Query) -> Query:
    return replace(
        query,
        on=query.on.changed(_without_its_values),
        where=query.where.changed(_without_its_values),
        having=query.having.changed(_without_its_values),
        branch=query.branch and Branch(query.branch.operator, _without_values(query.branch.query)),
    )


def _without_its_values(condition: Condition) -> Condition:
    values = (_without_values(value) if isinstance(value, Query) else None for value in condition.values)
    return replace(condition, values=tuple(values))


def _without_distinct(query: Query, plain: Callable[[Unit], Unit]) -> Query:
    """The query and its branches with plain units."""

    def changed(condition: Condition) -> Condition:
        return replace(condition, left=condition.left.with_units(plain))

    def ordered(order: Order) -> Order:
        return replace(order, expressions=tuple(each.with_units(plain) for each in order.expressions))

    return replace(
        query,
        items=tuple(replace(item, expression=item.expression.with_units(plain)) for item in query.items),
        on=query.on.changed(changed),
        where=query.where.changed(changed),
        group=tuple(map(plain, query.group)),
        having=query.having.changed(changed),
        order=query.order and ordered(query.order),
        branch=query.branch and Branch(query.branch.operator, _without_distinct(query.branch.query, plain)),
        is_distinct=False,
    )
