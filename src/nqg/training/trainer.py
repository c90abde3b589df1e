"""Fitting the scorer by maximum marginal likelihood: steps, until the last or the best is reached."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from nqg.errors import NqgError
from nqg.model.forest_crf import Batch, TrainingData, batch_loss
from nqg.model.scorer import Scorer
from nqg.model.settings import TrainingSettings
from nqg.training.processes import Processes
from nqg.training.records import DevScores, TrainingStep


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


Item = TypeVar("Item")
Made = TypeVar("Made")


def made_ahead(make: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """`make` of every item, in order; what goes wrong with one is raised where it would have come.

    >>> list(made_ahead(str.upper, ["a", "b"]))
    ['A', 'B']
    """
    left = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as thread:
        ready = [thread.submit(make, item) for item in islice(left, 1)]
        while ready:
            (made,), ready = ready, [thread.submit(make, item) for item in islice(left, 1)]
            yield made.result()


NAMED = 3  # sentences of a batch that an error shows


class Learnable(Protocol):
    """Examples to learn from: `TrainingData` in memory, or `StreamedData` on disk."""

    def __len__(self) -> int: ...

    def rows(self, batch: Sequence[int]) -> tuple[TrainingData, Sequence[int]]:
        """Data that holds a batch, and the batch in terms of it."""
        ...


class Diverged(NqgError):
    """A step whose loss or gradient is no number; it was not made, the weights are those of the step before."""


@dataclass(frozen=True, slots=True)
class Best:
    """The step after which the dev examples came out best so far, their scores, and the weights then."""

    number: int
    scores: DevScores
    weights: dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Share:
    """The examples of a step, and those of them that are this process's, on the device; there may be none."""

    batch: Sequence[int]
    own: Batch | None


