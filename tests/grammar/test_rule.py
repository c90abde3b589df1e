"""Rules and symbols: what they may be, and how they are format_symbol."""

from __future__ import annotations

import pytest
from hypothesis import given

from nqg.errors import FormatError
from nqg.grammar.grammar import NonTerminal, Rule, format_symbol, read_symbol
from strategies import rules, tokens


def test_a_rule_is_read_from_the_format_of_published_files() -> None:
    rule = Rule.parse(
        "how many NT_1 pass through NT_2 ### answer ( count ( intersection ( NT_1 , loc_1 ( NT_2 ) ) ) )"
    )
    assert rule.arity == 2
    assert rule.source[2] == NonTerminal(1)
    assert rule.target[:2] == ("answer", "(")


@given(rules(max_arity=4))
def test_a_rule_survives_a_round_trip_through_its_text(rule: Rule) -> None:
    assert Rule.parse(str(rule)) == rule


@given(tokens())
def test_every_token_survives_a_round_trip_as_a_terminal(token: str) -> None:
    assert read_symbol(format_symbol(token)) == token
    assert Rule.parse(str(Rule((token,), (token, token)))) == Rule(
        (token,), (token, token)
    )


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        (NonTerminal(1), "NT_1"),
        ("NT_1", r"\NT_1"),
        (r"\NT_1", r"\\NT_1"),
        ("NT_0", "NT_0"),
        ("NT_01", "NT_01"),
        ("NT_12345", "NT_12345"),
        ("nt_1", "nt_1"),
        ("###", r"\###"),
        ("#tag", r"\#tag"),
        ("\\", "\\"),
        ("東京", "東京"),
        ("naïve", "naïve"),
    ],
)
def test_symbols_are_spelled_so_that_only_what_would_be_misread_is_escaped(
    symbol: str | NonTerminal, text: str
) -> None:
    assert format_symbol(symbol) == text
    assert read_symbol(text) == symbol


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("jump I_JUMP", "expected 'source ### target', found '###' 0 times"),
        ("a ### b ### c", "found '###' 2 times"),
        ("### x", "the source of the rule is empty"),
        ("a ###", "the target of the rule is empty"),
        ("NT_1 ### x NT_1", "lone non-terminal"),
        (
            "NT_2 a NT_1 ### NT_1 NT_2",
            "the source has NT_2, NT_1; expected NT_1, NT_2, … once each and in order",
        ),
        ("a NT_2 ### NT_2", "the source has NT_2; expected NT_1"),
        ("NT_1 a NT_1 ### NT_1", "the source has NT_1, NT_1; expected"),
        (
            "a NT_1 ### x",
            "the source has NT_1 but the target no non-terminal; expected the same",
        ),
        ("a ### NT_1", "the source has no non-terminal but the target NT_1"),
    ],
)
def test_a_malformed_rule_is_refused_with_what_was_found_and_expected(
    text: str, reason: str
) -> None:
    with pytest.raises(FormatError) as caught:
        Rule.parse(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize("terminal", ["", "new york", "a\tb", "a\u00a0b"])
def test_a_terminal_that_a_sentence_could_not_hold_is_refused(terminal: str) -> None:
    with pytest.raises(FormatError, match="empty or holds white space"):
        Rule((terminal,), ("x",))
