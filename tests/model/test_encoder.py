"""Word pieces of tokens, the embedded tokenizer and encoder, and encoders from a folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from nqg.errors import NqgError
from nqg.model.encoder import SPECIAL, Pieces, load_encoder, new_encoder, piece_batch, pieces, word_tokenizer
from nqg.model.settings import EncoderSettings, ModelSettings
from nqg.model.spans import Anchors, Edges
from strategies import tokens

VOCABULARY = [*SPECIAL.values(), "jump", "##ing", "##s", "walk", "(", ")", "state"]


@pytest.fixture(scope="module")
def word_pieces() -> Any:
    """A tokenizer like BERT's, with a tiny vocabulary; it drops soft hyphens."""
    numbers = {word: number for number, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Replace("\u00ad", "")
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)  # type: ignore[no-untyped-call]


def spelled(found: Pieces) -> list[str]:
    return [VOCABULARY[number] for number in found.ids]


def test_a_token_of_several_pieces_begins_at_its_first_and_ends_at_its_last(word_pieces: Any) -> None:
    (found,) = pieces(word_pieces, [("jumpings", "walk", "state(jump)")])
    assert spelled(found) == ["[CLS]", "jump", "##ing", "##s", "walk", "state", "(", "jump", ")", "[SEP]"]
    assert found.first == (1, 4, 5)
    assert found.last == (3, 4, 8)


def test_an_unknown_token_is_one_unknown_piece_at_its_place(word_pieces: Any) -> None:
    (found,) = pieces(word_pieces, [("walk", "zebra", "jumps")])
    assert spelled(found) == ["[CLS]", "walk", "[UNK]", "jump", "##s", "[SEP]"]
    assert (found.first, found.last) == ((1, 2, 3), (1, 2, 4))


def test_a_token_that_vanishes_borrows_the_pieces_of_its_left_neighbour(word_pieces: Any) -> None:
    (found,) = pieces(word_pieces, [("jumps", "\u00ad", "\u00ad", "walk")])
    assert spelled(found) == ["[CLS]", "jump", "##s", "walk", "[SEP]"]
    assert (found.first, found.last) == ((1, 1, 1, 3), (2, 2, 2, 3))


def test_a_first_token_that_vanishes_stands_at_the_beginning(word_pieces: Any) -> None:
    (found,) = pieces(word_pieces, [("\u00ad", "walk")])
    assert (found.first, found.last) == ((0, 1), (0, 1))


def test_sentences_are_cut_alone_and_together_into_the_same_pieces(word_pieces: Any) -> None:
    sentences = [("jumps",), ("walk", "zebra"), ("state", "jumpings", "walk")]
    assert pieces(word_pieces, sentences) == [pieces(word_pieces, [each])[0] for each in sentences]


def test_a_batch_is_filled_up_to_its_longest_sentence() -> None:
    batch = piece_batch([Pieces((2, 9, 3), (1,), (1,)), Pieces((2, 5, 6, 8, 3), (1, 3), (2, 3))], 7, "cpu")
    assert batch.ids.tolist() == [[2, 9, 3, 7, 7], [2, 5, 6, 8, 3]]
    assert batch.mask.tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    assert batch.first.tolist() == [[1, 0], [1, 3]]
    assert batch.last.tolist() == [[1, 0], [2, 3]]


def test_a_batch_knows_where_spans_begin_and_end_among_its_pieces() -> None:
    batch = piece_batch([Pieces((2, 9, 3), (1,), (1,)), Pieces((2, 5, 6, 8, 3), (1, 3), (2, 3))], 7, "cpu")
    edges = Edges(np.array([0, 1, 1]), np.array([0, 0, 1]), torch.tensor([0, 1, 2]))
    assert batch.places(Anchors(edges, edges)).tolist() == [1, 6, 8, 1, 7, 8]


def test_a_batch_of_empty_sentences_holds_whole_numbers() -> None:
    batch = piece_batch([Pieces((2, 3), (), ())], 0, "cpu")
    assert batch.first.shape == (1, 0)
    assert batch.first.dtype == np.int64


ODD = ("[PAD]", "[MASK]", "日本", "état", "don't", "(", "'", "NT_1", "##ing", "a.b", "😀", "Walk", "walk")


def test_odd_tokens_are_one_piece_each_of_the_embedded_tokenizer() -> None:
    tokenizer = word_tokenizer([ODD], 512)
    (found,) = pieces(tokenizer, [ODD])
    assert tokenizer.convert_ids_to_tokens(list(found.ids)) == ["[CLS]", *ODD, "[SEP]"]
    assert found.first == found.last == tuple(range(1, len(ODD) + 1))


@given(st.lists(tokens().filter(lambda token: not any(name in token for name in SPECIAL.values())), min_size=1))
def test_every_token_of_the_training_sentences_is_a_piece_of_its_own(sentence: list[str]) -> None:
    tokenizer = word_tokenizer([sentence], 512)
    (found,) = pieces(tokenizer, [sentence])
    assert tokenizer.convert_ids_to_tokens(list(found.ids)) == ["[CLS]", *sentence, "[SEP]"]


def test_words_that_were_not_seen_are_unknown_to_the_embedded_tokenizer() -> None:
    tokenizer = word_tokenizer([("walk",)], 512)
    (found,) = pieces(tokenizer, [("walk", "jump", "Walk")])
    assert tokenizer.convert_ids_to_tokens(list(found.ids)) == ["[CLS]", "walk", "[UNK]", "[UNK]", "[SEP]"]


def test_the_embedded_vocabulary_does_not_depend_on_the_order_of_the_sentences() -> None:
    one, other = word_tokenizer([("b", "a"), ("c",)], 512), word_tokenizer([("c",), ("a", "b")], 512)
    assert one.get_vocab() == other.get_vocab()


def test_the_embedded_encoder_has_the_sizes_of_its_settings() -> None:
    settings = ModelSettings(embedded=EncoderSettings(hidden_size=24, layers=3, heads=2, longest=40))
    encoder, tokenizer = new_encoder(settings, [("walk", "twice")])
    config = encoder.config
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (24, 3, 2)
    assert (config.max_position_embeddings, tokenizer.model_max_length) == (40, 40)
    assert config.vocab_size == len(tokenizer) == len(SPECIAL) + 2


def test_a_local_folder_serves_as_encoder(tmp_path: Path, word_pieces: Any) -> None:
    config = BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    saved = BertModel(config)  # type: ignore[no-untyped-call]
    saved.save_pretrained(tmp_path)
    word_pieces.save_pretrained(tmp_path)
    encoder, tokenizer = new_encoder(ModelSettings(encoder=str(tmp_path)), [])
    sentences = [("jumpings", "walk")]
    assert pieces(tokenizer, sentences) == pieces(word_pieces, sentences)
    batch = piece_batch(pieces(tokenizer, sentences), tokenizer.pad_token_id, "cpu")
    ours, theirs = (
        model.eval()(input_ids=batch.ids, attention_mask=batch.mask).last_hidden_state for model in (encoder, saved)
    )
    assert torch.equal(ours, theirs)
    assert not [name for name, _ in encoder.named_parameters() if "pooler" in name]


def test_a_folder_that_holds_no_encoder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match=f"cannot load the encoder '{re.escape(str(tmp_path))}'"):
        load_encoder(str(tmp_path))


def test_a_name_that_no_encoder_has_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(NqgError, match="cannot load the encoder 'no such/encoder at all'"):
        load_encoder("no such/encoder at all")
