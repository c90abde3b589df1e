"""Scores of anchored rules against the formula of appendix A.3, span by span."""

from __future__ import annotations

import torch

from nqg.grammar.charts import charts
from nqg.grammar.grammar import Grammar
from nqg.model.anchors import anchored, anchors
from nqg.model.encoder import new_encoder, piece_batch, pieces
from nqg.model.scorer import Scorer, application_scores
from nqg.model.settings import EncoderSettings, ModelSettings

GRAMMAR = Grammar.parse("jump ### J\nwalk ### W\nNT_1 twice ### NT_1 NT_1\nNT_1 and NT_2 ### NT_1 NT_2")
SOURCES = [("jump", "twice"), ("walk", "and", "jump", "twice")]
SETTINGS = ModelSettings(dimension=6, embedded=EncoderSettings(hidden_size=8, layers=1, heads=2))


def test_a_score_is_that_of_the_formula() -> None:
    torch.manual_seed(0)
    encoder, tokenizer = new_encoder(SETTINGS, SOURCES)
    scorer = Scorer(encoder, len(GRAMMAR), SETTINGS.dimension).double().eval()
    sentences = piece_batch(pieces(tokenizer, SOURCES), tokenizer.pad_token_id, "cpu")
    spans = anchors(charts(GRAMMAR, SOURCES), "cpu")
    table = scorer(sentences, spans)
    assert table.dtype == torch.float64
    for row, (sentence, start, end) in enumerate(zip(spans.sentences, spans.starts, spans.ends, strict=True)):
        alone = piece_batch(pieces(tokenizer, [SOURCES[int(sentence)]]), tokenizer.pad_token_id, "cpu")
        vectors = encoder(input_ids=alone.ids, attention_mask=alone.mask).last_hidden_state[0]
        ends = torch.cat([vectors[start + 1], vectors[end + 1]])  # one piece a token, after [CLS]
        for rule in range(len(GRAMMAR)):
            expected = scorer.span_network(ends)[0] + scorer.rules[rule] @ scorer.rule_network(ends)
            torch.testing.assert_close(table[row, rule], expected, atol=1e-12, rtol=0)


def test_applications_pick_the_score_of_their_span_and_rule() -> None:
    full = charts(GRAMMAR, SOURCES)
    forest = anchored(full, full, "cpu")
    table = torch.arange(full.choices)[:, None] * 100 + torch.arange(len(GRAMMAR))  # (S, R)
    assert application_scores(table, forest).tolist() == (forest.spans * 100 + forest.rules).tolist()


def test_scores_are_of_full_precision_where_the_encoder_runs_in_half() -> None:
    encoder, tokenizer = new_encoder(SETTINGS, SOURCES)
    scorer = Scorer(encoder, len(GRAMMAR), SETTINGS.dimension)
    sentences = piece_batch(pieces(tokenizer, SOURCES), tokenizer.pad_token_id, "cpu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert scorer(sentences, anchors(charts(GRAMMAR, SOURCES), "cpu")).dtype == torch.float32
