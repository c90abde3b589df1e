"""Geobase, the small database about the geography of the United States that GeoQuery's questions are asked of.

The file is a list of Prolog facts, `city('texas','tx','austin',345496).`, and is published with and without a
leading comment; both are read. Answering questions from the facts is left to `nqg.evaluation`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from nqg.data.funql import Entity, EntityKind
from nqg.errors import FormatError, Place, UnknownName
from nqg.files import numbered_lines

Value = str | float | tuple[str, ...]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class PrologFact:
    """A predicate with its arguments: names, numbers and lists of names."""

    place: Place
    predicate: str
    arguments: tuple[Value, ...]


def prolog_facts(path: Path) -> Iterator[PrologFact]:
    """The facts of a file, without its comments; what is no fact is refused with its line."""
    tokens = _Tokens(path)
    while tokens.peeked().kind != "end":
        yield _fact(tokens)


def _fact(tokens: _Tokens) -> PrologFact:
    head = tokens.expect("word", "the name of a fact")
    tokens.expect("(", "'('")
    arguments = tuple(tokens.separated(_argument))
    tokens.expect(")", "',' or ')'")
    tokens.expect(".", "'.' at the end of the fact")
    return PrologFact(head.place, head.text, arguments)


def _argument(tokens: _Tokens) -> Value:
    if tokens.peeked().kind == "number":
        return _number(tokens.taken())
    if tokens.peeked().kind != "[":
        return _name(tokens, "a name, a number or a list")
    tokens.taken()
    names = () if tokens.peeked().kind == "]" else tuple(tokens.separated(_name))
    tokens.expect("]", "',' or ']'")
    return names


def _name(tokens: _Tokens, expected: str = "a name") -> str:
    token = tokens.taken()
    if token.kind not in ("text", "word"):
        raise token.refused(expected)
    return token.text[1:-1].replace("''", "'") if token.kind == "text" else token.text


def _number(token: _Token) -> float:
    value = float(token.text)
    if not math.isfinite(value):
        raise token.refused("a number that fits a float")
    return int(value) if value.is_integer() else value


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: Place

    def refused(self, expected: str) -> FormatError:
        found = "the end of the file" if self.kind == "end" else self.text if self.kind == "text" else f"'{self.text}'"
        return FormatError(f"found {found}, expected {expected}", self.place)


_TOKEN = re.compile(
    r"""(?P<space>\s+|%[^\n]*|/\*.*?\*/)
       |(?P<text>'(?:[^'\n]|'')*')
       |(?P<number>[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)
       |(?P<word>[a-z][A-Za-z_0-9]*)
       |(?P<mark>[(),.\[\]])
       |(?P<unknown>/\*|.)""",
    re.VERBOSE | re.DOTALL,
)


class _Tokens:
    """The tokens of a file, one after the other; the last, of kind `end`, never runs out."""

    def __init__(self, path: Path) -> None:
        self._tokens = _tokenised(path)
        self._next = next(self._tokens)

    def peeked(self) -> _Token:
        return self._next

    def taken(self) -> _Token:
        token = self._next
        self._next = next(self._tokens, token)
        return token

    def expect(self, kind: str, expected: str) -> _Token:
        token = self.taken()
        if token.kind != kind:
            raise token.refused(expected)
        return token

    def separated(self, item: Callable[[_Tokens], Item]) -> Iterator[Item]:
        """One or more items with commas between them."""
        yield item(self)
        while self.peeked().kind == ",":
            self.taken()
            yield item(self)


def _tokenised(path: Path) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer("\n".join(text for _, text in numbered_lines(path))):
        kind = match.lastgroup or "unknown"
        if kind != "space":
            yield _Token(match[kind] if kind == "mark" else kind, match[kind], Place(path, line))
        line += match[0].count("\n")
    yield _Token("end", "", Place(path, line))


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


MAJOR_CITY = 150_000  # a major city has more inhabitants
MAJOR_RIVER = 750  # a major river is longer, in kilometres

Things = frozenset[Entity]
Pair = tuple[Entity, Entity]
Measurement = tuple[Entity, float]
Relation = Mapping[Entity, Things]
Measure = Mapping[Entity, frozenset[float]]


@dataclass(frozen=True, slots=True)
class Geography:
    """Classes, relations and measures by their names in FunQL; `loc_1` leads from a thing to what it lies in.

    A place may have several elevations: the Mississippi is the lowest point of four states.
    """

    classes: Mapping[str, Things]
    relations: Mapping[str, Relation]
    measures: Mapping[str, Measure]
    other_names: Mapping[Entity, Entity]

    @classmethod
    def of(cls, geobase: Geobase) -> Geography:
        """What the facts of `geobase` say."""
        return cls(_classes(geobase), _relations(geobase), _measures(geobase), _other_names(geobase))

    def named(self, entity: Entity) -> Things:
        """The things that a name in a program means: a city without its state is every city of that name."""
        if entity.kind is EntityKind.CITY and entity.state is None:
            cities = self.classes["city"] | self.classes["capital"]
            return frozenset(city for city in cities if city.name == entity.name)
        return frozenset({self.other_names.get(entity, entity)})


def _geography_state(name: str) -> Entity:
    return Entity(EntityKind.STATE, name)


def _city(city: City) -> Entity:
    return Entity(EntityKind.CITY, city.name, city.state_abbreviation)


def _capital(state: State) -> Entity:
    return Entity(EntityKind.CITY, state.capital, state.abbreviation)


def _river(river: River) -> Entity:
    return Entity(EntityKind.RIVER, river.name)


def _place(name: str) -> Entity:
    return Entity(EntityKind.PLACE, name)


def _country(country: Country) -> Entity:
    return Entity(EntityKind.COUNTRY, country.name)


def _other_names(geobase: Geobase) -> dict[Entity, Entity]:
    """Mountains that geobase lists as `mckinley` and, as a highest point, as `mount mckinley`."""
    highest = {each.highest_point for each in geobase.all(HighLow)}
    full_names = ((each.name, f"mount {each.name}") for each in geobase.all(Mountain))
    return {_place(name): _place(full_name) for name, full_name in full_names if full_name in highest}


def _mountains(geobase: Geobase) -> Iterator[tuple[Entity, Mountain]]:
    other_names = _other_names(geobase)
    for mountain in geobase.all(Mountain):
        yield other_names.get(_place(mountain.name), _place(mountain.name)), mountain


def _classes(geobase: Geobase) -> dict[str, Things]:
    highest = frozenset(_place(each.highest_point) for each in geobase.all(HighLow))
    lowest = frozenset(_place(each.lowest_point) for each in geobase.all(HighLow))
    return {
        "state": frozenset(_geography_state(state.name) for state in geobase.all(State)),
        "city": frozenset(map(_city, geobase.all(City))),
        "capital": frozenset(map(_capital, geobase.all(State))),
        "river": frozenset(map(_river, geobase.all(River))),
        "lake": frozenset(_place(lake.name) for lake in geobase.all(Lake)),
        "place": highest | lowest,
        "mountain": highest | {mountain for mountain, _ in _mountains(geobase)},
        "major": frozenset(_major(geobase)),
    }


def _major(geobase: Geobase) -> Iterator[Entity]:
    yield from (_city(city) for city in geobase.all(City) if city.population > MAJOR_CITY)
    yield from (_river(river) for river in geobase.all(River) if river.length > MAJOR_RIVER)


def _relations(geobase: Geobase) -> Mapping[str, Relation]:
    points = geobase.all(HighLow)
    pairs: dict[str, list[Pair]] = {
        "loc": [*_in_states(geobase), *_in_countries(geobase)],
        "traverse": [*_rivers_in_states(geobase), *_everywhere(map(_river, geobase.all(River)), geobase)],
        "next_to": list(_borders(geobase)),
        "capital": [(_geography_state(state.name), _capital(state)) for state in geobase.all(State)],
        "high_point": [(_geography_state(each.state), _place(each.highest_point)) for each in points],
        "low_point": [(_geography_state(each.state), _place(each.lowest_point)) for each in points],
    }
    forwards = {f"{name}_1": _grouped(found) for name, found in pairs.items()}
    backwards = {f"{name}_2": _grouped((right, left) for left, right in found) for name, found in pairs.items()}
    return forwards | backwards


def _grouped(pairs: Iterable[Pair]) -> dict[Entity, Things]:
    groups: dict[Entity, set[Entity]] = {}
    for left, right in pairs:
        groups.setdefault(left, set()).add(right)
    return {left: frozenset(rights) for left, rights in groups.items()}


def _in_states(geobase: Geobase) -> Iterator[Pair]:
    yield from ((_capital(state), _geography_state(state.name)) for state in geobase.all(State))
    yield from ((_city(city), _geography_state(city.state)) for city in geobase.all(City))
    yield from _rivers_in_states(geobase)
    for points in geobase.all(HighLow):
        yield _place(points.highest_point), _geography_state(points.state)
        yield _place(points.lowest_point), _geography_state(points.state)
    yield from ((place, _geography_state(mountain.state)) for place, mountain in _mountains(geobase))
    yield from ((_place(lake.name), _geography_state(state)) for lake in geobase.all(Lake) for state in lake.states)


def _rivers_in_states(geobase: Geobase) -> Iterator[Pair]:
    return ((_river(river), _geography_state(state)) for river in geobase.all(River) for state in river.states)


def _in_countries(geobase: Geobase) -> Iterator[Pair]:
    classes = _classes(geobase)
    return _everywhere(chain.from_iterable(classes[name] for name in classes if name != "capital"), geobase)


def _everywhere(things: Iterable[Entity], geobase: Geobase) -> Iterator[Pair]:
    """Geobase has one country, and does not say what lies in it."""
    countries = [_country(country) for country in geobase.all(Country)]
    return ((thing, country) for thing in things for country in countries)


def _borders(geobase: Geobase) -> Iterator[Pair]:
    for border in geobase.all(Border):
        yield from ((_geography_state(border.state), _geography_state(neighbour)) for neighbour in border.neighbours)


def _measures(geobase: Geobase) -> dict[str, Measure]:
    regions: list[tuple[Entity, State | Country]] = [
        *((_geography_state(state.name), state) for state in geobase.all(State)),
        *((_country(country), country) for country in geobase.all(Country)),
    ]
    populations = [(_city(city), city.population) for city in geobase.all(City)]
    lengths = [(_river(river), river.length) for river in geobase.all(River)]
    lakes = ((_place(lake.name), lake.area) for lake in geobase.all(Lake))
    areas = [*((region, fact.area) for region, fact in regions), *lakes]
    return {
        "population_1": _values([*populations, *((region, fact.population) for region, fact in regions)]),
        "area_1": _values(areas),
        "density_1": _values((region, fact.population / fact.area) for region, fact in regions if fact.area),
        "size": _values([*areas, *populations, *lengths]),
        "len": _values(lengths),
        "elevation_1": _values(_elevations(geobase)),
    }


def _elevations(geobase: Geobase) -> Iterator[Measurement]:
    for points in geobase.all(HighLow):
        yield _place(points.highest_point), points.highest_elevation
        yield _place(points.lowest_point), points.lowest_elevation
    yield from ((place, mountain.height) for place, mountain in _mountains(geobase))


def _values(measurements: Iterable[Measurement]) -> dict[Entity, frozenset[float]]:
    values: dict[Entity, set[float]] = {}
    for thing, value in measurements:
        values.setdefault(thing, set()).add(float(value))
    return {thing: frozenset(found) for thing, found in values.items()}
