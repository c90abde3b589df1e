"""GeoQuery: sentences and programs with placeholders for their entities, and the way back to the corpus's programs.

The conversion follows the appendix of the paper (dataset preprocessing). Entities are numbered from the longest name
to the shortest, as the program writes it; among equally long ones from left to right in the sentence.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nqg.data.example import Example
from nqg.data.funql import (
    Entity,
    Leaf,
    Placeholder,
    Term,
    leaves,
    original_text,
    parse_funql,
    spaced_text,
    with_leaves,
)
from nqg.data.funql_conversion import expanded, folded
from nqg.data.funql_grammar import is_well_typed
from nqg.data.geobase import read_geobase
from nqg.data.geoquery_corpus import CorpusExample, read_corpus
from nqg.data.geoquery_names import EntityNames, Mention, Words, words
from nqg.errors import FormatError


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
