"""Load on `nqg serve`: many clients on this machine against a real server process.

    python benchmarks/serving.py MODEL sentences.tsv --clients 200 --seconds 120

Every client asks one sentence after another on a connection of its own. Prints a line every ten seconds and a summary:
requests answered a second, latency (median and 99th percentile), answers other than 200, and the server's memory. A 503
with Retry-After is what the server says instead of collapsing; the client waits as told and asks again.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from nqg.data.example_files import read_examples


@dataclass
class Tally:
    """What the clients saw."""

    latencies: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    memory: list[float] = field(default_factory=list)  # MiB, one sample a second
    cpu_seconds: float = 0.0  # that the server spent


@dataclass(frozen=True)
class Running:
    """A server process and where it listens."""

    process: subprocess.Popen[str]
    host: str
    port: int

    def mebibytes(self) -> float:
        return mebibytes(self.process.pid)

    def cpu_seconds(self) -> float:
        fields = (
            Path(f"/proc/{self.process.pid}/stat")
            .read_text()
            .rpartition(")")[2]
            .split()
        )
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def mebibytes(pid: int) -> float:
    """The memory that a process has; none where it has ended."""
    try:
        return (
            int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            * resource.getpagesize()
            / 2**20
        )
    except OSError:
        return 0.0


def started(model: Path, *options: str) -> Running:
    command = [
        str(Path(sys.executable).parent / "nqg"),
        "serve",
        str(model),
        "--port",
        "0",
        *options,
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://([\d.]+):(\d+)", line):
            return Running(process, found[1], int(found[2]))
    raise SystemExit(f"the server did not start (exit code {process.wait()})")


def request(path: str, message: dict[str, object]) -> bytes:
    body = json.dumps(message).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


async def answer(reader: asyncio.StreamReader) -> tuple[int, float, bytes]:
    """The status of the next answer, the seconds that it asks us to wait, and its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    wait = re.findall(r"retry-after: (\d+)", head)
    if announced := re.findall(r"content-length: (\d+)", head):
        body = await reader.readexactly(int(announced[0]))
    else:  # chunks, the last of which is empty
        body, size = b"", -1
        while size:
            size = int(await reader.readuntil(b"\r\n"), 16)
            body += (await reader.readexactly(size + 2))[:size]
    return int(head.split()[1]), float(wait[0]) if wait else 0.0, body


async def client(
    server: Running, requests: itertools.cycle[bytes], until: float, tally: Tally
) -> None:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    while time.monotonic() < until:
        begin = time.monotonic()
        try:
            writer.write(next(requests))
            status, wait, _ = await answer(reader)
        except (OSError, asyncio.IncompleteReadError) as error:
            tally.statuses[type(error).__name__] += 1
            reader, writer = await asyncio.open_connection(server.host, server.port)
            continue
        tally.statuses[str(status)] += 1
        tally.latencies.append(time.monotonic() - begin)
        await asyncio.sleep(wait)
    writer.close()


async def watch(server: Running, until: float, tally: Tally) -> None:
    for second in itertools.count(1):
        if time.monotonic() >= until:
            return
        await asyncio.sleep(1)
        tally.memory.append(server.mebibytes())
        if second % 10 == 0:
            print(
                f"{second:5} s  {len(tally.latencies):8,} answers  {tally.memory[-1]:7.0f} MiB",
                flush=True,
            )


def asked(sentence: str, options: argparse.Namespace) -> bytes:
    """A sentence as a request of nqg's own API, or as a chat in OpenAI's form."""
    if options.chat:
        messages = [{"role": "user", "content": sentence}]
        return request("/v1/chat/completions", {"model": "nqg", "messages": messages})
    return request("/api/parse", {"sentence": sentence, "readings": options.readings})


async def load(
    server: Running, sentences: list[str], options: argparse.Namespace
) -> Tally:
    tally = Tally()
    requests = itertools.cycle([asked(sentence, options) for sentence in sentences])
    until = time.monotonic() + options.seconds
    clients = [client(server, requests, until, tally) for _ in range(options.clients)]
    before = server.cpu_seconds()
    await asyncio.gather(watch(server, until, tally), *clients)
    tally.cpu_seconds = server.cpu_seconds() - before
    return tally


def report(tally: Tally, seconds: float) -> None:
    ordered = sorted(tally.latencies)
    p50, p99 = statistics.median(ordered), ordered[int(0.99 * len(ordered))]
    print(f"throughput {len(ordered) / seconds:.0f} answers/s")
    print(
        f"latency    p50 {1000 * p50:.1f} ms   p99 {1000 * p99:.1f} ms   worst {1000 * ordered[-1]:.0f} ms"
    )
    print(
        f"CPU        {1000 * tally.cpu_seconds / len(ordered):.2f} ms of the server's processor time an answer"
    )
    print(f"statuses   {dict(sorted(tally.statuses.items()))}")
    third = len(tally.memory) // 3
    print(
        f"memory     peak {max(tally.memory):.0f} MiB; median of each third of the time: ",
        end="",
    )
    thirds = (
        tally.memory[:third],
        tally.memory[third : 2 * third],
        tally.memory[2 * third :],
    )
    print(", ".join(f"{statistics.median(part):.0f}" for part in thirds if part))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument(
        "examples",
        type=Path,
        help="a .tsv or .jsonl file; its sentences are asked in turn",
    )
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--readings", type=int, default=0)
    parser.add_argument(
        "--chat",
        action="store_true",
        help="ask /v1/chat/completions, as OpenAI's clients",
    )
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    server = started(options.model)
    try:
        tally = asyncio.run(
            load(
                server,
                [each.source for each in read_examples(options.examples)],
                options,
            )
        )
    finally:
        server.process.send_signal(signal.SIGTERM)
    print(
        f"exit code  {server.process.wait()} after SIGTERM, {os.cpu_count()} cores shared by server and clients"
    )
    report(tally, options.seconds)


if __name__ == "__main__":
    main()
