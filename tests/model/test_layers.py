"""Parts of a layer against plain torch, with dropout as it was drawn, and their gradients against differences."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm

from nqg.model.dropout import Drops
from nqg.model.layers import biased_gelu, residual

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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gelu_of_what_is_biased_is_that_of_torch_everywhere(dtype: torch.dtype) -> None:
    far = torch.tensor([-1e30, -200.0, -13.5, 13.5, 200.0, 1e30, 0.0, -0.0, 1e-30])
    values = torch.cat([torch.linspace(-12, 12, 40_000), far])[:, None].to(dtype).requires_grad_()
    bias = torch.tensor([0.25, -0.5, 0.0], dtype=dtype, requires_grad=True)
    found = biased_gelu(values.expand(-1, 3).contiguous(), bias)
    exact = values.detach().double().requires_grad_()
    shift = bias.detach().double().requires_grad_()
    expected = gelu((exact.to(dtype) + shift.to(dtype)).double())
    torch.testing.assert_close(found.double(), expected, atol=1e-6, rtol=2e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_slope_of_gelu_is_that_of_torch(dtype: torch.dtype) -> None:
    values = torch.cat([torch.linspace(-12, 12, 40_000), torch.tensor([-1e15, -300.0, 300.0, 1e15])])[:, None].to(dtype)
    bias = torch.zeros(1, dtype=dtype, requires_grad=True)
    ones, others = values.clone().requires_grad_(), values.double().requires_grad_()
    biased_gelu(ones, bias).sum().backward()  # type: ignore[no-untyped-call]
    gelu(others).sum().backward()  # type: ignore[no-untyped-call]
    assert ones.grad is not None
    assert others.grad is not None
    assert bias.grad is not None
    torch.testing.assert_close(ones.grad.double(), others.grad, atol=5e-7, rtol=0)
    assert bias.grad.item() == pytest.approx(ones.grad.sum().item(), rel=1e-4)


def test_what_is_no_number_stays_none() -> None:
    found = biased_gelu(torch.tensor([[torch.nan, 1.0]]), torch.zeros(2))
    assert found[0, 0].isnan()
    assert not found[0, 1].isnan()
