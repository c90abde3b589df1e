"""The loss of the model over a batch of forests, and its exact gradient.

p(z | x) is proportional to exp(s(z, x)), and s adds up over anchored rules (section 4.1.2 of the paper). The loss of a
pair is log Z(full forest) - log Z(goal forest). The gradient of log Z is the marginal probability of every hyperedge,
computed by walking back down, so no trace of the forward pass has to be kept by autograd. With types, half of the
weight of the full forest goes to that of legal targets.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.arrays import FloatArray, Int64Array
from nqg.grammar.grammar import Grammar
from nqg.grammar.ragged import offsets_from_lengths
from nqg.grammar.semirings import add_log_partitions
from nqg.model.forests import Forests
from nqg.model.scorer import Scorer
from nqg.model.spans import Anchors, AnchorTable, Pairs, PairTable
from nqg.model.subwords import SubwordBatch, Subwords, SubwordTable, tokenize
from nqg.slots.instantiate import encoder_tokens

# The weights of log Z of the forests in the loss. With types the loss is -log p(target | legal) - ½ log p(legal): that
# illegal derivations are improbable is learned, too, which helps to tell legal ones apart. Over folds of the training
# parts of GeoQuery's splits that hold out templates, weights of 0, ¼, ½ and 1 for log p(legal) gave 1116, 1201, 1198
# and 1203 right answers of 1921.
UNTYPED_WEIGHTS = {"full": 1.0, "goal": -1.0}
TYPED_WEIGHTS = {"full": 0.5, "legal": 0.5, "goal": -1.0}


def forest_loss(scores: Tensor, forests: Forests, pairs: PairTable, batch: Int64Array) -> Tensor:
    """The mean over a batch of log Z(full) - log Z(goal), given the scores of its pairs of span and rule: (P,).

    Both passes, and the walk back down for the gradient, are made at once where the forests lie, on the CPU: their
    arithmetic is less than the beginning of one operation per level on a GPU would take. Scores come over and gradients
    go back in one transfer each.
    """
    return _ForestLoss.apply(scores, forests, pairs, batch)  # type: ignore[no-any-return,no-untyped-call]


class _ForestLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, forests: Forests, pairs: PairTable, batch: Int64Array
    ) -> Tensor:
        losses, gradient = losses_and_gradient(
            scores.detach().cpu().double().numpy(), forests, pairs, batch
        )
        both = torch.empty(len(gradient) + 1, dtype=scores.dtype, pin_memory=scores.is_cuda)
        both[:-1], both[-1] = torch.from_numpy(gradient).div_(len(batch)), losses.mean()
        gradient_and_loss = both.to(scores.device, non_blocking=True)
        ctx.save_for_backward(gradient_and_loss[:-1])
        return gradient_and_loss[-1].clone()

    @staticmethod
    def backward(ctx: Any, *flow: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.saved_tensors[0] * flow[0], None, None, None


def losses_and_gradient(
    scores: FloatArray, forests: Forests, pairs: PairTable, batch: Int64Array
) -> tuple[FloatArray, FloatArray]:
    """The losses of the sentences of a batch, given the scores of their pairs, and the gradient of the losses' sum."""
    losses, gradient = np.zeros(len(batch)), np.zeros_like(scores)
    first_pair = offsets_from_lengths(pairs.rules.lengths_of(batch))
    weights = UNTYPED_WEIGHTS if forests.legal is None else TYPED_WEIGHTS
    for name, graph in forests.graphs().items():
        add_log_partitions(
            graph.first_node, graph.first_hyperedge, graph.children, pairs.of_hyperedges[name],
            batch, first_pair, scores, weights[name], losses, gradient,
        )  # fmt: skip
    return losses, gradient


def _derivable(examples: Sequence[Example], forests: Forests) -> Int64Array:
    if len(forests) != len(examples):
        raise NqgError(
            f"there are {len(examples)} examples but forests of {len(forests)}; expected as many"
        )
    derivable = np.delete(np.arange(len(examples)), forests.underivable())
    if not len(derivable):
        raise NqgError(
            "the grammar derives none of the training pairs: there is nothing to learn from"
        )
    return derivable


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Sentences as subwords, their forests, and tables from which a batch is selected."""

    sentences: tuple[Subwords, ...]  # in one way, or all in one and then all in another
    forests: Forests
    subwords: SubwordTable
    spans: AnchorTable
    pairs: PairTable

    @classmethod
    def of(
        cls,
        grammar: Grammar,
        examples: Sequence[Example],
        forests: Forests,
        tokenizer: Tokenizer,
        frequent: Collection[str] | None = None,
    ) -> TrainingData:
        """The data of `examples`; pairs that no derivation yields are left out.

        With words that are `frequent`, every sentence is read in two ways: as it is, and as if no other were known.
        """
        good = _derivable(examples, forests).tolist()
        sources = [examples[number].source_tokens for number in good]
        shown = encoder_tokens(grammar, sources)
        if frequent is not None:
            shown += encoder_tokens(grammar, sources, known=frequent)
        sentences = tuple(tokenize(tokenizer, shown))
        kept = forests.select(good)
        return cls(
            sentences,
            kept,
            SubwordTable.of(sentences),
            AnchorTable.of(kept.full),
            PairTable.of(kept),
        )

    def __len__(self) -> int:
        return len(self.forests)

    def collate(self, batch: Sequence[int], device: torch.device) -> Batch:
        numbers = np.asarray(batch, dtype=np.int64)
        shown = numbers
        if len(self.sentences) > len(self):  # every other sentence of a batch in its second way
            shown = numbers + len(self) * (np.arange(len(numbers)) % 2)
        sentences, spans = self.subwords.select(shown, device), self.spans.select(numbers, device)
        return Batch(
            self,
            numbers,
            sentences,
            spans,
            sentences.rows(spans),
            self.pairs.select(numbers, device),
        )

    def check_lengths(self, longest: int) -> None:
        """Refuse sentences that the encoder cannot read whole."""
        most = max(len(sentence.ids) for sentence in self.sentences)
        if most > longest:
            limit = f"the encoder reads at most {longest}: leave the sentence out"
            raise NqgError(f"a training sentence has {most} subwords; {limit}")


@dataclass(frozen=True, slots=True)
class Batch:
    """Some of the examples, as tensors on a device."""

    data: TrainingData
    numbers: Int64Array  # (B,)
    sentences: SubwordBatch
    spans: Anchors
    rows: Tensor  # (E,) of the subwords at which spans begin and end
    pairs: Pairs


def batch_loss(scorer: Scorer, batch: Batch) -> Tensor:
    """The mean over a batch of -log p(target | source)."""
    ends = scorer.encoder(batch.sentences, batch.rows)
    scores = scorer.pair_scores(ends, batch.spans, batch.pairs)
    return forest_loss(scores, batch.data.forests, batch.data.pairs, batch.numbers)
