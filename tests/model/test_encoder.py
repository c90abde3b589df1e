"""BERT against Hugging Face's, which encoders are whose, and encoders from a folder."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModel, BartConfig, BartModel, RobertaConfig, RobertaModel

from encoders import save_bert, tiny_bert, wrapped
from nqg.errors import NqgError
from nqg.model.bert_config import BertConfig
from nqg.model.encoder import (
    WORD_SHARE,
    Bert,
    BertOutput,
    TransformersEncoder,
    load_encoder,
    mask,
    new_encoder,
    padded,
)
from nqg.model.settings import EncoderSettings, ModelSettings
from nqg.model.subwords import (
    SPECIAL,
    SubwordBatch,
    Subwords,
    tokenize,
    word_tokenizer,
)
from scoring import sentence_tensors

WORDS = 20


def batch_of(lengths: list[int]) -> SubwordBatch[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    ids = [
        tuple(torch.randint(1, WORDS, (length,), generator=generator).tolist())
        for length in lengths
    ]
    return sentence_tensors([Subwords(each, (0,), (len(each) - 1,)) for each in ids])


def twins(**settings: Any) -> tuple[Bert, Any]:
    """Our BERT and Hugging Face's with the same weights."""
    torch.manual_seed(0)
    theirs = tiny_bert(
        WORDS,
        **{
            "hidden_size": 12,
            "num_attention_heads": 3,
            "num_hidden_layers": 2,
            **settings,
        },
    )
    config = BertConfig.from_dict(theirs.config.to_dict())
    assert config is not None
    ours = Bert(config)
    ours.load_state_dict(theirs.state_dict())
    return ours.double().eval(), theirs.double().eval()


@cache
def twins_of(layers: int) -> tuple[Bert, Any]:
    """Twins for a test that changes neither of them: making a pair takes longer than comparing it."""
    return twins(num_hidden_layers=layers)


def vectors_of(model: Any, sentences: SubwordBatch[torch.Tensor]) -> torch.Tensor:
    """What Hugging Face's model makes of all rows: (M, D)."""
    found = model(
        input_ids=padded(sentences, sentences.ids),
        attention_mask=mask(sentences).long(),
    ).last_hidden_state
    rows: torch.Tensor = found.flatten(0, 1)[sentences.places]
    return rows


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(1, 3), st.data()
)
def test_wanted_vectors_and_all_gradients_are_those_of_transformers(
    lengths: list[int], layers: int, data: st.DataObject
) -> None:
    (ours, theirs), sentences = twins_of(layers), batch_of(lengths)
    rows = torch.tensor(
        data.draw(st.lists(st.integers(0, sum(lengths) - 1), min_size=1, max_size=5))
    )
    one, other = ours(sentences, rows), vectors_of(theirs, sentences)[rows]
    torch.testing.assert_close(one, other, atol=1e-12, rtol=0)
    factors = torch.randn(
        one.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
    )
    gradients = [
        torch.autograd.grad((vectors * factors).sum(), list(model.parameters()))
        for vectors, model in ((one, ours), (other, theirs))
    ]
    names = [name for name, _ in ours.named_parameters()]
    assert sorted(names) == sorted(name for name, _ in theirs.named_parameters())
    there = dict(
        zip((name for name, _ in theirs.named_parameters()), gradients[1], strict=True)
    )
    for name, gradient in zip(names, gradients[0], strict=True):
        torch.testing.assert_close(gradient, there[name], atol=1e-10, rtol=0)


@pytest.mark.parametrize("layers", [1, 2])
def test_in_single_precision_vectors_and_gradients_are_those_of_transformers_up_to_rounding(
    layers: int,
) -> None:
    (ours, theirs), sentences = twins(num_hidden_layers=layers), batch_of([4, 6, 1])
    rows = torch.arange(11)
    one, other = ours.float()(sentences, rows), vectors_of(theirs.float(), sentences)
    torch.testing.assert_close(one, other, atol=2e-6, rtol=0)
    one.square().sum().backward()
    other.square().sum().backward()  # type: ignore[no-untyped-call]
    there = dict(theirs.named_parameters())
    for name, weight in ours.named_parameters():
        torch.testing.assert_close(weight.grad, there[name].grad, atol=1e-4, rtol=1e-5)


def test_padded_attention_of_a_gpu_is_that_of_groups() -> None:
    (ours, _), sentences = twins(), batch_of([4, 2, 4, 6])
    attention = ours.encoder["layer"][0].attention  # type: ignore[index]
    attention.eval()
    packed = torch.randn(
        16, 36, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
    )
    packed = packed.view(16, 3, attention.heads, -1)
    torch.testing.assert_close(
        attention.attend_padded(packed, sentences), attention.attend(packed, sentences)
    )


