"""Encoder-decoders of Hugging Face, by hub name or folder: loaded in float32, quietly, whole or not at all."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

from nqg.errors import MissingExtra, NqgError
from nqg.model.quiet import quiet_transformers
from nqg.seq2seq.settings import LoraSettings

KNOWN = "for instance google/flan-t5-small, t5-base or google/byt5-small"


def load_pretrained(name: str) -> tuple[Any, Any]:
    """A pre-trained encoder-decoder and its tokenizer; one that lacks weights is refused, never filled up at random."""
    try:
        with quiet_transformers():
            if not AutoConfig.from_pretrained(name, trust_remote_code=False).is_encoder_decoder:
                raise NqgError(f"'{name}' is no encoder-decoder and cannot write targets; take one, {KNOWN}")
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            model, report = AutoModelForSeq2SeqLM.from_pretrained(
                name, dtype=torch.float32, output_loading_info=True, trust_remote_code=False
            )
    except (OSError, ValueError, ImportError) as error:
        raise NqgError(f"cannot load the sequence-to-sequence model '{name}': {_first_line(error)}") from error
    if missing := sorted(report["missing_keys"]):
        raise NqgError(f"the weights of '{name}' are not whole: {len(missing)} are missing, first {missing[0]}")
    return model, tokenizer


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def with_lora(model: Any, settings: LoraSettings, seed: int) -> Any:
    """The model with its weights frozen and small trainable ones beside its attention (package peft)."""
    try:
        from peft import LoraConfig, TaskType, get_peft_model
    except ImportError as error:
        raise MissingExtra("fine-tuning with LoRA", "lora") from error
    config = LoraConfig(
        task_type=TaskType.SEQ_2_SEQ_LM,
        r=settings.rank,
        lora_alpha=round(settings.scale * settings.rank),
        lora_dropout=settings.dropout,
        target_modules="all-linear",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, config)


def merged(model: Any) -> Any:
    """The model with its low-rank updates added into its weights, if it has any."""
    if not hasattr(model, "merge_and_unload"):
        return model
    with warnings.catch_warnings():  # peft is surprised by a head that never was tied to the embeddings
        warnings.filterwarnings("ignore", message="Input and output embeddings are no longer tied")
        return model.merge_and_unload()
