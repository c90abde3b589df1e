"""Names in SQL queries: what they stand for, beside SQLite's own opinion, and aliases called after their tables."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqg.paper.spider import database_of, load_spider_xsp, read_schemas
from nqg.sql.names import AliasStyle, named_aliases, numbered_aliases, sql_problem
from nqg.sql.reader import DatabaseReader
from nqg.sql.schema import Schema, Table
from nqg.sql.target_grammar import SqlConstants, SqlForm, sql_target_grammar
from nqg.sql.tokens import RESERVED, sql_text, sql_words
from nqg.types.target_grammar import TargetGrammar
from strategies import random_target

CITIES = ("name", "state", "size")
GEO = Schema(
    "geo",
    (
        Table("city", CITIES),
        Table("state", ("name", "capital")),
        Table("river", ("name", "length")),
    ),
)
OF_TABLE = AliasStyle(prefix=None)
NAME_ERRORS = ("no such table", "no such column", "ambiguous column name")


@pytest.mark.parametrize(
    ("query", "problem"),
    {
        "select name from city where size > 3;": "",
        "SELECT T1.Name FROM City AS T1 JOIN State T2 ON T1.state = T2.name": "",
        "select size from city where name in (select capital from state where state.name = city.state)": "",
        "select count(*) as n from city group by state order by n": "",
        "select x.n from (select count(*) as n , state from city group by state) as x": "",
        "select state from city union select name from state order by state": "",
        "select case when size > 3 then name else state end from city where name like 'a%' and state is not null": "",
        "select name from city where state = 'capital'": "",
        "select capital from city": "table 'city' has no column 'capital'",
        "select length from city join state": "no table of the query (city, state) has a column 'length'",
        "select t1.capital from city as t1": "table 'city' has no column 'capital'",
        "select t2.name from city as t1": "no table of the query is called 't2'",
        "select city.name from city as t1": "no table of the query is called 'city'",
        "select name from town": "there is no table 'town'",
        "select name from city join state": "column 'name' could be of several tables",
        "select x.m from (select count(*) as n from city) as x": "table 'x' has no column 'm'",
        "select m from (select count(*) as n from city)": "table '(select …)' has no column 'm'",
        "select size from city where name in (select capital from state where size > length)": (
            "table 'state' has no column 'length'"
        ),
        "select * from city join city": "2 tables of the query are called 'city'",
        "select capital c from city natural join state": "",
        "select name , sum(size) total from city join state using (name) group by name order by total": "",
        "select cast(size as real) from city where size > all (select length from river) limit 3 offset 2": "",
        "select name from (city join river using (name)) where name in (1 , capital)": (
            "no table of the query (city, river) has a column 'capital'"
        ),
        'select "t1"."name" from "city" as t1': "",
        "select name from city where size >": "the query cannot be parsed at '>' after 'from city where size'",
        "name of city": "expected a query that begins with 'select', found 'name of city'",
        "": "expected a query that begins with 'select', found ''",
    }.items(),
)
def test_names_that_do_not_exist_are_named(query: str, problem: str) -> None:
    assert sql_problem(query, GEO) == problem


def test_spaces_between_tokens_and_tokens_of_strings_change_nothing() -> None:
    assert (
        sql_problem(
            "select t1 . name from city as t1 where t1 . state = ' from t2 . x '", GEO
        )
        == ""
    )
    assert (
        sql_problem("select t1 . capital from city as t1", GEO)
        == "table 'city' has no column 'capital'"
    )


# SQLite's opinion


def database(schema: Schema) -> sqlite3.Connection:
    empty = sqlite3.connect(":memory:")
    for table in schema.tables:
        if not table.name.startswith("sqlite_"):
            names = ", ".join(f'"{column}"' for column in dict.fromkeys(table.columns))
            empty.execute(f'create table "{table.name}" ({names})')
    return empty


def explained(empty: sqlite3.Connection, query: str) -> Sequence[object] | str:
    """What SQLite would do, or its error."""
    try:
        return [row[1:6] for row in empty.execute(f"explain {query}")]
    except sqlite3.Error as error:
        return str(error)


def agrees(opinion: Sequence[object] | str, problem: str) -> bool:
    """Whether a problem is seen where SQLite sees one of names; other errors of SQL are not looked for.

    Two tables of the same name are refused also where SQLite makes do with them.
    """
    if isinstance(opinion, str):
        return problem != "" if opinion.startswith(NAME_ERRORS) else True
    return problem == "" or "tables of the query are called" in problem


@cache
def grammar(form: SqlForm) -> TargetGrammar:
    return TargetGrammar.parse(
        sql_target_grammar(GEO, SqlConstants(("1", "2.5"), ("x",)), form)
    )


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Queries of the right form; about every second one has names that do not fit."""
    form, size = draw(st.sampled_from(SqlForm)), draw(st.integers(5, 60))
    return sql_text(
        random_target(grammar(form), size, draw(st.randoms(use_true_random=False)))
    )


