"""Databases that cannot be read as a whole: what can be read is used, what cannot is named, and
nothing runs for ever."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import URL

from nqg.sql import programs, reader_protocol, sqlite_file
from nqg.sql.database import Database, QueryError
from nqg.sql.programs import SqlPrograms, read_columns
from nqg.sql.reader import DatabaseReader
from nqg.sql.reader_protocol import Contents, ReadFailure, views_in_time

PAIRS = [
    (f"what does {name} cost", f"SELECT price FROM lamp WHERE name = '{name}'")
    for name in ("Ada", "Bo")
]
NUMBERS = (
    "with recursive n (x) as (select 1 union all select x + 1 from n) select x from n"
)
# What a database holds beside its lamps, and what is said of it.
BROKEN = {
    "broken view": ("create view evil as select x from nowhere", "no such table"),
    "unknown function": (
        "create view evil as select no_such(name) as x from lamp",
        "no such function: no_such",
    ),
    "view of a circle": (
        "create view evil as select * from other; create view other as select * from evil",
        "circularly defined",
    ),
    "empty column name": (
        'create table evil (x, "" text)',
        "column '' of table 'evil': a query cannot write its name",
    ),
    "quotation mark": (
        'create table evil (x, "it\'s" text)',
        "a query cannot write its name",
    ),
    "endless view": (f"create view evil as {NUMBERS}", "it takes "),
    "large view": (
        "create view evil as select a.name || b.x as x from lamp as a , "
        f"({NUMBERS} limit 100000000) as b",
        "it takes ",
    ),
    "text that is not UTF-8": (
        "create table evil (x); insert into evil values (cast(x'ff41' as text))",
        "1 value of evil.x: expected UTF-8",
    ),
    "no column that can be named": ('create table evil ("")', "column ''"),
    "long values": (
        "create table evil (x); insert into evil values (zeroblob(50000000))",
        "",
    ),
}


def made(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("create table lamp (name, price)")
        connection.executescript("insert into lamp values ('Ada', 30), ('Bo', 20)")
        connection.executescript(script)
        connection.commit()
    return path


@pytest.mark.parametrize("as_url", [False, True], ids=["file", "url"])
@pytest.mark.parametrize(("script", "reason"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_read_is_left_out_and_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    reason: str,
    as_url: bool,
) -> None:
    monkeypatch.setattr(programs, "SEARCH_SECONDS", 0.5)
    place = str(made(tmp_path / "lamps.db", script))
    if as_url:
        place = URL.create("sqlite", database=place).render_as_string()
    reader = DatabaseReader(place)
    sql = SqlPrograms.fit(reader.schema, [query for _, query in PAIRS])
    slots, left_out = sql.column_slots(place, PAIRS)
    assert list(slots) == ["lamp-name"]
    # SQLAlchemy reads a text that is not UTF-8 as an error of its own.
    if as_url and "UTF-8" in reason:
        reason = "Could not decode to UTF-8"
    reasons = "\n".join([*reader.contents.left_out, *left_out])
    assert reason in reasons
    tokens = [sql.tokenize(query) for _, query in PAIRS]
    assert all(map(sql.target_grammar(tokens).accepts, tokens))
    database = Database.open(place, seconds=0.5)
    assert database.run(PAIRS[0][1]).rows == ((30,),)


def test_an_interrupt_ends_reading_at_once(tmp_path: Path) -> None:
    path = made(tmp_path / "lamps.db", f"create view evil as {NUMBERS}")
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "import sys; from nqg.sql.reader import DatabaseReader;"
        "reader = DatabaseReader(sys.argv[1]); reader.contents; print('ready', flush=True);"
        "reader.column_values('evil', 'x', 600)"
    )
    reading = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert reading.stdout is not None
    assert reading.stdout.readline() == b"ready\n"
    reading.send_signal(signal.SIGINT)
    _, errors = reading.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors


def test_a_thousand_tables_that_no_query_names_are_not_in_the_grammar(
    tmp_path: Path,
) -> None:
    tables = ";".join(f"create table t{number} (a, b)" for number in range(1000))
    script = f"begin; {tables}; commit"
    schema = DatabaseReader(made(tmp_path / "lamps.db", script)).schema
    assert len(schema.tables) == 1001
    sql = SqlPrograms.fit(schema, [query for _, query in PAIRS])
    tokens = [sql.tokenize(query) for _, query in PAIRS]
    grammar = str(sql.target_grammar(tokens))
    assert "lamp" in grammar
    assert "t7" not in grammar
    assert sql.problem("select a from t7") == ""


GROW = "replace(replace(replace('aaaaaaaaaa','a','aaaaaaaaaaaaaaaaaaaa'),'a','aaaaaaaaaaaaaaaaaaaa'),'a','é')"
COSTLY = {
    "trim": "select trim(x , y) from (select replace({0},'é','éééé') as x , "
    "replace({0} , 'é' , 'èèèè') || 'é' as y from lamp)",
    "instr": "select instr(x || x || x || x, x || x || x || 'b') from (select {0} as x from lamp)",
    "like": "select count(*) from lamp where {0} like '%a%a%a%a%a%a%a%a%a%a%b'",
    "columns": "select " + " , ".join(["{0}"] * 400) + " from lamp",
    "rows": "select a.x , b.x , c.x from (select {0} as x from lamp) as a , (select {0} as x from lamp) as b , "
    "(select {0} as x from lamp) as c",
    "concatenated": "select group_concat({0}) from lamp as a , lamp as b , lamp as c , lamp as d",
    "sorted": "select a.name from lamp as a , lamp as b , lamp as c order by {0} || a.price",
}


@pytest.mark.parametrize("query", COSTLY.values(), ids=COSTLY)
def test_a_short_query_cannot_cost_much(tmp_path: Path, query: str) -> None:
    """Where one runs over its limits, its process is ended, and the next query runs."""
    database = Database.open(made(tmp_path / "lamps.db", ""), seconds=0.3)
    try:
        rows = database.run(query.format(GROW))
    except QueryError:
        pass
    else:
        assert sum(len(str(value)) for row in rows.rows for value in row) < 20_000_000
    assert database.run("select count(*) from lamp").rows == ((2,),)


@pytest.mark.parametrize("as_url", [False, True], ids=["file", "url"])
def test_views_that_take_too_much_memory_cost_no_other_table(
    tmp_path: Path, as_url: bool
) -> None:
    columns = ", ".join(f"c{number} text" for number in range(1_900))
    views = ["create view w0 as select * from wide"]
    for number in range(1, 10):
        inner = f"w{number - 1}"
        views.append(
            f"create view w{number} as select a.* from {inner} as a , {inner} as b"
        )
    script = ";".join([f"create table wide ({columns})", *views])
    place = str(made(tmp_path / "lamps.db", script))
    if as_url:
        place = URL.create("sqlite", database=place).render_as_string()
    contents = DatabaseReader(place).contents
    assert {"lamp", "wide"} <= contents.tables.keys()
    # On a slow machine, the time for views ends before the memory.
    assert contents.left_out[-1].startswith("table 'w9': ")


def test_views_are_left_out_when_those_before_them_took_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader_protocol, "VIEW_SECONDS", -1.0)
    contents = Contents("shop")
    assert list(views_in_time(["first", "second"], contents)) == []
    reason = "the views before it take more than -1 s"
    expected = [f"table '{view}': {reason}" for view in ("first", "second")]
    assert contents.left_out == expected


def test_a_table_of_many_slow_columns_is_read_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "TABLE_SECONDS", 0.0)
    reader = DatabaseReader(made(tmp_path / "lamps.db", "create table shop (city)"))
    left_out: list[str] = []
    progress: list[tuple[int, int | None]] = []
    columns = read_columns(
        reader,
        reader.schema.tables,
        left_out,
        lambda _, done, total: progress.append((done, total)),
    )
    assert [name for name, _ in columns] == ["lamp.name", "shop.city"]
    reason = "the columns before it take more than 0 s"
    assert left_out == [f"values of lamp.price: {reason}"]
    assert progress == [(0, 3), (1, 3), (2, 3)]


def test_a_database_that_another_process_writes_to_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "LOCK_SECONDS", 0.01)
    path = made(tmp_path / "lamps.db", "create table shop (city)")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("begin exclusive")
        with pytest.raises(ReadFailure, match="another process writes to it"):
            sqlite_file.read_contents(str(path), 60)
    assert list(sqlite_file.read_contents(str(path), 60).tables) == ["lamp", "shop"]
