"""What tests of encoders and scorers share: batches as tensors, and tables of scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nqg.grammar.arrays import FloatArray
from nqg.grammar.hypergraph import Hypergraph
from nqg.model.rule_scorer import RuleScorer
from nqg.model.spans import Pairs, anchors
from nqg.model.subwords import SubwordBatch, Subwords, collate
from nqg.model.tensors import BatchTensors

NO_PAIRS = Pairs(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def sentence_tensors(sentences: Sequence[Subwords]) -> SubwordBatch[Tensor]:
    batch = collate(sentences)
    return batch.with_arrays(
        torch.from_numpy(batch.ids), torch.from_numpy(batch.places)
    )


def batch_tensors(sentences: Sequence[Subwords], full: Hypergraph) -> BatchTensors:
    """Sentences with the spans of their charts, and no pairs."""
    return BatchTensors.of(collate(sentences), anchors(full), NO_PAIRS, "cpu")


def score_table(
    scorer: RuleScorer, sentences: Sequence[Subwords], full: Hypergraph
) -> FloatArray:
    """The scores of every rule over every span: (S, R)."""
    spans, rules = anchors(full), len(scorer.rules)
    count = len(spans.starts.of_spans)
    pairs = Pairs(np.repeat(np.arange(count), rules), np.tile(np.arange(rules), count))
    return scorer.score(sentences, spans, pairs).reshape(count, rules)
