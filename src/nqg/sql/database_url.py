"""Databases that SQLAlchemy reaches: a URL, such as `postgresql+psycopg://reader@host/shop`, in the
place of a file.

A connection is for one use. It is told to read only, where the database knows how, and what was
done is rolled back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
        parsed = make_url(url)
        name = parsed.render_as_string(hide_password=True)
    except SQLAlchemyError:
        raise NqgError(
            "expected the URL of a database, such as postgresql+psycopg://user@host/name"
        ) from None
    # A connection to a SQLite file that does not exist would make one.
    is_sqlite = parsed.get_backend_name() == "sqlite"
    if is_sqlite and not Path(parsed.database or "").is_file():
        raise NqgError(f"{name}: expected a SQLite database, found no such file")
    is_late = threading.Event()
    try:
        with create_engine(url, poolclass=NullPool).connect() as connection:
            for statement in READ_ONLY.get(connection.dialect.name, ()):
                connection.exec_driver_sql(statement)
            limit = TIME_LIMIT.get(connection.dialect.name)
            if limit is not None:
                connection.exec_driver_sql(
                    limit.format(milliseconds=int(1000 * seconds), seconds=seconds)
                )
            # Drivers of the other databases are told to stop from outside.
            timer = threading.Timer(seconds, _stop, [connection, is_late])
            timer.daemon = True
            timer.start()
            try:
                yield connection
            finally:
                timer.cancel()
                connection.rollback()
    # A driver that is not installed is an ImportError.
    except (SQLAlchemyError, ImportError) as error:
        if is_late.is_set():
            reason = f"it takes more than {seconds:g} s"
        else:
            cause = error.orig if isinstance(error, DBAPIError) else error
            reason = str(cause).partition("\n")[0]
        raise NqgError(f"{name}: {reason}") from None


def _stop(connection: Connection, is_late: threading.Event) -> None:
    """End the query that runs, if the driver can: `interrupt` and `cancel` are what drivers call
    it.
    """
    is_late.set()
    driver = connection.connection.dbapi_connection
    for name in ("interrupt", "cancel"):
        stop = getattr(driver, name, None)
        if stop is not None:
            stop()
            return


def distinct_rows(url: str, table: str, column: str) -> Sequence[Sequence[Any]]:
    """The distinct values of a column, each as a row; names match in any casing."""
    with connected(url) as connection:
        from sqlalchemy import MetaData, Table, inspect, select

        inspector = inspect(connection)
        tables = [*inspector.get_table_names(), *inspector.get_view_names()]
        name = known_name("table of the database", table, tables)
        columns = Table(name, MetaData(), autoload_with=connection).columns
        selected = columns[known_name(f"column of {table}", column, columns.keys())]
        query = select(selected).distinct().order_by(selected)
        return connection.execute(query).fetchall()
