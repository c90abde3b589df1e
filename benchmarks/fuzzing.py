"""Bad input by the hundred thousand: damaged files for one reader or all, guided by coverage where atheris is there.

    python benchmarks/fuzzing.py --reader tsv --cases 100000
    python benchmarks/fuzzing.py --list

It goes on from the stored corpus (`tests/fuzz/corpus.json`), to which `--keep` adds cases refused in other words.

A case passes if the reader gives a value or raises an `NqgError`, within the time and the memory that it may take. The
first case that does not is written to `failing-READER.case`, and the exit code is not 0. With the extra `fuzz`
(atheris) every second case is one that libFuzzer made; without it all are random.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType

PROJECT = Path(__file__).resolve().parent.parent
SOURCE = PROJECT / "src"
sys.path.insert(0, str(PROJECT / "tests"))
os.environ["RUST_BACKTRACE"] = "0"  # tokenizers that panic are nothing special here


def compiled_modules() -> list[str]:
    """Modules with functions that Numba compiles, which must stay as they are."""
    marks = ("kernel", "vectorised", "numba")
    files = [
        path
        for path in SOURCE.rglob("*.py")
        if any(mark in path.read_text() for mark in marks)
    ]
    return [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in files]


try:
    import atheris
except ImportError:
    HAS_ATHERIS = False
else:
    HAS_ATHERIS = True


def counted() -> AbstractContextManager[object]:
    """The branches of what is imported within guide libFuzzer."""
    if not HAS_ATHERIS:
        return nullcontext()
    found: AbstractContextManager[object] = atheris.instrument_imports(
        include=["nqg"], exclude=compiled_modules(), enable_loader_override=False
    )
    return found


with counted():
    from fuzz import corpus
    from fuzz.http_readers import HTTP_READERS
    from fuzz.model_readers import MODEL_READERS
    from fuzz.mutations import damaged
    from fuzz.readers import READERS, Reader
    from fuzz.tool_readers import TOOL_READERS
    from nqg.errors import NqgError

ALL = {**READERS, **TOOL_READERS, **MODEL_READERS, **HTTP_READERS}
SECONDS = 10.0  # that a case may take
COUNTS = "counts.json"
MEMORY = 4 << 30  # that a reader may take, beyond what was taken at the beginning


class Hang(BaseException):
    """A case that took too long; not an Exception, lest a reader catch it."""


@dataclass
class Run:
    """The cases that one reader was given so far, and what came of them."""

    name: str
    reader: Reader
    folder: Path
    rng: random.Random
    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, bytes] = field(
        default_factory=dict
    )  # of refusals, each with the smallest case
    slowest: float = 0.0
    cpu: float = 0.0  # seconds of this process before the first case

    @cached_property
    def stored(self) -> tuple[bytes, ...]:
        return corpus.stored(self.name)

    def begin(self) -> None:
        """Lay out the files, and have the seeds read, so that whatever a case needs is imported."""
        self.reader.around(self.folder)
        for seed in self.reader.seeds():
            self.reader(seed, self.folder)
        gc.freeze()  # or the thousands of objects of PyTorch are looked through for garbage again and again

    def try_case(self, case: bytes) -> None:
        """Give the reader a case; anything but a value or an NqgError is raised, with the case on disk."""
        begun = time.perf_counter()
        try:
            with _time_limit():
                self.reader(case, self.folder)
            self.outcomes["read"] += 1
        except NqgError as error:
            str(error).encode(errors="strict")
            self.outcomes["refused"] += 1
            refusal = corpus.kind(str(error))
            self.kinds[refusal] = min(case, self.kinds.get(refusal, case), key=len)
        except BaseException:
            Path(
                f"failing-{self.name.replace(' ', '-').replace('/', '-')}.case"
            ).write_bytes(case)
            raise
        self.slowest = max(self.slowest, time.perf_counter() - begun)

    def random_case(self) -> bytes:
        """A valid file, damaged."""
        seeds = (*self.reader.seeds(), *self.stored)
        return damaged(self.rng.choice(seeds), self.rng.choice(seeds), self.rng)

    @property
    def made(self) -> int:
        """How many cases there were."""
        return self.outcomes.total()

    def __str__(self) -> str:
        counts = ", ".join(
            f"{count:,} {what}" for what, count in sorted(self.outcomes.items())
        )
        cost = 1000 * (time.process_time() - self.cpu) / max(self.made, 1)
        return f"{self.name}: {self.made:,} cases, {counts}, slowest {self.slowest:.3f} s, {cost:.2f} ms of CPU a case"

    def finish(self, how: str = "") -> None:
        print(f"{how} {self}".strip(), flush=True)
        counts = {
            **self.outcomes,
            "slowest": self.slowest,
            "cpu": time.process_time() - self.cpu,
        }
        (self.folder / COUNTS).write_text(json.dumps(counts))


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang(f"a case took more than {SECONDS:g} seconds")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def run_random(run: Run, cases: int, until: float, kept: int = 0) -> None:
    while run.made < cases and time.monotonic() < until:
        run.try_case(run.random_case())
    if kept:
        corpus.keep(run.name, run.kinds, kept)
    run.finish()


def run_guided(run: Run, cases: int, until: float) -> None:
    """Every second case is libFuzzer's. It never returns: the process ends with the last case."""

    def both(case: bytes) -> None:
        run.try_case(case)
        run.try_case(run.random_case())
        if run.made >= cases or time.monotonic() > until:
            run.finish()
            os._exit(0)  # libFuzzer has no other end that counts as success

    seeds = run.folder / "corpus"
    seeds.mkdir()
    for number, seed in enumerate((*run.reader.seeds(), *run.stored)):
        (seeds / str(number)).write_bytes(seed)
    options = [
        "-max_len=65536",
        "-rss_limit_mb=0",
        "-verbosity=0",
        f"-seed={run.rng.randrange(1, 2**31)}",
    ]
    atheris.Setup([sys.argv[0], *options, str(seeds)], both)
    atheris.Fuzz()