def test_the_last_layer_is_not_computed_for_subwords_that_nobody_wants() -> None:
    (ours, _), sentences = twins(), batch_of([3, 5])
    with patch.object(
        BertOutput, "forward", autospec=True, side_effect=BertOutput.forward
    ) as watched:
        assert ours(sentences, torch.tensor([7, 5, 7])).shape == (3, 12)
    assert [len(call.args[2]) for call in watched.mock_calls] == [8, 8, 2, 2]


def test_a_sentence_does_not_notice_its_neighbours() -> None:
    (ours, _), together = twins(), batch_of([2, 4, 6])
    alone = sentence_tensors([Subwords(tuple(together.ids[2:6].tolist()), (0,), (3,))])
    torch.testing.assert_close(
        ours(together, torch.arange(2, 6)), ours(alone, torch.arange(4))
    )


def test_training_drops_and_the_seed_decides_what() -> None:
    (ours, _), sentences = (
        twins(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5),
        batch_of([4, 6]),
    )

    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        vectors: torch.Tensor = ours(sentences, torch.arange(10))
        return vectors

    calm = drawn(1)
    assert torch.equal(calm, drawn(2))
    ours.train()
    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))
    assert not torch.equal(drawn(1), calm)


@pytest.mark.parametrize(
    "settings",
    [
        {"model_type": "roberta"},
        {"hidden_act": "relu"},
        {"position_embedding_type": "relative_key"},
        {"is_decoder": True},
        {"add_cross_attention": True},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_config_that_asks_for_more_than_bert_is_not_ours(
    settings: dict[str, Any],
) -> None:
    config = {"model_type": "bert", **asdict(BertConfig())}
    assert BertConfig.from_dict(config) == BertConfig()
    assert BertConfig.from_dict({**config, **settings}) is None


def test_the_embedded_encoder_has_the_sizes_of_its_settings() -> None:
    settings = ModelSettings(
        embedded=EncoderSettings(hidden_size=24, layers=3, heads=2, longest=40)
    )
    encoder, tokenizer = new_encoder(settings, [("walk", "twice")])
    assert isinstance(encoder, Bert)
    config = encoder.config
    assert (
        config.hidden_size,
        config.num_hidden_layers,
        config.num_attention_heads,
    ) == (24, 3, 2)
    assert (config.max_position_embeddings, encoder.max_length) == (40, 40)
    assert encoder.vocab_size == tokenizer.get_vocab_size() == len(SPECIAL) + 2


SOURCES = [("jump", "twice"), ("walk",), ("walk", "and", "jump")]


def test_a_bert_of_a_folder_becomes_ours_with_its_weights(tmp_path: Path) -> None:
    save_bert(tmp_path, SOURCES, longest=9)
    encoder, tokenizer = new_encoder(ModelSettings(encoder=str(tmp_path)), [])
    assert isinstance(encoder, Bert)
    assert encoder.max_length == 9
    assert tokenize(tokenizer, SOURCES) == tokenize(word_tokenizer(SOURCES), SOURCES)
    sentences = sentence_tensors(tokenize(tokenizer, SOURCES))
    theirs = vectors_of(AutoModel.from_pretrained(tmp_path).eval(), sentences)
    torch.testing.assert_close(
        encoder.eval()(sentences, torch.arange(len(theirs))), theirs
    )


@pytest.mark.parametrize("kind", ["roberta", "bert with another activation"])
def test_any_other_encoder_of_a_folder_goes_through_transformers(
    tmp_path: Path, kind: str
) -> None:
    tokenizer = word_tokenizer(SOURCES)
    if kind == "roberta":
        config = RobertaConfig(
            vocab_size=tokenizer.get_vocab_size(), hidden_size=12, num_hidden_layers=1, num_attention_heads=3,
            intermediate_size=20, pad_token_id=0,
        )  # fmt: skip
        saved: Any = RobertaModel(config)  # type: ignore[no-untyped-call]
    else:
        saved = tiny_bert(tokenizer.get_vocab_size(), hidden_act="relu")
    saved.save_pretrained(tmp_path)
    wrapped(tokenizer, 64).save_pretrained(tmp_path)
    encoder, subwords = load_encoder(str(tmp_path))
    assert isinstance(encoder, TransformersEncoder)
    assert not [name for name, _ in encoder.named_parameters() if "pooler" in name]
    assert encoder.max_length == 64
    sentences = sentence_tensors(tokenize(subwords, SOURCES))
    rows = torch.tensor([3, 0, 5])
    torch.testing.assert_close(
        encoder.eval()(sentences, rows), vectors_of(saved.eval(), sentences)[rows]
    )


def test_a_folder_that_holds_no_encoder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        NqgError, match=f"the encoder '{re.escape(str(tmp_path))}' could not be loaded"
    ):
        load_encoder(str(tmp_path))


def test_a_name_that_no_encoder_has_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        NqgError, match="the encoder 'no such/encoder at all' could not be loaded"
    ):
        load_encoder("no such/encoder at all")


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
def test_a_model_that_does_not_encode_sentences_is_refused_as_an_encoder(
    tmp_path: Path, kind: str
) -> None:
    tokenizer = word_tokenizer(SOURCES)
    if kind == "decoder":
        saved: Any = tiny_bert(tokenizer.get_vocab_size(), is_decoder=True)
    else:
        config = BartConfig(
            vocab_size=tokenizer.get_vocab_size(), d_model=8, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=8,
            decoder_ffn_dim=8, encoder_attention_heads=2, decoder_attention_heads=2, pad_token_id=0,
        )  # fmt: skip
        saved = BartModel(config)
    saved.save_pretrained(tmp_path)
    wrapped(tokenizer).save_pretrained(tmp_path)
    with pytest.raises(
        NqgError,
        match=rf"cannot be used: it is an? {kind}, .*; choose an encoder, for instance bert",
    ):
        load_encoder(str(tmp_path))


