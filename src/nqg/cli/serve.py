"""`nqg serve`: a trained model as a web page and a JSON API."""

from __future__ import annotations

import signal
from pathlib import Path

import typer

from nqg.cli.terminal import DATABASE, DEVICE, MODEL, checked_device, err
from nqg.data.database import Database
from nqg.data.examples import read_examples
from nqg.errors import MissingExtra
from nqg.model_folder import check_digest

try:
    from nqg.web.app import Server
    from nqg.web.middleware import Access
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


def serve(
    model: Path = MODEL,
    host: str = HOST,
    port: int = PORT,
    token: str | None = TOKEN,
    names: list[str] = NAMES,
    examples: Path | None = EXAMPLES,
    geobase: Path | None = GEOBASE,
    database: Path | None = DATABASE,
    digest: str | None = DIGEST,
    device: str | None = DEVICE,
) -> None:
    """Serve a trained model: a web page to try it, and a JSON API.

    Example: nqg serve models/mine --examples train.tsv

    The page is at http://127.0.0.1:8000, the description of the API at /docs.
    Ctrl-C stops the server after it has answered pending requests. On any address
    beyond this machine, every request must carry a token.
    """
    access = Access.for_host(host, token, names)
    sentences = [example.source for example in read_examples(examples)] if examples else []
    check_digest(model, digest)
    lookup = GeobaseLookup.read(geobase) if geobase else None
    run_on = Database.open(database, seconds=QUERY_SECONDS, most_rows=MOST_ROWS) if database else None
    service = Service.load(model, checked_device(device), lookup, run_on)
    check_digest(model, digest)  # what was loaded was whole, and the index is still the same
    server = Server(service, access, sentences, host, port)
    for each in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again at its end, when this does no harm
        signal.signal(each, lambda *_: server.stop())
    err.print(f"serving {model} at {server.address} (Ctrl-C stops)")
    if token is None and access.token is not None:
        print(f"token: {access.token}", flush=True)  # on stdout: --quiet must not hide it
    server.run()
