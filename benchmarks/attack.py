"""Attacks on a server: batches whose programs would be gigabytes, and requests that are as costly as can be.

    python benchmarks/attack.py --clients 4 --seconds 20
    python benchmarks/attack.py --costly 500 --model FOLDER --project tools

Starts `nqg serve` with such a grammar, sends batches of 500 lines from several clients at once and asks `/health` ten
times a second. Prints the server's memory when idle, at its peak and afterwards, how long `/health` took at most, and
the statuses of the batches. With `--costly` it serves a trained model instead, and asks it the hostile sentences of
`latency.py`: alone with readings, chart and drawings, as chats, and in batches of 13 and 50 kB; before them,
forty requests that are long, deep or odd.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from latency import hostile
from misleading import PROJECTS
from nqg import Example, Grammar
from nqg.data.example_files import read_examples
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from serving import Running, started

LINES = 500


def copying_model(folder: Path) -> Path:
    tiny = ModelSettings(
        dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
    )
    grammar = Grammar.parse(
        "walk ### I_WALK\nrun ### I_RUN\nNT_1 twice ### NT_1 NT_1\nNT_1 and NT_2 ### NT_1 NT_2"
    )
    examples = [Example("walk twice and run", "I_WALK I_WALK I_RUN")]
    training = TrainingSettings(steps=2, batch_size=1)
    fit_parser(grammar, examples, model=tiny, training=training, device="cpu").save(
        folder / "model"
    )
    return folder / "model"


def asked(
    server: Running, path: str, message: dict[str, object] | None = None
) -> tuple[int, int]:
    """The status of an answer and how many bytes it has."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    body = None if message is None else json.dumps(message)
    connection.request(
        "GET" if body is None else "POST",
        path,
        body,
        {"Content-Type": "application/json"},
    )
    answer = connection.getresponse()
    size = len(answer.read())
    connection.close()
    return answer.status, size


