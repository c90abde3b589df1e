"""Candidates of the inside-outside pass, and splits, against the definitions of SPLIT, NEW and ELIM."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nqg.grammar.compilation import kernels_in_one_form
from nqg.grammar.encoding import grammar_arrays
from nqg.grammar.grammar import Rule
from nqg.induction import candidates as module
from nqg.induction.candidates import (
    SpanPair,
    SplitPool,
    SplitSettings,
    all_splits,
    candidates,
)
from nqg.induction.description_length import LabelRule, Labels, TerminalVocabulary
from oracles import (
    Brackets,
    candidates_by_definition,
    derived_targets,
    splits_by_definition,
)
from strategies import composed, related_rules

BRACKETS: Brackets = (("(", ")"),)
VOCABULARY = TerminalVocabulary(("(", ")", "a", "b", "x", "y"))


def label_rules(
    rules: list[Rule], vocabulary: TerminalVocabulary = VOCABULARY
) -> list[LabelRule]:
    return [vocabulary.label_rule(rule) for rule in rules]


def split_settings(
    repeated: bool,
    most: int,
    brackets: Brackets,
    vocabulary: TerminalVocabulary = VOCABULARY,
) -> SplitSettings:
    numbers = vocabulary.numbers
    return SplitSettings(
        repeated,
        most,
        tuple((numbers[left], numbers[right]) for left, right in brackets),
    )


def found_candidates(
    rules: list[Rule],
    *,
    repeated_targets: bool = False,
    max_non_terminals: int = 2,
    brackets: Brackets = (),
) -> list[set[Rule]]:
    vocabulary = TerminalVocabulary.of((), [*rules, Rule(("(",), (")",))])
    labels = label_rules(rules, vocabulary)
    arrays = grammar_arrays(
        [rule.source for rule in labels], [rule.target for rule in labels]
    )
    allowed = split_settings(repeated_targets, max_non_terminals, brackets, vocabulary)
    return [
        {vocabulary.rule(rule) for rule in found}
        for found in candidates(labels, arrays, allowed)
    ]


def parsed(*texts: str) -> list[Rule]:
    return [Rule.parse(text) for text in texts]


@given(
    related_rules(), st.booleans(), st.integers(1, 3), st.sampled_from([(), BRACKETS])
)
@hypothesis_settings(max_examples=200)
def test_the_candidates_of_every_rule_are_those_of_the_definition(
    rules: list[Rule], repeated: bool, most: int, brackets: Brackets
) -> None:
    found = found_candidates(
        rules, repeated_targets=repeated, max_non_terminals=most, brackets=brackets
    )
    for rule, ours in zip(rules, found, strict=True):
        others = [other for other in rules if other != rule]
        expected = candidates_by_definition(
            rule,
            others,
            repeated_targets=repeated,
            max_non_terminals=most,
            brackets=brackets,
        )
        assert set(map(str, ours)) == set(map(str, expected)), str(rule)


@given(related_rules(), st.booleans())
def test_every_candidate_derives_its_rule_together_with_the_others(
    rules: list[Rule], repeated: bool
) -> None:
    for rule, found in zip(
        rules, found_candidates(rules, repeated_targets=repeated), strict=True
    ):
        for candidate in found:
            others = [other for other in rules if other != rule]
            assert rule.target in derived_targets(
                [*others, candidate], len(rule.target)
            )(rule.source)


def splits(rule: Rule, settings: SplitSettings) -> list[tuple[Rule, Rule]]:
    """The outer and the inner rules of all splits, whose bits are checked."""
    labels, pairs = VOCABULARY.label_rule(rule), []
    for table in all_splits(labels, settings, side_bits):
        for index, bits in enumerate(table.bits.ravel()):
            span, substring, factor = table.entry(index)
            sides = labels.leaf_source(), labels.leaf_target()
            split = SpanPair(*sides, *span, *substring).split()
            assert split is not None
            assert bits == rule_bits(split[factor])
            pairs.append((VOCABULARY.rule(split[0]), VOCABULARY.rule(split[1])))
    return pairs


def side_bits(side: Labels) -> float:
    return sum(8.0 if label >= 0 else 1.0 for label in side)


def rule_bits(rule: LabelRule) -> float:
    return side_bits(rule.source) + side_bits(rule.target)


@given(
    related_rules(), st.booleans(), st.integers(1, 3), st.sampled_from([(), BRACKETS])
)
def test_splits_are_those_of_the_definition(
    rules: list[Rule], repeated: bool, most: int, brackets: Brackets
) -> None:
    for rule in rules:
        found = splits(rule, split_settings(repeated, most, brackets))
        expected = splits_by_definition(
            rule, repeated_targets=repeated, max_non_terminals=most, brackets=brackets
        )
        assert set(found) == expected


@given(related_rules(), st.booleans())
def test_the_two_parts_of_a_split_make_the_rule_again(
    rules: list[Rule], repeated: bool
) -> None:
    for rule in rules:
        for outer, inner in splits(rule, split_settings(repeated, 3, ())):
            assert rule in [
                composed(outer, index, inner) for index in range(1, outer.arity + 1)
            ]


def test_all_splits_of_a_rule_are_handed_out_with_their_own_non_terminals() -> None:
    rule = LabelRule((1, -1, 2, -1, 3), (4, -2, 5, -1, 6))
    settings = SplitSettings(max_non_terminals=3)
    expected: set[tuple[LabelRule, LabelRule]] = set()
    for table in all_splits(rule, settings, side_bits):
        for index in range(table.bits.size):
            span, substring, factor = table.entry(index)
            sides = rule.leaf_source(), rule.leaf_target()
            split = SpanPair(*sides, *span, *substring).split()
            assert split is not None
            expected.add((split[factor], split[1 - factor]))
    pool = SplitPool(settings, side_bits, 0.0)
    pool.add(rule)
    pool.threshold = -math.inf
    assert {each[:2] for each in pool.released()} == expected


@given(
    related_rules(),
    st.booleans(),
    st.integers(1, 3),
    st.lists(st.none() | st.integers(0, 9), max_size=20),
)
def test_splits_are_handed_out_in_time(
    rules: list[Rule], repeated: bool, most: int, changes: list[int | None]
) -> None:
    """What was handed out has all splits with a part that saves as much as the level, whatever came and went."""
    settings, labels = split_settings(repeated, most, ()), label_rules(rules)
    pool, in_force, released = (
        SplitPool(settings, side_bits, 0.0),
        set[LabelRule](),
        set[tuple[LabelRule, ...]](),
    )
    for change in (*range(len(rules)), *changes, None, None, None):
        if change is None:
            pool.lower_threshold()
        elif (rule := labels[change % len(labels)]) in in_force:
            pool.remove(rule)
            in_force.remove(rule)
            released = {each for each in released if each[2] != rule}
        else:
            pool.add(rule)
            in_force.add(rule)
        released.update(pool.released())
        everything = {
            (*parts, rule)
            for rule in in_force
            for pair in splits_by_definition(
                VOCABULARY.rule(rule),
                repeated_targets=repeated,
                max_non_terminals=most,
                brackets=(),
            )
            for parts in (label_rules([*pair]), label_rules([*pair[::-1]]))
        }
        assert released <= everything
        for part in {each[0] for each in everything}:
            with_part = {each for each in everything if each[0] == part}
            best = {rule: 0.0 for _, _, rule in with_part}
            for _, companion, rule in with_part:
                best[rule] = max(best[rule], rule_bits(rule) - rule_bits(companion))
            is_due = sum(best.values()) - rule_bits(part) >= pool.threshold
            assert not is_due or with_part <= released


@given(st.lists(related_rules(), min_size=1, max_size=3))
@hypothesis_settings(max_examples=30)
def test_too_little_room_at_first_changes_nothing(sets: list[list[Rule]]) -> None:
    rules = list(dict.fromkeys(rule for one in sets for rule in one))
    expected = found_candidates(rules, repeated_targets=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "INITIAL_CAPACITY", 1)
        patch.setattr(module, "OUTPUT_CAPACITY", 1)
        assert found_candidates(rules, repeated_targets=True) == expected


def test_no_rules_have_no_candidates() -> None:
    assert found_candidates([]) == []


def test_the_example_of_the_paper() -> None:
    largest, state = parsed("largest state ### largest ( state )", "state ### state")
    assert found_candidates([largest, state], brackets=BRACKETS)[0] == {
        Rule.parse("largest NT_1 ### largest ( NT_1 )")
    }


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_plain_and_compiled_kernels_find_the_same_candidates(compiled: bool) -> None:
    rules = parsed("jump twice ### J J", "jump ### J", "walk twice ### W W")
    with kernels_in_one_form(compiled=compiled):
        of_jump, _, of_walk = found_candidates(rules, repeated_targets=True)
    assert Rule.parse("NT_1 twice ### NT_1 NT_1") in of_jump
    assert Rule.parse("NT_1 twice ### NT_1 NT_1") not in of_walk


def test_a_pair_that_a_rule_lacks_to_be_derivable_is_a_candidate() -> None:
    rules = parsed(
        "jump twice after walk ### W J J", "NT_1 after NT_2 ### NT_2 NT_1", "walk ### W"
    )
    assert (
        Rule.parse("jump twice ### J J")
        in found_candidates(rules, repeated_targets=True)[0]
    )


def test_a_pair_is_needed_through_several_rules() -> None:
    rules = parsed(
        "a b c d ### x y z", "a NT_1 ### x NT_1", "NT_1 d ### NT_1 z", "b ### y"
    )
    through_one, through_both = "b c d ### y z", "b c ### y"
    assert {through_one, through_both} <= set(map(str, found_candidates(rules)[0]))


def test_a_string_that_repeats_is_cut_out_of_the_target_only_where_that_is_asked_for() -> (
    None
):
    rules = parsed("jump twice ### J J", "jump ### J")
    assert found_candidates(rules)[0] == set()
    assert found_candidates(rules, repeated_targets=True)[0] == set(
        parsed("NT_1 twice ### NT_1 NT_1")
    )


def test_a_span_that_repeats_is_never_cut_out_of_the_source() -> None:
    assert (
        found_candidates(
            parsed("jump and jump ### J", "jump ### J"), repeated_targets=True
        )[0]
        == set()
    )


def test_strings_that_overlap_are_replaced_from_left_to_right() -> None:
    rules = parsed("a b ### x x x", "a ### x x")
    assert set(map(str, found_candidates(rules, repeated_targets=True)[0])) == {
        "NT_1 b ### NT_1 x"
    }


def test_a_hole_may_stand_for_some_of_the_occurrences_of_a_string() -> None:
    rules = parsed("a b ### x x", "NT_1 b ### x NT_1")
    assert found_candidates(rules, repeated_targets=True)[0] == set(parsed("a ### x"))


@pytest.mark.parametrize("target", ["J J J", "J W", "J W J", "W J"])
def test_a_hole_that_stands_twice_must_yield_the_same_both_times(target: str) -> None:
    rules = parsed(f"jump twice ### {target}", "NT_1 twice ### NT_1 NT_1")
    assert found_candidates(rules, repeated_targets=True)[0] == set()


def test_what_other_non_terminals_yield_twice_leaves_less_for_the_hole() -> None:
    rules = parsed("a or b ### x y x z", "NT_1 or NT_2 ### NT_1 NT_2 NT_1 z", "a ### x")
    assert "b ### y" in map(str, found_candidates(rules, repeated_targets=True)[0])


def test_a_rule_with_unbalanced_brackets_is_no_candidate() -> None:
    rules = parsed("the state ### f ( g ( s ) )", "state ### s )")
    assert set(map(str, found_candidates(rules)[0])) == {"the NT_1 ### f ( g ( NT_1 )"}
    assert found_candidates(rules, brackets=BRACKETS)[0] == set()


def test_candidates_have_no_more_non_terminals_than_allowed() -> None:
    rules = parsed("NT_1 and NT_2 or b ### NT_1 NT_2 y", "b ### y")
    assert found_candidates(rules, max_non_terminals=2)[0] == set()
    assert found_candidates(rules, max_non_terminals=3)[0] == set(
        parsed("NT_1 and NT_2 or NT_3 ### NT_1 NT_2 NT_3")
    )


def test_a_rules_own_non_terminals_go_with_the_part_that_is_cut_out() -> None:
    rules = parsed(
        "big a NT_1 of NT_2 ### f x NT_2 NT_1",
        "a NT_1 ### x NT_1",
        "NT_1 of NT_2 ### NT_2 NT_1",
    )
    assert set(map(str, found_candidates(rules)[0])) == {
        "big NT_1 ### f NT_1",
        "big a NT_1 ### f x NT_1",
    }
