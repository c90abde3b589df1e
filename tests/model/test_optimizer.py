"""The optimizer against torch's AdamW after torch's clipping."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nqg.model.optimizer import Optimizer

SHAPES = ((3, 4), (5,), (2, 2), (1,))
UNUSED = 2  # the number of a weight that gets no gradient


def new_weights() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def give_gradients(weights: list[nn.Parameter], step: int, size: float) -> None:
    generator = torch.Generator().manual_seed(step)
    for number, weight in enumerate(weights):
        gradient = size * torch.randn(weight.shape, generator=generator)
        weight.grad = None if number == UNUSED else gradient


def take_steps(optimizer: Optimizer, weights: list[nn.Parameter], steps: range, size: float = 1.0) -> None:
    for step in steps:
        give_gradients(weights, step, size)
        optimizer.step(0.1 / (step + 1), optimizer.gradient_length())


@pytest.mark.parametrize("size", [0.01, 10.0], ids=["gradients that stay", "gradients that are cut"])
def test_steps_are_those_of_torch(size: float) -> None:
    ours, theirs = new_weights(), new_weights()
    torchs = torch.optim.AdamW(theirs, weight_decay=0.05)
    for step in range(6):
        give_gradients(theirs, step, size)
        torch.nn.utils.clip_grad_norm_(theirs, 0.5)
        torchs.param_groups[0]["lr"] = 0.1 / (step + 1)
        torchs.step()
    take_steps(Optimizer(ours, decay=0.05, clip=0.5), ours, range(6), size)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_a_weight_without_a_gradient_stays() -> None:
    weights = new_weights()
    take_steps(Optimizer(weights, decay=0.5, clip=1.0), weights, range(3))
    assert torch.equal(weights[UNUSED], new_weights()[UNUSED])
    assert not torch.equal(weights[0], new_weights()[0])


def test_the_length_is_that_of_all_gradients_together_until_they_are_forgotten() -> None:
    weights = new_weights()
    optimizer = Optimizer(weights, decay=0.0, clip=1.0)
    give_gradients(weights, 0, 1.0)
    together = torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])
    assert optimizer.gradient_length().item() == pytest.approx(together.norm().item())
    optimizer.forget_gradients()
    assert [weight.grad for weight in weights] == [None] * len(weights)


def test_an_optimizer_goes_on_from_what_another_kept() -> None:
    whole, halves = new_weights(), new_weights()
    take_steps(Optimizer(whole, decay=0.05, clip=1.0), whole, range(6))
    first, second = (Optimizer(halves, decay=0.05, clip=1.0) for _ in range(2))
    take_steps(first, halves, range(3))
    second.restore({name: tensor.clone() for name, tensor in first.tensors().items()})
    take_steps(second, halves, range(3, 6))
    assert all(torch.equal(one, other) for one, other in zip(whole, halves, strict=True))
