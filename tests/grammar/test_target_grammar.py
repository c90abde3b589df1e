"""Target grammars: their text format, and what their recogniser accepts, explains and expects."""

from __future__ import annotations

import doctest
import pickle
import random
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqg.errors import FormatError, NqgError
from nqg.grammar.production import Category, Production, Wildcard, read_symbol, spelled
from nqg.grammar.target_grammar import TargetGrammar
from oracles import prefix_productions, target_languages
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
ALPHABET = ("a", "b", "unknown")
BRACKETS = TargetGrammar.parse("<s> ::= ( ) | ( <s> ) | <s> <s>")


@pytest.fixture(scope="module")
def funql() -> TargetGrammar:
    return TargetGrammar.parse(FUNQL)


# The text format


def test_the_first_left_side_is_the_start_and_lines_add_up(funql: TargetGrammar) -> None:
    assert funql.start == Category("query")
    assert funql.categories == (Category("query"), Category("set"), Category("relation"))
    assert len(funql.productions) == 8
    assert funql.productions[4] == Production(Category("set"), ("riverid", "(", "'", Wildcard.TOKENS, "'", ")"))


def test_the_text_form_joins_neighbouring_alternatives_and_drops_comments(funql: TargetGrammar) -> None:
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


@given(tokens())
def test_every_token_can_be_spelled_as_a_terminal(token: str) -> None:
    assert read_symbol(spelled(token)) == token


@pytest.mark.parametrize("name", ["set", "set_1", "set-1", "table.column", "état", "2", "a:b", "a'"])
def test_names_may_hold_more_than_letters(name: str) -> None:
    grammar = TargetGrammar.parse(f"<{name}> ::= x")
    assert grammar.start.name == name
    assert TargetGrammar.parse(str(grammar)) == grammar


@pytest.mark.parametrize("token", ["<", ">", "<>", "<=", ">=", "a<b>", "||", "::", "\\", "\\x", "NT_1", "a#"])
def test_tokens_that_only_resemble_the_notation_are_plain_terminals(token: str) -> None:
    assert spelled(token) == token
    assert TargetGrammar.parse(f"<s> ::= {token}").accepts([token])


@pytest.mark.parametrize("token", ["|", "::=", "<s>", "<.>", "<...>", "#", "#5", "\\|", "<=>"])
def test_tokens_of_the_notation_are_terminals_after_a_backslash(token: str) -> None:
    grammar = TargetGrammar.parse(f"<s> ::= x \\{token}")
    assert grammar.accepts(["x", token])
    assert not grammar.accepts(["x", "\\" + token])
    assert not grammar.accepts(["x", "y"])


def test_a_file_gives_back_the_grammar_that_was_written(tmp_path: Path, funql: TargetGrammar) -> None:
    for name in ("funql.grammar", "funql.grammar.gz"):
        funql.write(tmp_path / name)
        assert TargetGrammar.read(tmp_path / name) == funql


def test_windows_line_ends_and_a_byte_order_mark_are_no_symbols(tmp_path: Path) -> None:
    path = tmp_path / "windows.grammar"
    path.write_bytes("\ufeff<s> ::= x\r\n<s> ::= y\r\n".encode())
    assert TargetGrammar.read(path) == TargetGrammar.parse("<s> ::= x | y")
    assert TargetGrammar.parse("<s> ::= x\r\n<s> ::= y") == TargetGrammar.parse("<s> ::= x | y")


MALFORMED = {
    "no definition": ("answer ( <set> )", "expected '<name> ::= symbols', found no '::=' in 'answer ( <set> )'"),
    "glued definition": ("<a>::=x", "expected '<name> ::= symbols', found no '::=' in '<a>::=x'"),
    "left side a terminal": ("set ::= x", "expected one non-terminal <name> before '::=', found 'set'"),
    "left side of two": ("<a> <b> ::= x", "expected one non-terminal <name> before '::=', found '<a> <b>'"),
    "no left side": ("::= x", "expected one non-terminal <name> before '::=', found ''"),
    "left side a wildcard": ("<...> ::= x", "expected one non-terminal <name> before '::=', found '<...>'"),
    "nothing after": ("<a> ::=", "<a> has an empty alternative; expected at least one symbol"),
    "empty alternative": ("<a> ::= x | | y", "<a> has an empty alternative; expected at least one symbol"),
    "bar at the end": ("<a> ::= x |", "<a> has an empty alternative; expected at least one symbol"),
    "two definitions": ("<a> ::= x <b> ::= y", r"expected one '::=' a line, found more; the token is written '\::='"),
    "trailing comment": ("<a> ::= x # why", r"comments stand on lines of their own; the token '#' is written '\#'"),
    "two dots": ("<a> ::= <..>", r"'<..>' is neither <name> nor a wildcard (<.>, <...>); the token is written '\<..>'"),
    "undefined": ("<a> ::= <sett>", "no non-terminal 'sett'; did you mean 'set'? Known: a, set"),
    "circle": ("<a> ::= x <a>", "<a> derives no target: each of its alternatives leads round in a circle"),
    "unary circle": ("<a> ::= <a>", "<a> derives no target: each of its alternatives leads round in a circle"),
}


