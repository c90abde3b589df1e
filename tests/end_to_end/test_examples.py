"""The examples: a shop whose questions ask for values that training never had, and a robot whose commands are new."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from conftest import PROJECT
from nqg.data.examples import read_examples
from nqg.data.schema import read_database
from nqg.data.sql_programs import SqlPrograms
from typed_commands import one_thread, typed

SHOP = PROJECT / "examples" / "shop"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        connection.executescript((SHOP / "shop.sql").read_text())
    with one_thread():
        database = str(folder / "shop.db")
        typed("train", str(SHOP / "train.tsv"), "--database", database, "-o", str(folder / "model"), "--folds", "0")
    return folder


def test_most_questions_get_the_right_rows_and_no_query_fails(folder: Path) -> None:
    with one_thread():
        found = typed(
            "evaluate", str(folder / "model"), str(SHOP / "test.tsv"), "--database", str(folder / "shop.db"), "--json"
        )
    scores = json.loads(found.stdout)["systems"]["grammar"]
    assert (scores["examples"], scores["precision"]) == (30, 1.0)
    assert scores["right"] >= 28


def test_the_page_shows_what_is_printed(folder: Path) -> None:
    page = (SHOP / "README.md").read_text()
    question = "Which black products cost more than 60?"
    with one_thread():
        printed = typed("parse", str(folder / "model"), question, "--database", str(folder / "shop.db"), "--execute")
    assert f'"{question}" --database shop.db --execute\n{printed.stdout}```' in page


def test_values_of_the_test_are_none_of_training() -> None:
    train = " ".join(example.target for example in read_examples(SHOP / "train.tsv"))
    for example in read_examples(SHOP / "test.tsv"):
        values = [word for at, word in enumerate(example.target.split("'")) if at % 2]
        assert all(f"'{value}'" not in train for value in values)


def test_columns_are_slots_where_questions_and_queries_share_their_values(folder: Path) -> None:
    pairs = [(example.source, example.target) for example in read_examples(SHOP / "train.tsv")]
    sql = SqlPrograms.fit(read_database(folder / "shop.db"), [query for _, query in pairs])
    found = sql.column_slots(folder / "shop.db", pairs)
    columns = ["products-name", "products-category", "products-colour", "customers-name", "customers-city", "number"]
    assert list(found) == columns
    assert sql.column_slots(folder / "shop.db", pairs[:2]) == {"products-name": found["products-name"]}
    assert sql.column_slots(folder / "shop.db", [(source, "SELECT 1") for source, _ in pairs]) == {}


def test_a_robot_understands_commands_that_are_put_together_anew(tmp_path: Path) -> None:
    robot = PROJECT / "examples" / "robot"
    with one_thread():
        typed("train", str(robot / "train.tsv"), "-o", str(tmp_path / "model"), "--folds", "0")
        found = typed("evaluate", str(tmp_path / "model"), str(robot / "test.tsv"), "--json")
        command = "go to the blue box then drop it then drive to the charger"
        printed = typed("parse", str(tmp_path / "model"), command)
    scores = json.loads(found.stdout)["systems"]["grammar"]
    assert (scores["examples"], scores["precision"]) == (30, 1.0)
    assert scores["right"] >= 28
    assert f'"{command}"\n{printed.stdout}```' in (robot / "README.md").read_text()
