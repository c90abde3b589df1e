"""A trained model as a folder: weights, grammar, tokenizer, settings; nothing executable, nothing else needed.

The folder is written beside its place and renamed, so that a model that was there stays until the new one is whole.
`nqg.json` names every file with its checksum; a damaged or missing one is refused by name.
"""

from __future__ import annotations

import hashlib
import json
import os
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
from nqg.model.encoder import without_pooler
from nqg.model.scorer import Scorer
from nqg.model.settings import EncoderSettings, ModelSettings

KIND = "nqg model"
VERSION = 1
INDEX = "nqg.json"
NEEDED = ("grammar.txt", "config.json", "tokenizer.json", "model.safetensors")


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

    @property
    def longest(self) -> int:
        """How many word pieces of a sentence the encoder reads at most."""
        positions = getattr(self.scorer.encoder.config, "max_position_embeddings", None)
        tokenizer_says = int(self.tokenizer.model_max_length)
        return min(positions, tokenizer_says) if positions else tokenizer_says


def save_model(folder: Path, model: SavedModel) -> None:
    """Write a model folder, whole or not at all; only an older model, or nothing, may be at its place."""
    _check_place(folder)
    try:
        with _folder_written_atomically(folder) as part:
            _write(part, model)
    except OSError as error:
        raise NqgError(f"{folder}: the model cannot be written ({error.strerror or error})") from error


def _check_place(folder: Path) -> None:
    if folder.exists() and not (folder / INDEX).exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise NqgError(f"{folder} exists and is no model folder: choose another name, or remove it first")


def _write(folder: Path, model: SavedModel) -> None:
    model.grammar.write(folder / "grammar.txt")
    if model.target_grammar is not None:
        model.target_grammar.write(folder / "target.grammar")
    model.scorer.encoder.config.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    weights = {name: tensor.contiguous().cpu() for name, tensor in model.scorer.state_dict().items()}
    save_file(weights, folder / "model.safetensors")
    files = {path.name: _checksum(path) for path in sorted(folder.iterdir())}
    index = {"kind": KIND, "version": VERSION, "settings": asdict(model.settings), "files": files}
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n")


def load_model(folder: Path, device: str) -> SavedModel:
    """The model in a folder; a folder that is not one, or is damaged, is refused with the reason."""
    settings = _checked(folder)
    grammar = Grammar.read(folder / "grammar.txt", max_non_terminals=9)
    target = folder / "target.grammar"
    encoder = without_pooler(AutoModel.from_config(AutoConfig.from_pretrained(folder)))  # type: ignore[no-untyped-call]
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
    """The settings in the index, after every file was compared with its checksum there."""
    index = _index(folder)
    version, files = index.get("version"), index.get("files")
    if version != VERSION:
        raise NqgError(
            f"{folder} was written in version {version} of the format; this nqg reads version {VERSION}: "
            "use the nqg that wrote it, or train again"
        )
    if not isinstance(files, dict) or not files.keys() >= set(NEEDED):
        raise FormatError(f"damaged: 'files' should name at least {', '.join(NEEDED)}", folder / INDEX)
    for name, checksum in files.items():
        _check_file(folder / name, checksum)
    return _settings(index.get("settings"), folder / INDEX)


def _index(folder: Path) -> dict[str, Any]:
    try:
        index = json.loads((folder / INDEX).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise NqgError(f"{folder} is no model folder: it has no {INDEX}") from None
    except ValueError as error:
        raise FormatError(f"damaged: {error}", folder / INDEX) from None
    if not isinstance(index, dict) or index.get("kind") != KIND:
        raise FormatError(f"expected an object with 'kind': '{KIND}'", folder / INDEX)
    return index


def _check_file(path: Path, checksum: str) -> None:
    if not path.exists():
        raise NqgError(f"{path} is missing: the model folder is not whole")
    if _checksum(path) != checksum:
        raise NqgError(f"{path} is damaged: it is not the file that was saved")


def _settings(values: Any, place: Path) -> ModelSettings:
    try:
        return ModelSettings(**{**values, "embedded": EncoderSettings(**values["embedded"])})
    except (TypeError, KeyError) as error:
        raise FormatError(f"the settings do not fit this version of nqg: {error}", place) from None


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def _folder_written_atomically(folder: Path) -> Iterator[Path]:
    """A folder that appears at its place complete, or not at all; what was there stays until then."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.", suffix=".part") as work:
        new, old = Path(work) / "new", Path(work) / "old"
        new.mkdir()
        yield new
        if not folder.exists():
            os.replace(new, folder)
            return
        os.replace(folder, old)
        try:
            os.replace(new, folder)
        except BaseException:
            os.replace(old, folder)
            raise
