"""`nqg serve`: a trained model as a web page and a JSON API."""

from __future__ import annotations

import os
import signal
import socket
from functools import partial
from pathlib import Path

import torch
import typer

from nqg.cli.terminal import DATABASE, DEVICE, MODEL, checked_device, err
from nqg.data.database import Database
from nqg.data.examples import read_examples
from nqg.errors import MissingExtra, SettingsError
from nqg.evaluation.suggestions import addable_examples
from nqg.model_folder import check_digest

try:
    from nqg.web.app import Server, Workers, address_of, bound_socket
    from nqg.web.middleware import Access, is_loopback
    from nqg.web.service import GeobaseLookup, Service
except ModuleNotFoundError as error:
    raise MissingExtra("nqg serve", "web") from error

QUERY_SECONDS, MOST_ROWS = 1.0, 100  # what a query may take, and what a page shows

HOST = typer.Option(
    "127.0.0.1", "--host", metavar="ADDRESS", help="The address to listen on; beyond this machine, a token is required."
)
PORT = typer.Option(8000, "--port", metavar="N", help="The port to listen on; 0 picks a free one.", min=0, max=65535)
TOKEN = typer.Option(
    None,
    "--token",
    metavar="WORD",
    envvar="NQG_TOKEN",
    help="The token that clients must send; generated and printed if one is needed.",
)
NAMES = typer.Option(
    [], "--name", metavar="NAME", help="Another host name that this server answers for; may be repeated."
)
EXAMPLES = typer.Option(
    None, "--examples", metavar="FILE", help="Examples (.tsv, .jsonl): the page shows which rules they use."
)
GEOBASE = typer.Option(
    None, "--geobase", metavar="FILE", help="For GeoQuery models: recognise names and look up answers in this file."
)
DIGEST = typer.Option(
    None, "--digest", metavar="SHA256", help="Serve the model only if this is its digest, as `nqg verify` prints it."
)
LOG = typer.Option(
    None, "--log", metavar="FILE", help="Add what is asked and answered to this file: see `nqg suggest`."
)
REVIEW = typer.Option(
    None, "--review", metavar="FILE", help="Sentences of the log can be annotated on the page: add pairs to this file."
)
WORKERS = typer.Option(
    1, "--workers", metavar="N", help="Processes that share the requests; from 2 on, dead ones are replaced.", min=1
)


def serve(
    model: Path = MODEL,
    host: str = HOST,
    port: int = PORT,
    token: str | None = TOKEN,
    names: list[str] = NAMES,
    examples: Path | None = EXAMPLES,
    geobase: Path | None = GEOBASE,
    database: str | None = DATABASE,
    digest: str | None = DIGEST,
    workers: int = WORKERS,
    log: Path | None = LOG,
    review: Path | None = REVIEW,
    device: str | None = DEVICE,
) -> None:
    """Serve a trained model: a web page to try it, and a JSON API.

    Example: nqg serve models/mine --examples train.tsv

    The page is at http://127.0.0.1:8000, the description of the API at /docs.
    Ctrl-C stops the server after it has answered pending requests; with several
    workers, SIGHUP loads the model again. Beyond this machine, every request must
    carry a token.
    """
    access = Access.for_host(host, token, names)
    if review:
        check_review(review, log, host, token)
    known = model, access, examples, geobase, database, log, review, digest, checked_device(device), workers
    load = partial(loaded_server, *known)
    check_digest(model, digest)
    with bound_socket(host, port) as bound:  # at once: a port in use is an error before anything starts
        server = load(bound) if workers == 1 else Workers(load, bound, workers)
        for each in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again at its end, when this does no harm
            signal.signal(each, lambda *_: server.stop())
        if isinstance(server, Workers) and hasattr(signal, "SIGHUP"):  # not on Windows
            signal.signal(signal.SIGHUP, lambda *_: server.reload())
        err.print(f"serving {model} at {address_of(bound)} (Ctrl-C stops)")
        if token is None and access.token is not None:
            print(f"token: {access.token}", flush=True)  # on stdout: --quiet must not hide it
        for event in server.run() or ():
            err.print(event)


def check_review(review: Path, log: Path | None, host: str, token: str | None) -> None:
    """Refuse a review without sentences, of a file that cannot be added to, or by people who were not chosen."""
    if log is None:
        raise SettingsError("--review takes its sentences from a log: give --log FILE, too")
    addable_examples(review)
    if not is_loopback(host) and token is None:
        raise SettingsError("--review lets people write to a file: beyond this machine, choose the --token yourself")


def loaded_server(
    model: Path,
    access: Access,
    examples: Path | None,
    geobase: Path | None,
    database: str | None,
    log: Path | None,
    review: Path | None,
    digest: str | None,
    device: str | None,
    workers: int,
    bound: socket.socket,
) -> Server:
    if workers > 1:
        torch.set_num_threads(max((os.cpu_count() or 1) // workers, 1))
    check_digest(model, digest)
    sentences = [example.source for example in read_examples(examples)] if examples else []
    lookup = GeobaseLookup.read(geobase) if geobase else None
    run_on = Database.open(database, seconds=QUERY_SECONDS, most_rows=MOST_ROWS) if database else None
    service = Service.load(model, device, lookup, run_on, log, review)
    check_digest(model, digest)  # what was loaded was whole, and the index is still the same
    return Server(service, access, sentences, bound)
