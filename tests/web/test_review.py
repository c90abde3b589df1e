"""The review of a log: what to annotate, and pairs that are added to a training file; nobody else writes to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from conftest import PROJECT
from nqg.cli.main import app
from nqg.inference.parser import Parser
from nqg.web.app import create_app
from nqg.web.middleware import Access
from nqg.web.service import Service
from web_service import ACCESS, HOSTILE

TRAIN = "run twice\tR R\n"
TOKEN = "a-token-of-some-length"
GOOD = {"source": "fly", "target": "F"}


@contextmanager
def reviewed(
    parser: Parser, folder: Path, *sentences: str, access: Access = ACCESS
) -> Iterator[TestClient]:
    (folder / "log.jsonl").write_text(
        "".join(json.dumps({"source": each}) + "\n" for each in sentences)
    )
    (folder / "train.tsv").write_text(TRAIN)
    service = Service(
        "tiny", parser, log=folder / "log.jsonl", review=folder / "train.tsv"
    )
    with TestClient(
        create_app(service, access),
        base_url="http://localhost",
        raise_server_exceptions=False,
    ) as client:
        yield client


def test_the_log_becomes_suggestions_without_what_is_in_the_training_file(
    parser: Parser, tmp_path: Path
) -> None:
    with reviewed(
        parser, tmp_path, "fly", "run twice", "fly", f"{HOSTILE} fast"
    ) as client:
        assert client.get("/api/model").json()["has_review"] is True
        found = client.get("/api/suggestions").json()["suggestions"]
    assert sorted(each["source"] for each in found) == [f"{HOSTILE} fast", "fly"]
    by_source = {each["source"]: each for each in found}
    assert by_source["fly"]["why"] == "no derivation: no rule knows 'fly'"
    assert (by_source["fly"]["program"], by_source["fly"]["nearest"]) == (None, None)
    assert "&lt;script&gt;" in by_source[f"{HOSTILE} fast"]["nearest"]


def test_an_unsure_answer_is_proposed(parser: Parser, tmp_path: Path) -> None:
    with reviewed(parser, tmp_path, "walk and jump") as client:
        (one,) = client.get("/api/suggestions", params={"limit": 1}).json()[
            "suggestions"
        ]
    assert one["program"] == parser.parse("walk and jump").target


def test_an_accepted_pair_is_a_line_of_the_training_file_and_is_not_suggested_again(
    parser: Parser, tmp_path: Path
) -> None:
    with reviewed(parser, tmp_path, "fly", "swim") as client:
        answer = client.post(
            "/api/examples", json={"source": " fly ", "target": 'F ( "a" )\u2028'}
        ).json()
        left = client.get("/api/suggestions").json()["suggestions"]
    assert answer == {"file": str(tmp_path / "train.tsv")}
    assert (tmp_path / "train.tsv").read_text() == f'{TRAIN}fly\tF ( "a" )\n'
    assert [each["source"] for each in left] == ["swim"]


def test_a_sentence_that_is_not_for_us_is_written_as_out_of_scope(
    parser: Parser, tmp_path: Path
) -> None:
    with reviewed(parser, tmp_path, "fly", "swim") as client:
        client.post("/api/examples", json={"source": "fly", "target": "OUT_OF_SCOPE"})
        left = client.get("/api/suggestions").json()["suggestions"]
    assert (tmp_path / "train.tsv").read_text() == f"{TRAIN}fly\tOUT_OF_SCOPE\n"
    assert [each["source"] for each in left] == ["swim"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"source": "fly"}, 422, "target: Field required"),
        ({**GOOD, "file": "/etc/passwd"}, 422, "file: Extra inputs are not permitted"),
        ({"source": 3, "target": "F"}, 422, "source: Input should be a valid string"),
        ({"source": "", "target": "F"}, 422, "train.tsv:2: the source is empty"),
        ({"source": "fly", "target": " "}, 422, "train.tsv:2: the target is empty"),
        (
            {"source": "fly\trun", "target": "F"},
            422,
            "the source holds a tab, which a .tsv file cannot keep",
        ),
        ({"source": "fly", "target": "F\nrun\tDELETE"}, 422, "the target holds a tab"),
        ({"source": "fly", "target": "F\nG"}, 422, "the target holds a line feed"),
        (
            {"source": "fly\r", "target": "F\rG"},
            422,
            "the target holds a carriage return",
        ),
        ({"source": "fly", "target": "F (", "x": 1}, 422, "x: Extra inputs"),
        (
            {"source": "fly", "target": "F ("},
            422,
            "train.tsv stays as it is: '(' is never closed; mend the program",
        ),
        (
            {"source": "run twice", "target": "J"},
            422,
            "'run twice' has another program on line 1",
        ),
        ({"source": "run twice", "target": "R R"}, 422, "the same pair is on line 1"),
        ({"source": "fly", "target": "x" * 1_000_000}, 413, "the body has"),
    ],
)
def test_a_pair_with_a_flaw_is_refused_and_the_file_stays_as_it_is(
    parser: Parser, tmp_path: Path, body: dict[str, object], status: int, words: str
) -> None:
    with reviewed(parser, tmp_path) as client:
        answer = client.post("/api/examples", json=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert (tmp_path / "train.tsv").read_text() == TRAIN


@pytest.fixture(scope="module")
def typed_parser() -> Parser:
    """A parser of calls, with types."""
    return Parser.load(PROJECT / "tests" / "models" / "v4-whole", "cpu")


CALLS = "turn on the fan in the cellar\ton(fan, cellar)\n"


@pytest.mark.parametrize(
    ("target", "problem", "new"),
    [
        ("on(fan, garden)", "", ""),
        ("set(fan, garden, 5)", "", ""),
        ("OUT_OF_SCOPE", "", ""),
        (
            "on(fan, attic)",
            "",
            "no legal program has 'attic' after 'on ( fan ,'; expected 'cellar', 'garden' or 'kitchen'",
        ),
        (
            "on(fan)",
            "",
            "no legal program has ')' after 'on ( fan'; expected ','",
        ),
        ("on(fan", "'(' is never closed; mend the program, or leave the pair out", ""),
        ("cellar(on)(fan)", "expected ';' or the end after a call, found '(fan)'", ""),
    ],
)
def test_only_a_legal_program_is_added_unless_it_is_said_to_be_new(
    typed_parser: Parser, tmp_path: Path, target: str, problem: str, new: str
) -> None:
    pair = {"source": "start the fan", "target": target}
    with reviewed(typed_parser, tmp_path) as client:
        (tmp_path / "train.tsv").write_text(CALLS)
        check = client.post("/api/check", json=pair).json()
        added = client.post("/api/examples", json=pair)
        forced = None
        if problem or new:
            assert (tmp_path / "train.tsv").read_text() == CALLS
            forced = client.post("/api/examples", json=pair | {"allows_new": True})
    assert check["new"] == new
    assert problem in check["problem"]
    assert bool(check["problem"]) == bool(problem)
    if forced is None:
        assert added.status_code == 200
        return
    assert added.status_code == 422
    assert "stays as it is" in added.json()["error"]
    assert forced.status_code == (422 if problem else 200)


def test_the_last_pair_is_taken_back_and_no_other(
    parser: Parser, tmp_path: Path
) -> None:
    with reviewed(parser, tmp_path) as client:
        client.post("/api/examples", json=GOOD)
        swim = {"source": "swim", "target": "OUT_OF_SCOPE"}
        client.post("/api/examples", json=swim)
        refused = client.post("/api/undo", json=GOOD)
        assert refused.status_code == 422
        assert "its last pair is another one" in refused.json()["error"]
        for pair in (swim, GOOD):
            assert client.post("/api/undo", json=pair).status_code == 200
    assert (tmp_path / "train.tsv").read_text() == TRAIN


def test_of_a_file_that_is_empty_or_absent_nothing_is_taken_back(
    parser: Parser, tmp_path: Path
) -> None:
    with reviewed(parser, tmp_path) as client:
        (tmp_path / "train.tsv").unlink()
        assert client.post("/api/undo", json=GOOD).status_code == 422
        client.post("/api/examples", json=GOOD)
        client.post("/api/undo", json=GOOD)
        assert (tmp_path / "train.tsv").read_text() == ""
        assert client.post("/api/undo", json=GOOD).status_code == 422


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
    ],
)
def test_a_hostile_page_writes_nothing(
    parser: Parser, tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    with reviewed(parser, tmp_path) as client:
        sent = {"Content-Type": "application/json", **headers}
        assert (
            client.post(
                "/api/examples", content=json.dumps(GOOD), headers=sent
            ).status_code
            == status
        )
        preflight = client.options(
            "/api/examples", headers={"Origin": "https://evil.example"}
        )
        assert not any(
            name.lower().startswith("access-control") for name in preflight.headers
        )
    assert (tmp_path / "train.tsv").read_text() == TRAIN


def test_our_own_page_may_write_whatever_its_port(
    parser: Parser, tmp_path: Path
) -> None:
    with reviewed(parser, tmp_path) as client:
        headers = {
            "Origin": "http://localhost:8123",
            "Host": "localhost:8123",
            "Sec-Fetch-Site": "same-origin",
        }
        assert (
            client.post("/api/examples", json=GOOD, headers=headers).status_code == 200
        )


def test_where_there_is_a_token_nobody_reviews_without_it(
    parser: Parser, tmp_path: Path
) -> None:
    with reviewed(parser, tmp_path, "fly", access=Access(token=TOKEN)) as client:
        assert client.get("/api/suggestions").status_code == 401
        assert client.post("/api/examples", json=GOOD).status_code == 401
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert (
            client.post("/api/examples", json=GOOD, headers=headers).status_code == 200
        )


def test_without_review_there_is_nothing_to_see_or_to_write(client: TestClient) -> None:
    for answer in (
        client.get("/api/suggestions"),
        client.post("/api/examples", json=GOOD),
        client.post("/api/check", json=GOOD),
        client.post("/api/undo", json=GOOD),
    ):
        assert (answer.status_code, "--review" in answer.json()["error"]) == (404, True)


def test_before_anything_was_asked_there_is_nothing_to_review(
    parser: Parser, tmp_path: Path
) -> None:
    with reviewed(parser, tmp_path) as client:
        (tmp_path / "log.jsonl").unlink()
        (tmp_path / "train.tsv").unlink()
        assert client.get("/api/suggestions").json() == {"suggestions": []}
        assert client.post("/api/examples", json=GOOD).status_code == 200
    assert (tmp_path / "train.tsv").read_text() == "fly\tF\n"


def test_a_damaged_log_is_named_with_its_line(parser: Parser, tmp_path: Path) -> None:
    with reviewed(parser, tmp_path, "fly") as client:
        with (tmp_path / "log.jsonl").open("a") as file:
            file.write("[]\n")
        answer = client.get("/api/suggestions")
    assert (
        answer.status_code,
        "log.jsonl:2: expected an object with a 'source'" in answer.json()["error"],
    ) == (
        422,
        True,
    )


def test_pairs_that_come_at_the_same_time_are_all_kept(
    parser: Parser, tmp_path: Path
) -> None:
    with reviewed(parser, tmp_path) as client, ThreadPoolExecutor(8) as threads:
        pairs = [
            {"source": f"fly {number}", "target": f"F {number}"} for number in range(24)
        ]
        answers = list(
            threads.map(
                lambda pair: client.post("/api/examples", json=pair).status_code, pairs
            )
        )
    assert answers == [200] * 24
    lines = (tmp_path / "train.tsv").read_text().splitlines()
    assert sorted(lines[1:]) == sorted(
        f"{pair['source']}\t{pair['target']}" for pair in pairs
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--review", "train.tsv"],
            "--review takes its sentences from a log: give --log FILE, too",
        ),
        (
            ["--review", "train.txt", "--log", "log.jsonl"],
            "expected the extension .tsv or .jsonl",
        ),
        (
            ["--review", "train.tsv.gz", "--log", "log.jsonl"],
            "pairs cannot be added to a compressed file",
        ),
        (
            ["--review", "bad.tsv", "--log", "log.jsonl"],
            "bad.tsv:2: expected 'source<TAB>target'",
        ),
        (
            ["--review", "train.tsv", "--log", "log.jsonl", "--host", "0.0.0.0"],
            "choose the --token yourself",
        ),
    ],
)
def test_a_review_that_cannot_work_or_is_open_to_anyone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.tsv").write_text("run\tR\nnothing\n")
    result = CliRunner().invoke(app, ["serve", "model", *options])
    assert result.exit_code != 0
    assert words in str(result.exception)
