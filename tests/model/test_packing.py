"""BERT without padding against Transformers' own way through it."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

from nqg.model.encoder import PieceBatch
from nqg.model.layers import feed_forward
from nqg.model.packing import encoded

NO_TOKENS = np.empty((0, 0), dtype=np.int64)


def bert(layers: int = 2, **settings: Any) -> Any:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20, hidden_size=12, num_hidden_layers=layers, num_attention_heads=3, intermediate_size=20, **settings
    )
    return BertModel(config, add_pooling_layer=False).double().eval()  # type: ignore[no-untyped-call]


def batch_of(lengths: list[int]) -> PieceBatch:
    ids = torch.randint(1, 20, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return PieceBatch(ids * mask, mask, NO_TOKENS, NO_TOKENS)


def everywhere(sentences: PieceBatch) -> torch.Tensor:
    return sentences.mask.flatten().nonzero()[:, 0]


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.integers(1, 3),
    st.sampled_from(["gelu", "gelu_new", "relu"]),
    st.data(),
)
def test_wanted_vectors_and_all_gradients_are_those_of_transformers(
    lengths: list[int], layers: int, activation: str, data: st.DataObject
) -> None:
    model, sentences = bert(layers, hidden_act=activation), batch_of(lengths)
    places = [(row, place) for row, length in enumerate(lengths) for place in range(length)]
    wanted = data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=5))
    rows, columns = (torch.tensor(each) for each in zip(*wanted, strict=True))
    theirs = model(input_ids=sentences.ids, attention_mask=sentences.mask).last_hidden_state[rows, columns]
    ours = encoded(model, sentences, rows * max(lengths) + columns)
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)
    factors = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    parameters = list(model.parameters())
    for one, other in zip(
        torch.autograd.grad((ours * factors).sum(), parameters, allow_unused=True),
        torch.autograd.grad((theirs * factors).sum(), parameters, allow_unused=True),
        strict=True,
    ):
        assert one is not None
        assert other is not None
        torch.testing.assert_close(one, other, atol=1e-10, rtol=0)


def test_the_last_layer_is_not_worked_out_for_pieces_that_nobody_wants() -> None:
    model, sentences = bert(layers=2), batch_of([3, 5])
    with patch("nqg.model.packing.feed_forward", wraps=feed_forward) as watched:
        assert encoded(model, sentences, torch.tensor([9, 5, 9])).shape == (3, 12)
    assert [len(call.args[0]) for call in watched.mock_calls] == [8, 2]


def test_in_single_precision_vectors_and_gradients_are_those_of_transformers_up_to_rounding() -> None:
    model, sentences = bert().float(), batch_of([4, 6, 1])
    places = everywhere(sentences)
    theirs = model(input_ids=sentences.ids, attention_mask=sentences.mask).last_hidden_state.flatten(0, 1)[places]
    ours = encoded(model, sentences, places)
    torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=0)
    factors = torch.randn(ours.shape, generator=torch.Generator().manual_seed(2))
    gradients, others = (
        torch.autograd.grad((each * factors).sum(), list(model.parameters())) for each in (ours, theirs)
    )
    for one, other in zip(gradients, others, strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=2e-6)


def test_other_encoders_go_their_own_way() -> None:
    config = RobertaConfig(
        vocab_size=20, hidden_size=12, num_hidden_layers=1, num_attention_heads=3, intermediate_size=20, pad_token_id=0
    )
    model = RobertaModel(config, add_pooling_layer=False).eval()  # type: ignore[no-untyped-call]
    sentences = batch_of([2, 4])
    theirs = model(input_ids=sentences.ids, attention_mask=sentences.mask).last_hidden_state
    places = everywhere(sentences)
    assert torch.equal(encoded(model, sentences, places), theirs.flatten(0, 1)[places])


def test_without_padding_a_sentence_does_not_notice_its_neighbours() -> None:
    model = bert()
    together = batch_of([4, 2, 6])
    alone = PieceBatch(together.ids[1:2, :2], together.mask[1:2, :2], NO_TOKENS, NO_TOKENS)
    torch.testing.assert_close(
        encoded(model, together, everywhere(together))[4:6], encoded(model, alone, everywhere(alone))
    )


def test_training_drops_and_the_seed_decides_what() -> None:
    model = bert(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    sentences = batch_of([4, 6])

    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return encoded(model, sentences, everywhere(sentences))

    calm = drawn(1)
    assert torch.equal(calm, drawn(2))
    model.train()
    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))
    assert not torch.equal(drawn(1), calm)
