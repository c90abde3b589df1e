"""The engine of one machine: processes that are started anew, each with a pipe to this one.

Of a pool from the standard library one would not learn which part a killed worker was at.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from nqg.engines import Desk, Job, Part, Result, Shift, Worker, WorkerKilled

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
