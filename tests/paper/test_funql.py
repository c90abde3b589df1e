"""FunQL's tree: what is read, how it is written, and how bad programs are refused."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError
from nqg.paper.funql import (
    MAX_TERM_DEPTH,
    Application,
    Entity,
    EntityKind,
    Name,
    Number,
    Placeholder,
    Term,
    leaves,
    original_text,
    parse_funql,
    spaced_text,
)
from nqg.paper.geoquery import read_corpus
from strategies import funql_terms


def nested(depth: int) -> str:
    return "count(" * depth + "m0" + ")" * depth


def complaint_about(text: str) -> str | None:
    try:
        parse_funql(text)
    except FormatError as error:
        return str(error)
    return None


def test_a_program_of_the_corpus_becomes_a_tree_of_typed_nodes() -> None:
    assert parse_funql("answer(city(loc_2(stateid('virginia'))))") == Application(
        "answer",
        (
            Application(
                "city", (Application("loc_2", (Entity(EntityKind.STATE, "virginia"),)),)
            ),
        ),
    )


def test_the_spaced_form_is_read_by_the_same_parser() -> None:
    assert parse_funql("exclude ( state , elevation_2 ( 0 ) )") == Application(
        "exclude", (Name("state"), Application("elevation_2", (Number(Decimal(0)),)))
    )


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("m0", Placeholder(0)),
        ("m12", Placeholder(12)),
        ("m01", Name("m01")),
        ("major", Name("major")),
        ("-2.50", Number(Decimal("-2.50"))),
        ("cityid('austin', _)", Entity(EntityKind.CITY, "austin")),
        ("cityid ( 'austin','tx' )", Entity(EntityKind.CITY, "austin", "tx")),
        (
            "placeid('martha''s vineyard')",
            Entity(EntityKind.PLACE, "martha's vineyard"),
        ),
        ("stateid", Name("stateid")),
    ],
)
def test_every_sort_of_leaf_is_read(text: str, term: Term) -> None:
    assert parse_funql(text) == term


def test_both_printers_put_white_space_in_their_own_places() -> None:
    term = parse_funql("answer( exclude(state (all),cityid('new york',_)))")
    assert original_text(term) == "answer(exclude(state(all), cityid('new york', _)))"
    assert (
        spaced_text(term)
        == "answer ( exclude ( state ( all ) , cityid ( 'new york' , _ ) ) )"
    )


@given(funql_terms())
def test_any_tree_survives_being_written_and_read(term: Term) -> None:
    assert parse_funql(original_text(term)) == term
    assert parse_funql(spaced_text(term)) == term


@given(st.text(alphabet="am0_(),' -.1", max_size=20) | st.text(max_size=20))
def test_any_text_is_a_tree_or_a_format_error_with_a_position(text: str) -> None:
    complaint = complaint_about(text)
    assert complaint is None or re.fullmatch(
        r"position \d+: (found|nested).*, expected .*", complaint, re.DOTALL
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            "position 1: found the end of the program, expected a predicate, an entity, a number",
        ),
        (
            "answer(state(all)",
            "position 18: found the end of the program, expected ',' or ')'",
        ),
        ("answer(all))", "position 12: found ')', expected the end of the program"),
        ("answer()", "position 8: found ')', expected a predicate"),
        ("answer(a b)", "position 10: found 'b', expected ',' or ')'"),
        ("answer(a,,b)", "position 10: found ',', expected a predicate"),
        ("answer('texas')", "position 8: found 'texas', expected a predicate"),
        ("answer(_)", "position 8: found '_', expected a predicate"),
        ("a ; b", "position 3: found ';', expected the end of the program"),
        (
            "stateid(texas)",
            "position 9: found 'texas', expected the quoted name of a stateid",
        ),
        ("stateid('texas', _)", "position 16: found ',', expected ')'"),
        (
            "cityid('austin')",
            "position 16: found ')', expected ',' and the city's state",
        ),
        (
            "cityid('austin', tx)",
            "position 18: found 'tx', expected the state's quoted abbreviation or _",
        ),
        (
            "stateid('tex)",
            "position 9: found ''', expected the quoted name of a stateid",
        ),
        ("m0(state)", "position 3: found '(', expected the end of the program"),
    ],
)
def test_a_bad_program_is_refused_with_position_found_and_expected(
    text: str, message: str
) -> None:
    with pytest.raises(FormatError) as caught:
        parse_funql(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "text", [nested(10_000), "count ( " * 10_000, nested(MAX_TERM_DEPTH + 1)]
)
def test_a_program_that_is_nested_too_deep_is_a_format_error(text: str) -> None:
    with pytest.raises(
        FormatError, match=f"nested deeper than {MAX_TERM_DEPTH} levels"
    ):
        parse_funql(text)


def test_the_deepest_legal_program_can_be_written_compared_and_walked() -> None:
    term = parse_funql(nested(MAX_TERM_DEPTH))
    assert parse_funql(spaced_text(term)) == term
    assert hash(term) == hash(parse_funql(original_text(term)))
    assert list(leaves(term)) == [Placeholder(0)]
    assert "Placeholder" in repr(term)


def test_a_wide_program_is_no_deep_one() -> None:
    term = parse_funql(f"union({','.join(['m0'] * 50_000)})")
    assert len(list(leaves(term))) == 50_000


def test_only_a_city_may_name_its_state() -> None:
    with pytest.raises(
        FormatError, match="stateid 'texas' names the state 'tx'; only a cityid has one"
    ):
        Entity(EntityKind.STATE, "texas", "tx")


def test_all_programs_of_the_corpus_survive_parse_print_parse_in_both_forms(
    real_data: Path,
) -> None:
    programs = [
        parse_funql(example.program)
        for example in read_corpus(real_data / "geoquery" / "corpus.xml")
    ]
    assert len(programs) == 880
    assert [parse_funql(original_text(program)) for program in programs] == programs
    assert [parse_funql(spaced_text(program)) for program in programs] == programs


def test_leaves_come_from_left_to_right() -> None:
    term = parse_funql("exclude(m1, count(m0, 7))")
    assert [str(leaf) for leaf in leaves(term)] == ["m1", "m0", "7"]
