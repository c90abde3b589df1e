"""The API against its own OpenAPI document: schemathesis makes up requests, good and bad."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from nqg.inference.parser import Parser
from web_service import running

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    negative_data_rejection,
]
PATHS = [
    "/api/parse",
    "/api/batch",
    "/api/rules",
    "/api/suggestions",
    "/api/check",
    "/api/examples",
    "/api/undo",
    "/api/model",
]


@pytest.fixture(scope="module")
def schema(
    parser: Parser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BaseSchema]:
    folder = tmp_path_factory.mktemp("review")
    with running(
        parser, log=folder / "log.jsonl", review=folder / "train.jsonl"
    ) as server:
        yield schemathesis.openapi.from_url(f"{server.address}/openapi.json")


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("path", PATHS)
def test_every_answer_is_as_the_document_says(
    schema: BaseSchema, path: str, mode: GenerationMode
) -> None:
    (operation,) = schema[path].values()

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(checks=CHECKS)

    if (
        mode is GenerationMode.POSITIVE or path != "/api/model"
    ):  # nothing can be wrong with a request for nothing
        ask()


def test_the_document_names_every_route_of_the_api_and_no_page(
    client: TestClient,
) -> None:
    document = client.get("/openapi.json").json()
    assert list(document["paths"]) == PATHS
    assert {"422", "413", "503"} <= set(
        document["paths"]["/api/parse"]["post"]["responses"]
    )


def test_the_document_describes_errors_as_they_are(client: TestClient) -> None:
    text = json.dumps(client.get("/openapi.json").json())
    assert "HTTPValidationError" not in text
    assert "#/components/schemas/ErrorResponse" in text


def test_the_documentation_page_needs_nothing_from_elsewhere(
    client: TestClient,
) -> None:
    page = client.get("/docs").text
    assert 'src="/static/docs.js"' in page
    assert "cdn" not in page
