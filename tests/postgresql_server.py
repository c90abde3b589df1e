"""A PostgreSQL server of the tests' own: in a temporary folder, on a Unix socket, as a user who is not
root."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

OWNER = "owner"


@dataclass(frozen=True)
class PostgresqlServer:
    """A running server, which `owner` owns."""

    folder: Path

    def url(self, user: str = OWNER, database: str = "postgres") -> str:
        return f"postgresql+psycopg://{user}@/{database}?host={self.folder}"

    def execute(self, *statements: str) -> list[tuple[object, ...]]:
        """The rows of the last statement, as the owner runs it."""
        with psycopg.connect(
            host=str(self.folder), user=OWNER, dbname="postgres", autocommit=True
        ) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return [] if cursor.description is None else cursor.fetchall()


def _programs() -> str | None:
    """The folder of the server's programs, which Debian keeps out of the way."""
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin/"))
    path = os.pathsep.join([*folders[::-1], os.environ.get("PATH", "")])
    initdb = shutil.which("initdb", path=path)
    return initdb and os.path.dirname(initdb)


def _other_user() -> str | None:
    """Whom to run the server as: nobody else, unless this is root."""
    if os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return "nobody"


@contextmanager
def postgresql_server() -> Iterator[PostgresqlServer]:
    """A server for the length of a test; without one the test is skipped."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL's server is not installed (apt-get install postgresql)")
    user = _other_user()
    # The path of a socket has at most 107 characters, so not in pytest's folder.
    with tempfile.TemporaryDirectory(prefix="nqg-pg-") as name:
        folder = Path(name)
        if user is not None:
            shutil.chown(folder, user)

        def run(program: str, *options: str) -> None:
            subprocess.run(
                [f"{programs}/{program}", "-D", f"{folder}/data", *options],
                user=user,
                cwd=folder,
                check=True,
                stdout=subprocess.DEVNULL,
            )

        run("initdb", "--username", OWNER, "--auth", "trust", "--no-sync")
        folder.chmod(0o755)
        options = f"-c listen_addresses= -c fsync=off -k {folder}"
        run("pg_ctl", "start", "-w", "-o", options, "-l", f"{folder}/log")
        try:
            yield PostgresqlServer(folder)
        finally:
            run("pg_ctl", "stop", "-m", "immediate")
