"""Geobase as FunQL sees it: classes of things, relations between them, and their measures.

Where the facts leave a choice, it is the one of the published answers: a capital lies in its state but, unless it is
also listed as a city, not in the country; only cities and rivers can be major; a state's highest point is a mountain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from nqg.data.funql import Entity, EntityKind
from nqg.data.geobase import Border, City, Country, Geobase, HighLow, Lake, Mountain, River, State

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


def _state(name: str) -> Entity:
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
        "state": frozenset(_state(state.name) for state in geobase.all(State)),
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
        "capital": [(_state(state.name), _capital(state)) for state in geobase.all(State)],
        "high_point": [(_state(each.state), _place(each.highest_point)) for each in points],
        "low_point": [(_state(each.state), _place(each.lowest_point)) for each in points],
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
    yield from ((_capital(state), _state(state.name)) for state in geobase.all(State))
    yield from ((_city(city), _state(city.state)) for city in geobase.all(City))
    yield from _rivers_in_states(geobase)
    for points in geobase.all(HighLow):
        yield _place(points.highest_point), _state(points.state)
        yield _place(points.lowest_point), _state(points.state)
    yield from ((place, _state(mountain.state)) for place, mountain in _mountains(geobase))
    yield from ((_place(lake.name), _state(state)) for lake in geobase.all(Lake) for state in lake.states)


def _rivers_in_states(geobase: Geobase) -> Iterator[Pair]:
    return ((_river(river), _state(state)) for river in geobase.all(River) for state in river.states)


def _in_countries(geobase: Geobase) -> Iterator[Pair]:
    classes = _classes(geobase)
    return _everywhere(chain.from_iterable(classes[name] for name in classes if name != "capital"), geobase)


def _everywhere(things: Iterable[Entity], geobase: Geobase) -> Iterator[Pair]:
    """Geobase has one country, and does not say what lies in it."""
    countries = [_country(country) for country in geobase.all(Country)]
    return ((thing, country) for thing in things for country in countries)


def _borders(geobase: Geobase) -> Iterator[Pair]:
    for border in geobase.all(Border):
        yield from ((_state(border.state), _state(neighbour)) for neighbour in border.neighbours)


def _measures(geobase: Geobase) -> dict[str, Measure]:
    regions: list[tuple[Entity, State | Country]] = [
        *((_state(state.name), state) for state in geobase.all(State)),
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
