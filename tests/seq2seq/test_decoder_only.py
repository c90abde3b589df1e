"""Decoder-only models: the interface of encoder-decoders, whatever pads their batches."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from nqg.model_folder import quiet_transformers
from nqg.seq2seq.legal_decoding import LegalSeq2seq
from nqg.seq2seq.seq2seq import Seq2seq, word_tokenizer
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings
from nqg.seq2seq.t5_reader import t5_config
from nqg.types.target_grammar import TargetGrammar
from seq2seq_examples import EXAMPLES

pytest_plugins = ["seq2seq_fixtures"]
pytestmark = pytest.mark.usefixtures("one_thread")
SENTENCES = [example.source for example in EXAMPLES]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with random weights, whose padding is its end, as in many chat models."""
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    texts = ["semanticparse: x"]
    for example in EXAMPLES:
        texts += [example.source, example.target]
    tokenizer = word_tokenizer(texts)
    tokenizer.pad_token = tokenizer.eos_token
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    with quiet_transformers():
        model: Any = LlamaForCausalLM(config)  # type: ignore[no-untyped-call]
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def trained(llama: Path) -> Seq2seq:
    torch.set_num_threads(1)
    settings = Seq2seqSettings(model=str(llama), longest_target=12)
    training = FineTuningSettings(
        steps=150, batch_size=6, learning_rate=0.01, freeze_embeddings=False
    )
    return Seq2seq.train(EXAMPLES, settings, training, device="cpu")


def test_it_learns_its_examples_by_heart(trained: Seq2seq) -> None:
    assert trained.exact_match(EXAMPLES) == 1.0
    assert trained.predict(SENTENCES[:1]) == trained.predict(SENTENCES)[:1]


def test_padding_changes_no_score(trained: Seq2seq) -> None:
    pairs = [(example.source, example.target) for example in EXAMPLES]
    alone = [trained.log_probabilities([pair])[0] for pair in pairs]
    assert trained.log_probabilities(pairs) == pytest.approx(alone, abs=1e-4)


@torch.inference_mode()
def test_a_score_is_the_sum_over_the_subwords_of_the_target(trained: Seq2seq) -> None:
    example = EXAMPLES[4]
    start = trained.model.generation_config.decoder_start_token_id
    prompt = trained.tokenizer(trained.settings.prefix + example.source)["input_ids"]
    target = trained.tokenizer(text_target=example.target)["input_ids"]
    ids = [*prompt, start, *target]
    logs = trained.model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    expected = 0.0
    for place in range(len(prompt) + 1, len(ids)):
        expected += float(logs[place - 1, ids[place]])
    pairs = [(example.source, example.target)]
    assert trained.log_probabilities(pairs) == pytest.approx([expected], abs=1e-4)


def test_candidates_are_distinct_sorted_and_scored(trained: Seq2seq) -> None:
    for sentence, found in zip(
        SENTENCES, trained.candidates(SENTENCES, 3), strict=True
    ):
        targets = [answer.target or "" for answer in found]
        assert 1 <= len(set(targets)) == len(targets) <= 3
        probabilities = [answer.probability or 0.0 for answer in found]
        assert probabilities == sorted(probabilities, reverse=True)
        logs = trained.log_probabilities([(sentence, target) for target in targets])
        for probability, log in zip(probabilities, logs, strict=True):
            assert math.exp(log) <= probability * 1.001


def test_legal_decoding_sees_the_target_alone(trained: Seq2seq) -> None:
    grammar = TargetGrammar.parse("<s> ::= I_WALK I_JUMP | I_JUMP I_WALK I_WALK")
    system = LegalSeq2seq(trained, grammar)
    for answer in system.answers(SENTENCES):
        assert answer.target in ("I_WALK I_JUMP", "I_JUMP I_WALK I_WALK")


def test_a_saved_model_answers_as_before(trained: Seq2seq, tmp_path: Path) -> None:
    trained.save(tmp_path / "model")
    loaded = Seq2seq.load(tmp_path / "model", "cpu")
    assert loaded.predict(SENTENCES) == trained.predict(SENTENCES)
    assert t5_config(tmp_path / "model", loaded.settings) is None


def test_the_light_fine_tuning_of_cpus_trains_its_body(llama: Path) -> None:
    settings = Seq2seqSettings(model=str(llama), longest_target=12)
    training = FineTuningSettings(steps=60, batch_size=6, learning_rate=0.01)
    light = Seq2seq.train(EXAMPLES, settings, training, device="cpu")
    brief = replace(training, steps=1)
    untrained = Seq2seq.train(EXAMPLES, settings, brief, device="cpu")
    # Frozen random outputs limit what the body can learn.
    assert sum(light.losses(EXAMPLES)) < 0.9 * sum(untrained.losses(EXAMPLES))
