"""What the recogniser of a target grammar accepts, explains and expects, beside brute force."""

from __future__ import annotations

import pickle
import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqg.errors import FormatError
from nqg.types.target_grammar import TargetGrammar, Wildcard
from oracles import derives_target, prefix_productions, target_languages
from strategies import random_target, target_grammars

FUNQL = """
# a few shapes of FunQL
<query> ::= answer ( <set> )

<set>   ::= state ( all ) | <relation> ( <set> ) | intersection ( <set> , <set> )
<set>   ::= riverid ( ' <...> ' ) | cityid ( <.> , <.> )
  # two relations
<relation> ::= loc_1 | loc_2
"""
ALPHABET = ("a", "b", "unknown", "7", "'")
BRACKETS = TargetGrammar.parse("<s> ::= ( ) | ( <s> ) | <s> <s>")


@pytest.fixture(scope="module")
def funql() -> TargetGrammar:
    return TargetGrammar.parse(FUNQL)


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
def test_illegal_targets_are_explained(
    target: str, explanation: str, funql: TargetGrammar
) -> None:
    verdict = funql.explain(target.split())
    assert not verdict.accepted
    assert not funql.accepts(target.split())
    assert str(verdict) == explanation


def test_a_string_is_not_mistaken_for_its_characters(funql: TargetGrammar) -> None:
    with pytest.raises(
        FormatError, match=r"expected a sequence of tokens, found the string 'answer \("
    ):
        funql.accepts("answer ( state ( all ) )")


def test_long_lists_of_expected_tokens_are_cut_with_their_number() -> None:
    grammar = TargetGrammar.parse(
        "<s> ::= " + " | ".join(f"t{number}" for number in range(10, 30)) + " | t10 <s>"
    )
    expected = "'t10', 't11', 't12', 't13', 't14', 't15', 't16', 't17'"
    assert (
        str(grammar.explain(["x"]))
        == f"illegal from the first token: expected {expected} or 12 more, found 'x'"
    )
    assert str(grammar.explain(["t10", "x"])).endswith(
        f"expected {expected}, the end or 12 more, found 'x'"
    )


def test_a_wildcard_for_tokens_takes_one_or_more_and_may_stand_anywhere() -> None:
    grammar = TargetGrammar.parse("<s> ::= <...> , <...>")
    assert grammar.accepts(_words(", , ,"))
    assert grammar.accepts(_words("a b , c"))
    assert not grammar.accepts(_words(", b"))
    assert not grammar.accepts(_words("a b ,"))
    assert grammar.explain(["a"]).expected == grammar.explain(["a", "b"]).expected


def test_a_wildcard_for_one_token_takes_one() -> None:
    grammar = TargetGrammar.parse("<s> ::= x <.> y")
    assert grammar.accepts(["x", "y", "y"])
    assert not grammar.accepts(["x", "y"])
    assert not grammar.accepts(["x", "new", "new", "y"])


def test_numbers_and_tokens_that_are_not_quotation_marks_have_wildcards() -> None:
    grammar = TargetGrammar.parse("<s> ::= limit <#> | ' <t> '\n<t> ::= <'> | <t> <'>")
    assert grammar.accepts(_words("limit -1.5"))
    assert str(grammar.explain(_words("limit where"))).endswith(
        "expected a number, found 'where'"
    )
    assert grammar.accepts(_words("' st . 7 '"))
    assert not grammar.accepts(_words("' a ' and b = ' c '"))
    assert str(grammar.explain(_words("' a"))).endswith(
        "expected ''' or any token but a quotation mark"
    )


def test_a_unary_cycle_ends() -> None:
    grammar = TargetGrammar.parse("<a> ::= <b>\n<b> ::= <c> | x\n<c> ::= <a> | <a> <a>")
    assert grammar.accepts(["x"] * 7)
    assert not grammar.accepts(["x", "y"])


@settings(max_examples=150, deadline=None)
@given(target_grammars())
def test_exactly_the_strings_of_the_language_are_accepted(
    grammar: TargetGrammar,
) -> None:
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
        legal = max(
            length for length in range(len(string) + 1) if string[:length] in prefixes
        )
        following = {
            token for token in ALPHABET if (*string[:legal], token) in prefixes
        }
        assert verdict.legal_tokens == legal
        assert {
            token for token in ALPHABET if verdict.expected.allows(token)
        } == following
        is_any = (
            verdict.expected.any_token
            or Wildcard.NEW_TOKEN in verdict.expected.wildcards
        )
        assert is_any if following == set(ALPHABET) else not verdict.expected.any_token
        assert verdict.expected.end == (string[:legal] in language)


