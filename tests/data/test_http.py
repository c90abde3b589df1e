"""Downloads that break off are continued, retried with pauses, and given up with the last reason."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from local_server import LocalServer, serving
from nqg.data.download import HttpDownload, Received

PIECE = 1 << 16
CONTENT = os.urandom(4 * PIECE)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(CONTENT) as server:
        yield server


class Download:
    """A download into a temporary folder that records pauses and progress instead of spending or drawing them."""

    def __init__(self, folder: Path, server: LocalServer) -> None:
        self.part, self.whole, self.server = folder / "file.bin.part", folder / "file.bin", server
        self.pauses: list[float] = []
        self.received: list[Received] = []

    def run(self) -> bytes:
        download = HttpDownload(self.part, self.received.append, self.pauses.append)
        download(self.server.address("file.bin"), str(self.whole), None)
        assert not self.part.exists()
        return self.whole.read_bytes()


@pytest.fixture
def download(tmp_path: Path, server: LocalServer) -> Download:
    return Download(tmp_path, server)


def test_a_file_comes_in_whole_with_growing_progress(download: Download) -> None:
    assert download.run() == CONTENT
    assert download.received[-1] == Received("file.bin", len(CONTENT), len(CONTENT))
    counts = [step.bytes for step in download.received]
    assert counts == sorted(set(counts))
    assert not download.pauses


def test_a_dropped_connection_is_continued_where_it_broke_off(download: Download, server: LocalServer) -> None:
    server.mishaps = ["drop midway", "drop midway"]
    assert download.run() == CONTENT
    assert server.ranges == [None, "bytes=131072-", "bytes=196608-"]
    assert download.received[-1] == Received("file.bin", len(CONTENT), len(CONTENT))
    assert download.pauses == [0.5, 1]


def test_a_part_left_by_an_earlier_run_is_continued(download: Download, server: LocalServer) -> None:
    download.part.write_bytes(CONTENT[:1234])
    assert download.run() == CONTENT
    assert server.ranges == ["bytes=1234-"]


@pytest.mark.parametrize("status", ["500", "503", "429"])
def test_a_busy_server_is_asked_again(download: Download, server: LocalServer, status: str) -> None:
    server.mishaps = [status, status]
    assert download.run() == CONTENT
    assert download.pauses == [0.5, 1]


def test_a_server_without_ranges_sends_the_file_anew(download: Download, server: LocalServer) -> None:
    download.part.write_bytes(b"x" * 1234)
    server.mishaps = ["no ranges"]
    assert download.run() == CONTENT


@pytest.mark.parametrize("mishap", ["wrong range", "416"])
def test_a_part_that_does_not_fit_is_thrown_away(download: Download, server: LocalServer, mishap: str) -> None:
    download.part.write_bytes(b"x" * 1234)
    server.mishaps = [mishap]
    assert download.run() == CONTENT
    assert server.ranges == ["bytes=1234-", None]


def test_a_missing_file_is_given_up_at_once(download: Download, server: LocalServer) -> None:
    server.mishaps = ["404"]
    with pytest.raises(requests.HTTPError, match="404"):
        download.run()
    assert len(server.ranges) == 1


def test_four_failures_are_final_and_keep_the_part(download: Download, server: LocalServer) -> None:
    server.mishaps = ["drop midway", *["503"] * 3]
    with pytest.raises(requests.RequestException, match="the server answered 503"):
        download.run()
    assert download.pauses == [0.5, 1, 2]
    assert download.part.read_bytes() == CONTENT[: 2 * PIECE]
    assert not download.whole.exists()


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    download = HttpDownload(tmp_path / "part", lambda received: None, lambda seconds: None)
    with pytest.raises(requests.RequestException, match=r"^no connection to 127\.0\.0\.1:9$"):
        download("http://127.0.0.1:9/file", str(tmp_path / "whole"), None)


def test_a_connection_that_keeps_breaking_is_said_to_break_off(download: Download, server: LocalServer) -> None:
    server.mishaps = ["drop midway"] * 4
    with pytest.raises(requests.RequestException, match=r"^the connection broke off$"):
        download.run()
