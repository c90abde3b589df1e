"""The target grammar of FunQL: it accepts the gold targets and is as strict as types can make it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given

from nqg.errors import FormatError
from nqg.paper.funql import (
    EntityKind,
    Term,
    funql_target_grammar,
    parse_funql,
    spaced_text,
)
from nqg.paper.geoquery import load_geoquery
from nqg.paper.systems import with_kinds
from oracles import funql_types
from strategies import converted_funql

ILL_TYPED = [
    "",
    "answer",
    "state",
    "answer ( )",
    "answer ( state",
    "answer ( state ) )",
    "answer ( state ( state )",
    "answer ( state ( state ) )",
    "answer ( loc_2 )",
    "answer ( count )",
    "answer ( major )",
    "answer ( all )",
    "answer ( 0 )",
    "answer ( population_1 )",
    "answer ( stateid )",
    "answer ( texas )",
    "answer ( m10 )",
    "answer ( answer ( state ) )",
    "answer ( state , city )",
    "answer ( biggest ( state ) )",
    "answer ( count ( population_1 ( state ) ) )",
    "answer ( sum ( state ) )",
    "answer ( sum ( count ( state ) ) )",
    "answer ( population_1 ( river ) )",
    "answer ( len ( state ) )",
    "answer ( elevation_1 ( city ) )",
    "answer ( longest ( city ) )",
    "answer ( highest ( river ) )",
    "answer ( largest ( river ) )",
    "answer ( traverse_1 ( state ) )",
    "answer ( next_to_2 ( city ) )",
    "answer ( capital_1 ( city ) )",
    "answer ( loc_2 ( river ) )",
    "answer ( elevation_2 ( state ) )",
    "answer ( elevation_2 ( m0 ) )",
    "answer ( intersection ( state ) )",
    "answer ( intersection ( state , river ) )",
    "answer ( intersection ( state , loc_2 ( m0 ) , m1 ) )",
    "answer ( intersection ( city , major ) )",
    "answer ( intersection ( major , state ) )",
    "answer ( exclude ( city , state ) )",
    "answer ( largest_one ( state ) )",
    "answer ( largest_one ( len , state ) )",
    "answer ( largest_one ( population_1 , river ) )",
    "answer ( largest_one ( state , population_1 ) )",
    "answer ( most ( state ) )",
    "answer ( most ( state , river ) )",
    "answer ( most ( state , loc_1 , state ) )",
    "answer ( most ( city , loc_1 , river ) )",
    "answer ( most ( state , loc_1 ( river ) ) )",
    "answer ( density_1 ( largest ( population_1 ( state ) ) ) )",
]


@pytest.mark.parametrize("target", ILL_TYPED)
def test_a_clearly_ill_typed_target_is_rejected(target: str) -> None:
    assert not funql_target_grammar().accepts(target.split())


def test_the_grammar_says_where_a_target_stops_being_legal() -> None:
    target = "answer ( population_1 ( river ) )"
    verdict = str(funql_target_grammar().explain(target.split()))
    assert verdict.startswith("legal up to token 4 '('")
    assert "found 'river'" in verdict


def test_no_category_of_the_grammar_is_out_of_reach() -> None:
    assert funql_target_grammar().unreachable == ()


def test_all_gold_targets_are_accepted(gold: list[str]) -> None:
    grammar = funql_target_grammar()
    assert [target for target in gold if not grammar.accepts(target.split())] == []


def test_gold_targets_with_one_token_exchanged_are_judged_as_their_types_say(
    gold: list[str],
) -> None:
    grammar, rng = funql_target_grammar(), random.Random(0)
    vocabulary = sorted(
        {token for target in gold for token in target.split()} - set("(),")
    )
    verdicts = []
    for target in gold:
        tokens = target.split()
        where = rng.choice(
            [index for index, token in enumerate(tokens) if token not in "(),"]
        )
        tokens[where] = rng.choice(vocabulary)
        verdicts.append(grammar.accepts(tokens))
        assert verdicts[-1] == makes_sense(" ".join(tokens)), " ".join(tokens)
    assert 0.05 < sum(verdicts) / len(verdicts) < 0.6


@given(converted_funql())
def test_random_programs_are_judged_as_their_types_say(term: Term) -> None:
    target = f"answer ( {spaced_text(term)} )"
    assert funql_target_grammar().accepts(target.split()) == makes_sense(target)


@pytest.mark.parametrize(
    ("target", "fitting"),
    [
        ("answer ( len ( m0 ) )", {EntityKind.RIVER}),
        ("answer ( intersection ( river , m0 ) )", {EntityKind.RIVER}),
        ("answer ( next_to_2 ( m0 ) )", {EntityKind.STATE, EntityKind.RIVER}),
        (
            "answer ( intersection ( city , loc_2 ( m0 ) ) )",
            {EntityKind.STATE, EntityKind.COUNTRY},
        ),
        (
            "answer ( loc_1 ( m0 ) )",
            {EntityKind.STATE, EntityKind.CITY, EntityKind.RIVER, EntityKind.PLACE},
        ),
        ("answer ( size ( state ) )", set(EntityKind)),
        ("answer ( size ( river ) )", set()),
    ],
)
def test_the_place_of_an_entity_tells_its_kind(
    target: str, fitting: set[EntityKind]
) -> None:
    grammar, tokens = funql_target_grammar(), target.split()
    kinds = {
        kind for kind in EntityKind if with_kinds(grammar, [{kind}]).accepts(tokens)
    }
    assert kinds == fitting


@pytest.fixture(scope="module")
def gold(real_data: Path) -> list[str]:
    folder = real_data / "geoquery"
    return [
        example.target
        for example in load_geoquery(folder / "corpus.xml", folder / "geobase")
    ]


def makes_sense(target: str) -> bool:
    try:
        return "program" in funql_types(parse_funql(target))
    except FormatError:
        return False
