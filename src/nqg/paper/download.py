"""Where a dataset's files come from: a mirror folder, or their public addresses by way of a
verified cache.

Both folders have the same layout (`geoquery/corpus.xml`, …), so a file put into either by hand is
found.
"""

from __future__ import annotations

import ftplib
import hashlib
import os
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from nqg.errors import DataUnavailable, FormatError, MissingExtra
from nqg.files import CACHE_VARIABLE, cache_folder, written_atomically
from nqg.progress import Progress, silent

MIRROR_VARIABLE = "NQG_DATA_MIRROR"
# Bytes of a file in an archive; ours have some hundred thousand.
LARGEST_MEMBER = 1 << 28
RETRIES = 2
# Bytes.
BYTES_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a dataset: its path in a mirror or cache, its public address, and how to tell that
    it is whole.

    A file `by_hand` has no address that a program can fetch: `address` is the web page where a
    person gets it. A file with an `archive` is the member of that name in it. One whose bytes may
    differ has `marks`, a text and how often it occurs, in path of a checksum.
    """

    path: str
    address: str
    size: int | None = None
    sha256: str | None = None
    marks: tuple[bytes, int] | None = None
    archive: RemoteFile | None = None
    by_hand: bool = False

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    def is_whole_at(self, path: Path) -> bool:
        """Whether `path` holds this file undamaged; without a way to check, only what was put by
        hand is trusted.
        """
        if not path.is_file():
            return False
        if self.sha256:
            return hashlib.sha256(path.read_bytes()).hexdigest() == self.sha256
        if self.marks is None:
            return self.by_hand
        text, times = self.marks
        return path.read_bytes().count(text) == times


def file_store(
    mirror: Path | str | None = None, progress: Progress = silent
) -> Mirror | Cache:
    """The mirror that is named by argument or by NQG_DATA_MIRROR; without either, the cache of this
    machine.
    """
    mirror = mirror or os.environ.get(MIRROR_VARIABLE)
    if mirror:
        return Mirror(Path(mirror))
    return Cache(cache_folder(), progress)


@dataclass(frozen=True, slots=True)
class Mirror:
    """A local copy, taken as it is: nothing is downloaded, and checksums are not verified."""

    folder: Path

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise DataUnavailable(
                f"the mirror {self.folder} is not a folder; check --mirror or {MIRROR_VARIABLE}"
            )

    def has(self, file: RemoteFile) -> bool:
        return (self.folder / file.path).is_file()

    def path_of(self, file: RemoteFile) -> Path:
        if not self.has(file):
            raise DataUnavailable(
                f"the mirror {self.folder} has no {file.path}; "
                f"put it there (it comes from {file.address}), "
                f"or leave out --mirror and {MIRROR_VARIABLE} to use the cache"
            )
        return self.folder / file.path


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder that is filled from public addresses; a damaged file in it is noticed and downloaded
    again.
    """

    folder: Path
    progress: Progress = silent

    def has(self, file: RemoteFile) -> bool:
        return file.is_whole_at(self.folder / file.path) or (
            file.archive is not None and self.has(file.archive)
        )

    def path_of(self, file: RemoteFile) -> Path:
        path = self.folder / file.path
        if file.is_whole_at(path):
            return path
        advice = (
            f"Put it at {path}, or name a folder that holds {file.path} "
            f"with --mirror or {MIRROR_VARIABLE}"
        )
        # What a program cannot fetch, a person has to.
        if file.by_hand:
            reason = (
                f"{file.path} cannot be downloaded by a program: "
                f"get the archive that holds it from {file.address}"
            )
            raise DataUnavailable(f"{reason}. {advice}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"the cache folder {path.parent} cannot be made ({error.strerror})"
            raise DataUnavailable(
                f"{reason}; choose another with {CACHE_VARIABLE}"
            ) from error
        # A member of an archive is taken out of it; the archive is kept as well.
        if file.archive:
            _extract(self.path_of(file.archive), file.name, path)
            return path
        try:
            self._download(file, path)
        except ValueError as error:
            reason = (
                f"{file.address} has another file than the published one "
                "(its contents do not check)"
            )
            raise DataUnavailable(f"{reason}. {advice}") from error
        # OSError is among them, and so are the errors of requests.
        except ftplib.all_errors as error:
            reason = f"{file.path} could not be downloaded from {file.address}"
            cause = str(error).partition(" (Caused by")[0]
            raise DataUnavailable(f"{reason} ({cause}). {advice}") from error
        return path

    def _download(self, file: RemoteFile, path: Path) -> None:
        try:
            import pooch
        except ImportError as error:
            raise MissingExtra("downloading a dataset", "paper") from error
        pooch.get_logger().setLevel("WARNING")
        # Without a checksum, pooch would trust the damaged file.
        if file.sha256 is None:
            path.unlink(missing_ok=True)
        files = pooch.create(
            self.folder,
            "",
            registry={file.path: file.sha256},
            urls={file.path: file.address},
            retry_if_failed=RETRIES,
        )
        downloader: Any = pooch.FTPDownloader()
        if not file.address.startswith("ftp:"):
            # Pooch shows no progress of FTP.
            bar = DownloadProgress(f"downloading {file.name}", self.progress)
            downloader = pooch.HTTPDownloader(bar, BYTES_AT_ONCE)
        files.fetch(file.path, downloader=downloader)
        if not file.is_whole_at(path):
            path.unlink()
            raise ValueError(f"{file.address}: damaged")


class DownloadProgress:
    """The progress bar that pooch updates."""

    def __init__(self, what: str, progress: Progress) -> None:
        self.what, self.progress = what, progress
        self.total = self.done = 0

    def update(self, count: int) -> None:
        """Count bytes; pooch counts whole chunks, the last one too."""
        self.done = min(self.done + count, self.total or self.done + count)
        self.progress(self.what, self.done, self.total or None)

    def reset(self) -> None:
        """Pooch does so at the end, and then counts the whole file."""
        self.done = 0

    def close(self) -> None:
        """There is nothing to close."""


def _extract(archive: Path, name: str, path: Path) -> None:
    """Write the one member called `name` to `path`: no path inside the archive is ever used."""
    try:
        # Not any compression: an .xz of a few bytes may ask for gigabytes.
        with tarfile.open(archive, "r:gz") as tar:
            members = [
                member
                for member in tar
                if member.isfile() and PurePosixPath(member.name).name == name
            ]
            if len(members) != 1:
                raise FormatError(
                    f"expected one file {name} in the archive, found {len(members)}",
                    archive,
                )
            if members[0].size > LARGEST_MEMBER:
                raise FormatError(
                    f"{name} claims {members[0].size:,} bytes, more than {LARGEST_MEMBER:,}",
                    archive,
                )
            content = tar.extractfile(members[0])
            assert content is not None, "a regular file has contents"
            raw = content.read()
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
        raise FormatError(f"damaged archive ({error})", archive) from error
    with written_atomically(path) as file:
        file.write(raw)
