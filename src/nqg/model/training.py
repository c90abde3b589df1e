"""Fitting the scorer by maximum marginal likelihood: loss = log Z(full) - log Z(goal), averaged over a batch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.forests.forest import Forests
from nqg.model.anchors import anchored, anchors
from nqg.model.encoder import Pieces, piece_batch, pieces
from nqg.model.forest_crf import log_inside
from nqg.model.scorer import Scorer, application_scores
from nqg.model.settings import TrainingSettings


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One step of training: how many were made, and the loss of its batch in nats a sentence."""

    number: int
    loss: float


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Sentences as word pieces, and their forests; pairs that no derivation yields are left out."""

    sentences: tuple[Pieces, ...]
    forests: Forests

    @classmethod
    def of(cls, examples: Sequence[Example], forests: Forests, tokenizer: Any) -> TrainingData:
        """Everything that training needs of examples and grammar."""
        bad = set(forests.underivable())
        good = [number for number in range(len(examples)) if number not in bad]
        if not good:
            raise NqgError("the grammar derives none of the training pairs: there is nothing to learn from")
        sentences = pieces(tokenizer, [examples[number].source_tokens for number in good])
        return cls(tuple(sentences), forests.select(good))

    def __len__(self) -> int:
        return len(self.sentences)


def training_steps(
    scorer: Scorer, data: TrainingData, settings: TrainingSettings, rate: float, padding: int
) -> Iterator[TrainingStep]:
    """Train `scorer` in place, one record a step."""
    device = next(scorer.parameters()).device
    optimizer = torch.optim.AdamW(scorer.parameters(), lr=rate, weight_decay=settings.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warm_up_and_decay(step, settings))
    scorer.train()
    for number, batch in enumerate(batches(len(data), settings), start=1):
        loss = batch_loss(scorer, data, batch, padding, device)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(scorer.parameters(), settings.clip)
        optimizer.step()
        schedule.step()
        yield TrainingStep(number, float(loss.detach()))


def batch_loss(scorer: Scorer, data: TrainingData, batch: Sequence[int], padding: int, device: torch.device) -> Tensor:
    """The mean over a batch of -log p(target | source)."""
    forests = data.forests.select(batch)
    sentences = piece_batch([data.sentences[number] for number in batch], padding, device)
    scores = scorer(sentences, anchors(forests.full, device))  # (S, R)
    full = anchored(forests.full, forests.full, device)
    goal = anchored(forests.goal, forests.full, device)
    everything = log_inside(application_scores(scores, full), full.levels)  # (B,)
    right = log_inside(application_scores(scores, goal), goal.levels)
    return (everything - right).mean()


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
