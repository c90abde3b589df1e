"""A trained model as a folder: weights, grammar, tokenizer, settings; nothing executable, nothing else needed.

The folder is written beside its place and renamed, so that a model that was there stays until the new one is whole.
`nqg.json` names every file with its checksum; a damaged or missing one is refused by name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoTokenizer

from nqg.errors import FormatError, NqgError
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.model.scorer import Scorer
from nqg.model.settings import EncoderSettings, ModelSettings

VERSION = 1
INDEX = "nqg.json"


@dataclass(frozen=True, slots=True)
class SavedModel:
    """Everything that a model folder holds."""

    grammar: Grammar
    scorer: Scorer
    tokenizer: Any
    settings: ModelSettings
    target_grammar: TargetGrammar | None = None

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.scorer.parameters()).device


def save_model(folder: Path, model: SavedModel) -> None:
    """Write a model folder, whole or not at all."""
    with _folder_written_atomically(folder) as part:
        model.grammar.write(part / "grammar.txt")
        if model.target_grammar is not None:
            model.target_grammar.write(part / "target.grammar")
        model.scorer.encoder.config.save_pretrained(part)
        model.tokenizer.save_pretrained(part)
        weights = {name: tensor.contiguous().cpu() for name, tensor in model.scorer.state_dict().items()}
        save_file(weights, part / "model.safetensors")
        files = {path.name: _checksum(path) for path in sorted(part.iterdir())}
        index = {"kind": "nqg model", "version": VERSION, "settings": asdict(model.settings), "files": files}
        (part / INDEX).write_text(json.dumps(index, indent=1) + "\n")


def load_model(folder: Path, device: str) -> SavedModel:
    """The model in a folder; a folder that is not one, or is damaged, is refused with the reason."""
    settings = _checked(folder)
    grammar = Grammar.read(folder / "grammar.txt", max_non_terminals=9)
    target = folder / "target.grammar"
    encoder = AutoModel.from_config(AutoConfig.from_pretrained(folder))  # type: ignore[no-untyped-call]
    scorer = Scorer(encoder, len(grammar), settings.dimension)
    scorer.load_state_dict(load_file(folder / "model.safetensors"))
    return SavedModel(
        grammar,
        scorer.to(device),
        AutoTokenizer.from_pretrained(folder),
        settings,
        TargetGrammar.read(target) if target.exists() else None,
    )


def _checked(folder: Path) -> ModelSettings:
    try:
        index = json.loads((folder / INDEX).read_text())
        version, files, settings = index["version"], index["files"], index["settings"]
    except FileNotFoundError:
        raise NqgError(f"{folder} is no model folder: it has no {INDEX}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"damaged: {error}", folder / INDEX) from None
    if version != VERSION:
        raise NqgError(f"{folder} was written in version {version} of the format; this nqg reads version {VERSION}")
    for name, checksum in files.items():
        path = folder / name
        if not path.exists():
            raise NqgError(f"{path} is missing")
        if _checksum(path) != checksum:
            raise NqgError(f"{path} is damaged: it is not the file that was saved")
    return ModelSettings(**{**settings, "embedded": EncoderSettings(**settings["embedded"])})


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def _folder_written_atomically(folder: Path) -> Iterator[Path]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".part"))
    try:
        yield part
        if folder.exists():
            old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".old"))
            os.replace(folder, old / "model")
            os.replace(part, folder)
            shutil.rmtree(old)
        else:
            os.replace(part, folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
