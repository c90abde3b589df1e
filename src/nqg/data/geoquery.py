"""GeoQuery: sentences and programs with placeholders for their entities, and the way back to the corpus's programs.

The conversion follows the appendix of the paper (dataset preprocessing). Entities are numbered from the longest name
to the shortest, as the program writes it; among equally long ones from left to right in the sentence.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from nqg.data.examples import Example
from nqg.data.funql import (
    Entity,
    EntityKind,
    Leaf,
    Placeholder,
    Term,
    expanded,
    folded,
    is_well_typed,
    leaves,
    original_text,
    parse_funql,
    spaced_text,
    with_leaves,
)
from nqg.data.geobase import City, Country, Geobase, HighLow, Lake, Mountain, River, State, read_geobase
from nqg.errors import FormatError, Place
from nqg.files import numbered_lines

SENTENCE = ("nl", "en")
PROGRAM = ("mrl", "geo-funql")


@dataclass(frozen=True, slots=True)
class CorpusExample:
    """A sentence and a program as corpus.xml has them, less the white space around them."""

    id: str
    sentence: str
    program: str
    place: Place


def read_corpus(path: Path) -> list[CorpusExample]:
    """The examples of a corpus in its order; bad XML and incomplete examples are refused with their line."""
    text = "\n".join(line for _, line in numbered_lines(path))
    reader = _CorpusReader(path)
    try:
        reader.parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        reason = f"bad XML: {expat.ErrorString(error.code)}; expected well-formed XML, perhaps the file was cut off"
        raise FormatError(reason, Place(path, error.lineno)) from error
    return reader.examples


class _CorpusReader:
    """Listens to the XML parser and collects one example at a time."""

    def __init__(self, path: Path) -> None:
        self.parser = expat.ParserCreate("utf-8")
        self.examples: list[CorpusExample] = []
        self._path = path
        self._ids: set[str] = set()
        self._begin("", Place(path, 1))
        self.parser.StartElementHandler = self._opened
        self.parser.EndElementHandler = self._closed
        self.parser.CharacterDataHandler = self._read
        self.parser.EntityDeclHandler = self._refusal("an entity declaration", "a document type of elements alone")
        self.parser.SkippedEntityHandler = self._refusal("an undeclared entity", "plain text")

    def _begin(self, example_id: str, place: Place) -> None:
        self._id, self._place = example_id, place
        self._texts: dict[tuple[str, str], list[str]] = {}
        self._current: list[str] | None = None

    def _opened(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "example":
            self._begin(self._new_id(attributes), self._here)
        part = (tag, attributes.get("lang", ""))
        self._current = self._texts.setdefault(part, []) if part in (SENTENCE, PROGRAM) else None

    def _read(self, text: str) -> None:
        if self._current is not None:
            self._current.append(text)

    def _closed(self, tag: str) -> None:
        self._current = None
        if tag == "example":
            example = CorpusExample(self._id, self._text(SENTENCE), self._text(PROGRAM), self._place)
            self.examples.append(example)

    def _new_id(self, attributes: dict[str, str]) -> str:
        example_id = attributes.get("id", "")
        if not example_id or example_id in self._ids:
            found = f"found the id '{example_id}' again" if example_id else "found an example without an id"
            raise FormatError(f"{found}, expected an id of its own for every example", self._here)
        self._ids.add(example_id)
        return example_id

    def _text(self, part: tuple[str, str]) -> str:
        text = "".join(self._texts.get(part, [])).strip()
        if not text:
            reason = f'example {self._id} has no text in <{part[0]} lang="{part[1]}">, expected one'
            raise FormatError(reason, self._place)
        return text

    @property
    def _here(self) -> Place:
        return Place(self._path, self.parser.CurrentLineNumber)

    def _refusal(self, found: str, expected: str) -> Callable[..., NoReturn]:
        def refuse(name: str, *_: object) -> NoReturn:
            raise FormatError(f"found {found} ('{name}'), expected {expected}", self._here)

        return refuse


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


@dataclass(frozen=True, slots=True)
class AnonymisedExample:
    """A converted example and the entities behind its placeholders: `entities[0]` is `m0`."""

    example: Example
    entities: tuple[Entity, ...]

    @property
    def original_program(self) -> str:
        """The program as the corpus writes it."""
        return restored(self.example.target, self.entities)


@dataclass(frozen=True, slots=True)
class AnonymisedSentence:
    """A user's sentence with placeholders, and what each may stand for, likeliest first: `readings[0]` is `m0`'s."""

    source: str
    readings: tuple[tuple[Entity, ...], ...]

    def programs(self, target: str) -> Iterator[str]:
        """The well-typed programs that a target predicted for this sentence may mean, likeliest first."""
        used = {leaf.index for leaf in leaves(parse_funql(target)) if isinstance(leaf, Placeholder)}
        choices = [readings if index in used else readings[:1] for index, readings in enumerate(self.readings)]
        for entities in itertools.product(*choices):
            if is_well_typed(target, entities):
                yield restored(target, entities)


def load_geoquery(corpus: Path, geobase: Path) -> list[Example]:
    """The dataset as models are trained on it, from the published corpus.xml and either published form of geobase."""
    return [converted.example for converted in load_anonymised(corpus, geobase)]


def load_anonymised(corpus: Path, geobase: Path) -> list[AnonymisedExample]:
    """The same examples, with the entities that were replaced."""
    names = EntityNames.of(read_geobase(geobase))
    return [_converted(example, names) for example in read_corpus(corpus)]


def _converted(example: CorpusExample, names: EntityNames) -> AnonymisedExample:
    try:
        return anonymised_example(example.sentence, example.program, names, example.id)
    except FormatError as error:
        raise FormatError(f"example {example.id}: {error.reason}", example.place) from error


def anonymised_example(
    sentence: str, program: str, names: EntityNames, example_id: str | None = None
) -> AnonymisedExample:
    """A sentence with its program in the corpus's form, the entities of the program replaced in both."""
    tree, source = parse_funql(program), _checked_words(sentence)
    named = _entities(tree)
    replaced = _replaced(source, list(_settled(names.mentions(source, named.__contains__), named)))
    entities = tuple(reading for (reading,) in replaced.readings)
    missing = [entity for entity in named if entity not in entities]
    if missing:
        raise FormatError(f"the program names {missing[0]}, which the sentence '{' '.join(source)}' does not mention")
    numbers: dict[Leaf, Term] = {entity: Placeholder(index) for index, entity in enumerate(entities)}
    target = spaced_text(with_leaves(expanded(tree), lambda leaf: numbers.get(leaf, leaf)))
    return AnonymisedExample(Example(replaced.source, target, example_id), entities)


