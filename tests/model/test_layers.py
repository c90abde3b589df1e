"""Parts of a layer against plain torch, with dropout as it was drawn, and their gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from nqg.model.dropout import Drops
from nqg.model.layers import Looks, attention, feed_forward, residual
from nqg.model.summed_gelu import Sums

CHANCES = [0.0, 0.3, 1.0]


def parts(rows: int, width: int, seed: int) -> tuple[Tensor, ...]:
    """New rows, a bias, old rows, and weight and shift of a LayerNorm."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (rows, width), (width,), (rows, width), (width,), (width,)
    return tuple(torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_() for shape in shapes)


def norm_of(weight: Tensor, shift: Tensor) -> nn.LayerNorm:
    norm = nn.LayerNorm(len(weight), eps=1e-5)
    del norm.weight, norm.bias
    norm.weight, norm.bias = weight, shift  # type: ignore[assignment]  # no parameters, so that gradients reach them
    return norm


def ours(chance: float, *tensors: Tensor) -> Tensor:
    torch.manual_seed(7)
    new, bias, old, weight, shift = tensors
    return residual(new, bias, old, nn.Dropout(chance), norm_of(weight, shift))


def theirs(chance: float, *tensors: Tensor) -> Tensor:
    torch.manual_seed(7)
    new, bias, old, weight, shift = tensors
    factors = Drops.of(nn.Dropout(chance)).factors(new.shape, new.dtype)
    return layer_norm((new + bias) * factors + old, new.shape[1:], weight, shift, eps=1e-5)


@given(st.integers(1, 5), st.integers(1, 9), st.sampled_from(CHANCES), st.integers(0, 99))
def test_a_residual_and_all_its_gradients_are_those_of_torch(rows: int, width: int, chance: float, seed: int) -> None:
    tensors = parts(rows, width, seed)
    one, other = ours(chance, *tensors), theirs(chance, *tensors)
    torch.testing.assert_close(one, other, atol=1e-10, rtol=0)
    flow = torch.randn(one.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    for found, expected in zip(
        torch.autograd.grad(one, tensors, flow), torch.autograd.grad(other, tensors, flow), strict=True
    ):
        torch.testing.assert_close(found, expected, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("chance", CHANCES)
def test_the_gradient_of_a_residual_passes_a_numerical_check(chance: float) -> None:
    assert torch.autograd.gradcheck(lambda *tensors: ours(chance, *tensors), parts(3, 6, seed=0))


def test_the_way_back_can_be_gone_twice() -> None:
    tensors = parts(3, 6, seed=0)
    out = ours(0.3, *tensors)
    first, second = (torch.autograd.grad(out.sum(), tensors, retain_graph=True) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def linear(width: int, out: int, generator: torch.Generator) -> nn.Linear:
    made = nn.Linear(width, out).double()
    with torch.no_grad():
        made.weight.copy_(torch.randn(out, width, dtype=torch.float64, generator=generator))
    return made


@pytest.mark.parametrize("chance", CHANCES)
def test_the_second_half_and_all_its_gradients_are_those_of_torch(chance: float) -> None:
    old, *_ = parts(5, 6, seed=1)
    generator = torch.Generator().manual_seed(2)
    inner, outer, norm = linear(6, 10, generator), linear(10, 6, generator), nn.LayerNorm(6, eps=1e-5).double()
    weights = [old, *inner.parameters(), *outer.parameters(), *norm.parameters()]
    torch.manual_seed(7)
    found = feed_forward(old, inner, outer, nn.Dropout(chance), norm)
    new = outer(gelu(inner(old))) - outer.bias
    expected = theirs(chance, new, outer.bias, old, norm.weight, norm.bias)
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)
    flow = torch.randn(found.shape, dtype=torch.float64, generator=generator)
    for one, other in zip(
        torch.autograd.grad(found, weights, flow), torch.autograd.grad(expected, weights, flow), strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-8, rtol=1e-8)


def attended(asking: Tensor, others: Tensor | None = None) -> Tensor:
    """The first half of a layer over two sentences with dropout everywhere, the same at every call."""
    torch.manual_seed(3)
    config = BertConfig(hidden_size=6, num_attention_heads=2, intermediate_size=6, hidden_dropout_prob=0.3)
    layer = BertLayer(config).double().train()  # type: ignore[no-untyped-call]
    asked, everything = ([0, 2, 5], [0, 2, 5]) if others is None else ([0, 1, 3], [0, 3, 7])
    looks = Looks.of(np.array(asked), np.array(everything), 2, nn.Dropout(0.3), torch.float64)
    return attention(asking, others, looks, layer)


@pytest.mark.parametrize("rows", [(5,), (3, 7)], ids=["all rows ask", "some rows ask"])
def test_the_gradient_of_the_first_half_passes_a_numerical_check(rows: tuple[int, ...]) -> None:
    assert torch.autograd.gradcheck(attended, [parts(size, 6, seed=size)[0] for size in rows])


def gelu_and_slope(values: Tensor) -> tuple[Tensor, Tensor]:
    """Of values and of nothing added."""
    rows = torch.arange(len(values))
    return Sums(rows, torch.zeros_like(rows)).gelu(values, torch.zeros_like(values[:1]))


FAR = torch.tensor([-1e30, -1e15, -300.0, -13.5, -0.0, 0.0, 1e-30, 13.5, 300.0, 1e15])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gelu_and_its_slope_are_those_of_torch_everywhere(dtype: torch.dtype) -> None:
    values = torch.cat([torch.linspace(-12, 12, 40_000), FAR])[:, None].to(dtype)
    exact = values.double().requires_grad_()
    gelu(exact).sum().backward()  # type: ignore[no-untyped-call]
    found, slopes = gelu_and_slope(values)
    assert exact.grad is not None
    torch.testing.assert_close(found.double(), gelu(exact), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(slopes.double(), exact.grad, atol=5e-7, rtol=0)


def test_sums_are_of_the_rows_that_belong_together() -> None:
    lefts, rights = torch.randn(3, 4, generator=torch.manual_seed(0)), torch.randn(2, 4, generator=torch.manual_seed(1))
    sums = Sums(torch.tensor([2, 0, 2]), torch.tensor([0, 1, 1]))
    expected = gelu(lefts[sums.of_lefts] + rights[sums.of_rights])
    torch.testing.assert_close(sums.gelu(lefts, rights)[0], expected)
    torch.testing.assert_close(sums.gelu(lefts.double(), rights.double())[0].float(), expected)


def test_threads_share_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.randn(2000, 3, generator=torch.manual_seed(0))
    alone = gelu_and_slope(values)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert all(torch.equal(one, other) for one, other in zip(gelu_and_slope(values), alone, strict=True))


def test_what_is_no_number_stays_none() -> None:
    found, slopes = gelu_and_slope(torch.tensor([[torch.nan, 1.0]]))
    assert found.isnan().tolist() == slopes.isnan().tolist() == [[True, False]]
