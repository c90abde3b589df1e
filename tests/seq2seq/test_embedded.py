"""The embedded default: a tokenizer of the data's words, and a small T5 whose weights the seed decides."""

from __future__ import annotations

import torch

from nqg.seq2seq.seq2seq import small_t5, word_tokenizer
from nqg.seq2seq.settings import SmallT5Settings

SETTINGS = SmallT5Settings(width=16, layers=2, heads=2)


def test_the_pieces_are_the_words_and_an_end() -> None:
    tokenizer = word_tokenizer(["b a", "c"])
    assert tokenizer("a  c b")["input_ids"] == [3, 5, 4, tokenizer.eos_token_id]
    assert tokenizer("a d")["input_ids"] == [
        3,
        tokenizer.unk_token_id,
        tokenizer.eos_token_id,
    ]


def test_words_that_look_like_special_tokens_are_words() -> None:
    tokenizer = word_tokenizer(["a </s> x<pad> <<unk>>"])
    ids = tokenizer("a </s> x<pad> <<unk>>")["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "a </s> x<pad> <<unk>>"
    assert not {tokenizer.pad_token, tokenizer.eos_token, tokenizer.unk_token} & {
        "</s>",
        "<pad>",
        "<unk>",
    }


def test_the_order_of_the_texts_does_not_matter() -> None:
    assert (
        word_tokenizer(["b a", "c"]).get_vocab()
        == word_tokenizer(["c", "a b"]).get_vocab()
    )


def test_the_seed_decides_the_weights_and_disturbs_nobody() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, same, other = (small_t5(SETTINGS, 11, seed) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(1), expected)
    first, second, third = (model.shared.weight for model in (one, same, other))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_the_settings_are_the_models() -> None:
    config = small_t5(SETTINGS, 11, 0).config
    assert (
        config.vocab_size,
        config.d_model,
        config.num_layers,
        config.num_decoder_layers,
        config.num_heads,
    ) == (
        11,
        16,
        2,
        2,
        2,
    )