@settings(max_examples=400, deadline=None)
@given(queries())
def test_sqlite_finds_the_same_names_wrong(query: str) -> None:
    opinion, problem = explained(database(GEO), query), sql_problem(query, GEO)
    assert agrees(opinion, problem), (query, opinion, problem)


@settings(max_examples=400, deadline=None)
@given(queries())
def test_aliases_of_other_names_leave_what_sqlite_does_as_it_was(query: str) -> None:
    if not isinstance(before := explained(database(GEO), query), str):
        named = named_aliases(query)
        numbered, of_table = numbered_aliases(named), numbered_aliases(named, OF_TABLE)
        assert all(
            explained(database(GEO), other) == before
            for other in (named, numbered, of_table)
        )
        assert named_aliases(numbered) == named


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(
            [
                "select",
                "from",
                "(",
                ")",
                "city",
                "as",
                "t1",
                ".",
                "name",
                "*",
                ",",
                "union",
                "on",
            ]
        )
    )
)
def test_what_is_not_sql_is_answered_too(words: list[str]) -> None:
    text = " ".join(words)
    assert isinstance(sql_problem(text, GEO), str)
    assert (
        len(sql_words(named_aliases(text)))
        == len(sql_words(numbered_aliases(text)))
        == len(words)
    )


@pytest.mark.parametrize(
    ("depth", "problem"),
    [(25, ""), (5000, "the query is nested too deeply to be parsed")],
)
def test_however_deep_a_query_is_it_is_answered(depth: int, problem: str) -> None:
    deep = "select name from city where size = ( " * depth + "3" + " )" * depth
    assert sql_problem(deep, GEO) == problem
    assert named_aliases(deep) == deep


def test_however_long_a_chain_of_operators_is_it_is_read() -> None:
    query = (
        f"select t1.name from city as t1 where {' or '.join(['t1.size = 1'] * 5000)}"
    )
    assert sql_problem(query, GEO) == ""
    assert named_aliases(query) == query.replace("t1", "city")


# Aliases


@pytest.mark.parametrize(
    ("query", "named", "style"),
    [
        pytest.param(
            "select t2.name from city as t1 join state as t2 on t1.state = t2.name",
            "select state.name from city as city join state as state on city.state = state.name",
            AliasStyle(),
            id="after the tables",
        ),
        pytest.param(
            "select t1.name from city as t1 join city as t2 on t1.size < t2.size",
            "select city.name from city as city join city as city_2 on city.size < city_2.size",
            AliasStyle(),
            id="a table twice",
        ),
        pytest.param(
            "select t1.name from city as t1 where t1.size in (select max(t1.size) from city as t1)",
            "select city.name from city as city where city.size in (select max(city.size) from city as city)",
            AliasStyle(),
            id="anew in each select",
        ),
        pytest.param(
            "select t1.name from city as t1 where t1.size = "
            "(select max(t2.size) from city as t2 where t2.state = t1.state)",
            "select city.name from city as city where city.size = "
            "(select max(city_2.size) from city as city_2 where city_2.state = city.state)",
            AliasStyle(),
            id="a name from around that is used is not hidden",
        ),
        pytest.param(
            "SELECT CITYalias0.NAME FROM CITY AS CITYalias0 WHERE CITYalias0.SIZE = "
            "( SELECT MAX( CITYalias1.SIZE ) FROM CITY AS CITYalias1 ) ;",
            "SELECT CITY.NAME FROM CITY AS CITY WHERE CITY.SIZE = ( SELECT MAX( CITY.SIZE ) FROM CITY AS CITY ) ;",
            OF_TABLE,
            id="counted through the query",
        ),
        pytest.param(
            "SELECT MAX( DERIVED_TABLEalias0.DERIVED_FIELDalias0 ) FROM "
            "( SELECT COUNT( 1 ) AS DERIVED_FIELDalias0 FROM CITY AS CITYalias0 ) AS DERIVED_TABLEalias0 ;",
            "SELECT MAX( DERIVED_TABLE.DERIVED_FIELD ) FROM "
            "( SELECT COUNT( 1 ) AS DERIVED_FIELD FROM CITY AS CITY ) AS DERIVED_TABLE ;",
            OF_TABLE,
            id="subqueries and their results",
        ),
        pytest.param(
            "select name from city",
            "select name from city",
            AliasStyle(),
            id="no alias",
        ),
    ],
)
def test_aliases_are_called_after_their_tables_and_counted_again(
    query: str, named: str, style: AliasStyle
) -> None:
    assert named_aliases(query) == named
    assert numbered_aliases(named, style) == query
    assert AliasStyle.of([query]) == style


