"""Dropout against its chances, and against patterns that a poor stream of bits would show."""

from __future__ import annotations

import pytest
import torch

from nqg.model.dropout import dropped


def drawn(chance: float, *shape: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return dropped(torch.ones(shape, dtype=torch.float64), torch.nn.Dropout(chance))


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
def test_dropout_takes_its_share_and_keeps_the_mean(chance: float) -> None:
    found = drawn(chance, 1001, 101)
    assert (found == 0).double().mean().item() == pytest.approx(chance, abs=0.006)
    assert sorted(set(found.flatten().tolist())) == pytest.approx([0.0, 1 / (1 - chance)], rel=1e-3)
    assert found.mean().item() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("distance", [1, 2, 101, 25275, 25276, 50552])
def test_whether_a_value_is_lost_says_nothing_of_others(distance: int) -> None:
    lost = (drawn(0.5, 1001, 101) == 0).double().flatten()
    together = (lost[:-distance] * lost[distance:]).mean().item()
    assert together == pytest.approx(0.25, abs=0.01)


def test_the_seed_decides_and_every_call_draws_anew() -> None:
    assert torch.equal(drawn(0.5, 8, 8, seed=3), drawn(0.5, 8, 8, seed=3))
    assert not torch.equal(drawn(0.5, 8, 8, seed=3), drawn(0.5, 8, 8, seed=4))
    assert not torch.equal(drawn(0.5, 8, 8), dropped(torch.ones(8, 8), torch.nn.Dropout(0.5)).double())


def test_the_gradient_reaches_what_was_kept() -> None:
    values = torch.ones(50, requires_grad=True)
    found = dropped(values, torch.nn.Dropout(0.5))
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    assert torch.equal(values.grad, found.detach())


def test_dropout_of_nothing_changes_nothing_and_of_everything_leaves_zeros() -> None:
    ones = torch.ones(5)
    assert dropped(ones, torch.nn.Dropout(0.0)) is ones
    assert dropped(ones, torch.nn.Dropout(0.5).eval()) is ones
    assert dropped(ones, torch.nn.Dropout(1.0)).tolist() == [0.0] * 5
