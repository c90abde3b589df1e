"""Scores of pairs against the formula of appendix A.3 in plain torch, and their gradients against autograd's."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import gelu, linear

from nqg.model.pair_scores import Networks, pair_scores
from nqg.model.spans import Anchors, Edges, Pairs

D, HIDDEN, RULES = 3, 5, 4
SHAPES = ((HIDDEN, 2 * D), (HIDDEN,), (1, HIDDEN), (1,), (HIDDEN, 2 * D), (HIDDEN,), (HIDDEN, HIDDEN), (HIDDEN,))


def weights(generator: torch.Generator, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    shapes = (*SHAPES, (RULES, HIDDEN))
    return [torch.randn(shape, dtype=dtype, generator=generator).requires_grad_() for shape in shapes]


def edges(count: int, spans: int, generator: torch.Generator) -> Edges:
    none = np.zeros(count, dtype=np.int64)
    return Edges(none, none, torch.randint(count, (spans,), generator=generator))


def by_formula(ends: Tensor, anchors: Anchors, pairs: Pairs, tensors: list[Tensor]) -> Tensor:
    """Both networks over [w_i, w_j], pair by pair."""
    the = Networks(*tensors)
    firsts = ends[: len(anchors.starts.tokens)][anchors.starts.of_spans[pairs.spans]]
    lasts = ends[len(anchors.starts.tokens) :][anchors.ends.of_spans[pairs.spans]]
    both = torch.cat([firsts, lasts], dim=1)  # (P, 2D)
    of_spans = linear(gelu(linear(both, the.span_in, the.span_shift)), the.span_out, the.span_bias)[:, 0]
    of_rules = linear(gelu(linear(both, the.rule_in, the.rule_shift)), the.rule_out, the.rule_bias)
    return of_spans + (of_rules * the.rules[pairs.rules]).sum(dim=1)


def case(seed: int, starts: int, stops: int, spans: int, count: int) -> tuple[Tensor, Anchors, Pairs, list[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randn(starts + stops, D, dtype=torch.float64, generator=generator).requires_grad_()
    places = torch.randperm(spans * RULES, generator=generator)[:count]
    anchors = Anchors(edges(starts, spans, generator), edges(stops, spans, generator))
    return ends, anchors, Pairs(places // RULES, places % RULES), weights(generator)


@given(st.integers(0, 99), st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(0, 9), st.booleans())
def test_scores_and_all_gradients_are_those_of_the_formula(
    seed: int, starts: int, stops: int, spans: int, count: int, is_gpu: bool
) -> None:
    ends, anchors, pairs, tensors = case(seed, starts, stops, spans, count)
    flow = torch.randn(len(pairs.spans), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    with patch("nqg.model.pair_scores._multiplies_all", return_value=is_gpu):
        ours = pair_scores(ends, anchors, pairs, tensors)
        gradients = torch.autograd.grad(ours, [ends, *tensors], flow)
    theirs = by_formula(ends, anchors, pairs, tensors)
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)
    for one, other in zip(gradients, torch.autograd.grad(theirs, [ends, *tensors], flow), strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_the_gradient_passes_a_numerical_check() -> None:
    ends, anchors, pairs, tensors = case(0, 2, 3, 4, 7)
    assert torch.autograd.gradcheck(lambda ends, *each: pair_scores(ends, anchors, pairs, each), (ends, *tensors))


@pytest.mark.parametrize("is_half", [False, True], ids=["full precision", "half precision around"])
def test_pairs_are_scored_in_the_precision_of_the_weights(is_half: bool) -> None:
    ends, anchors, pairs, tensors = case(0, 2, 3, 4, 7)
    single = [each.detach().float().requires_grad_() for each in tensors]
    half = ends.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=is_half):
        scores = pair_scores(half, anchors, pairs, single)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, by_formula(half.float(), anchors, pairs, single))
    scores.sum().backward()  # type: ignore[no-untyped-call]
    assert half.grad is not None
    assert half.grad.dtype == torch.bfloat16