# Real queries


@pytest.fixture(scope="module")
def spider(real_data: Path) -> list[tuple[Schema, str]]:
    train, dev = load_spider_xsp(
        real_data / "spider/train_spider.json", real_data / "spider/dev.json"
    )
    schemas = read_schemas(real_data / "spider/tables.json")
    return [
        (schemas[database_of(example.source)], example.target)
        for example in train + dev
    ]


@pytest.fixture(scope="module")
def geography(real_data: Path) -> list[tuple[Schema, str]]:
    schema = DatabaseReader(real_data / "geoquery_sql/geography.sqlite").schema
    entries = json.loads((real_data / "geoquery_sql/geography.json").read_text())
    return [(schema, query) for entry in entries for query in entry["sql"]]


def test_only_queries_that_count_in_another_way_are_changed_by_naming_and_counting(
    spider: list[tuple[Schema, str]], geography: list[tuple[Schema, str]]
) -> None:
    for found, expected, style in (
        (spider, (29, 8034), AliasStyle()),
        (geography, (1, 259), OF_TABLE),
    ):
        queries = [query for _, query in found]
        # Spider asks for most of its queries in several sentences.
        is_changed = {
            query: numbered_aliases(named_aliases(query), style) != query
            for query in dict.fromkeys(queries)
        }
        changed = [query for query in queries if is_changed[query]]
        assert AliasStyle.of(queries) == style
        assert (len(changed), len(queries)) == expected


def test_sqlite_agrees_about_real_queries_and_random_names_in_them(
    spider: list[tuple[Schema, str]], geography: list[tuple[Schema, str]]
) -> None:
    rng, seen = random.Random(0), Counter[str]()
    databases = {
        schema.database: database(schema) for schema, _ in [*spider, *geography]
    }
    for schema, query in [*rng.sample(spider, 1500), *geography]:
        for changed in (
            query,
            *(_with_another_name(query, schema, rng) for _ in range(2)),
        ):
            opinion, problem = (
                explained(databases[schema.database], changed),
                sql_problem(changed, schema),
            )
            assert agrees(opinion, problem) or "sqlite_sequence" in changed, (
                changed,
                opinion,
                problem,
            )
            seen["wrong" if problem else "right"] += 1
    assert seen["wrong"] > 2000 < seen["right"]


def _with_another_name(query: str, schema: Schema, rng: random.Random) -> str:
    words = list(sql_words(query))
    kept = {*RESERVED, "count", "max", "min", "sum", "avg"}
    places = [
        at
        for at, word in enumerate(words)
        if word.isidentifier() and word.lower() not in kept
    ]
    columns = [
        column
        for table in schema.tables
        for column in table.columns
        if column.isidentifier()
    ]
    names = [
        *columns,
        *(table.name for table in schema.tables),
        "t1",
        "t2",
        "none",
        *(words[at] for at in places),
    ]
    words[rng.choice(places)] = rng.choice(names)
    return " ".join(words)
