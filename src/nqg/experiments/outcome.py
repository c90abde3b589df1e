"""What a system made of a task: its replies, and what making them took; and the replies as files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nqg.data.strict_json import strict_json
from nqg.errors import FormatError, Place
from nqg.evaluation.evaluation import Reply
from nqg.experiments.task import Task
from nqg.files import numbered_lines, write_text

BEST_LEGAL = "best_legal"  # where the paper's NQG abstains because its best derivation is illegal, this one looks on


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: which part of it, and how much of that part."""

    part: str
    done: int
    total: int
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where a run keeps what it has not finished, the device that it uses, and whom it tells how far it is."""

    folder: Path
    device: str | None = None
    tell: Callable[[Progress], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The replies to a task's test sentences, and facts of the run."""

    replies: tuple[Reply, ...]
    figures: Mapping[str, float]
    settings: Mapping[str, Any]
    seconds: Mapping[str, float]
    others: Mapping[str, tuple[Reply, ...]] = field(default_factory=dict)  # of other ways to answer, by their names


@dataclass(slots=True)
class Stopwatch:
    """Seconds by the name of what took them."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Add the time that a block takes."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - begun, 3)


def write_replies(path: Path, task: Task, replies: Iterable[Reply]) -> None:
    """Write replies as lines of JSON, each with its sentence and the right program."""
    pairs = zip(task.test, replies, strict=True)
    lines = ({"source": each.source, "reference": each.target, **asdict(reply)} for each, reply in pairs)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def read_replies(path: Path, task: Task) -> tuple[Reply, ...]:
    """The replies in a file to the test sentences of a task; those to others are refused."""
    lines = [(place, strict_json(line, place)) for place, line in numbered_lines(path)]
    if len(lines) != len(task.test):
        raise FormatError(f"expected {len(task.test)} replies, found {len(lines)}", path)
    replies = []
    for (place, line), example in zip(lines, task.test, strict=True):
        if not isinstance(line, dict) or line.get("source") != example.source:
            raise FormatError(f"expected a reply to '{example.source}'", place)
        replies.append(_reply(line, place))
    return tuple(replies)


def _reply(line: dict[str, Any], place: Place) -> Reply:
    try:
        return Reply(**{name: value for name, value in line.items() if name not in ("source", "reference")})
    except TypeError as error:
        raise FormatError(f"expected a reply with its parts ({error})", place) from error
