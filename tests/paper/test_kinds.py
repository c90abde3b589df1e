"""Kinds of entities: what geobase knows of a name decides where its placeholder may stand; programs without sense."""

from pathlib import Path

import pytest

from nqg.errors import SettingsError
from nqg.evaluation.evaluation import judge_named
from nqg.paper.datasets import load_dataset
from nqg.paper.funql import EntityKind, funql_target_grammar
from nqg.paper.judges import DenotationJudge
from nqg.paper.recipe import read_recipe
from nqg.paper.systems import with_kinds

STATE, RIVER, CITY = EntityKind.STATE, EntityKind.RIVER, EntityKind.CITY


@pytest.mark.parametrize(
    ("kinds", "program", "is_legal"),
    [
        ([{RIVER}], "answer ( traverse_1 ( m0 ) )", True),
        ([{STATE}], "answer ( traverse_1 ( m0 ) )", False),
        ([{STATE, RIVER}], "answer ( traverse_1 ( m0 ) )", True),
        (
            [{STATE}, {RIVER}],
            "answer ( intersection ( traverse_2 ( m0 ) , m1 ) )",
            True,
        ),
        (
            [{STATE}, {RIVER}],
            "answer ( intersection ( traverse_2 ( m1 ) , m0 ) )",
            False,
        ),
        ([{CITY}], "answer ( size ( m1 ) )", False),  # a sentence of one entity
        ([], "answer ( count ( state ) )", True),
        ([], "answer ( m0 )", False),
    ],
)
def test_entities_stand_only_where_things_of_their_kinds_may(
    kinds: list[set[EntityKind]], program: str, is_legal: bool
) -> None:
    assert funql_target_grammar().accepts(program.split())
    assert (
        with_kinds(funql_target_grammar(), kinds).accepts(program.split()) == is_legal
    )


@pytest.fixture(scope="module")
def judge(real_data: Path) -> DenotationJudge:
    found = judge_named("denotation", real_data)
    assert isinstance(found, DenotationJudge)
    return found


def test_a_name_has_the_kinds_of_all_things_called_so(judge: DenotationJudge) -> None:
    assert judge.geography.kinds_of("mississippi") == {STATE, RIVER}
    assert judge.geography.kinds_of("new york") == {STATE, CITY}
    assert not judge.geography.kinds_of("atlantis")


def test_no_right_program_is_ruled_out_by_kinds(
    judge: DenotationJudge, real_data: Path
) -> None:
    for example in load_dataset("geoquery", real_data).examples[::9]:
        assert with_kinds(funql_target_grammar(), judge.kinds(example)).accepts(
            example.target_tokens
        )


def test_a_program_makes_sense_if_it_answers_something(judge: DenotationJudge) -> None:
    assert judge.is_sensible("answer ( capital_1 ( m0 ) )")
    assert not judge.is_sensible("answer ( intersection ( mountain , river ) )")
    assert not judge.is_sensible("answer ( capital_1 ( m1 ) )")  # without m0


def test_a_changed_recipe_is_one_of_its_own() -> None:
    plain, changed = (
        read_recipe("geoquery-length"),
        read_recipe("geoquery-length", ["teaching.rounds=2", "held_out=tmcd"]),
    )
    assert (changed.teaching.rounds, changed.held_out) == (2, "tmcd")
    assert changed.name == "geoquery-length,teaching.rounds=2,held_out=tmcd"
    assert plain.fingerprint("taught", "x") != changed.fingerprint("taught", "x")


@pytest.mark.parametrize("change", ["rounds", "=2", "split.x=1"])
def test_a_change_that_changes_nothing_is_refused(change: str) -> None:
    with pytest.raises(SettingsError, match=r"expected NAME=VALUE|is not a table"):
        read_recipe("geoquery-length", [change])
