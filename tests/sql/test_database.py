"""Queries on a database: results within bounds, and nothing but one `select`, whatever is asked."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import URL, create_engine

from nqg.errors import FormatError, NqgError
from nqg.slots.slot import column_values
from nqg.sql.database import Database, QueryError, Rows
from nqg.sql.database_url import connected
from nqg.sql.execution import is_ordered, same_result
from nqg.sql.query_check import checked_words
from nqg.sql.sqlite_file import FUNCTIONS
from nqg.sql.tokens import sql_words

PRODUCTS = [("lamp", 40, 3), ("desk", 320, 0), ("chair", 150, 12), ("pen", 2, 500)]
SCHEMA = """
    create table product (name text, price real, stock integer);
    create table sale (product text, amount integer, city text);
    create view cheap as select name from product where price < 100;
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shop") / "the shop?.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        connection.executemany("insert into product values (?, ?, ?)", PRODUCTS)
        connection.executemany(
            "insert into sale values (?, ?, ?)",
            [("lamp", 2, "Oslo"), ("pen", 9, "Rome")] * 600,
        )
        connection.commit()
    return path


@pytest.fixture(scope="module", params=["file", "url"])
def shop(path: Path, request: pytest.FixtureRequest) -> Database:
    """The shop, opened as a file and through SQLAlchemy."""
    url = URL.create("sqlite", database=str(path)).render_as_string()
    return Database.open(path if request.param == "file" else url)


@pytest.fixture(autouse=True)
def _is_as_before(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """No query of any test changes the database, its folder, or the folder where it runs."""
    monkeypatch.chdir(tmp_path)
    before = digest(path), sorted(os.listdir(path.parent))
    yield
    assert (digest(path), sorted(os.listdir(path.parent))) == before
    assert os.listdir(tmp_path) == []


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("query", "rows"),
    {
        "select name from product where price > 100": [("desk",), ("chair",)],
        "SELECT count(*) FROM product;": [(4,)],
        "select name from cheap order by name desc": [("pen",), ("lamp",)],
        "select T1.name from product as T1 join sale as T2 on T1.name = T2.product where T2.city = 'Rome' limit 1": [
            ("pen",)
        ],
        'select name from product where name = "name"': [],  # a string, though there is a column of that name
        "select name from product where name = 'it''s; drop table product --'": [],
        "select upper(name) , round(price / 3 , 1) from product where name like 'd%'": [
            ("DESK", 106.7)
        ],
        "select name from product where price = (select max(price) from product)": [
            ("desk",)
        ],
        "select sum(amount) from sale group by city order by city": [(1200,), (5400,)],
    }.items(),
)
def test_a_select_gives_rows(
    shop: Database, query: str, rows: list[tuple[object, ...]]
) -> None:
    assert shop.run(query).rows == tuple(rows)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "select",
        "select 'unclosed",
        "select name from product; drop table product",
        "select name from product; select name from product",
        "select name from product;;",
        "select 1; --",
        "select name from product -- ; drop table product",
        "select /* ; */ name from product",
        "-- select\ndrop table product",
        "/* select */ drop table product",
        "select name into copy from product",
        "drop table product",
        "delete from product",
        "insert into product values ('x', 1, 1)",
        "insert into product select name , 1 , 1 from product",
        "update product set price = 0",
        "replace into product values ('x', 1, 1)",
        "create table evil (x)",
        "create temp table evil as select name from product",
        "alter table product rename to evil",
        "attach database 'evil.db' as evil",
        "detach database main",
        "vacuum into 'evil.db'",
        "reindex",
        "analyze",
        "begin immediate",
        "savepoint evil",
        "commit",
        "explain select 1",
        "explain query plan select name from product",
        "values (1)",
        "with evil as (select 1) select * from evil",
        "with recursive n(x) as (select 1 union all select x + 1 from n) select x from n",
        "select x from (with recursive n(x) as (select 1 union all select x + 1 from n) select x from n)",
        "pragma writable_schema = on",
        "pragma user_version = 7",
        "select * from pragma_table_info('product')",
        "select * from pragma_database_list",
        "select sql from sqlite_master",
        "select sql from sqlite_schema",
        "select sql from main.sqlite_master",
        "select name from sqlite_temp_master",
        "select name from temp.product",
        "select name from evil.product",
        "select load_extension('evil.so')",
        "select load_extension('evil.so', 'init') from product",
        "select readfile('/etc/passwd')",
        "select writefile('evil.txt', 'x')",
        "select edit('x', 'vi')",
        "select fts3_tokenizer('simple')",
        "select sqlite_version()",
        "select sqlite_compileoption_get(1)",
        "select last_insert_rowid()",
        "select randomblob(1000000000)",
        "select zeroblob(1000000000)",
        "select printf('%1000000000d', 1)",
        "select hex(name) from product",
        "select char(0)",
        "select value from json_each('[1, 2]')",
        "select value from generate_series(1, 1000000000)",
        "select name from product where name match 'x'",
        "select name from product where name regexp '(a+)+$'",
        "select name from product where name = ?",
        "select name from product where name = :name",
        "select $evil",
        "select 'a\0b'",
        "select '\ud800'",
        "select \ud800",
        "select [name] from [product]; drop table product",
        "select `name` from `product`; drop table product",
        "select name from town",
        "select town from product",
        f"select {'(' * 500}1{')' * 500}",
        f"select {' union select '.join(map(str, range(200)))}",
        f"select '{'x' * 200_000}'",
        f"select {' + '.join(['1'] * 5000)}",
        f"select replace(name || name, 'e', '{'x' * 90_000}') from product where name = 'desk'",
    ],
)
def test_nothing_else_runs(shop: Database, query: str) -> None:
    with pytest.raises(
        QueryError,
        match=r"the query does not run: |expected a query that begins with 'select'|closed",
    ):
        shop.run(query)


