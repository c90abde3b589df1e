"""From the corpus's FunQL to the converted form of the paper, and back."""

from __future__ import annotations

import pytest
from hypothesis import given

from funql_inverse import folded
from nqg.errors import FormatError
from nqg.paper.funql import Term, expanded, original_text, parse_funql, spaced_text
from strategies import converted_funql

PAIRS = [
    ("state(all)", "state"),
    ("city(loc_2(m0))", "intersection ( city , loc_2 ( m0 ) )"),
    ("major(city(all))", "intersection ( major , city )"),
    (
        "capital(cityid('albany', _))",
        "intersection ( capital , cityid ( 'albany' , _ ) )",
    ),
    ("largest(state(all))", "largest ( state )"),
    ("largest_one(density_1(state(all)))", "largest_one ( density_1 , state )"),
    (
        "smallest_one(area_1(state(next_to_2(m0))))",
        "smallest_one ( area_1 , intersection ( state , next_to_2 ( m0 ) ) )",
    ),
    (
        "most(state(traverse_1(major(river(all)))))",
        "most ( state , traverse_1 , intersection ( major , river ) )",
    ),
    ("fewest(state(loc_1(city(all))))", "fewest ( state , loc_1 , city )"),
    ("exclude(exclude(state(all), m0), m1)", "exclude ( exclude ( state , m0 ) , m1 )"),
    (
        "intersection(river(loc_2(m0)), longer(m1))",
        "intersection ( intersection ( river , loc_2 ( m0 ) ) , longer ( m1 ) )",
    ),
    ("place(elevation_2(0))", "intersection ( place , elevation_2 ( 0 ) )"),
]


@pytest.mark.parametrize(("original", "converted"), PAIRS)
def test_hidden_intersections_and_arguments_are_spelled_out(
    original: str, converted: str
) -> None:
    assert spaced_text(expanded(parse_funql(original))) == converted


@pytest.mark.parametrize(("original", "converted"), PAIRS)
def test_and_folded_back(original: str, converted: str) -> None:
    assert original_text(folded(parse_funql(converted))) == original


@given(converted_funql())
def test_folding_and_expanding_again_changes_nothing(term: Term) -> None:
    assert expanded(folded(term)) == term


@given(converted_funql())
def test_the_folded_program_is_fixed_by_a_further_round_trip(term: Term) -> None:
    original = folded(term)
    assert folded(expanded(original)) == original


def test_an_intersection_with_a_whole_class_comes_back_in_its_shorter_form() -> None:
    assert (
        original_text(
            folded(expanded(parse_funql("intersection(city(all), loc_2(m0))")))
        )
        == "city(loc_2(m0))"
    )


@pytest.mark.parametrize(
    ("original", "message"),
    [
        (
            "answer(state)",
            "found the bare name 'state', expected it applied, as in 'state(all)'",
        ),
        ("count(all)", "found the bare name 'all', expected it applied"),
        ("state(m0, m1)", "found state(m0, m1), expected 'state' with one argument"),
        (
            "largest_one(m0)",
            "found largest_one(m0), expected largest_one(measure(things))",
        ),
        (
            "most(state(all))",
            "found most(state(all)), expected most(class(relation(things)))",
        ),
        (
            "most(loc_1(loc_1(m0)))",
            "found most(loc_1(loc_1(m0))), expected most(class(relation(things)))",
        ),
    ],
)
def test_a_program_that_the_conversion_does_not_know_is_refused(
    original: str, message: str
) -> None:
    with pytest.raises(FormatError) as caught:
        expanded(parse_funql(original))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("converted", "message"),
    [
        (
            "answer ( loc_2 )",
            "found the bare name 'loc_2', expected a class of things: capital, city, lake,",
        ),
        (
            "state ( m0 )",
            "found state ( m0 ), expected the bare name 'state' or 'intersection ( state , … )'",
        ),
        (
            "largest_one ( m0 , state )",
            "found largest_one ( m0 , state ), expected 'largest_one ( measure , things )'",
        ),
        (
            "most ( state , river )",
            "found most ( state , river ), expected 'most ( class , relation , things )'",
        ),
    ],
)
def test_a_prediction_that_is_no_converted_program_is_refused(
    converted: str, message: str
) -> None:
    with pytest.raises(FormatError) as caught:
        folded(parse_funql(converted))
    assert str(caught.value).startswith(message)
