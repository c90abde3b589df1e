"""The embedded default: a small T5 from scratch, and a tokenizer whose pieces are the words of the data."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from nqg.seq2seq.settings import SmallT5Settings

PADDING, END, UNKNOWN = "<pad>", "</s>", "<unk>"


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer whose pieces are the words of `texts`.

    >>> tokenizer = word_tokenizer(["jump twice", "JUMP JUMP"])
    >>> tokenizer.decode(tokenizer("jump JUMP")["input_ids"])
    'jump JUMP </s>'
    """
    words = sorted({word for text in texts for word in text.split()})
    padding, end, unknown = (_unlike(name, words) for name in (PADDING, END, UNKNOWN))
    vocabulary = {word: number for number, word in enumerate([padding, end, unknown, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {end}", special_tokens=[(end, 1)])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token=padding, eos_token=end, unk_token=unknown
    )


def _unlike(name: str, words: Iterable[str]) -> str:
    """A special token that stands inside no word, where it would be found too."""
    words = list(words)
    while any(name in word for word in words):
        name = f"<{name}>"
    return name


def small_t5(settings: SmallT5Settings, words: int, seed: int) -> T5ForConditionalGeneration:
    """A T5 with fresh weights, which `seed` alone decides."""
    config = T5Config(
        vocab_size=words,
        d_model=settings.width,
        d_kv=settings.width // settings.heads,
        d_ff=4 * settings.width,
        num_layers=settings.layers,
        num_heads=settings.heads,
        dropout_rate=settings.dropout,
        pad_token_id=0,
        eos_token_id=1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = T5ForConditionalGeneration(config)
    for place in (model.config, model.generation_config):
        place.decoder_start_token_id = config.pad_token_id
    return model
