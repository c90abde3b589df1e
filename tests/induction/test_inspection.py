"""What is said about a grammar, against counting derivations one by one."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from statistics import median_low

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqg.data.examples import Example
from nqg.errors import MissingExtra, NqgError
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar, Rule
from nqg.induction.description_length import description_length, grammar_bits
from nqg.induction.induce import Induction, induce
from nqg.induction.inspection import PART_SIZE, Report, coverage, longest_rules, rules_by_arity, write_plot
from nqg.induction.settings import InductionSettings
from nqg.induction.trace import Header, Trace, TracedStep, induction_config
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
@given(grammar=grammars(), pairs=st.lists(st.tuples(sentences, sentences), min_size=1, max_size=4))
def test_coverage_equals_counting_derivations_one_by_one(grammar: Grammar, pairs: list[tuple[str, str]]) -> None:
    examples = [Example(*pair) for pair in pairs]
    found = coverage(grammar, examples)
    everything = [all_derivations(grammar, example.source_tokens) for example in examples]
    right = [rightly(every, example) for every, example in zip(everything, examples, strict=True)]
    counts = [len(every) for every in everything if every]
    assert found.with_derivation == len(counts)
    assert found.with_target == sum(map(bool, right))
    assert (found.median.derivations if found.median else None) == (median_low(counts) if counts else None)
    assert (found.largest.derivations if found.largest else None) == max(counts, default=None)
    assert {use.rule: use.examples for use in found.uses} == {rule: uses(rule, right) for rule in grammar}


def rightly(derivations: list[Derivation], example: Example) -> list[Derivation]:
    return [derivation for derivation in derivations if derivation.target == example.target_tokens]


def uses(rule: Rule, derivations: list[list[Derivation]]) -> int:
    return sum(any(rule in [step.rule for step in one.hyperedges] for one in each) for each in derivations)


@settings(max_examples=25)
@given(corpora())
def test_on_its_own_examples_a_grammar_covers_all_and_costs_what_the_objective_says(examples: list[Example]) -> None:
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
    assert (found.largest.source, found.largest.derivations) == ("jump twice and run twice", 8)
    assert [(str(use.rule), use.examples) for use in found.uses[:2]] == [
        ("run ### R", 3),
        ("NT_1 twice ### NT_1 NT_1", 2),
    ]


def test_more_examples_than_fit_in_one_part_are_counted_together() -> None:
    times = PART_SIZE // len(EXAMPLES) + 7
    once, many = coverage(GRAMMAR, EXAMPLES), coverage(GRAMMAR, EXAMPLES * times)
    assert many.examples == times * once.examples > PART_SIZE
    assert many.with_derivation == times * once.with_derivation
    assert [use.examples for use in many.uses] == [times * use.examples for use in once.uses]
    assert many.data_bits == once.data_bits  # repetitions count once in the objective
    assert many.largest == once.largest


def test_a_grammar_that_derives_nothing_has_no_ambiguity() -> None:
    found = coverage(GRAMMAR, [Example("hop", "H")])
    assert (found.with_derivation, found.median, found.largest, found.data_bits) == (0, None, None, 0.0)
    with pytest.raises(NqgError, match="there are no examples to look at"):
        coverage(GRAMMAR, [])


def test_an_astronomical_number_of_derivations_is_exact() -> None:
    grammar = Grammar.parse("a ### A\nNT_1 NT_2 ### NT_1 NT_2")
    found = coverage(grammar, [Example(" ".join("a" * 80), " ".join("A" * 80))])
    assert found.largest is not None
    assert found.largest.derivations == math.comb(158, 79) // 80  # the Catalan number of 79


def test_rules_are_sorted_by_arity_and_by_length() -> None:
    assert rules_by_arity(GRAMMAR) == {0: 2, 1: 2, 2: 1}
    assert [str(rule) for rule in longest_rules(GRAMMAR, 2)] == [
        "NT_1 and NT_2 ### NT_1 NT_2",
        "NT_1 twice ### NT_1 NT_1",
    ]
    assert longest_rules(GRAMMAR, 0) == []


def trace_of(examples: list[Example], chosen: InductionSettings) -> Trace:
    induction = Induction(examples, chosen)
    header = Header.of(induction_config(examples, chosen), induction.searched_rules, induction.length)
    return Trace(header, tuple(TracedStep(n, step, n / 4) for n, step in enumerate(induction.steps(), 1)), 0)


def test_the_report_says_everything_in_words() -> None:
    trace = trace_of([Example("jump", "J"), Example("jump twice", "J J"), Example("walk twice", "W W")], SCAN)
    text = str(Report(GRAMMAR, SCAN, 1, coverage(GRAMMAR, EXAMPLES), trace))
    for part in (
        "5 rules: 2 with no non-terminal, 2 with one, 1 with two",
        "233.0 bits to write them down (32 a terminal, 1 a non-terminal)",
        "4.0 bits to choose the targets of the data among their derivations\n237.0 bits together",
        "longest rules:\n  NT_1 and NT_2 ### NT_1 NT_2\n\n",
        " 83.3 % (5)  sources with a derivation",
        " 66.7 % (4)  examples whose target is among the derivations",
        "derivations of a source: 1 in the median, at most 8: jump twice and run twice",
        " 75.0 %  run ### R\n  rules that none of them uses: 1\n",
        "search: 2 steps (2 splitting) in 0.5 s, from 3 rules to 3, from 320 bits to 163",
    ):
        assert part in text


def test_the_report_of_a_grammar_alone_is_short() -> None:
    assert str(Report(Grammar(()), SCAN)) == "0 rules\n0.0 bits to write them down (32 a terminal, 1 a non-terminal)"
    none = Report(GRAMMAR, SCAN, 3, coverage(GRAMMAR, [Example("hop", "H")]))
    assert "most used" not in str(none)
    assert "bits together" not in str(none)


def test_json_holds_the_same_figures_and_only_plain_values() -> None:
    trace = trace_of(EXAMPLES[:3], SCAN)
    facts = json.loads(json.dumps(Report(GRAMMAR, SCAN, 2, coverage(GRAMMAR, EXAMPLES), trace).to_dict()))
    assert facts["rules_by_arity"] == {"0": 2, "1": 2, "2": 1}
    assert facts["data"]["with_target"] == 4
    assert facts["data"]["uses"][0] == {"rule": "run ### R", "examples": 3}
    assert facts["data"]["largest"] == {"source": "jump twice and run twice", "derivations": 8}
    assert facts["search"]["start"]["rules"] == 3
    assert facts["search"]["steps_by_phase"] == {"splitting": len(trace.steps)}
    assert {"data", "search"}.isdisjoint(Report(GRAMMAR, SCAN).to_dict())


@pytest.fixture
def pruned() -> Trace:
    """A trace with more than one phase."""
    words = [Example(f"{verb} {times}", f"{verb.upper()} {times.upper()}") for verb in "abc" for times in "xyz"]
    return trace_of([*words, Example("a", "A")], InductionSettings(factoring=True, identity_rules=False))


def test_a_plot_is_a_png_or_an_svg_and_always_the_same_bytes(tmp_path: Path, pruned: Trace) -> None:
    write_plot(tmp_path / "steps.png", pruned)
    assert (tmp_path / "steps.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    for name in ("first.svg", "again.svg"):
        write_plot(tmp_path / name, pruned)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


def test_a_plot_names_the_parts_the_phases_and_the_end(
    tmp_path: Path, pruned: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    write_plot(tmp_path / "steps.svg", pruned)
    text = (tmp_path / "steps.svg").read_text()
    for label in ("total", "grammar", "data", "description length, bits", "rules"):
        assert f">{label}<" in text
    phases = {traced.step.phase.value for traced in pruned.steps}
    assert "factoring" in phases
    assert "yellow: factoring" in text
    assert (
        f"{pruned.rules} rules, {pruned.length.total:,.0f} bits after {len(pruned.steps)} steps on 10 examples" in text
    )


def test_a_search_on_some_examples_says_so_and_one_without_steps_can_be_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    write_plot(tmp_path / "steps.svg", trace_of(EXAMPLES[:3], SCAN.changed(shortest=1)))
    assert "after 0 steps on the 1 shortest of 3 examples" in (tmp_path / "steps.svg").read_text()


def test_other_formats_and_a_missing_matplotlib_are_refused(
    tmp_path: Path, pruned: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NqgError, match=r"steps\.pdf: a plot is written as \.png or \.svg, found '\.pdf'"):
        write_plot(tmp_path / "steps.pdf", pruned)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"drawing a plot needs .* pip install -c constraints.txt -e '.\[plots\]'"):
        write_plot(tmp_path / "steps.png", pruned)
    assert not list(tmp_path.iterdir())
