"""Metrics of the paper's datasets: Spider's exact set match, and the answers of GeoQuery's programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest
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

TRIED_ENTITIES = 12  # entities that a program is executed with before it counts as senseless


def spider_judge(mirror: Path | None = None, progress: Progress = silent) -> SpiderJudge:
    return SpiderJudge(load_spider_schemas(mirror, progress))


def denotation_judge(mirror: Path | None = None, progress: Progress = silent) -> DenotationJudge:
    corpus, geobase = entry_named("geoquery").files
    store = file_store(mirror, progress)
    return DenotationJudge.read(store.path_of(corpus), store.path_of(geobase))


@dataclass(frozen=True, slots=True)
class SpiderJudge:
    """Right is what Spider's exact set match takes for right; sources begin with the name of their database."""

    schemas: Mapping[str, Schema]

    def verdict(self, prediction: str | None, example: Example) -> SpiderVerdict:
        """What the metric says of a query, written as SQL or as the tokens that a grammar writes."""
        database = database_of(example.source)
        if database not in self.schemas:
            raise UnknownName("database", database, self.schemas)
        try:
            return spider_match(
                prediction and as_sql(prediction), as_sql(example.target), self.schemas[database]
            )
        except FormatError as error:
            raise NqgError(f"the reference '{example.target}' cannot be read: {error}") from error

    def is_right(self, prediction: str, example: Example) -> bool:
        return self.verdict(prediction, example).is_match

    def report(self, answers: Sequence[Answer], examples: Sequence[Example]) -> SpiderReport:
        pairs = zip(answers, examples, strict=True)
        return SpiderReport.of([self.verdict(answer.target, example) for answer, example in pairs])


@dataclass(frozen=True)
class DenotationJudge:
    """Right is what gives the same answers over GeoQuery's facts; placeholders stand for the entities of the corpus.

    An example is found by its id. Without one it is the first in the corpus with its source and target, whose entities
    may be others.
    """

    geography: Geography
    entities: Mapping[object, Sequence[Entity]]

    @classmethod
    def read(cls, corpus: Path, geobase: Path) -> DenotationJudge:
        entities: dict[object, Sequence[Entity]] = {}
        for each in load_anonymised(corpus, geobase):
            pair = (each.example.source, each.example.target)
            entities[each.example.id, *pair] = each.entities
            entities.setdefault(pair, each.entities)
        return cls(Geography.of(read_geobase(geobase)), entities)

    def is_right(self, prediction: str, example: Example) -> bool:
        pair = (example.source, example.target)
        known = self.entities.get((example.id, *pair), self.entities.get(pair))
        if known is None:
            shown = f"'{example.source}' with '{example.target}'"
            raise NqgError(f"{shown} is not an example of GeoQuery; use --metric exact")
        return denotation_matches(prediction, example.target, known, self.geography)

    def kinds(self, example: Example) -> tuple[frozenset[EntityKind], ...]:
        """For each placeholder of an example the kinds of things that the name behind it has in geobase."""
        pair = (example.source, example.target)
        known = self.entities.get((example.id, *pair), self.entities.get(pair, ()))
        return tuple(self.geography.kinds_of(entity.name) for entity in known)

    def is_sensible(self, target: str) -> bool:
        """Whether a program answers anything, with some of the entities that the corpus has together."""
        used = [leaf.index for leaf in leaves(parse_funql(target)) if isinstance(leaf, Placeholder)]
        wanted = max(used, default=-1) + 1
        if {*used} != {*range(wanted)}:
            return False
        tried = (each[:wanted] for each in self.entity_tuples if len(each) >= wanted)
        return any(
            target_denotation(target, each, self.geography).answers
            for each in islice(tried, TRIED_ENTITIES)
        )

    @cached_property
    def entity_tuples(self) -> list[Sequence[Entity]]:
        """The different entities of examples, those of few kinds in turn."""
        by_kinds: dict[tuple[EntityKind, ...], dict[Sequence[Entity], None]] = {}
        for each in self.entities.values():
            by_kinds.setdefault(tuple(entity.kind for entity in each), {})[tuple(each)] = None
        in_turn = zip_longest(*by_kinds.values())
        return [each for some in in_turn for each in some if each is not None]
