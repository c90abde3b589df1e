"""Which scores a batch of forests needs: spans, and applications by span and rule."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from nqg.grammar.algebras import derivation_counts
from nqg.grammar.charts import charts, goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import ChoiceId, Graph
from nqg.model.anchors import anchored, anchors, span_numbers
from nqg.model.forest_crf import log_inside
from nqg.model.scorer import application_scores
from oracles import all_derivations
from strategies import grammars, sentences

Tokens = tuple[str, ...]


def goals(grammar: Grammar, sources: list[Tokens], full: Graph, data: st.DataObject) -> tuple[Graph, list[Tokens]]:
    """The goal forests of a target of each source, where it has one."""
    assume(max(derivation_counts(full)) <= 200)
    targets = [sorted({each.target for each in all_derivations(grammar, source)}) or [()] for source in sources]
    drawn = [data.draw(st.sampled_from(each)) for each in targets]
    return goal_charts(grammar, full, drawn), drawn


@given(grammars(max_arity=3), st.lists(sentences, min_size=1, max_size=3), st.data())
def test_every_choice_of_a_goal_forest_finds_its_span_in_the_full_one(
    grammar: Grammar, sources: list[Tokens], data: st.DataObject
) -> None:
    full = charts(grammar, sources)
    goal, _ = goals(grammar, sources, full, data)
    numbers = span_numbers(goal, full)
    for sentence in range(len(sources)):
        for choice in range(goal.first_choice[sentence], goal.first_choice[sentence + 1]):
            assert full.first_choice[sentence] <= numbers[choice] < full.first_choice[sentence + 1]
            assert full.span(ChoiceId(int(numbers[choice]))) == goal.span(ChoiceId(choice))


@given(grammars(max_arity=3), st.lists(sentences, min_size=1, max_size=3), st.integers(0, 99), st.data())
def test_goal_forests_sum_up_the_derivations_of_their_target_with_the_scores_of_the_full_one(
    grammar: Grammar, sources: list[Tokens], seed: int, data: st.DataObject
) -> None:
    full = charts(grammar, sources)
    goal, targets = goals(grammar, sources, full, data)
    table = torch.from_numpy(np.random.default_rng(seed).normal(size=(full.choices, len(grammar))))  # (S, R)
    forest = anchored(goal, full, "cpu")
    found = log_inside(application_scores(table, forest), forest.levels)
    for sentence, (source, target) in enumerate(zip(sources, targets, strict=True)):
        spans = {full.span(ChoiceId(n)): n for n in range(*full.first_choice[sentence : sentence + 2])}
        numbers = {rule: number for number, rule in enumerate(grammar)}
        totals = [
            sum(float(table[spans[each.span], numbers[each.rule]]) for each in derivation.applications)
            for derivation in all_derivations(grammar, source)
            if derivation.target == target
        ]
        expected = torch.logsumexp(torch.tensor(totals, dtype=torch.float64), 0)
        torch.testing.assert_close(found[sentence], expected, atol=1e-9, rtol=0)


def test_anchors_name_the_sentence_and_the_first_and_last_token_of_each_span() -> None:
    grammar = Grammar.parse("jump ### J\nNT_1 twice ### NT_1 NT_1")
    spans = anchors(charts(grammar, [("jump", "twice"), ("fly",), ("jump",)]), "cpu")
    found = list(zip(spans.sentences.tolist(), spans.starts.tolist(), spans.ends.tolist(), strict=True))
    assert found == [(0, 0, 0), (0, 0, 1), (2, 0, 0)]


def test_applications_of_a_full_forest_come_with_their_own_span_and_rule() -> None:
    full = charts(Grammar.parse("jump ### J\nNT_1 twice ### NT_1 NT_1"), [("jump", "twice"), ("jump",)])
    forest = anchored(full, full, "cpu")
    found = sorted(zip(forest.spans.tolist(), forest.rules.tolist(), strict=True))
    assert found == [(0, 0), (1, 1), (2, 0)]
