"""Model folders whose files are whole, and vouched for, but do not fit together or ask for the impossible."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from encoders import tiny_bert, wrapped
from fuzz.model_readers import BRIEF, GRAMMAR, write_model, write_seq2seq
from fuzz.seeds import EXAMPLES
from nqg.errors import DamagedModel, FormatError, NqgError
from nqg.inference.parser import Parser
from nqg.model import checkpoint
from nqg.model.settings import ModelSettings
from nqg.model.subwords import word_tokenizer
from nqg.model_folder import INDEX, RUST_PANIC, checksums, convert_errors
from nqg.pipeline.parser import fit_parser
from nqg.seq2seq.seq2seq import Seq2seq


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_model(tmp_path)
    return tmp_path / "model"


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    """A model whose encoder is run by transformers."""
    tokenizer = word_tokenizer([example.source_tokens for example in EXAMPLES])
    tiny_bert(tokenizer.get_vocab_size(), hidden_act="relu").save_pretrained(
        tmp_path / "encoder"
    )
    wrapped(tokenizer).save_pretrained(tmp_path / "encoder")
    settings = ModelSettings(encoder=str(tmp_path / "encoder"), dimension=4)
    fit_parser(GRAMMAR, EXAMPLES, model=settings, training=BRIEF, device="cpu").save(
        tmp_path / "model"
    )
    return tmp_path / "model"


@pytest.fixture
def seq2seq(tmp_path: Path) -> Path:
    write_seq2seq(tmp_path)
    return tmp_path / "model"


def seal(folder: Path) -> None:
    """Let the index vouch for the files as they are now."""
    index = json.loads((folder / INDEX).read_text())
    (folder / INDEX).write_text(json.dumps({**index, "files": checksums(folder)}))


def change(path: Path, **values: Any) -> None:
    """Other values in a JSON file of a model folder."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    seal(path.parent)


HUGE = {
    "vocab_size": r"'vocab_size' is 1000000000000, expected 4,194,304 at most",
    "hidden_size": r"'hidden_size' is 1000000000000, expected 4,194,304 at most",
    "num_hidden_layers": r"'num_hidden_layers' is 1000000000000, expected \d\d at most",
    "num_labels": r"'num_labels' is 1000000000000, expected 4,194,304 at most",
}


@pytest.mark.parametrize("name", HUGE)
def test_a_config_that_asks_for_terabytes_is_refused_before_they_are_taken(
    model: Path, name: str
) -> None:
    change(model / "config.json", **{name: 10**12})
    with pytest.raises(FormatError, match=rf"config\.json: {HUGE[name]}"):
        Parser.load(model, "cpu")


