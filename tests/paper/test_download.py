"""Files come from a mirror as they are, or from their addresses into a cache that notices damage."""

from __future__ import annotations

import ftplib
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from local_server import LocalServer, serving
from nqg.errors import DataUnavailable, FormatError
from nqg.paper.download import Cache, Mirror, RemoteFile, file_store

CONTENT = b"<example id=1><example id=2>" * 1000
NOWHERE = RemoteFile(
    "geo/corpus.xml",
    "http://127.0.0.1:9/corpus.xml",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    with serving(CONTENT) as server:
        yield server


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def checksummed(server: LocalServer) -> RemoteFile:
    return replace(NOWHERE, address=server.address("corpus.xml"))


@pytest.fixture
def marked(server: LocalServer) -> RemoteFile:
    return RemoteFile(
        "geo/corpus.xml", server.address("corpus.xml"), marks=(b"<example", 2000)
    )


def test_a_file_is_downloaded_once_and_then_found(
    cache: Cache, server: LocalServer, checksummed: RemoteFile
) -> None:
    assert not cache.has(checksummed)
    assert cache.path_of(checksummed).read_bytes() == CONTENT
    assert cache.has(checksummed)
    assert cache.path_of(checksummed) == cache.folder / "geo/corpus.xml"
    assert server.requests == 1
    assert [path.name for path in (cache.folder / "geo").iterdir()] == ["corpus.xml"]


def test_downloading_prints_nothing(
    cache: Cache, checksummed: RemoteFile, capfd: pytest.CaptureFixture[str]
) -> None:
    cache.path_of(checksummed)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["checksummed", "marked"])
def test_a_damaged_file_in_the_cache_is_noticed_and_fetched_again(
    cache: Cache, server: LocalServer, kind: str, request: pytest.FixtureRequest
) -> None:
    file: RemoteFile = request.getfixturevalue(kind)
    cache.path_of(file).write_bytes(CONTENT[:-50])
    assert not cache.has(file)
    assert cache.path_of(file).read_bytes() == CONTENT
    assert server.requests == 2


def test_a_download_that_fails_is_tried_again(
    cache: Cache, server: LocalServer, checksummed: RemoteFile
) -> None:
    server.mishaps = ["drop midway", "503"]
    assert cache.path_of(checksummed).read_bytes() == CONTENT
    assert server.requests == 3


def test_after_three_tries_the_last_reason_is_given(
    cache: Cache, server: LocalServer, checksummed: RemoteFile
) -> None:
    server.mishaps = ["500", "drop midway", "404", "503"]
    with pytest.raises(
        DataUnavailable,
        match=r"corpus\.xml could not be downloaded from http.* \(404 .*Not Found",
    ):
        cache.path_of(checksummed)
    assert server.requests == 3
    assert not list((cache.folder / "geo").iterdir())


def test_progress_grows_to_the_size_of_the_file(
    tmp_path: Path, server: LocalServer, checksummed: RemoteFile
) -> None:
    reports: list[tuple[str, int, int | None]] = []
    server.content = CONTENT * 5
    file = replace(checksummed, sha256=hashlib.sha256(server.content).hexdigest())
    Cache(
        tmp_path, lambda what, done, total: reports.append((what, done, total))
    ).path_of(file)
    counts = [done for _, done, _ in reports]
    assert len(counts) > 2
    assert counts == sorted(counts)
    assert reports[-1] == (
        "downloading corpus.xml",
        len(server.content),
        len(server.content),
    )


@pytest.mark.parametrize("kind", ["checksummed", "marked"])
def test_a_server_with_another_file_is_refused(
    cache: Cache, server: LocalServer, kind: str, request: pytest.FixtureRequest
) -> None:
    file: RemoteFile = request.getfixturevalue(kind)
    server.content = b"<html>moved</html>"
    with pytest.raises(
        DataUnavailable, match="has another file than the published one"
    ):
        cache.path_of(file)
    assert not cache.has(file)
    assert not (cache.folder / file.path).exists()


def test_offline_the_error_says_what_to_put_where(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    with pytest.raises(DataUnavailable) as caught:
        cache.path_of(NOWHERE)
    message = str(caught.value)
    assert message.startswith(
        "geo/corpus.xml could not be downloaded from http://127.0.0.1:9/corpus.xml ("
    )
    place = cache.folder / "geo/corpus.xml"
    assert (
        f"Put it at {place}, or name a folder that holds geo/corpus.xml with --mirror or NQG_DATA_MIRROR"
        in message
    )
    place.write_bytes(CONTENT)
    assert cache.path_of(NOWHERE) == place


def test_a_file_by_hand_is_never_fetched_and_taken_once_it_is_there(
    cache: Cache, server: LocalServer
) -> None:
    file = RemoteFile("spider/train.json", server.address("spider"), by_hand=True)
    with pytest.raises(
        DataUnavailable,
        match=r"spider/train\.json cannot be downloaded by a program: get the arch",
    ):
        cache.path_of(file)
    place = cache.folder / "spider/train.json"
    place.parent.mkdir(parents=True)
    place.touch()
    assert cache.path_of(file) == place
    assert not server.requests


def test_a_cache_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        DataUnavailable,
        match=r"the cache folder .*file/geo cannot be made.*NQG_DATA_CACHE",
    ):
        Cache(tmp_path / "file").path_of(NOWHERE)