PIECES = """
    select name from product where price > 1 ; drop table delete insert into values pragma attach -- /* */ ( ) ' " , * =
    as evil union with recursive create load_extension temp . [ ] ` || @x ?1
"""


@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(st.sampled_from([*PIECES.split(), "\0"]), max_size=14).map(" ".join),
    )
)
def test_whatever_is_asked_is_a_result_or_an_error(
    shop: Database, path: Path, query: str
) -> None:
    before = digest(path)
    for asked in (query, f"select {query}"):
        with suppress(QueryError):
            assert isinstance(shop.run(asked), Rows)
    assert digest(path) == before


def test_a_query_that_takes_too_long_is_ended(shop: Database) -> None:
    brief = Database.open(shop.place, seconds=0.05)
    with pytest.raises(QueryError, match=r"it takes more than 0\.05 s"):
        brief.run("select count(*) from sale as a , sale as b , sale as c , sale as d")


def test_rows_are_cut_and_it_is_said(shop: Database) -> None:
    few = Database.open(shop.place, most_rows=2)
    assert few.run("select name from product order by name") == Rows(
        ("name",), (("chair",), ("desk",)), is_cut=True
    )
    assert not few.run("select name from cheap").is_cut


def test_a_database_that_changes_is_read_anew(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("changing") / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table t (x)")
        database = Database.open(path)
        assert database.run("select x from t").rows == ()
        connection.execute(
            "insert into t values (cast(x'ff41' as text)) , (x'00') , (null)"
        )
        connection.commit()
    assert database.run("select x from t").rows == (
        ("\N{REPLACEMENT CHARACTER}A",),
        (b"\0",),
        (None,),
    )
    path.unlink()
    with pytest.raises(
        QueryError, match="the query does not run: the database cannot be reached"
    ):
        database.run("select x from t")


def test_a_file_that_is_not_a_database_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("text") / "a.db"
    path.write_text("no database at all, but long enough to have a header " * 20)
    with pytest.raises(FormatError, match="expected a SQLite database"):
        Database.open(path)


def test_every_function_that_is_allowed_reads_only_its_arguments(
    shop: Database,
) -> None:
    """None of them is a door to files, code or the state of the connection."""
    doors = {
        "load_extension",
        "readfile",
        "writefile",
        "edit",
        "fts3_tokenizer",
        "randomblob",
        "zeroblob",
        "printf",
    }
    assert not FUNCTIONS & (
        doors
        | {"format", "random", "changes", "total_changes", "last_insert_rowid", "glob"}
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["a", None, 0.1 + 0.2])),
        max_size=4,
    ),
    st.randoms(),
)
def test_results_are_the_same_in_any_order_unless_one_is_asked_for(
    rows: list[tuple[object, ...]], rng: object
) -> None:
    one = Rows(("x", "y"), tuple(rows))  # type: ignore[arg-type]
    shuffled = rows.copy()
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    other = Rows(("z", "w"), tuple(shuffled))  # type: ignore[arg-type]
    assert same_result(one, other, ordered=False)
    assert same_result(one, other, ordered=True) == (rows == shuffled)
    fewer = Rows(("x", "y"), one.rows[1:])
    assert same_result(one, fewer, ordered=False) == (
        Counter(one.rows) == Counter(fewer.rows)
    )


