"""Who decides whether a prediction is right, by name: the same tokens, Spider's set match, or the same answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nqg.data.catalogue import entry_named, load_spider_schemas
from nqg.data.download import file_store
from nqg.data.example import Example
from nqg.data.progress import Report, silent
from nqg.data.spider import database_of
from nqg.data.spider_schema import Schema
from nqg.data.sql import sql_text
from nqg.errors import FormatError, NqgError, UnknownName
from nqg.evaluation.metrics import exact_match
from nqg.evaluation.spider_match import Verdict, spider_match

if TYPE_CHECKING:
    from nqg.data.funql import Entity
    from nqg.evaluation.geography import Geography


class Judge(Protocol):
    """Decides about predictions."""

    def is_right(self, prediction: str, example: Example) -> bool:
        """Whether `prediction` is as good as the example's own target."""
        ...


class ExactJudge:
    """Right is what has the same tokens."""

    def is_right(self, prediction: str, example: Example) -> bool:
        """Whether the tokens are the same."""
        return exact_match(prediction, example.target)


@dataclass(frozen=True, slots=True)
class SpiderJudge:
    """Right is what Spider's exact set match takes for right; sources begin with the name of their database."""

    schemas: Mapping[str, Schema]

    def verdict(self, prediction: str | None, example: Example) -> Verdict:
        """What the metric says of a query, written as SQL or as the tokens that a grammar writes."""
        database = database_of(example.source)
        if database not in self.schemas:
            raise UnknownName("database", database, self.schemas)
        predicted = None if prediction is None else as_sql(prediction)
        try:
            return spider_match(predicted, as_sql(example.target), self.schemas[database])
        except FormatError as error:
            raise NqgError(f"the reference '{example.target}' cannot be read: {error}") from error

    def is_right(self, prediction: str, example: Example) -> bool:
        """Whether the queries match."""
        return self.verdict(prediction, example).is_match


@dataclass(frozen=True, slots=True)
class DenotationJudge:
    """Right is what gives the same answers over GeoQuery's facts; placeholders stand for the entities of the corpus.

    An example is found by its id. Without one it is the first in the corpus with its source and target, whose entities
    may be others.
    """

    geography: Geography
    entities: Mapping[object, Sequence[Entity]]

    def is_right(self, prediction: str, example: Example) -> bool:
        """Whether the answers are the same."""
        from nqg.evaluation.denotations import denotation_matches

        pair = (example.source, example.target)
        known = self.entities.get((example.id, *pair), self.entities.get(pair))
        if known is None:
            raise NqgError(f"'{example.source}' with '{example.target}' is no example of GeoQuery; use --metric exact")
        return denotation_matches(prediction, example.target, known, self.geography)


def as_sql(text: str) -> str:
    """A query in SQL's own spelling; tokens as a grammar writes them are put together.

    >>> as_sql("select t1 . name from t as t1 where x = ' a b '"), as_sql("select t1.name from t as t1 where x = 'a b'")
    ("select t1.name from t as t1 where x = 'a b'", "select t1.name from t as t1 where x = 'a b'")
    """
    try:
        return sql_text(text.split())
    except FormatError:  # a quote that stands alone opens no string in SQL proper: the metric may know what it is
        return text


def judge_named(name: str, mirror: Path | None = None, report: Report = silent) -> Judge:
    """The judge of a metric; the files that it needs are downloaded, or taken from `mirror`."""
    if name not in JUDGES:
        raise UnknownName("metric", name, JUDGES)
    return JUDGES[name](mirror, report)


def _exact_judge(mirror: Path | None, report: Report) -> Judge:
    return ExactJudge()


def _spider_judge(mirror: Path | None, report: Report) -> Judge:
    return SpiderJudge(load_spider_schemas(mirror, report))


def _denotation_judge(mirror: Path | None, report: Report) -> Judge:
    from nqg.data.geobase import read_geobase
    from nqg.data.geoquery import load_anonymised
    from nqg.evaluation.geography import Geography

    store = file_store(mirror, report)
    corpus, geobase = (store.path_of(file) for file in entry_named("geoquery").files)
    entities: dict[object, Sequence[Entity]] = {}
    for each in load_anonymised(corpus, geobase):
        pair = (each.example.source, each.example.target)
        entities[each.example.id, *pair] = each.entities
        entities.setdefault(pair, each.entities)
    return DenotationJudge(Geography.of(read_geobase(geobase)), entities)


JUDGES: Mapping[str, Callable[[Path | None, Report], Judge]] = {
    "exact": _exact_judge,
    "spider": _spider_judge,
    "denotation": _denotation_judge,
}