class FakeFtp(ftplib.FTP):
    """Serves one file to whoever asks for it by its path."""

    def connect(
        self,
        host: str = "",
        port: int = 0,
        timeout: float = -1,
        source_address: object = None,
    ) -> str:
        assert (host, port) == ("ftp.example.org", 21)
        return ""

    def login(self, user: str = "", passwd: str = "", acct: str = "") -> str:
        return ""

    def retrbinary(
        self,
        cmd: str,
        callback: Callable[[bytes], object],
        blocksize: int = 8192,
        rest: object = None,
    ) -> str:
        if cmd != "RETR /pub/corpus.xml":
            raise ftplib.error_perm("550 no such file")
        callback(CONTENT)
        return ""

    def quit(self) -> str:
        return ""


def test_an_ftp_address_is_fetched_and_checked(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ftplib, "FTP", FakeFtp)
    assert (
        cache.path_of(
            replace(NOWHERE, address="ftp://ftp.example.org/pub/corpus.xml")
        ).read_bytes()
        == CONTENT
    )
    with pytest.raises(
        DataUnavailable,
        match=r"could not be downloaded from ftp://.*/pub/gone \(550 no such",
    ):
        cache.path_of(
            RemoteFile("geo/gone", "ftp://ftp.example.org/pub/gone", sha256="0" * 64)
        )


def archive_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("links/mcd2.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return buffer.getvalue()


def archived(server: LocalServer, members: dict[str, bytes]) -> RemoteFile:
    server.content = archive_of(members)
    digest = hashlib.sha256(server.content).hexdigest()
    archive = RemoteFile(
        "scan/splits.tar.gz", server.address("splits.tar.gz"), sha256=digest
    )
    return RemoteFile("scan/mcd2.json", archive.address, archive=archive)


def test_only_the_named_member_of_an_archive_is_taken_wherever_it_lies(
    cache: Cache, server: LocalServer
) -> None:
    file = archived(
        server,
        {
            "../../deep/mcd2.json": b"{}",
            "../evil": b"!",
            "/tmp/evil": b"!",
            "mcd1.json": b"",
        },
    )
    assert cache.path_of(file).read_bytes() == b"{}"
    assert cache.has(file)
    found = {
        path.relative_to(cache.folder.parent).as_posix()
        for path in cache.folder.parent.rglob("*")
        if path.is_file()
    }
    assert found == {"cache/scan/mcd2.json", "cache/scan/splits.tar.gz"}


def test_a_damaged_member_is_taken_from_the_archive_again(
    cache: Cache, server: LocalServer
) -> None:
    file = archived(server, {"mcd2.json": b"{}"})
    cache.path_of(file).write_bytes(b"{")
    assert cache.path_of(file).read_bytes() == b"{}"
    assert server.requests == 1


def test_an_archive_without_the_member_or_no_archive_at_all_is_refused(
    cache: Cache, server: LocalServer
) -> None:
    with pytest.raises(
        FormatError,
        match=r"splits\.tar\.gz: expected one file mcd2\.json in the archive, found 0",
    ):
        cache.path_of(archived(server, {"mcd1.json": b"{}"}))
    file = archived(server, {})
    assert file.archive is not None
    no_archive = replace(file.archive, sha256=None, by_hand=True)
    cache.folder.joinpath("scan/splits.tar.gz").write_bytes(b"no archive")
    with pytest.raises(FormatError, match="damaged archive"):
        cache.path_of(replace(file, archive=no_archive))


def test_a_mirror_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "geo").mkdir()
    (tmp_path / "geo/corpus.xml").write_text("other bytes")
    mirror = Mirror(tmp_path)
    assert mirror.has(NOWHERE)
    assert mirror.path_of(NOWHERE) == tmp_path / "geo/corpus.xml"


def test_a_file_that_the_mirror_lacks_is_named_with_its_origin(tmp_path: Path) -> None:
    assert not Mirror(tmp_path).has(NOWHERE)
    with pytest.raises(DataUnavailable) as caught:
        Mirror(tmp_path).path_of(NOWHERE)
    assert str(caught.value) == (
        f"the mirror {tmp_path} has no geo/corpus.xml; put it there (it comes from http://127.0.0.1:9/corpus.xml), "
        "or leave out --mirror and NQG_DATA_MIRROR to use the cache"
    )


def test_the_store_is_the_mirror_that_is_named_or_else_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NQG_DATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NQG_DATA_MIRROR", raising=False)
    assert file_store() == Cache(tmp_path / "cache")
    monkeypatch.setenv("NQG_DATA_MIRROR", str(tmp_path))
    assert file_store() == Mirror(tmp_path)
    (tmp_path / "other").mkdir()
    assert file_store(tmp_path / "other") == Mirror(tmp_path / "other")
    with pytest.raises(
        DataUnavailable,
        match=r"the mirror .*gone is not a folder; check --mirror or NQG_DATA_MIRROR",
    ):
        file_store(str(tmp_path / "gone"))


def test_without_variables_the_cache_is_that_of_the_platform(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NQG_DATA_CACHE", raising=False)
    monkeypatch.delenv("NQG_DATA_MIRROR", raising=False)
    store = file_store()
    assert isinstance(store, Cache)
    assert store.folder.name == "nqg"
