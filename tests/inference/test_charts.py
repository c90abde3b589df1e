"""The charts of a batch: each sentence is charted once, and pruned afterwards as if it were pruned at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.grammar import chart as chart_module
from nqg.grammar.chart import StepBudget, charts
from nqg.grammar.grammar import Grammar
from nqg.inference import charts as charts_module
from nqg.inference.charts import BatchCharts
from nqg.inference.decoding import DecodeOptions
from nqg.inference.gaps import explained
from nqg.inference.parser import Parser
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.types import legal_forest
from nqg.types.target_grammar import TargetGrammar
from strategies import grammars, sentences

RULES = "walk ### WALK\njump ### JUMP\nNT_1 twice ### NT_1 NT_1\nNT_1 and NT_2 ### NT_1 ; NT_2"
LEGAL = "<s> ::= <v> | <v> ; <s>\n<v> ::= WALK | WALK WALK | JUMP"
PAIRS = [
    Example("walk", "WALK"),
    Example("walk twice", "WALK WALK"),
    Example("walk and jump", "WALK ; JUMP"),
]
ASKED = [
    "walk",
    "walk twice",
    "swim",
    "walk jump",
    "jump twice",
    "walk and",
    "jump and walk and jump",
    "",
    "walk swim",
]


@pytest.fixture(scope="module")
def parser() -> Parser:
    model = ModelSettings(
        dimension=8,
        embedded=EncoderSettings(hidden_size=8, layers=1, heads=1, longest=16),
    )
    training = TrainingSettings(steps=1, batch_size=2)
    legal = TargetGrammar.parse(LEGAL)
    grammar = Grammar.parse(RULES)
    return fit_parser(
        grammar,
        PAIRS,
        target_grammar=legal,
        model=model,
        training=training,
        device="cpu",
    )


@given(grammars(), st.lists(sentences, min_size=1, max_size=4))
def test_a_chart_that_is_pruned_afterwards_is_the_one_that_is_pruned_at_once(
    grammar: Grammar, sources: Sequence[tuple[str, ...]]
) -> None:
    forests, expected = (
        BatchCharts.of(grammar, sources).typed_forests,
        charts(grammar, sources),
    )
    for name in (
        "first_node",
        "starts",
        "ends",
        "first_hyperedge",
        "rules",
        "children",
    ):
        found, wanted = getattr(forests, name), getattr(expected, name)
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("is_typed", [True, False])
def test_each_sentence_is_charted_once_however_much_is_explained(
    parser: Parser, is_typed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    charted: Counter[tuple[str, ...]] = Counter()
    original = chart_module.untyped_charts

    def counted(
        grammar: Grammar, sources: Sequence[tuple[str, ...]], **options: object
    ) -> object:
        charted.update(tuple(source) for source in sources)
        return original(grammar, sources, **options)  # type: ignore[arg-type]

    for module in (chart_module, charts_module):
        monkeypatch.setattr(module, "untyped_charts", counted)
    # Without training sentences, no abstention has a nearest one, which would be parsed as well.
    provenance = replace(parser.model.provenance, sentences=())
    parser = Parser(replace(parser.model, provenance=provenance))
    options = DecodeOptions(readings=2, typed=is_typed, marginals=True, gaps=True)
    answers = [
        explained(answer) for answer in parser.with_options(options).answers(ASKED)
    ]
    assert all(answer.explain() for answer in answers)
    assert charted == Counter(tuple(sentence.split()) for sentence in ASKED)
    reasons = {answer.source: answer.reason for answer in answers if not answer}
    assert reasons["swim"] == "no derivation: no rule knows 'swim'"
    assert (
        reasons["walk jump"]
        == "no derivation: 'walk' and 'jump' are known, but not how to join them"
    )
    if is_typed:
        assert reasons["jump twice"].startswith("no valid program: 'jump")


def test_a_sentence_that_needs_more_steps_than_the_limit_is_an_abstention_of_its_own_kind(
    parser: Parser,
) -> None:
    options = DecodeOptions(limit=20, gaps=True)
    sentences = ["walk", "walk twice twice twice twice twice twice", "walk"]
    answers = list(parser.with_options(options).answers(sentences))
    assert [answer.kind for answer in answers] == [
        "answered",
        "too ambiguous",
        "answered",
    ]


@given(grammars(), st.lists(sentences, min_size=1, max_size=4))
def test_a_reduced_forest_has_the_same_legal_derivations(
    grammar: Grammar, sources: Sequence[tuple[str, ...]]
) -> None:
    with (
        patch.object(legal_forest, "SMALL_FOREST", 0),
        patch.object(legal_forest, "LARGE_FOREST", 0),
    ):
        reduced = BatchCharts.of(grammar, sources, prune=True).typed_forests
    expected = charts(grammar, sources)
    for array, wanted in zip(reduced, expected):
        assert np.array_equal(np.asarray(array), np.asarray(wanted))


@given(grammars(), sentences)
def test_the_spans_with_types_are_those_of_the_typed_chart(
    grammar: Grammar, source: tuple[str, ...]
) -> None:
    batch = BatchCharts.of(grammar, [source])
    expected = {batch.typed.span(node) for node in batch.typed.node_ids()}
    assert set(batch.typed_spans) == expected


@given(grammars(), sentences, st.integers(0, 60))
def test_a_budget_leaves_the_charts_of_other_sentences_as_they_are(
    grammar: Grammar, source: tuple[str, ...], steps: int
) -> None:
    budget = StepBudget(steps)
    short = ("a",)
    full = charts(grammar, [short, source, short], limit=budget)
    alone = charts(grammar, [short])
    if 0 not in budget.exceeded:
        assert np.array_equal(full.select([2]).rules, alone.rules)
    if 1 in budget.exceeded:
        assert full.select([1]).nodes == 0
