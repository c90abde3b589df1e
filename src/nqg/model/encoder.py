"""Sentence encoders: any of Hugging Face's by name or folder, or a small BERT from scratch that needs no download."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast

from nqg.errors import NqgError
from nqg.grammar.arrays import Int64Array
from nqg.model.settings import EMBEDDED, EncoderSettings, ModelSettings
from nqg.model.spans import Anchors, Ragged, on_device
from nqg.model_folder import quiet_transformers

Tokens = Sequence[str]
SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


@dataclass(frozen=True, slots=True)
class Pieces:
    """A sentence as word pieces, and where each of its tokens begins and ends among them."""

    ids: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PieceBatch:
    """Sentences as word pieces on a device: B sentences, P pieces at most, T tokens at most."""

    ids: Tensor  # (B, P)
    mask: Tensor  # (B, P)
    first: Int64Array  # (B, T)
    last: Int64Array  # (B, T)

    def places(self, spans: Anchors) -> Tensor:
        """Where pieces stand when the sentences are read row by row: those where spans begin, then where they end."""
        starts, ends = spans.starts, spans.ends
        firsts, lasts = self.first[starts.sentences, starts.tokens], self.last[ends.sentences, ends.tokens]
        rows = np.concatenate([starts.sentences, ends.sentences])
        (places,) = on_device([rows * self.ids.shape[1] + np.concatenate([firsts, lasts])], self.ids.device)
        return places  # (E,)


def pieces(tokenizer: Any, sentences: Sequence[Tokens]) -> list[Pieces]:
    """The word pieces of sentences that are cut into tokens already."""
    encoded = tokenizer([list(sentence) for sentence in sentences], is_split_into_words=True)
    return [
        _aligned(ids, encoded.word_ids(number), sentence)
        for number, (ids, sentence) in enumerate(zip(encoded["input_ids"], sentences, strict=True))
    ]


def _aligned(ids: Sequence[int], words: Sequence[int | None], sentence: Tokens) -> Pieces:
    """First and last piece of every token; a token without pieces borrows its left neighbour's (the first, place 0)."""
    first, last = [0] * len(sentence), [0] * len(sentence)
    seen: set[int] = set()
    for place, word in enumerate(words):
        if word is not None:
            last[word] = place
            if word not in seen:
                first[word] = place
                seen.add(word)
    for word in range(len(sentence)):
        if word not in seen and word > 0:
            first[word], last[word] = first[word - 1], last[word - 1]
    return Pieces(tuple(ids), tuple(first), tuple(last))


@dataclass(frozen=True, slots=True)
class PieceTable:
    """The word pieces of many sentences, from which `picked` takes those of a batch."""

    ids: Ragged
    first: Ragged
    last: Ragged

    @classmethod
    def of(cls, sentences: Sequence[Pieces]) -> PieceTable:
        """The pieces of sentences end to end."""
        columns = ([getattr(each, name) for each in sentences] for name in ("ids", "first", "last"))
        return cls(*map(Ragged.of, columns))

    def picked(self, batch: Int64Array, padding: int, device: torch.device | str) -> PieceBatch:
        """The sentences of a batch side by side, filled up to the longest, on a device."""
        ids = self.ids.filled(batch, padding)
        lengths = self.ids.sizes(batch)[:, None]
        mask = (np.arange(ids.shape[1]) < lengths).astype(np.int64)
        first, last = (table.filled(batch, 0) for table in (self.first, self.last))
        on_it = on_device([ids, mask], device)
        return PieceBatch(on_it[0], on_it[1], first, last)


def piece_batch(sentences: Sequence[Pieces], padding: int, device: torch.device | str) -> PieceBatch:
    """Sentences side by side, filled up to the longest."""
    return PieceTable.of(sentences).picked(np.arange(len(sentences)), padding, device)


def new_encoder(settings: ModelSettings, sentences: Sequence[Tokens]) -> tuple[Any, Any]:
    """The encoder that `settings` name and its tokenizer; the embedded one reads just the words of `sentences`."""
    if settings.encoder == EMBEDDED:
        tokenizer = word_tokenizer(sentences, settings.embedded.longest)
        return _small_bert(settings.embedded, len(tokenizer)), tokenizer
    return load_encoder(settings.encoder)


def load_encoder(name: str) -> tuple[Any, Any]:
    """A pre-trained encoder and its tokenizer, by hub name or folder."""
    try:
        with quiet_transformers():
            encoder = AutoModel.from_pretrained(name, dtype=torch.float32, trust_remote_code=False)
            return without_pooler(encoder), AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise NqgError(f"cannot load the encoder '{name}': {error}") from error


def without_pooler(encoder: Any) -> Any:
    """The encoder without the layer that sums up a sentence in one vector: nothing here reads that."""
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    return encoder


def word_tokenizer(sentences: Sequence[Tokens], longest: int) -> PreTrainedTokenizerFast:
    """A tokenizer whose pieces are the tokens of `sentences`."""
    words = sorted({token for sentence in sentences for token in sentence} - set(SPECIAL.values()))
    vocabulary = {word: number for number, word in enumerate([*SPECIAL.values(), *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [(SPECIAL[name], vocabulary[SPECIAL[name]]) for name in ("cls_token", "sep_token")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, model_max_length=longest, **SPECIAL
    )


def _small_bert(settings: EncoderSettings, words: int) -> BertModel:
    config = BertConfig(
        vocab_size=words,
        hidden_size=settings.hidden_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.hidden_size,
        max_position_embeddings=settings.longest,
    )
    return BertModel(config, add_pooling_layer=False)  # type: ignore[no-untyped-call]
