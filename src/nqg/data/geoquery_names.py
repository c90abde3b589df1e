"""How people name the entities of geobase, and where a sentence mentions them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from nqg.data.funql import Entity, EntityKind
from nqg.data.geobase import City, Country, Geobase, HighLow, Lake, Mountain, River, State

COUNTRY_NAMES = {
    "usa": ("usa", "us", "america", "country", "united states", "united states of america", "continental us"),
}
"""What sentences call a country, by its name in geobase; every other entity goes by its own name."""

ABBREVIATIONS_THAT_ARE_WORDS = frozenset({"in", "or", "me", "hi", "oh", "ok"})
"""States that must be spelled out after a city: "portland or seattle" does not mention Portland, Oregon."""

Words = tuple[str, ...]


def is_proper_name(entity: Entity) -> bool:
    """Whether the entity's name, seen in a sentence, mentions it.

    "High point" is a city, and a place where states have their lowest point may be the "ohio river".
    """
    is_river = entity.kind is EntityKind.PLACE and entity.name.endswith(" river")
    return not is_river and entity.name != "high point"


def words(sentence: str) -> Words:
    """The words of a sentence in lower case, without punctuation; a possessive `'s` stays with its word.

    >>> words("What state 's capital is St. Paul ?")
    ('what', 'states', 'capital', 'is', 'st', 'paul')
    """
    evenly_spaced = " ".join(sentence.lower().replace("’", "'").split())
    joined = re.sub(r" 's\b", "s", evenly_spaced)
    return tuple(re.sub(r"(?<![0-9])[.]|[.](?![0-9])|[?!,;:'\"]", "", joined).split())


@dataclass(frozen=True, slots=True)
class Mention:
    """Words `start` to `stop` of a sentence, and the entities that they may mean."""

    start: int
    stop: int
    readings: tuple[Entity, ...]

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class EntityNames:
    """All names of the entities of a geobase."""

    entities: dict[Words, tuple[Entity, ...]]
    state_abbreviations: dict[Words, str]
    cities_of_states: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, geobase: Geobase) -> EntityNames:
        """The names that the facts of `geobase` give."""
        entities: dict[Words, list[Entity]] = {}
        for name, entity in _named(geobase):
            readings = entities.setdefault(words(name), [])
            if entity not in readings:
                readings.append(entity)
        return cls(
            {name: tuple(readings) for name, readings in entities.items()},
            {words(state.name): state.abbreviation for state in geobase.all(State)},
            frozenset(_cities_of_states(geobase)),
        )

    def readings(self, name: Words) -> tuple[Entity, ...]:
        """What `name` may mean: an entity, or a city with its state behind it (`austin texas`, `austin tx`)."""
        return self.entities.get(name, ()) + tuple(self._cities_with_state(name))

    def mentions(self, sentence: Words, allowed: Callable[[Entity], bool] = is_proper_name) -> list[Mention]:
        """The names in `sentence` in its order, longest names first, none overlapping another."""
        found: list[Mention] = []
        free = [True] * len(sentence)
        for start, stop in _spans_longest_first(len(sentence), self._longest):
            readings = tuple(filter(allowed, self.readings(sentence[start:stop]))) if all(free[start:stop]) else ()
            if readings:
                free[start:stop] = [False] * (stop - start)
                found.append(Mention(start, stop, readings))
        return sorted(found, key=lambda mention: mention.start)

    @property
    def _longest(self) -> int:
        return max(map(len, self.entities), default=0) + max(map(len, self.state_abbreviations), default=0)

    def _cities_with_state(self, name: Words) -> Iterator[Entity]:
        for cut in range(1, len(name)):
            for city in self.entities.get(name[:cut], ()):
                state = self._state_behind(city, name[cut:])
                if city.kind is EntityKind.CITY and state:
                    yield Entity(EntityKind.CITY, city.name, state)

    def _state_behind(self, city: Entity, name: Words) -> str | None:
        """A state's abbreviation, by its name or, for cities that geobase knows there, by the abbreviation itself."""
        abbreviation = name[0]
        if len(name) > 1 or (city.name, abbreviation) not in self.cities_of_states:
            return self.state_abbreviations.get(name)
        return None if abbreviation in ABBREVIATIONS_THAT_ARE_WORDS else abbreviation


def _spans_longest_first(length: int, longest: int) -> Iterator[tuple[int, int]]:
    for width in range(min(length, longest), 0, -1):
        for start in range(length - width + 1):
            yield start, start + width


def _named(geobase: Geobase) -> Iterator[tuple[str, Entity]]:
    """Every name with its entity; of several entities of one name the likelier kind comes first."""
    yield from _by_their_name(EntityKind.STATE, (state.name for state in geobase.all(State)))
    yield from _by_their_name(EntityKind.CITY, (city for city, _ in _cities_of_states(geobase)))
    yield from _by_their_name(EntityKind.RIVER, (river.name for river in geobase.all(River)))
    yield from _by_their_name(EntityKind.PLACE, _places(geobase))
    for country in geobase.all(Country):
        for name in COUNTRY_NAMES.get(country.name, (country.name,)):
            yield name, Entity(EntityKind.COUNTRY, country.name)


def _by_their_name(kind: EntityKind, names: Iterable[str]) -> Iterator[tuple[str, Entity]]:
    return ((name, Entity(kind, name)) for name in names)


def _cities_of_states(geobase: Geobase) -> Iterator[tuple[str, str]]:
    for city in geobase.all(City):
        yield city.name, city.state_abbreviation
    for state in geobase.all(State):
        for name in (state.capital, *state.cities):
            yield name, state.abbreviation


def _places(geobase: Geobase) -> Iterator[str]:
    for state in geobase.all(HighLow):
        yield from (state.highest_point, state.lowest_point)
    yield from (mountain.name for mountain in geobase.all(Mountain))
    yield from (lake.name for lake in geobase.all(Lake))
