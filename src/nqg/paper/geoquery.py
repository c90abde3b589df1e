"""GeoQuery: sentences and programs with placeholders for their entities.

The conversion follows the appendix of the paper (dataset preprocessing). Entities are numbered from
the longest name to the shortest, as the program writes it; among equally long ones from left to
right in the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from nqg.data.example import Example
from nqg.errors import FormatError, Place
from nqg.files import numbered_lines
from nqg.paper.funql import (
    Entity,
    EntityKind,
    Placeholder,
    expanded,
    leaves,
    original_text,
    parse_funql,
    spaced_text,
)
from nqg.paper.geobase import Geobase, read_geobase
from nqg.slots.delexicalize import delexicalize
from nqg.slots.matcher import Mention
from nqg.slots.slot import Gazetteer

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
    """The examples of a corpus in its order; bad XML and incomplete examples are refused with their
    line.
    """
    reader = CorpusReader(path)
    text = "\n".join(line for _, line in numbered_lines(path))
    try:
        reader.parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        reason = (
            f"bad XML: {expat.ErrorString(error.code)}; "
            "expected well-formed XML, perhaps the file was cut off"
        )
        raise FormatError(reason, Place(path, error.lineno)) from error
    return list(reader.examples.values())


class CorpusReader:
    """The handlers of an XML parser, which collect `examples` by their ids."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.examples: dict[str, CorpusExample] = {}
        self.id = ""
        self.place = Place(path, 1)
        self.texts: dict[tuple[str, str], str] = {}
        # The element and its language whose text is being read.
        self.element = ("", "")
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

    def open(self, tag: str, attributes: dict[str, str]) -> None:
        self.element = (tag, attributes.get("lang", ""))
        if tag == "example":
            self.id = attributes.get("id", "")
            self.place = Place(self.path, self.parser.CurrentLineNumber)
            self.texts = {SENTENCE: "", PROGRAM: ""}
            if not self.id or self.id in self.examples:
                fault = (
                    f"the id '{self.id}' again"
                    if self.id
                    else "an example without an id"
                )
                self.refuse(f"{fault}, expected an id of its own for every example")

    def read(self, text: str) -> None:
        if self.element in self.texts:
            self.texts[self.element] += text

    def close(self, tag: str) -> None:
        self.element = ("", "")
        if tag != "example":
            return
        texts: list[str] = []
        for (element, language), text in self.texts.items():
            if not text.strip():
                missing = f'<{element} lang="{language}">'
                reason = f"example {self.id} has no text in {missing}, expected one"
                raise FormatError(reason, self.place)
            texts.append(text.strip())
        sentence, program = texts
        self.examples[self.id] = CorpusExample(self.id, sentence, program, self.place)

    def refuse(self, found: str) -> NoReturn:
        raise FormatError(
            f"found {found}", Place(self.path, self.parser.CurrentLineNumber)
        )


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
# States that must be spelled out after a city: "portland or seattle" does not mention Portland,
# Oregon.
ABBREVIATIONS_THAT_ARE_WORDS = frozenset({"in", "or", "me", "hi", "oh", "ok"})
# A city and a place, but no sentence means them by these words.
HIGH_POINT = "high point"
Words = tuple[str, ...]


def words(sentence: str) -> Words:
    """The words of a sentence in lower case, without punctuation; a possessive `'s` stays with its
    word.

    >>> words("What state 's capital is St. Paul ?")
    ('what', 'states', 'capital', 'is', 'st', 'paul')
    """
    evenly_spaced = " ".join(sentence.lower().replace("’", "'").split())
    joined = re.sub(r" 's\b", "s", evenly_spaced)
    return tuple(re.sub(r"(?<![0-9])[.]|[.](?![0-9])|[?!,;:'\"]", "", joined).split())


@dataclass(frozen=True, slots=True)
class EntityNames:
    """What sentences call the entities of each kind; values are entities as converted programs
    write them.
    """

    gazetteers: Mapping[EntityKind, Gazetteer]

    @classmethod
    def of(cls, geobase: Geobase) -> EntityNames:
        names: dict[EntityKind, list[tuple[str, str]]] = {
            kind: [] for kind in EntityKind
        }
        for name, entity in entity_names(geobase):
            names[entity.kind].append((name, spaced_text(entity)))
        return cls({kind: Gazetteer.of(names[kind], words) for kind in names})

    def mentions(self, sentence: Words) -> list[Mention]:
        """Every name in `sentence`, overlapping ones included; the likelier kinds come first."""
        mentions = []
        for kind, gazetteer in self.gazetteers.items():
            for start, end, value in gazetteer.matches(sentence):
                words = tuple(value.split())
                mentions.append(Mention(start, end, kind.value, words))
        return mentions


