"""Denotations: GeoQuery's programs give the published answers, and other programs with the same answers match."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from geobase_rows import names_of
from nqg.paper.denotations import (
    Denotation,
    denotation,
    denotation_matches,
    target_denotation,
)
from nqg.paper.funql import Entity, EntityKind, Term, original_text, spaced_text
from nqg.paper.geobase import Geography, read_geobase
from nqg.paper.geoquery import AnonymisedExample, load_anonymised
from strategies import converted_funql, funql_terms

OHIO = Entity(EntityKind.STATE, "ohio")

OTHER_NAME = "geobase lists the mountain twice, as 'X' and as the highest point 'mount X'; the answers use either name"
DIFFERENT = {
    601: OTHER_NAME,
    775: OTHER_NAME,
    787: OTHER_NAME,
    640: "the answer is Alaska, which borders no state; elsewhere (803) states without any do not compete",
    757: "states' highest points count as mountains, or the highest mountain of Texas (371) would be none",
    825: "the answer takes the lowest point of each neighbour; the program asks for the one lowest point of all",
}
UNANSWERED = {
    344,
    349,
    430,
}  # the file has NaN: the two systems that it was made with disagree


@cache
def geography_of(path: Path) -> Geography:
    return Geography.of(read_geobase(path))


@pytest.fixture(scope="module")
def geography(real_data: Path) -> Geography:
    return geography_of(real_data / "geoquery" / "geobase")


@pytest.fixture(scope="module")
def published(real_data: Path) -> list[dict[str, Any]]:
    lines = (
        (real_data / "geoquery" / "geo880_funql_answers.jsonl").read_text().splitlines()
    )
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def corpus(real_data: Path) -> list[AnonymisedExample]:
    folder = real_data / "geoquery"
    return load_anonymised(folder / "corpus.xml", folder / "geobase")


def comparable(answers: Any) -> set[str | float]:
    """Names, and numbers up to rounding: the file writes some with fewer digits."""
    return {
        answer if isinstance(answer, str) else float(f"{float(answer):.6g}")
        for answer in answers
    }


def test_all_programs_give_the_published_answers_except_those_that_are_explained(
    geography: Geography, published: list[dict[str, Any]]
) -> None:
    different = {
        number
        for number, row in enumerate(published)
        if number not in UNANSWERED
        and comparable(names_of(denotation(row["funql"], geography)))
        != comparable(row["answer"])
    }
    assert len(published) == 880
    assert different == DIFFERENT.keys()


def test_the_unanswered_ones_are_those_without_an_answer_in_the_file(
    published: list[dict[str, Any]],
) -> None:
    assert {
        number
        for number, row in enumerate(published)
        if not isinstance(row["answer"], list)
    } == UNANSWERED


def test_the_unanswered_ones_agree_with_one_of_the_two_systems_or_say_why(
    geography: Geography, published: list[dict[str, Any]]
) -> None:
    found = {
        number: comparable(names_of(denotation(published[number]["funql"], geography)))
        for number in UNANSWERED
    }
    assert found[344] == comparable(published[344]["prolog_answer_parsed"])
    assert found[430] == comparable(published[430]["funql_answer_parsed"])
    # One system has the capitals of all states with a river, the other only capitals that are listed as cities.
    assert comparable(published[349]["funql_answer_parsed"]) < found[349]
    assert found[349] < comparable(published[349]["prolog_answer_parsed"])


def test_the_other_names_are_the_only_difference_where_they_are_the_reason(
    geography: Geography, published: list[dict[str, Any]]
) -> None:
    for number, row in enumerate(published):
        if DIFFERENT.get(number) == OTHER_NAME:
            found = names_of(denotation(row["funql"], geography))
            assert {str(name).removeprefix("mount ") for name in found} == set(
                row["answer"]
            )


def test_no_program_of_the_corpus_fails(
    geography: Geography, corpus: list[AnonymisedExample]
) -> None:
    found = [
        target_denotation(each.example.target, each.entities, geography)
        for each in corpus
    ]
    assert [each.failure for each in found] == [None] * 880


def test_both_published_forms_of_geobase_are_the_same_geography(
    real_data: Path,
) -> None:
    folder = real_data / "geoquery"
    assert geography_of(folder / "geobase") == geography_of(
        folder / "geobase_with_header"
    )


def test_answers_have_kinds_so_that_a_river_is_not_a_state(
    geography: Geography,
) -> None:
    river = denotation("answer(riverid('ohio'))", geography)
    state = denotation("answer(stateid('ohio'))", geography)
    assert names_of(river) == names_of(state)
    assert river != state


@pytest.mark.parametrize(
    ("prediction", "matches"),
    [
        ("answer ( intersection ( state , next_to_2 ( m0 ) ) )", True),
        ("answer ( next_to_1 ( m0 ) )", True),
        ("answer ( intersection ( next_to_2 ( m0 ) , state ) )", True),
        ("answer ( state )", False),
        ("answer ( count ( next_to_2 ( m0 ) ) )", False),
        ("answer ( next_to_2 ( m1 ) )", False),
        ("answer ( next_to_2 ( m0 )", False),
        ("", False),
    ],
)
def test_a_prediction_matches_if_its_answers_are_the_gold_ones(
    geography: Geography, prediction: str, matches: bool
) -> None:
    gold = "answer ( intersection ( state , next_to_2 ( m0 ) ) )"
    assert denotation_matches(prediction, gold, [OHIO], geography) == matches


def test_two_programs_that_fail_alike_do_not_match_unless_they_are_the_same(
    geography: Geography,
) -> None:
    assert not denotation_matches(
        "answer ( len ( m0 ) )", "answer ( fly ( m0 ) )", [OHIO], geography
    )
    assert not denotation_matches(
        "answer ( fly (  state ) )", "answer ( fly ( city ) )", [OHIO], geography
    )
    assert denotation_matches(
        "answer ( fly ( m0 ) )", "answer  ( fly ( m0 ) )", [OHIO], geography
    )


def test_a_prediction_is_right_if_it_gives_the_answers_of_the_gold_program(
    geography: Geography, corpus: list[AnonymisedExample]
) -> None:
    gold = corpus[16]
    predictions = [
        gold.example.target,
        "answer ( next_to_1 ( m0 ) )",
        "answer ( state )",
    ]
    found = [
        denotation_matches(each, gold.example.target, gold.entities, geography)
        for each in predictions
    ]
    assert found == [True, True, False]


def test_every_gold_program_is_its_own_best_prediction(
    geography: Geography, corpus: list[AnonymisedExample]
) -> None:
    targets = [(each.example.target, each.entities) for each in corpus]
    assert all(
        denotation_matches(target, target, entities, geography)
        for target, entities in targets
    )


def test_ten_thousand_nested_intersections_are_a_failure_not_a_crash(
    geography: Geography,
) -> None:
    deep = "intersection(state(all)," * 10_000 + "state(all)" + ")" * 10_000
    assert "nested deeper than 100 levels" in str(
        denotation(f"answer({deep})", geography)
    )


def test_nested_superlatives_take_no_longer_than_their_length(
    geography: Geography,
) -> None:
    program = "answer(" + "largest(" * 90 + "state(all)" + ")" * 91
    assert names_of(denotation(program, geography)) == {"alaska"}


@given(funql_terms())
def test_whatever_the_program_it_has_a_denotation(term: Term) -> None:
    found = denotation(f"answer({original_text(term)})", SMALL)
    assert (found.failure is None) or not found.answers
    assert str(found)


@given(converted_funql())
def test_whatever_the_target_it_has_a_denotation(term: Term) -> None:
    found = target_denotation(f"answer ( {spaced_text(term)} )", [OHIO], SMALL)
    assert (found.failure is None) or not found.answers


def test_a_denotation_reads_well() -> None:
    austin = Entity(EntityKind.CITY, "austin", "tx")
    assert (
        str(Denotation(frozenset({OHIO, austin})))
        == "cityid('austin', 'tx'), stateid('ohio')"
    )
    assert str(Denotation(frozenset({9826675.0, 31.5}))) == "31.5, 9,826,675"
    assert str(Denotation()) == "nothing"
    assert str(Denotation(failure="no")) == "cannot be executed: no"


CLASS_NAMES = [
    "state",
    "city",
    "capital",
    "river",
    "lake",
    "place",
    "mountain",
    "major",
]
SMALL = Geography(
    classes={name: set() for name in CLASS_NAMES} | {"state": {OHIO}},
    relations={"next_to_2": {OHIO: {Entity(EntityKind.STATE, "indiana")}}, "loc_2": {}},
    measures={"size": {OHIO: {41300.0}}, "len": {}, "elevation_1": {}, "area_1": {}},
    other_names={},
)