def anonymised(sentence: str, names: EntityNames) -> AnonymisedSentence:
    """A sentence without a program, every name that geobase knows replaced."""
    source = _checked_words(sentence)
    return _replaced(source, names.mentions(source))


def restored(target: str, entities: Sequence[Entity]) -> str:
    """The program, as the corpus writes it, behind a target in the converted form.

    >>> from nqg.data.funql import EntityKind
    >>> restored("answer ( intersection ( city , loc_2 ( m0 ) ) )", [Entity(EntityKind.STATE, "ohio")])
    "answer(city(loc_2(stateid('ohio'))))"
    """

    def bound(leaf: Leaf) -> Leaf:
        if not isinstance(leaf, Placeholder):
            return leaf
        if leaf.index >= len(entities):
            known = ", ".join(f"m{index}" for index in range(len(entities))) or "no placeholder"
            raise FormatError(f"found {leaf}, but the sentence binds {known}")
        return entities[leaf.index]

    return original_text(with_leaves(folded(parse_funql(target)), bound))


def _checked_words(sentence: str) -> Words:
    source = words(sentence)
    if not source:
        raise FormatError(f"found no word in the sentence {sentence!r}, expected at least one")
    reserved = [word for word in source if re.fullmatch(r"m[0-9]+", word)]
    if reserved:
        raise FormatError(
            f"found the word '{reserved[0]}' in a sentence; it is reserved for placeholders, write a name"
        )
    return source


def _entities(tree: Term) -> tuple[Entity, ...]:
    """The entities of a program of the corpus, in its order."""
    stray = [leaf for leaf in leaves(tree) if isinstance(leaf, Placeholder)]
    if stray:
        raise FormatError(f"found the placeholder {stray[0]} in a program of the corpus, expected an entity")
    return tuple(dict.fromkeys(leaf for leaf in leaves(tree) if isinstance(leaf, Entity)))


def _settled(mentions: Sequence[Mention], named: Sequence[Entity]) -> Iterator[Mention]:
    """The mentions with one reading each; a name that several named entities share means each in turn."""
    taken: set[Entity] = set()
    for mention in mentions:
        untaken = [entity for entity in mention.readings if entity not in taken]
        entity = min(untaken or mention.readings, key=named.index)
        taken.add(entity)
        yield replace(mention, readings=(entity,))


def _replaced(source: Words, mentions: Sequence[Mention]) -> AnonymisedSentence:
    referents: dict[object, list[Mention]] = {}
    for mention in mentions:
        # An ambiguous name may mean two things in one sentence: "does the colorado river cross colorado".
        referent = mention.readings if len(mention.readings) == 1 else mention
        referents.setdefault(referent, []).append(mention)
    numbered = sorted(referents.values(), key=lambda same: (-len(same[0].readings[0].name), same[0].start))
    tokens = list(source)
    for index, same in enumerate(numbered):
        for mention in same:
            tokens[mention.start : mention.stop] = [str(Placeholder(index))] + [""] * (len(mention) - 1)
    return AnonymisedSentence(" ".join(filter(None, tokens)), tuple(same[0].readings for same in numbered))
