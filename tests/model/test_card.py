"""The README of a model folder."""

from __future__ import annotations

from dataclasses import replace

from nqg.model.checkpoint import Measurement, ModelCard, Provenance
from nqg.model.settings import ModelSettings
from nqg.run_config import DataFingerprint

PRINT = DataFingerprint(1234, "abc123", "dev.tsv")
CARD = ModelCard(
    rules=("jump ### J", "NT_1 <b>twice</b> ### NT_1 NT_1", "``` ### x"),
    has_target_grammar=False,
    settings=ModelSettings(),
    provenance=Provenance(
        DataFingerprint(5000, "f00d"),
        {"steps": 256, "clip": 1.0},
        ({"step": 1},),
        (Measurement(PRINT, {"exact_match": 0.98765432, "precision": None}),),
    ),
    parameters=1_234_567,
    max_length=512,
    versions={"nqg": "0.1.0", "torch": "2.13"},
)


def test_a_card_tells_what_the_model_is_and_where_it_comes_from() -> None:
    lines = CARD.markdown().splitlines()
    for line in (
        "- Grammar: 3 rules (`grammar.txt`)",
        "- Legal programs: all",
        "- Encoder: a small BERT (layers: 2, width: 128), trained from scratch with this model; "
        "it reads at most 512 subwords of a sentence",
        "- Size: 1,234,567 weights (`model.safetensors`)",
        "- Data: 5,000 examples, SHA-256 `f00d`",
        "- `steps`: `256`",
        "- What was noted after each of 1 steps is in `training.jsonl`",
        "- `exact_match` `0.987654`, `precision` `None`, on `dev.tsv`, 1,234 examples, SHA-256 `abc123`",
        "Written by nqg 0.1.0, torch 2.13.",
    ):
        assert line in lines


def test_what_is_not_known_is_said() -> None:
    card = replace(CARD, provenance=Provenance()).markdown()
    assert "- Data: not recorded" in card
    assert "None were measured when the model was saved." in card
    assert "training.jsonl" not in card


def test_a_pre_trained_encoder_is_named_without_the_folders_of_whoever_trained() -> None:
    assert "`bert-base-uncased`, fine-tuned" in replace(CARD, settings=ModelSettings("bert-base-uncased")).markdown()
    card = replace(CARD, settings=ModelSettings("/home/alice/secret/bert-tiny"), has_target_grammar=True).markdown()
    assert "`bert-tiny`, fine-tuned" in card
    assert "alice" not in card
    assert "- Legal programs: `target.grammar`" in card


def test_nothing_that_comes_from_a_user_is_markup() -> None:
    evil = "<script>`alert`</script>"
    provenance = Provenance(DataFingerprint(1, "0", evil), {evil: evil}, (), (Measurement(PRINT, {evil: 1.0}),))
    card = replace(CARD, settings=ModelSettings(evil), provenance=provenance).markdown()
    for line in card.splitlines():
        for place in range(line.count("<script>")):
            before = line.split("<script>")[place]
            assert before.endswith("`` ")
        if "<b>" in line or line.lstrip().startswith("```"):
            assert line.startswith("    ")