def entity_names(geobase: Geobase) -> Iterator[tuple[str, Entity]]:
    """Names and what they stand for; a city may have its state behind it (`austin texas`, `austin
    tx`).
    """
    states = geobase["state"]
    for name, *_ in states:
        yield name, Entity(EntityKind.STATE, name)
    # Cities, with the abbreviations of the states that geobase says they lie in.
    cities = [(city, abbreviation) for _, abbreviation, city, _ in geobase["city"]]
    for _, abbreviation, capital, _, _, _, *others in states:
        cities += zip((capital, *others), repeat(abbreviation))
    cities = [pair for pair in cities if pair[0] != HIGH_POINT]
    # Behind a city the name of any state may stand, but only abbreviations of its own ones.
    for city in dict(cities):
        yield city, Entity(EntityKind.CITY, city)
        for state, abbreviation, *_ in states:
            yield f"{city} {state}", Entity(EntityKind.CITY, city, abbreviation)
    for city, abbreviation in dict.fromkeys(cities):
        if abbreviation not in ABBREVIATIONS_THAT_ARE_WORDS:
            yield f"{city} {abbreviation}", Entity(EntityKind.CITY, city, abbreviation)
    for name, *_ in geobase["river"]:
        yield name, Entity(EntityKind.RIVER, name)
    # Places: the highest and the lowest point of each state, mountains and lakes.
    places: list[str] = []
    for row in geobase["highlow"]:
        places += row[2::2]
    places += map(itemgetter(2), geobase["mountain"])
    places += map(itemgetter(0), geobase["lake"])
    # A place where states have their lowest point may be the "ohio river", which means the river.
    for name in places:
        if not name.endswith(" river") and name != HIGH_POINT:
            yield name, Entity(EntityKind.PLACE, name)
    for country, *_ in geobase["country"]:
        for name in COUNTRY_NAMES.get(country, (country,)):
            yield name, Entity(EntityKind.COUNTRY, country)


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


def load_geoquery(corpus: Path, geobase: Path) -> list[Example]:
    """The dataset as models are trained on it, from the published corpus.xml and either published
    form of geobase.
    """
    return [converted.example for converted in load_anonymised(corpus, geobase)]


def load_anonymised(corpus: Path, geobase: Path) -> list[AnonymisedExample]:
    """The same examples, with the entities behind their placeholders."""
    names = EntityNames.of(read_geobase(geobase))
    converted = []
    for example in read_corpus(corpus):
        pair = (example.sentence, example.program)
        try:
            converted.append(anonymised_example(*pair, names, example.id))
        except FormatError as error:
            raise FormatError(
                f"example {example.id}: {error.reason}", example.place
            ) from error
    return converted


def load_raw_geoquery(corpus: Path, geobase: Path) -> list[Example]:
    """Questions as people type them, programs as converted but with their entities:
    `loc_2(stateid('ohio'))`.
    """
    load_anonymised(corpus, geobase)  # Refuses a pair that does not fit, with its line.
    examples = []
    for example in read_corpus(corpus):
        program = original_text(expanded(parse_funql(example.program)))
        # White space before punctuation is the corpus's: "What 's the capital ?".
        sentence = re.sub(r"\s+(?=[?.!,;:'])", "", " ".join(example.sentence.split()))
        examples.append(Example(sentence, program, example.id))
    return examples


def raw_geoquery_slots(corpus: Path, geobase: Path) -> dict[str, str]:
    """Files beside the raw pairs: names of every kind of entity, and settings that declare them as
    slots.
    """
    files: dict[str, str] = {}
    for name, entity in entity_names(read_geobase(geobase)):
        file = f"{entity.kind.name.lower()}.tsv"
        files[file] = files.get(file, "") + f"{name}\t{entity}\n"
    slots = "".join(
        f'{name.removesuffix(".tsv")} = {{ gazetteer = "{name}" }}\n' for name in files
    )
    return {**files, "nqg.toml": f"[slots]\n{slots}"}


def anonymised_example(
    sentence: str, program: str, names: EntityNames, example_id: str | None = None
) -> AnonymisedExample:
    """A sentence with its program in the corpus's form, the entities of the program replaced in
    both.
    """
    tree, source = parse_funql(program), words(sentence)
    if not source:
        raise FormatError(
            f"found no word in the sentence {sentence!r}, expected at least one"
        )
    for word in source:
        if re.fullmatch(r"m[0-9]+", word):
            raise FormatError(
                f"found the word '{word}' in a sentence; it is reserved for placeholders, "
                "write a name"
            )
    for leaf in leaves(tree):
        if isinstance(leaf, Placeholder):
            raise FormatError(
                f"found the placeholder {leaf} in a program of the corpus, expected an entity"
            )
    target = spaced_text(expanded(tree)).split()
    pair = delexicalize(source, target, names.mentions(source), _numbered)
    entities = dict(zip(pair.placeholders, map(entity_of, pair.mentions)))
    for leaf in leaves(tree):
        if isinstance(leaf, Entity) and leaf not in entities.values():
            raise FormatError(
                f"the program names {leaf}, which the sentence '{' '.join(source)}' "
                "does not mention"
            )
    in_order = [entities[str(Placeholder(number))] for number in range(len(entities))]
    example = Example(" ".join(pair.source), " ".join(pair.target), example_id)
    return AnonymisedExample(example, tuple(in_order))


def _numbered(mentions: Sequence[Mention]) -> list[str]:
    """Placeholders of mentions: longer names of entities first, then those that come first."""
    entities = {mention.value: entity_of(mention) for mention in mentions}
    order = sorted(entities, key=lambda value: -len(entities[value].name))
    return [str(Placeholder(order.index(mention.value))) for mention in mentions]
