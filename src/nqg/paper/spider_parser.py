"""Reads SQL as Spider's official metric does: what it accepts, what it skips and what it throws
away.

The rules are those of the metric, not those of SQL: `join` and commas between selected items may be
missing, whatever is left over after a complete query is ignored, and a column on the right of a
comparison swallows what follows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from nqg.errors import FormatError
from nqg.paper.sql_tree import END, WordReader
from nqg.sql.schema import Schema

_MARK = r"[()\[\]{}<>;@#$%&?!*«“‘„»”’\u2012-\u2015]|``?|--|\.{2,}|[,:](?!\d)|\.(?=[)\]}>»”’ ]*+\s*$)"
_STRING = re.compile(r'"[^"]*"')
_PLAIN = rf'(?:{_STRING.pattern}|(?!{_MARK})[^\s"])'
_WORD = re.compile(rf"[,:]{{2}}{_PLAIN}*|{_MARK}|{_PLAIN}+")
# The second of two commas sticks to what follows it.
_PAIR = re.compile(r"^([,:])(?=[,:])")


def spider_words(sql: str) -> tuple[str, ...]:
    r"""The words of a query in lower case; a quoted string is one word and keeps its case.

    >>> print(*spider_words("SELECT max(T1.Age) FROM t WHERE a> =5 AND b = 'X y'"))
    select max ( t1.age ) from t where a > =5 and b = "X y"
    """
    # The official program knows one kind of quotation mark.
    text = sql.replace("'", '"')
    if text.count('"') % 2:
        raise FormatError("expected quotes in pairs, found an odd number of them")
    words: list[str] = []
    for match in _WORD.findall(text):
        for word in filter(None, _PAIR.split(match, 1)):
            # A comparison may be written with a space inside.
            if word == "=" and words and words[-1] in ("!", ">", "<"):
                words[-1] += "="
            else:
                words.append(word if is_string(word) else word.lower())
    return tuple(words)


def is_string(word: str) -> bool:
    """Whether a word is a whole quoted string, and nothing is glued to it.

    >>> is_string('"a b"'), is_string('"a""b"'), is_string('name="a"')
    (True, False, False)
    """
    return _STRING.fullmatch(word) is not None


class Names:
    """The tables and columns of a database, and the aliases that a query gives them, which hold
    everywhere in it.
    """

    def __init__(self, schema: Schema, words: Sequence[str]) -> None:
        self.columns = schema.columns_of_tables
        if words and words[-1] == "as":
            raise FormatError(
                "expected an alias after 'as', found the end of the query"
            )
        # Of two meanings the last holds.
        triples = zip(words, words[1:], words[2:])
        self.aliases = {alias: name for name, word, alias in triples if word == "as"}
        for alias in self.aliases:
            if alias in self.columns:
                raise FormatError(
                    f"expected an alias that is no table, found 'as {alias}'"
                )

    def table(self, word: str) -> str:
        name = self.aliases.get(word, word)
        if name not in self.columns:
            raise FormatError(f"expected a table or its alias, found '{word}'")
        return name

    def column(self, word: str, tables: Iterable[str]) -> str:
        """The column that a word names, as `table.column`; a bare name is that of the first table
        which has it.
        """
        if word == "*":
            return word
        # A qualified name is looked up in its table alone.
        *qualifier, name = word.split(".", 1)
        for table in map(self.table, qualifier) if qualifier else tables:
            if name in self.columns[table]:
                return f"{table}.{name}"
        raise FormatError(f"expected a column, found '{word}'")


@dataclass(frozen=True, slots=True)
class Unit:
    """A column, perhaps under an aggregate; `*` is a column of no table."""

    column: str
    aggregate: str | None = None
    is_distinct: bool = False

    @property
    def table(self) -> str:
        return self.column.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Expression:
    """A unit, or two of them under one of `- + * /`; where it is selected, perhaps under an
    aggregate.
    """

    left: Unit
    operator: str | None = None
    right: Unit | None = None
    aggregate: str | None = None

    def with_units(self, change: Callable[[Unit], Unit]) -> Expression:
        return Expression(
            change(self.left),
            self.operator,
            self.right and change(self.right),
            self.aggregate,
        )

    def units(self) -> list[Unit]:
        return [self.left, self.right] if self.right else [self.left]


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with one value, or two for `between`; a value that does not count is None."""

    left: Expression
    operator: str
    values: tuple[Value, ...]
    is_negated: bool = False

    def subqueries(self) -> list[Query]:
        return [value for value in self.values if isinstance(value, Query)]


