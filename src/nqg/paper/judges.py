"""Metrics of the paper's datasets: Spider's exact set match, and the answers of GeoQuery's
programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, zip_longest
from pathlib import Path

from nqg.answers import Answer
from nqg.data.example import Example
from nqg.errors import FormatError, NqgError, UnknownName
from nqg.paper.datasets import entry_named, load_spider_schemas
from nqg.paper.denotations import denotation_matches, target_denotation
from nqg.paper.download import file_store
from nqg.paper.funql import Entity, EntityKind, Placeholder, leaves, parse_funql
from nqg.paper.geobase import Geography, read_geobase
from nqg.paper.geoquery import load_anonymised
from nqg.paper.spider import database_of
from nqg.paper.spider_match import SpiderReport, SpiderVerdict, spider_match
from nqg.progress import Progress, silent
from nqg.sql.schema import Schema
from nqg.sql.tokens import as_sql

# A bound of work: how many tuples of entities a program is executed with before it counts as
# senseless.
TRIED_ENTITIES = 12


def spider_judge(
    mirror: Path | None = None, progress: Progress = silent
) -> SpiderJudge:
    return SpiderJudge(load_spider_schemas(mirror, progress))


def denotation_judge(
    mirror: Path | None = None, progress: Progress = silent
) -> DenotationJudge:
    corpus, geobase = entry_named("geoquery").files
    store = file_store(mirror, progress)
    return DenotationJudge.read(store.path_of(corpus), store.path_of(geobase))


@dataclass(frozen=True, slots=True)
class SpiderJudge:
    """Right is what Spider's exact set match takes for right; sources begin with the name of their
    database.
    """

    schemas: Mapping[str, Schema]

    def verdict(self, prediction: str | None, example: Example) -> SpiderVerdict:
        """The verdict on a query, written as SQL or as the tokens that a grammar writes."""
        database = database_of(example.source)
        if database not in self.schemas:
            raise UnknownName("database", database, self.schemas)
        sql = prediction and as_sql(prediction)
        try:
            return spider_match(sql, as_sql(example.target), self.schemas[database])
        except FormatError as error:
            raise NqgError(
                f"the reference '{example.target}' cannot be read: {error}"
            ) from error

    def is_right(self, prediction: str, example: Example) -> bool:
        return self.verdict(prediction, example).is_match

    def report(
        self, answers: Sequence[Answer], examples: Sequence[Example]
    ) -> SpiderReport:
        targets = [answer.target for answer in answers]
        return SpiderReport.of(list(map(self.verdict, targets, examples)))


@dataclass(frozen=True)
class DenotationJudge:
    """Right is what gives the same answers over GeoQuery's facts; placeholders stand for the
    entities of the corpus.

    An example is found by its id. Without one it is the first in the corpus with its source and
    target, whose entities may be others.
    """

    geography: Geography
    entities: Mapping[object, Sequence[Entity]]

    @classmethod
    def read(cls, corpus: Path, geobase: Path) -> DenotationJudge:
        # Each example has two keys, with its id and without; without, the first one counts.
        entities: dict[object, Sequence[Entity]] = {}
        for converted in load_anonymised(corpus, geobase):
            example = converted.example
            pair = (example.source, example.target)
            entities[example.id, *pair] = converted.entities
            entities.setdefault(pair, converted.entities)
        return cls(Geography.of(read_geobase(geobase)), entities)

    def entities_of(self, example: Example) -> Sequence[Entity] | None:
        pair = (example.source, example.target)
        return self.entities.get((example.id, *pair), self.entities.get(pair))

    def is_right(self, prediction: str, example: Example) -> bool:
        entities = self.entities_of(example)
        if entities is None:
            pair = f"'{example.source}' with '{example.target}'"
            raise NqgError(f"{pair} is not an example of GeoQuery; use --metric exact")
        return denotation_matches(prediction, example.target, entities, self.geography)

    def kinds(self, example: Example) -> tuple[frozenset[EntityKind], ...]:
        """For each placeholder of an example the kinds of things that the name behind it has in
        geobase.
        """
        entities = self.entities_of(example) or ()
        return tuple(self.geography.kinds_of(entity.name) for entity in entities)

    def is_sensible(self, target: str) -> bool:
        """Whether a program answers anything, with some of the entities that the corpus has
        together.
        """
        # Its placeholders are m0, m1, … without a gap.
        used: set[int] = set()
        for leaf in leaves(parse_funql(target)):
            if isinstance(leaf, Placeholder):
                used.add(leaf.index)
        size = len(used)
        if used != set(range(size)):
            return False
        # The first entities that are as many answer for all.
        many = (entities for entities in self.entity_tuples if len(entities) >= size)
        for entities in islice(many, TRIED_ENTITIES):
            if target_denotation(target, entities[:size], self.geography).answers:
                return True
        return False

    @cached_property
    def entity_tuples(self) -> list[Sequence[Entity]]:
        """The different entities of examples, those of few kinds in turn."""
        # One tuple of each combination of kinds comes first, then a second of each, and so on.
        by_kinds: dict[tuple[EntityKind, ...], dict[Sequence[Entity], None]] = {}
        for entities in self.entities.values():
            kinds = tuple(entity.kind for entity in entities)
            by_kinds.setdefault(kinds, {})[entities] = None
        in_turn = chain(*zip_longest(*by_kinds.values()))
        return [entities for entities in in_turn if entities is not None]
