"""A soak of `nqg serve --workers 2`: hours of requests while the model is replaced and workers are killed.

    python benchmarks/soak.py --clients 200 --minutes 120

Every client asks single sentences and batches on a connection of its own, thinks in between, and hangs up on some. Two
models say different programs for the same sentences; now one, now the other is in the folder that is served, and SIGHUP
has it loaded. An answer is *wrong* if neither model says it of the sentence asked, *mixed* if a batch has rows of both
models, *stale* if it is of a model that was replaced long before, and *lost* if asking again does not bring it: a
client whose connection is closed, or who is told to come back, asks again. With `--kill-every 0` no worker is killed,
and a connection that closes while an answer is awaited is a failure, too (*dropped*). Prints a line a minute and a
summary; the exit code is 1 where anything is wrong, mixed, stale, lost or dropped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import resource
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nqg import Example, Grammar, Parser
from nqg.model.settings import TrainingSettings
from nqg.pipeline.parser import fit_parser
from serving import Running, answer, mebibytes, request, started

WORDS = {
    "walk": ("WALK", "GEHE"),
    "jump": ("JUMP", "SPRINGE"),
    "run": ("RUN", "RENNE"),
    "look": ("LOOK", "SIEH"),
}
OLD_ANSWERS = 35.0  # seconds after a reload in which workers may still finish what they were asked
RELOADED_WITHIN = 60  # seconds in which every worker must have loaded the other model
# A worker that replaces another may have the new model already.
RELOADED = r"process (\d+) loaded the model again: [0-9a-f]+(?: \(unchanged\))?"
IDLE_SECONDS = 8.0  # after which a connection is not used again
FAILURES = ("wrong", "mixed", "stale", "lost", "dropped", "not reloaded")
LOST_AFTER = 120.0  # seconds of asking again


def trained(which: int, folder: Path) -> Parser:
    rules = [f"{word} ### {programs[which]}" for word, programs in WORDS.items()]
    rules += [
        "NT_1 twice ### NT_1 NT_1",
        "NT_1 and NT_2 ### NT_1 NT_2",
        "NT_1 after NT_2 ### NT_2 NT_1",
    ]
    examples = [Example(word, programs[which]) for word, programs in WORDS.items()]
    training = TrainingSettings(steps=20, batch_size=4)
    parser = fit_parser(
        Grammar.parse("\n".join(rules)), examples, training=training, device="cpu"
    )
    parser.save(folder)
    return parser


def random_sentence(rng: random.Random) -> str:
    parts = [
        rng.choice(list(WORDS)) + " twice" * rng.randint(0, 2)
        for _ in range(rng.randint(1, 4))
    ]
    return parts[0] + "".join(
        f" {rng.choice(('and', 'after'))} {part}" for part in parts[1:]
    )


@dataclass
class Soak:
    """What is served, what both models say, and what the clients saw."""

    server: Running
    folder: Path
    expected: tuple[dict[str, str | None], dict[str, str | None]]
    thinking: float  # seconds, on average
    until: float
    kills: float  # a worker is killed every so many seconds; with 0 none is
    current: int = 0  # which model was loaded last
    loaded: float = 0.0  # when
    counts: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)  # that the server wrote

    def workers(self) -> list[int]:
        """The worker processes, the oldest first; a server with one worker is that."""
        pid = self.server.process.pid
        found = []
        for child in map(
            Path("/proc").joinpath,
            Path(f"/proc/{pid}/task/{pid}/children").read_text().split(),
        ):
            with suppress(OSError):  # it ended just now
                if b"spawn_main" in (child / "cmdline").read_bytes():
                    begun = int(
                        (child / "stat").read_text().rpartition(")")[2].split()[19]
                    )
                    found.append((begun, int(child.name)))
        return [pid for _, pid in sorted(found)] or [pid]

    async def client(self, number: int) -> None:
        rng, sentences = random.Random(number), list(self.expected[0])
        stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        used = 0.0
        await asyncio.sleep(rng.uniform(0, 2 * self.thinking))
        while time.monotonic() < self.until:
            asked = rng.choices(sentences, k=rng.choice((1, 1, 1, rng.randint(2, 30))))
            path, message = "/api/batch", {"text": "\n".join(asked)}
            if len(asked) == 1:
                path, message = "/api/parse", {"sentence": asked[0]}
            begin, found = time.monotonic(), None
            hangs_up = rng.random() < 0.03
            while found is None and time.monotonic() < begin + LOST_AFTER:
                sent = time.monotonic()
                # The server has announced when it closes an idle connection.
                if stream and sent - used > IDLE_SECONDS:
                    stream[1].close()
                    stream = None
                try:
                    stream = stream or await asyncio.open_connection(
                        self.server.host, self.server.port
                    )
                    stream[1].write(request(path, dict(message)))
                    if hangs_up:
                        break
                    status, wait, body = await asyncio.wait_for(answer(stream[0]), 60)
                except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                    self.counts[f"asked again: {type(error).__name__}"] += 1
                    self.counts["dropped"] += self.kills == 0
                    stream = None
                    await asyncio.sleep(0.1)
                    continue
                used = time.monotonic()
                if status == 200:
                    found = json.loads(body)
                    self.latencies.append(time.monotonic() - begin)
                    self.judge(asked, found, sent)
                else:
                    self.counts[f"status {status}"] += 1
                    await asyncio.sleep(wait or 1)
            if hangs_up:
                self.counts["hung up"] += 1
                stream = None
            elif found is None:
                self.counts["lost"] += 1
            await asyncio.sleep(rng.uniform(0, 2 * self.thinking))

    def judge(self, asked: list[str], found: dict[str, object], sent: float) -> None:
        rows = (
            [{"sentence": asked[0], "target": found["target"]}]
            if "target" in found
            else found["rows"]
        )
        assert isinstance(rows, list)
        self.counts["single" if "target" in found else "batches"] += 1
        self.counts["sentences"] += len(asked)
        if [row["sentence"] for row in rows] != asked:
            self.counts["wrong"] += 1
            return
        says = [
            all(each[row["sentence"]] == row["target"] for row in rows)
            for each in self.expected
        ]
        if not any(says):
            known = all(
                row["target"] in (each[row["sentence"]] for each in self.expected)
                for row in rows
            )
            self.counts["mixed" if known else "wrong"] += 1
        elif not says[self.current] and sent > self.loaded + OLD_ANSWERS:
            self.counts["stale"] += 1

    async def reload(self, every: float, other: Path) -> None:
        while time.monotonic() + every < self.until:
            await asyncio.sleep(every)
            self.current = 1 - self.current
            self.loaded = float("inf")  # both are right until it is done
            aside = other.with_name("aside")
            for old, new in (
                (self.folder, aside),
                (other, self.folder),
                (aside, other),
            ):
                os.rename(old, new)
            # A worker that is killed meanwhile is replaced by one that loads the new model.
            waiting, begin = set(self.workers()), len(self.lines)
            self.server.process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + RELOADED_WITHIN
            while waiting and time.monotonic() < deadline:
                await asyncio.sleep(0.1)
                waiting &= set(self.workers())
                for line in self.lines[begin:]:
                    if found := re.fullmatch(RELOADED, line):
                        waiting.discard(int(found[1]))
            self.counts["not reloaded"] += len(waiting)
            self.loaded = time.monotonic()
            self.counts["reloads"] += 1

    async def kill(self, every: float) -> None:
        """Kill the younger worker, so that the memory of the older one is seen to the next reload."""
        while time.monotonic() + every < self.until:
            await asyncio.sleep(every)
            workers = self.workers()
            if len(workers) > 1:
                os.kill(workers[-1], signal.SIGKILL)
                self.counts["kills"] += 1

    async def watch(self, every: float, memory: list[tuple[float, float]]) -> None:
        """`memory` gets the mebibytes of the oldest worker and of the first process."""
        begin = time.monotonic()
        while time.monotonic() < self.until:
            await asyncio.sleep(min(every, max(self.until - time.monotonic(), 0.1)))
            oldest = mebibytes(self.workers()[0])
            memory.append((oldest, mebibytes(self.server.process.pid)))
            print(
                f"{time.strftime('%H:%M:%S')} {(time.monotonic() - begin) / 60:6.1f} min",
                f"oldest worker {oldest:.0f} MiB, first process {memory[-1][1]:.0f} MiB",
                dict(sorted(self.counts.items())),
                flush=True,
            )


async def soaked(
    soak: Soak, options: argparse.Namespace, other: Path
) -> list[tuple[float, float]]:
    memory: list[tuple[float, float]] = []
    helpers = [soak.watch(options.log_every, memory)]
    if soak.kills:
        helpers.append(soak.kill(soak.kills))
    clients = [soak.client(number) for number in range(options.clients)]
    await asyncio.gather(*helpers, soak.reload(options.reload_every, other), *clients)
    return memory


def report(soak: Soak, memory: list[tuple[float, float]]) -> bool:
    counts, ordered = soak.counts, sorted(soak.latencies)
    p99 = ordered[int(0.99 * len(ordered))]
    print(
        f"answers    {counts['single']:,} single, {counts['batches']:,} batches; {counts['sentences']:,} sentences"
    )
    print(
        f"latency    p50 {1000 * statistics.median(ordered):.0f} ms, p99 {1000 * p99:.0f} ms, ",
        end="",
    )
    print(f"worst {1000 * ordered[-1]:.0f} ms (asking again included)")
    print(
        f"mishaps    {counts['reloads']} reloads, {counts['kills']} kills, {counts['hung up']} clients hung up;",
        end=" ",
    )
    print(
        {
            name: count
            for name, count in sorted(counts.items())
            if name.startswith(("asked", "status"))
        }
    )
    third = max(len(memory) // 3, 1)
    thirds = (memory[:third], memory[third : 2 * third], memory[2 * third :])
    medians = [
        tuple(statistics.median(column) for column in zip(*part, strict=True))
        for part in thirds
        if part
    ]
    print("memory     medians of each third, oldest worker and first process: ", end="")
    print(", ".join(f"{oldest:.0f} + {first:.0f} MiB" for oldest, first in medians))
    bad = {name: counts[name] for name in FAILURES}
    print(f"failures   {bad}")
    return not any(bad.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--thinking", type=float, default=6, help="seconds between requests, on average"
    )
    parser.add_argument("--reload-every", type=float, default=600, metavar="SECONDS")
    parser.add_argument("--kill-every", type=float, default=170, metavar="SECONDS")
    parser.add_argument("--log-every", type=float, default=60, metavar="SECONDS")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    place = Path(tempfile.mkdtemp())
    sentences = sorted({random_sentence(random.Random(seed)) for seed in range(300)})
    models = [
        trained(which, place / name) for which, name in enumerate(("served", "other"))
    ]
    first, second = (
        {each.source: each.target for each in model.answers(sentences)}
        for model in models
    )
    assert None not in {*first.values(), *second.values()}
    workers = str(options.workers)
    server = started(place / "served", "--workers", workers, "--device", "cpu")
    soak = Soak(
        server,
        place / "served",
        (first, second),
        options.thinking,
        time.monotonic() + 60 * options.minutes,
        options.kill_every,
    )
    assert server.process.stderr is not None

    def read() -> None:
        for line in server.process.stderr or ():
            soak.lines.append(line.strip())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        memory = asyncio.run(soaked(soak, options, place / "other"))
    finally:
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait()
        shutil.rmtree(place)
    reader.join()
    said = Counter(
        " ".join(line.split()[:2])
        for line in soak.lines
        if not line.startswith("worker")
    )
    print(
        f"exit code  {code} after SIGTERM; the server wrote {len(soak.lines)} lines, {dict(said)} among them"
    )
    sys.exit(0 if report(soak, memory) and code == 0 else 1)


if __name__ == "__main__":
    main()
