"""`nqg check-model`: whole folders, damaged ones, and digests."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fuzz.model_readers import write_model, write_seq2seq
from nqg.errors import NqgError
from nqg.model_folder import INDEX, folder_digest
from typed_commands import typed as nqg


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_model(tmp_path)
    return tmp_path / "model"


def test_a_whole_folder_says_what_it_promises_and_its_digest(model: Path) -> None:
    said = nqg("check-model", str(model)).stdout
    assert said.startswith(f"{model} is undamaged")
    assert re.search(r"made from +.*examples", said)
    assert folder_digest(model) in said
    found = json.loads(
        nqg(
            "check-model",
            str(model),
            "--json",
            "--digest",
            folder_digest(model).upper(),
        ).stdout
    )
    assert (found["rules"], found["second reader"], found["digest"]) == (
        3,
        False,
        folder_digest(model),
    )


def test_another_digest_is_refused_by_verify_and_serve(model: Path) -> None:
    for command in ("check-model", "serve"):
        with pytest.raises(
            NqgError,
            match=r"has the digest [0-9a-f]{64}, expected 00: this is not the expected model",
        ):
            nqg(command, str(model), "--digest", "00")


def test_every_file_that_is_read_counts_and_the_card_does_not(
    model: Path, tmp_path: Path
) -> None:
    before = folder_digest(model)
    (model / "README.md").write_text("edited")
    assert folder_digest(model) == before
    nqg("check-model", str(model), "--digest", before)
    (tmp_path / "other").mkdir()
    write_seq2seq(tmp_path / "other")
    (tmp_path / "other" / "model").rename(model / "seq2seq")
    assert folder_digest(model) != before
    for path in sorted(model.rglob("*")):
        if path.is_file() and path.name not in ("README.md", INDEX):
            raw = path.read_bytes()
            path.write_bytes(raw + b" ")
            with pytest.raises(
                NqgError, match="damaged: it is not the file that was saved"
            ):
                nqg("check-model", str(model))
            path.write_bytes(raw)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match=r"is not a model folder: it has no nqg\.json"):
        nqg("check-model", str(tmp_path))
