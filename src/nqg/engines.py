"""Work in parts: one function over a stream of parts, here, in processes of this machine, or on Ray.

An engine gives the results back in the order of the parts, takes no more parts from the stream than its workers can
begin soon, and begins a part again whose worker was killed. Processes that work for long keep their memory in order.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import pickle
import signal
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count, islice
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, Generic, Protocol, TypeVar

from nqg.errors import MissingExtra, NqgError, SettingsError

Part = TypeVar("Part")
Result = TypeVar("Result")
Item = TypeVar("Item")
Job = Callable[[], Callable[[Part], Result]]
"""Called once in every worker: it loads what the work needs, and returns the work."""
ATTEMPTS = 3  # at a part, before the work is given up
AHEAD = 2  # parts a worker that are begun or done before the first of them is asked for


class Engine(Protocol):
    def map(self, job: Job[Part, Result], parts: Iterable[Part]) -> Iterator[Result]:
        """The results of the parts, in their order, as they are asked for."""


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
        expected = "local, ray, or the address of a Ray cluster, ray://HOST:PORT"
        raise SettingsError(f"no engine '{name}'; expected {expected}")
    return Here() if workers in (None, 1) else ProcessPool(workers)


def in_parts(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """A stream cut into lists of `size` items; the last may be shorter.

    >>> list(in_parts("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    stream = iter(items)
    while part := list(islice(stream, size)):
        yield part


@dataclass(frozen=True, slots=True)
class Here:
    """No workers: everything is done in this process.

    >>> list(Here().map(lambda: len, ["jump", "turn left"]))
    [4, 9]
    """

    def map(self, job: Job[Part, Result], parts: Iterable[Part]) -> Iterator[Result]:
        return map(job(), parts)


class Worker:
    """What runs in a process of its own: a job, loaded when the first part comes."""

    def __init__(self, job: bytes) -> None:
        self._job = job
        self._work: Callable[[Any], Any] | None = None

    def reply(self, part: Any) -> bytes:
        """The pickled outcome of a part; a failure is text, as not every exception survives pickling."""
        try:
            if self._work is None:
                self._work = pickle.loads(self._job)()
            return pickle.dumps(("done", self._work(part)))
        except NqgError as error:
            return pickle.dumps(("refused", str(error)))
        except Exception:
            return pickle.dumps(("failed", traceback.format_exc()))


def _result(reply: bytes, number: int) -> Any:
    outcome, value = pickle.loads(reply)
    if outcome == "done":
        return value
    raise NqgError(value if outcome == "refused" else f"part {number} failed in its worker:\n{value}")


def _given_up(number: int, error: Exception) -> NqgError:
    return NqgError(
        f"part {number} was begun {ATTEMPTS} times, and every time its worker was killed ({type(error).__name__}); "
        "where memory ran out, use fewer workers"
    )


@dataclass(slots=True)
class Attempt(Generic[Part]):
    """A part of the stream, its number, and how often its worker was killed."""

    number: int
    part: Part
    failures: int = 0
    reply: Future[bytes] | None = None  # none: it is not with a worker


@dataclass(frozen=True, slots=True)
class ProcessPool:
    workers: int

    def map(self, job: Job[Part, Result], parts: Iterable[Part]) -> Iterator[Result]:
        stream = (Attempt(number, part) for number, part in enumerate(parts, start=1))
        tasks: deque[Attempt[Part]] = deque()
        while True:
            with self._started(pickle.dumps(job)) as pool, suppress(BrokenProcessPool):
                yield from self._results(pool, stream, tasks)
                return
            for task in tasks:
                if task.reply is not None and task.reply.exception() is not None:
                    task.reply, task.failures = None, task.failures + 1
            if tasks[0].failures == ATTEMPTS:
                raise _given_up(tasks[0].number, BrokenProcessPool())

    def _results(
        self, pool: ProcessPoolExecutor, stream: Iterator[Attempt[Part]], tasks: deque[Attempt[Part]]
    ) -> Iterator[Any]:
        while True:
            tasks.extend(islice(stream, AHEAD * self.workers - len(tasks)))
            if not tasks:
                return
            # Whose worker was killed runs alone: it may need the memory, and no other part is blamed for it.
            for task in [tasks[0]] if any(task.failures for task in tasks) else tasks:
                if task.reply is None:
                    task.reply = pool.submit(_reply, task.part)
            assert tasks[0].reply is not None
            finished = tasks[0].reply.result()  # a task whose worker was killed stays in the queue
            yield _result(finished, tasks.popleft().number)

    @contextmanager
    def _started(self, job: bytes) -> Iterator[ProcessPoolExecutor]:
        start = multiprocessing.get_context("spawn")  # threads of torch and Numba would not survive a fork
        theirs, ours = start.Pipe(duplex=False)
        threads = max((os.cpu_count() or 1) // self.workers, 1)
        pool = ProcessPoolExecutor(self.workers, start, _begin, (job, threads, theirs))
        try:
            yield pool
        finally:
            ours.close()  # which ends the workers, whatever they are at
            pool.shutdown()
            theirs.close()


_worker: Worker


def _begin(job: bytes, threads: int, lifeline: Connection) -> None:
    """Make this process a worker; it ends with the other end of `lifeline`, even if the first process was killed."""

    def end() -> None:
        lifeline.poll(None)
        os._exit(1)

    global _worker
    _worker = Worker(job)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends Ctrl-C to all; the first process acts on it
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # before the job loads torch
    Thread(target=end, daemon=True).start()


def _reply(part: Any) -> bytes:
    return _worker.reply(part)


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
        with self._connected() as ray:
            size = self._size(ray.cluster_resources())
            start = ray.remote(num_cpus=1, num_gpus=self.gpus, max_restarts=-1, max_task_retries=ATTEMPTS - 1)(Worker)
            actors = [start.remote(pickle.dumps(job)) for _ in range(size)]
            pool, stream = ray.util.ActorPool(actors), iter(parts)
            try:
                for number in count(1):
                    for part in islice(stream, AHEAD * size if number == 1 else 1):
                        pool.submit(lambda actor, part: actor.reply.remote(part), part)
                    if not pool.has_next():
                        return
                    yield _result(pool.get_next(), number)
            except ray.exceptions.RayError as error:
                raise _given_up(number, error) from error
            finally:
                for actor in actors:
                    ray.kill(actor)

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
    def _connected(self) -> Iterator[Any]:
        """Ray, connected; a connection that we made ourselves is closed afterwards."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would send figures home
        try:
            import ray
            import ray.util
        except ImportError as error:
            raise MissingExtra("working on Ray", "ray") from error
        if ray.is_initialized():
            yield ray
            return
        address = self.address or os.environ.get("RAY_ADDRESS") or None
        own = {"num_cpus": max(self.workers or 1, os.cpu_count() or 1), "object_store_memory": OBJECT_STORE}
        options = {"address": address} if address else own | {"include_dashboard": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's own, of no use to our users
            try:
                ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
            except (ConnectionError, RuntimeError, ValueError) as error:
                where = f"the Ray cluster at {address} cannot be reached" if address else "Ray cannot be started here"
                raise NqgError(f"{where}: {error}") from error
        try:
            yield ray
        finally:
            ray.shutdown()


M_MMAP_THRESHOLD = -3  # of <malloc.h>
LARGE = 2 * 2**20  # bytes


def keep_large_blocks_apart() -> None:
    """Let glibc map every large block on its own; other systems are left as they are.

    By itself it moves the limit up to 32 MB when blocks are freed, and batches of ever other sizes then leave holes in
    the heap: after 100,000 sentences a parser had taken twice the memory that it needed.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(M_MMAP_THRESHOLD, LARGE)


def release_holes() -> None:
    """Give holes in glibc's heap back to the operating system; other systems are left as they are."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
