"""An evaluation: examples, what a system answers to each, who judges, and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Protocol

from nqg.answers import Answer, exact_match
from nqg.data.catalogue import entry_named, load_spider_schemas
from nqg.data.database import Database, QueryError, is_ordered, same_result
from nqg.data.download import file_store
from nqg.data.examples import Example
from nqg.data.funql import Entity, EntityKind, Placeholder, leaves, parse_funql
from nqg.data.geobase import Geography, read_geobase
from nqg.data.geoquery import load_anonymised
from nqg.data.schema import Schema
from nqg.data.spider import database_of
from nqg.data.sql import sql_text
from nqg.errors import FormatError, NqgError, UnknownName
from nqg.evaluation.denotations import denotation_matches, target_denotation
from nqg.evaluation.metrics import (
    Interval,
    ReliabilityBin,
    Scores,
    expected_calibration_error,
    gain,
    reliability,
)
from nqg.evaluation.spider_match import SpiderReport, SpiderVerdict, spider_match
from nqg.progress import Progress, silent

TRIED = 12  # entities that a program is executed with before it counts as senseless
METRICS = ("exact", "spider", "denotation")


class Judge(Protocol):
    def is_right(self, prediction: str, example: Example) -> bool:
        """Whether `prediction` is as good as the example's own target."""
        ...


class ExactJudge:
    def is_right(self, prediction: str, example: Example) -> bool:
        return exact_match(prediction, example.target)


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
            return spider_match(prediction and as_sql(prediction), as_sql(example.target), self.schemas[database])
        except FormatError as error:
            raise NqgError(f"the reference '{example.target}' cannot be read: {error}") from error

    def is_right(self, prediction: str, example: Example) -> bool:
        return self.verdict(prediction, example).is_match


def as_sql(text: str) -> str:
    """A query in SQL's own spelling; tokens as a grammar writes them are put together.

    >>> as_sql("select t1 . name from t as t1 where x = ' a b '"), as_sql("select t1.name from t as t1 where x = 'a b'")
    ("select t1.name from t as t1 where x = 'a b'", "select t1.name from t as t1 where x = 'a b'")
    """
    try:
        return sql_text(text.split())
    except FormatError:  # a quote that stands alone opens no string in SQL proper: the metric may know what it is
        return text


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
        return any(target_denotation(target, each, self.geography).answers for each in islice(tried, TRIED))

    @cached_property
    def entity_tuples(self) -> list[Sequence[Entity]]:
        """The different entities of examples, those of few kinds in turn."""
        by_kinds: dict[tuple[EntityKind, ...], dict[Sequence[Entity], None]] = {}
        for each in self.entities.values():
            by_kinds.setdefault(tuple(entity.kind for entity in each), {})[tuple(each)] = None
        in_turn = zip_longest(*by_kinds.values())
        return [each for some in in_turn for each in some if each is not None]


@dataclass(frozen=True, slots=True)
class ExecutionJudge:
    """Right is a query that gives the same rows as the reference, in the same order if the reference asks for one.

    Where the reference has no result, it must be the same query.
    """

    database: Database

    def is_right(self, prediction: str, example: Example) -> bool:
        try:
            expected = self.database.run(as_sql(example.target))
        except QueryError:
            return exact_match(prediction, example.target)
        try:
            found = self.database.run(as_sql(prediction))
        except QueryError:
            return False
        return same_result(found, expected, ordered=is_ordered(example.target))


def judge_named(name: str, mirror: Path | None = None, progress: Progress = silent) -> Judge:
    """The judge of a metric; the files that it needs are downloaded, or taken from `mirror`."""
    match name:
        case "exact":
            return ExactJudge()
        case "spider":
            return SpiderJudge(load_spider_schemas(mirror, progress))
        case "denotation":
            return DenotationJudge.read(*map(file_store(mirror, progress).path_of, entry_named("geoquery").files))
    raise UnknownName("metric", name, METRICS)


@dataclass(frozen=True)
class Evaluation:
    """The answers of a system to examples; where all come from both parts of a hybrid, its parts are scored too."""

    judge: Judge
    examples: Sequence[Example]
    answers: Sequence[Answer]

    def __post_init__(self) -> None:
        if len(self.answers) != len(self.examples):
            raise NqgError(f"expected an answer to each of {len(self.examples)} examples, found {len(self.answers)}")

    @cached_property
    def systems(self) -> dict[str, Scores]:
        """The scores of every system that takes part, by its name."""
        if self._parts is None:
            return {" or ".join(dict.fromkeys(each.system for each in self.answers)): Scores.of(self.verdicts)}
        first, second = (part[0].system for part in self._parts)
        columns = (*map(self._verdicts, self._parts), self.verdicts)
        return dict(zip((first, second, f"{first}, else {second}"), map(Scores.of, columns), strict=True))

    @cached_property
    def gain(self) -> Interval | None:
        """How far a hybrid's accuracy is above its fallback's."""
        return gain(self.verdicts, self._verdicts(self._parts[1])) if self._parts else None

    @cached_property
    def verdicts(self) -> list[bool | None]:
        """Whether each answer is right; None for an abstention."""
        return self._verdicts(self.answers)

    def reliability(self, *, adaptive: bool = False) -> list[ReliabilityBin]:
        """The answers that have a confidence, in bins of it; none where the system has no confidence."""
        pairs = zip(self.answers, self.verdicts, strict=True)
        known = [(each.confidence, bool(right)) for each, right in pairs if each.confidence is not None]
        return reliability([level for level, _ in known], [right for _, right in known], adaptive=adaptive)

    @cached_property
    def spider(self) -> SpiderReport | None:
        if not isinstance(self.judge, SpiderJudge):
            return None
        pairs = zip(self.answers, self.examples, strict=True)
        return SpiderReport.of([self.judge.verdict(answer.target, example) for answer, example in pairs])

    def to_dict(self) -> dict[str, Any]:
        return {
            "systems": {name: scores.to_dict() for name, scores in self.systems.items()},
            "gain_95": [self.gain.low, self.gain.high] if self.gain else None,
            **(self._calibration_to_dict() if any(each.confidence is not None for each in self.answers) else {}),
            **(self.spider.to_dict() if self.spider else {}),
        }

    def _calibration_to_dict(self) -> dict[str, Any]:
        bins = self.reliability()
        return {
            "calibration_error": expected_calibration_error(bins),
            "adaptive_calibration_error": expected_calibration_error(self.reliability(adaptive=True)),
            "reliability": [asdict(each) for each in bins],
        }

    def lines(self) -> Iterator[dict[str, Any]]:
        for example, answer, verdict in zip(self.examples, self.answers, self.verdicts, strict=True):
            yield {
                **({} if example.id is None else {"id": example.id}),
                "source": example.source,
                "reference": example.target,
                "prediction": answer.target,
                "right": verdict,
                "by": answer.system,
                "probability": answer.probability,
                "confidence": answer.confidence,
                "reason": answer.reason,
            }

    @cached_property
    def _parts(self) -> tuple[Sequence[Answer], Sequence[Answer]] | None:
        """What the grammar and the fallback said, where both were asked about every example."""
        if not self.answers or any(len(answer.parts) != 2 for answer in self.answers):
            return None
        return [answer.parts[0] for answer in self.answers], [answer.parts[1] for answer in self.answers]

    def _verdicts(self, answers: Sequence[Answer]) -> list[bool | None]:
        pairs = zip(answers, self.examples, strict=True)
        return [None if answer.target is None else self.judge.is_right(answer.target, each) for answer, each in pairs]
