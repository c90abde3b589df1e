"""`/health` means that a parse works, and that answers are logged where they should be."""

from __future__ import annotations

from pathlib import Path

from starlette.testclient import TestClient

from nqg.inference.parser import Parser
from nqg.model.numpy_scorer import NumpyScorer
from nqg.web.app import create_app
from nqg.web.service import Service
from web_service import served, tiny_parser


def test_a_model_that_cannot_be_computed_with_is_an_internal_error_and_not_healthy() -> (
    None
):
    broken = tiny_parser()
    with served(broken, examples=()) as client:
        assert client.get("/health").json() == {"status": "ok"}
        scorer = broken.model.scorer
        assert isinstance(scorer, NumpyScorer)
        before = scorer.rules.copy()
        scorer.rules.fill(float("nan"))
        failed = client.post("/api/parse", json={"sentence": "walk twice"})
        assert (failed.status_code, "not numbers" in failed.json()["error"]) == (
            500,
            True,
        )
        health = client.get("/health")
        assert (health.status_code, health.json()) == (
            503,
            {"error": "the last question that was worked on failed"},
        )
        scorer.rules[:] = before
        assert (
            client.post("/api/parse", json={"sentence": "walk twice"}).status_code
            == 200
        )
        assert client.get("/health").json() == {"status": "ok"}


def test_a_log_that_cannot_be_written_costs_nobody_an_answer_and_is_not_healthy(
    parser: Parser, tmp_path: Path
) -> None:
    folder = tmp_path / "logs"
    service = Service("tiny", parser, log=folder / "asked.jsonl")
    with TestClient(
        create_app(service), base_url="http://localhost", raise_server_exceptions=False
    ) as client:
        one = client.post("/api/parse", json={"sentence": "run twice"})
        many = client.post("/api/batch", json={"sentences": ["run twice", "run"]})
        assert (one.status_code, one.json()["target"]) == (200, "R R")
        assert [each["target"] for each in many.json()["rows"]] == ["R R", "R"]
        health = client.get("/health")
        reason = "the log cannot be written (No such file or directory)"
        assert (health.status_code, health.json()) == (503, {"error": reason})
        folder.mkdir()
        assert (
            client.post("/api/parse", json={"sentence": "run twice"}).status_code == 200
        )
        assert client.get("/health").json() == {"status": "ok"}
    assert len((folder / "asked.jsonl").read_text().splitlines()) == 1
