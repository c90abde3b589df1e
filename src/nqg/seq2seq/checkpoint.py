"""A fine-tuned model as a folder: weights, tokenizer, spelling, settings; nothing executable, nothing else needed.

`nqg.json` is its index, with the checksum of every file. The weights and the tokenizer lie there as transformers writes
them, so that the folder can be used without nqg as well.
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
    check_vocabulary,
    checksums,
    folder_written_atomically,
    quiet_transformers,
    refused_with,
    weight_shapes,
)
from nqg.seq2seq.settings import LoraSettings, Seq2seqSettings, SmallT5Settings
from nqg.seq2seq.spelling import Spelling

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


KIND = "nqg seq2seq"
VERSION = 1
NEEDED = ("config.json", "tokenizer_config.json")


def write_folder(folder: Path, model: Any, tokenizer: Any, spelling: Spelling, settings: Seq2seqSettings) -> None:
    """Write a folder, whole or not at all; only an older model, or nothing, may be at its place."""
    if folder.exists() and not (folder / INDEX).exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise NqgError(f"{folder} exists and is no model folder: choose another name, or remove it first")
    try:
        with folder_written_atomically(folder) as part, quiet_transformers():
            model.save_pretrained(part)
            tokenizer.save_pretrained(part)
            index = {
                "kind": KIND,
                "version": VERSION,
                "settings": asdict(settings),
                "spelling": {"stand_ins": dict(spelling.stand_ins), "space": spelling.space},
                "files": checksums(part),
            }
            write_text(part / INDEX, json.dumps(index, indent=1) + "\n")
    except OSError as error:
        raise NqgError(f"{folder}: the model cannot be written ({error.strerror or error})") from error


def read_folder(folder: Path) -> tuple[Any, Any, Spelling, Seq2seqSettings]:
    """Model, tokenizer, spelling and settings; a folder that is none, or is damaged, is refused with the reason."""
    bring_back(folder)
    index = _index(folder)
    with refused_with("its files cannot be checked", folder / INDEX):
        check_contents(folder, index.get("files"), NEEDED)
    settings, spelling = _settings(index, folder / INDEX), _spelling(index, folder / INDEX)
    return *_model(folder), spelling, settings


def _model(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer, whose files must fit together."""
    config = folder / "config.json"
    _check_generation(folder / "generation_config.json")
    check_config(config, weight_shapes(*sorted(folder.glob("*.safetensors"))))
    with refused_with("the model cannot be made", config):
        model, tokenizer = load_pretrained(str(folder))
        check_finite(model.state_dict(), folder)
        check_vocabulary(tokenizer.get_vocab(), model.get_input_embeddings().num_embeddings, config)
        if tokenizer.pad_token_id is None:
            raise FormatError("the tokenizer has no subword for padding", config)
    return model, tokenizer


def _check_generation(path: Path) -> None:
    """Refuse a damaged file, which transformers would pass over in silence."""
    if path.exists():
        with refused_with("damaged", path):
            GenerationConfig.from_dict(strict_json(path.read_text(encoding="utf-8"), Place(path, 1)))


def _index(folder: Path) -> dict[str, Any]:
    try:
        text = (folder / INDEX).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise NqgError(f"{folder} is no folder of a sequence-to-sequence model: it has no {INDEX}") from None
    except UnicodeDecodeError as error:
        raise FormatError(f"damaged: {error}", folder / INDEX) from None
    index = strict_json(text, Place(folder / INDEX, 1))
    if not isinstance(index, dict) or index.get("kind") != KIND:
        raise FormatError(f"expected an object with 'kind': '{KIND}'", folder / INDEX)
    if index.get("version") != VERSION:
        raise NqgError(
            f"{folder} was written in version {index.get('version')} of the format; this nqg reads version {VERSION}: "
            "use the nqg that wrote it, or train again"
        )
    return index


def _settings(index: dict[str, Any], place: Path) -> Seq2seqSettings:
    try:
        values = dict(index["settings"])
        embedded, lora = SmallT5Settings(**values.pop("embedded")), values.pop("lora")
        return Seq2seqSettings(**values, embedded=embedded, lora=LoraSettings(**lora) if lora else None)
    except (TypeError, KeyError, ValueError) as error:
        raise FormatError(f"the settings do not fit this version of nqg: {error}", place) from None


def _spelling(index: dict[str, Any], place: Path) -> Spelling:
    try:
        return Spelling(dict(index["spelling"]["stand_ins"]), index["spelling"]["space"])
    except (TypeError, KeyError, ValueError) as error:
        raise FormatError(f"'spelling' should hold stand_ins and space: {error}", place) from None


PADDING, END, UNKNOWN = "<pad>", "</s>", "<unk>"


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer whose pieces are the words of `texts`.

    >>> tokenizer = word_tokenizer(["jump twice", "JUMP JUMP"])
    >>> tokenizer.decode(tokenizer("jump JUMP")["input_ids"])
    'jump JUMP </s>'
    """
    words = sorted({word for text in texts for word in text.split()})
    padding, end, unknown = (_unlike(name, words) for name in (PADDING, END, UNKNOWN))
    vocabulary = {word: number for number, word in enumerate([padding, end, unknown, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {end}", special_tokens=[(end, 1)])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token=padding, eos_token=end, unk_token=unknown
    )


def _unlike(name: str, words: Iterable[str]) -> str:
    """A special token that stands inside no word, where it would be found too."""
    words = list(words)
    while any(name in word for word in words):
        name = f"<{name}>"
    return name


def small_t5(settings: SmallT5Settings, words: int, seed: int) -> T5ForConditionalGeneration:
    """A T5 with fresh weights, which `seed` alone decides."""
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
