"""Fitting the scorer by maximum marginal likelihood: which batches, which learning rates, one record a step."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from nqg.errors import NqgError
from nqg.model.objective import TrainingData, batch_loss
from nqg.model.scorer import Scorer
from nqg.model.settings import TrainingSettings


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One step of training: how many were made, the loss of its batch in nats a sentence, its learning rate."""

    number: int
    loss: float
    learning_rate: float


class Training:
    """A scorer on its way, with all that its next step depends on: weights, optimizer, and how many steps were `made`.

    Whatever is random in a step comes from the seed and the step's number, so `nqg.model.resume` need keep no more.
    """

    def __init__(
        self, scorer: Scorer, data: TrainingData, settings: TrainingSettings, rate: float, padding: int
    ) -> None:
        self.scorer, self.data, self.settings, self.rate, self.padding = scorer, data, settings, rate, padding
        self.device = next(scorer.parameters()).device
        self.optimizer = torch.optim.AdamW(scorer.parameters(), lr=rate, weight_decay=settings.weight_decay)
        self.made = 0

    def steps(self) -> Iterator[TrainingStep]:
        """Make the steps that are left, one record a step."""
        for batch in islice(batches(len(self.data), self.settings), self.made, None):
            yield self._step(batch)

    def _step(self, batch: Sequence[int]) -> TrainingStep:
        rate = self.rate * warm_up_and_decay(self.made, self.settings)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.scorer.train()  # in every step, for whoever takes the steps may parse in between
        torch.manual_seed(_step_seed(self.settings.seed, self.made))
        self.optimizer.zero_grad(set_to_none=True)
        with _sums_in_order(self.device):
            loss = batch_loss(self.scorer, self.data, batch, self.padding, self.device)
            loss.backward()  # type: ignore[no-untyped-call]
        record = TrainingStep(self.made + 1, float(loss.detach()), rate)
        _check_finite(record, self.rate)
        torch.nn.utils.clip_grad_norm_(self.scorer.parameters(), self.settings.clip)
        self.optimizer.step()
        self.made += 1
        return record


def _step_seed(seed: int, step: int) -> int:
    """A seed of 32 bits, because torch's generator on CPUs looks at no more of them."""
    return random.Random(f"{seed} {step}").getrandbits(32)


@contextmanager
def _sums_in_order(device: torch.device) -> Iterator[None]:
    """On a CPU, add gradients up in the same order every time, where torch would let its threads race."""
    debugging: Any = torch.utils.deterministic
    asked, fills = torch.are_deterministic_algorithms_enabled(), debugging.fill_uninitialized_memory
    torch.use_deterministic_algorithms(asked or device.type == "cpu")
    debugging.fill_uninitialized_memory = fills and asked  # it would take time and change nothing
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(asked)
        debugging.fill_uninitialized_memory = fills


def _check_finite(step: TrainingStep, rate: float) -> None:
    """Refuse to go on from a loss that is no number; the weights are still those of the step before."""
    if not math.isfinite(step.loss):
        raise NqgError(f"the loss of step {step.number} is {step.loss}; try a learning rate below {rate:g}")


def batches(examples: int, settings: TrainingSettings) -> Iterator[list[int]]:
    """The examples of every step: each epoch in a new order, which the seed alone decides."""
    rng = random.Random(settings.seed)
    queue: list[int] = []
    for _ in range(settings.steps):
        while len(queue) < min(settings.batch_size, examples):
            epoch = list(range(examples))
            rng.shuffle(epoch)
            queue.extend(epoch)
        yield queue[: settings.batch_size]
        del queue[: settings.batch_size]


def warm_up_and_decay(step: int, settings: TrainingSettings) -> float:
    """The share of the highest learning rate: rising to 1 in `warm_up` steps, then falling to 0.

    >>> settings = TrainingSettings(steps=10, warm_up=4)
    >>> [warm_up_and_decay(step, settings) for step in (0, 3, 4, 9)]
    [0.25, 1.0, 1.0, 0.16666666666666666]
    """
    if step < settings.warm_up:
        return (step + 1) / settings.warm_up
    return max(settings.steps - step, 0) / max(settings.steps - settings.warm_up, 1)
