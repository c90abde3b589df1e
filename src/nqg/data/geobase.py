"""Geobase, the small database about the geography of the United States that GeoQuery's questions are asked of.

The file is a list of Prolog facts, `city('texas','tx','austin',345496).`, and is published with and without a
leading comment; both are read. `Geography` says the same in the classes, relations and measures of FunQL. Answering
questions from them is left to `nqg.evaluation`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import TypeVar

from nqg.data.funql import Entity, EntityKind, Lexeme, Tokens
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
    """The facts of a file, without its comments; anything else is refused with its line."""
    tokens = Tokens(_tokens(path))
    while tokens.next.kind != "end":
        head = tokens.expect("word", "the name of a fact")
        tokens.expect("(", "'('")
        arguments = tokens.separated(lambda: _argument(tokens))
        tokens.expect(")", "',' or ')'")
        tokens.expect(".", "'.' at the end of the fact")
        assert isinstance(head.place, Place)
        yield PrologFact(head.place, head.text, tuple(arguments))


def _argument(tokens: Tokens) -> Value:
    token = tokens.take()
    if token.kind == "number":
        value = float(token.text)
        if not math.isfinite(value):
            raise token.refused("a number that fits a float")
        return int(value) if value.is_integer() else value
    if token.kind != "[":
        return _name(token, "a name, a number or a list")
    names = [] if tokens.next.kind == "]" else tokens.separated(lambda: _name(tokens.take(), "a name"))
    tokens.expect("]", "',' or ']'")
    return tuple(names)


def _name(token: Lexeme, expected: str) -> str:
    if token.kind not in ("text", "word"):
        raise token.refused(expected)
    return token.unquoted if token.kind == "text" else token.text


_TOKEN = re.compile(
    r"""(?P<space>\s+|%[^\n]*|/\*.*?\*/)
       |(?P<text>'(?:[^'\n]|'')*')
       |(?P<number>[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)
       |(?P<word>[a-z][A-Za-z_0-9]*)
       |(?P<mark>[(),.\[\]])
       |(?P<unknown>/\*|.)""",
    re.VERBOSE | re.DOTALL,
)


def _tokens(path: Path) -> Iterator[Lexeme]:
    line = 1
    for match in _TOKEN.finditer("\n".join(text for _, text in numbered_lines(path))):
        kind = match.lastgroup or "unknown"
        if kind != "space":
            yield Lexeme(match[kind] if kind == "mark" else kind, match[kind], Place(path, line))
        line += match[0].count("\n")
    yield Lexeme("end", "the end of the file", Place(path, line))


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

_WORDS = {"n": "a name", "#": "a number", "l": "a list of names"}
_SHAPES: dict[str, tuple[str, Callable[..., Fact]]] = {
    "state": (
        "nnn###nnnn",
        lambda name, short, capital, people, area, rank, *cities: State(
            name, short, capital, people, area, rank, cities
        ),
    ),
    "city": ("nnn#", City),
    "river": ("n#l", River),
    "border": ("nnl", Border),
    "highlow": ("nnn#n#", HighLow),
    "mountain": ("nnn#", Mountain),
    "road": ("nl", Road),
    "lake": ("n#l", Lake),
    "country": ("n##", Country),
}


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
    shape, build = _SHAPES[fact.predicate]
    if len(fact.arguments) != len(shape):
        reason = f"{fact.predicate} has {len(fact.arguments)} arguments, expected {len(shape)}"
        raise FormatError(reason, fact.place)
    for number, (argument, kind) in enumerate(zip(fact.arguments, shape, strict=True), start=1):
        if kind != ("n" if isinstance(argument, str) else "l" if isinstance(argument, tuple) else "#"):
            reason = f"argument {number} of {fact.predicate} is {argument!r}, expected {_WORDS[kind]}"
            raise FormatError(reason, fact.place)
    return build(*fact.arguments)


MAJOR_CITY = 150_000  # a major city has more inhabitants
MAJOR_RIVER = 750  # a major river is longer, in kilometres

Things = frozenset[Entity]
Relation = Mapping[Entity, Things]
Measure = Mapping[Entity, frozenset[float]]


@dataclass(frozen=True)
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
        # Geobase lists `mckinley` as a mountain and `mount mckinley` as a highest point.
        highest = {each.highest_point for each in geobase.all(HighLow)}
        full_names = ((each.name, f"mount {each.name}") for each in geobase.all(Mountain))
        other_names = {_place(name): _place(full_name) for name, full_name in full_names if full_name in highest}
        mountains = [(other_names.get(_place(each.name), _place(each.name)), each) for each in geobase.all(Mountain)]
        classes = _classes(geobase, mountains)
        return cls(classes, _relations(geobase, mountains, classes), _measures(geobase, mountains), other_names)

    def kinds_of(self, name: str) -> frozenset[EntityKind]:
        """What things of this name are: `mississippi` is a state and a river."""
        return self.kinds.get(name, frozenset())

    @cached_property
    def kinds(self) -> Mapping[str, frozenset[EntityKind]]:
        found: dict[str, set[EntityKind]] = {}
        related = (thing for relation in self.relations.values() for thing in relation)
        for thing in (*related, *self.other_names, *(each for things in self.classes.values() for each in things)):
            found.setdefault(thing.name, set()).add(thing.kind)
        return {name: frozenset(kinds) for name, kinds in found.items()}

    def named(self, entity: Entity) -> Things:
        """The things that a name in a program means: a city without its state is every city of that name."""
        if entity.kind is EntityKind.CITY and entity.state is None:
            cities = self.classes["city"] | self.classes["capital"]
            return frozenset(city for city in cities if city.name == entity.name)
        return frozenset({self.other_names.get(entity, entity)})


_state = partial(Entity, EntityKind.STATE)
_city = partial(Entity, EntityKind.CITY)
_river = partial(Entity, EntityKind.RIVER)
_place = partial(Entity, EntityKind.PLACE)
_country = partial(Entity, EntityKind.COUNTRY)
Mountains = list[tuple[Entity, Mountain]]


def _classes(geobase: Geobase, mountains: Mountains) -> dict[str, Things]:
    cities = [(_city(city.name, city.state_abbreviation), city) for city in geobase.all(City)]
    rivers = [(_river(river.name), river) for river in geobase.all(River)]
    highest = {_place(each.highest_point) for each in geobase.all(HighLow)}
    classes: dict[str, Iterable[Entity]] = {
        "state": (_state(state.name) for state in geobase.all(State)),
        "city": (city for city, _ in cities),
        "capital": (_city(state.capital, state.abbreviation) for state in geobase.all(State)),
        "river": (river for river, _ in rivers),
        "lake": (_place(lake.name) for lake in geobase.all(Lake)),
        "place": highest | {_place(each.lowest_point) for each in geobase.all(HighLow)},
        "mountain": highest | {mountain for mountain, _ in mountains},
        "major": [
            *(city for city, fact in cities if fact.population > MAJOR_CITY),
            *(river for river, fact in rivers if fact.length > MAJOR_RIVER),
        ],
    }
    return {name: frozenset(things) for name, things in classes.items()}


def _relations(geobase: Geobase, mountains: Mountains, classes: Mapping[str, Things]) -> Mapping[str, Relation]:
    # Geobase has one country, and does not say what lies in it.
    countries = [_country(country.name) for country in geobase.all(Country)]
    capitals = [(_state(state.name), _city(state.capital, state.abbreviation)) for state in geobase.all(State)]
    rivers = [(_river(river.name), _state(state)) for river in geobase.all(River) for state in river.states]
    high_points = [(_state(each.state), _place(each.highest_point)) for each in geobase.all(HighLow)]
    low_points = [(_state(each.state), _place(each.lowest_point)) for each in geobase.all(HighLow)]
    pairs = {
        "loc": [
            *((place, state) for state, place in [*capitals, *high_points, *low_points]),
            *((_city(city.name, city.state_abbreviation), _state(city.state)) for city in geobase.all(City)),
            *rivers,
            *((place, _state(mountain.state)) for place, mountain in mountains),
            *((_place(lake.name), _state(state)) for lake in geobase.all(Lake) for state in lake.states),
            *(pair for name, things in classes.items() if name != "capital" for pair in product(things, countries)),
        ],
        "traverse": [*rivers, *product(classes["river"], countries)],
        "next_to": [(_state(each.state), _state(other)) for each in geobase.all(Border) for other in each.neighbours],
        "capital": capitals,
        "high_point": high_points,
        "low_point": low_points,
    }
    forwards = {f"{name}_1": _grouped(found) for name, found in pairs.items()}
    backwards = {f"{name}_2": _grouped((right, left) for left, right in found) for name, found in pairs.items()}
    return forwards | backwards


def _measures(geobase: Geobase, mountains: Mountains) -> dict[str, Measure]:
    regions: list[tuple[Entity, State | Country]] = [
        *((_state(state.name), state) for state in geobase.all(State)),
        *((_country(country.name), country) for country in geobase.all(Country)),
    ]
    populations = [(_city(city.name, city.state_abbreviation), city.population) for city in geobase.all(City)]
    lengths = [(_river(river.name), river.length) for river in geobase.all(River)]
    lakes = ((_place(lake.name), lake.area) for lake in geobase.all(Lake))
    areas = [*((region, fact.area) for region, fact in regions), *lakes]
    measurements: dict[str, Iterable[tuple[Entity, float]]] = {
        "population_1": [*populations, *((region, fact.population) for region, fact in regions)],
        "area_1": areas,
        "density_1": [(region, fact.population / fact.area) for region, fact in regions if fact.area],
        "size": [*areas, *populations, *lengths],
        "len": lengths,
        "elevation_1": [
            *((_place(each.highest_point), each.highest_elevation) for each in geobase.all(HighLow)),
            *((_place(each.lowest_point), each.lowest_elevation) for each in geobase.all(HighLow)),
            *((place, mountain.height) for place, mountain in mountains),
        ],
    }
    return {name: _grouped((thing, float(value)) for thing, value in found) for name, found in measurements.items()}


def _grouped(pairs: Iterable[tuple[Entity, Item]]) -> dict[Entity, frozenset[Item]]:
    groups: dict[Entity, set[Item]] = {}
    for left, right in pairs:
        groups.setdefault(left, set()).add(right)
    return {left: frozenset(rights) for left, rights in groups.items()}
