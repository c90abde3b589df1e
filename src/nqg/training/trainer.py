"""The training loop of every model: steps until the last, or until dev examples come out no better.

What is trained comes in as an `Objective`: which examples each step takes, how they are collated,
and the gradient of their loss. Whatever is random in a step depends on the seed and the step's
number alone, so that a training can be resumed (`nqg.training.resume`) from weights, optimizer and
records.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from nqg.errors import NqgError, counted
from nqg.model.settings import Schedule
from nqg.run_config import RunConfig
from nqg.training.processes import Processes, gathered, is_sharded, sharded_like
from nqg.training.records import DevScores, TrainingStep

# Training ends early only if the losses of at least so many steps were all small.
# benchmarks/constants.py varies it.
LEARNED_STEPS = 16
# An error names so many sentences of a batch.
MAX_NAMED = 3
Item = TypeVar("Item")
Result = TypeVar("Result")


class LoopSettings(Protocol):
    """What the loop reads of `TrainingSettings` and `FineTuningSettings`."""

    @property
    def steps(self) -> int: ...
    @property
    def clip(self) -> float | None: ...
    @property
    def evaluate_every(self) -> int | None: ...
    @property
    def patience(self) -> int: ...
    @property
    def learned(self) -> float | None: ...


class Objective(Protocol):
    """A model, the examples of every step, and the gradient of their loss."""

    @property
    def model(self) -> Any: ...
    @property
    def settings(self) -> LoopSettings: ...
    @property
    def processes(self) -> Processes: ...

    def seed(self, step: int) -> str:
        """The seed of a step, counted from 0, on this process."""
        ...

    def batches(self) -> Iterator[Sequence[int]]:
        """The examples of every step, those of all processes together."""
        ...

    def collate(self, batch: Sequence[int]) -> Any:
        """What `backward` needs of this process's share of a batch; a thread makes it one step
        ahead.
        """
        ...

    def backward(self, collated: Any) -> Tensor:
        """The share in the loss of the step, its gradient added to that of the weights."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """A block around steps, such as a stream of a GPU."""
        ...


@dataclass(frozen=True, slots=True)
class LearningRate:
    """A learning rate that rises to its peak in `warm_up` steps, then stays, or falls to 0."""

    peak: float
    steps: int
    warm_up: int = 0
    schedule: Schedule = "linear"

    def at(self, step: int) -> float:
        """The rate of a step, counted from 0.

        >>> [LearningRate(1.0, steps=10, warm_up=4).at(step) for step in (0, 3, 4, 9)]
        [0.25, 1.0, 1.0, 0.16666666666666666]
        """
        if step < self.warm_up:
            return self.peak * ((step + 1) / self.warm_up)
        if self.schedule == "constant":
            return self.peak
        return self.peak * (
            max(self.steps - step, 0) / max(self.steps - self.warm_up, 1)
        )


class Diverged(NqgError):
    """A step whose loss or gradient is not a number."""


@dataclass(frozen=True, slots=True)
class Best:
    """The step after which the dev examples came out best so far, their scores, and the weights
    then.
    """

    step: int
    scores: DevScores
    weights: dict[str, Tensor]


class Trainer:
    """A training under way, with all that its next step depends on: weights, optimizer, `records`
    of the steps so far.

    With `evaluate`, the weights are scored on dev examples every few steps, and training ends with
    those that did best. Without, it ends when losses were small for an `epoch`, the steps in which
    all examples come, or longer. `sources` are the sentences that an error may name. A GPU that is
    asked for its losses waits, so with `record_every` above 1 they come for several steps at once,
    and the model is ahead of all but the last.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        rate: LearningRate,
        config: RunConfig,
        *,
        epoch: int = 1,
        sources: Sequence[str] = (),
        evaluate: Callable[[], DevScores] | None = None,
        record_every: int = 1,
    ) -> None:
        self.objective, self.optimizer, self.rate, self.config = (
            objective,
            optimizer,
            rate,
            config,
        )
        self.sources, self.evaluate, self.record_every = sources, evaluate, record_every
        self.settings, self.processes = objective.settings, objective.processes
        # A whole epoch of small losses is needed: all examples have to be learned.
        self.learned_steps = max(LEARNED_STEPS, epoch)
        self.weights = trainable(objective.model)
        # All weights are on one device and sharded alike, so the first speaks for them.
        first = next(iter(self.weights.values()))
        self.device, self.is_sharded = first.device, is_sharded(first)
        # Both are replaced where an interrupted training is restored.
        self.records: list[TrainingStep] = []
        self.best: Best | None = None

    @property
    def made(self) -> int:
        return len(self.records)

    @property
    def is_finished(self) -> bool:
        """Whether all steps are made, all is learned, or the last `patience` evaluations brought
        nothing better.
        """
        every = self.settings.evaluate_every
        if self.made >= self.settings.steps:
            return True
        # Count evaluations instead of steps since the best weights were found.
        if self.best and every:
            return (
                self.made // every - self.best.step // every >= self.settings.patience
            )
        # With dev examples, small losses alone never end the training.
        if self.evaluate or self.made < self.learned_steps:
            return False
        latest = self.records[-self.learned_steps :]
        learned = self.settings.learned or 0.0
        return all(record.loss < learned for record in latest)

    def steps(self) -> Iterator[TrainingStep]:
        """Make the steps that are left, one record a step; finally, take the best weights, if any
        were evaluated.

        Whoever takes no more steps before that has the weights of the last step taken.
        """
        self._synchronise()
        batches = islice(self.objective.batches(), self.made, None)
        left = prefetch(lambda batch: (batch, self.objective.collate(batch)), batches)
        while not self.is_finished:
            # Steps are made up to the next record or evaluation.
            pause = self.settings.steps
            for period in (self.record_every, self.settings.evaluate_every or pause):
                pause = min(pause, (self.made // period + 1) * period)
            records = self._make(list(islice(left, pause - self.made)))
            self.records += records
            dev = records[-1].dev
            if dev and (self.best is None or dev.is_better_than(self.best.scores)):
                self.best = Best(self.made, dev, copied(self.weights))
            yield from records
        if self.best:
            assign(self.weights, self.best.weights)

    def _synchronise(self) -> None:
        """Give every process the main one's weights, if they are after the same step."""
        main = torch.tensor(self.made, device=self.device)
        self.processes.broadcast(
            main, *([] if self.is_sharded else self.weights.values())
        )
        if main != self.made:
            raise NqgError(
                f"process {self.processes.rank} would continue after step {self.made} and the "
                f"main one after step {int(main)}: the folder of the unfinished training must be "
                "one that all processes see"
            )

    def _make(self, batches: Sequence[tuple[Sequence[int], Any]]) -> list[TrainingStep]:
        """Make steps from batches as they are and collated; the last is followed by an evaluation
        where one is due.
        """
        # Whoever takes the steps may predict in between, and leave the model in another mode.
        self.objective.model.train()
        outcomes = []
        with self.objective.running():
            for step, (batch, collated) in enumerate(batches, start=self.made):
                outcome = self._backward(step, collated)
                if self.record_every == 1:
                    outcome = outcome.cpu()
                    self._check_finite(step, batch, *outcome.tolist())
                self.optimizer.step()
                outcomes.append(outcome)

        # Only here a GPU is asked for its losses.
        records: list[TrainingStep] = []
        for (batch, _), outcome in zip(batches, torch.stack(outcomes).tolist()):
            step = self.made + len(records)
            self._check_finite(step, batch, *outcome)
            records.append(TrainingStep(step + 1, outcome[0], self.rate.at(step)))
        last, every = records[-1], self.settings.evaluate_every
        is_due = every and (
            last.number % every == 0 or last.number == self.settings.steps
        )
        if self.evaluate and is_due:
            records[-1] = replace(last, dev=self._dev_scores(self.evaluate))
        return records

    def _backward(self, step: int, collated: Any) -> Tensor:
        """The loss of a step and the norm of its gradient, which is then clipped; both of all
        processes: (2,).
        """
        # torch's generator on CPUs reads no more than 32 bits.
        seed = random.Random(self.objective.seed(step)).getrandbits(32)
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate.at(step)
        self.optimizer.zero_grad()
        with deterministic_sums(self.device):
            loss = self.objective.backward(collated)
        weights = list(self.weights.values())
        loss = self.processes.all_reduce(loss, [] if self.is_sharded else weights)
        norm = torch.zeros_like(loss)
        if self.settings.clip is not None:
            norm = gathered(clip_grad_norm_(weights, self.settings.clip))
        return torch.stack([loss, norm])

    def _check_finite(
        self, step: int, batch: Sequence[int], loss: float, norm: float
    ) -> None:
        # A loss that is not finite is the cause of such a gradient, so name it instead.
        quantity, value = "gradient", norm
        if not math.isfinite(loss):
            quantity, value = "loss", loss
        if math.isfinite(value):
            return
        # Name a few sentences of the batch: one of them may be what is odd.
        named = [
            f"'{self.sources[number]}'" for number in batch[:MAX_NAMED] if self.sources
        ]
        if named and len(batch) > MAX_NAMED:
            named.append("…")
        sentences = f" ({', '.join(named)})" if named else ""
        raise Diverged(
            f"the {quantity} of step {step + 1} is {value}, at learning rate "
            f"{self.rate.at(step):g} and for a batch of "
            f"{counted(len(batch), 'example')}{sentences}; "
            f"try a learning rate below {self.rate.peak:g}, or float32 if it ran in bf16"
        )

    def _dev_scores(self, evaluate: Callable[[], DevScores]) -> DevScores:
        """The scores of the weights as they are, computed by the main process and sent to the
        others.

        Where weights are sharded, all take part, because all are needed to gather them.
        """
        # A tensor has no None, so NaN stands for a loss that is missing.
        scores = torch.full((2,), math.nan, dtype=torch.float64, device=self.device)
        if self.processes.is_main or self.is_sharded:
            dev = evaluate()
            scores[0] = dev.exact_match
            if dev.loss is not None:
                scores[1] = dev.loss
        self.processes.broadcast(scores)
        exact_match, loss = scores.tolist()
        return DevScores(exact_match, None if math.isnan(loss) else loss)


def prefetch(make: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`make` of every item, in order, made by a thread one ahead; its errors are raised where the
    item would come.

    >>> list(prefetch(str.upper, ["a", "b"]))
    ['A', 'B']
    """
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as thread:
        ahead = None
        for item in items:
            # Submit the next item first, so that it is made while the caller uses this
            # one.
            ready, ahead = ahead, thread.submit(make, item)
            if ready:
                yield ready.result()
        if ahead:
            yield ahead.result()


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights that learn; a shared one is named once."""
    return {
        name: weight
        for name, weight in model.named_parameters()
        if weight.requires_grad
    }


def copied(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy of weights in the memory of the host; of sharded ones, of each process's share where
    it is.
    """
    copies = {}
    for name, weight in weights.items():
        weight = weight.detach()
        copies[name] = weight.clone() if is_sharded(weight) else weight.cpu().clone()
    return copies


@torch.no_grad()
def assign(weights: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    if weights.keys() != values.keys():
        raise ValueError(
            f"expected values for the weights {', '.join(weights)}; found {', '.join(values)}"
        )
    for name, weight in weights.items():
        if weight.shape != values[name].shape:
            raise ValueError(
                f"the weights '{name}' have the shape {values[name].shape}, expected {weight.shape}"
            )
        weight.copy_(sharded_like(weight, values[name]))


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """A block in which matrices are multiplied in bf16, if the setting says so, or leaves it to a
    GPU that can.
    """
    return torch.autocast(
        device.type, torch.bfloat16, enabled=is_half(precision, device)
    )


def is_half(precision: str, device: torch.device) -> bool:
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    return precision == "bf16" or (precision == "auto" and has_bf16)


@contextmanager
def deterministic_sums(device: torch.device) -> Iterator[None]:
    """On a CPU, add gradients in the same order every time; torch would let its threads race."""
    options: Any = torch.utils.deterministic
    was_on, fills = (
        torch.are_deterministic_algorithms_enabled(),
        options.fill_uninitialized_memory,
    )
    torch.use_deterministic_algorithms(was_on or device.type == "cpu")
    # Filling would take time and change nothing.
    options.fill_uninitialized_memory = fills and was_on
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_on)
        options.fill_uninitialized_memory = fills
