"""What is said about a grammar, against counting derivations one by one."""

from __future__ import annotations

import json
import math
from statistics import median_low

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar, Rule
from nqg.induction.description_length import description_length, grammar_bits
from nqg.induction.induce import Induction, induce
from nqg.induction.inspection import (
    CHARTED_AT_ONCE,
    GrammarReport,
    coverage,
    longest_rules,
    rules_by_arity,
)
from nqg.induction.search_log import StepRecord
from nqg.induction.settings import InductionSettings
from oracles import all_derivations
from strategies import corpora, grammars

GRAMMAR = Grammar.parse("""
jump ### J
run ### R
NT_1 twice ### NT_1 NT_1
NT_1 twice ### NT_1
NT_1 and NT_2 ### NT_1 NT_2
""")
EXAMPLES = [
    Example("jump twice", "J J"),
    Example("jump twice and run twice", "J J R R"),
    Example("run", "R"),
    Example("run", "JUMP"),
    Example("hop", "H"),
    Example("run", "R"),
]
SCAN = InductionSettings.named("scan")
sentences = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map(" ".join)


@settings(max_examples=50)
@given(
    grammar=grammars(),
    pairs=st.lists(st.tuples(sentences, sentences), min_size=1, max_size=4),
)
def test_coverage_equals_counting_derivations_one_by_one(
    grammar: Grammar, pairs: list[tuple[str, str]]
) -> None:
    examples = [Example(*pair) for pair in pairs]
    found = coverage(grammar, examples)
    everything = [
        all_derivations(grammar, example.source_tokens) for example in examples
    ]
    right = [
        rightly(every, example)
        for every, example in zip(everything, examples, strict=True)
    ]
    counts = [len(every) for every in everything if every]
    assert found.with_derivation == len(counts)
    assert found.with_target == sum(map(bool, right))
    assert (found.median.derivations if found.median else None) == (
        median_low(counts) if counts else None
    )
    assert (found.largest.derivations if found.largest else None) == max(
        counts, default=None
    )
    assert {use.rule: use.examples for use in found.uses} == {
        rule: uses(rule, right) for rule in grammar
    }


def rightly(derivations: list[Derivation], example: Example) -> list[Derivation]:
    return [
        derivation
        for derivation in derivations
        if derivation.target == example.target_tokens
    ]


def uses(rule: Rule, derivations: list[list[Derivation]]) -> int:
    return sum(
        any(rule in [step.rule for step in one.hyperedges] for one in each)
        for each in derivations
    )


@settings(max_examples=25)
@given(corpora())
def test_on_its_own_examples_a_grammar_covers_all_and_costs_what_the_objective_says(
    examples: list[Example],
) -> None:
    grammar = induce(examples, SCAN)
    found = coverage(grammar, examples)
    assert found.examples == found.with_derivation == found.with_target == len(examples)
    length = description_length(grammar, examples, SCAN)
    assert math.isclose(found.data_bits, length.data_bits, abs_tol=1e-9)
    assert grammar_bits(grammar, SCAN) == length.grammar_bits


def test_figures_of_a_grammar_that_fits_only_some_examples() -> None:
    found = coverage(GRAMMAR, EXAMPLES)
    assert (found.examples, found.with_derivation, found.with_target) == (6, 5, 4)
    assert found.data_bits == pytest.approx(math.log2(2) + math.log2(8))
    assert found.median is not None
    assert (found.median.source, found.median.derivations) == ("run", 1)
    assert found.largest is not None
    assert (found.largest.source, found.largest.derivations) == (
        "jump twice and run twice",
        8,
    )
    assert [(str(use.rule), use.examples) for use in found.uses[:2]] == [
        ("run ### R", 3),
        ("NT_1 twice ### NT_1 NT_1", 2),
    ]


def test_more_examples_than_fit_in_one_part_are_counted_together() -> None:
    times = CHARTED_AT_ONCE // len(EXAMPLES) + 7
    once, many = coverage(GRAMMAR, EXAMPLES), coverage(GRAMMAR, EXAMPLES * times)
    assert many.examples == times * once.examples > CHARTED_AT_ONCE
    assert many.with_derivation == times * once.with_derivation
    assert [use.examples for use in many.uses] == [
        times * use.examples for use in once.uses
    ]
    assert many.data_bits == once.data_bits  # repetitions count once in the objective
    assert many.largest == once.largest


