"""One function over a stream of chunks: in this process, in several of this machine, or on Ray.

Whoever does the work, results come in the order of the chunks and are the same.
"""

from __future__ import annotations

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
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, TypeVar

from nqg.errors import MissingExtra, NqgError, SettingsError

Item = TypeVar("Item")
Chunk = TypeVar("Chunk")
Result = TypeVar("Result")
Prepare = Callable[[], Callable[[Chunk], Result]]
"""Called once in every worker: it loads what the work needs, and returns the work."""
# How many chunks each worker has before the first result is asked for.
CHUNKS_AHEAD = 2
KILLED = "a worker was killed; where memory ran out, use fewer workers"


def in_chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` items of a stream; the last may be shorter.

    >>> list(in_chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    stream = iter(items)
    chunk = list(islice(stream, size))
    while chunk:
        yield chunk
        chunk = list(islice(stream, size))


@dataclass(frozen=True, slots=True)
class Engine:
    """Where work is done: `local`, on `ray` (started here, or at RAY_ADDRESS) or `ray://HOST:PORT`.

    Without `workers` there are none locally, and on Ray as many as it has room for. Each of Ray's
    gets `gpus` GPUs.

    >>> list(Engine().map(lambda: len, ["jump", "turn left"]))
    [4, 9]
    """

    name: str = "local"
    workers: int | None = None
    gpus: int = 0

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise SettingsError(f"workers is {self.workers}; expected 1 or more")
        if self.name not in ("local", "ray") and not self.name.startswith("ray://"):
            expected = "local, ray, or the address of a Ray cluster, ray://HOST:PORT"
            raise SettingsError(f"no engine '{self.name}'; expected {expected}")

    @property
    def is_serial(self) -> bool:
        """Whether everything is done in this process."""
        return self.name == "local" and self.workers in (None, 1)

    def map(
        self, prepare: Prepare[Chunk, Result], chunks: Iterable[Chunk]
    ) -> Iterator[Result]:
        """The results of the chunks, in their order, as they are asked for."""
        if self.is_serial:
            return map(prepare(), chunks)
        pickled = pickle.dumps(prepare)
        if self.name == "local":
            return _map_in_processes(partial(_work, pickled), chunks, self.workers or 1)
        return _map_on_ray(pickled, chunks, self)


_prepared = cache(lambda prepare: pickle.loads(prepare)())


def _work(prepare: bytes, chunk: Any) -> Any:
    """The result of a chunk; an error is one, too, as not every exception survives pickling."""
    try:
        return _prepared(prepare)(chunk)
    except NqgError as error:
        return NqgError(str(error))
    except Exception:
        return NqgError(f"a worker failed:\n{traceback.format_exc()}")


def _in_order(
    chunks: Iterable[Any],
    ahead: int,
    submit: Callable[[Any], object],
    take: Callable[[], Any],
) -> Iterator[Any]:
    """Submit chunks and take their results, while at most `ahead` are with the workers."""
    stream = iter(chunks)
    waiting = 0
    while True:
        # Keep the workers busy, then wait for the earliest chunk.
        for chunk in islice(stream, ahead - waiting):
            submit(chunk)
            waiting += 1
        if not waiting:
            return
        result = take()
        waiting -= 1
        if isinstance(result, NqgError):
            raise result
        yield result


def _map_in_processes(
    work: Callable[[Any], Any], chunks: Iterable[Any], workers: int
) -> Iterator[Any]:
    # Threads of torch and Numba would not survive a fork.
    spawn = multiprocessing.get_context("spawn")
    theirs, ours = spawn.Pipe(duplex=False)
    threads = max((os.cpu_count() or 1) // workers, 1)
    pool = ProcessPoolExecutor(workers, spawn, _start_worker, (theirs, threads))
    futures: deque[Future[Any]] = deque()

    def submit(chunk: Any) -> None:
        futures.append(pool.submit(work, chunk))

    try:
        yield from _in_order(
            chunks, CHUNKS_AHEAD * workers, submit, lambda: futures.popleft().result()
        )
    except BrokenProcessPool as error:
        raise NqgError(KILLED) from error
    finally:
        # This ends the workers, whatever they are doing.
        ours.close()
        pool.shutdown(cancel_futures=True)
        theirs.close()


def _start_worker(lifeline: Connection, threads: int) -> None:
    """Prepare a worker, which ends when the other end of `lifeline` is closed."""

    def end_with_parent() -> None:
        lifeline.poll(None)
        os._exit(1)

    # The terminal sends Ctrl-C to all processes; the first one acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Torch, which is not imported yet, reads this.
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    Thread(target=end_with_parent, daemon=True).start()


class _Actor:
    def work(self, prepare: bytes, chunk: Any) -> Any:
        return _work(prepare, chunk)


def _map_on_ray(prepare: bytes, chunks: Iterable[Any], engine: Engine) -> Iterator[Any]:
    # `ray.util.multiprocessing.Pool` keeps every result until its end; an ActorPool forgets those
    # that were taken.
    with _ray(engine) as ray:
        resources = ray.cluster_resources()
        room = int(resources.get("CPU", 0))
        if engine.gpus:
            room = int(resources.get("GPU", 0)) // engine.gpus
        workers = engine.workers or room
        # More workers than there is room for would wait for ever.
        if not 1 <= workers <= room:
            raise SettingsError(
                f"Ray has room for {room} workers; {engine.workers or 'some'} were asked for"
            )
        # A worker that was killed is replaced, and its chunk begun again, twice at most.
        remote = ray.remote(
            num_cpus=1, num_gpus=engine.gpus, max_restarts=-1, max_task_retries=2
        )(_Actor)
        pool = ray.util.ActorPool([remote.remote() for _ in range(workers)])

        def submit(chunk: Any) -> None:
            pool.submit(lambda actor, value: actor.work.remote(prepare, value), chunk)

        try:
            yield from _in_order(chunks, CHUNKS_AHEAD * workers, submit, pool.get_next)
        except ray.exceptions.RayError as error:
            raise NqgError(f"{KILLED} ({type(error).__name__})") from error


@contextmanager
def _ray(engine: Engine) -> Iterator[Any]:
    """Ray, connected; one that the program has started already is used as it is."""
    # Ray would send figures home.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.util
    except ImportError as error:
        raise MissingExtra("working on Ray", "ray") from error
    if ray.is_initialized():
        yield ray
        return
    address, cpus = engine.name, None
    if address == "ray":
        address = os.environ.get("RAY_ADDRESS", "")
    if not address:
        cpus = max(engine.workers or 1, os.cpu_count() or 1)
    # Ray's own warnings are of no use to our users.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ray.init(
                address or None,
                num_cpus=cpus,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise NqgError(
                f"Ray cannot be reached at {address or 'this machine'}: {error}"
            ) from error
    try:
        yield ray
    finally:
        ray.shutdown()
