"""The batched inside pass against brute-force enumeration of derivations, in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from nqg.forests.levels import levels
from nqg.grammar.algebras import derivation_counts
from nqg.grammar.best import best_derivations
from nqg.grammar.charts import charts, goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import Graph
from nqg.model.forest_crf import LevelTensors, log_inside, max_inside
from oracles import derivations_as_applications
from strategies import grammars, sentences

Tokens = tuple[str, ...]


def scored(graph: Graph, seed: int) -> tuple[torch.Tensor, LevelTensors, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Random scores in the order of levels and in the order of the graph."""
    laid_out = levels(graph)
    values = np.random.default_rng(seed).normal(size=graph.applications)
    scores = torch.tensor(values[laid_out.applications], dtype=torch.float64, requires_grad=True)
    return scores, LevelTensors.of(laid_out, "cpu"), values


@given(grammars(max_arity=3), st.lists(sentences, min_size=1, max_size=3), st.integers(0, 99))
def test_log_inside_its_gradient_and_max_inside_equal_enumeration(
    grammar: Grammar, sources: list[Tokens], seed: int
) -> None:
    graph = charts(grammar, sources)
    assume(max(derivation_counts(graph)) <= 300)
    scores, tensors, values = scored(graph, seed)
    found = log_inside(scores, tensors)
    best = max_inside(scores, tensors)
    expected_marginals = np.zeros(graph.applications)
    for sentence, derivations in enumerate(derivations_as_applications(graph)):
        totals = [sum(values[application] for application in each) for each in derivations]
        expected = math.log(sum(map(math.exp, totals))) if totals else -math.inf
        assert found[sentence].item() == pytest.approx(expected, abs=1e-9)
        assert best[sentence].item() == pytest.approx(max(totals, default=-math.inf), abs=1e-9)
        for each, total in zip(derivations, totals, strict=True):
            np.add.at(expected_marginals, list(each), math.exp(total - expected))
    finite = found[torch.isfinite(found)].sum()
    if graph.applications:
        finite.backward()  # type: ignore[no-untyped-call]
        assert scores.grad is not None
        np.testing.assert_allclose(scores.grad.numpy(), expected_marginals[levels(graph).applications], atol=1e-9)


@given(grammars(), st.lists(sentences, min_size=1, max_size=3), st.integers(0, 99))
def test_the_gradient_of_the_maximum_is_the_best_derivation(grammar: Grammar, sources: list[Tokens], seed: int) -> None:
    graph = charts(grammar, sources)
    assume(graph.applications)
    scores, tensors, values = scored(graph, seed)
    best = max_inside(scores, tensors)
    best[torch.isfinite(best)].sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    used = sum(len(each.derivation.applications) for each in best_derivations(grammar, graph, values) if each)
    assert scores.grad.sum().item() == pytest.approx(used)
    total = (scores.grad * scores.detach()).sum().item()
    assert total == pytest.approx(sum(each.score for each in best_derivations(grammar, graph, values) if each))


def test_the_gradient_passes_a_numerical_check() -> None:
    grammar = Grammar.parse("a ### x\nb ### x\na ### y\nNT_1 NT_2 ### NT_1 NT_2\nNT_1 b NT_2 ### NT_2 NT_1")
    graph = charts(grammar, [("a", "b", "a", "b", "a"), ("a", "a")])
    scores, tensors, _ = scored(graph, 0)
    assert torch.autograd.gradcheck(lambda each: log_inside(each, tensors), (scores,))


def test_marginals_of_the_applications_of_every_reachable_choice_sum_to_its_own() -> None:
    grammar = Grammar.parse("a ### x\na ### y\nNT_1 NT_2 ### NT_1 NT_2")
    graph = charts(grammar, [("a",) * 6])
    scores, tensors, _ = scored(graph, 1)
    log_inside(scores, tensors).sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    root = scores.grad[tensors.owners == tensors.roots[0]].sum().item()
    assert root == pytest.approx(1.0, abs=1e-12)


def test_very_large_and_very_small_scores_neither_overflow_nor_lose_the_gradient() -> None:
    grammar = Grammar.parse("a ### x\na ### y\nNT_1 NT_2 ### NT_1 NT_2")
    graph = charts(grammar, [("a",) * 4])
    scores, tensors, _ = scored(graph, 2)
    huge = (scores.detach().float() * 1e4).requires_grad_()
    value = log_inside(huge, tensors)
    value.sum().backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(value).all()
    assert huge.grad is not None
    assert torch.isfinite(huge.grad).all()


def test_goal_and_full_forests_give_the_probability_of_a_target() -> None:
    grammar = Grammar.parse("a ### x\na ### y\nNT_1 NT_2 ### NT_1 NT_2")
    full = charts(grammar, [("a", "a")])
    goal = goal_charts(grammar, full, [("x", "y")])
    zeros = (torch.zeros(graph.applications, dtype=torch.float64) for graph in (full, goal))
    tensors = (LevelTensors.of(levels(graph), "cpu") for graph in (full, goal))
    everything, right = (log_inside(scores, table) for scores, table in zip(zeros, tensors, strict=True))
    assert (right - everything).exp().item() == pytest.approx(0.25)
