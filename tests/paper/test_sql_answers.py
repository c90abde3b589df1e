"""What becomes of SQL: the grammar's and T5's checked against its database, with aliases as the data have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.answers import ILLEGAL, Answer
from nqg.data.example import Example
from nqg.evaluation.evaluation import ExactJudge
from nqg.inference.decoding import DecodeOptions
from nqg.inference.parser import Parser
from nqg.paper.datasets import load_dataset, load_spider_schemas
from nqg.paper.recipe import SystemPlan, UsedWeights, read_recipe
from nqg.paper.runner import Runner
from nqg.paper.systems import CANDIDATES, RUNS, RecipeData, legal_answers, nqg_answers
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.sql.schema import Schema, Table

PUBLISHED = (
    "select t2.capital from city as t1 join state as t2 on t1.state = t2.name limit 1"
)
SCHEMAS = {
    "geo": Schema(
        "geo", (Table("city", ("name", "state")), Table("state", ("name", "capital")))
    )
}
EXAMPLE = Example("geo: which capital?", PUBLISHED)


class Echo:
    """A parser that answers as it was told."""

    def __init__(self, *targets: str) -> None:
        self.targets = targets

    def with_options(self, options: DecodeOptions) -> Echo:
        return self

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        return [
            Answer(each, target, 0.5)
            for each, target in zip(sentences, self.targets, strict=True)
        ]


DATA = RecipeData(
    read_recipe("spider-ssp-random"), (EXAMPLE,), (EXAMPLE,), {}, {}, SCHEMAS
)


def answer(target: str) -> Answer:
    return nqg_answers(DATA, cast(Parser, Echo(target)), [EXAMPLE], DecodeOptions())[0]


def test_what_the_grammar_learns_comes_back_as_the_data_have_it() -> None:
    (learned,) = DATA.for_grammar([EXAMPLE])
    assert "t1" in learned.target.split()
    assert answer(learned.target).target == learned.target


def test_sql_of_other_databases_is_an_abstention_but_aliases_are_not_looked_through() -> (
    None
):
    other_table = "select t1 . capital from city as t1 limit 1"
    assert answer(other_table).target == other_table
    unknown = answer("select t1 . mayor from city as t1 limit 1")
    assert (unknown.target, unknown.reason) == (None, ILLEGAL)


def test_made_pairs_that_fit_their_database_come_among_training_examples_as_t5_reads_them() -> (
    None
):
    (learned,) = DATA.for_grammar([EXAMPLE])
    made = [
        learned,
        replace(learned, target=learned.target.replace("capital", "mayor")),
    ]
    assert list(map(DATA.is_fitting(), made)) == [True, False]
    real, other = DATA.among(made[:1], 0.5)
    assert real == DATA.for_seq2seq([EXAMPLE])[0]
    assert other == replace(
        real, source=real.source.replace(EXAMPLE.source, learned.source)
    )


# T5's

FITTING = (
    "select name from city where state = 'a word that no training query has' limit 77",
    "select t1.name from city as t1 join state as t2 on t1.state = t2.name",
)
UNFIT = (
    None,
    "",
    "capital of the state",
    "select name from city where",
    "select name from city where state = 'never closed",
    "select name from town",
    "select mayor from city",
    "select capital from city",
    "select t1.capital from city as t1",
    "select t2.name from city as t1",
    "select name from city join state",
)


def answered(target: str | None, question: str = "which?") -> Answer:
    return Answer(f"geo: {question} | {SCHEMAS['geo']}", target, 0.5)


@pytest.mark.parametrize("target", [*FITTING, *UNFIT])
def test_sql_fits_if_its_names_are_those_of_the_database_and_of_its_own_tables(
    target: str | None,
) -> None:
    assert DATA.schema_check()(answered(target)) == (target in FITTING)


class Beam:
    """A model that has candidates of its own for each source."""

    def __init__(self, candidates: dict[str, list[Answer]]) -> None:
        self.own, self.asked = candidates, list[str]()

    def candidates(self, sources: Sequence[str], count: int) -> list[list[Answer]]:
        assert count == CANDIDATES
        self.asked += sources
        return [self.own[source] for source in sources]


TARGETS = st.sampled_from([*FITTING, *UNFIT])


@given(st.lists(st.tuples(TARGETS, st.lists(TARGETS, max_size=4)), max_size=4))
def test_a_free_answer_stands_if_it_fits_or_no_candidate_does(
    drawn: list[tuple[str | None, list[str | None]]],
) -> None:
    free = [
        answered(target, f"number {number}?")
        for number, (target, _) in enumerate(drawn)
    ]
    own = {
        answer.source: [
            replace(answer, target=target, probability=0.1) for target in candidates
        ]
        for answer, (_, candidates) in zip(free, drawn, strict=True)
    }
    beam = Beam(own)
    found = legal_answers(DATA, cast(Seq2seq, beam), free)
    for answer, before in zip(found, free, strict=True):
        fitting = (
            [before]
            if before.target in FITTING
            else [each for each in own[before.source] if each.target in FITTING]
        )
        assert answer == (fitting or [before])[0]
    assert beam.asked == [
        answer.source for answer in free if answer.target not in FITTING
    ]


def test_a_tiny_t5_is_decoded_freely_and_under_the_schemas_of_its_questions(
    tmp_path: Path,
) -> None:
    brief = SystemPlan(training={"steps": 2, "batch_size": 4})
    recipe = replace(read_recipe("spider-ssp-random"), seq2seq=brief)
    examples = (EXAMPLE, Example("geo: which cities?", "select name from city"))
    task = RecipeData(recipe, examples, examples, {}, {"exact": ExactJudge()}, SCHEMAS)
    runner = Runner(task, tmp_path, UsedWeights(recipe, "embedded", "embedded"), RUNS)
    (record,) = runner.records(("seq2seq",), [0])
    assert {"accuracy", "legal_accuracy", "legal_coverage"} <= {*record.figures}
    assert "predicting legal targets" in record.seconds


def test_every_query_of_spider_fits_but_one_whose_table_the_schema_lacks(
    real_data: Path,
) -> None:
    task = replace(DATA, schemas=load_spider_schemas(real_data))
    is_fitting, examples = (
        task.schema_check(),
        load_dataset("spider-xsp", real_data).examples,
    )
    unfit = [
        each.id for each in examples if not is_fitting(Answer(each.source, each.target))
    ]
    assert (len(examples), unfit) == (8034, ["train-3153"])
