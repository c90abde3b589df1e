"""The search: what holds after every step, for all settings, on random corpora."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.grammar import Grammar, Rule
from nqg.induction.corpus import underivable
from nqg.induction.description_length import description_length
from nqg.induction.induce import Induction, induce
from nqg.induction.search import Phase
from nqg.induction.settings import InductionSettings
from nqg.model.forests import build_forests
from nqg.slots.delexicalize import slot_of
from oracles import is_allowed
from strategies import corpora, induction_settings

SCAN_LIKE = InductionSettings.named("scan")
SEED_RULES = [
    Rule.parse(text)
    for text in (
        "NT_1 NT_2 ### NT_1 NT_2",
        "NT_1 NT_2 ### NT_2 NT_1",
        "NT_1 twice ### NT_1 NT_1",
        "NT_1 twice ### NT_1",
        "NT_1 after NT_2 ### NT_2 NT_1",
        "jump ### W",
        "m0 ### J",
        "twice ### J",
    )
]


def examples(*pairs: str) -> list[Example]:
    """Examples written as `source -> target`."""
    return [Example(*(side.strip() for side in pair.split("->"))) for pair in pairs]


@given(corpora(), induction_settings())
@hypothesis_settings(max_examples=150)
def test_every_example_is_derivable_after_every_step(
    corpus: list[Example], settings: InductionSettings
) -> None:
    induction = Induction(corpus, settings)
    assert not build_forests(induction.grammar, corpus).underivable()
    for _ in induction.steps():
        assert not build_forests(induction.grammar, corpus).underivable()


@given(corpora(), induction_settings())
def test_what_a_step_says_is_what_the_grammar_is(
    corpus: list[Example], settings: InductionSettings
) -> None:
    induction = Induction(
        corpus, settings.changed(shortest=None, frame=False)
    )  # which both add rules of examples
    rules = set(induction.grammar)
    for step in induction.steps():
        assert len(set(step.added)) == len(step.added)
        assert rules.issuperset(step.removed)
        assert rules.isdisjoint(step.added)
        rules = rules.difference(step.removed).union(step.added)
        assert set(induction.grammar) == rules
        assert step.rules == len(rules)
        recomputed = description_length(
            induction.grammar, corpus, settings.changed(fitted=False)
        )
        assert step.length.grammar_bits == pytest.approx(recomputed.grammar_bits)
        assert step.length.data_bits == pytest.approx(recomputed.data_bits)


@given(corpora(), induction_settings())
def test_new_rules_keep_to_the_settings(
    corpus: list[Example], settings: InductionSettings
) -> None:
    brackets = (("(", ")"),) if settings.balanced else ()
    for step in Induction(corpus, settings).steps():
        is_found = step.phase not in (
            Phase.SAMPLING,
            Phase.FRAMING,
        )  # which add examples as they are
        assert not is_found or all(
            is_allowed(rule, settings.max_non_terminals, brackets)
            for rule in step.added
        )


@st.composite
def marked_examples(draw: st.DrawFn) -> Example:
    """An example with placeholders of slots, each on both sides."""
    slots = draw(st.sets(st.sampled_from(("@date_1", "@time_1", "@time_2"))))
    words, tokens = (
        draw(st.lists(st.sampled_from(side), min_size=1, max_size=3))
        for side in (("a", "b", "c"), "ABC")
    )
    source, target = (
        draw(st.permutations([*side, *sorted(slots)])) for side in (words, tokens)
    )
    return Example(" ".join(source), " ".join(target))


@given(st.lists(marked_examples(), min_size=1, max_size=6), induction_settings())
def test_rules_write_the_slots_that_they_read(
    corpus: list[Example], settings: InductionSettings
) -> None:
    induction = Induction(corpus, settings.changed(frame=False))
    for _ in induction.steps():
        pass
    for rule in induction.grammar:
        read, written = (
            {symbol for symbol in side if slot_of(symbol)}
            for side in (rule.source, rule.target)
        )
        assert read == written


@given(corpora(), induction_settings())
def test_repetitions_and_the_order_of_examples_of_different_length_change_nothing(
    corpus: list[Example], settings: InductionSettings
) -> None:
    by_length: dict[int, list[Example]] = {}
    for example in corpus:
        by_length.setdefault(len(example.source_tokens), []).append(example)
    longest_first = [
        example
        for length in sorted(by_length, reverse=True)
        for example in by_length[length]
    ]
    assert str(induce([*longest_first, *corpus], settings)) == str(
        induce(corpus, settings)
    )


@given(
    corpora(14),
    induction_settings(exact=True),
    st.lists(st.sampled_from(SEED_RULES), max_size=4),
)
@hypothesis_settings(max_examples=200)
def test_with_the_exact_data_term_every_step_saves_what_it_says_and_more_than_asked_for(
    corpus: list[Example], settings: InductionSettings, seed_rules: list[Rule]
) -> None:
    induction = Induction(
        corpus,
        settings,
        [rule for rule in seed_rules if rule.arity <= settings.max_non_terminals],
    )
    before = induction.length
    for step in induction.steps():
        assert step.saved.grammar_bits == pytest.approx(
            before.grammar_bits - step.length.grammar_bits
        )
        assert step.saved.data_bits == pytest.approx(
            before.data_bits - step.length.data_bits
        )
        assert step.saved.total > settings.minimum_gain - 1e-9
        assert step.length.total < before.total
        before = step.length


@given(corpora(), induction_settings(exact=True), st.data())
@hypothesis_settings(max_examples=50)
def test_with_the_exact_data_term_no_order_of_the_examples_changes_anything(
    corpus: list[Example], settings: InductionSettings, data: st.DataObject
) -> None:
    assert str(induce(data.draw(st.permutations(corpus)), settings)) == str(
        induce(corpus, settings)
    )


def test_a_superfluous_rule_is_judged_on_all_examples_that_it_touches() -> None:
    """Here `largest m0 twice` goes with a step that adds `NT_1 m0 m0`: it has those words, but not in that order."""
    corpus = examples(
        "jump -> J",
        "largest m0 -> largest ( m0 )",
        "largest m0 twice -> largest ( m0 ) largest ( m0 )",
        "largest m0 twice -> largest ( m0 m0 )",
        "jump m0 m0 -> J",
    )
    settings = InductionSettings(
        terminal_bits=2.0, non_terminal_bits=0.25, identity_rules=False
    )
    induction = Induction(corpus, settings, [Rule.parse("NT_1 twice ### NT_1 NT_1")])
    before = induction.length
    for step in induction.steps():
        assert step.saved.data_bits == pytest.approx(
            before.data_bits - step.length.data_bits
        )
        before = step.length


def test_a_superfluous_rule_stays_where_its_examples_would_cost_more_without_it() -> (
    None
):
    corpus = examples(
        "jump -> J",
        "jump -> J J",
        "jump twice twice -> J J J J",
        "the m0 twice -> ( m0 ) ( m0 )",
        "the m0 twice twice -> ( m0 ) ( m0 ) ( m0 ) ( m0 )",
    )
    settings = InductionSettings(
        0.05, 0.05, identity_rules=False, repeated_targets=True
    )
    induction = Induction(corpus, settings)
    first = next(induction.steps())
    assert [str(rule) for rule in first.added] == ["NT_1 twice ### NT_1 NT_1"]
    superfluous = Rule.parse("jump twice twice ### J J J J")
    without = Grammar.of(rule for rule in induction.grammar if rule != superfluous)
    assert superfluous in induction.grammar
    assert not underivable(without, corpus)
    assert description_length(without, corpus, settings).total > first.length.total


def test_two_rules_share_the_new_rule_that_they_both_need() -> None:
    """Factoring: `largest NT_1` stands twice in one rule and once in the other, and is added and paid for once."""
    corpus = examples(
        "jump -> J",
        "largest walk -> largest ( W )",
        "largest largest jump -> largest ( largest ( J ) )",
    )
    induction = Induction(
        corpus, InductionSettings(identity_rules=False, factoring=True)
    )
    before, steps = induction.length, list(induction.steps())
    assert (
        str(induction.grammar)
        == "jump ### J\nlargest NT_1 ### largest ( NT_1 )\nwalk ### W"
    )
    assert [rule for step in steps for rule in step.added].count(
        Rule.parse("largest NT_1 ### largest ( NT_1 )")
    ) == 1
    assert (
        sum(step.saved.total for step in steps) == before.total - induction.length.total
    )


@pytest.mark.parametrize("bracket", ["(", ")"])
def test_an_example_with_one_kind_of_bracket_alone_does_not_stop_others_from_being_generalised(
    bracket: str,
) -> None:
    corpus = examples(
        "jump -> J", "jump twice -> J J", "walk twice -> W W", f"sad {bracket} -> S"
    )
    assert "NT_1 twice ### NT_1 NT_1" in str(induce(corpus, SCAN_LIKE))


def test_seed_rules_are_where_the_search_begins_and_stay_if_they_are_of_use() -> None:
    corpus = examples("jump twice -> J J", "walk twice -> W W", "walk -> W")
    seeds = [
        Rule.parse("NT_1 twice ### NT_1 NT_1"),
        Rule.parse("NT_1 thrice ### NT_1 NT_1 NT_1"),
    ]
    induction = Induction(corpus, SCAN_LIKE.changed(pruning=False), seeds)
    assert set(seeds) < set(induction.grammar)
    assert induction.searched_rules == 5
    assert set(seeds) < set(induce(corpus, SCAN_LIKE.changed(pruning=False), seeds))
    assert (
        str(induce(corpus, SCAN_LIKE, seeds))
        == "NT_1 twice ### NT_1 NT_1\njump ### J\nwalk ### W"
    )


def test_examples_left_out_of_the_search_get_their_own_rule_only_where_they_need_one() -> (
    None
):
    corpus = examples(
        "jump -> J",
        "jump twice -> J J",
        "walk twice -> W W",
        "walk twice twice -> W W W W",
        "a b c -> x",
    )
    induction = Induction(corpus, SCAN_LIKE.changed(shortest=3))
    assert str(induction.grammar).splitlines() == [
        "a b c ### x",
        "jump ### J",
        "jump twice ### J J",
        "walk twice ### W W",
        "walk twice twice ### W W W W",
    ]
    for _ in induction.steps():
        pass
    assert str(induction.grammar).splitlines() == [
        "NT_1 twice ### NT_1 NT_1",
        "a b c ### x",
        "jump ### J",
        "walk ### W",
    ]
    assert induction.searched_rules == 3


def test_a_word_that_spells_a_non_terminal_is_a_word() -> None:
    corpus = examples("NT_1 -> J", "NT_1 twice -> J J", "walk twice -> W W")
    assert str(induce(corpus, SCAN_LIKE)).splitlines() == [
        "NT_1 twice ### NT_1 NT_1",
        "\\NT_1 ### J",
        "walk ### W",
    ]


def test_the_least_gain_asked_for_stops_the_search() -> None:
    corpus = examples("jump -> J", "jump twice -> J J", "walk twice -> W W")
    gains = [step.saved.total for step in Induction(corpus, SCAN_LIKE).steps()]
    assert gains == [93.0, 64.0]
    assert (
        len(list(Induction(corpus, SCAN_LIKE.changed(minimum_gain=64.0)).steps())) == 1
    )
    assert (
        len(list(Induction(corpus, SCAN_LIKE.changed(minimum_gain=63.5)).steps())) == 2
    )


def test_no_examples_are_refused() -> None:
    with pytest.raises(NqgError, match="there are no examples to learn from"):
        induce([])


def test_underivable_examples_are_named() -> None:
    grammar = Grammar.parse("jump ### J\nNT_1 twice ### NT_1 NT_1")
    corpus = examples(
        "jump -> J", "jump twice -> J", "fly -> F", "jump twice twice -> J J J J"
    )
    assert underivable(grammar, corpus) == corpus[1:3]
    assert underivable(grammar, []) == []


def test_an_example_with_an_empty_side_and_a_seed_rule_with_too_many_non_terminals_are_refused() -> (
    None
):
    with pytest.raises(NqgError, match="has an empty side; a rule needs words on both"):
        Induction([Example("jump", "")])
    with pytest.raises(
        NqgError, match="has 3 non-terminals, more than max_non_terminals=2"
    ):
        Induction(
            [Example("jump", "J")],
            seed_rules=[Rule.parse("NT_1 NT_2 NT_3 ### NT_1 NT_2 NT_3")],
        )
