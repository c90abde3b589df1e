"""`nqg train --database` and what comes of it: parsing, execution, evaluation and the API, as users ask for them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from nqg.answers import ILLEGAL, Answer
from nqg.data.example import Example
from nqg.data.example_files import write_examples
from nqg.errors import FormatError, NqgError
from nqg.inference.parser import Parser
from nqg.sql.database import Database
from nqg.sql.execution import Executed, ExecutionJudge, executed
from nqg.web.app import create_app
from nqg.web.service import Service
from typed_commands import one_thread, typed

PAIRS = [
    Example(f"{ask} {thing}s", query)
    for ask, query_of in {
        "show all": "SELECT name FROM {} ;",
        "how many": "SELECT COUNT( * ) FROM {} ;",
        "name the cheapest": "SELECT name FROM {} ORDER BY price LIMIT 1 ;",
    }.items()
    for thing in ("lamp", "chair")
    for query in [query_of.format(thing)]
]
RULES = """\
show all NT_1 ### select name from NT_1
how many NT_1 ### select count ( * ) from NT_1
name the cheapest NT_1 ### select name from NT_1 order by price limit 1
show the colour of NT_1 ### select colour from NT_1
lamps ### lamp
chairs ### chair
"""
BRIEF = (
    "--grammar",
    "rules.txt",
    "--steps",
    "8",
    "--set",
    "training.batch_size=8",
    "--set",
    "confidence.folds=0",
    "--device",
    "cpu",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a shop, pairs, rules and the model that `nqg train` makes of them."""
    made = tmp_path_factory.mktemp("shop")
    with closing(sqlite3.connect(made / "shop.db")) as connection:
        connection.executescript(
            "create table lamp (name, price); create table chair (name, price, colour);"
        )
        connection.executescript(
            "insert into lamp values ('Ada', 30), ('Bo', 20); insert into chair values ('Cy', 9, 1)"
        )
    write_examples(made / "train.tsv", PAIRS)
    (made / "rules.txt").write_text(RULES)
    with pytest.MonkeyPatch.context() as patch, one_thread():
        patch.chdir(made)
        patch.setenv("COLUMNS", "200")
        result = typed(
            "train", "train.tsv", "-o", "model", "--database", "shop.db", *BRIEF
        )
        assert result.exit_code == 0, result.output
        yield made


def test_an_answer_is_a_query_in_the_spelling_of_the_data_and_its_rows(
    folder: Path,
) -> None:
    result = typed(
        "parse",
        "model",
        "name the cheapest lamps",
        "--database",
        "shop.db",
        "--execute",
    )
    assert result.stdout.splitlines() == [
        "SELECT name FROM lamp ORDER BY price LIMIT 1;",
        "name",
        "Bo",
    ]
    found = json.loads(
        typed(
            "parse",
            "model",
            "show all lamps",
            "--database",
            "shop.db",
            "--execute",
            "--json",
        ).stdout
    )
    assert found["rows"] == {
        "columns": ["name"],
        "rows": [["Ada"], ["Bo"]],
        "is_cut": False,
    }
    assert "rows" not in json.loads(
        typed("parse", "model", "show all lamps", "--json").stdout
    )


def test_the_model_loads_without_the_database_and_still_knows_its_columns(
    folder: Path,
) -> None:
    parser = Parser.load(folder / "model", "cpu")
    assert parser.parse("show all chairs").target == "SELECT name FROM chair;"
    assert (
        parser.parse("show the colour of chairs").target == "SELECT colour FROM chair;"
    )
    assert parser.parse("show the colour of lamps").target is None


def test_what_a_column_check_finds_is_the_reason_of_an_abstention(folder: Path) -> None:
    answer = Parser.load(folder / "model", "cpu")
    untyped = answer.with_options(type(answer.options)(typed=False, readings=1))
    (found,) = untyped.answers(["show the colour of lamps"])
    assert (found.target, found.reason) == (
        None,
        f"{ILLEGAL}: table 'lamp' has no column 'colour'",
    )
    assert [reading.is_legal for reading in found.readings] == [False]


def test_execution_accuracy_is_shown_beside_exact_match(folder: Path) -> None:
    test = [
        PAIRS[0],
        Example("name the cheapest chairs", "SELECT name FROM chair ;"),
        Example("fly", "SELECT 1 FROM x"),
    ]
    write_examples(folder / "test.tsv", test)
    result = typed("evaluate", "model", "test.tsv", "--database", "shop.db", "--json")
    found = json.loads(result.stdout)
    assert found["systems"]["grammar"]["right"] == 1
    assert found["execution"]["grammar"]["right"] == 2
    shown = typed("evaluate", "model", "test.tsv", "--database", "shop.db").stdout
    assert "right if the rows are the same:" in shown


