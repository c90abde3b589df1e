"""Examples as subwords, the batches that they come in, and the plan of all steps: few shapes, little padding."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from nqg.seq2seq.settings import FineTuningSettings

IGNORED = -100  # the label that torch's cross entropy leaves out
ROUND = 8  # widths are multiples of it: few shapes, and those that matrix units like
WIDTHS_PER_DOUBLING = (
    8  # between a power of 2 and the next one at most: longer examples come in coarser shapes
)
POOLS = 8  # pools in an epoch at least: with fewer, a step would see short or long examples alone, and always the same


@dataclass(frozen=True, slots=True)
class SubwordPair:
    """A source and a target as ids of subwords."""

    source: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def size(self) -> tuple[int, int]:
        """What examples are sorted by: the time that they take, of which a subword of a target takes twice as much."""
        return 2 * len(self.target) + len(self.source), len(self.target)


class BatchShape(NamedTuple):
    """Rows, and the widths of targets and sources."""

    rows: int
    target: int
    source: int

    @property
    def size(self) -> int:
        """What its memory grows with: the logits of targets take most of it, by far."""
        return self.rows * (8 * self.target + self.source)


class SubwordPairBatch(NamedTuple):
    """Examples side by side: B of them, S and T the longest source and target, rounded up."""

    sources: Tensor  # (B, S)
    mask: Tensor  # (B, S)
    inputs: Tensor  # (B, T), what the decoder has written before each subword
    labels: Tensor  # (B, T)

    @property
    def shape(self) -> BatchShape:
        (rows, target), source = self.labels.shape, self.sources.shape[1]
        return BatchShape(rows, target, source)

    @classmethod
    def empty(cls, shape: BatchShape, device: torch.device) -> SubwordPairBatch:
        sources, targets = (
            torch.zeros((shape.rows, width), dtype=torch.long, device=device)
            for width in (shape.source, shape.target)
        )
        return cls(sources, torch.ones_like(sources), targets, targets.clone())


class SubwordCorpus:
    """All examples on a device, from which batches are cut without a copy from the host."""

    def __init__(
        self, examples: Sequence[SubwordPair], padding: int, start: int, device: torch.device
    ) -> None:
        self.examples, self.device = examples, device
        self.sources = padded([example.source for example in examples], padding).to(device)
        self.inputs = padded([(start, *example.target[:-1]) for example in examples], padding).to(
            device
        )
        self.labels = padded([example.target for example in examples], IGNORED).to(device)
        self.lengths = torch.tensor([len(example.source) for example in examples], device=device)
        self.positions = torch.arange(self.sources.shape[1], device=device)

    def shape(self, part: Sequence[int]) -> BatchShape:
        source = max(len(self.examples[number].source) for number in part)
        target = max(len(self.examples[number].target) for number in part)
        return BatchShape(len(part), rounded(target), rounded(source))

    def collate(self, part: Sequence[int]) -> SubwordPairBatch:
        """Some examples side by side; nothing waits for what a GPU is doing."""
        numbers = torch.tensor(part)
        numbers = numbers.pin_memory() if self.device.type == "cuda" else numbers
        rows = numbers.to(self.device, non_blocking=True)
        _, target, source = self.shape(part)
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
    table = torch.full((len(rows), rounded(max(map(len, rows)))), value, dtype=torch.int32)
    for number, row in enumerate(rows):
        table[number, : len(row)] = torch.tensor(row, dtype=torch.int32)
    return table


def planned_steps(
    sizes: Sequence[tuple[int, int]], settings: FineTuningSettings
) -> list[list[int]]:
    """The examples of every step, which the seed alone decides.

    Every epoch comes in a new order. As many examples as fill `pool` batches are sorted by size and cut into batches,
    which come in any order. A pool is at most an eighth of an epoch, so small data stay as they come.
    """
    rng, count = random.Random(settings.seed), len(sizes)
    size = min(settings.batch_size, count)
    pool = size * max(1, min(settings.pool, count // (POOLS * size)))
    queue: list[int] = []
    steps: list[list[int]] = []
    while len(steps) < settings.steps:
        while len(queue) < pool:
            queue += rng.sample(range(count), count)
        drawn = sorted(queue[:pool], key=lambda number: sizes[number])
        del queue[:pool]
        batches = [drawn[start : start + size] for start in range(0, pool, size)]
        rng.shuffle(batches)
        steps += batches
    return steps[: settings.steps]


def split_by_size(
    step: Iterable[int], sizes: Sequence[tuple[int, int]], count: int
) -> list[list[int]]:
    """A step's examples, sorted by size and cut into `count` parts as equal as can be, some perhaps empty.

    >>> split_by_size([0, 1, 2], [(5, 1), (1, 1), (3, 1)], 2)
    [[1], [2, 0]]
    """
    ordered = sorted(step, key=lambda number: sizes[number])
    ends = [len(ordered) * number // count for number in range(count + 1)]
    return [ordered[start:end] for start, end in pairwise(ends)]
