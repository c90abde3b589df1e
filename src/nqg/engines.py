"""Work in parts: one function over a stream of parts, here, in processes of this machine, or on Ray.

An engine gives the results back in the order of the parts, takes no more parts from the stream than its workers can
begin soon, and hands a part whose worker was killed to a new one. `process_pool.py` and `ray_engine.py` hire the
workers; what they have in common is here.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from nqg.errors import NqgError, SettingsError

Part = TypeVar("Part")
Result = TypeVar("Result")
Item = TypeVar("Item")
Job = Callable[[], Callable[[Part], Result]]
"""Called once in every worker: it loads what the work needs, and returns the work."""

ATTEMPTS = 3  # at a part, before the work is given up
AHEAD = 2  # parts a worker that are begun or done before the first of them is asked for


class Engine(Protocol):
    """Whoever can do a job part by part."""

    def map(self, job: Job[Part, Result], parts: Iterable[Part]) -> Iterator[Result]:
        """The results of the parts, in their order, as they are asked for."""
        ...


@dataclass(frozen=True, slots=True)
class Here:
    """No workers: everything is done in this process.

    >>> list(Here().map(lambda: len, ["jump", "turn left"]))
    [4, 9]
    """

    def map(self, job: Job[Part, Result], parts: Iterable[Part]) -> Iterator[Result]:
        """The results of the parts, in their order, as they are asked for."""
        return map(job(), parts)


def in_parts(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """A stream cut into lists of `size` items; the last may be shorter.

    >>> list(in_parts("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    stream = iter(items)
    while part := list(islice(stream, size)):
        yield part


class WorkerKilled(NqgError):
    """A worker that is no more; the message says how it ended."""


class Worker(Protocol):
    """Who does one part at a time."""

    def begin(self, part: Any) -> None:
        """Take a part; WorkerKilled if the worker is no more."""
        ...

    def reply(self) -> bytes:
        """What `Desk.reply` made of the part; WorkerKilled if the worker is no more."""
        ...

    def stop(self) -> None:
        """Go, in the middle of a part if need be."""
        ...


class Crew(Protocol):
    """Where workers come from, and how to wait for them."""

    @property
    def size(self) -> int:
        """How many workers there are to be."""
        ...

    def hire(self) -> Worker:
        """A new worker."""
        ...

    def ready(self, busy: Sequence[Worker]) -> list[Worker]:
        """Those with a reply, or killed; waits until there is one."""
        ...


class Reply(NamedTuple):
    """What a worker says of a part: its result, or why there is none."""

    result: Any = None
    failure: str = ""
    is_expected: bool = False  # the failure is one that nqg raises on purpose


class Desk:
    """What a worker works at, in whatever process it is: the job, loaded when the first part comes."""

    def __init__(self, job: bytes) -> None:
        self._job = job
        self._work: Callable[[Any], Any] | None = None

    def reply(self, part: Any) -> bytes:
        """The pickled Reply to a part; no failure leaves the worker as an exception, as many cannot be pickled."""
        try:
            if self._work is None:
                self._work = pickle.loads(self._job)()
            return pickle.dumps(Reply(self._work(part)))
        except NqgError as error:
            return pickle.dumps(Reply(failure=str(error), is_expected=True))
        except Exception:
            return pickle.dumps(Reply(failure=traceback.format_exc()))


@dataclass(frozen=True, slots=True)
class Attempt(Generic[Part]):
    """A part that is with a worker, its number in the stream, and how often it was begun."""

    number: int
    part: Part
    count: int = 1


@dataclass(slots=True)
class Shift(Generic[Part, Result]):
    """A crew at work on a stream of parts."""

    crew: Crew
    parts: Iterator[tuple[int, Part]]
    idle: list[Worker] = field(default_factory=list)
    busy: dict[Worker, Attempt[Part]] = field(default_factory=dict)
    done: dict[int, Reply] = field(default_factory=dict)
    given: int = 0  # parts taken from the stream
    returned: int = 0  # results handed on

    def results(self) -> Iterator[Result]:
        """The results in the order of the parts; when nobody asks for more, the crew goes."""
        try:
            self._give_out()
            while self.returned < self.given:
                while self.returned not in self.done:
                    self._receive()
                    self._give_out()
                yield _result(self.done.pop(self.returned), self.returned)
                self.returned += 1
                self._give_out()
        finally:
            for worker in (*self.idle, *self.busy):
                worker.stop()

    def _give_out(self) -> None:
        """Let idle workers begin the next parts, unless too many results wait for an earlier one."""
        while len(self.busy) < self.crew.size and self.given - self.returned < AHEAD * self.crew.size:
            following = next(self.parts, None)
            if following is None:
                return
            self.given += 1
            self._begin(Attempt(*following))

    def _begin(self, attempt: Attempt[Part]) -> None:
        worker = self.idle.pop() if self.idle else self.crew.hire()
        self.busy[worker] = attempt
        try:
            worker.begin(attempt.part)
        except WorkerKilled as error:
            self._begin_again(worker, error)

    def _receive(self) -> None:
        """Wait for a worker, and take what it says."""
        for worker in self.crew.ready(list(self.busy)):
            try:
                reply: Reply = pickle.loads(worker.reply())
            except WorkerKilled as error:
                self._begin_again(worker, error)
                continue
            self.done[self.busy.pop(worker).number] = reply
            self.idle.append(worker)

    def _begin_again(self, killed: Worker, error: WorkerKilled) -> None:
        attempt = self.busy.pop(killed)
        killed.stop()
        if attempt.count < ATTEMPTS:
            self._begin(Attempt(attempt.number, attempt.part, attempt.count + 1))
        else:
            failure = (
                f"part {attempt.number + 1} was begun {ATTEMPTS} times, and every time its worker was killed "
                f"({error}); where memory ran out, take fewer workers"
            )
            self.done[attempt.number] = Reply(failure=failure, is_expected=True)


def _result(reply: Reply, number: int) -> Any:
    if reply.is_expected:
        raise NqgError(reply.failure)
    if reply.failure:
        raise NqgError(f"part {number + 1} failed in its worker:\n{reply.failure}")
    return reply.result


def engine_named(name: str, *, workers: int | None = None, gpus: int = 0) -> Engine:
    """The engine `local`, `ray` (started here, or found by RAY_ADDRESS) or a cluster's address, `ray://…`.

    Without `workers` there are none locally, and on Ray as many as it has room for. Each of Ray's gets `gpus` GPUs.

    >>> engine_named("local")
    Here()
    """
    if workers is not None and workers < 1:
        raise SettingsError(f"workers is {workers}; expected 1 or more")
    if name == "ray" or name.startswith("ray://"):
        from nqg.ray_engine import RayEngine

        return RayEngine(None if name == "ray" else name, workers, gpus)
    if name != "local":
        raise SettingsError(
            f"no engine '{name}'; expected local, ray, or the address of a Ray cluster, ray://HOST:PORT"
        )
    if workers in (None, 1):
        return Here()
    from nqg.process_pool import ProcessPool

    return ProcessPool(workers)
