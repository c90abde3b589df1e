"""What the names in a SQL query stand for: tables, columns and aliases, by the scopes that sqlglot
finds.

A context-free grammar cannot say that a column belongs to a table of its own query: `sql_problem`
says it afterwards. And aliases that count (`t1`, `CITYalias0`) depend on where a part of a query
stands, so that no rule is shared between places: `named_aliases` calls them after their tables,
`numbered_aliases` counts them again.

Parsing and scopes are sqlglot's. Which scope a name is looked up in is SQLite's way, which
sqlglot's `qualify` does not follow: first the tables after `from`, then the results that are given
a name, then the queries around; letter case does not count. A query that cannot be parsed keeps its
aliases.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count

import sqlglot
from sqlglot import exp
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.optimizer.scope import Scope, build_scope

from nqg.errors import FormatError
from nqg.sql.schema import Schema

ROW_IDS = frozenset(("rowid", "oid", "_rowid_"))
COUNTED_ALIAS = re.compile(r"(\w+)alias\d+", re.IGNORECASE)
DERIVED_FIELD = re.compile(r"derived_field(_\d+)?", re.IGNORECASE)
LATER_USE = re.compile(r"_\d+$")
CLAUSES = (exp.Where, exp.Group, exp.Having, exp.Order, exp.Join, exp.Select)

Tables = Mapping[str, frozenset[str]]  # the columns of each


class Dialect(SQLite):
    """SQLite's SQL, and names such as `18_49_rating_share`, which Spider has."""

    IDENTIFIERS_CAN_START_WITH_DIGIT = True


@dataclass(eq=False, slots=True)
class Source:
    """A table after `from`, or a subquery, whose columns are the results of its first `select`."""

    node: exp.Expr
    select: Select | None = None

    @property
    def alias(self) -> exp.Identifier | None:
        alias = self.node.args.get("alias")
        return alias and alias.this

    @property
    def name(self) -> str:
        """The name that qualifies its columns; a subquery may have none."""
        return self.node.alias_or_name.lower()

    @property
    def label(self) -> str:
        """What a message calls it."""
        if isinstance(self.node, exp.Table):
            return self.node.name
        return self.node.alias or "(select …)"

    def has(self, column: str, tables: Tables) -> bool:
        """Whether a column is of this source; a table that does not exist has them all."""
        if column == "*":
            return True
        if self.select is not None:
            return self.select.has_result(column, tables)
        columns = tables.get(self.node.name.lower())
        return columns is None or column in columns


@dataclass(eq=False, slots=True)
class Select:
    """One `select` with the names in it, but for those in its subqueries."""

    results: list[exp.Expr]
    parent: Select | None  # where names are looked for next
    clause: type[exp.Expr] | None  # in which of the parent's clauses it stands
    columns: list[exp.Column]
    shares_columns: bool = False  # where `natural` or `using` make one column of two
    sources: list[Source] = field(default_factory=list)
    # What `union` and the like join, itself among them.
    compound: list[Select] = field(default_factory=list)

    @property
    def enclosing(self) -> Iterator[Select]:
        """This select and those in which its names are looked for next."""
        select: Select | None = self
        while select is not None:
            yield select
            select = select.parent

    @property
    def aliases(self) -> list[exp.Identifier]:
        """The names that results are given."""
        return [
            result.args["alias"]
            for result in self.results
            if isinstance(result, exp.Alias)
        ]

    def called(self, qualifier: str) -> list[Source]:
        return [source for source in self.sources if source.name == qualifier.lower()]

    def source_of(self, column: exp.Column) -> Source | None:
        """The nearest source that is called as a column is qualified."""
        if column.table:
            for select in self.enclosing:
                for source in select.called(column.table):
                    return source
        return None

    def alias_of(self, column: exp.Column) -> exp.Identifier | None:
        """Where a result of a subquery, or of a select, is given the name that a column means, if
        it means one.
        """
        owners: list[Select | None] = []
        if column.table:
            source = self.source_of(column)
            if source is not None:
                owners.append(source.select)
        else:
            for select in self.enclosing:
                owners.extend(source.select for source in select.sources)
                owners.append(select)
        # A table has no select, and gives no names to results.
        for owner in filter(None, owners):
            for alias in owner.aliases:
                if alias.name.lower() == column.name.lower():
                    return alias
        return None

    def has_result(self, column: str, tables: Tables) -> bool:
        """Whether a result is called so, or is a `*` that stands for such a column."""
        for result in self.results:
            if result.is_star:
                # A star with a table in front stands for the columns of that table
                # only.
                among = self.sources
                if isinstance(result, exp.Column):
                    among = self.called(result.table)
                if any(source.has(column, tables) for source in among):
                    return True
            elif (
                isinstance(result, (exp.Alias, exp.Column))
                and result.output_name.lower() == column
            ):
                return True
        return False