class Training:
    """A scorer on its way, with all that its next step depends on: weights, optimizer, `records` of the steps made.

    Whatever is random in a step comes from the seed and the step's number, so `nqg.training.resume` need keep no more.
    With `evaluate`, the weights are tried every few steps, and those that did best are the ones that training ends
    with. `sources` are the sentences of `data`, for errors to name.
    """

    def __init__(
        self,
        scorer: Scorer,
        data: Learnable,
        settings: TrainingSettings,
        rate: float,
        *,
        sources: Sequence[str] = (),
        evaluate: Callable[[], DevScores] | None = None,
        processes: Processes = Processes(),  # noqa: B008 (frozen)
    ) -> None:
        self.scorer, self.data, self.settings, self.rate = scorer, data, settings, rate
        self.sources, self.evaluate, self.processes = sources, evaluate, processes
        self.device = next(scorer.parameters()).device
        self._seed = torch.default_generator.manual_seed if self.device.type == "cpu" else torch.manual_seed
        self.weights = tuple(scorer.parameters())
        self.optimizer = torch.optim.AdamW(self.weights, weight_decay=settings.weight_decay, fused=True)
        self.records: list[TrainingStep] = []
        self.best: Best | None = None

    @property
    def made(self) -> int:
        """How many steps were made."""
        return len(self.records)

    @property
    def is_finished(self) -> bool:
        """Whether all steps were made, or the last `patience` trials on dev examples were no better than the best."""
        every = self.settings.evaluate_every
        waited = self.made // every - self.best.number // every if self.best else 0
        return self.made >= self.settings.steps or waited >= self.settings.patience

    def steps(self) -> Iterator[TrainingStep]:
        """Make the steps that are left, one record a step; then take the weights that did best, where they were tried.

        Whoever takes no more steps before that has the weights of the last step taken.
        """
        self._begin_together()
        self.scorer.train()
        left = made_ahead(self._collate, islice(batches(len(self.data), self.settings), self.made, None))
        while not self.is_finished:
            step = self._step(next(left))
            self.records.append(step)
            if step.dev and (self.best is None or step.dev.is_better_than(self.best.scores)):
                self.best = Best(step.number, step.dev, weights_of(self.scorer))
            yield step
        if self.best:
            self.scorer.load_state_dict(self.best.weights)

    def _begin_together(self) -> None:
        """Give every process the main one's weights, if they are after the same step."""
        made = torch.tensor(self.made, device=self.device)
        self.processes.make_equal(made, *self.scorer.state_dict().values())
        if made != self.made:
            raise NqgError(
                f"process {self.processes.rank} would go on after step {self.made} and the main one after step "
                f"{int(made)}: the folder of the unfinished training must be one that all processes see"
            )

    def _collate(self, batch: Sequence[int]) -> Share:
        if not (own := self.processes.share(batch)):
            return Share(batch, None)
        data, rows = self.data.rows(own)
        return Share(batch, data.collate(rows, self.device))

    def _step(self, share: Share) -> TrainingStep:
        rate = self.rate * warm_up_and_decay(self.made, self.settings)
        total = self._gradients(share)
        total_norm = torch.nn.utils.get_total_norm([each.grad for each in self.weights if each.grad is not None])
        loss, norm = torch.stack([total, total_norm]).tolist()  # one wait for a GPU, not two
        step = TrainingStep(self.made + 1, loss, rate)
        self._check_finite(step, norm, share.batch)
        torch.nn.utils.clip_grads_with_norm_(self.weights, self.settings.clip, total_norm)
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        return replace(step, dev=self._dev_scores()) if self._is_trial(step.number) else step

    def _gradients(self, share: Share) -> Tensor:
        """The loss of a batch, and its gradient where the optimizer looks for it, of all processes together."""
        if not self.scorer.training:  # whoever takes the steps may have parsed in between
            self.scorer.train()
        self.optimizer.zero_grad()
        self._seed(_step_seed(self.settings.seed, self.made, self.processes.rank))
        total = torch.zeros((), device=self.device)
        if share.own:
            with _sums_in_order(self.device):
                with precision(self.settings.precision, self.device):
                    loss = batch_loss(self.scorer, share.own)
                weighted = loss * (len(share.own.numbers) / len(share.batch))  # of a mean over the whole batch
                weighted.backward()  # type: ignore[no-untyped-call]
            total = weighted.detach()
        return self.processes.add_up(total, self.weights)

    def _check_finite(self, step: TrainingStep, norm: float, batch: Sequence[int]) -> None:
        """Refuse to go on from a loss or a gradient that is no number."""
        what, value = ("loss", step.loss) if not math.isfinite(step.loss) else ("gradient", norm)
        if math.isfinite(value):
            return
        named = ", ".join(f"'{self.sources[number]}'" for number in batch[:NAMED] if number < len(self.sources))
        shown = f" ({named}{', …' if len(batch) > NAMED else ''})" if named else ""
        raise Diverged(
            f"the {what} of step {step.number} is {value}, at learning rate {step.learning_rate:g} and for a batch of "
            f"{len(batch)} examples{shown}; try a learning rate below {self.rate:g}"
        )

    def _is_trial(self, number: int) -> bool:
        is_due = number % self.settings.evaluate_every == 0 or number == self.settings.steps
        return self.evaluate is not None and is_due

    def _dev_scores(self) -> DevScores:
        """The scores of the weights as they are, taken by the main process and told to the others."""
        scores = torch.zeros(2, dtype=torch.float64, device=self.device)
        if self.processes.is_main and self.evaluate:
            found = self.evaluate()
            scores[0], scores[1] = found.exact_match, math.nan if found.loss is None else found.loss
        self.processes.make_equal(scores)
        exact_match, loss = scores.tolist()
        return DevScores(exact_match, None if math.isnan(loss) else loss)


def weights_of(scorer: Scorer) -> dict[str, Tensor]:
    """A copy of the weights, where it takes no memory of a GPU's."""
    return {name: tensor.detach().cpu().clone() for name, tensor in scorer.state_dict().items()}


def precision(name: str, device: torch.device) -> torch.autocast:
    """A block in which matrices are multiplied in bf16, if the setting says so; sums over forests stay in float32."""
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    return torch.autocast(device.type, torch.bfloat16, enabled=name == "bf16" or (name == "auto" and has_bf16))


def _step_seed(seed: int, step: int, rank: int) -> int:
    """A seed of 32 bits, because torch's generator on CPUs looks at no more of them."""
    return random.Random(f"{seed} {step} {rank}" if rank else f"{seed} {step}").getrandbits(32)


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
