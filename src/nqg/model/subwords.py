"""Sentences as subwords: the embedded tokenizer, and batches in which sentences lie packed, without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor

from nqg.grammar.arrays import Int64Array
from nqg.grammar.ragged import Ragged, offsets_from_lengths
from nqg.model.spans import Anchors, to_device

Tokens = Sequence[str]
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def word_tokenizer(sentences: Sequence[Tokens]) -> Tokenizer:
    """A tokenizer whose subwords are the tokens of `sentences`."""
    words = sorted({token for sentence in sentences for token in sentence} - set(SPECIAL))
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    return tokenizer


@dataclass(frozen=True, slots=True)
class Subwords:
    """A sentence as subwords, and where each of its tokens begins and ends among them."""

    ids: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]

    @classmethod
    def align(cls, ids: Sequence[int], word_ids: Sequence[int | None], tokens: int) -> Subwords:
        """The subwords of so many tokens; a token that has none borrows those of its left neighbour (the first: 0)."""
        first, last = [-1] * tokens, [-1] * tokens
        for place, word in enumerate(word_ids):
            if word is not None:
                last[word] = place
                first[word] = place if first[word] < 0 else first[word]
        for word in range(tokens):
            if first[word] < 0:
                first[word], last[word] = (first[word - 1], last[word - 1]) if word else (0, 0)
        return cls(tuple(ids), tuple(first), tuple(last))


def tokenize(tokenizer: Tokenizer, sentences: Sequence[Tokens]) -> list[Subwords]:
    """The subwords of sentences that are split into tokens already."""
    encoded = tokenizer.encode_batch(
        [list(sentence) for sentence in sentences], is_pretokenized=True
    )
    return [
        Subwords.align(each.ids, each.word_ids, len(sentence))
        for each, sentence in zip(encoded, sentences, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class SubwordBatch:
    """B sentences end to end, the shortest first: M rows, one for each subword."""

    ids: Tensor  # (M,)
    places: Tensor  # (M,) of the rows where sentences lie below each other, padded to the longest
    lengths: tuple[int, ...]  # (B,) ascending
    first_row: Int64Array  # (T,) of every token of the batch, the sentences as they were given
    last_row: Int64Array  # (T,)
    first_token: Int64Array  # (B,) of the sentences as they were given

    @property
    def width(self) -> int:
        return self.lengths[-1]

    def rows(self, spans: Anchors) -> Tensor:
        """The rows of the subwords at which spans begin, then of those at which they end: (E,)."""
        starts, ends = spans.starts, spans.ends
        first = self.first_row[self.first_token[starts.sentences] + starts.tokens]
        last = self.last_row[self.first_token[ends.sentences] + ends.tokens]
        return to_device([np.concatenate([first, last])], self.ids.device)[0]

    def padded(self, rows: Tensor, padding: float = 0) -> Tensor:
        """Rows as a table with one line for each sentence: (M, ...) to (B, width, ...)."""
        table = rows.new_full((len(self.lengths) * self.width, *rows.shape[1:]), padding)
        return table.index_copy(0, self.places, rows).view(
            len(self.lengths), self.width, *rows.shape[1:]
        )

    def mask(self) -> Tensor:
        """Which places of such a table hold a subword: (B, width)."""
        return self.padded(torch.ones_like(self.places, dtype=torch.bool))


@dataclass(frozen=True, slots=True)
class SubwordTable:
    """The subwords of many sentences, from which those of a batch are selected."""

    ids: Ragged
    first: Ragged
    last: Ragged

    @classmethod
    def of(cls, sentences: Sequence[Subwords]) -> SubwordTable:
        return cls(
            ids=Ragged.of((sentence.ids for sentence in sentences), np.int64),
            first=Ragged.of((sentence.first for sentence in sentences), np.int64),
            last=Ragged.of((sentence.last for sentence in sentences), np.int64),
        )

    def select(self, batch: Int64Array, device: torch.device | str) -> SubwordBatch:
        lengths = self.ids.lengths_of(batch)
        order = np.argsort(lengths, kind="stable")
        begin = offsets_from_lengths(lengths[order])
        rows = np.empty_like(lengths)
        rows[order] = begin[:-1]
        width = int(lengths.max())
        places = np.arange(begin[-1]) + np.repeat(
            np.arange(len(batch)) * width - begin[:-1], lengths[order]
        )
        ids, places_there = to_device([self.ids.select(batch[order]).values, places], device)
        first, last = self.first.select(batch, rows), self.last.select(batch, rows)
        sizes = tuple(lengths[order].tolist())
        return SubwordBatch(ids, places_there, sizes, first.values, last.values, first.offsets[:-1])


def collate(sentences: Sequence[Subwords], device: torch.device | str) -> SubwordBatch:
    return SubwordTable.of(sentences).select(np.arange(len(sentences)), device)