def parse_query(query: str) -> tuple[exp.Expr, list[Select]]:
    """The tree of a query, and all its selects from outside to inside; a query that cannot be
    parsed is refused with the place.
    """
    if not re.match(r"\s*select\b", query, flags=re.IGNORECASE):
        raise FormatError(
            f"expected a query that begins with 'select', found {query[:80]!r}"
        )
    try:
        # An empty statement, such as behind the last semicolon, is None.
        statements = list(filter(None, sqlglot.parse(query, dialect=Dialect)))
        scope = build_scope(statements[0])
        if len(statements) > 1 or scope is None:
            raise FormatError(f"expected one query, found {query[:80]!r}")
        return statements[0], list(_selects(scope, None, None))
    except ParseError as error:
        # Name the place by the words before it, because a query may be one long line.
        fault = error.errors[0]
        before = " ".join(str(fault["start_context"]).split()[-4:])
        raise FormatError(
            f"the query cannot be parsed at '{fault['highlight']}' after '{before}'"
        ) from None
    except SqlglotError as error:
        raise FormatError(f"the query cannot be parsed: {error}") from None
    except RecursionError:
        raise FormatError("the query is nested too deeply to be parsed") from None


def _selects(
    scope: Scope, parent: Select | None, clause: type[exp.Expr] | None
) -> Iterator[Select]:
    """The selects of a query and of all in it, from outside to inside."""
    compound: list[Select] = []
    joined = _joined_scopes(scope)
    for operand in joined:
        shares = any(
            join.method == "NATURAL" or join.args.get("using")
            for join in operand.find_all(exp.Join)
        )
        query = operand.expression
        results = query.selects if isinstance(query, exp.Select) else []
        columns = _columns(operand)
        compound.append(
            Select(results, parent, clause, columns, shares, compound=compound)
        )
    if scope is not joined[-1]:
        # The `order by` of a union stands behind its last select.
        compound[-1].columns += _columns(scope)
    for select, operand in zip(compound, joined, strict=True):
        # Subqueries after `from` do not see the tables beside them.
        inner: list[Select] = []
        first_selects: dict[int, Select] = {}
        for child in operand.derived_table_scopes:
            derived = list(_selects(child, parent, clause))
            first_selects[id(child.expression)] = derived[0]
            inner += derived
        for child in operand.subquery_scopes:
            inner += _selects(child, select, _clause(child.expression))
        # Tables and subqueries come in the order of the text.
        for node in operand.find_all(exp.Table, exp.Subquery):
            subquery = first_selects.get(id(node.unnest()))
            if subquery is not None or isinstance(node, exp.Table):
                select.sources.append(Source(node, subquery))
        yield select
        yield from inner


def _joined_scopes(scope: Scope) -> list[Scope]:
    """The selects that `union`, `intersect` and `except` join."""
    operands = map(_joined_scopes, scope.set_operation_scopes)
    return list(chain.from_iterable(operands)) or [scope]


def _columns(scope: Scope) -> list[exp.Column]:
    """The columns that are named in a scope; what stands in double quotation marks alone is a
    string.
    """
    columns = [
        column
        for column in scope.find_all(exp.Column)
        if column.table or not column.this.args.get("quoted")
    ]
    for join in scope.find_all(exp.Join):
        columns += [exp.Column(this=name.copy()) for name in join.args.get("using", ())]
    return columns


def _clause(node: exp.Expr) -> type[exp.Expr] | None:
    """The kind of clause in which a node stands."""
    clause = node.find_ancestor(*CLAUSES)
    return None if clause is None else type(clause)


def read_selects(query: str) -> list[Select]:
    """All selects of a query, from outside to inside; none where it cannot be parsed."""
    try:
        _, selects = parse_query(query)
    except FormatError:
        return []
    return selects


def sql_problem(query: str, schema: Schema) -> str:
    """The first table, alias or column of a query that does not exist or could be several, in
    words; "" if all is well.

    >>> from nqg.sql.schema import Table
    >>> schema = Schema("hr", (Table("projects", ("id", "name")), Table("offices", ("id", "city"))))
    >>> sql_problem("select name from projects where city = 'Oslo'", schema)
    "table 'projects' has no column 'city'"
    >>> sql_problem("select t1.name from projects as t1 join offices as t2 on t1.id = t2.id", schema)
    ''
    """
    try:
        _, selects = parse_query(query)
    except FormatError as error:
        return str(error)
    return name_problem(selects, schema)


def name_problem(
    selects: Sequence[Select], schema: Schema, row_ids: frozenset[str] = ROW_IDS
) -> str:
    """The first problem of the names in a query, whose tables all have `row_ids`, too."""
    tables: dict[str, frozenset[str]] = {}
    for table, columns in schema.columns_of_tables.items():
        tables[table] = columns | row_ids
    # The problems are found lazily, so nothing after the first is looked at.
    return next(_problems(selects, tables), "")


