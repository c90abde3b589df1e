"""`nqg serve` as a process: it answers, it locks, it stops in order."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from typer.testing import CliRunner

from nqg.cli.main import app
from nqg.errors import MissingExtra, NqgError, SettingsError
from nqg.model_folder import folder_digest
from web_service import tiny_parser

NQG = Path(sys.executable).parent / "nqg"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "tiny"
    tiny_parser().save(folder)
    return folder


@contextmanager
def serving(
    model: Path, *options: str
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A server process and the lines that it said until it was ready."""
    command = [
        str(NQG),
        "serve",
        str(model),
        "--port",
        "0",
        "--device",
        "cpu",
        *options,
    ]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stdout is not None
    lines = [process.stderr.readline()]
    if "--host" in options and "--token" not in options:
        lines.append(process.stdout.readline())
    try:
        yield process, lines
    finally:
        process.kill()
        process.communicate()


def address(lines: list[str]) -> str:
    found = re.search(r"http://\S+", lines[0])
    assert found, lines
    return found[0].replace("0.0.0.0", "127.0.0.1")


def parsed(address: str, sentence: str, **headers: str) -> dict[str, object]:
    request = Request(
        f"{address}/api/parse",
        json.dumps({"sentence": sentence}).encode(),
        method="POST",
    )
    request.add_header("Content-Type", "application/json")
    for name, value in headers.items():
        request.add_header(name, value)
    with urlopen(request, timeout=60) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def stopped(process: subprocess.Popen[str], how: signal.Signals) -> tuple[int, str]:
    """The exit code of a server that was told to stop, and what it said on its way."""
    process.send_signal(how)
    out, err = process.communicate(timeout=60)
    return process.returncode, out + err


def test_it_serves_this_machine_and_stops_at_ctrl_c(model: Path) -> None:
    with serving(model) as (process, lines):
        assert lines[0].startswith(f"serving {model} at http://127.0.0.1:")
        assert parsed(address(lines), "run twice")["target"] == "R R"
        assert stopped(process, signal.SIGINT) == (0, "")


def test_on_other_addresses_it_makes_up_a_token_and_demands_it(model: Path) -> None:
    with serving(model, "--host", "0.0.0.0") as (process, lines):
        token = lines[1].removeprefix("token: ").strip()
        assert len(token) >= 32
        with pytest.raises(HTTPError, match="401"):
            parsed(address(lines), "run")
        assert (
            parsed(address(lines), "run", Authorization=f"Bearer {token}")["target"]
            == "R"
        )
        assert stopped(process, signal.SIGTERM) == (0, "")


def test_one_worker_loads_the_model_again_and_keeps_its_connections(
    model: Path, tmp_path: Path
) -> None:
    served = Path(shutil.copytree(model, tmp_path / "served"))
    with ExitStack() as stack:
        process, lines = stack.enter_context(serving(served))
        assert process.stderr is not None
        host = address(lines).removeprefix("http://")
        idle = stack.enter_context(closing(HTTPConnection(host, timeout=60)))
        idle.request("GET", "/health")
        idle.getresponse().read()
        socket = idle.sock
        process.send_signal(signal.SIGHUP)
        digest = folder_digest(served)
        loaded = f"process {process.pid} loaded the model again: {digest} (unchanged)\n"
        assert process.stderr.readline() == loaded
        # The connection that was idle meanwhile is the same, and is answered.
        idle.request("GET", "/api/model")
        answer = json.load(idle.getresponse())
        assert (answer["name"], answer["digest"]) == ("served", digest)
        assert idle.sock is socket
        (served / "grammar.txt").unlink()
        process.send_signal(signal.SIGHUP)
        assert process.stderr.readline() == (
            f"the model is not loaded again: {served / 'grammar.txt'} is missing: "
            "the model folder is incomplete\n"
        )
        assert parsed(address(lines), "run twice")["target"] == "R R"
        assert stopped(process, signal.SIGTERM) == (0, "")


def workers(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(child)
        for child in found
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_workers_load_the_model_again_where_it_can_be_and_are_replaced_and_end_with_the_first_process(
    model: Path, tmp_path: Path
) -> None:
    served = Path(shutil.copytree(model, tmp_path / "served"))
    with serving(served, "--workers", "2") as (process, lines):
        assert process.stderr is not None
        assert parsed(address(lines), "run twice")["target"] == "R R"
        # Once both workers have loaded it again, none is still loading it.
        first = set(workers(process.pid))
        process.send_signal(signal.SIGHUP)
        reports = {process.stderr.readline(), process.stderr.readline()}
        again = f"loaded the model again: {folder_digest(served)} (unchanged)"
        assert reports == {f"process {pid} {again}\n" for pid in first}
        (served / "grammar.txt").rename(tmp_path / "grammar.txt")
        process.send_signal(signal.SIGHUP)
        refused = (
            f"the model is not loaded again: {served / 'grammar.txt'} is missing: "
            "the model folder is incomplete\n"
        )
        assert [process.stderr.readline() for _ in first] == [refused, refused]
        assert set(workers(process.pid)) == first
        assert parsed(address(lines), "run twice")["target"] == "R R"
        (tmp_path / "grammar.txt").rename(served / "grammar.txt")
        os.kill(killed := workers(process.pid)[-1], signal.SIGKILL)
        while len({*workers(process.pid)} - {killed}) < 2:
            time.sleep(0.05)
        (replacement,) = set(workers(process.pid)) - first
        said = f"worker {killed} has died; worker {replacement} replaces it\n"
        assert process.stderr.readline() == said
        assert parsed(address(lines), "run twice")["target"] == "R R"
        last = workers(process.pid)
        process.kill()
        while any(Path(f"/proc/{pid}").exists() for pid in last):
            time.sleep(0.05)


def failure(*arguments: str) -> BaseException | None:
    return CliRunner().invoke(app, ["serve", *arguments]).exception


def test_a_weak_token_is_refused_before_the_model_is_loaded() -> None:
    error = failure("nowhere", "--token", "1234")
    assert isinstance(error, SettingsError)
    assert "at least 16 printable ASCII characters" in str(error)


def test_a_proxy_without_a_token_is_warned_of(model: Path) -> None:
    with serving(model, "--allowed-host", "parser.example.org") as (process, _):
        assert process.stderr is not None
        warning = process.stderr.readline()
    assert warning.startswith("warning: whoever reaches parser.example.org reaches")
    assert "set NQG_TOKEN" in warning


def test_a_log_that_cannot_be_written_is_refused_before_anybody_is_answered(
    model: Path, tmp_path: Path
) -> None:
    error = failure(str(model), "--log", str(tmp_path / "none" / "log.jsonl"))
    assert isinstance(error, NqgError)
    assert f"no folder {tmp_path / 'none'}" in str(error)
    error = failure(str(model), "--log", str(tmp_path))
    assert isinstance(error, NqgError)
    assert "name a file that you may write to" in str(error)


def test_a_folder_that_is_no_model_is_an_error(tmp_path: Path) -> None:
    error = failure(str(tmp_path))
    assert isinstance(error, NqgError)
    assert "is not a model folder" in str(error)


def test_without_the_web_extra_it_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "nqg.web.serve", raising=False)
    monkeypatch.setitem(sys.modules, "nqg.web.app", None)
    error = failure("nowhere")
    assert isinstance(error, MissingExtra)
    assert str(error) == (
        "nqg serve needs the extra 'web': in a checkout of nqg, pip install -c constraints.txt '.[web]'"
    )