def test_sums_that_differ_by_rounding_are_the_same() -> None:
    assert same_result(
        Rows(("x",), ((0.1 + 0.2,),)), Rows(("x",), ((0.3,),)), ordered=True
    )


@pytest.mark.parametrize(
    ("query", "ordered"),
    {
        "select a from t order by b limit 1": True,
        "SELECT a FROM t ORDER BY b": True,
        "select a from (select a from t order by b)": False,
        "select a from t where a = 'order'": False,
        "select 'unclosed order": False,
    }.items(),
)
def test_an_order_is_that_of_the_whole_query(query: str, ordered: bool) -> None:
    assert is_ordered(query) == ordered


def test_a_url_gives_the_schema_and_the_values_that_the_file_gives(
    shop: Database, path: Path
) -> None:
    plain = Database.open(path)
    assert {*shop.schema.tables} == {*plain.schema.tables}
    assert shop.schema.foreign_keys == plain.schema.foreign_keys
    assert column_values(shop.place, "Sale.City").values == {
        "oslo": "Oslo",
        "rome": "Rome",
    }
    with pytest.raises(NqgError, match=r"no table of .*'town'"):
        column_values(shop.place, "town.name")
    with pytest.raises(NqgError, match=r"no column of sale.*'town'"):
        column_values(shop.place, "sale.town")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (
            "sqlite:///nowhere.db",
            "sqlite:///nowhere.db: expected a SQLite database, found no such file",
        ),
        ("sqlite://", "expected a SQLite database, found no such file"),
        ("nothing://u:secret@host/shop", "sqlalchemy.dialects:nothing"),
        ("oracle://u:secret@host/shop", "No module named"),
        ("://secret", "expected the URL of a database, such as"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_without_its_password(
    url: str, reason: str
) -> None:
    with pytest.raises(NqgError, match=re.escape(reason)) as found:
        Database.open(url)
    assert "secret" not in str(found.value)


def test_a_connection_cannot_write_whatever_it_is_asked(path: Path) -> None:
    """The session itself refuses; the words of a query are looked at before."""
    with (
        pytest.raises(NqgError, match="attempt to write a readonly database"),
        connected(
            URL.create("sqlite", database=str(path)).render_as_string(), seconds=5
        ) as connection,
    ):
        connection.exec_driver_sql("delete from product")


def test_without_sqlalchemy_it_is_said_what_to_install(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(
        NqgError, match=r"not a SQLite file needs the extra 'sql'.*\[sql\]"
    ):
        Database.open(f"sqlite:///{path}")


@pytest.mark.parametrize("word", ["into", "for"])
def test_a_column_that_is_called_like_a_command_is_not_a_way_to_write(
    word: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("odd") / "odd.db"
    with create_engine(f"sqlite:///{path}").begin() as connection:
        connection.exec_driver_sql(f'create table t (a, "{word}")')
    with pytest.raises(QueryError, match=f"'{word}' is not allowed in it"):
        Database.open(f"sqlite:///{path}").run(f"select a {word} t from t")


@pytest.mark.parametrize(
    "query",
    [
        "select t.pg_shadow from product as t , sale as pg_shadow",
        "select (t).pg_shadow from product as t , sale as pg_shadow",
        "select t.city from product as t",
        "select name from hidden.product , sale as hidden",
        "select price as regrole from product order by regrole 'postgres'",
        "select name as current_user from product where current_user = 'x'",
    ],
)
def test_a_name_that_is_not_a_column_of_its_table_is_refused_at_a_url(
    path: Path, query: str
) -> None:
    """PostgreSQL would read such a name as the call of a function, a type or another schema."""
    schema = Database.open(path).schema
    with pytest.raises(FormatError, match="the query does not run: "):
        checked_words(sql_words(query), schema, "postgresql://")