def _problems(selects: Sequence[Select], tables: Tables) -> Iterator[str]:
    for select in selects:
        for source in select.sources:
            table = source.node.name
            if isinstance(source.node, exp.Table) and table.lower() not in tables:
                yield f"there is no table '{table}'"
        # SQLite makes do with two tables of one name until a column could be of both.
        for name, number in Counter(source.name for source in select.sources).items():
            if name and number > 1:
                yield f"{number} tables of the query are called '{name}'"
    for select in selects:
        for column in select.columns:
            number = _candidates(select, column, tables)
            # After a union, `order by` may name a column of any select.
            if number == 0 and _clause(column) is exp.Order:
                number = max(
                    _candidates(operand, column, tables) for operand in select.compound
                )
            if number == 0:
                yield _missing(select, column)
            elif number > 1:
                yield f"column '{column.name}' could be of several tables"


def _candidates(select: Select, column: exp.Column, tables: Tables) -> int:
    """How many columns a name could mean, in the nearest select that has one."""
    name = column.name.lower()
    clause = _clause(column)
    is_local = clause in (exp.Group, exp.Order) or column.is_star
    for scope in select.enclosing:
        among = scope.called(column.table) if column.table else scope.sources
        number = sum(source.has(name, tables) for source in among)
        if number > 0:
            return 1 if scope.shares_columns else number
        # `where` and what comes after it may use the name of a result.
        named = (alias.name.lower() for alias in scope.aliases)
        if not column.table and clause is not exp.Select and name in named:
            return 1
        if is_local:
            break
        clause = scope.clause
    return 0


def _missing(select: Select, column: exp.Column) -> str:
    sources = select.sources
    if column.table:
        source = select.source_of(column)
        if source is None:
            return f"no table of the query is called '{column.table}'"
        sources = [source]
    labels = [source.label for source in sources]
    if len(labels) == 1:
        return f"table '{labels[0]}' has no column '{column.name}'"
    return f"no table of the query ({', '.join(labels)}) has a column '{column.name}'"


@dataclass(frozen=True, slots=True)
class AliasStyle:
    """How aliases are made: `t1`, `t2`, … anew in each select or, without a prefix, `CITYalias0`
    through the query.

    Where tables have aliases of their own (`dogs as d`), `names` has them, and a second use counts:
    `d2`.
    """

    prefix: str | None = "t"
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, queries: Iterable[str]) -> AliasStyle:
        """The style that most aliases of the queries follow.

        >>> AliasStyle.of(["SELECT T1.a FROM x AS T1 JOIN y AS T2"])
        AliasStyle(prefix='T', names={})
        >>> AliasStyle.of(["select d.a from dogs as d"]).names
        {'dogs': 'd'}
        """
        styles: Counter[str | None] = Counter()
        names: dict[str, Counter[str]] = defaultdict(Counter)
        selects = chain.from_iterable(map(read_selects, queries))
        for source, alias in _aliased_sources(selects):
            prefix = alias.name.rstrip("0123456789")
            if COUNTED_ALIAS.fullmatch(alias.name):
                styles[None] += 1
            elif prefix != alias.name:
                styles[prefix] += 1
            else:
                styles[""] += 1
                if source.select is None:
                    names[source.node.name.lower()][alias.name] += 1
        if not styles:
            return cls()
        usual = styles.most_common(1)[0][0]
        if usual != "":
            return cls(usual)
        chosen: dict[str, str] = {}
        for table, aliases in sorted(names.items()):
            chosen[table] = aliases.most_common(1)[0][0]
        return cls(names=chosen)


T1 = AliasStyle()


def _aliased_sources(
    selects: Iterable[Select],
) -> Iterator[tuple[Source, exp.Identifier]]:
    for select in selects:
        for source in select.sources:
            if source.alias is not None:
                yield source, source.alias


def qualified_share(queries: Iterable[str]) -> float:
    """The share of columns that stand behind an alias or a table, of those in queries.

    >>> qualified_share(["select t1.a from x as t1", "select a , b , x.c from x"])
    0.5
    """
    columns: list[exp.Column] = []
    for select in chain.from_iterable(map(read_selects, queries)):
        columns += select.columns
    return sum(column.table != "" for column in columns) / max(len(columns), 1)


