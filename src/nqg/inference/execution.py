"""Programs that are run on a database: what does not run is not an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nqg.answers import Answer, System
from nqg.data.database import Database, QueryError


@dataclass(frozen=True, slots=True)
class Executed:
    """A system whose queries are run: its answers have `rows`, and it abstains where a query has no result."""

    system: System
    database: Database

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        return (executed(answer, self.database) for answer in self.system.answers(sentences))


def executed(answer: Answer, database: Database) -> Answer:
    """The answer with its rows, or an abstention."""
    if answer.target is None:
        return answer
    try:
        return replace(answer, rows=database.run(answer.target))
    except QueryError as error:
        return replace(answer, target=None, probability=None, confidence=None, reading=None, reason=str(error))