def test_an_encoder_may_see_words_with_those_beside_them() -> None:
    words = [("play", "hey", "jude"), ("play",), ("hey", "play")]
    encoder, tokenizer = new_encoder(ModelSettings(), words, neighbours=True)
    assert isinstance(encoder, Bert)
    embeddings, sentences = encoder.eval().embeddings, tokenize(tokenizer, words)
    assert embeddings.neighbours is not None
    batch = sentence_tensors(sentences)
    found = embeddings(batch)
    begin = 0
    for each in sorted(
        sentences, key=lambda sentence: len(sentence.ids)
    ):  # as they lie in the batch
        (start, *_, stop), vectors = each.ids, embeddings.word_embeddings.weight
        around = [stop, *each.ids, start]
        beside = [
            torch.cat([vectors[left], vectors[right]])
            for left, right in zip(around, around[2:], strict=False)
        ]
        places = (
            embeddings.position_embeddings.weight[: len(each.ids)]
            + embeddings.token_type_embeddings.weight[0]
        )
        summed = (
            vectors[list(each.ids)]
            + embeddings.neighbours(torch.stack(beside))
            + places
        )
        torch.testing.assert_close(
            found[begin : begin + len(each.ids)], embeddings.LayerNorm(summed)
        )
        begin += len(each.ids)
    assert BertConfig.from_dict(json.loads(encoder.config_json())) == encoder.config


def test_words_behind_the_longest_sentence_of_training_stand_next_to_its_last_one() -> (
    None
):
    words = [("walk",) * length for length in (2, 3, 4, 9)]
    encoder, tokenizer = new_encoder(ModelSettings(), words, longest=3)
    assert isinstance(encoder, Bert)
    embeddings, sentences = encoder.embeddings, tokenize(tokenizer, words)
    batch, table = sentence_tensors(sentences), embeddings.position_embeddings.weight
    near = torch.cat([table[:4], 0.99 * table[3] + 0.01 * table[4:]])
    for is_training, positions in ((True, table), (False, near)):
        embeddings.train(is_training)
        embeddings.dropout.eval()
        places = torch.cat([positions[: len(each.ids)] for each in sentences])
        ids = torch.tensor([number for each in sentences for number in each.ids])
        summed = (
            embeddings.word_embeddings(ids)
            + embeddings.token_type_embeddings.weight[0]
            + places
        )
        torch.testing.assert_close(embeddings(batch), embeddings.LayerNorm(summed))
    assert BertConfig.from_dict(json.loads(encoder.config_json())) == encoder.config


def test_words_of_a_new_encoder_begin_nearly_alike() -> None:
    torch.manual_seed(0)
    words = [f"w{number}" for number in range(200)]
    encoder, _ = new_encoder(ModelSettings(), [words])
    assert isinstance(encoder, Bert)
    spread = encoder.embeddings.word_embeddings.weight.detach().std()
    other = encoder.embeddings.position_embeddings.weight.detach().std()
    assert float(spread / other) == pytest.approx(WORD_SHARE, rel=0.05)
