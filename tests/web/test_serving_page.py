"""docs/serving.md says what the code does."""

from __future__ import annotations

import re

from fastapi.routing import APIRoute

from conftest import PROJECT
from nqg.evaluation.active_learning import LINES_PER_SENTENCE
from nqg.web.app import api
from nqg.web.messages import MOST_READINGS
from nqg.web.middleware import SHORTEST_TOKEN, Limits

PAGE = (PROJECT / "docs" / "serving.md").read_text(encoding="utf-8")


def test_the_table_of_limits_is_true() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([\d,]+) \|", PAGE, flags=re.MULTILINE)
    limits = Limits()
    most_read = LINES_PER_SENTENCE * limits.reviewed
    assert {name: int(value.replace(",", "")) for name, value in rows} == {
        "bytes of a body": limits.body_bytes,
        "tokens of a sentence": limits.tokens,
        "characters of a sentence": limits.characters,
        "steps of a sentence's chart": limits.chart_steps,
        "tokens of a program": limits.target_tokens,
        "sentences of a batch": limits.sentences,
        "tokens of all programs of a batch": limits.batch_tokens,
        "batches answered at a time": limits.batches,
        "readings": MOST_READINGS,
        "rules listed at a time": limits.rules,
        f"last sentences of the log that are reviewed, of its last {most_read:,}": limits.reviewed,
        "sentences waiting": limits.queue_size,
        "requests answered at a time": limits.requests,
        "bytes of a request's head": limits.head_bytes,
        "seconds for a body to arrive, for an answer to be taken, or for the next request": limits.client_timeout,
        "seconds for an answer": limits.answer_timeout,
        "seconds for requests in progress once the server is to stop": limits.stop_timeout,
    }
    assert f"batches of up to {limits.batch_size} sentences" in PAGE
    assert f"at least {SHORTEST_TOKEN} characters" in PAGE


def test_every_route_is_named() -> None:
    for route in api.routes:
        assert isinstance(route, APIRoute)
        if route.path.startswith("/api/"):
            assert all(
                f"{method} {route.path}" in PAGE for method in route.methods or ()
            )
    assert "GET /health" in PAGE
