"""GeoQuery: sentences and programs with placeholders for their entities, and the way back to the corpus's programs.

The conversion follows the appendix of the paper (dataset preprocessing). Entities are numbered from the longest name
to the shortest, as the program writes it; among equally long ones from left to right in the sentence.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from nqg.data.example import Example
from nqg.errors import FormatError, Place
from nqg.files import numbered_lines
from nqg.paper.funql import (
    Entity,
    EntityKind,
    Leaf,
    Placeholder,
    expanded,
    folded,
    is_well_typed,
    leaves,
    original_text,
    parse_funql,
    spaced_text,
    with_leaves,
)
from nqg.paper.geobase import (
    City,
    Country,
    Geobase,
    HighLow,
    Lake,
    Mountain,
    River,
    State,
    read_geobase,
)
from nqg.slots.delexicalize import delexicalize
from nqg.slots.gazetteer import Gazetteer
from nqg.slots.mention import Mention, longest_spans

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
    reader = CorpusReader(path)
    text = "\n".join(line for _, line in numbered_lines(path))
    try:
        reader.parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        reason = f"bad XML: {expat.ErrorString(error.code)}; expected well-formed XML, perhaps the file was cut off"
        raise FormatError(reason, Place(path, error.lineno)) from error
    return list(reader.examples.values())


class CorpusReader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.examples: dict[str, CorpusExample] = {}
        self.parser = expat.ParserCreate("utf-8")
        self.parser.StartElementHandler = self.open
        self.parser.EndElementHandler = self.close
        self.parser.CharacterDataHandler = self.read
        self.parser.EntityDeclHandler = lambda name, *_: self.refuse(
            f"an entity declaration ('{name}'), expected a document type of elements alone"
        )
        self.parser.SkippedEntityHandler = lambda name, *_: self.refuse(
            f"an undeclared entity ('{name}'), expected plain text"
        )
        self._id, self._place = "", Place(path, 1)
        self._texts = {SENTENCE: "", PROGRAM: ""}
        self._part: tuple[str, str] | None = None  # which text is being read

    def open(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "example":
            self._id, self._place = (
                attributes.get("id", ""),
                Place(self.path, self.parser.CurrentLineNumber),
            )
            self._texts = {SENTENCE: "", PROGRAM: ""}
            if not self._id or self._id in self.examples:
                found = f"the id '{self._id}' again" if self._id else "an example without an id"
                self.refuse(f"{found}, expected an id of its own for every example")
        part = (tag, attributes.get("lang", ""))
        self._part = part if part in self._texts else None

    def read(self, text: str) -> None:
        if self._part is not None:
            self._texts[self._part] += text

    def close(self, tag: str) -> None:
        self._part = None
        if tag != "example":
            return
        texts = {part: text.strip() for part, text in self._texts.items()}
        for (element, language), text in texts.items():
            if not text:
                reason = (
                    f'example {self._id} has no text in <{element} lang="{language}">, expected one'
                )
                raise FormatError(reason, self._place)
        self.examples[self._id] = CorpusExample(
            self._id, texts[SENTENCE], texts[PROGRAM], self._place
        )

    def refuse(self, found: str) -> NoReturn:
        raise FormatError(f"found {found}", Place(self.path, self.parser.CurrentLineNumber))


# What sentences call a country, by its name in geobase; every other entity goes by its own name.
COUNTRY_NAMES = {
    "usa": (
        "usa",
        "us",
        "u.s.",
        "america",
        "country",
        "united states",
        "united states of america",
        "continental us",
    )
}
# States that must be spelled out after a city: "portland or seattle" does not mention Portland, Oregon.
ABBREVIATIONS_THAT_ARE_WORDS = frozenset({"in", "or", "me", "hi", "oh", "ok"})
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
class EntityNames:
    """What sentences call the entities of each kind; values are entities as converted programs write them."""

    gazetteers: Mapping[EntityKind, Gazetteer]

    @classmethod
    def of(cls, geobase: Geobase) -> EntityNames:
        named = [(name, entity) for name, entity in entity_names(geobase) if is_proper_name(entity)]
        return cls(
            {
                kind: Gazetteer.of(
                    ((name, spaced_text(each)) for name, each in named if each.kind is kind), words
                )
                for kind in EntityKind
            }
        )

    def mentions(self, sentence: Words) -> list[Mention]:
        """Every name in `sentence`, overlapping ones included; the likelier kinds come first."""
        return [
            Mention(start, end, kind.value, tuple(value.split()))
            for kind, gazetteer in self.gazetteers.items()
            for start, end, value in gazetteer.matches(sentence)
        ]


def entity_names(geobase: Geobase) -> Iterator[tuple[str, Entity]]:
    """Names and what they stand for; a city may have its state behind it (`austin texas`, `austin tx`)."""
    states = geobase.all(State)
    cities = [(city.name, city.state_abbreviation) for city in geobase.all(City)]
    cities += [
        (city, state.abbreviation) for state in states for city in (state.capital, *state.cities)
    ]
    places = [
        name for state in geobase.all(HighLow) for name in (state.highest_point, state.lowest_point)
    ]
    places += [mountain.name for mountain in geobase.all(Mountain)] + [
        lake.name for lake in geobase.all(Lake)
    ]
    yield from ((state.name, Entity(EntityKind.STATE, state.name)) for state in states)
    for city in dict.fromkeys(name for name, _ in cities):
        yield city, Entity(EntityKind.CITY, city)
        for state in states:
            yield f"{city} {state.name}", Entity(EntityKind.CITY, city, state.abbreviation)
    for city, abbreviation in dict.fromkeys(cities):
        if abbreviation not in ABBREVIATIONS_THAT_ARE_WORDS:
            yield f"{city} {abbreviation}", Entity(EntityKind.CITY, city, abbreviation)
    yield from ((river.name, Entity(EntityKind.RIVER, river.name)) for river in geobase.all(River))
    yield from ((place, Entity(EntityKind.PLACE, place)) for place in places)
    for country in geobase.all(Country):
        for name in COUNTRY_NAMES.get(country.name, (country.name,)):
            yield name, Entity(EntityKind.COUNTRY, country.name)


def entity_of(mention: Mention) -> Entity:
    entity = parse_funql(" ".join(mention.value))
    if not isinstance(entity, Entity):
        raise FormatError(f"found {entity}, expected an entity")
    return entity


@dataclass(frozen=True, slots=True)
class AnonymisedExample:
    """A converted example and the entities behind its placeholders: `entities[0]` is `m0`."""

    example: Example
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class AnonymisedSentence:
    """A user's sentence with placeholders, and what each may stand for, likeliest first: `readings[0]` is `m0`'s."""

    source: str
    readings: tuple[tuple[Entity, ...], ...]

    def programs(self, target: str) -> Iterator[str]:
        """The well-typed programs that a target predicted for this sentence may mean, likeliest first."""
        used = {leaf.index for leaf in leaves(parse_funql(target)) if isinstance(leaf, Placeholder)}
        choices = [
            readings if index in used else readings[:1]
            for index, readings in enumerate(self.readings)
        ]
        for entities in itertools.product(*choices):
            if is_well_typed(target, entities):
                yield restored(target, entities)


def load_geoquery(corpus: Path, geobase: Path) -> list[Example]:
    """The dataset as models are trained on it, from the published corpus.xml and either published form of geobase."""
    return [converted.example for converted in load_anonymised(corpus, geobase)]


def load_anonymised(corpus: Path, geobase: Path) -> list[AnonymisedExample]:
    """The same examples, with the entities behind their placeholders."""
    names = EntityNames.of(read_geobase(geobase))
    converted = []
    for example in read_corpus(corpus):
        try:
            converted.append(
                anonymised_example(example.sentence, example.program, names, example.id)
            )
        except FormatError as error:
            raise FormatError(f"example {example.id}: {error.reason}", example.place) from error
    return converted


def load_raw_geoquery(corpus: Path, geobase: Path) -> list[Example]:
    """Questions as people type them, programs as converted but with their entities: `loc_2(stateid('ohio'))`."""
    converted = load_anonymised(corpus, geobase)
    return [
        Example(
            _typed(example.sentence),
            original_text(expanded(parse_funql(example.program))),
            each.example.id,
        )
        for example, each in zip(read_corpus(corpus), converted, strict=True)
    ]


def _typed(sentence: str) -> str:
    """
    >>> _typed("What 's the capital of St. Paul ?")
    "What's the capital of St. Paul?"
    """
    return re.sub(r"\s+(?=[?.!,;:'])", "", " ".join(sentence.split()))


def raw_geoquery_slots(corpus: Path, geobase: Path) -> dict[str, str]:
    """Files beside the raw pairs: names of every kind of entity, and settings that declare them as slots."""
    files: dict[str, str] = {}
    for name, entity in entity_names(read_geobase(geobase)):
        if is_proper_name(entity):
            file = f"{entity.kind.name.lower()}.tsv"
            files[file] = files.get(file, "") + f"{name}\t{entity}\n"
    slots = "".join(f'{name.removesuffix(".tsv")} = {{ gazetteer = "{name}" }}\n' for name in files)
    return {**files, "nqg.toml": f"[slots]\n{slots}"}


def anonymised_example(
    sentence: str, program: str, names: EntityNames, example_id: str | None = None
) -> AnonymisedExample:
    """A sentence with its program in the corpus's form, the entities of the program replaced in both."""
    tree, source = parse_funql(program), _checked_words(sentence)
    if stray := [leaf for leaf in leaves(tree) if isinstance(leaf, Placeholder)]:
        raise FormatError(
            f"found the placeholder {stray[0]} in a program of the corpus, expected an entity"
        )
    pair = delexicalize(
        source, spaced_text(expanded(tree)).split(), names.mentions(source), _numbered
    )
    bound = zip(pair.placeholders, map(entity_of, pair.mentions), strict=True)
    entities = dict(sorted(bound, key=lambda each: (len(each[0]), each[0])))  # m10 comes behind m9
    if missing := [
        leaf for leaf in leaves(tree) if isinstance(leaf, Entity) and leaf not in entities.values()
    ]:
        raise FormatError(
            f"the program names {missing[0]}, which the sentence '{' '.join(source)}' does not mention"
        )
    return AnonymisedExample(
        Example(" ".join(pair.source), " ".join(pair.target), example_id), tuple(entities.values())
    )


