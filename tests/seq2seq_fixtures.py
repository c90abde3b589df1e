"""Fixtures of the tests of the sequence-to-sequence model: a tiny one, and one that has learned some pairs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import T5Config, T5ForConditionalGeneration

from nqg.model_folder import quiet_transformers
from nqg.paper.presets import FINE_TUNING
from nqg.seq2seq.fine_tuning import FineTuning
from nqg.seq2seq.seq2seq import Seq2seq, word_tokenizer
from seq2seq_examples import EXAMPLES, SMALL


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def learned() -> FineTuning:
    """A tiny model after enough steps to know the examples by heart."""
    torch.set_num_threads(1)
    training = replace(FINE_TUNING, steps=250, learning_rate=0.01)
    fitting = FineTuning(EXAMPLES, SMALL, training, device="cpu")
    for _ in fitting.steps():
        pass
    return fitting


@pytest.fixture
def seq2seq(learned: FineTuning) -> Seq2seq:
    return learned.seq2seq


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A "pre-trained" T5 of Hugging Face in a folder, with a head of its own as T5 v1.1 has."""
    folder = tmp_path_factory.mktemp("models") / "tiny-t5"
    texts = [
        "semanticparse: x",
        *(text for example in EXAMPLES for text in (example.source, example.target)),
    ]
    tokenizer = word_tokenizer(texts)
    torch.manual_seed(1)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_heads=2,
    )
    model = T5ForConditionalGeneration(config)
    model.lm_head.weight = nn.Parameter(
        torch.randn(len(tokenizer), 16)
    )  # a config alone would tie it
    model.generation_config.decoder_start_token_id = (
        model.config.decoder_start_token_id
    ) = 0
    with quiet_transformers():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def real_models() -> Path:
    """The folder of real pre-trained models and tokenizers; skipped with a reason where it is absent."""
    folder = os.environ.get("NQG_MODELS")
    if not folder or not Path(folder).is_dir():
        pytest.skip(
            "no pre-trained models: set NQG_MODELS to a folder that holds t5-tokenizer, bert-tiny, …"
        )
    return Path(folder)