class Conditions(tuple[Condition | str, ...]):
    """Conditions and the words between them, in turn; a forgotten word shifts what follows into the
    wrong turn.

    So every second part from the first on may be a word, and `connectors` may be conditions.
    """

    __slots__ = ()

    @property
    def connectors(self) -> tuple[Condition | str, ...]:
        return self[1::2]

    @property
    def conditions(self) -> list[Condition]:
        return [part for part in self if isinstance(part, Condition)]

    def changed(self, change: Callable[[Condition], Condition]) -> Conditions:
        return Conditions(
            change(part) if isinstance(part, Condition) else part for part in self
        )


NO_CONDITIONS = Conditions()


@dataclass(frozen=True, slots=True)
class Order:
    """What a result is sorted by, and the one direction that the metric knows for all of it."""

    expressions: tuple[Expression, ...]
    direction: str = "asc"


@dataclass(frozen=True, slots=True)
class Query:
    """One `select` with its clauses, and the query behind its set operator; a table is a name or a
    query.
    """

    items: tuple[Expression, ...]
    tables: tuple[str | Query, ...]
    on: Conditions = NO_CONDITIONS
    where: Conditions = NO_CONDITIONS
    group: tuple[Unit, ...] = ()
    having: Conditions = NO_CONDITIONS
    order: Order | None = None
    limit: int | None = None
    set_operator: str | None = None
    branch: Query | None = None
    is_distinct: bool = False

    def conditions(self) -> list[Condition]:
        return self.on.conditions + self.where.conditions + self.having.conditions


Value = str | float | Unit | Query | None


def plain_tables(tables: Iterable[str | Query]) -> list[str]:
    return [table for table in tables if isinstance(table, str)]


SET_OPERATORS = ("intersect", "union", "except")
CLAUSE_WORDS = ("select", "from", "where", "group", "order", "limit", *SET_OPERATORS)
JOIN_WORDS = ("join", "on", "as")
AGGREGATES = ("max", "min", "count", "sum", "avg")
SPIDER_COMPARISONS = frozenset(
    ["between", "=", ">", "<", ">=", "<=", "!=", "in", "like", "is", "exists", "not"]
)
# Queries inside queries; a fixed bound, so that a verdict does not depend on how much stack is
# left.
MOST_NESTED_QUERIES = 50

Item = TypeVar("Item")
Tables = Sequence[str]


def parse_query(sql: str, schema: Schema) -> Query:
    """The query that the metric reads; an error says why there is none.

    >>> from nqg.sql.schema import Table
    >>> schema = Schema("pets_1", (Table("pets", ("id", "weight")),))
    >>> parse_query("SELECT T1.weight FROM Pets AS T1", schema).items[0].left.column
    'pets.weight'
    """
    words = spider_words(sql)
    return QueryReader(words, Names(schema, words)).query()


