"""Strings that a source and its target share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.induction.corpus import shared_strings

Tokens = tuple[int, ...]
short = st.lists(st.integers(0, 3), max_size=7).map(tuple)


def strings(tokens: Tokens, length: int) -> list[Tokens]:
    return [tokens[at : at + length] for at in range(len(tokens) - length + 1)]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("what is the m0", "answer ( m0 )", ["m0"]),
        ("m0 in m1", "loc ( m1 , m0 )", ["m0", "m1"]),
        ("list the head name", "select head name from head", ["head name"]),
        ("head of head", "head , head", ["head", "head"]),
        ("a b c a b", "a b a b c", ["a b c", "a b"]),
        ("a b x c d", "c d x a b", ["a b", "c d", "x"]),
        ("a b c a", "a x b c x a", ["b c", "a", "a"]),
        ("b a", "a b", ["b", "a"]),
        ("river", "state", []),
        ("", "state", []),
    ],
)
def test_by_hand(source: str, target: str, expected: list[str]) -> None:
    words = sorted({*source.split(), *target.split()})
    numbered = [tuple(map(words.index, side.split())) for side in (source, target)]
    found = shared_strings(*numbered)
    assert [
        " ".join(words[number] for number in string) for string in found
    ] == expected


@given(short, short)
def test_the_longest_shared_string_comes_first_and_lengths_never_grow(
    source: Tokens, target: Tokens
) -> None:
    lengths = [len(string) for string in shared_strings(source, target)]
    longest = [
        n
        for n in range(1, len(source) + 1)
        if set(strings(source, n)) & set(strings(target, n))
    ]
    assert lengths[:1] == longest[-1:]
    assert lengths == sorted(lengths, reverse=True)


@given(short, short)
def test_shared_strings_do_not_overlap_on_either_side(
    source: Tokens, target: Tokens
) -> None:
    found = shared_strings(source, target)
    for side in (source, target):
        assert can_be_laid_out(found, side)


def can_be_laid_out(pieces: list[Tokens], side: tuple[int | None, ...]) -> bool:
    """Whether the pieces have places on the side that do not overlap: try all."""
    if not pieces:
        return True
    size = len(pieces[0])
    places = [
        at for at in range(len(side) - size + 1) if side[at : at + size] == pieces[0]
    ]
    return any(
        can_be_laid_out(pieces[1:], (*side[:at], *[None] * size, *side[at + size :]))
        for at in places
    )


@given(short, short)
def test_nothing_shared_is_left_over(source: Tokens, target: Tokens) -> None:
    taken = [token for string in shared_strings(source, target) for token in string]
    for token in set(source) & set(target):
        assert taken.count(token) == min(source.count(token), target.count(token))
