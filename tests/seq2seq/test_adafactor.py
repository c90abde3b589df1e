"""Adafactor in stacks does what Adafactor weight by weight does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import Adafactor as TheirAdafactor

from nqg.seq2seq import fine_tuning
from nqg.seq2seq.fine_tuning import Adafactor, new_optimizer, stacks
from nqg.seq2seq.settings import FineTuningSettings

one_by_one: Any = TheirAdafactor
SHAPES = [(3, 4), (4,), (3, 4), (2, 3, 4), (4,), (5, 2), ()]


def weights() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def gradients(step: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(step + 1)
    return [10 ** (index - 3) * torch.randn(shape, generator=generator) for index, shape in enumerate(SHAPES)]


def trajectory(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], steps: int = 5) -> list[Tensor]:
    for step in range(steps):
        for weight, gradient in zip(parameters, gradients(step), strict=True):
            weight.grad = gradient
        optimizer.step()
    return [weight.detach() for weight in parameters]


@pytest.mark.parametrize(("scaled", "decay"), [(False, 0.0), (False, 0.1), (True, 0.0)])
@pytest.mark.parametrize("together", [1, 2**24])
def test_stacks_take_the_steps_that_single_weights_take(
    monkeypatch: pytest.MonkeyPatch, scaled: bool, decay: float, together: int
) -> None:
    monkeypatch.setattr(fine_tuning, "MAX_STACKED", together)
    ours, theirs = weights(), weights()
    expected = trajectory(
        one_by_one(theirs, lr=0.01, scale_parameter=scaled, relative_step=False, weight_decay=decay), theirs
    )
    found = trajectory(Adafactor(ours, 0.01, scale_by_weights=scaled, decay=decay), ours)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_a_weight_without_a_gradient_stays_as_it_is() -> None:
    learning, resting = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    learning.grad = torch.ones(2, 2)
    Adafactor([learning, resting], 0.1).step()
    assert resting.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert learning.tolist() != resting.tolist()


def test_an_optimizer_goes_on_from_its_saved_state() -> None:
    whole, parted = weights(), weights()
    expected = trajectory(Adafactor(whole, 0.01), whole, steps=2)
    first = Adafactor(parted, 0.01)
    trajectory(first, parted, steps=1)
    second = Adafactor(parted, 0.01)
    second.load_state_dict(first.state_dict())
    for weight, gradient in zip(parted, gradients(1), strict=True):
        weight.grad = gradient
    second.step()
    assert all(torch.equal(one, other) for one, other in zip(parted, expected, strict=True))


def test_weights_of_one_shape_are_stacked_and_stacks_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fine_tuning, "MAX_STACKED", 24)
    alike = [torch.zeros(3, 4) for _ in range(5)]
    assert [len(stack) for stack in stacks([*alike, torch.zeros(100), torch.zeros(100)])] == [2, 2, 1, 1, 1]


def test_the_settings_name_the_optimizer() -> None:
    settings = FineTuningSettings(weight_decay=0.3)
    assert isinstance(new_optimizer(weights(), settings, 0.1), Adafactor)
    adamw = new_optimizer(weights(), replace(settings, optimizer="adamw"), 0.1)
    assert isinstance(adamw, torch.optim.AdamW)
    assert (adamw.defaults["lr"], adamw.defaults["weight_decay"]) == (0.1, 0.3)
