"""`nqg serve`: a trained model as a web page and a JSON API."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

from nqg.cli.options import DatabasePlace, Device, Model, command
from nqg.cli.terminal import checked_device, err
from nqg.data.example import in_scope
from nqg.data.example_files import read_examples
from nqg.errors import MissingExtra, NqgError, SettingsError
from nqg.evaluation.active_learning import addable_examples
from nqg.grammar.compilation import compile_kernels
from nqg.model_folder import check_digest
from nqg.sql.database import Database
from nqg.sql.reader import DatabaseReader

try:
    from fastapi import FastAPI
    from uvicorn.config import STARTUP_FAILURE
    from uvicorn.supervisors import Multiprocess

    from nqg.web.app import (
        Reload,
        Server,
        address_of,
        bound_socket,
        create_app,
        server_config,
    )
    from nqg.web.chat import PassOn
    from nqg.web.middleware import Access, Limits, is_loopback
    from nqg.web.service import Service
except ModuleNotFoundError as error:
    raise MissingExtra("nqg serve", "web") from error

# What a query may take, and what a page shows.
QUERY_SECONDS = 1.0
MOST_ROWS_SHOWN = 100
MOST_BYTES_SHOWN = 1_000_000
# The environment variable with the key of the server that chats are passed on to.
PASS_ON_KEY = "NQG_PASS_ON_KEY"


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What is served, where, to whom."""

    model: Model
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="The address to listen on; beyond this machine, a token is required.",
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="N",
            help="The port to listen on; 0 picks a free one.",
            min=0,
            max=65535,
        ),
    ] = 8000
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="WORD",
            envvar="NQG_TOKEN",
            help="The token that clients must send; generated and printed if one is needed.",
        ),
    ] = None
    allowed_hosts: Annotated[
        list[str],
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            help="Another host name that this server answers for; may be repeated.",
        ),
    ] = field(default_factory=list)
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help="Examples (.tsv, .jsonl): the page shows which rules they use.",
        ),
    ] = None
    database: DatabasePlace = None
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest",
            metavar="SHA256",
            help="Serve the model only if this is its digest, as `nqg check-model` prints it.",
        ),
    ] = None
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            metavar="N",
            help="Processes that share the requests; from 2 on, dead ones are replaced.",
            min=1,
        ),
    ] = 1
    log: Annotated[
        Path | None,
        typer.Option(
            "--log",
            metavar="FILE",
            help="Add what is asked and answered to this file: see `nqg suggest`.",
        ),
    ] = None
    review: Annotated[
        Path | None,
        typer.Option(
            "--review",
            metavar="FILE",
            help="Sentences of the log can be annotated on the page: add pairs to this file.",
        ),
    ] = None
    pass_on: Annotated[
        str | None,
        typer.Option(
            "--pass-on",
            metavar="URL",
            help="An OpenAI-compatible server, such as http://localhost:11434/v1: "
            "chats without an answer go there, with the key in NQG_PASS_ON_KEY.",
        ),
    ] = None
    pass_on_model: Annotated[
        str | None,
        typer.Option(
            "--pass-on-model",
            metavar="NAME",
            help="The model that chats are passed on to, instead of the one that they name.",
        ),
    ] = None
    device: Device = None


