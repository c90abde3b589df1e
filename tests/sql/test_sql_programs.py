"""SQL as the programs of a grammar: one form for all queries, and the spelling of the data in answers."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.answers import exact_match
from nqg.errors import FormatError
from nqg.sql.programs import SqlPrograms
from nqg.sql.reader import DatabaseReader
from nqg.sql.schema import Schema, Table

PETS = Schema(
    "pets",
    (Table("dogs", ("id", "name", "owner")), Table("owners", ("id", "name", "city"))),
)
UPPER = [
    'SELECT T1.NAME FROM DOGS AS T1 JOIN OWNERS AS T2 ON T1.OWNER = T2.ID WHERE T2.CITY = "Oslo" ;',
    "SELECT COUNT( * ) FROM DOGS ;",
]
LOWER = [
    "select name from dogs where name = 'Rex'",
    "select d.name from dogs as d where d.id in (select o.id from owners as o where o.name = 'it''s')",
]


def accepts(sql: SqlPrograms, query: str) -> bool:
    tokens = sql.tokenize(query)
    return sql.target_grammar([tokens]).accepts(tokens)


@pytest.mark.parametrize("queries", [UPPER, LOWER], ids=["upper", "lower"])
def test_queries_come_back_in_the_spelling_of_the_data(queries: list[str]) -> None:
    sql = SqlPrograms.fit(PETS, queries)
    for query in queries:
        assert exact_match(sql.render(sql.tokenize(query)), query)
        assert accepts(sql, query)
        assert sql.problem(sql.render(sql.tokenize(query))) == ""


def test_spellings_that_mean_the_same_are_one_program() -> None:
    sql = SqlPrograms.fit(PETS, LOWER)
    spellings = [
        "select T1.name from dogs as T1 where T1.name = 'Rex'",
        'SELECT d.NAME FROM Dogs d WHERE d.Name = "Rex";',
        "select  dogsalias0.name from dogs as dogsalias0 where dogsalias0.name='Rex' ; ;",
    ]
    first, *others = {
        " ".join(sql.tokenize(query)).replace("dogs dogs", "dogs as dogs")
        for query in spellings
    }
    assert first == "select dogs . name from dogs as dogs where dogs . name = ' Rex '"
    assert not others


def test_the_case_of_a_value_counts() -> None:
    sql = SqlPrograms.fit(PETS, UPPER)
    assert sql.render(sql.tokenize("select name from dogs where name = 'McRex'")) == (
        'SELECT NAME FROM DOGS WHERE NAME = "McRex";'
    )


def test_a_query_over_other_columns_has_a_problem() -> None:
    sql = SqlPrograms.fit(PETS, UPPER)
    query = sql.render(["select", "dogs", ".", "city", "from", "dogs", "as", "dogs"])
    assert sql.problem(query) == "table 'DOGS' has no column 'CITY'"
    assert not accepts(sql, query)


def test_columns_with_the_same_values_are_one_slot(tmp_path: Path) -> None:
    path = tmp_path / "trains.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "create table line (start text, stop text); create table town (mayor text, name text);"
            "insert into line values ('Ulm', 'Bonn'), ('Bonn', 'Ulm'), ('Trier', 'Bonn');"
            "insert into town values ('Ulm', 'Trier'), ('Ada', 'Bonn'), ('Eva', 'Ulm'), ('Ina', 'Aalen');"
        )
    cities = [
        ("From Ulm to Bonn", "select 1 from line where start = 'Ulm' and stop = 'Bonn'")
    ]
    sql = SqlPrograms.fit(DatabaseReader(path).schema, [query for _, query in cities])
    assert sql.column_slots(path, cities)[0] == {
        "town-name": {"column": "town.name", "database": str(path)}
    }
    mayors = [
        ("Is Ada in Bonn?", "select 'Ada', 'Bonn'"),
        ("Is Eva in Ulm?", "select 'Eva', 'Ulm'"),
    ]
    assert list(sql.column_slots(path, [*cities, *mayors])[0]) == [
        "town-mayor",
        "town-name",
    ]


@given(st.text(alphabet="'\"ab ;\\", max_size=8))
def test_any_string_survives(value: str) -> None:
    for queries in (UPPER, LOWER):
        sql = SqlPrograms.fit(PETS, queries)
        query = "select name from dogs where name = '{}'".format(
            value.replace("'", "''")
        )
        once = sql.tokenize(query)
        assert sql.tokenize(sql.render(once)) == once


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    sql = SqlPrograms.fit(PETS, UPPER)
    sql.write(tmp_path / "sql.json")
    assert SqlPrograms.read(tmp_path / "sql.json") == sql


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"quote": 3}, "'quote' of the SQL of the model"),
        ({"quote": "x"}, "expected ' or \" as quotation mark, found 'x'"),
        (
            {"schema": {"database": "x", "tables": [], "foreign_keys": []}},
            "expected a schema with tables, found none",
        ),
        ({"more": 1}, "no key of the SQL of the model 'more'"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    path = tmp_path / "sql.json"
    SqlPrograms.fit(PETS, UPPER).write(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FormatError, match=rf"sql\.json: .*{words}"):
        SqlPrograms.read(path)


def test_queries_of_geoquery_come_back(real_data: Path) -> None:
    entries = json.loads((real_data / "geoquery_sql/geography.json").read_text())
    queries = [entry["sql"][0] for entry in entries]
    sql = SqlPrograms.fit(
        DatabaseReader(real_data / "geoquery_sql/geography.sqlite").schema, queries
    )
    others = [
        query
        for query in queries
        if not exact_match(sql.render(sql.tokenize(query)), query)
    ]
    assert (len(others), len(queries)) == (
        1,
        246,
    )  # which numbers its aliases in another order
    legal = sql.target_grammar(map(sql.tokenize, queries))
    illegal = [query for query in queries if not legal.accepts(sql.tokenize(query))]
    assert [sql.problem(query) for query in illegal] == [
        "no table of the query is called 'DERIVED_TABLEalias1'"
    ]
