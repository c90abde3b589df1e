"""Symbols of target grammars: how they are format_target_symbol, and which are refused."""

from __future__ import annotations

import pytest
from hypothesis import given

from nqg.errors import FormatError
from nqg.types.target_grammar import (
    Category,
    Production,
    Wildcard,
    format_target_symbol,
    read_target_symbol,
)
from strategies import tokens


@given(tokens())
def test_every_token_can_be_spelled_as_a_terminal(token: str) -> None:
    assert read_target_symbol(format_target_symbol(token)) == token


@pytest.mark.parametrize(
    "symbol", [Category("set"), Category("a.b"), *Wildcard], ids=str
)
def test_categories_and_wildcards_are_spelled_in_angle_brackets(
    symbol: Category | Wildcard,
) -> None:
    assert format_target_symbol(symbol) == str(symbol)
    assert read_target_symbol(str(symbol)) == symbol
    assert read_target_symbol("\\" + str(symbol)) == str(symbol)


@pytest.mark.parametrize(
    ("token", "spelling"),
    {
        "<set>": r"\<set>",
        r"\<set>": r"\\<set>",
        r"\x": r"\x",
        "\\": "\\",
        "#1": r"\#1",
        "::=": r"\::=",
        "||": "||",
    }.items(),
)
def test_only_tokens_that_would_be_misread_get_a_backslash(
    token: str, spelling: str
) -> None:
    assert format_target_symbol(token) == spelling
    assert read_target_symbol(spelling) == token


@pytest.mark.parametrize("text", ["<..>", "<=>", "<->", "<....>"])
def test_brackets_around_no_name_are_refused_with_the_way_to_write_the_token(
    text: str,
) -> None:
    with pytest.raises(FormatError) as refusal:
        read_target_symbol(text)
    assert str(refusal.value) == (
        f"'{text}' is neither <name> nor a wildcard (<.>, <...>, <#>, <'>, <?>); the token is written '\\{text}'"
    )


def test_constructors_refuse_what_no_file_could_hold() -> None:
    with pytest.raises(FormatError, match="'<a b>' is not a non-terminal"):
        Category("a b")
    with pytest.raises(FormatError, match=r"'<\.\.\.>' is not a non-terminal"):
        Category("...")
    with pytest.raises(FormatError, match="<a> has an empty alternative"):
        Production(Category("a"), ())
    with pytest.raises(
        FormatError, match="terminal 'two words' is empty or holds white space"
    ):
        Production(Category("a"), ("two words",))