@settings(max_examples=100, deadline=None)
@given(
    target_grammars(wildcards=False, recursive=False), st.randoms(use_true_random=False)
)
def test_a_prefix_is_legal_exactly_when_some_target_starts_with_it(
    grammar: TargetGrammar, rng: random.Random
) -> None:
    language = sorted(
        target_languages(grammar.productions, ALPHABET, longest=16)[grammar.start]
    )
    for string in rng.sample(language, min(10, len(language))):
        near_miss = [
            token if rng.random() < 0.8 else rng.choice(ALPHABET) for token in string
        ]
        expected_legal = max(_shared_length(near_miss, other) for other in language)
        assert grammar.explain(near_miss).legal_tokens == expected_legal
        assert grammar.accepts(near_miss) == (tuple(near_miss) in set(language))


@settings(max_examples=100, deadline=None)
@given(target_grammars(), st.integers(5, 16), st.randoms(use_true_random=False))
def test_long_targets_and_their_near_misses_are_judged_as_by_brute_force(
    grammar: TargetGrammar, size: int, rng: random.Random
) -> None:
    target = random_target(grammar, size, rng)
    assert grammar.accepts(target)
    for near_miss in _near_misses(target, rng):
        assert grammar.accepts(near_miss) == derives_target(
            grammar.productions, grammar.start, near_miss
        )


# Growing beyond any first size


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("()"), max_size=12), st.integers(0, 150))
def test_brackets_of_any_length_are_judged_as_counting_judges_them(
    middle: list[str], depth: int
) -> None:
    target = ["("] * depth + middle + [")"] * depth
    opened = _open_brackets(target)
    legal = next(
        (place for place, count in enumerate(opened) if count < 0), len(target)
    )
    verdict = BRACKETS.explain(target)
    assert verdict.legal_tokens == legal
    assert verdict.accepted == (legal == len(target) > 0 and opened[-1] == 0)
    assert verdict.expected.allows(")") == (
        legal > 0 and _open_brackets(target[:legal])[-1] > 0
    )


def test_two_hundred_tokens_of_a_highly_ambiguous_grammar_are_accepted() -> None:
    grammar = TargetGrammar.parse("<s> ::= <s> <s> | a")
    assert grammar.accepts(["a"] * 200)
    assert grammar.explain(["a"] * 199 + ["b"]).legal_tokens == 199


@pytest.mark.parametrize(
    "text", ["<s> ::= <s> a | a", "<s> ::= a <s> | a", "<s> ::= a <s> a | a"]
)
def test_recursion_of_every_kind_goes_deep(text: str) -> None:
    grammar = TargetGrammar.parse(text)
    assert grammar.accepts(["a"] * 2001)
    assert not grammar.accepts(["a"] * 2000 + ["b"])


RECURSIVE = {
    "to the right": ("<s> ::= a | a <s>", "a", ""),
    "to the left": ("<s> ::= a | <s> a", "a", ""),
    "of a list": (
        "<s> ::= ( <list> )\n<list> ::= <item> | <item> , <list>\n<item> ::= a | ( <list> )",
        "a ,",
        "( ; a )",
    ),
    "of conditions": (
        "<s> ::= where <c>\n<c> ::= <p> | <p> and <c> | <p> or <c>\n<p> ::= a = b",
        "a = b and",
        "where ; a = b",
    ),
    "through others": ("<s> ::= a <t>\n<t> ::= <u>\n<u> ::= b <s> | b", "a b", ""),
    "of two kinds": ("<s> ::= a <s> | a <t>\n<t> ::= b <t> | b", "a", "; b b"),
}


@pytest.mark.parametrize(("text", "part", "around"), RECURSIVE.values(), ids=RECURSIVE)
def test_the_work_at_a_token_does_not_grow_with_the_tokens_before_it(
    text: str, part: str, around: str
) -> None:
    grammar = TargetGrammar.parse(text)
    before, _, after = around.partition(";")
    sizes = []
    for times in (20, 400):
        prefix = grammar.prefix([*_words(before), *_words(part) * times])
        assert prefix is not None
        whole = grammar.prefix([*_words(before), *_words(part) * times, *_words(after)])
        assert whole is not None
        assert whole.expected.end
        sizes.append((len(prefix.chart.items), len(whole.chart.items)))
    assert sizes[0] == sizes[1]