@pytest.mark.parametrize(("line", "reason"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_line_is_refused_with_file_line_and_reason(line: str, reason: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing but words\n"], ids=["empty", "blank", "comment"])
def test_a_file_without_productions_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.grammar"
    path.write_text(text)
    with pytest.raises(FormatError) as refusal:
        TargetGrammar.read(path)
    assert str(refusal.value) == f"{path}: expected at least one production '<name> ::= symbols', found none"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match=r"nowhere\.grammar: no such file"):
        TargetGrammar.read(tmp_path / "nowhere.grammar")


def test_constructors_refuse_what_no_file_could_hold() -> None:
    with pytest.raises(FormatError, match="'<a b>' is no non-terminal"):
        Category("a b")
    with pytest.raises(FormatError, match=r"'<\.\.\.>' is no non-terminal"):
        Category("...")
    with pytest.raises(FormatError, match="<a> has an empty alternative"):
        Production(Category("a"), ())
    with pytest.raises(FormatError, match="terminal 'two words' is empty or holds white space"):
        Production(Category("a"), ("two words",))
    with pytest.raises(FormatError, match="no non-terminal 'b'"):
        TargetGrammar((Production(Category("a"), (Category("b"),)),))


def test_unreachable_categories_are_allowed_and_reported() -> None:
    grammar = TargetGrammar.parse("<a> ::= x <b>\n<b> ::= y | <b> y\n<lost> ::= <forgotten> <b>\n<forgotten> ::= z")
    assert grammar.unreachable == (Category("lost"), Category("forgotten"))
    assert grammar.accepts(["x", "y"])
    assert TargetGrammar.parse("<a> ::= x <b>\n<b> ::= y | <a>").unreachable == ()


# Accepting


@pytest.mark.parametrize(
    "target",
    [
        "answer ( state ( all ) )",
        "answer ( loc_1 ( loc_2 ( state ( all ) ) ) )",
        "answer ( intersection ( state ( all ) , loc_2 ( riverid ( ' north platte ' ) ) ) )",
        "answer ( riverid ( ' ' ' ) )",
        "answer ( cityid ( 'austin' , _ ) )",
    ],
)
def test_legal_targets_are_accepted(target: str, funql: TargetGrammar) -> None:
    assert funql.accepts(target.split())
    assert str(funql.explain(target.split())) == "legal"


@pytest.mark.parametrize(
    ("target", "explanation"),
    {
        "": "legal so far, but it ends too early: expected 'answer'",
        "state": "illegal from the first token: expected 'answer', found 'state'",
        "answer ( loc_2 state": "legal up to token 3 'loc_2', expected '(', found 'state'",
        "answer ( state ( all": "legal so far, but it ends too early: expected ')'",
        "answer ( loc_1 ( all ) )": (
            "legal up to token 4 '(', expected 'cityid', 'intersection', 'loc_1', 'loc_2', 'riverid' or 'state', "
            "found 'all'"
        ),
        "answer ( intersection ( state ( all ) ) )": "legal up to token 8 ')', expected ',', found ')'",
        "answer ( state ( all ) ) )": "legal up to token 7 ')', expected the end, found ')'",
        "answer ( riverid ( '": "legal so far, but it ends too early: expected any token",
        "answer ( riverid ( ' ' ) )": "legal so far, but it ends too early: expected any token",
    }.items(),
)
def test_illegal_targets_are_explained(target: str, explanation: str, funql: TargetGrammar) -> None:
    verdict = funql.explain(target.split())
    assert not verdict.accepted
    assert not funql.accepts(target.split())
    assert str(verdict) == explanation


def test_a_string_is_not_mistaken_for_its_characters(funql: TargetGrammar) -> None:
    with pytest.raises(FormatError, match=r"expected a sequence of tokens, found the string 'answer \("):
        funql.accepts("answer ( state ( all ) )")


def test_long_lists_of_expected_tokens_are_cut_with_their_number() -> None:
    grammar = TargetGrammar.parse("<s> ::= " + " | ".join(f"t{number}" for number in range(10, 30)) + " | t10 <s>")
    expected = "'t10', 't11', 't12', 't13', 't14', 't15', 't16', 't17'"
    assert str(grammar.explain(["x"])) == f"illegal from the first token: expected {expected} or 12 more, found 'x'"
    assert str(grammar.explain(["t10", "x"])).endswith(f"expected {expected}, the end or 12 more, found 'x'")


def test_a_wildcard_for_tokens_takes_one_or_more_and_may_stand_anywhere() -> None:
    grammar = TargetGrammar.parse("<s> ::= <...> , <...>")
    assert grammar.accepts(_words(", , ,"))
    assert grammar.accepts(_words("a b , c"))
    assert not grammar.accepts(_words(", b"))
    assert not grammar.accepts(_words("a b ,"))
    assert grammar.expected_next(["a"]) == grammar.expected_next(["a", "b"])


def test_a_wildcard_for_one_token_takes_one() -> None:
    grammar = TargetGrammar.parse("<s> ::= x <.> y")
    assert grammar.accepts(["x", "y", "y"])
    assert not grammar.accepts(["x", "y"])
    assert not grammar.accepts(["x", "new", "new", "y"])


def test_a_unary_cycle_ends() -> None:
    grammar = TargetGrammar.parse("<a> ::= <b>\n<b> ::= <c> | x\n<c> ::= <a> | <a> <a>")
    assert grammar.accepts(["x"] * 7)
    assert not grammar.accepts(["x", "y"])


@settings(max_examples=150, deadline=None)
@given(target_grammars())
def test_exactly_the_strings_of_the_language_are_accepted(grammar: TargetGrammar) -> None:
    language = target_languages(grammar.productions, ALPHABET, longest=4)[grammar.start]
    assert {string for string in _strings(4) if grammar.accepts(string)} == language


@settings(max_examples=150, deadline=None)
@given(target_grammars())
def test_legal_and_expected_tokens_equal_brute_force(grammar: TargetGrammar) -> None:
    language = target_languages(grammar.productions, ALPHABET, longest=4)[grammar.start]
    cut = prefix_productions(grammar.productions)
    prefixes = target_languages(cut, ALPHABET, longest=4)[cut[0].left] | {()}
    for string in _strings(3):
        verdict = grammar.explain(string)
        legal = max(length for length in range(len(string) + 1) if string[:length] in prefixes)
        following = {token for token in ALPHABET if (*string[:legal], token) in prefixes}
        assert verdict.legal_tokens == legal
        assert {token for token in ALPHABET if verdict.expected.allows(token)} == following
        assert verdict.expected.any_token == ("unknown" in following)
        assert verdict.expected.end == (string[:legal] in language)


@settings(max_examples=100, deadline=None)
@given(target_grammars(wildcards=False, recursive=False), st.randoms(use_true_random=False))
def test_a_prefix_is_legal_exactly_when_some_target_starts_with_it(grammar: TargetGrammar, rng: random.Random) -> None:
    language = sorted(target_languages(grammar.productions, ALPHABET, longest=16)[grammar.start])
    for string in rng.sample(language, min(10, len(language))):
        near_miss = [token if rng.random() < 0.8 else rng.choice(ALPHABET) for token in string]
        expected_legal = max(_shared_length(near_miss, other) for other in language)
        assert grammar.explain(near_miss).legal_tokens == expected_legal
        assert grammar.accepts(near_miss) == (tuple(near_miss) in set(language))


# Growing beyond any first size


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("()"), max_size=12), st.integers(0, 150))
def test_brackets_of_any_length_are_judged_as_counting_judges_them(middle: list[str], depth: int) -> None:
    target = ["("] * depth + middle + [")"] * depth
    opened = _open_brackets(target)
    legal = next((place for place, count in enumerate(opened) if count < 0), len(target))
    verdict = BRACKETS.explain(target)
    assert verdict.legal_tokens == legal
    assert verdict.accepted == (legal == len(target) > 0 and opened[-1] == 0)
    assert verdict.expected.allows(")") == (legal > 0 and _open_brackets(target[:legal])[-1] > 0)


