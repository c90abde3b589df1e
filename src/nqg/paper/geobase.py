"""Geobase, the small database about the geography of the United States that GeoQuery asks.

The file is a list of Prolog facts, `city('texas','tx','austin',345496).`, and is published with
and without a leading comment; both are read. `Geography` says the same in the classes, relations
and measures of FunQL. `denotations` answers questions from them.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from nqg.errors import FormatError, Place, UnknownName
from nqg.files import numbered_lines
from nqg.paper.funql import Entity, EntityKind, Lexeme, Tokens

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PrologFact:
    """A predicate with its arguments: names, numbers and lists of names."""

    place: Place
    predicate: str
    arguments: Row


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


def _argument(tokens: Tokens) -> str | float | tuple[str, ...]:
    token = tokens.take()
    if token.kind == "number":
        value = float(token.text)
        if not math.isfinite(value):
            raise token.refused("a number that fits a float")
        return int(value) if value.is_integer() else value
    if token.kind != "[":
        return _name(token, "a name, a number or a list")
    names = []
    if tokens.next.kind != "]":
        names = tokens.separated(lambda: _name(tokens.take(), "a name"))
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
    for match in _FACT_TOKEN.finditer(
        "\n".join(text for _, text in numbered_lines(path))
    ):
        if match.lastgroup != "space":
            yield Lexeme.of(match, Place(path, line))
        line += match[0].count("\n")
    yield Lexeme("end", "the end of the file", Place(path, line))


# The arguments of every kind of fact: n is a name, # a number, l a list of names. Areas of states
# are in square miles, of lakes and the country in square kilometres, lengths in kilometres,
# elevations in metres.
_SHAPES = {
    # Name, abbreviation, capital, population, area, rank of its entry into the union, four cities.
    "state": "nnn###nnnn",
    # State, its abbreviation, name, population.
    "city": "nnn#",
    # Name, length, states from source to mouth, with repeats.
    "river": "n#l",
    # State, its abbreviation, neighbours.
    "border": "nnl",
    # State, its abbreviation, highest point, its elevation, lowest point, its elevation.
    "highlow": "nnn#n#",
    # State, its abbreviation, name, height.
    "mountain": "nnn#",
    # Number, states; FunQL has no roads.
    "road": "nl",
    # Name, area, states.
    "lake": "n#l",
    # Name, population, area.
    "country": "n##",
}
_SHAPE_OF_TYPE = {str: "n", int: "#", float: "#", tuple: "l"}
_SHAPE_WORDS = {"n": "a name", "#": "a number", "l": "a list of names"}
Geobase = Mapping[str, list[Row]]


def read_geobase(path: Path) -> Geobase:
    """The rows of each kind of fact, in the order of the file; a bad fact is refused with its line.

    `read_geobase(path)["river"]` are the rivers.
    """
    rows: dict[str, list[Row]] = {name: [] for name in _SHAPES}
    for fact in prolog_facts(path):
        name, arguments = fact.predicate, fact.arguments
        if name not in _SHAPES:
            raise FormatError(
                str(UnknownName("geobase fact", name, _SHAPES)), fact.place
            )
        shape = _SHAPES[name]
        if len(arguments) != len(shape):
            reason = f"{name} has {len(arguments)} arguments, expected {len(shape)}"
            raise FormatError(reason, fact.place)
        for number, (argument, kind) in enumerate(zip(arguments, shape), start=1):
            if _SHAPE_OF_TYPE[type(argument)] != kind:
                expected = _SHAPE_WORDS[kind]
                reason = (
                    f"argument {number} of {name} is {argument!r}, expected {expected}"
                )
                raise FormatError(reason, fact.place)
        rows[name].append(arguments)
    return rows


# What "major" means; the published answers of GeoQuery fit these bounds (docs/geoquery.md).
MAJOR_CITY = 150_000  # People.
MAJOR_RIVER = 750  # Kilometres.

Things = AbstractSet[Entity]
Table = dict[Entity, set[Any]]

_state = partial(Entity, EntityKind.STATE)
_city = partial(Entity, EntityKind.CITY)
_river = partial(Entity, EntityKind.RIVER)
_place = partial(Entity, EntityKind.PLACE)
_country = partial(Entity, EntityKind.COUNTRY)
CLASS_NAMES = (
    "state",
    "city",
    "capital",
    "river",
    "lake",
    "place",
    "mountain",
    "major",
)
RELATIONS = ("loc", "traverse", "next_to", "capital", "high_point", "low_point")
MEASURES = ("population_1", "area_1", "density_1", "size", "len", "elevation_1")


@dataclass(frozen=True)
class Geography:
    """Classes, relations and measures by their names in FunQL.

    `loc_1` leads from a thing to what it lies in, `loc_2` back. A place may have several
    elevations: the Mississippi is the lowest point of four states.
    """

    classes: dict[str, set[Entity]]
    relations: dict[str, Table]
    measures: dict[str, Table]
    other_names: dict[Entity, Entity]

    @classmethod
    def of(cls, geobase: Geobase) -> Geography:
        geography = cls({name: set() for name in CLASS_NAMES}, {}, {}, {})
        for name in RELATIONS:
            geography.relations[f"{name}_1"] = defaultdict(set)
            geography.relations[f"{name}_2"] = defaultdict(set)
        for name in MEASURES:
            geography.measures[name] = defaultdict(set)
        geography._add_states(geobase)
        geography._add_waters_and_cities(geobase)
        geography._add_heights(geobase)
        geography._add_countries(geobase)
        return geography

    def _add_states(self, geobase: Geobase) -> None:
        for name, abbreviation, capital_name, population, area, *_ in geobase["state"]:
            state, capital = _state(name), _city(capital_name, abbreviation)
            self.classes["state"].add(state)
            self.classes["capital"].add(capital)
            self._relate("capital", state, capital)
            self._relate("loc", capital, state)
            self._measure_region(state, population, area)
        for name, _, neighbours in geobase["border"]:
            for neighbour in neighbours:
                self._relate("next_to", _state(name), _state(neighbour))

    def _add_waters_and_cities(self, geobase: Geobase) -> None:
        for state, abbreviation, name, population in geobase["city"]:
            city = _city(name, abbreviation)
            self.classes["city"].add(city)
            self._relate("loc", city, _state(state))
            self._measure(city, population_1=population, size=population)
            if population > MAJOR_CITY:
                self.classes["major"].add(city)
        for name, length, states in geobase["river"]:
            river = _river(name)
            self.classes["river"].add(river)
            self._measure(river, len=length, size=length)
            for state in map(_state, states):
                self._relate("loc", river, state)
                self._relate("traverse", river, state)
            if length > MAJOR_RIVER:
                self.classes["major"].add(river)
        for name, area, states in geobase["lake"]:
            lake = _place(name)
            self.classes["lake"].add(lake)
            self._measure(lake, area_1=area, size=area)
            for state in map(_state, states):
                self._relate("loc", lake, state)

    def _add_heights(self, geobase: Geobase) -> None:
        for name, _, *points in geobase["highlow"]:
            high, high_elevation, low, low_elevation = points
            self.classes["mountain"].add(_place(high))
            for relation, point, elevation in (
                ("high_point", _place(high), high_elevation),
                ("low_point", _place(low), low_elevation),
            ):
                self.classes["place"].add(point)
                self._relate(relation, _state(name), point)
                self._relate("loc", point, _state(name))
                self._measure(point, elevation_1=elevation)
        for state, _, name, height in geobase["mountain"]:
            mountain, full_name = _place(name), _place(f"mount {name}")
            # Geobase lists `mckinley` as a mountain and `mount mckinley` as a highest point.
            if full_name in self.relations["high_point_2"]:
                self.other_names[mountain] = full_name
                mountain = full_name
            self.classes["mountain"].add(mountain)
            self._relate("loc", mountain, _state(state))
            self._measure(mountain, elevation_1=height)

    def _add_countries(self, geobase: Geobase) -> None:
        # Geobase has one country, and does not say what lies in it: all but capitals that it does
        # not list as cities.
        for name, population, area in geobase["country"]:
            country = _country(name)
            self._measure_region(country, population, area)
            for class_name, things in self.classes.items():
                if class_name != "capital":
                    for thing in things:
                        self._relate("loc", thing, country)
            for river in self.classes["river"]:
                self._relate("traverse", river, country)

    def _relate(self, name: str, left: Entity, right: Entity) -> None:
        self.relations[f"{name}_1"][left].add(right)
        self.relations[f"{name}_2"][right].add(left)

    def _measure(self, thing: Entity, **values: float) -> None:
        for name, value in values.items():
            self.measures[name][thing].add(float(value))

    def _measure_region(self, region: Entity, population: float, area: float) -> None:
        self._measure(region, population_1=population, area_1=area, size=area)
        if area:
            self._measure(region, density_1=population / area)

    def kinds_of(self, name: str) -> frozenset[EntityKind]:
        """What things of this name are: `mississippi` is a state and a river."""
        return frozenset(self._kinds.get(name, ()))

    @cached_property
    def _kinds(self) -> Mapping[str, set[EntityKind]]:
        kinds = defaultdict(set)
        for things in (
            *self.relations.values(),
            *self.classes.values(),
            self.other_names,
        ):
            for thing in things:
                kinds[thing.name].add(thing.kind)
        return kinds

    def named(self, entity: Entity) -> Things:
        """What a name in a program means: a city without its state is every city of that name."""
        if entity.kind is EntityKind.CITY and entity.state is None:
            cities = self.classes["city"] | self.classes["capital"]
            return {city for city in cities if city.name == entity.name}
        return {self.other_names.get(entity, entity)}