def test_a_config_of_other_sizes_than_the_weights_is_refused_before_memory_is_taken(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(model / "config.json", vocab_size=4_000_000)
    read: list[Path] = []
    monkeypatch.setattr(checkpoint, "read_weights", read.append)
    words = r"model\.safetensors: the weights 'encoder\.embeddings\.word_embeddings\.weight' have the shape \(\d+, 4\)"
    with pytest.raises(FormatError, match=words):
        Parser.load(model, "cpu")
    assert not read


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(model: Path, value: float) -> None:
    weights = load_file(model / "model.safetensors")
    weights["rules"][0, 0] = value
    save_file(weights, model / "model.safetensors")
    seal(model)
    with pytest.raises(
        FormatError,
        match=r"model\.safetensors: the weights 'rules' are not all numbers",
    ):
        Parser.load(model, "cpu")


def rewrite_weights(
    folder: Path, change: Callable[[str, torch.Tensor], torch.Tensor]
) -> None:
    weights = {
        name: change(name, weight)
        for name, weight in load_file(folder / "model.safetensors").items()
    }
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    seal(folder)


PRECISIONS = ["float16", "bfloat16", "float64"]


@pytest.mark.parametrize("kind", ["model", "relu"])
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_whatever_precision_a_config_names_the_model_is_run_in_that_of_training(
    request: pytest.FixtureRequest, kind: str, dtype: str
) -> None:
    folder: Path = request.getfixturevalue(kind)
    before = Parser.load(folder, "cpu").parse("jump twice", readings=3)
    for key in ("dtype", "torch_dtype"):
        change(folder / "config.json", **{key: dtype})
        assert Parser.load(folder, "cpu").parse("jump twice", readings=3) == before


@pytest.mark.parametrize("kind", ["model", "relu"])
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_weights_of_another_precision_are_converted(
    request: pytest.FixtureRequest, kind: str, dtype: str
) -> None:
    folder: Path = request.getfixturevalue(kind)
    before = Parser.load(folder, "cpu").parse("jump twice")
    rewrite_weights(folder, lambda _, weight: weight.to(getattr(torch, dtype)))
    parser = Parser.load(folder, "cpu")
    weights = parser.model.scorer.weights().values()
    assert {weight.dtype for weight in weights} == {np.dtype(np.float32)}
    assert parser.parse("jump twice").probability == pytest.approx(
        before.probability, abs=0.1
    )


@pytest.mark.parametrize(
    ("dtype", "name"), [("int8", "I8"), ("bool", "BOOL"), ("complex64", "C64")]
)
def test_weights_that_are_not_floats_are_refused(
    model: Path, dtype: str, name: str
) -> None:
    rewrite_weights(
        model,
        lambda name, weight: (
            weight.to(getattr(torch, dtype)) if name == "rules" else weight
        ),
    )
    with pytest.raises(
        FormatError, match=f"the weights 'rules' are {name}, expected floats"
    ):
        Parser.load(model, "cpu")


@pytest.mark.parametrize("kind", ["model", "relu"])
def test_weights_so_large_that_scores_are_no_numbers_are_refused(
    request: pytest.FixtureRequest, kind: str
) -> None:
    folder: Path = request.getfixturevalue(kind)
    rewrite_weights(
        folder,
        lambda name, weight: (
            weight * 1e38 if "network" in name or name == "rules" else weight
        ),
    )
    with pytest.raises(
        FormatError,
        match=r"model\.safetensors: the scores of a sentence are not all numbers",
    ):
        Parser.load(folder, "cpu")


def test_scores_that_are_no_numbers_for_one_sentence_alone_are_an_error_and_never_an_answer(
    model: Path,
) -> None:
    parser = Parser.load(model, "cpu")
    number = parser.model.tokenizer.token_to_id("run")

    def spoil(name: str, weight: torch.Tensor) -> torch.Tensor:
        if name == "encoder.embeddings.word_embeddings.weight":
            weight[number] = torch.tensor([3e38, 0, 3e38, 0])
        return weight

    rewrite_weights(model, spoil)
    damaged = Parser.load(model, "cpu")
    assert damaged.parse("jump") == parser.parse("jump")
    with pytest.raises(
        DamagedModel,
        match="the model gives scores that are not numbers: its weights are damaged",
    ):
        damaged.parse("run twice")


@pytest.mark.parametrize("kind", ["model", "relu"])
def test_a_negative_epsilon_is_refused(
    request: pytest.FixtureRequest, kind: str
) -> None:
    folder: Path = request.getfixturevalue(kind)
    change(folder / "config.json", layer_norm_eps=-1e-3)
    with pytest.raises(
        FormatError,
        match=r"config\.json: 'layer_norm_eps' is -0\.001, expected 0 or more",
    ):
        Parser.load(folder, "cpu")


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("is_decoder", "decoder"),
        ("add_cross_attention", "decoder"),
        ("is_encoder_decoder", "encoder-decoder"),
    ],
)
def test_a_model_that_is_not_an_encoder_is_refused_instead_of_run_as_one(
    model: Path, setting: str, kind: str
) -> None:
    change(model / "config.json", **{setting: True})
    words = rf"config\.json: the encoder cannot be used: it is an? {kind}, .*; choose an encoder"
    with pytest.raises(FormatError, match=words):
        Parser.load(model, "cpu")


def test_a_grammar_with_more_rules_than_the_weights_is_refused(model: Path) -> None:
    with (model / "grammar.txt").open("a") as file:
        file.write("walk ### W\n")
    seal(model)
    with pytest.raises(
        FormatError,
        match=r"the weights 'rules' have the shape \(3, 4\), expected \(4, 4\)",
    ):
        Parser.load(model, "cpu")


def with_a_subword_too_many(tokenizer: dict[str, Any]) -> None:
    tokenizer["model"]["vocab"]["jumps"] = 99


