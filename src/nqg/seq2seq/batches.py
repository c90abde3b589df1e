"""Examples as subwords, their batches, and the plan of all steps: few shapes, little padding."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from nqg.seq2seq.settings import FineTuningSettings

# The label that torch's cross entropy ignores.
IGNORED = -100
# Bounds of work, which change no loss: widths on a GPU are multiples of `ROUND`, so that there are
# few shapes, and those that suit matrix units. Between a power of 2 and the next there are at most
# `WIDTHS_PER_DOUBLING` of them, so that longer examples come in coarser shapes.
ROUND = 8
WIDTHS_PER_DOUBLING = 8
# An epoch has at least so many pools: with fewer, a step would see short or long examples alone.
POOLS = 8


@dataclass(frozen=True, slots=True)
class SubwordPair:
    """A source and a target as ids of subwords."""

    source: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def size(self) -> tuple[int, int]:
        """The order of examples: by their time, of which a subword of a target takes twice as much,
        and target.
        """
        return 2 * len(self.target) + len(self.source), len(self.target)


class BatchShape(NamedTuple):
    """Rows, and the widths of targets and sources."""

    rows: int
    target: int
    source: int

    @property
    def size(self) -> int:
        """What memory grows with: the logits of targets take most of it, by far."""
        return self.rows * (8 * self.target + self.source)


class SubwordPairBatch(NamedTuple):
    """Examples side by side: B of them, S and T the longest source and target, on a GPU rounded up.

    `inputs` are what the decoder has written before each subword of `labels`.
    """

    sources: Tensor  # (B, S)
    mask: Tensor  # (B, S)
    inputs: Tensor  # (B, T)
    labels: Tensor  # (B, T)

    @property
    def shape(self) -> BatchShape:
        return BatchShape(len(self.labels), self.labels.shape[1], self.sources.shape[1])

    @classmethod
    def empty(cls, shape: BatchShape, device: torch.device) -> SubwordPairBatch:
        sources = torch.zeros(
            (shape.rows, shape.source), dtype=torch.long, device=device
        )
        targets = sources.new_zeros((shape.rows, shape.target))
        return cls(sources, torch.ones_like(sources), targets, targets.clone())


class SubwordCorpus:
    """All examples on a device, from which batches are taken without a copy from the host."""

    def __init__(
        self,
        examples: Sequence[SubwordPair],
        padding: int,
        start: int,
        device: torch.device,
    ) -> None:
        self.examples, self.device = examples, device
        sources, inputs, labels = [], [], []
        for example in examples:
            sources.append(example.source)
            inputs.append((start, *example.target[:-1]))
            labels.append(example.target)
        self.sources = padded(sources, padding).to(device)
        self.inputs = padded(inputs, padding).to(device)
        self.labels = padded(labels, IGNORED).to(device)
        self.lengths = torch.tensor(list(map(len, sources)), device=device)
        self.positions = torch.arange(self.sources.shape[1], device=device)

    def shape(self, numbers: Sequence[int]) -> BatchShape:
        """The shape of the batch of some examples."""
        source = max(len(self.examples[number].source) for number in numbers)
        target = max(len(self.examples[number].target) for number in numbers)
        # A CPU has nothing to record, and computes padding for nothing.
        if self.device.type == "cpu":
            return BatchShape(len(numbers), target, source)
        return BatchShape(len(numbers), rounded(target), rounded(source))

    def collate(self, numbers: Sequence[int]) -> SubwordPairBatch:
        """The batch of some examples; nothing waits for what a GPU is doing."""
        indices = torch.tensor(numbers)
        if self.device.type == "cuda":
            indices = indices.pin_memory()
        rows = indices.to(self.device, non_blocking=True)
        _, target, source = self.shape(numbers)
        return SubwordPairBatch(
            sources=self.sources[rows, :source].long(),
            mask=(self.positions[:source] < self.lengths[rows, None]).long(),
            inputs=self.inputs[rows, :target].long(),
            labels=self.labels[rows, :target].long(),
        )


def rounded(length: int) -> int:
    """The width of a batch whose longest row has this length.

    >>> [rounded(length) for length in (1, 24, 60, 65, 130, 500)]
    [8, 24, 64, 72, 144, 512]
    """
    step = max(ROUND, (1 << (length - 1).bit_length()) // (2 * WIDTHS_PER_DOUBLING))
    return -(-length // step) * step


def padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Rows as a table, filled up with `value`: (rows, longest)."""
    table = torch.full(
        (len(rows), rounded(max(map(len, rows)))), value, dtype=torch.int32
    )
    for line, row in zip(table, rows):
        line[: len(row)] = torch.tensor(row)
    return table


def planned_steps(
    sizes: Sequence[tuple[int, int]], settings: FineTuningSettings
) -> list[list[int]]:
    """The examples of every step, which depend on the seed alone.

    Every epoch comes in a new order. As many examples as fill `pool` batches are sorted by size and
    divided into batches, which come in any order. A pool is at most an eighth of an epoch, so small
    data stay as they come.
    """
    rng = random.Random(settings.seed)
    size = min(settings.batch_size, len(sizes))
    pool = size * max(1, min(settings.pool, len(sizes) // (POOLS * size)))
    queue: list[int] = []
    steps: list[list[int]] = []
    while len(steps) < settings.steps:
        while len(queue) < pool:
            queue += rng.sample(range(len(sizes)), len(sizes))
        drawn = sorted(queue[:pool], key=sizes.__getitem__)
        del queue[:pool]
        batches = [drawn[start : start + size] for start in range(0, pool, size)]
        rng.shuffle(batches)
        steps += batches
    return steps[: settings.steps]


def split_by_size(
    step: Iterable[int], sizes: Sequence[tuple[int, int]], count: int
) -> list[list[int]]:
    """A step's examples, sorted by size and split into `count` chunks as equal as can be, some
    perhaps empty.

    >>> split_by_size([0, 1, 2], [(5, 1), (1, 1), (3, 1)], 2)
    [[1], [2, 0]]
    """
    ordered = sorted(step, key=sizes.__getitem__)
    ends = [len(ordered) * number // count for number in range(count + 1)]
    return [ordered[start:end] for start, end in pairwise(ends)]