def run_apart(name: str, folder: Path, asked: argparse.Namespace) -> int:
    """Start a process for a reader: libFuzzer ends it, and a limit on memory cannot be taken back."""
    if child := os.fork():
        return child
    run = Run(name, ALL[name], folder, random.Random(f"{name} {asked.seed}"))
    with counted():
        run.begin()
    _limit_memory()
    run.cpu, until = time.process_time(), time.monotonic() + asked.seconds
    try:
        if asked.plain:
            run_random(run, asked.cases, until, asked.keep)
        else:
            run_guided(run, asked.cases, until)
    except BaseException:
        traceback.print_exc()
        run.finish("FAILED")
        os._exit(1)
    os._exit(0)


def run_all(names: list[str], asked: argparse.Namespace) -> dict[str, dict[str, float]]:
    """What came of each reader, `asked.processes` of them at a time."""
    counts: dict[str, dict[str, float]] = {}
    running: dict[int, tuple[str, Path]] = {}
    left = names[::-1]
    while left or running:
        while left and len(running) < asked.processes:
            folder = Path(
                tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
            )
            name = left.pop()
            running[run_apart(name, folder, asked)] = (name, folder)
        child, status = os.wait()
        name, folder = running.pop(child)
        file = folder / COUNTS
        counts[name] = json.loads(file.read_text()) if file.exists() else {}
        counts[name]["exit code"] = abs(os.waitstatus_to_exitcode(status))
        shutil.rmtree(folder)
        if asked.counts:
            asked.counts.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")
    return counts


def _limit_memory() -> None:
    """Let no reader take more than MEMORY beyond what the process has mapped by now."""
    mapped = (
        int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    )
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, resource.RLIM_INFINITY))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--reader",
        choices=sorted(ALL),
        action="append",
        help="default: all, one after the other",
    )
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument(
        "--seconds",
        type=float,
        default=float("inf"),
        help="that a reader may take, then it is stopped",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="readers that run at a time",
    )
    parser.add_argument(
        "--counts",
        type=Path,
        metavar="FILE",
        help="write what came of each reader as JSON",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--plain", action="store_true", help="at random, without atheris"
    )
    parser.add_argument(
        "--keep",
        type=int,
        default=0,
        metavar="N",
        help="with --plain: store up to N refused cases",
    )
    parser.add_argument("--list", action="store_true", help="name the readers and stop")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(sorted(ALL)))
        return 0
    if not asked.plain and not HAS_ATHERIS:
        print("atheris is not installed: all cases are random", file=sys.stderr)
        asked.plain = True
    return int(
        max(
            each["exit code"]
            for each in run_all(asked.reader or sorted(ALL), asked).values()
        )
    )


if __name__ == "__main__":
    sys.exit(main())
