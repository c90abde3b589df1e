"""A short soak: many clients, single sentences and batches, some hang up; every answer is right, and none is lost.

`benchmarks/serving.py` is the long one.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
import time
from urllib.parse import urlsplit

from nqg.inference.parser import Parser
from web_service import running

CLIENTS, ROUNDS = 12, 12
WORDS = ("walk", "jump", "run", "fly")


def sentence(rng: random.Random) -> str:
    parts = [rng.choice(WORDS) + " twice" * rng.randint(0, 3) for _ in range(rng.randint(1, 4))]
    return " and ".join(parts)


def posted(address: tuple[str, int], path: str, message: dict[str, object]) -> dict[str, object]:
    """The answer; a client that is told to come back does."""
    for _ in range(600):
        connection = http.client.HTTPConnection(*address, timeout=60)
        connection.request("POST", path, json.dumps(message), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body: dict[str, object] = json.loads(answer.read())
        connection.close()
        if answer.status == 200:
            return body
        assert answer.status == 503, body
        time.sleep(0.05)
    raise AssertionError(f"the server never has time: {body}")


def hang_up(address: tuple[str, int], text: str) -> None:
    """Ask for a batch, and leave before it is answered."""
    body = json.dumps({"text": text}).encode()
    head = (
        f"POST /api/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    with socket.create_connection(address) as connection:
        connection.sendall(f"{head}\r\n\r\n".encode() + body)


def test_every_answer_is_that_of_its_own_sentence_whatever_else_is_asked_at_the_same_time(parser: Parser) -> None:
    sentences = sorted({sentence(random.Random(seed)) for seed in range(60)})
    expected = {each.source: each.target for each in parser.answers(sentences)}
    assert len(set(expected.values())) > 20
    wrong: list[object] = []
    counted = [0]

    def client(number: int, address: tuple[str, int]) -> None:
        rng = random.Random(number)
        for _ in range(ROUNDS):
            asked = rng.choices(sentences, k=rng.randint(2, 20))
            if rng.random() < 0.2:
                hang_up(address, "\n".join(asked))
            elif rng.random() < 0.5:
                rows = posted(address, "/api/batch", {"text": "\n".join(asked)})["rows"]
                assert isinstance(rows, list)
                found = [(row["sentence"], row["target"]) for row in rows]
                wrong.extend(pair for pair in found if expected[pair[0]] != pair[1])
                wrong.extend([] if [pair[0] for pair in found] == asked else [asked])
                counted[0] += len(found)
            else:
                target = posted(address, "/api/parse", {"sentence": asked[0]})["target"]
                wrong.extend([] if target == expected[asked[0]] else [(asked[0], target)])
                counted[0] += 1

    with running(parser) as server:
        place = urlsplit(server.address)
        address = (place.hostname or "", place.port or 0)
        threads = [threading.Thread(target=client, args=(number, address)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for _ in range(20):  # none of those who hung up holds a place
            assert posted(address, "/api/batch", {"text": "run"})["answered"] == 1
    assert wrong == []
    assert counted[0] > CLIENTS * ROUNDS
