"""GeoQuery on the page: names out, names back in, and the answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nqg.data.examples import Example
from nqg.data.geoquery import AnonymisedSentence
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import Parser
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.web.app import create_app
from nqg.web.service import GeobaseLookup, Service

CAPITAL = "answer ( intersection ( capital , loc_2 ( m0 ) ) )"
GRAMMAR = Grammar.parse("""
what is the capital of NT_1 ### answer ( intersection ( capital , loc_2 ( NT_1 ) ) )
m0 ### m0
say m0 twice ### ( (
""")


@pytest.fixture(scope="module")
def geobase(real_data: Path) -> GeobaseLookup:
    return GeobaseLookup.read(real_data / "geoquery" / "geobase")


def test_names_become_placeholders_and_placeholders_stay(geobase: GeobaseLookup) -> None:
    assert geobase.anonymised("What is the capital of Texas?").source == "what is the capital of m0"
    assert geobase.anonymised("rivers in m0").source == "rivers in m0"
    assert geobase.anonymised("").source == ""


def test_a_program_is_looked_up_with_its_names(geobase: GeobaseLookup) -> None:
    sentence = geobase.anonymised("what is the capital of texas")
    found = geobase.result(sentence, "answer ( intersection ( capital , loc_2 ( m0 ) ) )")
    assert found is not None
    assert found.program == "answer(capital(loc_2(stateid('texas'))))"
    assert "austin" in found.answer


@pytest.mark.parametrize("target", ["( (", "answer ( m7 )", "nonsense", ""])
def test_what_is_no_program_is_not_looked_up(geobase: GeobaseLookup, target: str) -> None:
    assert geobase.result(geobase.anonymised("texas"), target) is None


def test_a_sentence_of_too_many_meanings_is_not_looked_up(geobase: GeobaseLookup) -> None:
    state = geobase.anonymised("new york").readings
    many = AnonymisedSentence("m0 " * 13, (state[0][:2],) * 13)
    assert len(state[0]) >= 2
    assert geobase.result(many, "answer ( m0 )") is None


@pytest.fixture(scope="module")
def parser() -> Parser:
    tiny = ModelSettings(dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2))
    examples = [Example("what is the capital of m0", CAPITAL)]
    training = TrainingSettings(steps=1, batch_size=1)
    return Parser.train(GRAMMAR, examples, model=tiny, training=training, device="cpu")


def test_the_page_suggests_sentences_as_they_were_written_with_their_programs(
    geobase: GeobaseLookup, parser: Parser
) -> None:
    raw = ["What is the capital of Ohio?", "What is the capital of Texas?"]
    with TestClient(
        create_app(Service("geo", parser, geobase=geobase), examples=raw), base_url="http://localhost"
    ) as client:
        client.post("/api/parse", json={"sentence": "texas"})  # is answered after the suggestions
        assert client.get("/api/model").json()["suggestions"] == [{"sentence": each, "target": CAPITAL} for each in raw]


def test_the_page_answers_a_question_with_a_name_in_it(geobase: GeobaseLookup, parser: Parser) -> None:
    with TestClient(create_app(Service("geo", parser, geobase=geobase)), base_url="http://localhost") as client:
        question = {"sentence": "What is the capital of Ohio?", "explain": True}
        answer = client.post("/api/parse", json=question).json()
        assert answer["source"][-1] == "m0"
        assert answer["geobase"]["program"] == "answer(capital(loc_2(stateid('ohio'))))"
        assert "columbus" in answer["geobase"]["answer"]
        assert client.post("/api/parse", json={**question, "explain": False}).json()["geobase"] is None
        assert client.post("/api/parse", json={"sentence": "fly", "explain": True}).json()["geobase"] is None