def test_a_query_that_does_not_run_is_not_an_answer(folder: Path) -> None:
    database = Database.open(folder / "shop.db")
    broken = Answer("x", "SELECT price FROM town", 0.9, confidence=0.9)
    found = executed(broken, database)
    assert (found.target, found.probability, found.confidence) == (None, None, None)
    assert found.reason == "the query does not run: no such table: town"
    assert (
        executed(Answer("x", reason="no derivation"), database).reason
        == "no derivation"
    )

    class Fixed:
        def answers(self, sentences: object) -> list[Answer]:
            return [
                broken,
                Answer("y", "DROP TABLE lamp"),
                Answer("z", "SELECT COUNT(*) FROM lamp"),
            ]

    rows = [
        each.rows and each.rows.rows
        for each in Executed(Fixed(), database).answers("xyz")
    ]
    assert rows == [None, None, ((2,),)]


@pytest.mark.parametrize(
    ("prediction", "target", "is_right"),
    [
        ("SELECT name FROM lamp ORDER BY price", "SELECT name FROM lamp", True),
        (
            "SELECT name FROM lamp ORDER BY price",
            "SELECT name FROM lamp ORDER BY name",
            False,
        ),
        ("SELECT name , price FROM lamp", "SELECT name FROM lamp", False),
        ("select name from town", "SELECT name FROM lamp", False),
        ("select name from town", "select name from town", True),
        (
            "select name from lamp where name = ' Ada '",
            "select name from lamp where price > 25",
            True,
        ),
    ],
)
def test_rows_decide_what_is_right(
    folder: Path, prediction: str, target: str, is_right: bool
) -> None:
    judge = ExecutionJudge(Database.open(folder / "shop.db"))
    assert judge.is_right(prediction, Example("x", target)) == is_right


def test_the_api_sends_rows(folder: Path) -> None:
    service = Service.load(
        folder / "model", "cpu", database=Database.open(folder / "shop.db", most_rows=1)
    )
    with TestClient(create_app(service), base_url="http://localhost") as client:
        answer = client.post(
            "/api/parse", json={"sentence": "show all lamps", "explain": True}
        ).json()
        assert answer["rows"] == {
            "columns": ["name"],
            "rows": [["Ada"]],
            "is_cut": True,
        }
        assert (
            client.post("/api/parse", json={"sentence": "fly"}).json()["rows"] is None
        )


def test_rows_need_a_database(folder: Path) -> None:
    assert (
        "name one with --database"
        in typed("parse", "model", "show all lamps", "--execute").output
    )
    with pytest.raises(
        FormatError,
        match=r"nothing\.db: expected a SQLite database, found no such file",
    ):
        typed("parse", "model", "show all lamps", "--database", "nothing.db")


def test_training_names_the_query_that_it_cannot_use(folder: Path) -> None:
    options = ("-o", "other", "--database", "shop.db", *BRIEF)
    write_examples(
        folder / "bad.tsv", [*PAIRS, Example("oops", "SELECT colour FROM lamp")]
    )
    with pytest.raises(
        NqgError,
        match=r"bad\.tsv:7: the target grammar rejects 'select colour from lamp'",
    ):
        typed("train", "bad.tsv", *options)
    write_examples(
        folder / "open.tsv",
        [*PAIRS, Example("oops", "SELECT name FROM lamp WHERE name = 'Ada")],
    )
    with pytest.raises(
        FormatError, match=r"open\.tsv:7: a string is opened by ' and never closed"
    ):
        typed("train", "open.tsv", *options)
    with pytest.raises(
        NqgError, match="a second reader cannot be trained with a database yet"
    ):
        typed("train", "train.tsv", *options, "--seq2seq", "embedded")


def test_a_url_stands_for_a_database_in_every_command(folder: Path) -> None:
    url = "sqlite:///shop.db"
    assert (
        typed("train", "train.tsv", "-o", "by-url", "--database", url, *BRIEF).exit_code
        == 0
    )
    result = typed(
        "parse", "by-url", "name the cheapest lamps", "--database", url, "--execute"
    )
    assert result.stdout.splitlines() == [
        "SELECT name FROM lamp ORDER BY price LIMIT 1;",
        "name",
        "Bo",
    ]
    found = json.loads(
        typed("evaluate", "by-url", "train.tsv", "--database", url, "--json").stdout
    )
    assert found["execution"]["grammar"]["right"] == len(PAIRS)
    assert not [
        path
        for path in (folder / "by-url").rglob("*")
        if path.is_file() and b"sqlite:///" in path.read_bytes()
    ]


def test_values_of_a_column_come_from_a_url_too(folder: Path) -> None:
    pairs = [
        (f"what does {name} cost?", f"SELECT price FROM lamp WHERE name = '{name}';")
        for name in ("Ada", "Bo")
    ]
    (folder / "values.tsv").write_text(
        "".join(f"{question}\t{query}\n" for question, query in pairs)
    )
    brief = ("--set", "confidence.folds=0", "--device", "cpu", "--steps", "8")
    for name, place in (("by-file", "shop.db"), ("by-url", "sqlite:///shop.db")):
        assert (
            typed(
                "train", "values.tsv", "-o", name, "--database", place, *brief
            ).exit_code
            == 0
        )
    texts = [
        (folder / name / "text.json").read_text() for name in ("by-file", "by-url")
    ]
    assert texts[0] == texts[1]
    assert '"lamp-name"' in texts[0]
