"""The loss of the model over a batch of forests, and its exact gradient.

p(z | x) is proportional to exp(s(z, x)), and s adds up over anchored rules (section 4.1.2 of the
paper). The loss of a pair is log Z(full forest) - log Z(goal forest). The gradient of log Z is the
marginal probability of every hyperedge, computed by walking back down, so no trace of the forward
pass has to be kept by autograd. With types, half of the weight of the full forest goes to that of
legal targets.
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
from nqg.model.forests import Forests, TrainingForests
from nqg.model.scorer import Scorer
from nqg.model.spans import PairTable
from nqg.model.subwords import SubwordTable, tokenize
from nqg.model.tensors import BatchTensors
from nqg.slots.instantiate import encoder_tokens

# The weights of log Z of the forests in the loss. With types the loss is -log p(target | legal) - ½
# log p(legal): the model also learns that illegal derivations are improbable, which helps to tell
# legal ones apart. On folds that hold out templates of the training sets of GeoQuery's splits,
# weights of 0, ¼, ½ and 1 for log p(legal) gave 1116, 1201, 1198 and 1203 right answers of 1921.
UNTYPED_WEIGHTS = {"full": 1.0, "goal": -1.0}
TYPED_WEIGHTS = {"full": 0.5, "legal": 0.5, "goal": -1.0}


def forest_loss(
    scores: Tensor, forests: Forests, pairs: PairTable, batch: Int64Array
) -> Tensor:
    """The mean over a batch of log Z(full) - log Z(goal), given the scores of its pairs: (P,).

    The inside and the outside pass run on the CPU, where the forests are: one operation per level
    would take a GPU longer to start than all of their arithmetic. Scores and gradients are moved in
    one transfer each.
    """
    return _ForestLoss.apply(scores, forests, pairs, batch)  # type: ignore[no-any-return,no-untyped-call]


class _ForestLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, forests: Forests, pairs: PairTable, batch: Int64Array
    ) -> Tensor:
        values = scores.detach().cpu().double().numpy()
        losses, gradient = losses_and_gradient(values, forests, pairs, batch)
        both = torch.empty(
            len(gradient) + 1, dtype=scores.dtype, pin_memory=scores.is_cuda
        )
        both[:-1] = torch.from_numpy(gradient).div_(len(batch))
        both[-1] = losses.mean()
        both = both.to(scores.device, non_blocking=True)
        ctx.save_for_backward(both[:-1])
        return both[-1].clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.saved_tensors[0] * grad_outputs[0], None, None, None


def losses_and_gradient(
    scores: FloatArray, forests: Forests, pairs: PairTable, batch: Int64Array
) -> tuple[FloatArray, FloatArray]:
    """The loss of each sentence of a batch, and the gradient of their sum, given the scores of
    pairs.
    """
    losses = np.zeros(len(batch))
    gradient = np.zeros_like(scores)
    first_pair = offsets_from_lengths(pairs.rules.lengths_of(batch))
    weights = UNTYPED_WEIGHTS if forests.legal is None else TYPED_WEIGHTS
    for name, graph in forests.graphs().items():
        add_log_partitions(
            graph.first_node, graph.first_hyperedge, graph.children, pairs.of_hyperedges[name],
            batch, first_pair, scores, weights[name], losses, gradient,
        )  # fmt: skip
    return losses, gradient


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Sentences as subwords, their forests, and the table of their spans and pairs.

    The sentences are those that the grammar derives. There are no `pairs` where forests are built
    for each batch.
    """

    forests: TrainingForests
    subwords: SubwordTable  # of all sentences once, or of all in one form and then in a second
    pairs: PairTable | None

    @classmethod
    def of(
        cls,
        grammar: Grammar,
        examples: Sequence[Example],
        forests: TrainingForests,
        tokenizer: Tokenizer,
        frequent: Collection[str] | None = None,
    ) -> TrainingData:
        """The data of `examples`; pairs that no derivation yields are left out.

        With words that are `frequent`, every sentence has a second form, in which no other word is
        known.
        """
        if len(forests) != len(examples):
            counts = f"there are {len(examples)} examples but forests of {len(forests)}"
            raise NqgError(f"{counts}; expected as many")
        derivable = forests.derivable.tolist()
        if not derivable:
            raise NqgError(
                "the grammar derives none of the training pairs: there is nothing to learn from"
            )
        sources = [examples[number].source_tokens for number in derivable]
        tokens = encoder_tokens(grammar, sources)
        # The second forms follow all of the first, so that a row number tells the form.
        if frequent is not None:
            tokens += encoder_tokens(grammar, sources, known=frequent)
        subwords = SubwordTable.of(tokenize(tokenizer, tokens))
        pairs = None if forests.kept is None else PairTable.of(forests.kept)
        return cls(forests, subwords, pairs)

    def __len__(self) -> int:
        return len(self.forests.derivable)

    def collate(self, batch: Sequence[int], device: torch.device) -> Batch:
        numbers = np.asarray(batch, dtype=np.int64)
        rows = numbers
        # Every other sentence of a batch is read in its second form.
        if self.subwords.ids.rows > len(self):
            rows = numbers + len(self) * (np.arange(len(numbers)) % 2)
        sentences = self.forests.derivable[numbers]
        forests, pairs = self.forests.kept, self.pairs
        if forests is None or pairs is None:
            forests = self.forests.built(sentences)
            pairs = PairTable.of(forests)
            sentences = np.arange(len(numbers))
        tensors = BatchTensors.of(
            self.subwords.select(rows),
            pairs.anchors.select(sentences),
            pairs.select(sentences),
            device,
        )
        return Batch(forests, pairs, sentences, tensors)

    def check_lengths(self, longest: int) -> None:
        """Refuse sentences that the encoder cannot read whole."""
        most = self.subwords.ids.longest
        if most > longest:
            limit = f"the encoder reads at most {longest}: leave the sentence out"
            raise NqgError(f"a training sentence has {most} subwords; {limit}")


@dataclass(frozen=True, slots=True)
class Batch:
    """Some of the examples, as tensors on a device, and the numbers of their forests."""

    forests: Forests
    pairs: PairTable
    numbers: Int64Array  # (B,)
    tensors: BatchTensors


def batch_loss(scorer: Scorer, batch: Batch) -> Tensor:
    """The mean over a batch of -log p(target | source)."""
    tensors = batch.tensors
    ends = scorer.encoder(tensors.sentences, tensors.rows)
    scores = scorer.pair_scores(ends, tensors.spans, tensors.pairs)
    return forest_loss(scores, batch.forests, batch.pairs, batch.numbers)
