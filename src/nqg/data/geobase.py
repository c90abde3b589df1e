"""Geobase, the small database about the geography of the United States that GeoQuery's questions are asked of.

The file is a list of Prolog facts, `city('texas','tx','austin',345496).`, and is published with and without a
leading comment; both are read. Answering questions from the facts is left to `nqg.evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nqg.data.prolog import PrologFact, Value, prolog_facts
from nqg.errors import FormatError, UnknownName


@dataclass(frozen=True, slots=True)
class State:
    """A state with the rank of its entry into the union (`number`) and four of its cities; area in square miles."""

    name: str
    abbreviation: str
    capital: str
    population: float
    area: float
    number: float
    cities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class City:
    """A city of a state."""

    state: str
    state_abbreviation: str
    name: str
    population: float


@dataclass(frozen=True, slots=True)
class River:
    """A river, its length in kilometres, and the states that it flows through, from source to mouth, with repeats."""

    name: str
    length: float
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Border:
    """A state and its neighbours."""

    state: str
    state_abbreviation: str
    neighbours: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HighLow:
    """The highest and the lowest point of a state, elevations in metres."""

    state: str
    state_abbreviation: str
    highest_point: str
    highest_elevation: float
    lowest_point: str
    lowest_elevation: float


@dataclass(frozen=True, slots=True)
class Mountain:
    """A mountain of a state, its height in metres."""

    state: str
    state_abbreviation: str
    name: str
    height: float


@dataclass(frozen=True, slots=True)
class Road:
    """An interstate road and the states that it passes through."""

    number: str
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake, its area in square kilometres, and the states that it lies in."""

    name: str
    area: float
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Country:
    """A country, its population and its area in square kilometres."""

    name: str
    population: float
    area: float


Fact = State | City | River | Border | HighLow | Mountain | Road | Lake | Country
OneFact = TypeVar("OneFact", bound=Fact)


@dataclass(frozen=True, slots=True)
class Geobase:
    """All facts, in the order of the file."""

    facts: tuple[Fact, ...]

    def all(self, kind: type[OneFact]) -> tuple[OneFact, ...]:
        """The facts of one kind: `geobase.all(River)`."""
        return tuple(fact for fact in self.facts if isinstance(fact, kind))


def read_geobase(path: Path) -> Geobase:
    """The facts of a geobase file; one that does not follow the format is refused with its line."""
    return Geobase(tuple(map(_typed, prolog_facts(path))))


def _typed(fact: PrologFact) -> Fact:
    if fact.predicate not in _SHAPES:
        raise FormatError(str(UnknownName("geobase fact", fact.predicate, _SHAPES)), fact.place)
    build, kinds = _SHAPES[fact.predicate]
    if len(fact.arguments) != len(kinds):
        reason = f"{fact.predicate} has {len(fact.arguments)} arguments, expected {len(kinds)}"
        raise FormatError(reason, fact.place)
    for number, (argument, kind) in enumerate(zip(fact.arguments, kinds, strict=True), start=1):
        if _kind(argument) != kind:
            reason = f"argument {number} of {fact.predicate} is {argument!r}, expected {kind}"
            raise FormatError(reason, fact.place)
    return build(*fact.arguments)


_TEXT, _NUMBER, _TEXTS = "a name", "a number", "a list of names"


def _kind(argument: Value) -> str:
    return _TEXT if isinstance(argument, str) else _TEXTS if isinstance(argument, tuple) else _NUMBER


def _state(*arguments: Any) -> State:
    name, abbreviation, capital, population, area, number, *cities = arguments
    return State(name, abbreviation, capital, population, area, number, tuple(cities))


_SHAPES: dict[str, tuple[Callable[..., Fact], tuple[str, ...]]] = {
    "state": (_state, (_TEXT, _TEXT, _TEXT, _NUMBER, _NUMBER, _NUMBER, _TEXT, _TEXT, _TEXT, _TEXT)),
    "city": (City, (_TEXT, _TEXT, _TEXT, _NUMBER)),
    "river": (River, (_TEXT, _NUMBER, _TEXTS)),
    "border": (Border, (_TEXT, _TEXT, _TEXTS)),
    "highlow": (HighLow, (_TEXT, _TEXT, _TEXT, _NUMBER, _TEXT, _NUMBER)),
    "mountain": (Mountain, (_TEXT, _TEXT, _TEXT, _NUMBER)),
    "road": (Road, (_TEXT, _TEXTS)),
    "lake": (Lake, (_TEXT, _NUMBER, _TEXTS)),
    "country": (Country, (_TEXT, _NUMBER, _NUMBER)),
}
