"""When training does what: the examples of every step, and its learning rate."""

from __future__ import annotations

import random
from collections.abc import Iterator

from nqg.model.settings import TrainingSettings


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