def attack(server: Running, clients: int, seconds: float) -> None:
    asked(server, "/api/parse", {"sentence": "walk twice"})
    time.sleep(1)
    idle, until = server.mebibytes(), time.monotonic() + seconds
    statuses, most = Counter[str](), 0

    def hostile(number: int) -> None:
        nonlocal most
        while time.monotonic() < until:
            lines = [
                "walk" + " twice" * (10 + (number + at) % 15) + " and run" * (at % 3)
                for at in range(LINES)
            ]
            try:
                status, size = asked(server, "/api/batch", {"text": "\n".join(lines)})
                statuses[str(status)] += 1
                most = max(most, size)
            except (OSError, http.client.HTTPException) as error:
                statuses[type(error).__name__] += 1

    threads = [
        threading.Thread(target=hostile, args=(number,)) for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    memory, waits = [idle], [0.0]
    while any(thread.is_alive() for thread in threads):
        begin = time.monotonic()
        status, _ = asked(server, "/health")
        waits.append(time.monotonic() - begin)
        statuses[f"health {status}"] += 1
        memory.append(server.mebibytes())
        time.sleep(0.1)
    time.sleep(2)
    asked(server, "/api/parse", {"sentence": "walk twice"})
    print(
        f"memory     idle {idle:.0f} MiB, peak {max(memory):.0f} MiB ({max(memory) / idle:.2f} times), ",
        end="",
    )
    print(f"afterwards {server.mebibytes():.0f} MiB")
    print(f"/health    {len(waits) - 1:,} asked, worst {1000 * max(waits):.0f} ms")
    print(
        f"batches    largest answer {most:,} bytes; statuses {dict(sorted(statuses.items()))}"
    )


def invented_requests(
    examples: Sequence[Example],
) -> Iterator[tuple[str, dict[str, object] | None]]:
    """Requests by who did not mend: long, deep, ambiguous or odd."""
    sources = [example.source for example in examples]
    words = list(dict.fromkeys(" ".join(sources).lower().split()))
    sentences = [
        "a" * 10_000,
        "e" + chr(0x301) * 9_000,
        "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 300,
        "\u202e" * 500 + " lamp",
        "\u200b" * 9_000 + "go",
        "\0" * 500 + " go",
        "1,1." * 1_000,
        "a@" + "a." * 2_000 + "a",
        "https://" + "a/" * 2_000,
        '"' * 100,
        "'s " * 100,
        "don't-" * 50,
        "\u0e01\u0e33" * 100,
        "7:30 " * 100,
        "1st " * 100,
        "@number @text " * 40,
        "NT_1 NT_2 " * 40,
        "[MASK] [CLS] [SEP] [PAD] " * 25,
        " ".join(words[:100]),
        " ".join(words[-100:]),
        " ".join(reversed(words[:100])),
        " ".join(sources[0].split()[:1] * 100),
        " and then ".join(source[:12] for source in sources[:30]),
        " to " * 100,
        " ".join(f"{word} to" for word in words[:50]),
        "please " * 100,
        "hey " * 99 + "go",
        " ".join(word[:-1] for word in words[:100]),
        " ".join(f"{word}x" for word in words[:100]),
        "\n".join(words[:90]),
    ]
    for sentence in sentences:
        yield (
            "/api/parse",
            {"sentence": sentence, "readings": 10, "explain": True, "drawings": True},
        )
    yield "/api/parse", {"sentence": "go", "readings": 10**9}
    yield "/api/parse", {"sentence": [["go"] * 1_000] * 40}
    yield "/api/batch", {"text": "\n" * 50_000}
    yield "/api/batch", {"text": "\n".join([" ".join(words[:90])] * 90)}
    yield "/api/batch", {"text": "\n".join(map(str, range(9_000)))}
    turn = {"role": "user", "content": " ".join(words[:90])}
    for messages in ([turn] * 100, [turn, {"role": "assistant", "content": ""}] * 50):
        yield "/v1/chat/completions", {"model": "nqg", "messages": messages}
    part = {"type": "text", "text": "go " * 50}
    message = {"role": "user", "content": [part] * 200}
    yield "/v1/chat/completions", {"model": "nqg", "messages": [message]}
    yield "/v1/chat/completions", {"model": "nqg", "messages": [turn], "n": 10**9}
    yield f"/api/rules?q={'a' * 5_000}", None
    yield "/api/suggestions", None
    yield "/api/check", {"source": " ".join(words[:100]), "target": "f ( " * 2_000}


def costly_requests(
    project: str, count: int
) -> Iterator[tuple[str, dict[str, object] | None]]:
    folder, rng = PROJECTS[project], random.Random(40)
    examples = [
        *read_examples(folder / "train.tsv"),
        *read_examples(folder / "test.tsv"),
    ]
    yield from invented_requests(examples)
    for number in range(count):
        sentence = hostile(examples, rng)
        match number % 10:
            case 0:
                lines = [hostile(examples, rng) for _ in range(64)]
                text = "\n".join(lines)[: rng.choice((13_000, 50_000))]
                yield "/api/batch", {"text": text}
            case 1 | 2:
                messages = [{"role": "user", "content": sentence}]
                yield "/v1/chat/completions", {"model": "nqg", "messages": messages}
            case 3 | 4:
                yield "/api/parse", {"sentence": sentence, "exact": True}
            case _:
                yield (
                    "/api/parse",
                    {
                        "sentence": sentence,
                        "readings": 10,
                        "explain": True,
                        "drawings": True,
                    },
                )


def costly(server: Running, project: str, count: int) -> bool:
    """Ask one costly request after the other; whether none hangs, and none takes much memory."""
    asked(server, "/api/parse", {"sentence": "walk"})
    idle, is_over = server.mebibytes(), threading.Event()
    waits, memory = [0.0], [idle]

    def look() -> None:
        while not is_over.wait(0.1):
            begin = time.monotonic()
            asked(server, "/health")
            waits.append(time.monotonic() - begin)
            memory.append(server.mebibytes())

    watcher = threading.Thread(target=look)
    watcher.start()
    statuses, singles, batches, cpu = Counter[int](), [0.0], [0.0], [0.0]
    try:
        for path, message in costly_requests(project, count):
            begin, spent = time.monotonic(), server.cpu_seconds()
            status, _ = asked(server, path, message)
            took = time.monotonic() - begin
            if path == "/api/batch":
                batches.append(took)
            else:
                singles.append(took)
                cpu.append(server.cpu_seconds() - spent)
            statuses[status] += 1
            if took > 2:
                print(f"{took:.1f} s, status {status}: {path} {str(message)[:100]!r}")
    finally:
        is_over.set()
        watcher.join()
    hangs = sum(seconds > 5 for seconds in singles)
    print(f"requests   {statuses.total()}, statuses {dict(sorted(statuses.items()))}")
    print(
        f"sentences  worst {max(singles):.2f} s ({max(cpu):.2f} s of CPU), {hangs} over 5 s"
    )
    print(f"batches    worst {max(batches):.2f} s")
    print(f"/health    {len(waits):,} asked, worst {1000 * max(waits):.0f} ms")
    print(f"memory     idle {idle:.0f} MiB, peak {max(memory):.0f} MiB")
    return not hangs and max(memory) < idle + 500


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument(
        "--costly", type=int, default=0, help="how many hostile sentences"
    )
    parser.add_argument("--model", type=Path, help="the folder that is served to them")
    parser.add_argument("--project", choices=PROJECTS, default="tools")
    options = parser.parse_args()
    if options.costly:
        server = started(options.model)
        try:
            is_well = costly(server, options.project, options.costly)
        finally:
            server.process.send_signal(signal.SIGINT)
            server.process.wait()
        sys.exit(not is_well)
    with tempfile.TemporaryDirectory() as folder:
        server = started(copying_model(Path(folder)))
        try:
            attack(server, options.clients, options.seconds)
        finally:
            server.process.send_signal(signal.SIGINT)
            server.process.wait()


if __name__ == "__main__":
    main()
