"""Templates of sentences: what they describe, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError
from nqg.text.sentence_templates import (
    MAX_SENTENCES,
    expanded_template,
    slots_in,
    without_argument,
)


@pytest.mark.parametrize(
    ("template", "sentences"),
    [
        ("turn on the lamp", ["turn on the lamp"]),
        ("light[s] off", ["lights off", "light off"]),
        ("[please] go (left|right)", None),
        ("(a|b [c])", ["a", "b c", "b"]),
        ("[a|b] c", ["a c", "b c", "c"]),
        (r"50 \(fifty\)", ["50 (fifty)"]),
        ("to { area : room }", ["to {area:room}"]),
    ],
)
def test_a_template_describes_sentences(
    template: str, sentences: list[str] | None
) -> None:
    if sentences is None:
        sentences = ["please go left", "please go right", "go left", "go right"]
    assert expanded_template(template) == sentences


def test_parts_that_are_defined_are_written_out() -> None:
    parts = {"polite": ["please", "kindly"]}
    assert expanded_template("[<polite>] stop", parts) == [
        "please stop",
        "kindly stop",
        "stop",
    ]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("turn (on|off", r"'\(' in the template is never closed"),
        ("turn on] it", r"'\]' in the template closes nothing"),
        ("turn (on] it", r"'\]' in the template closes nothing"),
        ("on|off", r"alternatives need brackets"),
        ("<polite> stop", r"<polite> is not defined; expected a line '<polite> = "),
        ("play {a song}", r"expected a name as in \{title\}.*found '\{a song\}'"),
        ("play song}", r"'\}' in the template closes nothing"),
        ("(a|b|c|d) " * 6, f"more than {MAX_SENTENCES:,} sentences; split it"),
    ],
)
def test_a_malformed_template_is_refused_with_the_reason(
    template: str, reason: str
) -> None:
    with pytest.raises(FormatError, match=reason):
        expanded_template(template)


def test_two_values_of_one_name_are_refused() -> None:
    with pytest.raises(FormatError, match=r"\{area\} is there twice; name one of them"):
        slots_in("from {area} to {area}")
    assert len(slots_in("from {area} to {area:end}")) == 2


# A text, or a kind of group and what it holds.
Piece = Any
PIECES = st.recursive(
    st.sampled_from(["a", "b c", "d"]),
    lambda inner: st.one_of(
        st.tuples(st.just("()"), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("[]"), st.lists(inner, min_size=1, max_size=2)),
        st.tuples(st.just("+"), st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=6,
)


def as_text(piece: Piece) -> str:
    if isinstance(piece, str):
        return piece
    kind, inner = piece
    texts = [as_text(each) for each in inner]
    if kind == "+":
        return " ".join(texts)
    return f"{kind[0]}{'|'.join(texts)}{kind[1]}"


def sentences_of(piece: Piece) -> set[str]:
    """The obvious twin: the set of sentences, by recursion over the structure."""
    if isinstance(piece, str):
        return {piece}
    kind, inner = piece
    sets = [sentences_of(each) for each in inner]
    if kind == "+":
        joined = {""}
        for each in sets:
            joined = {f"{left} {right}" for left in joined for right in each}
        return joined
    return set().union(*sets, {""} if kind == "[]" else set())


@given(PIECES)
def test_random_templates_describe_what_their_structure_does(
    piece: Piece,
) -> None:
    wanted = {" ".join(sentence.split()) for sentence in sentences_of(piece)}
    assert set(expanded_template(as_text(piece))) == wanted


@pytest.mark.parametrize(
    ("program", "rest"),
    [
        ("f ( a = 1 , b = X )", "f ( a = 1 )"),
        ("f ( b = X , a = 1 )", "f ( a = 1 )"),
        ("f ( g ( X ) , 2 )", "f ( g ( ) , 2 )"),
        ('{ " to " : " X " , " n " : 2 }', '{ " n " : 2 }'),
        ('f ( a = " ( , " , b = " X " )', 'f ( a = " ( , " )'),
    ],
)
def test_the_argument_of_an_absent_value_is_left_out(program: str, rest: str) -> None:
    assert " ".join(without_argument(program.split(), "X")) == rest


def test_a_program_without_an_argument_to_leave_out_is_refused() -> None:
    with pytest.raises(FormatError, match="no argument for it that could be left out"):
        without_argument(["select", "X", "from", "t"], "X")
