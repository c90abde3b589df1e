"""Where a dataset's files come from: a mirror folder, or their public addresses by way of a verified cache.

Both folders have the same layout (`geoquery/corpus.xml`, …), so a file put into either by hand is found.
"""

from __future__ import annotations

import ftplib
import hashlib
import os
import tarfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import urlsplit

import requests

from nqg.errors import DataUnavailable, FormatError
from nqg.files import written_atomically


@dataclass(frozen=True, slots=True)
class Received:
    """How much of a file has come in; `total` is unknown where the server does not say."""

    name: str
    bytes: int
    total: int | None


Report = Callable[[Received], None]


def silent(received: Received) -> None:
    """Progress that nobody watches."""


MIRROR_VARIABLE = "NQG_DATA_MIRROR"
CACHE_VARIABLE = "NQG_DATA_CACHE"
LARGEST_MEMBER = 1 << 28  # bytes of a file in an archive; ours have some hundred thousand


@dataclass(frozen=True, slots=True)
class Marks:
    """What a whole file holds, for files whose bytes may differ: `text`, this many times."""

    text: bytes
    times: int


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a dataset: its path in a mirror or cache, its public address, and how to tell that it is whole.

    A file `by_hand` has no address that a program can fetch: `address` is the web page where a person gets it.
    A file with an `archive` is the member of that name in it.
    """

    path: str
    address: str
    size: int | None = None
    sha256: str | None = None
    marks: Marks | None = None
    archive: RemoteFile | None = None
    by_hand: bool = False

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return PurePosixPath(self.path).name

    def is_whole_at(self, place: Path) -> bool:
        """Whether `place` holds this file undamaged; without a way to check, only what was put by hand is trusted."""
        if not place.is_file():
            return False
        if self.sha256:
            return hashlib.sha256(place.read_bytes()).hexdigest() == self.sha256
        return self.by_hand if self.marks is None else place.read_bytes().count(self.marks.text) == self.marks.times


class FileStore(Protocol):
    """A folder that files of datasets come from."""

    def has(self, file: RemoteFile) -> bool:
        """Whether the file is there already."""

    def path_of(self, file: RemoteFile) -> Path:
        """The place of the file, fetched first where need be; `DataUnavailable` says what to put where."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """A local copy, taken as it is: nothing is fetched, and checksums are its owner's business."""

    folder: Path

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise DataUnavailable(f"the mirror {self.folder} is no folder; check --mirror or {MIRROR_VARIABLE}")

    def has(self, file: RemoteFile) -> bool:
        """Whether the mirror holds the file."""
        return (self.folder / file.path).is_file()

    def path_of(self, file: RemoteFile) -> Path:
        """The place of the file in the mirror."""
        place = self.folder / file.path
        if not place.is_file():
            raise DataUnavailable(
                f"the mirror {self.folder} has no {file.path}; put it there (it comes from {file.address}), "
                f"or leave out --mirror and {MIRROR_VARIABLE} to use the cache"
            )
        return place


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder that is filled from public addresses; a damaged file in it is noticed and fetched again."""

    folder: Path
    report: Report = silent
    wait: Callable[[float], None] = time.sleep

    def has(self, file: RemoteFile) -> bool:
        """Whether the file, or the archive it lies in, is there and whole."""
        return file.is_whole_at(self.folder / file.path) or (file.archive is not None and self.has(file.archive))

    def path_of(self, file: RemoteFile) -> Path:
        """The place of the file in the cache, downloaded and verified."""
        place = self.folder / file.path
        if file.is_whole_at(place):
            return place
        if file.by_hand:
            reason = f"{file.path} cannot be downloaded by a program: get the archive that holds it from {file.address}"
            raise DataUnavailable(f"{reason}. {_advice(file, place)}")
        _make_folder(place.parent)
        if file.archive:
            _extract(self.path_of(file.archive), file.name, place)
        else:
            self._download(file, place)
        return place

    def _download(self, file: RemoteFile, place: Path) -> None:
        part = place.with_name(f"{place.name}.part")
        was_begun = part.exists()
        try:
            self._retrieve(file, place, part)
        except ValueError as error:
            if was_begun:  # perhaps with another version of the file; the part is gone now, so this ends
                return self._download(file, place)
            reason = f"{file.address} gives another file than the published one (its contents do not check)"
            raise DataUnavailable(f"{reason}. {_advice(file, place)}") from error
        except ftplib.all_errors as error:  # with OSError among them, and so the errors of requests
            reason = f"{file.path} cannot be fetched from {file.address} ({error})"
            raise DataUnavailable(f"{reason}. {_advice(file, place)}") from error

    def _retrieve(self, file: RemoteFile, place: Path, part: Path) -> None:
        """Download by way of pooch, which moves to `place` only what passes the check."""
        import pooch

        def checked(url: str, output_file: str, owner: object) -> None:
            is_ftp = url.startswith("ftp:")
            (pooch.FTPDownloader() if is_ftp else HttpDownload(part, self.report, self.wait))(url, output_file, owner)
            if not file.is_whole_at(Path(output_file)):
                raise ValueError(f"{url}: damaged")

        pooch.get_logger().setLevel("WARNING")
        if file.sha256 is None:
            place.unlink(missing_ok=True)  # without a checksum, pooch would take the damaged file for good
        pooch.retrieve(file.address, file.sha256, place.name, place.parent, downloader=checked)


def file_store(mirror: Path | str | None = None, report: Report = silent) -> FileStore:
    """The mirror that is named by argument or by NQG_DATA_MIRROR; without either, the cache of this machine."""
    mirror = mirror or os.environ.get(MIRROR_VARIABLE)
    if mirror:
        return Mirror(Path(mirror))
    return Cache(Path(os.environ.get(CACHE_VARIABLE) or _platform_cache()), report)


def _platform_cache() -> Path:
    import pooch

    return Path(pooch.os_cache("nqg"))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"the cache folder {folder} cannot be made ({error.strerror})"
        raise DataUnavailable(f"{reason}; choose another with {CACHE_VARIABLE}") from error


def _extract(archive: Path, name: str, place: Path) -> None:
    """Write the one member called `name` to `place`: no path inside the archive is ever used."""
    try:
        with tarfile.open(archive, "r:gz") as tar:  # an .xz of a few bytes may ask for gigabytes
            members = [member for member in tar if member.isfile() and PurePosixPath(member.name).name == name]
            if len(members) != 1:
                raise FormatError(f"expected one file {name} in the archive, found {len(members)}", archive)
            if members[0].size > LARGEST_MEMBER:
                raise FormatError(f"{name} claims {members[0].size:,} bytes, more than {LARGEST_MEMBER:,}", archive)
            content = tar.extractfile(members[0])
            assert content is not None  # it is a regular file
            raw = content.read()
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
        raise FormatError(f"damaged archive ({error})", archive) from error
    with written_atomically(place) as file:
        file.write(raw)


def _advice(file: RemoteFile, place: Path) -> str:
    return f"Put it at {place}, or name a folder that holds {file.path} with --mirror or {MIRROR_VARIABLE}"


_CHUNK = 1 << 16
_TIMEOUT = (10, 60)  # seconds to connect, and between two pieces


class BrokenOff(requests.RequestException):
    """A failure that may pass: worth another try."""


@dataclass(frozen=True, slots=True)
class HttpDownload:
    """Downloads to `part` and moves the whole file to where it is asked for; a `part` left behind is continued.

    Called as pooch calls its downloaders. `pauses` are the seconds between tries; `wait` spends them.
    """

    part: Path
    report: Report
    wait: Callable[[float], None]
    pauses: tuple[float, ...] = (0.5, 1, 2)

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        """Fetch `url` to `output_file`, or raise a `requests.RequestException` once all tries have failed."""
        for pause in self.pauses:
            try:
                self._continue(url)
                break
            except BrokenOff:
                self.wait(pause)
        else:
            self._continue(url)
        os.replace(self.part, output_file)

    def _continue(self, url: str) -> None:
        have = self.part.stat().st_size if self.part.exists() else 0
        # A compressed answer would count its bytes differently from the file's.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        try:
            with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
                self._receive(response, have)
        except requests.Timeout as error:
            raise BrokenOff("the server did not answer in time") from error
        except requests.ConnectionError as error:
            raise BrokenOff(f"no connection to {urlsplit(url).netloc}") from error
        except requests.exceptions.ChunkedEncodingError as error:
            raise BrokenOff("the connection broke off") from error

    def _receive(self, response: requests.Response, have: int) -> None:
        if response.status_code == 429 or response.status_code >= 500:
            raise BrokenOff(f"the server answered {response.status_code} {response.reason}")
        if have and not self._continues_at(have, response):
            self.part.unlink()
            raise BrokenOff("the partial file does not fit the file on the server")
        response.raise_for_status()
        start = have if response.status_code == 206 else 0
        length = response.headers.get("Content-Length")
        with open(self.part, "ab" if start else "wb") as file:
            for piece in response.iter_content(_CHUNK):
                file.write(piece)
                self.report(Received(self.part.stem, file.tell(), start + int(length) if length else None))

    def _continues_at(self, have: int, response: requests.Response) -> bool:
        """Whether the answer can follow on the `have` bytes: a whole file (200) replaces them."""
        content_range = response.headers.get("Content-Range", "")
        if response.status_code == 206:
            return content_range.startswith(f"bytes {have}-")
        return response.status_code != 416
