"""Models of Hugging Face: whole and quiet, or refused with the reason."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel

from nqg.errors import MissingExtra, NqgError
from nqg.seq2seq.seq2seq import load_pretrained, merged, with_lora
from nqg.seq2seq.settings import LoraSettings

pytest_plugins = ["seq2seq_fixtures"]


def test_a_folder_is_loaded_in_float32_without_a_word(
    tiny_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, tokenizer = load_pretrained(str(tiny_folder))
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert not torch.equal(model.lm_head.weight, model.shared.weight)
    assert tokenizer("jump")["input_ids"][-1] == tokenizer.eos_token_id
    assert capfd.readouterr() == ("", "")


def test_weights_that_are_missing_are_refused_by_name(
    tiny_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(tiny_folder, folder)
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.final_layer_norm.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(
        NqgError,
        match=r"are incomplete: 1 are missing, first encoder\.final_layer_norm\.weight",
    ):
        load_pretrained(str(folder))


def test_an_encoder_alone_is_refused(tmp_path: Path) -> None:
    config = BertConfig(
        vocab_size=9,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    )
    BertModel(config).save_pretrained(tmp_path)  # type: ignore[no-untyped-call]
    with pytest.raises(
        NqgError,
        match="is neither an encoder-decoder nor a causal language model and cannot write targets",
    ):
        load_pretrained(str(tmp_path))


def test_a_model_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        NqgError, match="cannot load the sequence-to-sequence model"
    ) as refused:
        load_pretrained(str(tmp_path / "nowhere"))
    assert "\n" not in str(refused.value)


def test_without_peft_the_error_says_what_to_install(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = load_pretrained(str(tiny_folder))
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtra, match="needs the extra 'lora'"):
        with_lora(model, LoraSettings(), 0)


def test_a_model_without_lora_is_merged_already(tiny_folder: Path) -> None:
    model, _ = load_pretrained(str(tiny_folder))
    assert merged(model) is model
