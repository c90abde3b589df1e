"""The API's answers: programs with their explanations, files of sentences, the grammar."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nqg.answers import Answer
from nqg.errors import NqgError
from nqg.inference.hybrid import Hybrid
from nqg.inference.parser import Parser
from nqg.model.confidence import PRIORS, Calibrator, RulePairs
from nqg.web.app import create_app
from nqg.web.middleware import Access, Busy, Limits
from nqg.web.service import Batcher, Explained, Question, Service
from web_service import EXAMPLES, HOSTILE, HOSTILE_TARGET, served


def test_what_is_asked_is_logged_where_that_is_wanted(
    parser: Parser, tmp_path: Path
) -> None:
    app = create_app(Service("tiny", parser, log=tmp_path / "log.jsonl"), Access(), [])
    with TestClient(app, base_url="http://localhost") as client:
        client.post("/api/parse", json={"sentence": "run twice"})
        client.post("/api/batch", json={"text": "run\nfly"})
    lines = [
        json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()
    ]
    assert [line["source"] for line in lines] == ["run twice", "run", "fly"]
    assert (lines[0]["target"], lines[2]["target"]) == ("R R", None)


def test_a_calibrated_parser_says_how_sure_it_is(parser: Parser) -> None:
    pairs = RulePairs.of((), parser.grammar.numbers)
    calibrator = Calibrator(PRIORS[False], pairs)
    sure = Parser(replace(parser.model, calibrator=calibrator))
    with served(sure) as client:
        answer = client.post("/api/parse", json={"sentence": "jump twice"}).json()
        (row,) = client.post("/api/batch", json={"text": "jump twice"}).json()["rows"]
    assert (
        answer["confidence"] == row["confidence"] == sure.parse("jump twice").confidence
    )
    assert answer["sureness"] == "likely, check it: 76 %"


def test_a_sentence_gets_the_parsers_program_and_probability(
    client: TestClient, parser: Parser
) -> None:
    answer = client.post("/api/parse", json={"sentence": "walk and  jump twice"}).json()
    expected = parser.parse("walk and jump twice")
    assert answer["target"] == expected.target
    assert answer["probability"] == pytest.approx(expected.probability)
    assert answer["source"] == ["walk", "and", "jump", "twice"]
    assert (answer["answered_by"], answer["reason"], answer["readings"]) == (
        "grammar",
        "",
        [],
    )
    assert answer["best"]["derivation"] is answer["chart"] is answer["gaps"] is None


def test_readings_come_in_the_parsers_order(client: TestClient, parser: Parser) -> None:
    answer = client.post(
        "/api/parse", json={"sentence": "walk and jump", "readings": 4}
    ).json()
    expected = parser.parse("walk and jump", readings=4).readings
    assert [each["target"] for each in answer["readings"]] == [
        each.target for each in expected
    ]
    assert len(expected) > 1


def test_an_explanation_has_the_derivation_the_drawings_and_the_chart(
    client: TestClient, parser: Parser
) -> None:
    answer = client.post(
        "/api/parse",
        json={"sentence": "run twice and jump", "explain": True, "drawings": True},
    ).json()
    best = parser.parse("run twice and jump").reading
    assert best is not None
    steps = answer["best"]["derivation"]
    assert [step["rule"] for step in steps] == [
        str(each.rule) for each in best.derivation.hyperedges
    ]
    assert [(step["start"], step["end"]) for step in steps] == [
        (0, 4),
        (0, 2),
        (0, 1),
        (3, 4),
    ]
    assert [step["depth"] for step in steps] == [0, 1, 2, 1]
    assert [step["score"] for step in steps] == pytest.approx(best.scores)
    assert "<svg" in answer["best"]["drawing"]
    assert answer["best"]["outline"].startswith("<ul>")
    assert {(cell["start"], cell["end"]) for cell in answer["chart"]} >= {
        (0, 1),
        (0, 2),
        (0, 4),
        (3, 4),
    }
    assert "<svg" in answer["chart_drawing"]
    assert answer["gaps"] is None


def test_an_abstention_says_what_the_grammar_lacks(client: TestClient) -> None:
    asked = {"sentence": "fly and run twice", "explain": True, "drawings": True}
    answer = client.post("/api/parse", json=asked).json()
    reason = "no derivation: no rule knows 'fly'"
    assert (answer["target"], answer["answered_by"], answer["reason"]) == (
        None,
        None,
        reason,
    )
    assert answer["gaps"] == {"unknown": [0], "islands": [[2, 4]]}
    assert (
        '<span class="unknown" title="no rule knows it">fly</span>'
        in answer["gaps_drawing"]
    )
    assert (
        '<span class="island" title="the grammar derives this part">run twice</span>'
        in answer["gaps_drawing"]
    )
    assert '<span class="unknown">no rule knows it</span>' in answer["gaps_drawing"]


def test_drawings_come_only_where_they_are_asked_for_and_data_likewise(
    client: TestClient,
) -> None:
    def kinds(**asked: bool) -> set[str]:
        answers = [
            client.post("/api/parse", json={"sentence": each, **asked}).json()
            for each in ("run twice", "fly")
        ]
        found = {
            **answers[0]["best"],
            **{key: answers[0][key] or answers[1][key] for key in answers[0]},
        }
        return {
            key
            for key in (
                "derivation",
                "chart",
                "gaps",
                "drawing",
                "outline",
                "gaps_drawing",
            )
            if found[key]
        }

    assert kinds() == set()
    assert kinds(explain=True) == {"derivation", "chart", "gaps"}
    assert kinds(drawings=True) == {"drawing", "outline", "gaps_drawing"}


@pytest.mark.parametrize(
    "sentence", ["fly and run twice", "run jump", "twice and", "fly"]
)
def test_an_abstention_says_the_same_in_the_api_in_a_batch_and_in_python(
    client: TestClient, parser: Parser, sentence: str
) -> None:
    expected = parser.parse(sentence).reason
    assert expected.startswith("no derivation: ")
    for more in ({}, {"explain": True}):
        assert (
            client.post("/api/parse", json={"sentence": sentence, **more}).json()[
                "reason"
            ]
            == expected
        )
    (row,) = client.post("/api/batch", json={"sentences": [sentence]}).json()["rows"]
    assert row["reason"] == expected


@pytest.mark.parametrize("sentence", ["", "   "])
def test_an_empty_sentence_is_an_abstention(client: TestClient, sentence: str) -> None:
    answer = client.post(
        "/api/parse", json={"sentence": sentence, "readings": 3, "explain": True}
    )
    assert answer.status_code == 200
    reason = "no derivation: the sentence is empty"
    assert (
        answer.json()["source"],
        answer.json()["reason"],
        answer.json()["chart"],
    ) == (
        [],
        reason,
        [],
    )


class Echo:
    """A fallback that says the sentence itself."""

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        return [Answer(sentence, sentence.upper()) for sentence in sentences]


def test_a_fallback_answers_where_the_grammar_does_not_and_the_answer_says_so(
    parser: Parser,
) -> None:
    service = Service("both", Hybrid(parser, Echo()))
    with TestClient(create_app(service), base_url="http://localhost") as client:
        known = client.post("/api/parse", json={"sentence": "run"}).json()
        unknown = client.post(
            "/api/parse", json={"sentence": "fly home", "explain": True}
        ).json()
        assert client.get("/api/model").json()["has_fallback"] is True
    assert (known["answered_by"], known["target"]) == ("grammar", "R")
    assert (unknown["answered_by"], unknown["target"]) == ("fallback", "FLY HOME")
    assert unknown["reason"] == "no derivation: no rule knows 'fly' and 'home'"
    assert unknown["probability"] is None
    assert unknown["gaps"]["unknown"] == [0, 1]


def test_a_hybrid_whose_parser_has_no_grammar_to_show_is_refused() -> None:
    with pytest.raises(
        NqgError, match="the page shows the rules of a Parser, found Echo"
    ):
        Service("echo", Hybrid(Echo(), Echo()))


def test_a_batch_gives_a_row_a_line_and_counts_what_is_right(
    client: TestClient,
) -> None:
    text = "run\tR\nrun twice\tR  R\r\n\nrun twice\tR\nfly\tF\njump\n"
    answer = client.post("/api/batch", json={"text": text}).json()
    assert [
        (row["sentence"], row["target"], row["is_right"]) for row in answer["rows"]
    ] == [
        ("run", "R", True),
        ("run twice", "R R", True),
        ("run twice", "R R", False),
        ("fly", None, False),
        ("jump", "J", None),
    ]
    assert answer["rows"][3]["reason"] == "no derivation: no rule knows 'fly'"
    counts = {
        key: answer[key] for key in ("sentences", "answered", "expected", "right")
    }
    assert counts == {"sentences": 5, "answered": 4, "expected": 4, "right": 2}
    assert (answer["coverage"], answer["exact_match"]) == (0.8, 0.5)


def test_a_batch_takes_a_list_and_gives_a_row_for_each_also_for_an_empty_one(
    client: TestClient,
) -> None:
    sentences = ["run twice", "", "jump\ttwice", "fly\n"]
    rows = client.post("/api/batch", json={"sentences": sentences}).json()["rows"]
    assert [row["sentence"] for row in rows] == sentences
    assert [row["target"] for row in rows] == ["R R", None, "J J", None]
    assert [row["expected"] for row in rows] == [None] * 4


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, "expected either 'sentences' or 'text'"),
        (
            {"sentences": ["run"], "text": "run"},
            "expected either 'sentences' or 'text'",
        ),
        ({"sentences": ["run", 3]}, "sentences.1: Input should be a valid string"),
        ({"sentences": "run"}, "sentences: Input should be a valid list"),
        (
            {"sentences": ["run", "run " * 101]},
            "sentence 2: the sentence has 101 tokens; at most 100 are read",
        ),
        (
            {"sentences": ["\ud800"]},
            "sentences.0: Value error, the text holds U+D800, which is half a character",
        ),
    ],
)
def test_a_batch_that_is_not_a_list_of_sentences_is_refused(
    client: TestClient, body: dict[str, object], error: str
) -> None:
    answer = client.post(
        "/api/batch",
        content=json.dumps(body),
        headers={"Content-Type": "application/json"},
    )
    assert (answer.status_code, answer.json()["error"]) == (422, error)


def test_a_list_that_is_too_long_is_refused(parser: Parser) -> None:
    with served(parser, limits=Limits(sentences=2)) as client:
        answer = client.post("/api/batch", json={"sentences": ["run"] * 3})
    assert (answer.status_code, answer.json()["error"]) == (
        413,
        "3 sentences; a batch holds at most 2",
    )


def test_a_batch_is_scored_by_the_tokens_of_programs_as_nqg_evaluate_does(
    client: TestClient,
) -> None:
    spaced = "< img / src = x / onerror = alert ( 1 ) >"
    answer = client.post("/api/batch", json={"text": f"{HOSTILE}\t{spaced}\n"}).json()
    assert (answer["rows"][0]["target"], answer["rows"][0]["is_right"]) == (
        HOSTILE_TARGET,
        True,
    )


def test_a_batch_larger_than_what_is_parsed_together_keeps_its_order(
    client: TestClient,
) -> None:
    sentences = ["run twice" if number % 3 else "jump" for number in range(300)]
    answer = client.post("/api/batch", json={"text": "\n".join(sentences)}).json()
    assert [row["sentence"] for row in answer["rows"]] == sentences
    assert [row["target"] for row in answer["rows"]] == [
        "R R" if number % 3 else "J" for number in range(300)
    ]


def test_an_empty_batch_has_no_rates(client: TestClient) -> None:
    answer = client.post("/api/batch", json={"text": "\n \n"}).json()
    assert (answer["rows"], answer["coverage"], answer["exact_match"]) == (
        [],
        None,
        None,
    )


def test_a_line_of_three_columns_is_refused_with_its_number(client: TestClient) -> None:
    answer = client.post("/api/batch", json={"text": "run\tR\na\tb\tc"})
    assert answer.status_code == 422
    assert (
        answer.json()["error"]
        == "line 2: expected 'sentence' or 'sentence<TAB>program', found 3 columns"
    )


def test_a_line_that_is_too_long_is_refused_with_its_number(client: TestClient) -> None:
    answer = client.post("/api/batch", json={"text": "run\n" + "run " * 101})
    assert (
        answer.json()["error"]
        == "line 2: the sentence has 101 tokens; at most 100 are read"
    )


def test_the_grammar_can_be_searched_and_turned_page_by_page(
    client: TestClient, parser: Parser
) -> None:
    everything = client.get("/api/rules").json()
    assert everything["found"] == len(parser.grammar)
    assert [
        f"{rule['source']} ### {rule['target']}" for rule in everything["rules"]
    ] == list(map(str, parser.grammar))
    page = client.get("/api/rules", params={"offset": 2, "limit": 3}).json()
    assert [rule["number"] for rule in page["rules"]] == [2, 3, 4]
    found = client.get("/api/rules", params={"search": "AND nt_2"}).json()
    assert [rule["number"] for rule in found["rules"]] == [6, 7]
    assert (
        client.get("/api/rules", params={"search": "nothing of the kind"}).json()[
            "rules"
        ]
        == []
    )
    assert client.get("/api/rules", params={"offset": 1000}).json()["rules"] == []


def wait_for_examples(client: TestClient) -> dict[str, dict[str, object]]:
    """The rules by their source, as soon as the examples are counted (asking lets the server go on)."""
    for _ in range(500):
        rules = {
            rule["source"]: rule for rule in client.get("/api/rules").json()["rules"]
        }
        if rules["run"]["uses"] == 2:
            return rules
        client.post("/api/parse", json={"sentence": "fly"})
    raise AssertionError("the examples were never counted")


def test_uses_and_examples_of_rules_come_from_the_examples(parser: Parser) -> None:
    with served(parser) as client:
        rules = wait_for_examples(client)
        assert rules["run"]["examples"] == ["run and jump twice", "run twice"]
        assert rules["NT_1 twice"]["uses"] == 2
        assert (rules["walk"]["uses"], rules["walk"]["examples"]) == (0, [])


def test_examples_that_fail_or_find_no_room_do_not_end_the_counting(
    parser: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, failures = (
        Batcher.ask_all,
        [Busy("full", retry_after=0), NqgError("too much"), NqgError("too much")],
    )

    async def failing(
        self: Batcher[Question, Explained], questions: Sequence[Question]
    ) -> list[Explained]:
        if failures:
            raise failures.pop(0)
        return await original(self, questions)

    monkeypatch.setattr(Batcher, "ask_all", failing)
    with served(
        parser, limits=Limits(batch_size=4), examples=["jump", "run", "run twice"]
    ) as client:
        rules = wait_for_examples(client)
    assert failures == []
    assert rules["run"]["examples"] == ["run", "run twice"]
    assert rules["jump"]["examples"] == []


def test_what_people_ask_is_counted_but_not_shown_to_others(parser: Parser) -> None:
    with served(parser, examples=[]) as client:
        client.post("/api/parse", json={"sentence": "run and run"})
        rules = {
            rule["source"]: rule
            for rule in client.get("/api/rules", params={"order": "uses"}).json()[
                "rules"
            ]
        }
        assert (rules["run"]["uses"], rules["run"]["examples"]) == (2, [])
        assert next(iter(rules)) == "run"


def test_the_model_introduces_itself(client: TestClient, parser: Parser) -> None:
    found = client.get("/api/model").json()
    assert (found["name"], found["rules"]) == ("tiny", len(parser.grammar))
    assert (found["has_fallback"], found["has_target_grammar"]) == (False, False)
    assert sorted(each["sentence"] for each in found["suggestions"]) == sorted(EXAMPLES)
    assert (found["by_hand"], found["examples"], found["has_review"]) == (0, 1, False)


def test_without_examples_those_of_its_training_are_suggested_with_their_programs(
    parser: Parser,
) -> None:
    with served(parser, examples=()) as client:
        for _ in range(500):
            (one,) = client.get("/api/model").json()["suggestions"]
            if one["target"]:
                break
        assert one == {
            "sentence": "walk and jump twice",
            "target": parser.parse("walk and jump twice").target,
        }


def test_rules_by_hand_are_marked_and_listed_alone(parser: Parser) -> None:
    with served(parser.with_rules(["hop ### J", "NT_1 again ### NT_1 NT_1"])) as client:
        assert client.get("/api/model").json()["by_hand"] == 2
        found = client.get("/api/rules", params={"by_hand": True}).json()
        assert [(rule["source"], rule["by_hand"]) for rule in found["rules"]] == [
            ("hop", True),
            ("NT_1 again", True),
        ]
        assert (
            client.get("/api/rules", params={"by_hand": True, "search": "hop"}).json()[
                "found"
            ]
            == 1
        )


def test_hostile_words_come_back_as_they_were(client: TestClient) -> None:
    assert client.post("/api/parse", json={"sentence": HOSTILE}).json()["source"] == [
        HOSTILE
    ]
