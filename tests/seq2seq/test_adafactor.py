"""Optimizers have the hyper-parameters that settings name, and make the steps of the libraries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import Adafactor

from nqg.seq2seq.adafactor import StackedAdafactor
from nqg.seq2seq.fine_tuning import new_optimizer
from nqg.seq2seq.settings import FineTuningSettings

SHAPES = [(3, 4), (4,), (2, 3, 4), (5, 2)]


def weights() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def set_gradients(parameters: list[nn.Parameter]) -> None:
    generator = torch.Generator().manual_seed(1)
    for weight in parameters:
        weight.grad = torch.randn(weight.shape, generator=generator)


def size(update: Tensor) -> float:
    return float(update.square().mean().sqrt())


def test_the_settings_name_the_optimizer() -> None:
    settings = FineTuningSettings(optimizer="adafactor", weight_decay=0.3)
    adafactor = new_optimizer(weights(), settings, 0.1)
    assert isinstance(adafactor, Adafactor)
    adamw = new_optimizer(weights(), replace(settings, optimizer="adamw"), 0.1)
    assert isinstance(adamw, torch.optim.AdamW)
    for optimizer in (adafactor, adamw):
        assert (optimizer.defaults["lr"], optimizer.defaults["weight_decay"]) == (
            0.1,
            0.3,
        )


def test_a_step_of_adafactor_is_as_large_as_the_rate() -> None:
    before, after = weights(), weights()
    settings = FineTuningSettings(optimizer="adafactor")
    optimizer = new_optimizer(after, settings, 0.0)
    optimizer.param_groups[0]["lr"] = 0.01  # as the schedule of a training sets it
    set_gradients(after)
    optimizer.step()
    for old, new in zip(before, after, strict=True):
        assert 0.005 < size(new.detach() - old.detach()) <= 0.01001


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_stacked_steps_are_those_of_transformers(decay: float) -> None:
    shapes = [(4, 3), (4, 3), (5,), (2, 4, 3), (5,), (1,)]
    options: dict[str, Any] = {
        "lr": 0.05,
        "scale_parameter": False,
        "relative_step": False,
        "weight_decay": decay,
    }
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [torch.nn.Parameter(weight.detach().clone()) for weight in ours]
    kinds: list[Any] = [StackedAdafactor, Adafactor]
    optimizers = [
        kind(weights, **options)
        for kind, weights in zip(kinds, (ours, theirs), strict=True)
    ]
    for step in range(5):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn(one.shape) * 10 ** (step - 2)
            other.grad = one.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
