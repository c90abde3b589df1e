"""Folders of fine-tuned models: whole, checked, and refused with the reason when they are not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from nqg.errors import NqgError
from nqg.model_folder import INDEX, quiet_transformers
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import LoraSettings
from nqg.seq2seq.target_codec import TargetCodec

pytest_plugins = ["seq2seq_fixtures"]


@pytest.fixture
def folder(seq2seq: Seq2seq, tmp_path: Path) -> Path:
    seq2seq.save(tmp_path / "model")
    return tmp_path / "model"


def test_settings_and_spelling_come_back(seq2seq: Seq2seq, tmp_path: Path) -> None:
    settings = replace(
        seq2seq.settings, model="t5-base", lora=LoraSettings(rank=3), beams=4
    )
    spelling = TargetCodec({"<": "•", "▁": "–"}, space="¶", words={"I_JUMP": "jump"})
    replace(seq2seq, settings=settings, spelling=spelling).save(tmp_path / "model")
    loaded = Seq2seq.load(tmp_path / "model", device="cpu")
    assert (loaded.settings, loaded.spelling) == (settings, spelling)


def test_nothing_in_the_folder_can_run(folder: Path) -> None:
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}


def test_the_folder_can_be_used_without_nqg(folder: Path) -> None:
    with quiet_transformers():
        model, tokenizer = (
            AutoModelForSeq2SeqLM.from_pretrained(folder),
            AutoTokenizer.from_pretrained(folder),
        )
    ids = model.generate(
        input_ids=tokenizer("semanticparse: jump", return_tensors="pt")["input_ids"],
        max_new_tokens=5,
    )
    assert tokenizer.decode(ids[0], skip_special_tokens=True) == "I_JUMP"


def test_a_model_takes_the_place_of_an_older_one_and_of_nothing_else(
    seq2seq: Seq2seq, folder: Path
) -> None:
    (folder / "config.json").write_text("damaged")
    seq2seq.save(folder)
    assert Seq2seq.load(folder, device="cpu").predict(["jump"]) == ["I_JUMP"]
    other = folder.parent / "letters"
    other.mkdir()
    (other / "to my aunt.txt").write_text("dear aunt")
    with pytest.raises(
        NqgError,
        match="exists and is not a model folder: choose another name, or remove it first",
    ):
        seq2seq.save(other)


def changed(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        index = json.loads((folder / INDEX).read_text())
        (folder / INDEX).write_text(json.dumps({**index, **values}))

    return change


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            lambda folder: (folder / "config.json").unlink(),
            "config.json is missing: the model folder is incomplete",
        ),
        (
            lambda folder: (folder / "model.safetensors").write_bytes(b""),
            "is damaged: it is not the file that was saved",
        ),
        (
            lambda folder: (folder / INDEX).unlink(),
            f"is not a model folder: it has no {INDEX}",
        ),
        (lambda folder: (folder / INDEX).write_text("{"), "not valid JSON"),
        (changed(kind="nqg model"), "expected an object with 'kind': 'nqg seq2seq'"),
        (
            changed(version=9),
            "was written in version 9 of the format; this nqg reads version 1",
        ),
        (
            changed(settings={"beams": 1}),
            "the key 'model' of 'settings' is missing; expected a string",
        ),
        (changed(spelling=[]), "expected an object as 'spelling', found []"),
        (
            changed(files={}),
            "'files' should name at least config.json, tokenizer_config.json",
        ),
    ],
)
def test_a_damaged_folder_is_refused_with_the_reason(
    folder: Path, damage: Callable[[Path], object], words: str
) -> None:
    damage(folder)
    with pytest.raises(NqgError) as refused:
        Seq2seq.load(folder)
    assert words in str(refused.value)