def test_two_hundred_tokens_of_a_highly_ambiguous_grammar_are_accepted() -> None:
    grammar = TargetGrammar.parse("<s> ::= <s> <s> | a")
    assert grammar.accepts(["a"] * 200)
    assert grammar.explain(["a"] * 199 + ["b"]).legal_tokens == 199


@pytest.mark.parametrize("text", ["<s> ::= <s> a | a", "<s> ::= a <s> | a", "<s> ::= a <s> a | a"])
def test_recursion_of_every_kind_goes_deep(text: str) -> None:
    grammar = TargetGrammar.parse(text)
    assert grammar.accepts(["a"] * 2001)
    assert not grammar.accepts(["a"] * 2000 + ["b"])


def test_a_grammar_may_have_thousands_of_categories_and_tokens() -> None:
    lines = [f"<c{number}> ::= t{number} <c{number + 1}> | u{number} <c{number + 1}>" for number in range(3000)]
    grammar = TargetGrammar.parse("\n".join([*lines, "<c3000> ::= end"]))
    assert grammar.accepts([*(f"t{number}" for number in range(3000)), "end"])
    assert str(grammar.explain(["t0", "t2"])) == "legal up to token 1 't0', expected 't1' or 'u1', found 't2'"


# From token to token


STRINGS = st.lists(st.sampled_from(ALPHABET), max_size=6)


