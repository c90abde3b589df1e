"""What training minimises: loss = log Z(full) - log Z(goal), averaged over a batch of prepared examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.forests.forest import Forests
from nqg.model.anchors import anchored, anchors
from nqg.model.encoder import Pieces, piece_batch, pieces
from nqg.model.forest_crf import log_inside
from nqg.model.scorer import Scorer, application_scores


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Sentences as word pieces, and their forests; pairs that no derivation yields are left out."""

    sentences: tuple[Pieces, ...]
    forests: Forests

    @classmethod
    def of(cls, examples: Sequence[Example], forests: Forests, tokenizer: Any) -> TrainingData:
        """Everything that training needs of examples and grammar."""
        if len(forests) != len(examples):
            raise NqgError(f"there are {len(examples)} examples but forests of {len(forests)}; expected as many")
        bad = set(forests.underivable())
        good = [number for number in range(len(examples)) if number not in bad]
        if not good:
            raise NqgError("the grammar derives none of the training pairs: there is nothing to learn from")
        sentences = pieces(tokenizer, [examples[number].source_tokens for number in good])
        return cls(tuple(sentences), forests.select(good))

    def __len__(self) -> int:
        return len(self.sentences)

    def check_lengths(self, longest: int) -> None:
        """Refuse sentences that the encoder cannot read whole."""
        most = max(len(sentence.ids) for sentence in self.sentences)
        if most > longest:
            raise NqgError(
                f"a training sentence has {most} word pieces; the encoder reads {longest} at most: leave it out"
            )


def batch_loss(scorer: Scorer, data: TrainingData, batch: Sequence[int], padding: int, device: torch.device) -> Tensor:
    """The mean over a batch of -log p(target | source)."""
    forests = data.forests.select(batch)
    sentences = piece_batch([data.sentences[number] for number in batch], padding, device)
    scores = scorer(sentences, anchors(forests.full, device))  # (S, R)
    full = anchored(forests.full, forests.full, device)
    goal = anchored(forests.goal, forests.full, device)
    everything = log_inside(application_scores(scores, full), full.levels)  # (B,)
    right = log_inside(application_scores(scores, goal), goal.levels)
    return (everything - right).mean()
