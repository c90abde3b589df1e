"""Work in parts: one function over a stream of parts, here, in processes of this machine, or on Ray.

An engine gives the results back in the order of the parts, takes no more parts from the stream than its workers can
begin soon, and hands a part whose worker was killed to a new one. `process_pool.py` and `ray_engine.py` hire the
workers; what they have in common is here.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from nqg.errors import MissingExtra, NqgError, SettingsError

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
        return RayEngine(None if name == "ray" else name, workers, gpus)
    if name != "local":
        raise SettingsError(
            f"no engine '{name}'; expected local, ray, or the address of a Ray cluster, ray://HOST:PORT"
        )
    if workers in (None, 1):
        return Here()

    return ProcessPool(workers)


THREADS = "OMP_NUM_THREADS"


@dataclass(frozen=True, slots=True)
class ProcessPool:
    """Workers in processes of their own, which share the machine's cores."""

    workers: int

    def map(self, job: Job[Part, Result], parts: Iterable[Part]) -> Iterator[Result]:
        """The results of the parts, in their order, as they are asked for."""
        crew = ProcessCrew(self.workers, pickle.dumps(job))
        return Shift[Part, Result](crew, enumerate(parts)).results()


@dataclass(frozen=True, slots=True)
class ProcessCrew:
    """Processes that do one job."""

    size: int
    job: bytes

    def hire(self) -> Worker:
        """A new process; it is not forked off, for threads of torch or Numba would not survive that."""
        start = multiprocessing.get_context("spawn")
        ours, theirs = start.Pipe()
        threads = max((os.cpu_count() or 1) // self.size, 1)
        process = start.Process(target=_serve, args=(theirs, self.job, threads), daemon=True)
        process.start()
        theirs.close()  # so that the pipe ends with the process
        return ProcessWorker(process, ours)

    def ready(self, busy: Sequence[Worker]) -> list[Worker]:
        """Those with a reply, or killed; waits until there is one."""
        by_pipe = {worker.pipe: worker for worker in busy if isinstance(worker, ProcessWorker)}
        return [by_pipe[pipe] for pipe in wait(list(by_pipe)) if isinstance(pipe, Connection)]


@dataclass(frozen=True, slots=True, eq=False)
class ProcessWorker:
    """A process, and our end of the pipe to it."""

    process: BaseProcess
    pipe: Connection

    def begin(self, part: Any) -> None:
        """Send a part."""
        try:
            self.pipe.send(part)
        except OSError:
            raise self._killed() from None

    def reply(self) -> bytes:
        """What came back."""
        try:
            return self.pipe.recv_bytes()
        except (EOFError, OSError):
            raise self._killed() from None

    def stop(self) -> None:
        """End the process, whatever it is at."""
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def _killed(self) -> WorkerKilled:
        self.process.join()
        code = self.process.exitcode or 0
        return WorkerKilled(f"by signal {-code}" if code < 0 else f"it ended with exit code {code}")


def _serve(pipe: Connection, job: bytes, threads: int) -> None:
    """The life of a worker; Ctrl-C, which the terminal sends to all processes, is for the first one to act on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault(THREADS, str(threads))  # before the job loads torch
    desk = Desk(job)
    with suppress(EOFError, OSError):  # whoever had work for us is no more
        while True:
            pipe.send_bytes(desk.reply(pipe.recv()))


OBJECT_STORE = 100 * 2**20  # bytes of shared memory for parts and results on their way, of a Ray that is started here


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Workers on Ray, each with a CPU and `gpus` GPUs; without `workers`, as many as there is room for.

    A Ray that the program has started already is used as it is.
    """

    address: str | None = None  # none: that in RAY_ADDRESS or, if there is none, a Ray of our own
    workers: int | None = None
    gpus: int = 0

    def map(self, job: Job[Part, Result], parts: Iterable[Part]) -> Iterator[Result]:
        """The results of the parts, in their order, as they are asked for."""
        with _connected(self.address, self.workers) as ray:
            crew = RayCrew(ray, self._size(ray.cluster_resources()), self.gpus, pickle.dumps(job))
            yield from Shift[Part, Result](crew, enumerate(parts)).results()

    def _size(self, resources: dict[str, float]) -> int:
        """How many workers there are to be; more than there is room for would wait for ever."""
        room = int(resources.get("CPU", 0))
        if self.gpus:
            room = min(room, int(resources.get("GPU", 0)) // self.gpus)
        wanted = room if self.workers is None else self.workers
        if not 1 <= wanted <= room:
            needs = f"{self.gpus} GPU and a CPU" if self.gpus else "a CPU"
            raise SettingsError(f"Ray has room for {room} workers with {needs} each; {wanted or 'some'} were asked for")
        return wanted


@contextmanager
def _connected(address: str | None, workers: int | None) -> Iterator[Any]:
    """Ray, connected; when we have done that ourselves, we leave it afterwards."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would send figures home
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("working on Ray", "ray") from error
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, address or os.environ.get("RAY_ADDRESS") or None, workers)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    own = {"num_cpus": max(workers or 1, os.cpu_count() or 1), "object_store_memory": OBJECT_STORE}
    options = {"address": address} if address else own | {"include_dashboard": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own, of no use to our users
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = f"the Ray cluster at {address} cannot be reached" if address else "Ray cannot be started here"
            raise NqgError(f"{where}: {error}") from error


@dataclass(frozen=True, slots=True)
class RayCrew:
    """Actors that do one job."""

    ray: Any
    size: int
    gpus: int
    job: bytes

    def hire(self) -> Worker:
        """A new actor; Ray finds a place for it."""
        actor = self.ray.remote(num_cpus=1, num_gpus=self.gpus)(Desk)
        return RayWorker(self.ray, actor.remote(self.job))

    def ready(self, busy: Sequence[Worker]) -> list[Worker]:
        """Those with a reply, or killed; waits until there is one."""
        by_reply = {worker.promise: worker for worker in busy if isinstance(worker, RayWorker)}
        found, _ = self.ray.wait(list(by_reply), num_returns=1)
        return [by_reply[promise] for promise in found]


@dataclass(slots=True, eq=False)
class RayWorker:
    """An actor, and its reply in the making."""

    ray: Any
    actor: Any
    promise: Any = None

    def begin(self, part: Any) -> None:
        """Send a part."""
        self.promise = self.actor.reply.remote(part)

    def reply(self) -> bytes:
        """What came back."""
        try:
            reply: bytes = self.ray.get(self.promise)
        except self.ray.exceptions.RayError as error:
            raise WorkerKilled(type(error).__name__) from error
        return reply

    def stop(self) -> None:
        """End the actor, whatever it is at."""
        self.ray.kill(self.actor)
