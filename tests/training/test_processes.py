"""Shares of a batch, sums over processes, and who is alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import Parser
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.training.parser_training import ParserTraining
from nqg.training.processes import Processes


@given(st.lists(st.integers(), max_size=20), st.integers(1, 6))
def test_the_shares_of_all_processes_are_the_batch(
    batch: list[int], count: int
) -> None:
    shares = [Processes(count, rank).share(batch) for rank in range(count)]
    assert sorted(number for share in shares for number in share) == sorted(batch)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("size", ["", "1", None])
def test_a_process_that_nobody_launched_with_others_is_alone(
    monkeypatch: pytest.MonkeyPatch, size: str | None
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if size is not None:
        monkeypatch.setenv("WORLD_SIZE", size)
    alone = Processes.launched()
    assert alone == Processes(count=1, rank=0)
    assert alone.is_main
    with alone.main_first():
        alone.close()


def test_alone_nothing_is_added() -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.tensor([1.0, 2.0])
    loss = torch.tensor(3.0)
    assert Processes().all_reduce(loss, [weight]) is loss
    assert weight.grad.tolist() == [1.0, 2.0]


def training(processes: Processes) -> ParserTraining:
    """A training of one example and one step."""
    grammar, once = Grammar.parse("jump ### J\njump ### K"), TrainingSettings(steps=1)
    model = ModelSettings(
        dimension=4,
        embedded=EncoderSettings(hidden_size=4, layers=1, heads=1, longest=8),
    )
    examples = [Example("jump", "J")]
    return ParserTraining(
        grammar,
        examples,
        Parser,
        model=model,
        training=once,
        device="cpu",
        processes=processes,
    )


def plus(other: list[float]) -> Callable[[Tensor], None]:
    """A sum over two processes, of which the other has these numbers."""

    def all_reduce(tensor: Tensor) -> None:
        tensor += torch.tensor(other)

    return all_reduce


def test_losses_and_gradients_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, idle = (
        nn.Parameter(torch.zeros(shape)) for shape in ((2, 2), (1,), (3,))
    )
    first.grad = torch.tensor(
        [[1.0, 2.0], [3.0, 4.0]]
    )  # the other process used the second, and none the third
    monkeypatch.setattr(
        torch.distributed,
        "all_reduce",
        plus([0.5, 1, 1, 0, 10, 20, 30, 40, 7, 0, 0, 0]),
    )
    total = Processes(count=2).all_reduce(torch.tensor(0.25), [first, second, idle])
    assert total.item() == 0.75
    assert total.shape == ()
    assert first.grad.tolist() == [[11.0, 22.0], [33.0, 44.0]]
    assert second.grad is not None
    assert second.grad.tolist() == [7.0]
    assert idle.grad is None


def test_a_gradient_is_added_to_where_it_lies_because_recorded_kernels_know_no_other_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weight = nn.Parameter(torch.zeros(2))
    weight.grad = before = torch.tensor([1.0, 2.0])
    monkeypatch.setattr(torch.distributed, "all_reduce", plus([0.5, 1, 10, 20]))
    Processes(count=2).all_reduce(torch.tensor(0.25), [weight])
    assert weight.grad is before
    assert before.tolist() == [11.0, 22.0]


def test_processes_that_are_not_after_the_same_step_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        torch.distributed, "broadcast", lambda tensor, rank: tensor.fill_(32)
    )
    with pytest.raises(
        NqgError,
        match="process 1 would continue after step 0 and the main one after step 32: the folder",
    ):
        next(training(Processes(count=2, rank=1)).steps())


def test_a_process_without_examples_takes_the_step_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = training(Processes())
    (expected,) = busy.steps()
    weights = list(busy.scorer.parameters())
    gradients = [
        number
        for weight in weights
        if weight.grad is not None
        for number in weight.grad.flatten().tolist()
    ]
    monkeypatch.setattr(
        torch.distributed,
        "all_reduce",
        plus([expected.loss, *[1.0] * len(weights), *gradients]),
    )
    monkeypatch.setattr(torch.distributed, "broadcast", lambda tensor, rank: None)
    idle = training(Processes(count=2, rank=1))
    assert list(idle.steps()) == [expected]
    for ours, theirs in zip(idle.scorer.parameters(), weights, strict=True):
        torch.testing.assert_close(ours, theirs)
