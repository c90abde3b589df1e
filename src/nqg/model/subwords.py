"""Sentences as subwords: the embedded tokenizer, and batches in which sentences lie packed, without
padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from nqg.grammar.arrays import Int64Array
from nqg.grammar.ragged import Ragged, gather_ranges
from nqg.model.spans import Anchors, Array, Other

Tokens = Sequence[str]
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def word_tokenizer(sentences: Sequence[Tokens]) -> Tokenizer:
    """A tokenizer whose subwords are the tokens of `sentences`."""
    words = sorted(set(chain.from_iterable(sentences)).difference(SPECIAL))
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
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


def tokenize(tokenizer: Tokenizer, sentences: Sequence[Tokens]) -> list[Subwords]:
    """The subwords of sentences that are split into tokens already.

    A token without subwords borrows those of its left neighbour, the first token the subword at 0.
    """
    words = [list(sentence) for sentence in sentences]
    encodings = tokenizer.encode_batch(words, is_pretokenized=True)
    subwords = []
    for encoding, sentence in zip(encodings, words):
        start, end = 0, 1
        first, last = [], []
        for word in range(len(sentence)):
            # A token without subwords keeps the start and the end of the one before.
            start, end = encoding.word_to_tokens(word) or (start, end)
            first.append(start)
            last.append(end - 1)
        subwords.append(Subwords(tuple(encoding.ids), tuple(first), tuple(last)))
    return subwords


@dataclass(frozen=True, slots=True)
class SubwordBatch(Generic[Array]):
    """B sentences end to end, the shortest first: M rows, one for each subword.

    The T tokens are in the order in which the sentences were given.
    """

    ids: Array  # (M,)
    # (M,) of each row its cell in a table of the sentences, padded to the longest.
    places: Array
    lengths: tuple[int, ...]  # (B,) ascending
    first_row: Int64Array  # (T,)
    last_row: Int64Array  # (T,)
    first_token: Int64Array  # (B,)

    @property
    def width(self) -> int:
        return self.lengths[-1]

    def rows(self, spans: Anchors[Array]) -> Int64Array:
        """The rows of the subwords at which spans begin, then of those at which they end: (E,)."""
        starts, ends = spans.starts, spans.ends
        first = self.first_row[self.first_token[starts.sentences] + starts.tokens]
        last = self.last_row[self.first_token[ends.sentences] + ends.tokens]
        return np.concatenate([first, last])

    def with_arrays(self, ids: Other, places: Other) -> SubwordBatch[Other]:
        return SubwordBatch(
            ids, places, self.lengths, self.first_row, self.last_row, self.first_token
        )


@dataclass(frozen=True, slots=True)
class SubwordTable:
    """The subwords of many sentences, from which those of a batch are selected."""

    ids: Ragged
    first: Ragged
    last: Ragged

    @classmethod
    def of(cls, sentences: Sequence[Subwords]) -> SubwordTable:
        return cls(
            Ragged.of((sentence.ids for sentence in sentences), np.int64),
            Ragged.of((sentence.first for sentence in sentences), np.int64),
            Ragged.of((sentence.last for sentence in sentences), np.int64),
        )

    def select(self, batch: Int64Array) -> SubwordBatch[Int64Array]:
        # Sentences are sorted by length; `first_row` is the first row of each, as they were given.
        lengths = self.ids.lengths_of(batch)
        order = np.argsort(lengths, kind="stable")
        ids = self.ids.select(batch[order])
        first_row = np.empty_like(lengths)
        first_row[order] = ids.offsets[:-1]
        # Row i of a sentence lies in cell i of its line of the padded table.
        lines = np.arange(len(batch)) * int(lengths.max())
        places = gather_ranges(lines, ids.lengths)
        first, last = (
            self.first.select(batch, first_row),
            self.last.select(batch, first_row),
        )
        return SubwordBatch(
            ids.values,
            places,
            tuple(ids.lengths.tolist()),
            first.values,
            last.values,
            first.offsets[:-1],
        )


def collate(sentences: Sequence[Subwords]) -> SubwordBatch[Int64Array]:
    return SubwordTable.of(sentences).select(np.arange(len(sentences)))