def test_a_grammar_may_have_thousands_of_categories_and_tokens() -> None:
    lines = [
        f"<c{number}> ::= t{number} <c{number + 1}> | u{number} <c{number + 1}>"
        for number in range(3000)
    ]
    grammar = TargetGrammar.parse("\n".join([*lines, "<c3000> ::= end"]))
    assert grammar.accepts([*(f"t{number}" for number in range(3000)), "end"])
    assert (
        str(grammar.explain(["t0", "t2"]))
        == "legal up to token 1 't0', expected 't1' or 'u1', found 't2'"
    )


# From token to token


STRINGS = st.lists(st.sampled_from(ALPHABET), max_size=6)


@settings(max_examples=100, deadline=None)
@given(target_grammars(), STRINGS)
def test_reading_token_by_token_equals_reading_at_once(
    grammar: TargetGrammar, string: list[str]
) -> None:
    prefix = grammar.prefix()
    for length in range(1, len(string) + 1):
        prefix = prefix and prefix.then(string[length - 1])
        verdict = grammar.explain(string[:length])
        assert (prefix is None) == (verdict.legal_tokens < length)
        assert prefix is None or prefix.expected == verdict.expected


def test_a_prefix_never_changes_so_that_beams_may_share_it(
    funql: TargetGrammar,
) -> None:
    shared = funql.prefix(_words("answer ( intersection ( state ( all ) ,"))
    assert shared is not None
    before = shared.expected
    beams = [shared, shared]
    rests = [
        _words("loc_1 ( state ( all ) ) ) )"),
        _words("intersection ( state ( all ) , state ( all ) ) ) )"),
    ]
    for step in range(max(map(len, rests))):
        for number, rest in enumerate(rests):
            longer = (
                beams[number].then(rest[step]) if step < len(rest) else beams[number]
            )
            assert longer is not None
            beams[number] = longer
    assert all(beam.expected.end for beam in beams)
    assert [beam.chart.position - shared.chart.position for beam in beams] == [
        len(rest) for rest in rests
    ]
    assert shared.expected == before
    assert shared.then("answer") is None


def test_what_is_expected_says_tokens_wildcards_and_the_end() -> None:
    grammar = TargetGrammar.parse("<s> ::= a | a <.> | a b <s>")
    expected = grammar.explain(["a"]).expected
    assert (expected.tokens, expected.any_token, expected.end) == (("b",), True, True)
    assert expected.allows("whatever")
    assert grammar.prefix(["b"]) is None


def test_a_grammar_travels_to_worker_processes_before_and_after_use(
    funql: TargetGrammar,
) -> None:
    fresh = pickle.loads(pickle.dumps(TargetGrammar.parse(FUNQL)))
    used = pickle.loads(pickle.dumps(funql))
    assert fresh == used == funql
    assert used.accepts(_words("answer ( state ( all ) )"))


def _near_misses(target: list[str], rng: random.Random) -> list[list[str]]:
    """The target with one token changed, one left out, and two neighbours swapped."""
    place = rng.randrange(len(target))
    before, token, after = target[:place], target[place], target[place + 1 :]
    return [
        [*before, rng.choice(ALPHABET), *after],
        [*before, *after],
        [*before, *after[:1], token, *after[1:]],
    ]


def _words(text: str) -> list[str]:
    return text.split()


def _strings(longest: int) -> list[tuple[str, ...]]:
    return [
        string
        for length in range(longest + 1)
        for string in product(ALPHABET, repeat=length)
    ]


def _shared_length(left: list[str], right: tuple[str, ...]) -> int:
    differing = (
        place
        for place, (one, other) in enumerate(zip(left, right, strict=False))
        if one != other
    )
    return next(differing, min(len(left), len(right)))


def _open_brackets(target: list[str]) -> list[int]:
    """How many brackets are open after each token."""
    return [
        target[: end + 1].count("(") - target[: end + 1].count(")")
        for end in range(len(target))
    ]
