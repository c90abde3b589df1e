"""Pre-trained encoders of Hugging Face's, tiny and with random weights, as folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from nqg.model.subwords import word_tokenizer

NAMES = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def tiny_bert(vocab_size: int, **settings: Any) -> Any:
    """Hugging Face's BERT of one or few layers."""
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    config = BertConfig(vocab_size=vocab_size, **{**sizes, **settings})
    return BertModel(config, add_pooling_layer=False)  # type: ignore[no-untyped-call]


def wrapped(tokenizer: Any, longest: int = 16) -> PreTrainedTokenizerFast:
    """A tokenizer as transformers has it."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=longest, **NAMES
    )  # type: ignore[no-untyped-call]


def save_bert(
    folder: Path | str,
    sentences: Sequence[Sequence[str]],
    *,
    longest: int = 16,
    **settings: Any,
) -> None:
    """Write a BERT that knows the words of sentences, and its tokenizer."""
    tokenizer = word_tokenizer(sentences)
    tiny_bert(tokenizer.get_vocab_size(), **settings).save_pretrained(folder)
    wrapped(tokenizer, longest).save_pretrained(folder)