@settings(max_examples=100, deadline=None)
@given(target_grammars(), STRINGS)
def test_reading_token_by_token_equals_reading_at_once(grammar: TargetGrammar, string: list[str]) -> None:
    prefix = grammar.prefix()
    for length in range(1, len(string) + 1):
        prefix = prefix and prefix.then(string[length - 1])
        assert (prefix and prefix.expected) == grammar.expected_next(string[:length])
        assert (prefix is None) == (grammar.explain(string[:length]).legal_tokens < length)
        assert prefix is None or prefix.may_end == grammar.accepts(string[:length])


def test_a_prefix_never_changes_so_that_beams_may_share_it(funql: TargetGrammar) -> None:
    shared = funql.prefix(_words("answer ( intersection ( state ( all ) ,"))
    assert shared is not None
    before = shared.expected
    beams = [shared, shared]
    rests = [_words("loc_1 ( state ( all ) ) ) )"), _words("intersection ( state ( all ) , state ( all ) ) ) )")]
    for step in range(max(map(len, rests))):
        for number, rest in enumerate(rests):
            longer = beams[number].then(rest[step]) if step < len(rest) else beams[number]
            assert longer is not None
            beams[number] = longer
    assert all(beam.may_end for beam in beams)
    assert [beam.length - shared.length for beam in beams] == [len(rest) for rest in rests]
    assert shared.expected == before
    assert shared.then("answer") is None


def test_what_is_expected_says_tokens_wildcards_and_the_end() -> None:
    grammar = TargetGrammar.parse("<s> ::= a | a <.> | a b <s>")
    expected = grammar.expected_next(["a"])
    assert expected is not None
    assert (expected.tokens, expected.any_token, expected.end) == (("b",), True, True)
    assert expected.allows("whatever")
    assert grammar.expected_next(["b"]) is None


def test_a_grammar_travels_to_worker_processes_before_and_after_use(funql: TargetGrammar) -> None:
    fresh = pickle.loads(pickle.dumps(TargetGrammar.parse(FUNQL)))
    used = pickle.loads(pickle.dumps(funql))
    assert fresh == used == funql
    assert used.accepts(_words("answer ( state ( all ) )"))


# The page about them


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grammar, _ = PAGE.read_text().split("```text\n")[1].split("```", maxsplit=1)
    (tmp_path / "reduced.grammar").write_text(grammar)
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.failed == 0
    assert result.attempted >= 10


def test_the_page_quotes_the_reasons_as_they_are_given() -> None:
    rows = PAGE.read_text().split("| mistake | reason given |")[1].split("\n\n")[0].splitlines()[2:]
    quoted = {row.split("`")[-2] for row in rows}
    assert len(quoted) == 8
    assert quoted <= {reason for _, reason in MALFORMED.values()}


def _words(text: str) -> list[str]:
    return text.split()


def _strings(longest: int) -> list[tuple[str, ...]]:
    return [string for length in range(longest + 1) for string in product(ALPHABET, repeat=length)]


def _shared_length(left: list[str], right: tuple[str, ...]) -> int:
    differing = (place for place, (one, other) in enumerate(zip(left, right, strict=False)) if one != other)
    return next(differing, min(len(left), len(right)))


def _open_brackets(target: list[str]) -> list[int]:
    """How many brackets are open after each token."""
    return [target[: end + 1].count("(") - target[: end + 1].count(")") for end in range(len(target))]
