"""A tiny parser in service, for tests of the web stage: inside the process, or behind a real socket."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from starlette.testclient import TestClient

from nqg.data.example import Example
from nqg.grammar.grammar import Grammar
from nqg.inference.hybrid import Hybrid
from nqg.inference.parser import Parser
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.sql.database import Database
from nqg.web.app import Server, bound_socket, create_app
from nqg.web.middleware import Access, Limits
from nqg.web.service import Service

HOSTILE = "<script>alert(1)</script>"
HOSTILE_TARGET = "<img/src=x/onerror=alert(1)>"
GRAMMAR = f"""
walk ### W
walk ### J
jump ### J
run ### R
{HOSTILE} ### {HOSTILE_TARGET}
NT_1 twice ### NT_1 NT_1
NT_1 and NT_2 ### NT_1 NT_2
NT_1 and NT_2 ### NT_2 NT_1
"""
LIMITS, ACCESS = Limits(), Access()
EXAMPLES = ("run and jump twice", "run twice", "fly")


def tiny_parser() -> Parser:
    """A parser that knows four words and is not sure of anything."""
    tiny = ModelSettings(
        dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
    )
    training = TrainingSettings(steps=1, batch_size=1)
    examples = [Example("walk and jump twice", "W J J")]
    return fit_parser(
        Grammar.parse(GRAMMAR), examples, model=tiny, training=training, device="cpu"
    )


@contextmanager
def served(
    parser: Parser,
    *,
    limits: Limits = LIMITS,
    access: Access = ACCESS,
    examples: Sequence[str] = EXAMPLES,
) -> Iterator[TestClient]:
    """A client of the application, without a socket."""
    app = create_app(Service("tiny", parser, limits=limits), access, examples)
    with TestClient(
        app, base_url="http://localhost", raise_server_exceptions=False
    ) as client:
        yield client


@contextmanager
def running(
    parser: Parser | Hybrid,
    limits: Limits = LIMITS,
    examples: Sequence[str] = EXAMPLES,
    log: Path | None = None,
    review: Path | None = None,
    name: str = "tiny",
    access: Access = ACCESS,
    database: Database | None = None,
) -> Iterator[Server]:
    """A real server on a free port of this machine, in a thread."""
    with bound_socket("127.0.0.1", 0, limits.client_timeout) as bound:
        service = Service(
            name, parser, limits=limits, log=log, review=review, database=database
        )
        server = Server(service, access, examples, bound)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join()
