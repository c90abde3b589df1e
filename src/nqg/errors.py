"""The exceptions of nqg: one small tree, every message written for the person who reads it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, as errors name it.

    >>> str(Place(Path("train.tsv"), 17))
    'train.tsv:17'
    """

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


# Exit codes of the command line: the work could not be done, or the command was misused.
FAILED, MISUSED = 1, 2


class NqgError(Exception):
    """Base of everything that nqg raises on purpose. Its text is meant for the user.

    >>> try:
    ...     raise FormatError("expected 2 columns, found 1")
    ... except NqgError as error:
    ...     print(error)
    expected 2 columns, found 1
    """

    exit_code: ClassVar[int] = FAILED


class FormatError(NqgError):
    """Text that does not follow its format: a rule, a program, a line of a file.

    >>> print(FormatError("found 3 columns, expected 2", Place(Path("train.tsv"), 17)))
    train.tsv:17: found 3 columns, expected 2
    """

    def __init__(self, reason: str, place: Place | Path | None = None) -> None:
        super().__init__(reason if place is None else f"{place}: {reason}")
        self.reason = reason
        self.place = place

    def at(self, place: Place | Path) -> FormatError:
        return FormatError(self.reason, place)


class UnknownName(NqgError):
    """A name that is not in the list of known ones; near misses are offered.

    >>> print(UnknownName("dataset", "geo", ["scan", "geoquery", "spider-ssp"]))
    no dataset 'geo'; did you mean 'geoquery'? Known: geoquery, scan, spider-ssp
    """

    exit_code = MISUSED

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        # A prefix is a better guess than a similar name.
        starts = [
            candidate for candidate in names if name and candidate.startswith(name)
        ]
        near = starts or difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else "."
        super().__init__(f"no {kind} '{name}'{hint} Known: {', '.join(names)}")


class SettingsError(NqgError):
    """A setting that is unknown, or a value that makes no sense."""

    exit_code = MISUSED


def check_at_least(least: float, settings: object, *names: str) -> None:
    """Refuse settings below `least` and NaN; None stands for what is decided elsewhere."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not value >= least:
            raise SettingsError(f"{name} is {value}; expected {least} or more")


def check_above_zero(settings: object, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if value is not None and not value > 0:
            raise SettingsError(f"{name} is {value}; expected more than 0")


class LimitExceeded(NqgError):
    """Work that would grow past a limit that the caller gave."""


class DamagedModel(NqgError):
    """A loaded model computes numbers that are not finite, and so cannot answer."""


class DataUnavailable(NqgError):
    """A file that is neither cached nor reachable; the message says what to put where."""


def counted(number: int, noun: str) -> str:
    """A number of things, for people.

    >>> counted(1, "example"), counted(1200, "rule")
    ('1 example', '1,200 rules')
    """
    if number != 1:
        noun += "s"
    return f"{number:,} {noun}"


class MissingExtra(NqgError):
    """An optional part that is not installed; the message says how to install it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the extra '{extra}': in a checkout of nqg, "
            f"pip install -c constraints.txt '.[{extra}]'"
        )
