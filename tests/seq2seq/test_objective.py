"""Plans of steps and cuts of batches: every example in turn, like lengths together, nothing lost in padding."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nqg.model.settings import Precision
from nqg.seq2seq.batches import (
    IGNORED,
    SubwordCorpus,
    SubwordPair,
    planned_steps,
    split_by_size,
)
from nqg.seq2seq.cuda_graphs import CopiedModel, CrossEntropy
from nqg.seq2seq.fine_tuning import fuse_kernels
from nqg.seq2seq.seq2seq import small_t5
from nqg.seq2seq.settings import FineTuningSettings, SmallT5Settings

SIZES = st.lists(
    st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=40
)


@given(SIZES, st.integers(1, 12), st.integers(1, 6), st.integers(0, 3))
def test_a_plan_is_the_seeds_alone_and_fair_to_all_examples(
    sizes: list[tuple[int, int]], batch_size: int, pool: int, seed: int
) -> None:
    settings = FineTuningSettings(steps=25, batch_size=batch_size, pool=pool, seed=seed)
    plan = planned_steps(sizes, settings)
    assert plan == planned_steps(sizes, settings)
    assert [len(step) for step in plan] == [min(batch_size, len(sizes))] * 25
    seen = Counter(number for step in plan for number in step)
    assert max(seen.values()) - min(seen[number] for number in range(len(sizes))) <= 2


def test_another_seed_makes_another_plan() -> None:
    sizes = [(number, 1) for number in range(20)]
    one, other = (
        planned_steps(sizes, FineTuningSettings(steps=5, batch_size=4, seed=seed))
        for seed in (0, 1)
    )
    assert one != other


def test_a_longer_training_begins_like_a_shorter_one() -> None:
    sizes = [(number % 7, 1) for number in range(20)]
    short, long = (
        planned_steps(sizes, FineTuningSettings(steps=steps, batch_size=4))
        for steps in (5, 50)
    )
    assert long[:5] == short


def test_a_pool_puts_like_lengths_together() -> None:
    sizes = [(number % 64 + 1, 1) for number in range(640)]

    def padding(pool: int) -> int:
        plan = planned_steps(
            sizes, FineTuningSettings(steps=80, batch_size=8, pool=pool)
        )
        return sum(
            max(sizes[number][0] for number in step) - sizes[number][0]
            for step in plan
            for number in step
        )

    assert padding(8) < padding(1) / 4


def test_small_data_stay_as_they_come() -> None:
    sizes = [(number, 1) for number in range(63)]
    sorted_together, as_they_come = (
        FineTuningSettings(steps=9, batch_size=4, pool=pool) for pool in (8, 1)
    )
    assert planned_steps(sizes, sorted_together) == planned_steps(sizes, as_they_come)


@given(SIZES, st.integers(1, 9))
def test_parts_are_the_step_sorted_and_cut_evenly(
    sizes: list[tuple[int, int]], count: int
) -> None:
    step = list(range(len(sizes)))[::-1]
    cut = split_by_size(step, sizes, count)
    assert len(cut) == count
    assert sorted(number for part in cut for number in part) == sorted(step)
    assert max(map(len, cut)) - min(map(len, cut)) <= 1
    ordered = [sizes[number] for part in cut for number in part]
    assert ordered == sorted(ordered)


SUBWORDS = st.lists(st.integers(3, 99), min_size=1, max_size=20).map(tuple)


@given(
    st.lists(st.builds(SubwordPair, SUBWORDS, SUBWORDS), min_size=1, max_size=8),
    st.data(),
)
def test_a_batch_holds_the_subwords_of_its_examples(
    examples: list[SubwordPair], data: st.DataObject
) -> None:
    corpus = SubwordCorpus(examples, padding=0, start=1, device=torch.device("cpu"))
    part = data.draw(
        st.lists(st.sampled_from(range(len(examples))), min_size=1, max_size=8)
    )
    batch = corpus.collate(part)
    assert all(tensor.dtype == torch.long for tensor in batch)
    assert batch.shape == (
        len(part),
        max(len(examples[number].target) for number in part),
        max(len(examples[number].source) for number in part),
    )
    for row, number in enumerate(part):
        example = examples[number]
        mask = batch.mask[row].bool()
        assert batch.sources[row][mask].tolist() == list(example.source)
        assert batch.sources[row][~mask].tolist() == [0] * int((~mask).sum())
        labels = batch.labels[row]
        assert labels[labels != IGNORED].tolist() == list(example.target)
        assert batch.inputs[row, : len(example.target)].tolist() == [
            1,
            *example.target[:-1],
        ]


@pytest.mark.parametrize(("precision", "error"), [("float32", 1e-6), ("bf16", 0.15)])
def test_a_copy_of_the_model_finds_the_gradients_that_the_model_finds(
    precision: Precision, error: float
) -> None:
    model = small_t5(
        SmallT5Settings(width=16, layers=2, heads=2, dropout=0.0), 32, seed=0
    )
    plain = copy.deepcopy(model)
    fuse_kernels(model)
    pairs = [
        SubwordPair(tuple(range(3, 5 + n)), tuple(range(4, 9 - n))) for n in range(4)
    ]
    corpus = SubwordCorpus(pairs, 0, 0, torch.device("cpu"))
    copied = CopiedModel(model, precision)
    with torch.no_grad():
        for weight in (*model.parameters(), *plain.parameters()):
            weight.add_(0.01)  # which the copy hears of when a step begins
    for part in ([0, 1], [2, 3]):
        batch, subwords = corpus.collate(part), torch.tensor(12.0)
        expected = CrossEntropy(plain, "float32").backward(batch, subwords)
        torch.testing.assert_close(
            copied.backward(batch, subwords), expected, rtol=error, atol=0
        )
    for weight, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert weight.grad is not None
        assert other.grad is not None
        assert (weight.grad - other.grad).norm() <= error * other.grad.norm() + 1e-6
