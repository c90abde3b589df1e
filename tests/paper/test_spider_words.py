"""How Spider's metric cuts SQL into words: one line for each rule of its definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError
from nqg.paper.spider_parser import is_string, spider_words


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        pytest.param(
            "SELECT T1.Name", "select|t1.name", id="lower case, dots inside words"
        ),
        pytest.param("a>5", "a|>|5", id="larger needs no space"),
        pytest.param("a>= 5", "a|>=|5", id="an operator is put together"),
        pytest.param("a > = 5", "a|>=|5", id="even over a space"),
        pytest.param("a ! = 5", "a|!=|5", id="unequal too"),
        pytest.param("a>=5", "a|>|=5", id="the equals sign sticks to what follows"),
        pytest.param("a=5", "a=5", id="and to both sides"),
        pytest.param("a == 5", "a|==|5", id="two equals signs are another word"),
        pytest.param(
            "a <> 5", "a|<|>|5", id="unequal in the other spelling is two words"
        ),
        pytest.param("a+b", "a+b", id="plus is not cut"),
        pytest.param("count(*)", "count|(|*|)", id="brackets and stars are"),
        pytest.param("a,b", "a|,|b", id="a comma is cut"),
        pytest.param("a,1", "a,1", id="unless a digit follows"),
        pytest.param("a,'1'", 'a|,|"1"', id="a string is no digit"),
        pytest.param("a;", "a|;", id="a semicolon"),
        pytest.param("a--b", "a|--|b", id="two dashes"),
        pytest.param("a-b", "a-b", id="one dash is not cut"),
        pytest.param("a..b", "a|..|b", id="two dots"),
        pytest.param("t.a .", "t.a|.", id="a dot at the end"),
        pytest.param("(t.a.)", "(|t.a|.|)", id="a dot at the end, brackets behind it"),
        pytest.param("x = 'A b'", 'x|=|"A b"', id="a string keeps its case and spaces"),
        pytest.param("x='A'", 'x="a"', id="a string that sticks to something"),
        pytest.param("'O''Brien'", '"o""brien"', id="two strings that stick together"),
        pytest.param("``a``", "``|a|``", id="back-ticks"),
        pytest.param("```a", "``|`|a", id="back-ticks go in twos"),
        pytest.param("a.‘b’", "a.|‘|b|’", id="typographic quotes are cut"),
        pytest.param("«a»“b”„c", "«|a|»|“|b|”|„|c", id="those of other languages too"),
        pytest.param("x = '“A”'", 'x|=|"“A”"', id="but not inside a string"),
        pytest.param("a–b—c―d‒e", "a|–|b|—|c|―|d|‒|e", id="long dashes are cut"),
        pytest.param("a‐b−c", "a‐b−c", id="a hyphen and a minus sign are not"),
        pytest.param("t.a.”", "t.a|.|”", id="a dot at the end, a quote behind it"),
        pytest.param(
            "t.a.\n)",
            "t.a.|)",
            id="a bracket on a line of its own does not end the text",
        ),
        pytest.param(
            "a,,b", "a|,|,b", id="the second of two commas sticks to what follows"
        ),
        pytest.param("a,,,b,,1", "a|,|,|,|b|,|,1", id="the third does not"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_words_are_cut_as_the_official_program_cuts_them(sql: str, words: str) -> None:
    assert "|".join(spider_words(sql)) == words


def test_a_long_gap_after_a_dot_is_looked_at_once() -> None:
    assert spider_words("a." + " " * 1_000_000 + "b") == (
        "a.",
        "b",
    )  # hours, if each part of the gap were tried


def test_quotes_come_in_pairs() -> None:
    with pytest.raises(
        FormatError, match="expected quotes in pairs, found an odd number"
    ):
        spider_words('select a from t where x = "O\'Brien"')


def test_only_a_whole_string_is_one() -> None:
    assert [
        word
        for word in spider_words("x = 'a' and y='b' and z = 'c''d'")
        if is_string(word)
    ] == ['"a"']


@given(st.text(alphabet="ab1 .,:=<>!()*'\"-;%\n", max_size=40))
def test_no_character_is_lost_but_white_space_outside_strings(text: str) -> None:
    quoted = text.replace("'", '"')
    if quoted.count('"') % 2 == 0:
        outside = "".join(
            part if number % 2 else "".join(part.split())
            for number, part in enumerate(quoted.split('"'))
        )
        assert "".join(spider_words(text)).replace('"', "") == outside
