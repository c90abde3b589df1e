"""Subwords of tokens, the embedded tokenizer, and batches of packed sentences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from encoders import wrapped
from nqg.model.encoder import mask, padded
from nqg.model.spans import Anchors, Boundaries
from nqg.model.subwords import (
    SPECIAL,
    Subwords,
    collate,
    tokenize,
    word_tokenizer,
)
from scoring import sentence_tensors
from strategies import tokens

VOCABULARY = [*SPECIAL, "jump", "##ing", "##s", "walk", "(", ")", "state"]


@pytest.fixture(scope="module")
def word_pieces() -> Tokenizer:
    """A tokenizer like BERT's, with a tiny vocabulary; it drops soft hyphens."""
    numbers = {word: number for number, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Replace("\u00ad", "")
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def spelled(found: Subwords) -> list[str]:
    return [VOCABULARY[number] for number in found.ids]


def test_a_token_of_several_subwords_begins_at_its_first_and_ends_at_its_last(
    word_pieces: Tokenizer,
) -> None:
    (found,) = tokenize(word_pieces, [("jumpings", "walk", "state(jump)")])
    assert spelled(found) == [
        "[CLS]",
        "jump",
        "##ing",
        "##s",
        "walk",
        "state",
        "(",
        "jump",
        ")",
        "[SEP]",
    ]
    assert found.first == (1, 4, 5)
    assert found.last == (3, 4, 8)


def test_an_unknown_token_is_one_unknown_subword_at_its_place(
    word_pieces: Tokenizer,
) -> None:
    (found,) = tokenize(word_pieces, [("walk", "zebra", "jumps")])
    assert spelled(found) == ["[CLS]", "walk", "[UNK]", "jump", "##s", "[SEP]"]
    assert (found.first, found.last) == ((1, 2, 3), (1, 2, 4))


def test_a_token_that_vanishes_borrows_the_subwords_of_its_left_neighbour(
    word_pieces: Tokenizer,
) -> None:
    (found,) = tokenize(word_pieces, [("jumps", "\u00ad", "\u00ad", "walk")])
    assert spelled(found) == ["[CLS]", "jump", "##s", "walk", "[SEP]"]
    assert (found.first, found.last) == ((1, 1, 1, 3), (2, 2, 2, 3))


def test_a_first_token_that_vanishes_stands_at_the_beginning(
    word_pieces: Tokenizer,
) -> None:
    (found,) = tokenize(word_pieces, [("\u00ad", "walk")])
    assert (found.first, found.last) == ((0, 1), (0, 1))


def test_sentences_are_tokenized_alone_and_together_into_the_same_subwords(
    word_pieces: Tokenizer,
) -> None:
    sentences = [("jumps",), ("walk", "zebra"), ("state", "jumpings", "walk")]
    assert tokenize(word_pieces, sentences) == [
        tokenize(word_pieces, [each])[0] for each in sentences
    ]


def test_subwords_are_those_of_transformers(word_pieces: Tokenizer) -> None:
    sentences = [
        ["jumpings", "zebra", "[MASK]"],
        ["walk", "state(", "\u00ad"],
        ["[PAD]"],
    ]
    tokenizer = wrapped(word_pieces)
    ours, theirs = (
        tokenize(tokenizer.backend_tokenizer, sentences),
        tokenizer(sentences, is_split_into_words=True),
    )
    for number, (found, ids) in enumerate(zip(ours, theirs["input_ids"], strict=True)):
        assert list(found.ids) == ids
        words = theirs.word_ids(number)
        for word, (first, last) in enumerate(zip(found.first, found.last, strict=True)):
            if word in words:
                assert (first, last) == (
                    words.index(word),
                    len(words) - 1 - words[::-1].index(word),
                )


SENTENCES = [Subwords((2, 5, 6, 8, 3), (1, 3), (2, 3)), Subwords((2, 9, 3), (1,), (1,))]


def test_a_batch_has_its_shortest_sentence_first_and_no_padding() -> None:
    batch = sentence_tensors(SENTENCES)
    assert batch.ids.tolist() == [2, 9, 3, 2, 5, 6, 8, 3]
    assert batch.lengths == (3, 5)
    assert padded(batch, batch.ids, 7).tolist() == [[2, 9, 3, 7, 7], [2, 5, 6, 8, 3]]
    assert mask(batch).tolist() == [[True, True, True, False, False], [True] * 5]


def test_a_batch_knows_the_rows_at_which_spans_begin_and_end() -> None:
    boundaries = Boundaries(
        np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([0, 1, 2])
    )
    assert collate(SENTENCES).rows(Anchors(boundaries, boundaries)).tolist() == [
        4,
        6,
        1,
        5,
        6,
        1,
    ]


@given(
    st.lists(
        st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=6
    )
)
def test_a_batch_holds_every_sentence_whole(sentences: list[list[int]]) -> None:
    batch = collate(
        [Subwords(tuple(each), (0,), (len(each) - 1,)) for each in sentences]
    )
    for number, sentence in enumerate(sentences):
        first, last = batch.first_row[number], batch.last_row[number]
        assert batch.ids[first : last + 1].tolist() == sentence
        assert (batch.places[first : last + 1] % batch.width).tolist() == list(
            range(len(sentence))
        )


def test_a_batch_of_empty_sentences_has_no_tokens() -> None:
    batch = collate([Subwords((2, 3), (), ())])
    assert batch.first_row.tolist() == []
    assert batch.lengths == (2,)


ODD = (
    "[PAD]",
    "[MASK]",
    "日本",
    "état",
    "don't",
    "(",
    "'",
    "NT_1",
    "##ing",
    "a.b",
    "😀",
    "Walk",
    "walk",
    "a[MASK]b",
)


def words_of(tokenizer: Tokenizer, found: Subwords) -> list[str | None]:
    return [tokenizer.id_to_token(number) for number in found.ids]


def test_odd_tokens_are_one_subword_each_of_the_embedded_tokenizer() -> None:
    tokenizer = word_tokenizer([ODD])
    (found,) = tokenize(tokenizer, [ODD])
    assert words_of(tokenizer, found) == ["[CLS]", *ODD, "[SEP]"]
    assert found.first == found.last == tuple(range(1, len(ODD) + 1))


@given(st.lists(tokens(), min_size=1))
def test_every_token_of_the_training_sentences_is_a_subword_of_its_own(
    sentence: list[str],
) -> None:
    tokenizer = word_tokenizer([sentence])
    (found,) = tokenize(tokenizer, [sentence])
    assert words_of(tokenizer, found) == ["[CLS]", *sentence, "[SEP]"]


def test_words_that_were_not_seen_are_unknown_to_the_embedded_tokenizer() -> None:
    tokenizer = word_tokenizer([("walk",)])
    (found,) = tokenize(tokenizer, [("walk", "jump", "Walk")])
    assert words_of(tokenizer, found) == ["[CLS]", "walk", "[UNK]", "[UNK]", "[SEP]"]


def test_the_embedded_vocabulary_does_not_depend_on_the_order_of_the_sentences() -> (
    None
):
    one, other = (
        word_tokenizer([("b", "a"), ("c",)]),
        word_tokenizer([("c",), ("a", "b")]),
    )
    assert one.get_vocab() == other.get_vocab()
    assert one.to_str() == other.to_str()
