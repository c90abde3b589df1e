"""What the names in a SQL query stand for: tables, columns and aliases by the scopes of `select`.

A context-free grammar cannot say that a column belongs to a table of its own query: `sql_problem` says it afterwards.
And aliases that count (`t1`, `CITYalias0`) depend on where a part of a query stands, so that no rule is shared between
places: `named_aliases` calls them after their tables, `numbered_aliases` counts them again.

Names are found as SQLite finds them: in the tables after `from`, then among the results that are given a name, then in
the queries around; letter case does not count. A query that cannot be parsed keeps its aliases.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from nqg.data.schema import Schema
from nqg.data.sql import sql_words
from nqg.data.sql_tree import Tree, is_query, sql_tree
from nqg.errors import FormatError

_ROW_ID = frozenset(("rowid", "oid", "_rowid_"))
_COUNTED = re.compile(r"(\w+)alias\d+", re.IGNORECASE)
_DERIVED_FIELD = re.compile(r"derived_field(_\d+)?", re.IGNORECASE)
_LATER = re.compile(r"_\d+$")

QUOTATION = "\"'"
Tables = Mapping[str, frozenset[str]]  # the columns of each


def key(name: Tree) -> str:
    """What names are compared by."""
    return name.label.strip(QUOTATION).lower()


@dataclass(eq=False, slots=True)
class Source:
    """A table after `from`, or a subquery, whose columns are the results of its first `select`."""

    table: Tree
    alias: Tree | None
    select: Select | None

    @property
    def name(self) -> str | None:
        """The name that qualifies its columns, if it has one."""
        if self.alias is not None:
            return key(self.alias)
        return key(self.table) if self.select is None else None

    def has(self, column: str, tables: Tables) -> bool:
        """Whether a column is of this source; a table that does not exist has them all."""
        if self.select is not None:
            return column == "*" or any(self.select.has(column, result, tables) for result in self.select.results)
        columns = tables.get(key(self.table))
        return columns is None or column == "*" or column in columns or column in _ROW_ID


@dataclass(eq=False, slots=True)
class Reference:
    """A column; in `t1 . *` the name is `*`."""

    qualifier: Tree | None
    name: Tree
    clause: str


@dataclass(eq=False, slots=True)
class Select:
    """One `select` with the names in it, but for those in its subqueries."""

    query: CompoundSelect
    results: tuple[Tree, ...]
    sources: list[Source] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    subqueries: list[CompoundSelect] = field(default_factory=list)
    shares_columns: bool = False  # by `natural` or `using`

    @classmethod
    def read(cls, tree: Tree, query: CompoundSelect) -> Select:
        results = tree.children[0].children
        select = cls(query, results[0].children if results[0].label == "distinct" else results)
        waiting = [(node, clause.label) for clause in reversed(tree.children) for node in reversed(clause.children)]
        while waiting:  # no recursion: a chain of operators may be longer than Python's stack
            node, clause = waiting.pop()
            if clause == "from":
                waiting += reversed(list(select.add_source(node)))
            elif is_query(node):
                select.subqueries.append(CompoundSelect.read(node, select, clause))
            elif node.label == ".":
                qualifier, name = node.children
                select.references.append(Reference(qualifier, name, clause))
            elif node.place >= 0 and key(node) not in ("true", "false"):
                select.references.append(Reference(None, node, clause))
            else:
                inside = node.children[:1] if node.label == "as" else node.children
                waiting += [(child, clause) for child in reversed(inside)]
        return select

    def add_source(self, node: Tree) -> Iterator[tuple[Tree, str]]:
        """Takes in a table or subquery; yields the nodes below joins, each with the clause in which it stands."""
        table, alias = node.children if node.label == "as" else (node, None)
        if is_query(table):
            self.subqueries.append(CompoundSelect.read(table, self.query.parent, self.query.clause))
            self.sources.append(Source(table, alias, self.subqueries[-1].selects[0]))
        elif not table.children:
            self.sources.append(Source(table, alias, None))
        else:
            left, right, *condition = table.children
            yield from ((left, "from"), (right, "from"))
            for each in condition:
                yield from ((child, "on") for child in each.children)
            self.shares_columns |= table.label.startswith("natural") or [each.label for each in condition] == ["using"]

    @property
    def around(self) -> Iterator[Select]:
        """This select and those in which its names are looked for next."""
        select: Select | None = self
        while select is not None:
            yield select
            select = select.query.parent

    @property
    def aliases(self) -> list[Tree]:
        """The names that results are given."""
        return [result.children[1] for result in self.results if result.label == "as"]

    def called(self, qualifier: Tree) -> list[Source]:
        return [source for source in self.sources if source.name == key(qualifier)]

    def source(self, qualifier: Tree) -> Source | None:
        """The nearest source that is called so."""
        return next((source for scope in self.around for source in scope.called(qualifier)), None)

    def alias(self, reference: Reference) -> Tree | None:
        """Where a result of a subquery, or of a select, is given the name that `reference` means, if it means one."""
        if reference.qualifier is None:
            owners = [owner for scope in self.around for owner in (*(each.select for each in scope.sources), scope)]
        else:
            source = self.source(reference.qualifier)
            owners = [source.select if source else None]
        aliases = (alias for owner in owners if owner is not None for alias in owner.aliases)
        return next((alias for alias in aliases if key(alias) == key(reference.name)), None)

    def has(self, column: str, result: Tree, tables: Tables) -> bool:
        """Whether a result is called so, or is a `*` that stands for such a column."""
        match result:
            case Tree("*", ()):
                among = self.sources
            case Tree(".", (qualifier, Tree("*", ()))):
                among = self.called(qualifier)
            case Tree("as" | ".", (_, name)) | (Tree(_, ()) as name):
                return key(name) == column
            case _:
                return False
        return any(source.has(column, tables) for source in among)


@dataclass(eq=False, slots=True)
class CompoundSelect:
    """The selects that `union`, `intersect` and `except` join, and in which clause of which select they stand."""

    parent: Select | None
    clause: str
    selects: list[Select] = field(default_factory=list)

    @classmethod
    def read(cls, tree: Tree, parent: Select | None = None, clause: str = "") -> CompoundSelect:
        query, selects = cls(parent, clause), [tree]
        while not selects[0].label.startswith("select"):
            selects[:1] = selects[0].children
        query.selects.extend(Select.read(each, query) for each in selects)
        return query

    def all_selects(self) -> Iterator[Select]:
        """The selects of this query and of all in it, from outside to inside."""
        for select in self.selects:
            yield select
            for subquery in select.subqueries:
                yield from subquery.all_selects()


def read_selects(query: str) -> list[Select]:
    """All selects of a query, from outside to inside; none where it cannot be parsed."""
    try:
        return list(CompoundSelect.read(sql_tree(query)).all_selects())
    except FormatError:
        return []


def sql_problem(query: str, schema: Schema) -> str:
    """The first table, alias or column of a query that does not exist or could be several, in words; "" if all is well.

    >>> from nqg.data.schema import Table
    >>> schema = Schema("hr", (Table("projects", ("id", "name")), Table("offices", ("id", "city"))))
    >>> sql_problem("select name from projects where city = 'Oslo'", schema)
    "table 'projects' has no column 'city'"
    >>> sql_problem("select t1.name from projects as t1 join offices as t2 on t1.id = t2.id", schema)
    ''
    """
    try:
        selects = list(CompoundSelect.read(sql_tree(query)).all_selects())
    except FormatError as error:
        return str(error)
    tables = {table.name: frozenset(table.columns) for table in schema.tables}
    return next(_problems(selects, tables), "")


def _problems(selects: Sequence[Select], tables: Tables) -> Iterator[str]:
    for select in selects:
        for source in select.sources:
            if source.select is None and key(source.table) not in tables:
                yield f"there is no table '{source.table.label}'"
        for name, number in Counter(source.name for source in select.sources).items():
            if name is not None and number > 1:  # SQLite makes do with it until a column could be of both
                yield f"{number} tables of the query are called '{name}'"
    for select in selects:
        for reference in select.references:
            found = _found(select, reference, tables)
            if not found and reference.clause == "order":  # after a union it may name a column of any of its selects
                found = max(_found(each, reference, tables) for each in select.query.selects)
            if not found:
                yield _missing(select, reference)
            elif found > 1:
                yield f"column '{reference.name.label}' could be of several tables"


def _found(select: Select, reference: Reference, tables: Tables) -> int:
    """How many columns a reference could mean, in the nearest scope that has one."""
    column, clause, qualifier = key(reference.name), reference.clause, reference.qualifier
    for scope in [select] if clause in ("group", "order") or column == "*" else select.around:
        among = scope.sources if qualifier is None else scope.called(qualifier)
        if number := sum(source.has(column, tables) for source in among):
            return 1 if scope.shares_columns else number
        if qualifier is None and clause != "select" and column in map(key, scope.aliases):
            return 1
        clause = scope.query.clause
    return 0


def _missing(select: Select, reference: Reference) -> str:
    known = select.sources
    if reference.qualifier is not None:
        source = select.source(reference.qualifier)
        if source is None:
            return f"no table of the query is called '{reference.qualifier.label}'"
        known = [source]
    called = [each.table.label if each.select is None else each.name or "(select …)" for each in known]
    if len(called) == 1:
        return f"table '{called[0]}' has no column '{reference.name.label}'"
    return f"no table of the query ({', '.join(called)}) has a column '{reference.name.label}'"


@dataclass(frozen=True, slots=True)
class AliasStyle:
    """How aliases are made: `t1`, `t2`, … anew in each select or, without a prefix, `CITYalias0` through the query.

    Where tables have aliases of their own (`dogs as d`), `names` has them, and a second use counts: `d2`.
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
        own: dict[str, Counter[str]] = defaultdict(Counter)
        for source in (source for query in queries for select in read_selects(query) for source in select.sources):
            if source.alias is not None:
                alias = source.alias.label
                prefix = alias.rstrip("0123456789")
                styles[None if _COUNTED.fullmatch(alias) else "" if prefix == alias else prefix] += 1
                if prefix == alias and source.select is None:
                    own[key(source.table)][alias] += 1
        usual = styles.most_common(1)[0][0] if styles else "t"
        if usual != "":
            return cls(usual)
        return cls(names={table: found.most_common(1)[0][0] for table, found in sorted(own.items())})


