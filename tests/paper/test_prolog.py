"""Prolog facts are read with their comments skipped, and refused with their line."""

from __future__ import annotations

from pathlib import Path

import pytest

from nqg.errors import FormatError, NqgError, Place
from nqg.paper.geobase import PrologFact, prolog_facts


def facts(folder: Path, text: str) -> list[PrologFact]:
    path = folder / "facts"
    path.write_bytes(text.encode())
    return list(prolog_facts(path))


def test_names_numbers_and_lists_become_values(tmp_path: Path) -> None:
    (fact,) = facts(
        tmp_path,
        "river('red fork', 17.558e+6,-85 , 2.5, plain, ['new mexico','texas'],[]).",
    )
    assert fact.predicate == "river"
    assert fact.arguments == (
        "red fork",
        17_558_000,
        -85,
        2.5,
        "plain",
        ("new mexico", "texas"),
        (),
    )
    assert isinstance(fact.arguments[1], int)


def test_a_fact_knows_its_line(tmp_path: Path) -> None:
    text = "/* two\nlines */\r\n\r\na(1). % b(2).\n  c(\n  3).d('x''y')."
    assert [(fact.place.line, fact.predicate) for fact in facts(tmp_path, text)] == [
        (4, "a"),
        (5, "c"),
        (6, "d"),
    ]
    assert facts(tmp_path, text)[2] == PrologFact(
        Place(tmp_path / "facts", 6), "d", ("x'y",)
    )


def test_a_comment_inside_a_name_is_part_of_the_name(tmp_path: Path) -> None:
    assert facts(tmp_path, "a('50% /* half */').")[0].arguments == ("50% /* half */",)


@pytest.mark.parametrize(
    "text", ["", "\n\n", "/* nothing but\n a comment */", "% nothing"]
)
def test_a_file_without_facts_has_none(tmp_path: Path, text: str) -> None:
    assert facts(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a(1)\nb(2).", "facts:2: found 'b', expected '.' at the end of the fact"),
        ("a(1", "facts:1: found the end of the file, expected ',' or ')'"),
        ("a(1,).", "facts:1: found ')', expected a name, a number or a list"),
        ("\na.", "facts:2: found '.', expected '('"),
        ("'a'(1).", "facts:1: found 'a', expected the name of a fact"),
        ("a([1]).", "facts:1: found '1', expected a name"),
        ("a([x).", "facts:1: found ')', expected ',' or ']'"),
        ("a([[x]]).", "facts:1: found '[', expected a name"),
        ("a(1e999).", "facts:1: found '1e999', expected a number that fits a float"),
        ("a(1).\n/* never closed", "facts:2: found '/*', expected the name of a fact"),
        (
            "a('never closed).",
            "facts:1: found ''', expected a name, a number or a list",
        ),
        (":- dynamic(a).", "facts:1: found ':', expected the name of a fact"),
        ("a(X).", "facts:1: found 'X', expected a name, a number or a list"),
    ],
)
def test_what_is_no_fact_is_refused_with_line_found_and_expected(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(FormatError) as caught:
        facts(tmp_path, text)
    assert str(caught.value) == f"{tmp_path}/{message}"


def test_deeply_nested_brackets_are_refused_not_followed(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="expected a name"):
        facts(tmp_path, "a(" + "[" * 100_000)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match="nowhere: no such file"):
        list(prolog_facts(tmp_path / "nowhere"))


def test_invalid_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "facts"
    path.write_bytes(b"a(1).\nb('\xff').")
    with pytest.raises(FormatError, match="facts:2: byte 4 is 0xff"):
        list(prolog_facts(path))