def test_a_grammar_that_derives_nothing_has_no_ambiguity() -> None:
    found = coverage(GRAMMAR, [Example("hop", "H")])
    assert (found.with_derivation, found.median, found.largest, found.data_bits) == (
        0,
        None,
        None,
        0.0,
    )
    with pytest.raises(NqgError, match="there are no examples to look at"):
        coverage(GRAMMAR, [])


def test_an_astronomical_number_of_derivations_is_exact() -> None:
    grammar = Grammar.parse("a ### A\nNT_1 NT_2 ### NT_1 NT_2")
    found = coverage(grammar, [Example(" ".join("a" * 80), " ".join("A" * 80))])
    assert found.largest is not None
    assert (
        found.largest.derivations == math.comb(158, 79) // 80
    )  # the Catalan number of 79


def test_rules_are_sorted_by_arity_and_by_length() -> None:
    assert rules_by_arity(GRAMMAR) == {0: 2, 1: 2, 2: 1}
    assert [str(rule) for rule in longest_rules(GRAMMAR, 2)] == [
        "NT_1 and NT_2 ### NT_1 NT_2",
        "NT_1 twice ### NT_1 NT_1",
    ]
    assert longest_rules(GRAMMAR, 0) == []


def log_of(examples: list[Example], chosen: InductionSettings) -> list[StepRecord]:
    induction = Induction(examples, chosen)
    beginning = StepRecord.of_beginning(induction)
    return [
        beginning,
        *(
            StepRecord.of_step(n, step, n / 4)
            for n, step in enumerate(induction.steps(), 1)
        ),
    ]


def test_the_report_says_everything_in_words() -> None:
    text = str(GrammarReport(GRAMMAR, SCAN, 1, coverage(GRAMMAR, EXAMPLES)))
    for part in (
        "5 rules: 2 with no non-terminal, 2 with one, 1 with two",
        "233.0 bits to write them down (32 a terminal, 1 a non-terminal)",
        "4.0 bits to choose the targets of the data among their derivations\n237.0 bits together",
        "longest rules:\n  NT_1 and NT_2 ### NT_1 NT_2\n\n",
        " 83.3 % (5)  sources with a derivation",
        " 66.7 % (4)  examples whose target is among the derivations",
        "derivations of a source: 1 in the median, at most 8: jump twice and run twice",
        " 75.0 %  run ### R\n  rules that none of them uses: 1",
    ):
        assert part in text


def test_the_report_of_a_grammar_alone_is_short() -> None:
    assert (
        str(GrammarReport(Grammar(()), SCAN))
        == "0 rules\n0.0 bits to write them down (32 a terminal, 1 a non-terminal)"
    )
    none = GrammarReport(GRAMMAR, SCAN, 3, coverage(GRAMMAR, [Example("hop", "H")]))
    assert "most used" not in str(none)
    assert "bits together" not in str(none)


def test_json_holds_the_same_figures_and_only_plain_values() -> None:
    facts = json.loads(
        json.dumps(
            GrammarReport(GRAMMAR, SCAN, 2, coverage(GRAMMAR, EXAMPLES)).to_dict()
        )
    )
    assert facts["rules_by_arity"] == {"0": 2, "1": 2, "2": 1}
    assert facts["data"]["with_target"] == 4
    assert facts["data"]["uses"][0] == {"rule": "run ### R", "examples": 3}
    assert facts["data"]["largest"] == {
        "source": "jump twice and run twice",
        "derivations": 8,
    }
    assert "data" not in GrammarReport(GRAMMAR, SCAN).to_dict()


@pytest.fixture
def pruned() -> list[StepRecord]:
    """A log with more than one phase."""
    words = [
        Example(f"{verb} {times}", f"{verb.upper()} {times.upper()}")
        for verb in "abc"
        for times in "xyz"
    ]
    return log_of(
        [*words, Example("a", "A")],
        InductionSettings(factoring=True, identity_rules=False),
    )