@command(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Serve a trained model: a web page to try it, and a JSON API.

    Example: nqg serve models/mine --data train.tsv

    The page is at http://127.0.0.1:8000, the description of the API at /docs.
    Ctrl-C stops the server after it has answered pending requests; SIGHUP loads
    the model again. Beyond this machine, every request must carry a token.
    Clients of OpenAI find a chat model at /v1.
    """
    access = Access.for_host(options.host, options.token, options.allowed_hosts)
    check_log(options.log)
    check_review(options)
    check_digest(options.model, options.digest)
    warn_of_rights(options.database)
    pass_on = checked_pass_on(options)
    served = ServedModel(options, access, checked_device(options.device), pass_on)
    # At once, so that a port in use is an error before anything starts.
    with bound_socket(options.host, options.port) as bound:
        if options.workers == 1:
            run = prepared_server(served, bound)
        else:
            run = prepared_workers(served, bound, options.workers)
        err.print(f"serving {options.model} at {address_of(bound)} (Ctrl-C stops)")
        warn_of_proxy(options)
        if options.token is None and access.token is not None:
            # On stdout, because --quiet must not hide it.
            typer.echo(f"token: {access.token}")
        run()


def prepared_server(served: ServedModel, bound: socket.socket) -> Callable[[], None]:
    """What serves a model in this process; the model is loaded now."""
    reload = served.reload()
    server = Server(
        served.service(),
        served.access,
        served.sentences(),
        bound,
        served.pass_on,
        reload,
    )
    # Uvicorn raises them again at its end, when this does no harm.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: server.stop())
    return server.run


class WorkerSupervisor(Multiprocess):
    """Uvicorn's processes, which it replaces where they die. SIGHUP goes to each of them: to
    replace all would cost the requests that arrive on connections that are closing.
    """

    def keep_subprocess_alive(self) -> None:
        before = list(self.processes)
        super().keep_subprocess_alive()
        for old, new in zip(before, self.processes):
            if new is not old:
                err.print(f"worker {old.pid} has died; worker {new.pid} replaces it")

    def handle_hup(self) -> None:
        for process in self.processes:
            # One that ends now is replaced, and its successor loads the model anyway.
            if process.pid is not None and process.exitcode is None:
                os.kill(process.pid, signal.SIGHUP)


def prepared_workers(
    served: ServedModel, bound: socket.socket, workers: int
) -> Callable[[], None]:
    """What serves a model in several processes."""
    threads = max((os.cpu_count() or 1) // workers, 1)
    supervisor = WorkerSupervisor(
        server_config(Worker(served, threads), Limits(), workers), [bound]
    )

    def run() -> None:
        supervisor.run()
        if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
            raise typer.Exit(1)

    return run


def warn_of_proxy(options: ServeOptions) -> None:
    """Warn of a proxy that makes the loopback interface public, where no token is asked for."""
    is_open = is_loopback(options.host) and options.token is None
    if options.allowed_hosts and is_open:
        names = ", ".join(options.allowed_hosts)
        err.print(
            f"warning: whoever reaches {names} reaches this server, which asks for no token: "
            "set NQG_TOKEN, or let the proxy ask for a password"
        )


def check_log(log: Path | None) -> None:
    """Refuse a log that cannot be written, before anybody is answered."""
    if log is None:
        return
    folder = log.parent
    if not folder.is_dir():
        raise NqgError(f"{log}: cannot be written (no folder {folder}); make it first")
    written = log if log.exists() else folder
    if log.is_dir() or not os.access(written, os.W_OK):
        raise NqgError(f"{log}: cannot be written; name a file that you may write to")


def check_review(options: ServeOptions) -> None:
    """Refuse a review without sentences, of a file that cannot be added to, or by people who were
    not chosen.
    """
    if options.review is None:
        return
    if options.log is None:
        raise SettingsError(
            "--review takes its sentences from a log: give --log FILE, too"
        )
    addable_examples(options.review)
    if not is_loopback(options.host) and options.token is None:
        raise SettingsError(
            "--review lets people write to a file: beyond this machine, choose the --token yourself"
        )


def warn_of_rights(database: str | None) -> None:
    """Warn of a user who may do more to a database than read its tables."""
    if database is None:
        return
    rights = DatabaseReader(database).excess_rights()
    for right in rights:
        err.print(f"warning: the user of the database may do more than read: {right}")
    if rights:
        err.print("docs/databases.md shows how to create a user who may only read")


def checked_pass_on(options: ServeOptions) -> PassOn | None:
    if options.pass_on is None:
        if options.pass_on_model is not None:
            raise SettingsError("--pass-on-model needs a server: give --pass-on URL")
        return None
    key = os.environ.get(PASS_ON_KEY)
    return PassOn(options.pass_on, options.pass_on_model, key)


@dataclass(frozen=True)
class ServedModel:
    """What is served, and to whom."""

    options: ServeOptions
    access: Access
    device: str | None
    pass_on: PassOn | None = None

    def service(self) -> Service:
        """The model in service, loaded now."""
        options = self.options
        check_digest(options.model, options.digest)
        database = None
        if options.database:
            database = Database.open(
                options.database,
                seconds=QUERY_SECONDS,
                most_rows=MOST_ROWS_SHOWN,
                most_bytes=MOST_BYTES_SHOWN,
            )
        # A server has much to do, and nobody should wait for the compiler later.
        compile_kernels()
        service = Service.load(
            options.model, self.device, database, options.log, options.review
        )
        # What was loaded was whole, and the index is still the same.
        check_digest(options.model, options.digest)
        return service

    def reload(self) -> Reload:
        """What loads the model again at SIGHUP, from now on."""
        reload = Reload(self.service, err.print)
        reload.on_signal()
        return reload

    def sentences(self) -> list[str]:
        """The examples for the page."""
        if self.options.data is None:
            return []
        examples = read_examples(self.options.data, allows_out_of_scope=True)
        return [example.source for example in in_scope(examples)]


@dataclass(frozen=True)
class Worker:
    """Makes the application of one of several workers, in its process."""

    served: ServedModel
    threads: int  # of torch, where a model needs it

    def __call__(self) -> FastAPI:
        Thread(target=_end_with_parent, daemon=True).start()
        # torch reads this when it is loaded.
        os.environ["OMP_NUM_THREADS"] = str(self.threads)
        try:
            served = self.served
            reload = served.reload()
            return create_app(
                served.service(),
                served.access,
                served.sentences(),
                served.pass_on,
                reload,
            )
        except NqgError as error:
            err.print(f"no new worker: {error}")
            sys.exit(STARTUP_FAILURE)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
