"""Model folders: a round trip, what is in them, what is refused, and writing whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders import save_bert
from nqg.data.example import Example
from nqg.errors import FormatError, NqgError
from nqg.grammar.grammar import Grammar
from nqg.inference.decoding import DecodeOptions
from nqg.inference.parser import Parser
from nqg.model import checkpoint
from nqg.model.checkpoint import (
    Measurement,
    Provenance,
    SavedModel,
    load_model,
    save_model,
)
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.run_config import DataFingerprint
from nqg.types.target_grammar import TargetGrammar

GRAMMAR = Grammar.parse(
    "walk ### W\njump ### J\nwalk ### J\nNT_1 twice ### NT_1 NT_1\nNT_1 and NT_2 ### NT_2 NT_1"
)
EXAMPLES = [Example("walk and jump twice", "J J W"), Example("jump twice", "J J")]
SENTENCES = ["walk", "walk and jump", "walk twice and jump twice", "fly"]
TINY = ModelSettings(
    dimension=8, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
)


def trained(settings: ModelSettings = TINY, seed: int = 0) -> Parser:
    training = TrainingSettings(steps=1, batch_size=2, seed=seed)
    return fit_parser(
        GRAMMAR, EXAMPLES, model=settings, training=training, device="cpu"
    )


@pytest.fixture(scope="module")
def parser() -> Parser:
    return trained()


@pytest.fixture
def folder(parser: Parser, tmp_path: Path) -> Path:
    parser.save(tmp_path / "model")
    return tmp_path / "model"


def is_same(ones: SavedModel, others: SavedModel) -> bool:
    ours, theirs = ones.scorer.weights(), others.scorer.weights()
    return ours.keys() == theirs.keys() and all(
        np.array_equal(ours[name], theirs[name]) for name in ours
    )


def test_a_loaded_model_has_the_same_weights_and_says_the_same(
    parser: Parser, folder: Path
) -> None:
    loaded = Parser.load(folder, device="cpu")
    assert is_same(loaded.model, parser.model)
    assert loaded.grammar.rules == parser.grammar.rules
    assert loaded.model.settings == parser.model.settings
    assert loaded.model.max_length == parser.model.max_length == 512
    again, before = (
        list(each.with_options(DecodeOptions(3)).answers(SENTENCES))
        for each in (loaded, parser)
    )
    assert again == before


def test_the_target_grammar_travels_with_the_model(
    parser: Parser, tmp_path: Path
) -> None:
    legal = TargetGrammar.parse("<program> ::= W | <...> W")
    save_model(tmp_path / "model", replace(parser.model, target_grammar=legal))
    assert load_model(tmp_path / "model", "cpu").target_grammar == legal


def test_a_folder_can_be_moved(parser: Parser, folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "copy"
    moved.parent.mkdir()
    shutil.move(folder, moved)
    assert list(Parser.load(str(moved), device="cpu").answers(SENTENCES)) == list(
        parser.answers(SENTENCES)
    )


@pytest.mark.parametrize(
    "activation", ["gelu", "relu"], ids=["our BERT", "one of transformers"]
)
def test_a_model_with_an_encoder_of_a_folder_does_not_need_that_folder(
    tmp_path: Path, activation: str
) -> None:
    save_bert(
        tmp_path / "encoder",
        [example.source_tokens for example in EXAMPLES],
        longest=64,
        hidden_act=activation,
    )
    made = trained(ModelSettings(encoder=str(tmp_path / "encoder"), dimension=8))
    made.save(tmp_path / "model")
    shutil.rmtree(tmp_path / "encoder")
    loaded = Parser.load(tmp_path / "model", device="cpu")
    assert is_same(loaded.model, made.model)
    assert loaded.model.max_length == 64
    assert list(loaded.answers(SENTENCES)) == list(made.answers(SENTENCES))


def test_nothing_in_a_folder_is_executable_or_pickled(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir())
    assert names == [
        "README.md",
        "config.json",
        "grammar.txt",
        "model.safetensors",
        "nqg.json",
        "tokenizer.json",
        "training.jsonl",
    ]
    for path in folder.iterdir():
        assert not path.read_bytes().startswith(
            (b"\x80", b"PK")
        )  # pickles, and the archives that torch.save writes
        assert not os.access(path, os.X_OK)


def test_others_may_read_a_folder_if_the_umask_lets_them(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    assert folder.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_the_same_model_is_saved_in_the_same_bytes(
    parser: Parser, folder: Path, tmp_path: Path
) -> None:
    parser.save(tmp_path / "again")
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def edited(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    index = json.loads((folder / "nqg.json").read_text())
    change(index)
    (folder / "nqg.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    "name", ["model.safetensors", "grammar.txt", "tokenizer.json", "config.json"]
)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(
        NqgError, match=rf"model/{name} is missing: the model folder is incomplete"
    ):
        load_model(folder, "cpu")


@pytest.mark.parametrize(
    "name", ["model.safetensors", "grammar.txt", "tokenizer.json", "config.json"]
)
def test_a_damaged_file_is_named(folder: Path, name: str) -> None:
    raw = bytearray((folder / name).read_bytes())
    raw[len(raw) // 2] ^= 1
    (folder / name).write_bytes(raw)
    with pytest.raises(
        NqgError, match=rf"model/{name} is damaged: it is not the file that was saved"
    ):
        load_model(folder, "cpu")


def test_a_missing_target_grammar_is_not_overlooked(
    parser: Parser, tmp_path: Path
) -> None:
    save_model(
        tmp_path,
        replace(parser.model, target_grammar=TargetGrammar.parse("<program> ::= W")),
    )
    (tmp_path / "target.grammar").unlink()
    with pytest.raises(NqgError, match=r"target\.grammar is missing"):
        load_model(tmp_path, "cpu")


def test_a_folder_of_a_newer_version_is_refused_with_a_way_out(folder: Path) -> None:
    edited(folder, lambda index: index.update(version=5))
    with pytest.raises(
        NqgError,
        match=r"in version 5 of the format; this nqg reads version 4: .* or a newer one",
    ):
        load_model(folder, "cpu")


def test_a_folder_of_an_older_version_is_refused_with_a_way_out(folder: Path) -> None:
    edited(folder, lambda index: index.update(version=2))
    with pytest.raises(
        NqgError,
        match="in version 2 of the format; this nqg reads version 4: train again with this nqg",
    ):
        load_model(folder, "cpu")


@pytest.mark.parametrize("kind", ["empty", "file"])
def test_what_is_no_model_folder_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("hello")
    with pytest.raises(
        NqgError, match=rf"{kind} is not a model folder: it has no nqg\.json"
    ):
        load_model(tmp_path / kind, "cpu")


def test_an_absent_folder_is_said_to_be_absent(tmp_path: Path) -> None:
    with pytest.raises(
        NqgError,
        match=r"absent: no such folder; `nqg train TRAIN -o .*absent` would make a model there",
    ):
        load_model(tmp_path / "absent", "cpu")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", r"nqg\.json:1: not valid JSON: "),
        ("\xff", r"nqg\.json: damaged: "),
        ("[]", r"nqg\.json: expected an object with 'kind': 'nqg model'"),
        (
            '{"kind": "forests"}',
            r"nqg\.json: expected an object with 'kind': 'nqg model'",
        ),
        (
            '{"kind": "nqg model", "version": 4}',
            r"nqg\.json: damaged: 'files' should name at least grammar\.txt",
        ),
        (
            '{"kind": "nqg model", "version": 4, "files": {}}',
            "'files' should name at least",
        ),
    ],
    ids=["cut", "bytes", "list", "kind", "bare", "no files"],
)
def test_a_damaged_index_is_refused(folder: Path, text: str, words: str) -> None:
    (folder / "nqg.json").write_text(text, encoding="latin-1")
    with pytest.raises(FormatError, match=words):
        load_model(folder, "cpu")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda index: index["settings"].update(colour="red"),
            "no key of 'settings' 'colour'",
        ),
        (
            lambda index: index["settings"]["embedded"].update(colour="red"),
            r"no key of \[embedded\] 'colour'",
        ),
        (
            lambda index: index["settings"].pop("embedded"),
            "the key 'embedded' of 'settings' is missing",
        ),
        (
            lambda index: index.update(settings=None),
            "expected an object as 'settings', found None",
        ),
    ],
    ids=["unknown", "unknown of the encoder", "incomplete", "none"],
)
def test_settings_that_this_version_does_not_know_are_refused(
    folder: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    edited(folder, change)
    with pytest.raises(FormatError, match=rf"nqg\.json: {words}"):
        load_model(folder, "cpu")


def test_an_unknown_setting_is_named(folder: Path) -> None:
    edited(folder, lambda index: index["settings"].update(colour="red"))
    with pytest.raises(FormatError, match="colour"):
        load_model(folder, "cpu")


def test_saving_over_a_model_replaces_it_whole(folder: Path, tmp_path: Path) -> None:
    (folder / "stray.txt").write_text("of the old model")
    other = trained(seed=1)
    other.save(folder)
    assert is_same(load_model(folder, "cpu"), other.model)
    assert not (folder / "stray.txt").exists()
    assert os.listdir(tmp_path) == ["model"]


def disk_full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_old_model_and_nothing_else(
    parser: Parser, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "save_file", disk_full)
        with pytest.raises(
            NqgError,
            match=r"model: the model cannot be written \(No space left on device\)",
        ):
            trained(seed=1).save(folder)
    assert is_same(load_model(folder, "cpu"), parser.model)
    assert os.listdir(tmp_path) == ["model"]


def test_an_interrupted_first_save_leaves_nothing(
    parser: Parser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        parser.save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_a_failing_rename_puts_the_old_model_back(
    parser: Parser, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def fails_for_the_new_one(old: Path, new: Path) -> None:
        if Path(old).name == "new":
            disk_full()
        rename(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", fails_for_the_new_one)
        with pytest.raises(NqgError, match="cannot be written"):
            trained(seed=1).save(folder)
    assert is_same(load_model(folder, "cpu"), parser.model)
    assert os.listdir(tmp_path) == ["model"]


def test_missing_parents_of_a_folder_are_made(parser: Parser, tmp_path: Path) -> None:
    parser.save(tmp_path / "models" / "scan" / "first")
    assert is_same(
        load_model(tmp_path / "models" / "scan" / "first", "cpu"), parser.model
    )


def test_what_is_no_model_is_never_replaced(parser: Parser, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    for place in (tmp_path / "thesis", tmp_path / "thesis" / "chapter.tex"):
        with pytest.raises(
            NqgError,
            match=f"{place.name} exists and is not a model folder: choose another name",
        ):
            parser.save(place)
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"


def test_the_provenance_travels_with_the_model(
    folder: Path, parser: Parser, tmp_path: Path
) -> None:
    loaded = load_model(folder, "cpu").provenance
    assert loaded == parser.model.provenance
    assert loaded.data == DataFingerprint.of(EXAMPLES)
    assert loaded.training["steps"] == 1
    assert len(loaded.records) == 1
    measured = Measurement(
        DataFingerprint.of(EXAMPLES[:1], "dev.tsv"),
        {"exact_match": 0.5, "precision": None},
    )
    parser.save(
        tmp_path / "scored", provenance=replace(loaded, measurements=(measured,))
    )
    assert load_model(tmp_path / "scored", "cpu").provenance.measurements == (measured,)


def test_a_model_without_provenance_is_a_model_all_the_same(
    folder: Path, parser: Parser
) -> None:
    parser.save(folder, provenance=Provenance())
    assert not (folder / "training.jsonl").exists()
    assert load_model(folder, "cpu").provenance == Provenance()


def test_the_card_tells_what_was_saved_and_may_be_edited(folder: Path) -> None:
    card = (folder / "README.md").read_text()
    assert "- Grammar: 5 rules" in card
    assert DataFingerprint.of(EXAMPLES).fingerprint in card
    (folder / "README.md").write_text("our own words")
    load_model(folder, "cpu")


def test_a_stray_file_is_refused_because_a_tokenizer_might_read_it(
    folder: Path,
) -> None:
    (folder / ".DS_Store").write_text("harmless")
    load_model(folder, "cpu")
    (folder / "added_tokens.json").write_text('{"walk": 99}')
    with pytest.raises(
        NqgError,
        match=r"added_tokens\.json is unknown: nqg\.json does not name it; move it out",
    ):
        load_model(folder, "cpu")


def test_more_can_be_saved_with_a_model_and_is_checked_with_it(
    parser: Parser, tmp_path: Path
) -> None:
    def also(part: Path) -> None:
        (part / "notes").mkdir()
        (part / "notes" / "why.txt").write_text("because")

    parser.save(tmp_path / "model", also=also)
    load_model(tmp_path / "model", "cpu")
    (tmp_path / "model" / "notes" / "why.txt").write_text("why not")
    with pytest.raises(NqgError, match=r"notes/why\.txt is damaged"):
        load_model(tmp_path / "model", "cpu")


def test_a_subfolder_with_an_index_of_its_own_outlives_the_model_around_it(
    folder: Path, parser: Parser
) -> None:
    fallback = folder / "seq2seq"
    fallback.mkdir()
    (fallback / "nqg.json").write_text("{}")
    (fallback / "weights.safetensors").write_text("of hours")
    parser.save(folder)
    assert (fallback / "weights.safetensors").read_text() == "of hours"
    (fallback / "weights.safetensors").write_text("of more hours")
    load_model(folder, "cpu")
    parser.save(folder, also=lambda part: (part / "seq2seq").mkdir())
    assert list(fallback.iterdir()) == []


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(
    folder: Path, parser: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, read, reads = trained(seed=1), checkpoint.read_model, []

    def replaced_after_the_first_read(
        place: Path, index: bytes, device: str
    ) -> SavedModel:
        found = read(place, index, device)
        reads.append(found)
        if len(reads) == 1:
            other.save(folder)
        return found

    monkeypatch.setattr(checkpoint, "read_model", replaced_after_the_first_read)
    assert is_same(load_model(folder, "cpu"), other.model)
    assert len(reads) == 2
    assert not is_same(reads[0], reads[1])


def test_code_that_a_config_names_is_never_asked_for_nor_run(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "mine",
        "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    checksum = hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()
    edited(folder, lambda index: index["files"].update({"config.json": checksum}))
    with pytest.raises(NqgError, match=r"config\.json: the encoder cannot be made"):
        load_model(folder, "cpu")


def test_loading_says_nothing(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    load_model(folder, "cpu")
    assert capfd.readouterr() == ("", "")


def test_a_model_with_our_encoder_is_loaded_and_used_without_heavy_modules(
    folder: Path,
) -> None:
    code = f"""
import sys
from nqg.inference.hybrid import load
assert load({str(folder)!r}, "cpu").parse("jump twice").target == "J J"
print(*sorted({{"transformers", "accelerate", "sympy", "torch._dynamo", "matplotlib"}} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"
