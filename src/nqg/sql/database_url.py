"""Databases that SQLAlchemy reaches: a URL, such as `postgresql+psycopg://reader@host/shop`, in the
place of a file. The reader process calls these functions.

A connection is for one use. It is told to read only, where the database knows how, and what was
done is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnClause,
    Connection,
    Engine,
    Inspector,
    NullPool,
    create_engine,
    inspect,
    make_url,
    select,
    table,
)
from sqlalchemy import column as sql_column
from sqlalchemy.engine.reflection import ObjectKind
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from nqg.sql.reader_protocol import (
    Column,
    Contents,
    Failure,
    QueryRequest,
    ReadFailure,
    Result,
    bounded_result,
    column_texts,
    first_line,
    views_in_time,
)

# What makes a session, or its transaction, one that cannot write. A user who may only
# read is the better guard.
READ_ONLY = {
    "sqlite": (
        "pragma query_only = on",
        "pragma trusted_schema = off",
        "pragma temp_store = memory",
    ),
    "postgresql": (
        "set session default_transaction_read_only = on",
        "set transaction read only",
    ),
    "mysql": ("set session transaction read only",),
    "mariadb": ("set session transaction read only",),
    "oracle": ("set transaction read only",),
}
# Limits at the server hold where this process is killed.
TIME_LIMITS = {
    "postgresql": (
        "set session statement_timeout = {milliseconds}",
        "set session idle_in_transaction_session_timeout = {milliseconds}",
    ),
    "mysql": ("set session max_execution_time = {milliseconds}",),
    "mariadb": ("set session max_statement_time = {seconds}",),
}
ROWS_AT_A_TIME = 50  # that a driver asks the server for
# What the user of a database may do beyond reading the tables that it can name, in words.
_POSTGRESQL_RIGHTS = r"""
    with
        own as (select * from pg_roles where rolname = current_user),
        schema as (
            select oid, nspname as name from pg_namespace
            where nspname not like 'pg\_%' and nspname <> 'information_schema'
            and has_schema_privilege(oid, 'usage')
        ),
        relation as (
            select pg_class.oid, pg_class.oid::regclass::text as name
            from pg_class join schema on relnamespace = schema.oid
            where relkind in ('r', 'p', 'v', 'm', 'f')
        )
    select 'it is a superuser' from own where rolsuper
    union all
    select 'it may create roles or databases, replicate, or bypass row security' from own
    where rolcreaterole or rolcreatedb or rolreplication or rolbypassrls
    union all
    select 'it may write to table ' || name from relation
    where has_table_privilege(oid, 'insert, update, delete, truncate')
    union all
    select 'it may read table ' || name || ' of another schema' from relation
    where not pg_table_is_visible(oid) and has_table_privilege(oid, 'select')
    union all
    select 'it may create tables in schema ' || name from schema
    where has_schema_privilege(oid, 'create')
    union all
    select 'it may call ' || pg_proc.oid::regprocedure from pg_proc join schema on pronamespace = schema.oid
    where provolatile = 'v' and has_function_privilege(pg_proc.oid, 'execute')
    union all
    select 'it is a member of role ' || rolname from pg_roles
    where rolname <> current_user and pg_has_role(current_user, oid, 'member')
