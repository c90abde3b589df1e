"""One tiny parser for all tests of the web stage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from nqg.inference.parser import Parser
from web_service import served, tiny_parser


@pytest.fixture(scope="session")
def parser() -> Parser:
    return tiny_parser()


@pytest.fixture(scope="module")
def client(parser: Parser) -> Iterator[TestClient]:
    with served(parser) as client:
        yield client
