"""Which rules another rule could help to derive, against looking at every rule."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nqg.grammar.grammar import Rule
from nqg.induction.description_length import LabelRule, TerminalVocabulary
from nqg.induction.search import RuleIndex
from oracles import derived_targets
from strategies import related_rules

VOCABULARY = TerminalVocabulary(("(", ")", "a", "b", "x", "y"))


def holds(whole: LabelRule, part: LabelRule) -> bool:
    """Whether every terminal of `part` stands on the same side of `whole`."""
    sides = zip(whole, part, strict=True)
    return all(
        {label for label in theirs if label >= 0} <= set(ours) for ours, theirs in sides
    )


@given(related_rules(), st.data())
def test_the_rules_around_others_hold_their_terminals_on_both_sides(
    rules: list[Rule], data: st.DataObject
) -> None:
    labels = [VOCABULARY.label_rule(rule) for rule in rules]
    index = RuleIndex(labels)
    removed = data.draw(st.lists(st.sampled_from(labels), unique=True))
    for rule in removed:
        index.remove(rule)
    asked = data.draw(st.lists(st.sampled_from(labels), max_size=2))
    left = [rule for rule in labels if rule not in removed]
    assert index.around(asked) == sorted(
        rule for rule in left if any(holds(rule, part) for part in asked)
    )


@given(related_rules())
def test_a_rule_that_another_helps_to_derive_is_around_it(rules: list[Rule]) -> None:
    index = RuleIndex(map(VOCABULARY.label_rule, rules))
    for rule in rules:
        others = [other for other in rules if other != rule]
        if rule.target not in derived_targets(others, len(rule.target))(rule.source):
            continue
        for other in others:
            without = [each for each in others if each != other]
            if rule.target not in derived_targets(without, len(rule.target))(
                rule.source
            ):
                assert VOCABULARY.label_rule(rule) in index.around(
                    [VOCABULARY.label_rule(other)]
                )


def test_a_rule_without_terminals_is_near_to_all() -> None:
    labels = [
        VOCABULARY.label_rule(Rule.parse(text))
        for text in ("a ### x", "NT_1 NT_2 ### NT_2 NT_1", "b ### ( y")
    ]
    index = RuleIndex(labels)
    assert index.around([labels[1]]) == sorted(labels)
    index.remove(labels[0])
    assert index.around([labels[1]]) == sorted(labels[1:])
    index.add(labels[0])
    assert index.around([labels[0]]) == [labels[0]]
    assert index.around([]) == []
