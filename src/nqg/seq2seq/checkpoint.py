"""Encoder-decoders from where they come: pre-trained, small and new, or fine-tuned and saved as a folder.

A saved folder holds weights, tokenizer, spelling and settings, nothing executable, and needs nothing else. `nqg.json`
is its index, with the checksum of every file. Weights and tokenizer are there as transformers writes them, so that the
folder can be used without nqg as well.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from nqg.errors import FormatError, MissingExtra, NqgError, Place
from nqg.files import strict_json, write_text
from nqg.model_folder import (
    INDEX,
    bring_back,
    check_config,
    check_contents,
    check_finite,
    check_replaceable,
    check_vocabulary,
    checksums,
    folder_written_atomically,
    index_bytes,
    quiet_transformers,
    read_manifest,
    refused_with,
    weight_shapes,
)
from nqg.seq2seq.settings import LoraSettings, Seq2seqSettings, SmallT5Settings
from nqg.seq2seq.spelling import Spelling
from nqg.settings_reader import read_dataclass

KIND, VERSION = "nqg seq2seq", 1
NEEDED = ("config.json", "tokenizer_config.json")


def load_pretrained(name: str) -> tuple[Any, Any]:
    """A pre-trained encoder-decoder and its tokenizer; one that lacks weights is refused, never filled up at random."""
    try:
        with quiet_transformers():
            if not AutoConfig.from_pretrained(name, trust_remote_code=False).is_encoder_decoder:
                raise NqgError(
                    f"'{name}' is not an encoder-decoder and cannot write targets; choose one, for instance "
                    "google/flan-t5-small, t5-base or google/byt5-small"
                )
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            model, report = AutoModelForSeq2SeqLM.from_pretrained(
                name, dtype=torch.float32, output_loading_info=True, trust_remote_code=False
            )
    except (OSError, ValueError, ImportError) as error:
        first_line = str(error).strip().split("\n")[0]
        raise NqgError(f"cannot load the sequence-to-sequence model '{name}': {first_line}") from error
    if missing := sorted(report["missing_keys"]):
        raise NqgError(f"the weights of '{name}' are incomplete: {len(missing)} are missing, first {missing[0]}")
    return model, tokenizer


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
    """The model with its low-rank updates added to its weights, if it has any."""
    if not hasattr(model, "merge_and_unload"):
        return model
    with warnings.catch_warnings():  # peft is surprised by a head that never was tied to the embeddings
        warnings.filterwarnings("ignore", message="Input and output embeddings are no longer tied")
        return model.merge_and_unload()


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer whose subwords are the words of `texts`.

    >>> tokenizer = word_tokenizer(["jump twice", "JUMP JUMP"])
    >>> tokenizer.decode(tokenizer("jump JUMP")["input_ids"])
    'jump JUMP </s>'
    """
    words = sorted({word for text in texts for word in text.split()})
    special = ["<pad>", "</s>", "<unk>"]
    for number in range(len(special)):
        while any(special[number] in word for word in words):  # it would be found inside the word too
            special[number] = f"<{special[number]}>"
    padding, end, unknown = special
    vocabulary = {word: number for number, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {end}", special_tokens=[(end, 1)])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token=padding, eos_token=end, unk_token=unknown
    )


def small_t5(settings: SmallT5Settings, words: int, seed: int) -> T5ForConditionalGeneration:
    """A T5 with new weights, which `seed` alone decides."""
    config = T5Config(
        vocab_size=words,
        d_model=settings.width,
        d_kv=settings.width // settings.heads,
        d_ff=4 * settings.width,
        num_layers=settings.layers,
        num_heads=settings.heads,
        dropout_rate=settings.dropout,
        pad_token_id=0,
        eos_token_id=1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = T5ForConditionalGeneration(config)
    for place in (model.config, model.generation_config):
        place.decoder_start_token_id = config.pad_token_id
    return model


def write_folder(folder: Path, model: Any, tokenizer: Any, spelling: Spelling, settings: Seq2seqSettings) -> None:
    """Write a folder, whole or not at all; only an older model, or nothing, may be at its place."""
    check_replaceable(folder)
    try:
        with folder_written_atomically(folder) as part, quiet_transformers():
            model.save_pretrained(part)
            tokenizer.save_pretrained(part)
            manifest = {
                "kind": KIND,
                "version": VERSION,
                "settings": asdict(settings),
                "spelling": {"stand_ins": dict(spelling.stand_ins), "space": spelling.space},
                "files": checksums(part),
            }
            write_text(part / INDEX, json.dumps(manifest, indent=1) + "\n")
    except OSError as error:
        raise NqgError(f"{folder}: the model cannot be written ({error.strerror or error})") from error


def read_folder(folder: Path) -> tuple[Any, Any, Spelling, Seq2seqSettings]:
    """Model, tokenizer, spelling and settings; a folder that is not one, or is damaged, is refused with the reason."""
    bring_back(folder)
    place, config = folder / INDEX, folder / "config.json"
    manifest = read_manifest(folder, index_bytes(folder), KIND, VERSION)
    with refused_with("its files cannot be checked", place):
        check_contents(folder, manifest.get("files"), NEEDED)
    settings = read_dataclass(Seq2seqSettings, manifest.get("settings"), "'settings'", place, complete=True)
    spelling = read_dataclass(Spelling, manifest.get("spelling"), "'spelling'", place, complete=True)
    generation = folder / "generation_config.json"
    with refused_with("damaged", generation):  # which transformers would pass over in silence
        if generation.exists():
            GenerationConfig.from_dict(strict_json(generation.read_text(encoding="utf-8"), Place(generation, 1)))
    check_config(config, weight_shapes(*sorted(folder.glob("*.safetensors"))))
    with refused_with("the model cannot be made", config):
        model, tokenizer = load_pretrained(str(folder))
        check_finite(model.state_dict(), folder)
        check_vocabulary(tokenizer.get_vocab(), model.get_input_embeddings().num_embeddings, config)
        if tokenizer.pad_token_id is None:
            raise FormatError("the tokenizer has no subword for padding", config)
    return model, tokenizer, spelling, settings
