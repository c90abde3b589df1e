"""The engine of many machines: Ray actors, on a Ray that is started here or on a running cluster."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nqg.engines import Desk, Job, Part, Result, Shift, Worker, WorkerKilled
from nqg.errors import MissingExtra, NqgError, SettingsError

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
