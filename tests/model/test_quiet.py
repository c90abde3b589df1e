"""Loading an encoder writes nothing to the terminal."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from transformers import BertConfig, BertForMaskedLM
from transformers.utils import logging as reports

from encoders import wrapped
from nqg.model.encoder import load_encoder
from nqg.model.subwords import word_tokenizer
from nqg.model_folder import quiet_transformers


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    """An encoder with a head that we do not need: transformers would report it at length."""
    tokenizer = wrapped(word_tokenizer([("walk",)]))
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    )
    with quiet_transformers():
        BertForMaskedLM(config).save_pretrained(tmp_path / "encoder")  # type: ignore[no-untyped-call]
        tokenizer.save_pretrained(tmp_path / "encoder")
    return str(tmp_path / "encoder")


def test_loading_an_encoder_says_nothing(
    encoder: str, capfd: pytest.CaptureFixture[str]
) -> None:
    load_encoder(encoder)
    assert capfd.readouterr() == ("", "")


def test_afterwards_transformers_is_as_talkative_as_before() -> None:
    before = reports.get_verbosity(), reports.is_progress_bar_enabled()

    def fail() -> None:
        with quiet_transformers():
            assert reports.get_verbosity() == logging.ERROR
            assert not reports.is_progress_bar_enabled()
            raise RuntimeError("anything")

    with pytest.raises(RuntimeError, match="anything"):
        fail()
    assert (reports.get_verbosity(), reports.is_progress_bar_enabled()) == before
