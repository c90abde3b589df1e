"""Geobase, the small database about the geography of the United States that GeoQuery's questions are asked of.

The file is a list of Prolog facts, `city('texas','tx','austin',345496).`, and is published with and without a
leading comment; both are read. `Geography` says the same in the classes, relations and measures of FunQL. Answering
questions from them is left to `denotations`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from nqg.errors import FormatError, Place, UnknownName
from nqg.files import numbered_lines
from nqg.paper.funql import Entity, EntityKind, Lexeme, Tokens

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
    names = (
        [] if tokens.next.kind == "]" else tokens.separated(lambda: _name(tokens.take(), "a name"))
    )
    tokens.expect("]", "',' or ']'")
    return tuple(names)


def _name(token: Lexeme, expected: str) -> str:
    if token.kind not in ("text", "word"):
        raise token.refused(expected)
    return token.unquoted if token.kind == "text" else token.text


_FACT_TOKEN = re.compile(
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
    for match in _FACT_TOKEN.finditer("\n".join(text for _, text in numbered_lines(path))):
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
        if kind != (
            "n" if isinstance(argument, str) else "l" if isinstance(argument, tuple) else "#"
        ):
            reason = (
                f"argument {number} of {fact.predicate} is {argument!r}, expected {_WORDS[kind]}"
            )
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
        highest = {fact.highest_point for fact in geobase.all(HighLow)}
        other_names = {}
        for mountain in geobase.all(Mountain):
            full_name = f"mount {mountain.name}"
            if full_name in highest:
                other_names[_place(mountain.name)] = _place(full_name)
        tables = _Tables(other_names)
        for fact in geobase.facts:
            tables.add(fact)
        # Geobase has one country, and does not say what lies in it.
        for country in geobase.all(Country):
            tables.add_everything_to(_country(country.name))
        return cls(
            {name: frozenset(things) for name, things in tables.classes.items()},
            {name: _frozen(relation) for name, relation in tables.relations.items()},
            {name: _frozen(measure) for name, measure in tables.measures.items()},
            other_names,
        )

    def kinds_of(self, name: str) -> frozenset[EntityKind]:
        """What things of this name are: `mississippi` is a state and a river."""
        return self.kinds.get(name, frozenset())

    @cached_property
    def kinds(self) -> Mapping[str, frozenset[EntityKind]]:
        found: dict[str, set[EntityKind]] = {}
        related = (thing for relation in self.relations.values() for thing in relation)
        for thing in (
            *related,
            *self.other_names,
            *(each for things in self.classes.values() for each in things),
        ):
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
CLASS_NAMES = ("state", "city", "capital", "river", "lake", "place", "mountain", "major")
RELATIONS = ("loc", "traverse", "next_to", "capital", "high_point", "low_point")
MEASURES = ("population_1", "area_1", "density_1", "size", "len", "elevation_1")


class _Tables:
    """What `Geography` is made of, filled fact by fact."""

    def __init__(self, other_names: Mapping[Entity, Entity]) -> None:
        self.other_names = other_names
        self.classes: dict[str, set[Entity]] = {name: set() for name in CLASS_NAMES}
        self.measures: dict[str, dict[Entity, set[float]]] = {name: {} for name in MEASURES}
        self.relations: dict[str, dict[Entity, set[Entity]]] = {}
        for name in RELATIONS:
            self.relations |= {f"{name}_1": {}, f"{name}_2": {}}

    def relate(self, name: str, left: Entity, right: Entity) -> None:
        self.relations[f"{name}_1"].setdefault(left, set()).add(right)
        self.relations[f"{name}_2"].setdefault(right, set()).add(left)

    def measure(self, thing: Entity, **values: float) -> None:
        for name, value in values.items():
            self.measures[name].setdefault(thing, set()).add(float(value))

    def add(self, fact: Fact) -> None:
        """Say in FunQL's words what a fact says; of roads FunQL says nothing."""
        match fact:
            case State():
                state, capital = _state(fact.name), _city(fact.capital, fact.abbreviation)
                self.classes["state"].add(state)
                self.classes["capital"].add(capital)
                self.relate("capital", state, capital)
                self.relate("loc", capital, state)
                self._measure_region(state, fact)
            case City():
                city = _city(fact.name, fact.state_abbreviation)
                self.classes["city"].add(city)
                self.relate("loc", city, _state(fact.state))
                self.measure(city, population_1=fact.population, size=fact.population)
                if fact.population > MAJOR_CITY:
                    self.classes["major"].add(city)
            case River():
                river = _river(fact.name)
                self.classes["river"].add(river)
                self.measure(river, len=fact.length, size=fact.length)
                for name in fact.states:
                    self.relate("loc", river, _state(name))
                    self.relate("traverse", river, _state(name))
                if fact.length > MAJOR_RIVER:
                    self.classes["major"].add(river)
            case Lake():
                lake = _place(fact.name)
                self.classes["lake"].add(lake)
                self.measure(lake, area_1=fact.area, size=fact.area)
                for name in fact.states:
                    self.relate("loc", lake, _state(name))
            case HighLow():
                high, low, state = (
                    _place(fact.highest_point),
                    _place(fact.lowest_point),
                    _state(fact.state),
                )
                self.classes["place"] |= {high, low}
                self.classes["mountain"].add(high)
                self.relate("high_point", state, high)
                self.relate("low_point", state, low)
                self.measure(high, elevation_1=fact.highest_elevation)
                self.measure(low, elevation_1=fact.lowest_elevation)
                for place in (high, low):
                    self.relate("loc", place, state)
            case Mountain():
                mountain = _place(fact.name)
                mountain = self.other_names.get(mountain, mountain)
                self.classes["mountain"].add(mountain)
                self.relate("loc", mountain, _state(fact.state))
                self.measure(mountain, elevation_1=fact.height)
            case Border():
                for name in fact.neighbours:
                    self.relate("next_to", _state(fact.state), _state(name))
            case Country():
                self._measure_region(_country(fact.name), fact)

    def _measure_region(self, region: Entity, fact: State | Country) -> None:
        self.measure(region, population_1=fact.population, area_1=fact.area, size=fact.area)
        if fact.area:
            self.measure(region, density_1=fact.population / fact.area)

    def add_everything_to(self, country: Entity) -> None:
        """Let all things lie in a country, but for capitals that are no cities of geobase's."""
        for name in CLASS_NAMES:
            for thing in self.classes[name] if name != "capital" else ():
                self.relate("loc", thing, country)
        for river in self.classes["river"]:
            self.relate("traverse", river, country)


def _frozen(groups: Mapping[Entity, set[Item]]) -> dict[Entity, frozenset[Item]]:
    return {left: frozenset(rights) for left, rights in groups.items()}
