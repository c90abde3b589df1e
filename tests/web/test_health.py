"""`/health` means that a parse works."""

from __future__ import annotations

import torch

from web_service import served, tiny_parser


def test_a_model_that_cannot_be_computed_with_is_an_internal_error_and_not_healthy() -> None:
    broken = tiny_parser()
    with served(broken, examples=()) as client:
        assert client.get("/health").json() == {"status": "ok"}
        weights = broken.model.scorer.rules
        with torch.no_grad():
            before = weights.clone()
            weights.fill_(float("nan"))
        failed = client.post("/api/parse", json={"sentence": "walk twice"})
        assert (failed.status_code, "not numbers" in failed.json()["error"]) == (500, True)
        health = client.get("/health")
        assert (health.status_code, health.json()) == (503, {"error": "the last question that was worked on failed"})
        with torch.no_grad():
            weights.copy_(before)
        assert client.post("/api/parse", json={"sentence": "walk twice"}).status_code == 200
        assert client.get("/health").json() == {"status": "ok"}
