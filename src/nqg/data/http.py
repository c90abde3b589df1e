"""A download over HTTP that continues where it broke off, tries again with growing pauses, and reports its progress."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests

from nqg.data.progress import Received, Report

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
