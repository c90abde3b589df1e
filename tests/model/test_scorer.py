"""Scores of anchored rules against the formula of appendix A.3, span by span."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import gelu

from nqg.grammar.chart import charts
from nqg.grammar.grammar import Grammar
from nqg.model.encoder import new_encoder
from nqg.model.scorer import Scorer, SpanNetwork
from nqg.model.settings import EncoderSettings, ModelSettings
from nqg.model.spans import Pairs, sentence_numbers
from nqg.model.subwords import tokenize
from nqg.model.tensors import BatchTensors
from scoring import batch_tensors, sentence_tensors

GRAMMAR = Grammar.parse(
    "jump ### J\nwalk ### W\nNT_1 twice ### NT_1 NT_1\nNT_1 and NT_2 ### NT_1 NT_2"
)
SOURCES = [("jump", "twice"), ("walk", "and", "jump", "twice")]
SETTINGS = ModelSettings(
    dimension=6, embedded=EncoderSettings(hidden_size=8, layers=1, heads=2)
)


def test_a_score_is_that_of_the_formula() -> None:
    torch.manual_seed(0)
    encoder, tokenizer = new_encoder(SETTINGS, SOURCES)
    scorer = Scorer(encoder, len(GRAMMAR), SETTINGS.dimension).double().eval()
    full = charts(GRAMMAR, SOURCES)
    batch = batch_tensors(tokenize(tokenizer, SOURCES), full)
    table = scorer(batch.sentences, batch.spans, batch.rows)
    assert table.dtype == torch.float64
    for row, (sentence, start, end) in enumerate(
        zip(sentence_numbers(full), full.starts, full.ends - 1, strict=True)
    ):
        alone = sentence_tensors(tokenize(tokenizer, [SOURCES[sentence]]))
        vectors = encoder(alone, torch.arange(len(alone.ids)))
        ends = torch.cat(
            [vectors[start + 1], vectors[end + 1]]
        )  # one subword a token, after [CLS]
        for rule in range(len(GRAMMAR)):
            expected = formula(scorer.span_network, ends)[0] + scorer.rules[
                rule
            ] @ formula(scorer.rule_network, ends)
            torch.testing.assert_close(table[row, rule], expected, atol=1e-12, rtol=0)


def formula(network: SpanNetwork, ends: torch.Tensor) -> torch.Tensor:
    """The network over [w_i, w_j], word by word."""
    found: torch.Tensor = network.output(gelu(network.input(ends)))
    return found


def scores_of(
    scorer: Scorer, batch: BatchTensors, pairs: Pairs[torch.Tensor]
) -> torch.Tensor:
    ends = scorer.encoder(batch.sentences, batch.rows)
    return scorer.pair_scores(ends, batch.spans, pairs)


@pytest.mark.parametrize(
    "rules", [len(GRAMMAR), 40], ids=["fewer rules than spans", "more rules than spans"]
)
def test_pairs_have_the_scores_that_they_have_in_the_table_and_send_back_the_same_gradient(
    rules: int,
) -> None:
    encoder, tokenizer = new_encoder(SETTINGS, SOURCES)
    scorer = Scorer(encoder, rules, SETTINGS.dimension).double().eval()
    batch = batch_tensors(tokenize(tokenizer, SOURCES), charts(GRAMMAR, SOURCES))
    pairs = Pairs(torch.tensor([0, 1, 3, 3]), torch.tensor([2, 2, 0, 3]))
    factors = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    of_pairs, table = (
        scores_of(scorer, batch, pairs),
        scorer(batch.sentences, batch.spans, batch.rows),
    )
    torch.testing.assert_close(
        of_pairs, table[pairs.spans, pairs.rules], atol=1e-12, rtol=0
    )
    parameters = list(scorer.parameters())
    for_pairs, for_table = (
        torch.autograd.grad(factors @ scores, parameters, allow_unused=True)
        for scores in (of_pairs, table[pairs.spans, pairs.rules])
    )
    for name, one, other in zip(
        dict(scorer.named_parameters()), for_pairs, for_table, strict=True
    ):
        assert one is not None, name
        assert other is not None, name
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_scores_are_of_full_precision_where_the_encoder_runs_in_half() -> None:
    encoder, tokenizer = new_encoder(SETTINGS, SOURCES)
    scorer = Scorer(encoder, len(GRAMMAR), SETTINGS.dimension)
    batch = batch_tensors(tokenize(tokenizer, SOURCES), charts(GRAMMAR, SOURCES))
    pairs = Pairs(torch.tensor([1]), torch.tensor([2]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        table = scorer(batch.sentences, batch.spans, batch.rows)
        assert table.dtype == torch.float32
        assert scores_of(scorer, batch, pairs).dtype == torch.float32
