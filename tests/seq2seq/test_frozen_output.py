"""A frozen output layer: its loss and gradients are those of automatic differentiation."""

from __future__ import annotations

import copy

import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import T5ForConditionalGeneration

from nqg.model.settings import Precision
from nqg.seq2seq.batches import SubwordCorpus, SubwordPair
from nqg.seq2seq.cuda_graphs import CrossEntropy
from nqg.seq2seq.fine_tuning import fuse_kernels
from nqg.seq2seq.frozen_output import (
    ByteDropout,
    FrozenOutputCrossEntropy,
    has_frozen_output,
    label_losses,
    use_byte_dropout,
)
from nqg.seq2seq.seq2seq import small_t5
from nqg.seq2seq.settings import SmallT5Settings


def tiny_t5() -> T5ForConditionalGeneration:
    """A T5 without dropout, whose embeddings and output layer do not learn."""
    small = SmallT5Settings(width=16, layers=2, heads=2, dropout=0.0)
    model = small_t5(small, 32, seed=0)
    model.shared.requires_grad_(False)
    model.lm_head.requires_grad_(False)
    fuse_kernels(model)
    return model


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4),
    st.sampled_from([("float32", 1e-5), ("bf16", 0.1)]),
)
def test_a_frozen_output_layer_has_the_loss_and_gradients_of_any_other(
    sizes: list[tuple[int, int]], accuracy: tuple[Precision, float]
) -> None:
    precision, error = accuracy
    model = tiny_t5()
    plain = copy.deepcopy(model)
    pairs = []
    for source, target in sizes:
        sources, targets = range(3, 3 + source), range(4, 4 + target)
        pairs.append(SubwordPair(tuple(sources), tuple(targets)))
    corpus = SubwordCorpus(pairs, 0, 0, torch.device("cpu"))
    batch = corpus.collate(range(len(pairs)))
    subwords = torch.tensor(12.0)
    assert has_frozen_output(model)
    found = FrozenOutputCrossEntropy(model, precision).backward(batch, subwords)
    expected = CrossEntropy(plain, precision).backward(batch, subwords)
    torch.testing.assert_close(found, expected, rtol=error, atol=0)
    difference = gradient(model) - gradient(plain)
    assert difference.norm() <= error * gradient(plain).norm()


def gradient(model: torch.nn.Module) -> torch.Tensor:
    """The gradient of all weights that learn, in one row."""
    parts = []
    for weight in model.parameters():
        assert (weight.grad is None) == (not weight.requires_grad)
        if weight.grad is not None:
            parts.append(weight.grad.flatten())
    return torch.cat(parts)


def test_an_output_layer_that_learns_is_not_frozen() -> None:
    model = tiny_t5()
    assert has_frozen_output(model)
    model.lm_head.weight.requires_grad_(True)
    assert not has_frozen_output(model)
    assert not has_frozen_output(torch.nn.Linear(2, 2))


def test_a_label_that_is_learned_well_keeps_its_small_gradient() -> None:
    # In bf16, 1 less a probability of 0.999 would vanish, or double.
    weight = torch.eye(4)
    hidden = torch.tensor([[7.0, 0.0, 0.0, 0.0]])
    labels = torch.tensor([0])
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        read = hidden.to(dtype).requires_grad_()
        losses = label_losses(read, weight.to(dtype), labels)
        (gradient_found,) = torch.autograd.grad(losses.sum(), read)
        found.append(gradient_found.float())
    torch.testing.assert_close(found[1], found[0], rtol=0.02, atol=0)


@given(st.sampled_from([0.0, 0.1, 0.25, 0.5]), st.integers(1, 40), st.integers(0, 9))
def test_dropout_by_bytes_scales_what_it_keeps(
    rate: float, count: int, seed: int
) -> None:
    torch.manual_seed(seed)
    dropout, values = ByteDropout(rate), torch.arange(1.0, count + 1)
    found = dropout(values)
    kept = found != 0
    share = round(rate * 256) / 256
    torch.testing.assert_close(found[kept], values[kept] / (1 - share))
    torch.manual_seed(seed)
    assert torch.equal(dropout(values), found)
    assert torch.equal(dropout.eval()(values), values)


def test_dropout_by_bytes_takes_the_place_of_every_other() -> None:
    small = SmallT5Settings(width=16, layers=1, heads=2, dropout=0.25)
    model = small_t5(small, 32, seed=0)
    use_byte_dropout(model)
    rates = set()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            assert isinstance(module, ByteDropout)
            rates.add(module.p)
    assert rates == {0.25}
    torch.manual_seed(0)
    many = ByteDropout(0.25)(torch.ones(100_000))
    assert abs(float((many == 0).float().mean()) - 0.25) < 0.01