"""
EXCESS_RIGHTS = {"postgresql": _POSTGRESQL_RIGHTS}
MOST_RIGHTS = 10  # that are named


@cache
def prepare(url: str) -> Engine:
    """What connects to a URL, with its driver loaded."""
    return create_engine(url, poolclass=NullPool)


@contextmanager
def connected(url: str, seconds: float) -> Iterator[Connection]:
    """A connection that only reads; what fails is a `ReadFailure`."""
    name = make_url(url).render_as_string(hide_password=True)
    # A connection to a SQLite file that does not exist would make one.
    is_sqlite = make_url(url).get_backend_name() == "sqlite"
    if is_sqlite and not Path(make_url(url).database or "").is_file():
        reason = "expected a SQLite database, found no such file"
        raise ReadFailure(Failure.PLACE, f"{name}: {reason}")
    is_connected = False
    try:
        with prepare(url).connect() as connection:
            dialect = connection.dialect.name
            for statement in READ_ONLY.get(dialect, ()):
                connection.exec_driver_sql(statement)
            milliseconds = max(int(1000 * seconds), 1)
            for limit in TIME_LIMITS.get(dialect, ()):
                statement = limit.format(milliseconds=milliseconds, seconds=seconds)
                connection.exec_driver_sql(statement)
            is_connected = True
            yield connection
            connection.rollback()
    # A driver that is not installed is an ImportError.
    except (SQLAlchemyError, ImportError) as error:
        cause: BaseException = error
        if isinstance(error, DBAPIError) and error.orig is not None:
            cause = error.orig
        # The words of a server about a query are for all; what a driver says of a
        # connection names the host.
        if is_connected and _is_about_the_query(error):
            raise ReadFailure(Failure.QUERY, first_line(cause)) from None
        raise ReadFailure(Failure.PLACE, f"{name}: {first_line(cause)}") from None


def _is_about_the_query(error: Exception) -> bool:
    """Whether an error is what a database says of a query, not of itself."""
    if not isinstance(error, DBAPIError):
        return True
    # SQLite has one error for a broken connection and for a column that does not exist.
    is_sqlite = type(error.orig).__module__.startswith("sqlite3")
    kinds = ("ProgrammingError", "DataError", "NotSupportedError", "InternalError")
    return is_sqlite or type(error).__name__ in kinds


def read_contents(url: str, seconds: float) -> Contents:
    """The tables and views that the user of the database can name without a prefix."""
    with connected(url, seconds) as connection:
        inspector = inspect(connection)
        contents = Contents(Path(connection.engine.url.database or "database").stem)
        # PostgreSQL has no order of tables.
        tables = sorted(inspector.get_table_names())
        views = sorted(inspector.get_view_names())
        if not tables + views:
            reason = "expected a database with at least one table, found none"
            raise ReadFailure(Failure.PLACE, reason)
        # PostgreSQL tells of a thousand tables in one answer; SQLite fails at a broken
        # view, and is asked about one table at a time.
        groups: Iterable[list[str]] = [tables + views]
        if connection.dialect.name == "sqlite":
            names = chain(tables, views_in_time(views, contents))
            groups = ([name] for name in names)
        for group in groups:
            try:
                _add_tables(inspector, group, contents)
            except (SQLAlchemyError, MemoryError) as error:
                for name in group:
                    contents.leave_out(name, error)
        return contents


def _add_tables(inspector: Inspector, names: list[str], contents: Contents) -> None:
    """Add the columns and foreign keys of tables."""
    kind = ObjectKind.ANY
    columns = inspector.get_multi_columns(filter_names=names, kind=kind)
    keys = inspector.get_multi_foreign_keys(filter_names=names, kind=kind)
    for name in names:
        contents.add(name, [column["name"] for column in columns[None, name]])
        # A key of several columns becomes one foreign key for each pair of columns.
        for key in keys[None, name]:
            for column, referred in zip(
                key["constrained_columns"], key["referred_columns"]
            ):
                refers_to = (key["referred_table"], referred)
                contents.foreign_keys.append((name, column, *refers_to))


def read_column(url: str, column: Column, seconds: float) -> tuple[list[str], int]:
    """The distinct values of a column in their order, and how many of them are not text."""
    values: ColumnClause[Any] = sql_column(column.name)
    query = select(values).distinct().select_from(table(column.table)).order_by(values)
    with connected(url, seconds) as connection:
        streamed = connection.execution_options(stream_results=True)
        return column_texts(value for (value,) in streamed.execute(query))


def run_query(request: QueryRequest, seconds: float) -> Result:
    """The rows of a query that was checked before."""
    with connected(request.place, seconds) as connection:
        once = connection.execution_options(
            no_parameters=True, stream_results=True, max_row_buffer=ROWS_AT_A_TIME
        )
        result = once.exec_driver_sql(request.query)
        return bounded_result(list(result.keys()), result, request)


def excess_rights(url: str, seconds: float) -> list[str]:
    """What the user of a database may do beyond reading its tables, where a database tells."""
    with connected(url, seconds) as connection:
        query = EXCESS_RIGHTS.get(connection.dialect.name)
        if query is None:
            return []
        once = connection.execution_options(no_parameters=True)
        rows = once.exec_driver_sql(query).fetchmany(MOST_RIGHTS)
        return [right for (right,) in rows]
