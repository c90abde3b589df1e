"""Dropout against its chances, and against patterns that a poor stream of bits would show."""

from __future__ import annotations

import pytest
import torch

from nqg.model.dropout import Drops


def drawn(chance: float, rows: int, width: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return Drops.of(torch.nn.Dropout(chance)).factors((rows, width), torch.float64)


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
    assert not torch.equal(drawn(0.5, 8, 8), Drops.of(torch.nn.Dropout(0.5)).factors((8, 8), torch.float64))


def test_rows_are_drawn_alike_whatever_their_number_and_precision() -> None:
    torch.manual_seed(0)
    drops = Drops.of(torch.nn.Dropout(0.5))
    table = drops.factors((9, 7), torch.float64)
    assert torch.equal(drops.factors((4, 7), torch.float32).double(), table[:4])


@pytest.mark.parametrize(
    ("dropout", "factor"),
    [(torch.nn.Dropout(0.0), 1.0), (torch.nn.Dropout(0.5).eval(), 1.0), (torch.nn.Dropout(1.0), 0.0)],
    ids=["nothing", "at rest", "everything"],
)
def test_where_nothing_is_left_to_chance_nothing_is_drawn(dropout: torch.nn.Dropout, factor: float) -> None:
    before = torch.get_rng_state()
    drops = Drops.of(dropout)
    assert drops.lost == 0
    assert drops.factors((2, 3), torch.float64).tolist() == [[factor] * 3] * 2
    assert torch.equal(torch.get_rng_state(), before)
