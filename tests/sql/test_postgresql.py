"""Queries on PostgreSQL: nothing but the tables of the query is read, limits hold at the server, and
failures name nothing of the server."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from nqg.errors import NqgError
from nqg.slots.slot import column_values
from nqg.sql.database import Database, QueryError
from nqg.sql.reader import DatabaseReader
from nqg.sql.reader_protocol import QueryRequest
from nqg.web.serve import warn_of_rights
from postgresql_server import PostgresqlServer, postgresql_server

SHOP = (
    "create table product (name text, price real, stock integer)",
    "create table sale (product text, amount integer, city text)",
    "insert into product values ('lamp', 40, 3), ('desk', 320, 0)",
    "insert into sale select 'lamp', 2, 'Oslo' from generate_series(1, 2000)",
    "create schema hidden",
    "create table hidden.secret (name text)",
    "insert into hidden.secret values ('the secret')",
    "create table approval (number integer)",
    "create function approve(product) returns integer language sql volatile as"
    " 'insert into approval values (1); select 1'",
    # The role that docs/databases.md shows.
    "create role reader login",
    "alter role reader set default_transaction_read_only = on",
    "revoke create on schema public from public",
    "revoke execute on all functions in schema public from public",
    "grant select on product, sale to reader",
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with postgresql_server() as server:
        server.execute(*SHOP)
        yield server


@pytest.fixture(scope="module")
def shop(server: PostgresqlServer) -> Database:
    """The shop, read by a user who may do everything: the words of a query are all that protects."""
    return Database.open(server.url(), seconds=1)


def test_a_select_gives_rows(shop: Database) -> None:
    query = "select t.name , round(t.price) from product as t where t.stock > 1"
    assert shop.run(query).rows == (("lamp", 40.0),)
    assert shop.run("select count(*) from sale").rows == ((2000,),)
    assert shop.run("select city from sale").is_cut


@pytest.mark.parametrize(
    "query",
    [
        "select t.approve from product as t",
        "select t.approve from product as t , sale as approve",
        "select (t).approve from product as t , sale as approve",
        "select t.stock.approve from product as t , sale as stock , sale as approve",
        "select approve(t) from product as t",
        "select u.usename from pg_shadow as u",
        "select product.passwd from pg_shadow as product",
        "select price as passwd from product union select product.passwd from pg_shadow as product",
        "select product.name from hidden.secret as product , sale as hidden , sale as secret",
        "select name from hidden.secret",
        "select secret.name from secret",
        "select current_user from product",
        "select price as current_user from product where current_user = 'x'",
        "select price as user from product group by user",
        "select regrole '10' from product",
        "select price as regrole from product order by regrole '10'",
        "select product from product",
        "select t from product as t",
        "select t.oid from product as t",
        "select name as oid from product as t where t.oid = 1",
        "select t.price from product as t (price)",
        "select left(name , 2) from product",
        "select replace(name , 'a' , 'b') from product",
        "select version() from product",
        "select pg_sleep(5) from product",
        "select pg_read_file('/etc/passwd') from product",
        "select lo_import('/etc/passwd') from product",
        "select set_config('transaction_read_only' , 'off' , false) from product",
        "select nextval('x') from product",
        "select query_to_xml('select 1' , true , true , '') from product",
        "select name from product for update",
        "select name into copy from product",
        "select * from generate_series(1 , 10)",
        "select name from product , lateral (select 1) as x",
        "select array(select name from product)",
        "select name from only product",
        "select trim(name , name) from product",
        "select trim(both name from name) from product",
        "select E'\\047' from product",
        "select name :: regclass from product",
        "select name collate pg_catalog.default from product",
    ],
)
def test_nothing_else_is_read_or_called(shop: Database, query: str) -> None:
    with pytest.raises(QueryError, match="the query does not run: "):
        shop.run(query)


def test_a_session_reads_only_even_if_a_query_got_through(
    server: PostgresqlServer, shop: Database
) -> None:
    request = QueryRequest(
        shop.place, "select t.approve from product as t", (), 10, 1000
    )
    with pytest.raises(NqgError, match="read-only transaction"):
        shop.reader.run(request, 5)
    assert server.execute("select count(*) from approval") == [(0,)]


def test_the_role_of_the_documentation_has_no_right_that_is_warned_of(
    server: PostgresqlServer,
) -> None:
    assert DatabaseReader(server.url("reader")).excess_rights() == []
    rights = DatabaseReader(server.url()).excess_rights()
    assert rights[0] == "it is a superuser"
    assert "it may read table hidden.secret of another schema" in rights


def test_the_server_warns_of_a_user_who_may_do_more_than_read(
    server: PostgresqlServer, capsys: pytest.CaptureFixture[str]
) -> None:
    warn_of_rights(server.url("reader"))
    assert capsys.readouterr().err == ""
    warn_of_rights(server.url())
    warned = capsys.readouterr().err
    assert "warning: the user of the database may do more than read" in warned
    assert "docs/databases.md shows" in warned


def test_a_query_that_takes_too_long_ends_at_the_server(
    server: PostgresqlServer, shop: Database
) -> None:
    slow = "select count(*) from sale as a , sale as b , sale as c"
    with pytest.raises(QueryError, match="it takes more than 1 s"):
        shop.run(slow)
    _wait_until_idle(server)


def _wait_until_idle(server: PostgresqlServer) -> None:
    """Wait for the end of all queries but ours; there is no other way to see one."""
    active = "select count(*) from pg_stat_activity where state = 'active' and query like '%sale%'"
    for _ in range(100):
        # The query that counts is active, too.
        if server.execute(active) == [(1,)]:
            return
        time.sleep(0.1)
    pytest.fail("a query goes on at the server")


def test_a_query_ends_at_the_server_when_its_client_was_killed(
    server: PostgresqlServer,
) -> None:
    code = (
        "import os, sys; from nqg.sql.database import Database;"
        "database = Database.open(sys.argv[1], seconds=2); print('ready', flush=True);"
        "database.run('select count(*) from sale as a , sale as b , sale as c')"
    )
    client = subprocess.Popen(
        [sys.executable, "-c", code, server.url()],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert client.stdout is not None
    with client, client.stdout:
        assert client.stdout.readline() == b"ready\n"
        client.send_signal(signal.SIGKILL)
    _wait_until_idle(server)


def test_a_host_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as silent:
        port = silent.getsockname()[1]
        url = f"postgresql+psycopg://reader:word@127.0.0.1:{port}/shop"
        request = QueryRequest(url, "select 1", (), 10, 1000)
        with pytest.raises(NqgError, match=r"it takes more than 0\.5 s"):
            DatabaseReader(url).run(request, 0.5)


@pytest.mark.parametrize(
    "query",
    {
        "doubled": "select x || x as x from (" * 8
        + "select name as x from product"
        + ") as d" * 8,
        "wide": f"select {' , '.join(['name'] * 1990)} from sale , product",
        "long": f"select '{'x' * 90_000}' from sale , product",
    }.values(),
)
def test_results_are_small_whatever_is_asked(shop: Database, query: str) -> None:
    try:
        rows = shop.run(query)
    except QueryError:
        return
    assert len(json.dumps(rows.to_dict())) < 2 * shop.most_bytes


def test_the_reason_of_a_failure_names_neither_user_nor_host(
    server: PostgresqlServer,
) -> None:
    database = Database.open(server.url("reader"))
    server.execute(
        "alter role reader nologin",
        "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'reader'",
    )
    with pytest.raises(QueryError) as found:
        database.run("select name from product")
    server.execute("alter role reader login")
    assert str(found.value) == (
        "the query does not run: the database cannot be reached"
    )
    with pytest.raises(QueryError) as found:
        database.run("select name - 1 from product")
    for word in ("reader", "postgres", str(server.folder)):
        assert not re.search(rf"\b{re.escape(word)}\b", str(found.value))


def test_the_schema_and_the_values_come_from_the_server(
    server: PostgresqlServer, shop: Database
) -> None:
    names = [table.name for table in shop.schema.tables]
    assert names == ["approval", "product", "sale"]
    assert column_values(server.url(), "Sale.City").values == {"oslo": "Oslo"}


def test_a_database_without_tables_is_refused(server: PostgresqlServer) -> None:
    server.execute("create database empty")
    with pytest.raises(NqgError, match="at least one table, found none"):
        Database.open(server.url(database="empty"))
