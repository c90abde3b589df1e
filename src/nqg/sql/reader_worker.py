"""The process that reads databases: `python -m nqg.sql.reader_worker`, which
`nqg.sql.reader.DatabaseReader` starts.

A request is a line of JSON on the standard input, its answer a line on the standard output. Time and
memory are bounded where the work is done: an alarm of the system ends the process where a function
of a database does not come back, and a limit of the system refuses what would take too much memory.
Both hold where the process that asked is killed, too.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from nqg.sql.reader_protocol import (
    Column,
    Failure,
    QueryRequest,
    ReadFailure,
    bytes_as_json,
    first_line,
)

# Of address space, in all; the interpreter, SQLAlchemy and a driver take 70 MB of it.
MOST_MEMORY = 256 << 20
# Seconds after its limit at which a query that does not stop by itself is ended.
GRACE = 0.5


def answer(request: dict[str, Any]) -> bytes:
    """The answer to a request: a result, or the kind of a failure and its reason."""
    seconds = request["seconds"]
    until = time.monotonic() + seconds
    try:
        result = _read(request, seconds)
        return json.dumps({"result": result}, default=bytes_as_json).encode()
    except ReadFailure as failure:
        kind, reason = failure.kind, failure.reason
    except MemoryError:
        kind, reason = Failure.MEMORY, "it takes too much memory"
    except Exception as error:
        # Drivers have errors of their own, and warn of a query of several statements.
        kind, reason = Failure.QUERY, first_line(error)
    # Whatever a database says when its time is up, that is the reason.
    if time.monotonic() >= until:
        kind, reason = Failure.TIME, f"it takes more than {seconds:g} s"
    return json.dumps({"failure": kind, "reason": reason}).encode()


def _source(request: dict[str, Any]) -> Any:
    """The module that reads the kind of database that is asked for."""
    if request["is_url"]:
        from nqg.sql import database_url

        return database_url
    from nqg.sql import sqlite_file

    return sqlite_file


def _read(request: dict[str, Any], seconds: float) -> Any:
    place = request["place"]
    source = _source(request)
    match request["read"]:
        case "contents":
            return asdict(source.read_contents(place, seconds))
        case "column":
            return source.read_column(place, Column(**request["column"]), seconds)
        case "query":
            return asdict(source.run_query(QueryRequest(**request["query"]), seconds))
        case "excess_rights":
            return source.excess_rights(place, seconds)
    raise ReadFailure(Failure.QUERY, f"expected a request, found {request!r:.80}")


def main() -> None:
    """Answer requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    # What a driver prints does not go among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        # Loading a driver is not the query's time; what fails now, fails again.
        with suppress(Exception):
            _source(request).prepare(request["place"])
        signal.setitimer(signal.ITIMER_REAL, request["seconds"] + GRACE)
        answered = answer(request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(answered + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