class QueryReader(WordReader):
    """Each method reads one construct."""

    def __init__(self, words: Sequence[str], names: Names) -> None:
        super().__init__(words)
        self.names, self.depth = names, 0

    def query(self) -> Query:
        self.depth += 1
        if self.depth > MOST_NESTED_QUERIES:
            raise FormatError(
                f"expected at most {MOST_NESTED_QUERIES} queries inside each other, found more"
            )
        bracket = self.take("(")
        self.expect("select")
        query = self.selection()
        self.skip_semicolons()
        if bracket:
            self.expect(")")
            self.skip_semicolons()
        operator = self.one_of(SET_OPERATORS)
        branch = self.query() if operator else None
        self.depth -= 1
        return replace(query, set_operator=operator, branch=branch)

    def selection(self) -> Query:
        # Tables are read first, because they tell what bare names of columns mean.
        start = self.place
        tables, on = self.tables()
        names = plain_tables(tables)
        behind, self.place = self.place, start
        is_distinct, items = self.take("distinct"), self.items(names)
        self.place = behind
        where = self.conditions(names) if self.take("where") else NO_CONDITIONS
        group = self.listed("group", lambda: self.unit(names)) or ()
        having = self.conditions(names) if self.take("having") else NO_CONDITIONS
        order, limit = self.order(names), self.limit()
        return Query(
            items,
            tables,
            on,
            where,
            group,
            having,
            order,
            limit,
            is_distinct=is_distinct,
        )

    def tables(self) -> tuple[tuple[str | Query, ...], Conditions]:
        """The tables behind the next `from`, wherever it is, and the conditions that join them."""
        if "from" not in self.words[self.place :]:
            raise FormatError("expected 'from' behind 'select', found none")
        self.place = self.words.index("from", self.place) + 1
        tables: list[str | Query] = []
        on: list[Condition | str] = []
        while not self.at(END):
            bracket = self.take("(")
            tables.append(self.query() if self.at("select") else self.table())
            if self.take("on"):
                on += ["and"] * bool(on) + list(self.conditions(plain_tables(tables)))
            if bracket:
                self.expect(")")
            if self.at(*CLAUSE_WORDS, ")", ";"):
                break
        return tuple(tables), Conditions(on)

    def table(self) -> str:
        self.take("join")
        name = self.names.table(self.word())
        if self.take("as"):
            self.word()
        return name

    def items(self, tables: Tables) -> tuple[Expression, ...]:
        items: list[Expression] = []
        while not self.at(*CLAUSE_WORDS, END):
            aggregate = self.one_of(AGGREGATES)
            items.append(replace(self.expression(tables), aggregate=aggregate))
            self.take(",")
        return tuple(items)

    def expression(self, tables: Tables) -> Expression:
        bracket = self.take("(")
        left, operator = self.unit(tables), self.one_of("-+*/")
        right = self.unit(tables) if operator else None
        if bracket:
            self.expect(")")
        return Expression(left, operator, right)

    def unit(self, tables: Tables) -> Unit:
        bracket = self.take("(")
        aggregate = self.one_of(AGGREGATES)
        if aggregate:
            self.expect("(")
        is_distinct = self.take("distinct")
        column = self.names.column(self.word(), tables)
        # Of the two brackets in `((count(x)` only the inner one is closed here.
        if aggregate or bracket:
            self.expect(")")
        return Unit(column, aggregate, is_distinct)

    def conditions(self, tables: Tables) -> Conditions:
        parts: list[Condition | str] = []
        while not self.at(END):
            parts.append(self.condition(tables))
            if self.at(*CLAUSE_WORDS, *JOIN_WORDS, ")", ";"):
                break
            connector = self.one_of(("and", "or"))
            if connector:
                parts.append(connector)
        return Conditions(parts)

    def condition(self, tables: Tables) -> Condition:
        left, is_negated = self.expression(tables), self.take("not")
        operator = self.one_of(SPIDER_COMPARISONS)
        if operator is None:
            raise self.complaint("a comparison")
        values = [self.value(tables)]
        if operator == "between":
            self.expect("and")
            values.append(self.value(tables))
        return Condition(left, operator, tuple(values), is_negated)

    def value(self, tables: Tables) -> Value:
        # What is neither a query nor a literal is read once more, as a column.
        start = self.place
        bracket = self.take("(")
        value = self.query() if self.at("select") else self.literal()
        if value is None:
            self.place = start
            return self.swallowing_column(tables)
        if bracket:
            self.expect(")")
        return value

    def literal(self) -> str | float | None:
        """A string or a number, if there is one here."""
        word = self.word()
        if is_string(word):
            return word
        try:
            return float(word)
        except ValueError:
            return None

    def swallowing_column(self, tables: Tables) -> Unit:
        """A column, and everything behind it up to the next word that could end a condition; `or`
        could not.
        """
        start = self.place
        while not self.at(",", ")", "and", *CLAUSE_WORDS, *JOIN_WORDS, END):
            self.place += 1
        swallowed = QueryReader(self.words[: self.place], self.names)
        swallowed.place = start
        return swallowed.unit(tables)

    def listed(self, clause: str, item: Callable[[], Item]) -> tuple[Item, ...] | None:
        """What stands behind `clause` and `by`, separated by commas, or None where there is no such
        clause.
        """
        if not self.take(clause):
            return None
        self.expect("by")
        items: list[Item] = []
        while not self.at(*CLAUSE_WORDS, ")", ";", END):
            items.append(item())
            if not self.take(","):
                break
        return tuple(items)

    def order(self, tables: Tables) -> Order | None:
        direction = "asc"

        def ordered() -> Expression:
            nonlocal direction
            expression = self.expression(tables)
            direction = self.one_of(("asc", "desc")) or direction
            return expression

        expressions = self.listed("order", ordered)
        return None if expressions is None else Order(expressions, direction)

    def limit(self) -> int | None:
        if not self.take("limit"):
            return None
        word = self.word()
        try:
            return int(word)
        except ValueError:
            raise FormatError(
                f"expected a whole number after 'limit', found '{word}'"
            ) from None
