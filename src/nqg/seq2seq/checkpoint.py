"""A fine-tuned model as a folder: weights, tokenizer, spelling, settings; nothing executable, nothing else needed.

`nqg.json` is its index, with the checksum of every file. The weights and the tokenizer lie there as transformers writes
them, so that the folder can be used without nqg as well.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformers import GenerationConfig

from nqg.data.strict_json import strict_json
from nqg.errors import FormatError, NqgError, Place
from nqg.files import write_text
from nqg.model.contents import INDEX, check_contents, checksums
from nqg.model.folder import bring_back, folder_written_atomically
from nqg.model.quiet import quiet_transformers
from nqg.model.soundness import check_config, check_finite, check_vocabulary, refused_with, weight_shapes
from nqg.seq2seq.pretrained import load_pretrained
from nqg.seq2seq.settings import LoraSettings, Seq2seqSettings, SmallT5Settings
from nqg.seq2seq.spelling import Spelling

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
        check_vocabulary(tokenizer, model, config)
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
