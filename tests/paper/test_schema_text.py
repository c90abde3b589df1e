"""Schemas as T5 reads them beside a question, and queries written in the tokens of their grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nqg.answers import Answer
from nqg.data.example import Example
from nqg.evaluation.evaluation import ExactJudge
from nqg.paper.recipe import read_recipe
from nqg.paper.schema_text import (
    SchemaSettings,
    SchemaText,
    is_same_word,
    masked_target,
    query_of,
)
from nqg.paper.spider import read_natural_names
from nqg.paper.systems import RecipeData, masked_answers
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings
from nqg.sql.schema import Schema, Table
from spider_tables import PETS, write_tables

SCHEMA = Schema(
    "geo",
    (
        Table("road", ("rid", "length")),
        Table("city", ("cid", "state", "name")),
        Table("state", ("name", "capital")),
    ),
)
CHANGES = [
    "schema.relevant_first=true",
    "schema.natural_names=true",
    "schema.masked=true",
]
EXAMPLES = tuple(
    Example(
        f"geo: which {column} of the {table.name}?",
        f"select {column} from {table.name}",
    )
    for table in SCHEMA.tables
    for column in table.columns
)


def recipe_data(changes: Sequence[str] = ()) -> RecipeData:
    return RecipeData(
        read_recipe("spider-ssp-random", changes),
        EXAMPLES,
        EXAMPLES,
        {},
        {"exact": ExactJudge()},
        {"geo": SCHEMA},
        natural_names={"geo": {"city.cid": "city id", "road.rid": "road number"}},
    )


def test_by_default_sources_and_targets_are_the_papers() -> None:
    (read, *_) = recipe_data().for_seq2seq(EXAMPLES)
    assert read.source == f"{EXAMPLES[0].source} | {SCHEMA}"
    assert read.target == EXAMPLES[0].target


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("which capitals are there?", "state : capital , name | "),
        ("the names of cities", "city : name , cid , state | "),
        ("how long?", "road : rid , length | "),
    ],
)
def test_what_a_question_names_comes_first_and_nothing_is_lost(
    question: str, first: str
) -> None:
    text = SchemaText(SCHEMA, SchemaSettings(relevant_first=True)).beside(question)
    assert text.startswith(first)
    assert sorted(text.split()) == sorted(str(SCHEMA).split())


def test_words_are_the_same_but_for_a_plural() -> None:
    assert is_same_word("student", "students")
    assert is_same_word("cities", "city")
    assert not is_same_word("car", "carton")
    assert not is_same_word("id", "ids")


def test_a_natural_name_tells_of_relevance_and_stands_beside_its_name_where_asked() -> (
    None
):
    names = {"road.rid": "road number", "road.length": "Length"}
    ordered = SchemaText(SCHEMA, SchemaSettings(relevant_first=True), names)
    assert ordered.beside("the numbers of roads").startswith("road : rid , length |")
    named = SchemaText(SCHEMA, SchemaSettings(natural_names=True), names)
    assert named.beside("?").startswith("road : rid ( road number ) , length |")


def test_natural_names_are_read(tmp_path: Path) -> None:
    names = {
        "table_names": ["student", "pets"],
        "column_names": [[-1, "*"], [0, "Student ID"], [0, "age"], [1, "pet id"]],
    }
    assert read_natural_names(write_tables(tmp_path, {**PETS, **names})) == {
        "pets_1": {
            "student": "student",
            "pets": "pets",
            "student.stuid": "student id",
            "student.age": "age",
            "pets.petid": "pet id",
        }
    }


def test_masked_targets_mean_the_query_that_they_are_made_of() -> None:
    query = "select t2.capital from city as t1 join state as t2 on t1.state = t2.name"
    target = masked_target(query)
    assert target.split()[:4] == ["select", "state", ".", "capital"]
    assert query_of(target) == query
    assert query_of("select ' from") == "select ' from"


def test_settings_of_schemas_change_only_the_results_of_systems_that_read_them() -> (
    None
):
    plain = read_recipe("spider-ssp-random")
    changed = replace(plain, schema=SchemaSettings(masked=True))
    for system, is_equal in (("nqg", True), ("seq2seq", False), ("hybrid", False)):
        prints = [each.fingerprint(system, "x") for each in (plain, changed)]  # type: ignore[arg-type]
        assert (prints[0] == prints[1]) is is_equal


def test_an_answer_under_the_mask_names_what_its_database_has() -> None:
    data = recipe_data(CHANGES)
    train = data.for_seq2seq(data.train)
    training = FineTuningSettings(steps=1, batch_size=4, seed=0)
    seq2seq = Seq2seq.train(train, Seq2seqSettings(), training, device="cpu")
    # So little training that free answers are no queries.
    free = [Answer(example.source, "select", 0.5) for example in train[:3]]
    grammar = data.schema_grammars()("geo: which?")
    for answer in data.as_read(masked_answers(data, seq2seq, free)):
        assert answer.target is None or grammar.accepts(
            masked_target(answer.target).split()
        )
    legal = replace(free[0], target="select city . name from city")
    (kept,) = masked_answers(data, seq2seq, [legal])
    assert kept.target == legal.target
