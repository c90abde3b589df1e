"""What training minimises: loss = log Z(full) - log Z(goal), averaged over a batch of prepared examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.forests.forest import Forests
from nqg.grammar.graph import Longs
from nqg.model.anchors import Anchors, AnchorTable
from nqg.model.encoder import PieceBatch, Pieces, PieceTable, pieces
from nqg.model.forest_crf import forest_loss
from nqg.model.packing import encoded
from nqg.model.pairs import Pairs, PairTable
from nqg.model.scorer import Scorer

NOTHING_TO_LEARN = "the grammar derives none of the training pairs: there is nothing to learn from"


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Sentences as word pieces, their forests, and tables from which a batch is picked."""

    sentences: tuple[Pieces, ...]
    forests: Forests
    pieces: PieceTable
    spans: AnchorTable
    pairs: PairTable

    @classmethod
    def of(cls, examples: Sequence[Example], forests: Forests, tokenizer: Any) -> TrainingData:
        """Everything that training needs of examples and grammar; pairs that no derivation yields are left out."""
        if len(forests) != len(examples):
            raise NqgError(f"there are {len(examples)} examples but forests of {len(forests)}; expected as many")
        bad = set(forests.underivable())
        good = [number for number in range(len(examples)) if number not in bad]
        if not good:
            raise NqgError(NOTHING_TO_LEARN)
        sentences = tuple(pieces(tokenizer, [examples[number].source_tokens for number in good]))
        kept = forests.select(good)
        return cls(sentences, kept, PieceTable.of(sentences), AnchorTable.of(kept.full), PairTable.of(kept))

    def __len__(self) -> int:
        return len(self.sentences)

    def rows(self, batch: Sequence[int]) -> tuple[TrainingData, Sequence[int]]:
        """Data that holds a batch, and the batch in terms of it: everything is in memory already."""
        return self, batch

    def laid_out(self, batch: Sequence[int], padding: int, device: torch.device) -> Batch:
        """The examples of a batch on a device."""
        numbers = np.asarray(batch, dtype=np.int64)
        sentences, spans = self.pieces.picked(numbers, padding, device), self.spans.picked(numbers, device)
        return Batch(self, numbers, sentences, spans, sentences.places(spans), self.pairs.picked(numbers, device))

    def check_lengths(self, longest: int) -> None:
        """Refuse sentences that the encoder cannot read whole."""
        most = max(len(sentence.ids) for sentence in self.sentences)
        if most > longest:
            raise NqgError(
                f"a training sentence has {most} word pieces; the encoder reads {longest} at most: leave it out"
            )


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples of some data, laid out on a device."""

    data: TrainingData
    numbers: Longs  # (B,)
    sentences: PieceBatch
    spans: Anchors
    places: Tensor  # (E,) of the pieces at which spans begin and end
    pairs: Pairs


def batch_loss(scorer: Scorer, data: TrainingData, batch: Sequence[int], padding: int, device: torch.device) -> Tensor:
    """The mean over a batch of -log p(target | source)."""
    return loss_of(scorer, data.laid_out(batch, padding, device))


def loss_of(scorer: Scorer, batch: Batch) -> Tensor:
    """The same of a batch that is laid out already."""
    ends = encoded(scorer.encoder, batch.sentences, batch.places)
    scores = scorer.of_pairs(ends, batch.spans, batch.pairs)
    return forest_loss(scores, batch.data.forests, batch.data.pairs, batch.numbers)