@pytest.mark.parametrize(
    ("file", "damage", "words"),
    [
        (
            "tokenizer.json",
            with_a_subword_too_many,
            "the tokenizer has a subword 99, the model has vectors for",
        ),
        ("tokenizer.json", dict.clear, "the tokenizer cannot be made"),
    ],
)
def test_a_tokenizer_that_does_not_fit_is_refused(
    model: Path, file: str, damage: Callable[[dict[str, Any]], None], words: str
) -> None:
    tokenizer = json.loads((model / file).read_text())
    damage(tokenizer)
    (model / file).write_text(json.dumps(tokenizer))
    seal(model)
    with pytest.raises(FormatError, match=words):
        Parser.load(model, "cpu")


def test_a_fallback_whose_config_asks_for_terabytes_is_refused(seq2seq: Path) -> None:
    change(seq2seq / "config.json", d_model=10**12)
    with pytest.raises(
        FormatError, match="'d_model' is 1000000000000, expected 4,194,304 at most"
    ):
        Seq2seq.load(seq2seq, "cpu")


def test_a_fallback_that_would_write_for_days_is_refused(seq2seq: Path) -> None:
    settings = json.loads((seq2seq / INDEX).read_text())["settings"]
    change(seq2seq / INDEX, settings={**settings, "longest_target": 10**9})
    with pytest.raises(
        NqgError, match="longest_target is 1000000000; expected 65,536 or less"
    ):
        Seq2seq.load(seq2seq, "cpu")


def test_a_fallback_that_cannot_begin_a_target_is_refused(seq2seq: Path) -> None:
    change(
        seq2seq / "generation_config.json",
        decoder_start_token_id=None,
        bos_token_id=None,
    )
    change(seq2seq / "config.json", decoder_start_token_id=None, bos_token_id=None)
    with pytest.raises(FormatError, match="the model cannot write a target"):
        Seq2seq.load(seq2seq, "cpu")


def test_a_fallback_whose_probabilities_are_no_numbers_is_refused(
    seq2seq: Path,
) -> None:
    factors = {"decoder.final_layer_norm.weight": 1e38, "shared.weight": 1e6}
    rewrite_weights(seq2seq, lambda name, weight: weight * factors.get(name, 1.0))
    with pytest.raises(
        NqgError,
        match="the model gives logits that are not numbers: its weights are damaged",
    ):
        Seq2seq.load(seq2seq, "cpu")


def test_a_damaged_generation_config_is_refused_though_transformers_would_pass_over_it(
    seq2seq: Path,
) -> None:
    (seq2seq / "generation_config.json").write_text("{")
    seal(seq2seq)
    with pytest.raises(FormatError, match=r"generation_config\.json:1: not valid JSON"):
        Seq2seq.load(seq2seq, "cpu")


@pytest.mark.parametrize(
    ("kind", "load"), [("model", Parser.load), ("seq2seq", Seq2seq.load)]
)
def test_a_name_that_no_disk_can_have_is_refused_and_not_repeated_whole(
    request: pytest.FixtureRequest, kind: str, load: Callable[[Path, str], object]
) -> None:
    folder: Path = request.getfixturevalue(kind)
    index = json.loads((folder / INDEX).read_text())
    index["files"]["a" * 10_000 + ".json"] = ""
    (folder / INDEX).write_text(json.dumps(index))
    with pytest.raises(
        FormatError,
        match=r"nqg\.json: its files cannot be checked: .*File name too long",
    ) as refused:
        load(folder, "cpu")
    assert len(str(refused.value)) < 1_000


def test_half_a_character_in_an_index_is_refused_in_words_that_can_be_printed(
    model: Path,
) -> None:
    index = json.loads((model / INDEX).read_text())
    index["files"]["\ud800.json"] = ""
    (model / INDEX).write_text(json.dumps(index))
    with pytest.raises(
        FormatError, match=r"nqg\.json:1: a string holds U\+D800, which is not text"
    ):
        Parser.load(model, "cpu")


def test_a_panic_of_a_library_is_refused_but_ctrl_c_is_not(tmp_path: Path) -> None:
    panic = type(RUST_PANIC, (BaseException,), {})
    with (
        pytest.raises(FormatError, match="broken: no entry found for key; try another"),
        convert_errors("broken", tmp_path, "try another"),
    ):
        raise panic("no entry found for key")
    with pytest.raises(KeyboardInterrupt), convert_errors("broken", tmp_path):
        raise KeyboardInterrupt
