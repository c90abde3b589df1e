"""Databases that SQLAlchemy reaches: a URL, such as `postgresql+psycopg://reader@host/shop`, in the
place of a file.

A connection is for one use. It is told to read only, where the database knows how, and what was
done is rolled back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nqg.errors import MissingExtra, NqgError
from nqg.sql.schema import known_name

if TYPE_CHECKING:
    from sqlalchemy import Connection

SECONDS = 60.0  # that reading a schema, or the values of a column, may take
# What makes a session, or its transaction, one that cannot write. A user who may only
# read is the better guard.
READ_ONLY = {
    "sqlite": ("pragma query_only = on", "pragma trusted_schema = off"),
    "postgresql": ("set transaction read only",),
    "mysql": ("set session transaction read only",),
    "mariadb": ("set session transaction read only",),
    "oracle": ("set transaction read only",),
}
# Of databases whose drivers cannot stop a query that runs; the others are told by the driver.
TIME_LIMIT = {
    "mysql": "set session max_execution_time = {milliseconds}",
    "mariadb": "set session max_statement_time = {seconds}",
}


@contextmanager
def connected(url: str, seconds: float = SECONDS) -> Iterator[Connection]:
    """A connection that only reads, and ends what takes longer than `seconds`; what fails is an
    error with a reason.
    """
    try:
        from sqlalchemy import NullPool, create_engine, make_url
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError
    except ImportError as error:
        raise MissingExtra("a database that is not a SQLite file", "sql") from error
    try:
        found = make_url(url)
        name = found.render_as_string(hide_password=True)
    except SQLAlchemyError:
        raise NqgError(
            "expected the URL of a database, such as postgresql+psycopg://user@host/name"
        ) from None
    if (
        found.get_backend_name() == "sqlite"
        and not Path(found.database or "").is_file()
    ):
        raise NqgError(
            f"{name}: expected a SQLite database, found no such file"
        )  # where a connection would make one
    is_late = threading.Event()
    try:
        with create_engine(url, poolclass=NullPool).connect() as connection:
            for statement in READ_ONLY.get(connection.dialect.name, ()):
                connection.exec_driver_sql(statement)
            if limit := TIME_LIMIT.get(connection.dialect.name):
                connection.exec_driver_sql(
                    limit.format(milliseconds=int(1000 * seconds), seconds=seconds)
                )
            timer = threading.Timer(seconds, _stop, [connection, is_late])
            timer.daemon = True
            timer.start()
            try:
                yield connection
            finally:
                timer.cancel()
                connection.rollback()
    except (
        SQLAlchemyError,
        ImportError,
    ) as error:  # the latter of a driver that is not installed
        first = error.orig if isinstance(error, DBAPIError) else error
        reason = (
            f"it takes more than {seconds:g} s"
            if is_late.is_set()
            else str(first).partition("\n")[0]
        )
        raise NqgError(f"{name}: {reason}") from None


def _stop(connection: Connection, is_late: threading.Event) -> None:
    """End the query that runs, if the driver can: `interrupt` and `cancel` are what drivers call
    it.
    """
    is_late.set()
    driver = connection.connection.dbapi_connection
    for name in ("interrupt", "cancel"):
        if (stop := getattr(driver, name, None)) is not None:
            stop()
            return


def values_of(url: str, table: str, column: str) -> list[str]:
    """The distinct values of a column; names match in any casing."""
    with connected(url) as connection:
        from sqlalchemy import MetaData, Table, inspect, select

        inspector = inspect(connection)
        tables = [*inspector.get_table_names(), *inspector.get_view_names()]
        name = known_name("table of the database", table, tables)
        columns = Table(name, MetaData(), autoload_with=connection).columns
        selected = columns[known_name(f"column of {table}", column, columns.keys())]
        rows = connection.execute(select(selected).distinct().order_by(selected))
        return [str(value) for (value,) in rows if value is not None]
