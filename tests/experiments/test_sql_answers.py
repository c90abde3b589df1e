"""What becomes of a grammar's SQL: checked against its database, with aliases as the data have them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

import pytest

from nqg.answers import ILLEGAL, Answer
from nqg.data.examples import Example
from nqg.data.schema import Schema, Table
from nqg.experiments.recipe import read_recipe
from nqg.experiments.task import RecipeData, nqg_answers
from nqg.inference.parser import DecodeOptions, Parser

PUBLISHED = "select t2.capital from city as t1 join state as t2 on t1.state = t2.name limit 1"
SCHEMAS = {"geo": Schema("geo", (Table("city", ("name", "state")), Table("state", ("name", "capital"))))}
EXAMPLE = Example("geo: which capital?", PUBLISHED)


class Echo:
    """A parser that answers as it was told."""

    def __init__(self, *targets: str) -> None:
        self.targets = targets

    def with_options(self, options: DecodeOptions) -> Echo:
        return self

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        return [Answer(each, target, 0.5) for each, target in zip(sentences, self.targets, strict=True)]


def data(*, names_aliases: bool) -> RecipeData:
    recipe = replace(read_recipe("spider-ssp-random"), names_aliases=names_aliases)
    return RecipeData(recipe, (EXAMPLE,), (EXAMPLE,), {}, {}, SCHEMAS)


def answer(target: str, *, names_aliases: bool) -> Answer:
    task = data(names_aliases=names_aliases)
    return nqg_answers(task, cast(Parser, Echo(target)), [EXAMPLE], DecodeOptions())[0]


@pytest.mark.parametrize("names_aliases", [False, True], ids=["as published", "after their tables"])
def test_what_the_grammar_learns_comes_back_as_the_data_have_it(names_aliases: bool) -> None:
    learned = data(names_aliases=names_aliases).for_grammar([EXAMPLE])[0].target
    assert ("t1" in learned.split()) != names_aliases
    found = answer(learned, names_aliases=names_aliases)
    assert found.target is not None
    assert found.target.split() == data(names_aliases=False).for_grammar([EXAMPLE])[0].target.split()


def test_columns_of_other_tables_are_abstentions_where_aliases_tell_the_table() -> None:
    wrong = "select t1 . capital from city as t1 limit 1"
    assert answer(wrong, names_aliases=False).target == wrong
    for named in (
        "select city . capital from city as city limit 1",
        "select state . capital from city as city join city as city_2 limit 1",
    ):
        assert (answer(named, names_aliases=True).target, answer(named, names_aliases=True).reason) == (None, ILLEGAL)


@pytest.mark.parametrize("names_aliases", [False, True], ids=["as published", "after their tables"])
def test_made_pairs_that_fit_their_database_come_among_training_examples_as_t5_reads_them(names_aliases: bool) -> None:
    task = data(names_aliases=names_aliases)
    (learned,) = task.for_grammar([EXAMPLE])
    made = [learned, replace(learned, target=learned.target.replace("capital", "mayor"))]
    assert list(map(task.is_fitting(), made)) == [True, False]
    real, other = task.among(made[:1], 0.5)
    assert real == task.for_seq2seq([EXAMPLE])[0]
    assert other == replace(real, source=real.source.replace(EXAMPLE.source, learned.source))
