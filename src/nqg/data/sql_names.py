"""What the names in a SQL query stand for: tables, columns and aliases by the scopes of `select`.

A context-free grammar cannot say that a column belongs to a table of its own query: `sql_problem` says it afterwards.
And aliases that count (`t1`, `CITYalias0`) depend on where a part of a query stands, so that no rule is shared between
places: `named_aliases` calls them after their tables, `numbered_aliases` counts them again.

Names are found as SQLite finds them: in the tables after `from`, then among the results that are given a name, then in
the queries around; letter case does not count. Quotation marks make strings, never names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from nqg.data.schema import Schema
from nqg.data.sql import NAME, RESERVED, word_matches

_CLAUSES = frozenset(("select", "from", "on", "where", "group", "having", "order", "limit"))
_KEYWORDS = RESERVED | {"case", "when", "then", "else", "using", "offset", "escape", "glob", "collate", "true", "false"}
_DEEPEST = 100  # further subqueries are read as if they stood beside each other
_ROW_ID = frozenset(("rowid", "oid", "_rowid_"))
_COUNTED = re.compile(r"(\w+)alias\d+", re.IGNORECASE)
_DERIVED_FIELD = re.compile(r"derived_field(_\d+)?", re.IGNORECASE)
_LATER = re.compile(r"_\d+$")


@dataclass(eq=False, slots=True)
class Source:
    """A table or subquery after `from`; `table` and `alias` are positions of words."""

    table: int | None = None
    subquery: CompoundSelect | None = None
    alias: int | None = None


@dataclass(eq=False, slots=True)
class Reference:
    """A column, by the positions of its words; in `t1 . *` the name is `*`."""

    qualifier: int | None
    name: int
    clause: str


@dataclass(eq=False, slots=True)
class Select:
    """One `select` with the names in it, but for those in its subqueries; results are (begin, end, alias) of words."""

    query: CompoundSelect
    sources: list[Source] = field(default_factory=list)
    results: list[tuple[int, int, int | None]] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    subqueries: list[CompoundSelect] = field(default_factory=list)
    shares_columns: bool = False  # by `natural` or `using`

    @property
    def around(self) -> Iterator[Select]:
        """This select and those in which its names are looked for next."""
        select: Select | None = self
        while select is not None:
            yield select
            select = select.query.parent


@dataclass(eq=False, slots=True)
class CompoundSelect:
    """The selects that `union`, `intersect` and `except` join, and in which clause of which select they stand."""

    parent: Select | None
    clause: str = ""
    selects: list[Select] = field(default_factory=list)

    def all_selects(self) -> Iterator[Select]:
        """The selects of this query and of all in it, from outside to inside."""
        for select in self.selects:
            yield select
            for subquery in select.subqueries:
                yield from subquery.all_selects()


@dataclass(slots=True)
class _Reader:
    """Reads the scopes of a query; what is not SQL gives some scopes or other."""

    words: list[str]  # in lower case
    at: int = 0
    depth: int = 0  # of subqueries

    def query(self, parent: Select | None = None, inside: str = "") -> CompoundSelect:
        """The query that begins here with `select`; ends at its bracket or at the end of the words."""
        query, depth, clause = CompoundSelect(parent, inside), 0, ""
        while self.at < len(self.words) and (depth or self.words[self.at] != ")"):
            word = self.words[self.at]
            if word in _CLAUSES:
                if clause == "select" and not depth:
                    self.end_result(query.selects[-1])
                clause = word
                if word == "select":
                    query.selects.append(Select(query))
                    self.at += self.words[self.at + 1 : self.at + 2] in (["distinct"], ["all"])
                    query.selects[-1].results.append((self.at + 1, self.at + 1, None))
            elif word == "(" and self.word(1) == "select" and self.depth < _DEEPEST:
                self.subquery(query.selects[-1], clause)
            elif word in ("(", ")"):
                depth += 1 if word == "(" else -1
            else:
                clause = self.name_or_mark(query.selects[-1], clause, depth)
            self.at += 1
        if clause == "select":
            self.end_result(query.selects[-1])
        return query

    def word(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.words[at] if 0 <= at < len(self.words) else ""

    def is_name(self, ahead: int = 0) -> bool:
        word = self.word(ahead)
        is_end = word == "end" and "case" in self.words  # elsewhere a name like any other
        return word not in _KEYWORDS and not is_end and NAME.fullmatch(word) is not None

    def subquery(self, select: Select, clause: str) -> None:
        self.at += 1
        self.depth += 1
        subquery = self.query(*((select.query.parent, select.query.clause) if clause == "from" else (select, clause)))
        self.depth -= 1
        select.subqueries.append(subquery)
        if clause == "from":
            select.sources.append(Source(subquery=subquery))
            self.alias(select.sources[-1])

    def alias(self, source: Source) -> None:
        """Moves on to the alias, where one follows."""
        ahead = 2 if self.word(1) == "as" else 1
        if self.is_name(ahead):
            self.at += ahead
            source.alias = self.at

    def name_or_mark(self, select: Select, clause: str, depth: int) -> str:
        """Takes in what is no bracket and begins no clause, up to its last word; says which clause goes on."""
        word = self.word()
        if clause == "select" and not depth and word in (",", "as"):
            if word == ",":
                self.end_result(select)
                select.results.append((self.at + 1, self.at + 1, None))
            elif self.is_name(1):
                self.at += 1
                select.results[-1] = (select.results[-1][0], self.at, self.at)
        elif clause in ("from", "on") and (word == "join" or (word == "," and not depth)):
            return "from"
        elif word in ("natural", "using"):
            select.shares_columns = True
            return "on" if word == "using" else clause
        elif clause == "from" and self.is_name():
            select.sources.append(Source(table=self.at))
            self.alias(select.sources[-1])
        elif self.is_name() and self.word(1) == "." and self.word(2):
            self.at += 2
            select.references.append(Reference(self.at - 2, self.at, clause))
        elif self.is_name() and self.word(1) != "(" and not (self.word(-1) == "as" and depth):
            select.references.append(Reference(None, self.at, clause))
        return clause

    def end_result(self, select: Select) -> None:
        begin, _, alias = select.results[-1]
        select.results[-1] = (begin, self.at, alias)


@dataclass(slots=True)
class _Names:
    """A query and what its names stand for."""

    text: str
    spans: list[tuple[int, int]]
    words: list[str]
    lower: list[str]
    query: CompoundSelect | None

    @classmethod
    def of(cls, text: str) -> _Names:
        spans = [match.span() for match in word_matches(text)]
        words = [text[slice(*span)] for span in spans]
        lower = [word.lower() for word in words]
        return cls(text, spans, words, lower, _Reader(lower).query() if lower[:1] == ["select"] else None)

    @property
    def selects(self) -> Iterator[Select]:
        return iter(()) if self.query is None else self.query.all_selects()

    def name(self, source: Source) -> str | None:
        """What the query calls a source, in lower case."""
        at = source.table if source.alias is None else source.alias
        return None if at is None else self.lower[at]

    def source(self, select: Select, qualifier: int) -> Source | None:
        """The nearest source that is called as the word at `qualifier`."""
        for scope in select.around:
            for source in scope.sources:
                if self.name(source) == self.lower[qualifier]:
                    return source
        return None

    def result(self, select: Select, reference: Reference) -> int | None:
        """Where the result is given its name that `reference` means, if it means one: of a subquery or of a select."""
        if reference.qualifier is not None:
            source = self.source(select, reference.qualifier)
            sources = [] if source is None else [[source]]
        else:
            sources = [scope.sources for scope in select.around]
        for scope, among in zip(select.around, sources, strict=False):
            inner = [source.subquery.selects[0] for source in among if source.subquery is not None]
            for owner in [*inner, *([scope] if reference.qualifier is None else [])]:
                for _, _, alias in owner.results:
                    if alias is not None and self.lower[alias] == self.lower[reference.name]:
                        return alias
        return None

    def rewritten(self, aliases: Mapping[int, str]) -> str:
        """The query with other aliases where they are given and where they are used; white space stays as it was."""
        names = dict(aliases)
        for select in self.selects:
            for reference in select.references:
                places = {reference.name: self.result(select, reference)}
                if reference.qualifier is not None and (source := self.source(select, reference.qualifier)):
                    places[reference.qualifier] = source.alias
                names |= {
                    used: aliases[alias] for used, alias in places.items() if alias is not None and alias in aliases
                }
        parts, end = [], 0
        for at, (begin, after) in enumerate(self.spans):
            parts += [self.text[end:begin], names.get(at, self.words[at])]
            end = after
        return "".join(parts) + self.text[end:]


def sql_problem(query: str, schema: Schema) -> str:
    """The first table, alias or column of a query that does not exist or could be several, in words; "" if all is well.

    >>> from nqg.data.schema import Table
    >>> schema = Schema("hr", (Table("projects", ("id", "name")), Table("offices", ("id", "city"))))
    >>> sql_problem("select name from projects where city = 'Oslo'", schema)
    "table 'projects' has no column 'city'"
    >>> sql_problem("select t1.name from projects as t1 join offices as t2 on t1.id = t2.id", schema)
    ''
    """
    names = _Names.of(query)
    if names.query is None:
        return f"expected a query that begins with 'select', found {query!r}"
    tables = {table.name: frozenset(table.columns) for table in schema.tables}
    return next(_problems(names, tables), "")


Columns = frozenset[str]


def _problems(names: _Names, tables: Mapping[str, Columns]) -> Iterator[str]:
    for select in names.selects:
        for source in select.sources:
            if source.table is not None and names.lower[source.table] not in tables:
                yield f"there is no table '{names.words[source.table]}'"
        for name, number in Counter(map(names.name, select.sources)).items():
            if name is not None and number > 1:  # SQLite makes do with it until a column could be of both
                yield f"{number} tables of the query are called '{name}'"
    for select in names.selects:
        for reference in select.references:
            found = _found(names, tables, select, reference)
            if not found and reference.clause == "order":  # after a union it may name a column of any of its selects
                found = max(_found(names, tables, each, reference) for each in select.query.selects)
            if not found:
                yield _missing(names, select, reference)
            elif found > 1:
                yield f"column '{names.words[reference.name]}' could be of several tables"


def _found(names: _Names, tables: Mapping[str, Columns], select: Select, reference: Reference) -> int:
    """How many columns a reference could mean, in the nearest scope that has one."""
    column, clause = names.lower[reference.name], reference.clause
    for scope in [select] if clause in ("group", "order") or column == "*" else select.around:
        among = scope.sources
        if reference.qualifier is not None:
            among = [source for source in among if names.name(source) == names.lower[reference.qualifier]]
        count = sum(_has(names, tables, source, column) for source in among)
        if count:
            return 1 if scope.shares_columns else count
        may_be_result = reference.qualifier is None and clause != "select"
        if may_be_result and any(alias is not None and names.lower[alias] == column for _, _, alias in scope.results):
            return 1
        clause = scope.query.clause
    return 0


def _has(names: _Names, tables: Mapping[str, Columns], source: Source, column: str) -> bool:
    if source.table is not None:
        columns = tables.get(names.lower[source.table])
        return columns is None or column == "*" or column in columns or column in _ROW_ID
    if source.subquery is None or not source.subquery.selects:
        return True
    select = source.subquery.selects[0]
    for begin, end, alias in select.results:
        match names.lower[begin : end if alias is None else alias + 1]:
            case ["*"]:
                is_result = any(_has(names, tables, each, column) for each in select.sources)
            case [qualifier, ".", "*"]:
                of = [each for each in select.sources if names.name(each) == qualifier]
                is_result = any(_has(names, tables, each, column) for each in of)
            case [*_, name]:
                is_result = name == column and (alias is not None or end - begin in (1, 3))
            case _:
                is_result = False
        if is_result or column == "*":
            return True
    return False


def _missing(names: _Names, select: Select, reference: Reference) -> str:
    column = names.words[reference.name]
    if reference.qualifier is None:
        known = select.sources
    else:
        source = names.source(select, reference.qualifier)
        if source is None:
            return f"no table of the query is called '{names.words[reference.qualifier]}'"
        known = [source]
    called = [names.words[each.table] if each.table is not None else names.name(each) or "(select …)" for each in known]
    if len(called) == 1:
        return f"table '{called[0]}' has no column '{column}'"
    return f"no table of the query ({', '.join(called)}) has a column '{column}'"


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
        for names in map(_Names.of, queries):
            for select in names.selects:
                for source in select.sources:
                    if source.alias is not None:
                        alias = names.words[source.alias]
                        prefix = alias.rstrip("0123456789")
                        styles[None if _COUNTED.fullmatch(alias) else "" if prefix == alias else prefix] += 1
                        if prefix == alias and source.table is not None:
                            own[names.lower[source.table]][alias] += 1
        usual = styles.most_common(1)[0][0] if styles else "t"
        if usual != "":
            return cls(usual)
        return cls(names={table: found.most_common(1)[0][0] for table, found in sorted(own.items())})


def qualified_share(queries: Iterable[str]) -> float:
    """The share of columns that stand behind an alias or a table, of those in queries.

    >>> qualified_share(["select t1.a from x as t1", "select a , b , x.c from x"])
    0.5
    """
    everything = [each for query in queries for select in _Names.of(query).selects for each in select.references]
    return sum(each.qualifier is not None for each in everything) / max(len(everything), 1)


def named_aliases(query: str) -> str:
    """The query with its aliases called after their tables, a second use of a table in the same scope `city_2`.

    >>> named_aliases("select t1.name from dogs as t1 join owners as t2 on t1.owner = t2.id")
    'select dogs.name from dogs as dogs join owners as owners on dogs.owner = owners.id'
    """
    names = _Names.of(query)

    def candidates(source: Source) -> Iterator[str]:
        base = _base(names, source, "derived_table")
        return (base if number == 1 else f"{base}_{number}" for number in count(1))

    aliases = _assigned(names, candidates)
    for select in names.selects:
        used: Counter[str] = Counter()
        for _, _, alias in select.results:
            counted = alias is not None and _COUNTED.fullmatch(names.words[alias])
            if alias is not None and counted:
                used[counted[1]] += 1
                number = used[counted[1]]
                aliases[alias] = counted[1] if number == 1 else f"{counted[1]}_{number}"
    return names.rewritten(aliases)


T1 = AliasStyle()


def numbered_aliases(query: str, style: AliasStyle = T1) -> str:
    """The query with its aliases counted: what `named_aliases` changed, as the data have it.

    >>> numbered_aliases("select dogs.name from dogs as dogs join owners as owners on dogs.owner = owners.id")
    'select t1.name from dogs as t1 join owners as t2 on t1.owner = t2.id'
    """
    names = _Names.of(query)

    def candidates(source: Source) -> Iterator[str]:
        own = None if source.table is None else style.names.get(names.lower[source.table])
        return (own if own and number == 1 else f"{own or style.prefix}{number}" for number in count(1))

    if style.prefix is not None:
        return names.rewritten(_assigned(names, candidates))
    bases = {
        source.alias: _base(names, source, _LATER.sub("", names.words[source.alias]))
        for select in names.selects
        for source in select.sources
        if source.alias is not None
    }
    for select in names.selects:
        for _, _, alias in select.results:
            if alias is not None and _DERIVED_FIELD.fullmatch(names.words[alias]):
                bases[alias] = _LATER.sub("", names.words[alias])
    used: Counter[str] = Counter()
    aliases = {}
    for alias in sorted(bases):
        aliases[alias] = f"{bases[alias]}alias{used[bases[alias]]}"
        used[bases[alias]] += 1
    return names.rewritten(aliases)


def _base(names: _Names, source: Source, of_subquery: str) -> str:
    """What an alias is called after: the table as it is written, or what stands before the number of a subquery's."""
    if source.table is not None:
        return names.words[source.table]
    counted = _COUNTED.fullmatch(names.words[source.alias]) if source.alias is not None else None
    return counted[1] if counted else of_subquery


def _assigned(names: _Names, candidates: Callable[[Source], Iterable[str]]) -> dict[int, str]:
    """For each alias the first candidate that is free in its scope and hides no name from around that is used there."""
    aliases: dict[int, str] = {}

    def called(source: Source) -> str | None:
        return names.name(source) if source.alias is None else aliases.get(source.alias, "").lower()

    for select in names.selects:  # from outside to inside, so that what is around has its names
        own = set(map(id, select.sources))
        used = [
            names.source(inner, reference.qualifier)
            for inner in (select, *(each for query in select.subqueries for each in query.all_selects()))
            for reference in inner.references
            if reference.qualifier is not None
        ]
        taken = {called(source) for source in used if source is not None and id(source) not in own}
        taken |= {called(source) for source in select.sources if source.alias is None}
        for source in select.sources:
            if source.alias is not None:
                name = next(name for name in candidates(source) if name.lower() not in taken)
                aliases[source.alias] = name
                taken.add(name.lower())
    return aliases
