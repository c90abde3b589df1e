"""The README of a model folder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nqg.grammar.grammar import Grammar
from nqg.model.checkpoint import Measurement, Provenance, SavedModel
from nqg.model.encoder import new_encoder
from nqg.model.model_card import model_card
from nqg.model.scorer import Scorer
from nqg.model.settings import EncoderSettings, ModelSettings
from nqg.run_config import DataFingerprint
from nqg.types.target_grammar import TargetGrammar

PRINT = DataFingerprint(1234, "abc123", "dev.tsv")
PROVENANCE = Provenance(
    DataFingerprint(5000, "f00d"),
    {"steps": 256, "clip": 1.0},
    ({"step": 1},),
    (Measurement(PRINT, {"exact_match": 0.98765432, "precision": None}),),
)
GRAMMAR = Grammar.parse("jump ### J\nNT_1 <b>twice</b> ### NT_1 NT_1\n``` ### x")
SMALL = ModelSettings(
    dimension=8, embedded=EncoderSettings(hidden_size=8, layers=2, heads=2, longest=512)
)
ENCODER, TOKENIZER = new_encoder(SMALL, [["jump"]])
MODEL = SavedModel(
    GRAMMAR, Scorer(ENCODER, len(GRAMMAR), 8), TOKENIZER, SMALL, provenance=PROVENANCE
)


def card(**changes: Any) -> str:
    return model_card(replace(MODEL, **changes), {"nqg": "0.1.0", "torch": "2.13"})


def test_a_card_tells_what_the_model_is_and_where_it_comes_from() -> None:
    lines = card().splitlines()
    for line in (
        "- Grammar: 3 rules (`grammar.txt`)",
        "- Legal programs: all",
        "- Encoder: a small BERT (layers: 2, width: 8), trained from scratch with this model; "
        "it reads at most 512 subwords of a sentence",
        f"- Size: {sum(weight.size for weight in MODEL.scorer.weights().values()):,} weights (`model.safetensors`)",
        "- Data: 5,000 examples, SHA-256 `f00d`",
        "- `steps`: `256`",
        "- What was noted after each of 1 steps is in `training.jsonl`",
        "- `exact_match` `0.987654`, `precision` `None`, on `dev.tsv`, 1,234 examples, SHA-256 `abc123`",
        "Written by nqg 0.1.0, torch 2.13.",
    ):
        assert line in lines


def test_what_is_not_known_is_said() -> None:
    found = card(provenance=Provenance())
    assert "- Data: not recorded" in found
    assert "None were measured when the model was saved." in found
    assert "training.jsonl" not in found


def test_a_pre_trained_encoder_is_named_without_the_folders_of_whoever_trained() -> (
    None
):
    assert "`bert-base-uncased`, fine-tuned" in card(
        settings=ModelSettings("bert-base-uncased")
    )
    legal = TargetGrammar.parse("<actions> ::= J")
    found = card(
        settings=ModelSettings("/home/alice/secret/bert-tiny"), target_grammar=legal
    )
    assert "`bert-tiny`, fine-tuned" in found
    assert "alice" not in found
    assert "- Legal programs: `target.grammar`" in found


def test_nothing_that_comes_from_a_user_is_markup() -> None:
    evil = "<script>`alert`</script>"
    provenance = Provenance(
        DataFingerprint(1, "0", evil),
        {evil: evil},
        (),
        (Measurement(PRINT, {evil: 1.0}),),
    )
    for line in card(settings=ModelSettings(evil), provenance=provenance).splitlines():
        for place in range(line.count("<script>")):
            before = line.split("<script>")[place]
            assert before.endswith("`` ")
        if "<b>" in line or line.lstrip().startswith("```"):
            assert line.startswith("    ")