def _numbered(mentions: Sequence[Mention]) -> list[str]:
    """Placeholders of mentions: longer names of entities first, then those that come first."""
    entities = {mention.value: entity_of(mention) for mention in mentions}
    order = sorted(entities, key=lambda value: -len(entities[value].name))
    return [str(Placeholder(order.index(mention.value))) for mention in mentions]


def anonymised(sentence: str, names: EntityNames) -> AnonymisedSentence:
    """A sentence without a program, every name that geobase knows replaced."""
    source = _checked_words(sentence)
    referents: dict[object, list[Mention]] = {}
    readings: dict[object, tuple[Entity, ...]] = {}
    for span in longest_spans(names.mentions(source)):
        # An ambiguous name may mean two things in one sentence: "does the colorado river cross colorado".
        referent: object = span[0].value if len(span) == 1 else span
        referents.setdefault(referent, []).append(span[0])
        readings[referent] = tuple(map(entity_of, span))
    numbered = sorted(referents, key=lambda referent: -len(readings[referent][0].name))
    tokens = list(source)
    for index, referent in enumerate(numbered):
        for mention in referents[referent]:
            blanks = [""] * (mention.end - mention.start - 1)
            tokens[mention.start : mention.end] = [str(Placeholder(index)), *blanks]
    return AnonymisedSentence(
        " ".join(filter(None, tokens)), tuple(readings[referent] for referent in numbered)
    )


def restored(target: str, entities: Sequence[Entity]) -> str:
    """The program, as the corpus writes it, behind a target in the converted form.

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
    if reserved := [word for word in source if re.fullmatch(r"m[0-9]+", word)]:
        word = reserved[0]
        raise FormatError(
            f"found the word '{word}' in a sentence; it is reserved for placeholders, write a name"
        )
    return source