T1 = AliasStyle()


def qualified_share(queries: Iterable[str]) -> float:
    """The share of columns that stand behind an alias or a table, of those in queries.

    >>> qualified_share(["select t1.a from x as t1", "select a , b , x.c from x"])
    0.5
    """
    everything = [each for query in queries for select in read_selects(query) for each in select.references]
    return sum(each.qualifier is not None for each in everything) / max(len(everything), 1)


def named_aliases(query: str) -> str:
    """The query with its aliases called after their tables, a second use of a table in the same scope `city_2`.

    >>> named_aliases("select t1.name from dogs as t1 join owners as t2 on t1.owner = t2.id")
    'select dogs.name from dogs as dogs join owners as owners on dogs.owner = owners.id'
    """

    def counted_on(base: str) -> Iterator[str]:
        return (base if number == 1 else f"{base}_{number}" for number in count(1))

    selects = read_selects(query)
    aliases = _assigned(selects, lambda source: counted_on(_base(source, "derived_table")))
    for select in selects:
        names: dict[str, Iterator[str]] = {}
        for alias in select.aliases:
            if counted := _COUNTED.fullmatch(alias.label):
                aliases[alias.place] = next(names.setdefault(counted[1], counted_on(counted[1])))
    return _renamed(query, selects, aliases)


