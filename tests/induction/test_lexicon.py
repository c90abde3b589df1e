"""Lexical candidates: which words and tokens are paired, and what becomes of them in a search."""

from __future__ import annotations

from nqg.data.example import Example
from nqg.induction.corpus import lexical_rules, underivable
from nqg.induction.induce import induce
from nqg.induction.settings import InductionSettings
from nqg.paper.datasets import load_dataset


def paired(*pairs: tuple[str, str]) -> list[str]:
    return [str(rule) for rule in lexical_rules(Example(*pair) for pair in pairs)]


def test_a_word_that_never_stands_alone_is_paired() -> None:
    assert "left ### LEFT" in paired(
        ("turn left", "LEFT"), ("walk left", "LEFT WALK"), ("walk right", "RIGHT WALK")
    )


def test_forms_of_a_word_may_share_a_token() -> None:
    others = [
        (f"she {verb}ed it", f"{verb} ( it )")
        for verb in ("kick", "lift", "heat", "paint", "pull", "push")
    ]
    found = paired(
        ("she gave it", "give ( it )"), ("it was given", "give ( it )"), *others
    )
    assert {"gave ### give", "given ### give"} <= {*found}


def test_what_occurs_with_everything_is_paired_with_nothing() -> None:
    found = paired(
        ("what is a", "answer ( a )"),
        ("what is b", "answer ( b )"),
        ("what is c", "answer ( c )"),
    )
    assert found == ["a ### a", "b ### b", "c ### c"]


def test_punctuation_is_paired_with_nothing() -> None:
    assert paired(("ann ran .", "run ( ann )"), ("ann", "ann")) == ["ran ### run"]


def test_of_two_tokens_that_fit_equally_well_neither_is_taken() -> None:
    assert paired(("go", "left right"), ("stop", "halt")) == ["stop ### halt"]


def test_a_rare_form_of_a_word_is_paired_with_the_token_that_begins_like_it() -> None:
    pairs = [
        (f"is {each} a capital", f"capital ( {each} )")
        for each in ("rome", "oslo", "bonn", "bern", "kiev")
    ]
    found = paired(
        *pairs, ("name two capitals", "two ( capital ( all ) )"), ("name", "name")
    )
    assert "capitals ### capital" in found


def test_a_word_is_paired_with_every_token_that_begins_like_it_in_a_quarter_of_its_examples() -> (
    None
):
    pairs = [
        (f"largest {each}", f"largest ( {each} )") for each in ("city", "lake", "town")
    ]
    by_population = ("largest state by people", "largest_one ( people , state )")
    senses = {"largest ### largest", "largest ### largest_one"}
    assert senses <= {*paired(*pairs, by_population, ("state", "state"))}
    assert senses & {
        *paired(*pairs, ("largest river", "largest ( river )"), by_population)
    } == {"largest ### largest"}


def test_such_a_rule_stays_although_no_example_needs_it() -> None:
    pairs = [
        Example(f"border of {each}", f"border ( {each} )")
        for each in ("ohio", "utah", "iowa")
    ]
    pairs += [
        Example(f"what borders {each}", f"border ( {each} )")
        for each in ("ohio", "utah", "iowa")
    ]
    grammar = str(induce(pairs, InductionSettings(shortest=500, lexical=True)))
    assert "borders ### border" in grammar


def test_a_word_that_only_a_whole_example_has_keeps_its_rule() -> None:
    pairs = [
        Example("shark", "LAMBDA a . shark ( a )"),
        Example("a dog ran", "run ( dog )"),
    ]
    pairs += [
        Example(f"a {animal} ran", f"run ( {animal} )") for animal in ("cat", "fox")
    ]
    settings = InductionSettings(shortest=500)
    for lexical in (True, False):
        assert (
            "shark ### shark" in str(induce(pairs, settings.changed(lexical=lexical)))
        ) is lexical


def test_left_gets_a_rule_of_its_own_and_so_around_right_is_understood() -> None:
    train, test = load_dataset("scan").split("around-right")
    grammar = induce(train, InductionSettings.automatic())
    assert "left ### I_TURN_LEFT" in {str(rule) for rule in grammar}
    assert len(grammar) <= 16
    assert not underivable(grammar, test[:500])
