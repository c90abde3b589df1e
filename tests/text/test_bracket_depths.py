"""How deep in brackets a token stands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nqg.text.brackets import (
    BRACKETS,
    CLOSING_BRACKETS,
    CODE_QUOTES,
    IN_QUOTES,
    bracket_depths,
)

TOKENS = st.sampled_from(["f", ",", *BRACKETS, *CLOSING_BRACKETS, *CODE_QUOTES])


def open_quote(tokens: list[str]) -> str:
    """The quote that is open behind tokens; "" if none is."""
    quote = ""
    for token in tokens:
        if not quote and token in CODE_QUOTES:
            quote = token
        elif token == quote:
            quote = ""
    return quote


def counted_depth(tokens: list[str], position: int) -> int:
    """The depth of a token, counted anew from the first token on."""
    quote = open_quote(tokens[:position])
    if quote and tokens[position] != quote:
        return IN_QUOTES
    depth = 0
    for end, token in enumerate(tokens[:position]):
        if not open_quote(tokens[:end]):
            depth += (token in BRACKETS) - (token in CLOSING_BRACKETS)
    if not quote and tokens[position] in CLOSING_BRACKETS:
        depth -= 1
    return depth


@given(st.lists(TOKENS, max_size=12))
def test_depths_are_those_that_are_counted_token_by_token(tokens: list[str]) -> None:
    counted = [counted_depth(tokens, position) for position in range(len(tokens))]
    assert bracket_depths(tokens) == counted


def test_brackets_between_other_marks_than_the_quotes_count() -> None:
    tokens = ["'", "(", "'", ")"]
    assert bracket_depths(tokens) == [0, IN_QUOTES, 0, -1]
    assert bracket_depths(tokens, quotes=('"',)) == [0, 0, 1, 0]