def numbered_aliases(query: str, style: AliasStyle = T1) -> str:
    """The query with its aliases counted: what `named_aliases` changed, as the data have it.

    >>> numbered_aliases("select dogs.name from dogs as dogs join owners as owners on dogs.owner = owners.id")
    'select t1.name from dogs as t1 join owners as t2 on t1.owner = t2.id'
    """

    def candidates(source: Source) -> Iterator[str]:
        own = None if source.select is not None else style.names.get(key(source.table))
        return (own if own and number == 1 else f"{own or style.prefix}{number}" for number in count(1))

    selects = read_selects(query)
    if style.prefix is not None:
        return _renamed(query, selects, _assigned(selects, candidates))
    bases = {}
    for select in selects:
        for source in select.sources:
            if source.alias is not None:
                bases[source.alias.place] = _base(source, _LATER.sub("", source.alias.label))
        for alias in select.aliases:
            if _DERIVED_FIELD.fullmatch(alias.label):
                bases[alias.place] = _LATER.sub("", alias.label)
    numbers: dict[str, Iterator[int]] = defaultdict(count)
    aliases = {place: f"{bases[place]}alias{next(numbers[bases[place]])}" for place in sorted(bases)}
    return _renamed(query, selects, aliases)


def _base(source: Source, of_subquery: str) -> str:
    """What an alias is called after: the table as it is written, or what stands before the number of a subquery's."""
    if source.select is None:
        return source.table.label.strip(QUOTATION)
    counted = _COUNTED.fullmatch(source.alias.label) if source.alias is not None else None
    return counted[1] if counted else of_subquery


def _assigned(selects: Sequence[Select], candidates: Callable[[Source], Iterable[str]]) -> dict[int, str]:
    """For each alias the first candidate that is free in its scope and hides no name from around that is used there.

    An alias is known by its place among the words of the query.
    """
    aliases: dict[int, str] = {}

    def called(source: Source) -> str | None:
        return source.name if source.alias is None else aliases.get(source.alias.place, "").lower()

    for select in selects:  # from outside to inside, so that what is around has its names
        used = [
            inner.source(reference.qualifier)
            for inner in (select, *(each for query in select.subqueries for each in query.all_selects()))
            for reference in inner.references
            if reference.qualifier is not None
        ]
        taken = {called(source) for source in used if source is not None and source not in select.sources}
        taken |= {source.name for source in select.sources if source.alias is None}
        for source in select.sources:
            if source.alias is not None:
                name = next(name for name in candidates(source) if name.lower() not in taken)
                aliases[source.alias.place] = name
                taken.add(name.lower())
    return aliases


def _renamed(query: str, selects: Sequence[Select], aliases: Mapping[int, str]) -> str:
    """The query with other aliases where they are given and where they are used; white space stays as it was."""
    if not aliases:
        return query
    names = dict(aliases)
    for select in selects:
        for reference in select.references:
            meant = [(reference.name, select.alias(reference))]
            if reference.qualifier is not None and (source := select.source(reference.qualifier)):
                meant.append((reference.qualifier, source.alias))
            names |= {used.place: aliases[alias.place] for used, alias in meant if alias and alias.place in aliases}
    parts, end = [], 0
    for place, word in enumerate(sql_words(query)):
        begin = query.index(word, end)  # only white space is between
        parts += [query[end:begin], names.get(place, word)]
        end = begin + len(word)
    return "".join(parts) + query[end:]