def named_aliases(query: str) -> str:
    """The query with its aliases called after their tables, a second use of a table in the same
    scope `city_2`.

    >>> named_aliases("select t1.name from dogs as t1 join owners as t2 on t1.owner = t2.id")
    'select dogs.name from dogs as dogs join owners as owners on dogs.owner = owners.id'
    """

    def numbered(base: str) -> Iterator[str]:
        yield base
        for number in count(2):
            yield f"{base}_{number}"

    selects = read_selects(query)
    names = _assigned(selects, lambda source: numbered(_base(source, "derived_table")))
    # Every select counts its own results, from the plain name on.
    for select in selects:
        fields: dict[str, Iterator[str]] = {}
        for alias in select.aliases:
            counted = COUNTED_ALIAS.fullmatch(alias.name)
            if counted:
                base = counted[1]
                names[_start(alias)] = next(fields.setdefault(base, numbered(base)))
    return _renamed(query, selects, names)


def numbered_aliases(query: str, style: AliasStyle = T1) -> str:
    """The query with its aliases counted: what `named_aliases` changed, as the data have it.

    >>> numbered_aliases("select dogs.name from dogs as dogs join owners as owners on dogs.owner = owners.id")
    'select t1.name from dogs as t1 join owners as t2 on t1.owner = t2.id'
    """

    def candidates(source: Source) -> Iterator[str]:
        prefix = style.prefix
        first = 1
        # A table with an alias of its own counts from its second use on.
        if source.select is None and source.node.name.lower() in style.names:
            prefix = style.names[source.node.name.lower()]
            yield prefix
            first = 2
        for number in count(first):
            yield f"{prefix}{number}"

    selects = read_selects(query)
    if style.prefix is not None:
        return _renamed(query, selects, _assigned(selects, candidates))
    # Aliases count through the whole query, each after its table: `CITYalias0`.
    bases: dict[int, str] = {}
    for source, alias in _aliased_sources(selects):
        bases[_start(alias)] = _base(source, LATER_USE.sub("", alias.name))
    for select in selects:
        for alias in select.aliases:
            if DERIVED_FIELD.fullmatch(alias.name):
                bases[_start(alias)] = LATER_USE.sub("", alias.name)
    numbers: dict[str, Iterator[int]] = defaultdict(count)
    names: dict[int, str] = {}
    for start, base in sorted(bases.items()):
        names[start] = f"{base}alias{next(numbers[base])}"
    return _renamed(query, selects, names)


def _base(source: Source, of_subquery: str) -> str:
    """What an alias is called after: the table as it is written, or what stands before the number
    of a subquery's.
    """
    if source.select is None:
        return source.node.name
    counted = COUNTED_ALIAS.fullmatch(source.node.alias)
    return counted[1] if counted else of_subquery


def _assigned(
    selects: Sequence[Select], candidates: Callable[[Source], Iterable[str]]
) -> dict[int, str]:
    """For each alias, by its place in the text, the first candidate that is free in its scope.

    A name of an outer query that is used in the scope is not free either: it would be hidden.
    """
    names: dict[int, str] = {}

    def called(source: Source) -> str:
        if source.alias is None:
            return source.name
        return names.get(_start(source.alias), "").lower()

    # The source that each qualified column means, with the select in which it is used.
    used: list[tuple[Select, Source]] = []
    for select in selects:
        for column in select.columns:
            source = select.source_of(column)
            if source is not None:
                used.append((select, source))
    # From outside to inside, so that what is around has its names.
    for select in selects:
        taken = {source.name for source in select.sources if source.alias is None}
        for inner, meant in used:
            if select in inner.enclosing and meant not in select.sources:
                taken.add(called(meant))
        for source, alias in _aliased_sources([select]):
            for name in candidates(source):
                if name.lower() not in taken:
                    break
            names[_start(alias)] = name
            taken.add(name.lower())
    return names


def _renamed(query: str, selects: Sequence[Select], aliases: Mapping[int, str]) -> str:
    """The query with other aliases where they are given and where they are used; all else stays as
    it was.
    """
    names = dict(aliases)
    ends: dict[int, int] = {}

    def rename(identifier: exp.Identifier, alias: exp.Identifier | None) -> None:
        if alias is not None and _start(alias) in aliases:
            names[_start(identifier)] = aliases[_start(alias)]
            ends[_start(identifier)] = identifier.meta["end"] + 1

    for select in selects:
        # An alias is renamed where it is given, and then where columns use it.
        for alias in select.aliases:
            rename(alias, alias)
        for _, alias in _aliased_sources([select]):
            rename(alias, alias)
        for column in select.columns:
            rename(column.this, select.alias_of(column))
            source = select.source_of(column)
            if source is not None:
                rename(column.args["table"], source.alias)
    # Replace from left to right, and copy what lies between two names unchanged.
    pieces: list[str] = []
    end = 0
    for start, name in sorted(names.items()):
        pieces += [query[end:start], name]
        end = ends[start]
    return "".join(pieces) + query[end:]


def _start(identifier: exp.Identifier) -> int:
    """Where a name begins in the text of its query."""
    start: int = identifier.meta["start"]
    return start
