"""Words that a construction always has belong to its rule; words that may be missing are erased."""

from __future__ import annotations

import pytest

from nqg import Example, Grammar
from nqg.grammar.grammar import Rule
from nqg.induction.induce import underivable_examples
from nqg.induction.obligatory import composed, erased_words, with_obligatory_words

NOUNS = ("cat", "dog", "cake", "frog")
ERASING = Grammar.parse(
    "NT_1 painted ### paint ( agent = NT_1 )\n"
    "NT_1 painted by NT_2 ### paint ( theme = NT_1 , agent = NT_2 )\n"
    "NT_1 was ### NT_1\nthe NT_1 ### NT_1\n"
    + "\n".join(f"{noun} ### {noun}" for noun in NOUNS)
)


def examples() -> list[Example]:
    pairs = []
    for noun in NOUNS:
        active = f"paint ( agent = {noun} )"
        passive = f"paint ( theme = {noun} , agent = cat )"
        pairs.append(Example(f"{noun} painted", active))
        pairs.append(Example(f"the {noun} painted", active))
        pairs.append(Example(f"{noun} was painted by cat", passive))
        pairs.append(Example(f"the {noun} was painted by the cat", passive))
    return pairs


def test_an_obligatory_word_joins_its_construction_and_an_optional_one_does_not() -> (
    None
):
    found = with_obligatory_words(ERASING, examples())
    assert (
        Rule.parse("NT_1 was painted by NT_2 ### paint ( theme = NT_1 , agent = NT_2 )")
        in found
    )
    assert not any("was" in erased_words(rule) for rule in found)
    assert Rule.parse("the NT_1 ### NT_1") in found
    assert not list(underivable_examples(found, examples()))


def test_nothing_else_has_the_word_any_more() -> None:
    found = with_obligatory_words(ERASING, examples())
    wrong = Example("the cake was painted", "paint ( agent = cake )")
    assert not list(underivable_examples(ERASING, [wrong]))
    assert list(underivable_examples(found, [wrong])) == [wrong]


def test_a_word_that_a_construction_may_lack_stays_erased() -> None:
    without = Example("cat painted by dog", "paint ( theme = cat , agent = dog )")
    assert with_obligatory_words(ERASING, [*examples(), without]) == ERASING


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("NT_1 for me ### NT_1", ("for", "me")),
        ("the NT_1 ### * NT_1", ()),
        ("cat ### cat", ()),
    ],
)
def test_erasers_mean_what_their_argument_means(
    rule: str, words: tuple[str, ...]
) -> None:
    assert erased_words(Rule.parse(rule)) == words


def test_words_are_written_where_the_eraser_has_them() -> None:
    rule = Rule.parse("NT_1 gave NT_2 ### give ( NT_2 , NT_1 )")
    eraser = Rule.parse("please NT_1 now ### NT_1")
    expected = "NT_1 gave please NT_2 now ### give ( NT_2 , NT_1 )"
    assert str(composed(rule, 1, eraser)) == expected
