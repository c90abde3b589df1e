"""The folder of a saved sequence-to-sequence model: what its index says, and whether its files are
as they were saved.

Weights and tokenizer have the form in which transformers writes them, so that the folder can be used
without nqg.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from nqg.model_folder import (
    INDEX,
    SEQ2SEQ_KIND,
    check_config,
    check_contents,
    convert_errors,
    index_bytes,
    read_manifest,
    weight_shapes,
)
from nqg.seq2seq.settings import Seq2seqSettings
from nqg.seq2seq.target_codec import TargetCodec
from nqg.settings_reader import read_dataclass

# The version of the format of a folder.
SEQ2SEQ_VERSION = 1
GENERATION_FILE = "generation_config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
REQUIRED_SEQ2SEQ_FILES = ("config.json", TOKENIZER_CONFIG)


class SavedIndex(NamedTuple):
    """What the index of a folder says."""

    settings: Seq2seqSettings
    codec: TargetCodec


def check_folder(folder: Path) -> SavedIndex:
    """The index of a model folder; one that is not a model, or is damaged, is refused with the
    reason.
    """
    index, config = folder / INDEX, folder / "config.json"
    manifest = read_manifest(folder, index_bytes(folder), SEQ2SEQ_KIND, SEQ2SEQ_VERSION)
    with convert_errors("its files cannot be checked", index):
        check_contents(folder, manifest.get("files"), REQUIRED_SEQ2SEQ_FILES)
    settings = read_dataclass(
        Seq2seqSettings, manifest.get("settings"), "'settings'", index, complete=True
    )
    codec = read_dataclass(
        TargetCodec, manifest.get("spelling"), "'spelling'", index, complete=True
    )
    check_config(config, weight_shapes(*sorted(folder.glob("*.safetensors"))))
    return SavedIndex(settings, codec)
