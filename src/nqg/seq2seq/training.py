"""Fine-tuning: the steps one after the other, until the last, or until the dev examples come out no better."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from nqg.seq2seq.batches import Corpus, Objective, Recorder, parts, planned_steps
from nqg.seq2seq.optimizers import new_optimizer
from nqg.seq2seq.settings import FineTuningSettings
from nqg.seq2seq.sharding import ShardedObjective, check_divisible, divided_like
from nqg.training.processes import Processes
from nqg.training.records import DevScores, TrainingStep
from nqg.training.trainer import Diverged

TOGETHER = 32  # steps that a GPU makes before anybody asks it for their losses, which would make it wait
NAMED = 8  # examples of a batch that an error numbers


@dataclass(frozen=True, slots=True)
class Best:
    """The share of dev examples that came out right at best, after which step, and the weights then."""

    exact_match: float
    step: int
    weights: dict[str, Tensor]


class FineTuning:
    """A model on its way, with all that its next step depends on: weights, optimizer, `records` of the steps made.

    Whatever is random in a step comes from the seed and the step's number, so `nqg.seq2seq.resume` need keep no more.
    With `exact_match`, the dev examples are tried every few steps, and the weights that did best are kept.
    """

    def __init__(
        self,
        model: Any,
        corpus: Corpus,
        settings: FineTuningSettings,
        rate: float,
        *,
        exact_match: Callable[[], float] | None = None,
        processes: Processes = Processes(),  # noqa: B008 (frozen)
    ) -> None:
        self.model, self.corpus, self.settings, self.rate = model, corpus, settings, rate
        self.exact_match, self.processes = exact_match, processes
        self.device = corpus.lengths.device
        self.optimizer = new_optimizer(self.weights.values(), settings, rate)
        self.objective = self._new_objective()
        self.sizes = [example.size for example in corpus.examples]
        self.plan = planned_steps(self.sizes, settings)
        if self.is_sharded:
            check_divisible(len(self.plan[0]), settings.accumulate, processes)
        self.records: list[TrainingStep] = []
        self.best: Best | None = None

    def _new_objective(self) -> Objective | Recorder | ShardedObjective:
        settings = self.settings
        objective = Objective(self.model, settings.precision, settings.label_smoothing)
        if self.is_sharded:
            return ShardedObjective(objective, self.processes.count)
        is_recorded = self.device.type == "cuda" and settings.record_kernels and not settings.gradient_checkpointing
        return Recorder(objective) if is_recorded else objective

    @property
    def is_sharded(self) -> bool:
        """Whether the weights are divided among processes; one alone keeps them all."""
        return isinstance(self.model, FSDPModule)

    @property
    def weights(self) -> dict[str, nn.Parameter]:
        """The weights that learn; one that stands in several places is named once."""
        return {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}

    @property
    def made(self) -> int:
        """How many steps were made."""
        return len(self.records)

    @property
    def is_finished(self) -> bool:
        """Whether all steps were made, or the last `patience` trials on dev examples were no better than the best."""
        every = self.settings.evaluate_every
        waited = (self.made - self.best.step) // every if self.best and every else 0
        return self.made >= self.settings.steps or waited >= self.settings.patience

    def steps(self) -> Iterator[TrainingStep]:
        """Make the steps that are left, one record a step; then take the weights that did best, where they were tried.

        On a GPU records come in bundles, and the model is ahead of all but the last one of a bundle.
        """
        if not self.is_sharded:
            self.processes.make_equal(*self.weights.values())
        while not self.is_finished:
            bundle = self._bundle(range(self.made, self._next_pause()))
            self.records += bundle
            if bundle[-1].dev and (self.best is None or bundle[-1].dev.exact_match > self.best.exact_match):
                self.best = Best(bundle[-1].dev.exact_match, self.made, copied(self.weights))
            yield from bundle
        if self.best:
            put(self.best.weights, self.weights)

    def _next_pause(self) -> int:
        """The number of the step after which losses are asked for: at the latest where dev examples are tried."""
        together = TOGETHER if self.device.type == "cuda" else 1
        pauses = [self.settings.steps, (self.made // together + 1) * together]
        if self.settings.evaluate_every:
            pauses.append((self.made // self.settings.evaluate_every + 1) * self.settings.evaluate_every)
        return min(pauses)

    def _bundle(self, numbers: range) -> list[TrainingStep]:
        self.model.train()  # each time, for whoever takes the steps may predict in between
        with self.objective.working():
            losses = torch.stack([self._step(number) for number in numbers]).tolist()
        rates = [self._rate(number) for number in numbers]
        bundle = [TrainingStep(*each) for each in zip((n + 1 for n in numbers), losses, rates, strict=True)]
        for step in bundle:
            _check_finite(step, self.plan[step.number - 1])
        every = self.settings.evaluate_every
        if self.exact_match and every and (numbers.stop % every == 0 or numbers.stop == self.settings.steps):
            last = bundle[-1]
            bundle[-1] = TrainingStep(last.number, last.loss, last.learning_rate, DevScores(self._exact_match(), None))
        return bundle

    def _rate(self, number: int) -> float:
        return self.rate * self.settings.share_of_rate(number)

    def _step(self, number: int) -> Tensor:
        torch.manual_seed(_step_seed(self.settings.seed, number, self.processes.rank))
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate(number)
        self.optimizer.zero_grad(set_to_none=False)  # recorded kernels add to gradients where they lie
        apart = [] if self.is_sharded else list(self.weights.values())  # gradients that nobody has added up
        loss = self.processes.add_up(self._loss(self.plan[number]), apart)
        if self.settings.clip:
            torch.nn.utils.clip_grad_norm_(self.weights.values(), self.settings.clip)
        self.optimizer.step()
        return loss

    def _loss(self, examples: Sequence[int]) -> Tensor:
        """The loss of this process's parts of a step, their gradients added up."""
        settings, processes = self.settings, self.processes
        pieces = sum(self.sizes[number][0] for number in examples)
        mine = parts(examples, self.sizes, settings.accumulate * processes.count)[processes.rank :: processes.count]
        losses = [self.objective.backward(self.corpus.batch(part), self.corpus.number(pieces)) for part in mine if part]
        return torch.stack([self.corpus.number(0), *losses]).sum()

    def _exact_match(self) -> float:
        """The share of dev examples that come out right, found by the main process and told to the others.

        Where weights are sharded, all take part, because all are needed to make the model whole.
        """
        found = torch.zeros((), dtype=torch.float64, device=self.device)
        if self.exact_match and (self.processes.is_main or self.is_sharded):
            found += self.exact_match()
        self.processes.make_equal(found)
        return float(found)


def copied(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy of weights where it takes no memory of a GPU's; of sharded ones, of each process's part where it is."""
    return {name: _copied(weight.detach()) for name, weight in weights.items()}


def _copied(weight: Tensor) -> Tensor:
    return weight.clone() if isinstance(weight, DTensor) else weight.cpu().clone()


@torch.no_grad()
def put(values: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Give weights the values of a copy."""
    for name, weight in weights.items():
        weight.copy_(divided_like(weight, values[name]))


def _step_seed(seed: int, step: int, rank: int) -> int:
    """A seed of 32 bits, because torch's generator on CPUs looks at no more of them."""
    return random.Random(f"seq2seq {seed} {step} {rank}").getrandbits(32)


def _check_finite(step: TrainingStep, batch: Sequence[int]) -> None:
    if not math.isfinite(step.loss):
        shown = ", ".join(str(number + 1) for number in batch[:NAMED]) + (", …" if len(batch) > NAMED else "")
        raise Diverged(
            f"the loss of step {step.number} is {step.loss}, at learning rate {step.learning_rate:g} and for the "
            f"examples {shown}; try a lower rate, or float32 instead of bf16"
        )
