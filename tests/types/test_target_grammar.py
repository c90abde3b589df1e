"""Target grammars: their text format, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from nqg.errors import FormatError, NqgError
from nqg.types.target_grammar import (
    Category,
    Production,
    TargetGrammar,
    Wildcard,
    format_target_symbol,
)
from strategies import target_grammars, tokens

FUNQL = """
# a few shapes of FunQL
<query> ::= answer ( <set> )

<set>   ::= state ( all ) | <relation> ( <set> ) | intersection ( <set> , <set> )
<set>   ::= riverid ( ' <...> ' ) | cityid ( <.> , <.> )
  # two relations
<relation> ::= loc_1 | loc_2
"""
PAGE = Path(__file__).parents[2] / "docs" / "target-grammars.md"


@pytest.fixture(scope="module")
def funql() -> TargetGrammar:
    return TargetGrammar.parse(FUNQL)


# The text format


def test_the_first_left_side_is_the_start_and_lines_add_up(
    funql: TargetGrammar,
) -> None:
    assert funql.start == Category("query")
    assert funql.categories == (
        Category("query"),
        Category("set"),
        Category("relation"),
    )
    assert len(funql.productions) == 8
    assert funql.productions[4] == Production(
        Category("set"), ("riverid", "(", "'", Wildcard.TOKENS, "'", ")")
    )


def test_the_text_form_joins_neighbouring_alternatives_and_drops_comments(
    funql: TargetGrammar,
) -> None:
    assert str(funql) == (
        "<query> ::= answer ( <set> )\n"
        "<set> ::= state ( all ) | <relation> ( <set> ) | intersection ( <set> , <set> )\n"
        "<set> ::= riverid ( ' <...> ' ) | cityid ( <.> , <.> )\n"
        "<relation> ::= loc_1 | loc_2\n"
    )


def test_the_text_form_keeps_the_order_of_productions() -> None:
    text = "<a> ::= x <b>\n<b> ::= y\n<a> ::= z\n"
    assert str(TargetGrammar.parse(text)) == text


@given(target_grammars(terminals=tokens()))
def test_the_text_form_survives_a_round_trip(grammar: TargetGrammar) -> None:
    assert TargetGrammar.parse(str(grammar)) == grammar


@pytest.mark.parametrize(
    "name", ["set", "set_1", "set-1", "table.column", "état", "2", "a:b", "a'"]
)
def test_names_may_hold_more_than_letters(name: str) -> None:
    grammar = TargetGrammar.parse(f"<{name}> ::= x")
    assert grammar.start.name == name
    assert TargetGrammar.parse(str(grammar)) == grammar


@pytest.mark.parametrize(
    "token", ["<", ">", "<>", "<=", ">=", "a<b>", "||", "::", "\\", "\\x", "NT_1", "a#"]
)
def test_tokens_that_only_resemble_the_notation_are_plain_terminals(token: str) -> None:
    assert format_target_symbol(token) == token
    assert TargetGrammar.parse(f"<s> ::= {token}").accepts([token])


@pytest.mark.parametrize(
    "token", ["|", "::=", "<s>", "<.>", "<...>", "<#>", "<'>", "#", "#5", "\\|", "<=>"]
)
def test_tokens_of_the_notation_are_terminals_after_a_backslash(token: str) -> None:
    grammar = TargetGrammar.parse(f"<s> ::= x \\{token}")
    assert grammar.accepts(["x", token])
    assert not grammar.accepts(["x", "\\" + token])
    assert not grammar.accepts(["x", "y"])


def test_a_file_gives_back_the_grammar_that_was_written(
    tmp_path: Path, funql: TargetGrammar
) -> None:
    for name in ("funql.grammar", "funql.grammar.gz"):
        funql.write(tmp_path / name)
        assert TargetGrammar.read(tmp_path / name) == funql


def test_windows_line_ends_and_a_byte_order_mark_are_no_symbols(tmp_path: Path) -> None:
    path = tmp_path / "windows.grammar"
    path.write_bytes("\ufeff<s> ::= x\r\n<s> ::= y\r\n".encode())
    assert TargetGrammar.read(path) == TargetGrammar.parse("<s> ::= x | y")
    assert TargetGrammar.parse("<s> ::= x\r\n<s> ::= y") == TargetGrammar.parse(
        "<s> ::= x | y"
    )


MALFORMED = {
    "no definition": (
        "answer ( <set> )",
        "expected '<name> ::= symbols', found no '::=' in 'answer ( <set> )'",
    ),
    "glued definition": (
        "<a>::=x",
        "expected '<name> ::= symbols', found no '::=' in '<a>::=x'",
    ),
    "left side a terminal": (
        "set ::= x",
        "expected one non-terminal <name> before '::=', found 'set'",
    ),
    "left side of two": (
        "<a> <b> ::= x",
        "expected one non-terminal <name> before '::=', found '<a> <b>'",
    ),
    "no left side": (
        "::= x",
        "expected one non-terminal <name> before '::=', found ''",
    ),
    "left side a wildcard": (
        "<...> ::= x",
        "expected one non-terminal <name> before '::=', found '<...>'",
    ),
    "nothing after": (
        "<a> ::=",
        "<a> has an empty alternative; expected at least one symbol",
    ),
    "empty alternative": (
        "<a> ::= x | | y",
        "<a> has an empty alternative; expected at least one symbol",
    ),
    "bar at the end": (
        "<a> ::= x |",
        "<a> has an empty alternative; expected at least one symbol",
    ),
    "two definitions": (
        "<a> ::= x <b> ::= y",
        r"expected one '::=' a line, found more; the token is written '\::='",
    ),
    "trailing comment": (
        "<a> ::= x # why",
        r"comments stand on lines of their own; the token '#' is written '\#'",
    ),
    "two dots": (
        "<a> ::= <..>",
        r"'<..>' is neither <name> nor a wildcard (<.>, <...>, <#>, <'>, <?>); the token is written '\<..>'",
    ),
    "undefined": (
        "<a> ::= <sett>",
        "no non-terminal 'sett'; did you mean 'set'? Known: a, set",
    ),
    "circle": (
        "<a> ::= x <a>",
        "<a> derives no target: each of its alternatives leads round in a circle",
    ),
    "unary circle": (
        "<a> ::= <a>",
        "<a> derives no target: each of its alternatives leads round in a circle",
    ),
}


@pytest.mark.parametrize(("line", "reason"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_line_is_refused_with_file_line_and_reason(
    line: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.grammar"
    path.write_text(f"# sets\n<set> ::= state | ( <set> )\n\n{line}\n")
    with pytest.raises(FormatError) as refusal:
        TargetGrammar.read(path)
    assert str(refusal.value) == f"{path}:4: {reason}"


def test_a_malformed_text_is_refused_with_its_line() -> None:
    with pytest.raises(FormatError, match=r"^<text>:2: expected '<name> ::= symbols'"):
        TargetGrammar.parse("<a> ::= x\ny")


def test_a_circle_through_several_categories_is_refused_where_it_begins() -> None:
    with pytest.raises(FormatError, match=r"^<text>:2: <b> derives no target"):
        TargetGrammar.parse("<a> ::= x | <b>\n<b> ::= <c> y\n<c> ::= z <b>")


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# nothing but words\n"], ids=["empty", "blank", "comment"]
)
def test_a_file_without_productions_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.grammar"
    path.write_text(text)
    with pytest.raises(FormatError) as refusal:
        TargetGrammar.read(path)
    assert (
        str(refusal.value)
        == f"{path}: expected at least one production '<name> ::= symbols', found none"
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match=r"nowhere\.grammar: no such file"):
        TargetGrammar.read(tmp_path / "nowhere.grammar")


def test_productions_that_do_not_fit_together_are_no_grammar() -> None:
    with pytest.raises(FormatError, match="no non-terminal 'b'"):
        TargetGrammar((Production(Category("a"), (Category("b"),)),))
    with pytest.raises(FormatError, match="expected at least one production"):
        TargetGrammar(())


def test_unreachable_categories_are_allowed_and_reported() -> None:
    grammar = TargetGrammar.parse(
        "<a> ::= x <b>\n<b> ::= y | <b> y\n<lost> ::= <forgotten> <b>\n<forgotten> ::= z"
    )
    assert grammar.unreachable == (Category("lost"), Category("forgotten"))
    assert grammar.accepts(["x", "y"])
    assert TargetGrammar.parse("<a> ::= x <b>\n<b> ::= y | <a>").unreachable == ()


# The page about them


def test_the_page_quotes_the_reasons_as_they_are_given() -> None:
    after = PAGE.read_text().split("one of these reasons:\n\n```text\n")[1]
    quoted = set(after.split("\n```")[0].splitlines())
    assert len(quoted) == 8
    assert quoted <= {reason for _, reason in MALFORMED.values()}
