"""A trained model as a folder: weights, grammar, tokenizer, settings; nothing executable, nothing else needed.

`nqg.json` is its index: version of the format, settings, provenance, and every file with its checksum. `contents.py`
compares the files with it, `folder.py` puts a new model in the place of an old one, `card.py` writes the README.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoTokenizer

import nqg
from nqg.data.strict_json import strict_json
from nqg.errors import FormatError, NqgError, Place
from nqg.files import write_text
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.model.card import CardFacts, model_card
from nqg.model.contents import CARD, INDEX, check_contents, checksums
from nqg.model.encoder import piece_batch, pieces, without_pooler
from nqg.model.folder import bring_back, folder_written_atomically
from nqg.model.provenance import Provenance, read_records, record_lines
from nqg.model.quiet import quiet_transformers
from nqg.model.scorer import Scorer
from nqg.model.settings import EncoderSettings, ModelSettings
from nqg.model.soundness import (
    Shapes,
    check_config,
    check_finite,
    check_shapes,
    check_vocabulary,
    refused_with,
    weight_shapes,
)

KIND = "nqg model"
VERSION = 2
RECORDS = "training.jsonl"
WEIGHTS = "model.safetensors"
NEEDED = ("grammar.txt", "config.json", "tokenizer.json", WEIGHTS)


@dataclass(frozen=True, slots=True)
class SavedModel:
    """Everything that a model folder holds."""

    grammar: Grammar
    scorer: Scorer
    tokenizer: Any
    settings: ModelSettings
    target_grammar: TargetGrammar | None = None
    provenance: Provenance = field(default_factory=Provenance)

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


def save_model(folder: Path, model: SavedModel, also: Callable[[Path], object] | None = None) -> None:
    """Write a model folder, whole or not at all; only an older model, or nothing, may be at its place.

    `also` may write more into the new folder before it is put in its place: files, which the index will name, or
    subfolders with an index of their own. Such a subfolder of the older model stays unless `also` wrote another.
    """
    _check_place(folder)
    try:
        with folder_written_atomically(folder) as part:
            _write(part, model)
            if also is not None:
                also(part)
            _keep_subfolders(folder, part)
            write_text(part / INDEX, json.dumps(_index_of(part, model), indent=1) + "\n")
    except OSError as error:
        raise NqgError(f"{folder}: the model cannot be written ({error.strerror or error})") from error


def _check_place(folder: Path) -> None:
    if folder.exists() and not (folder / INDEX).exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise NqgError(f"{folder} exists and is no model folder: choose another name, or remove it first")


def _keep_subfolders(old: Path, new: Path) -> None:
    """Take over what vouches for itself, such as a fallback that took hours to train."""
    for index in sorted(old.glob(f"*/{INDEX}")):
        if not (new / index.parent.name).exists():
            shutil.copytree(index.parent, new / index.parent.name, copy_function=os.link)


def _write(folder: Path, model: SavedModel) -> None:
    model.grammar.write(folder / "grammar.txt")
    if model.target_grammar is not None:
        model.target_grammar.write(folder / "target.grammar")
    model.scorer.encoder.config.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    weights = {name: tensor.contiguous().cpu() for name, tensor in model.scorer.state_dict().items()}
    save_file(weights, folder / WEIGHTS)
    if model.provenance.records:
        write_text(folder / RECORDS, record_lines(model.provenance.records))
    write_text(folder / CARD, model_card(_card_facts(model)))


def _index_of(folder: Path, model: SavedModel) -> dict[str, Any]:
    return {
        "kind": KIND,
        "version": VERSION,
        "settings": asdict(model.settings),
        "provenance": model.provenance.facts(),
        "files": checksums(folder),
    }


def _card_facts(model: SavedModel) -> CardFacts:
    return CardFacts(
        rules=tuple(map(str, model.grammar)),
        has_target_grammar=model.target_grammar is not None,
        settings=model.settings,
        provenance=model.provenance,
        parameters=sum(parameter.numel() for parameter in model.scorer.parameters()),
        longest=model.longest,
        versions={
            "nqg": nqg.__version__,
            "format": str(VERSION),
            "Python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    )


def load_model(folder: Path, device: str) -> SavedModel:
    """The model in a folder; a folder that is not one, or is damaged, is refused with the reason."""
    bring_back(folder)
    while True:
        before = _index_text(folder)
        try:
            model = _loaded(folder, device)
        except (NqgError, OSError):
            if _index_text(folder) == before:
                raise
        else:
            if _index_text(folder) == before:
                return model
        # another process replaced the model while we read it: what we have is of both, or of neither


def _loaded(folder: Path, device: str) -> SavedModel:
    """The model in a folder: what is quick to read comes first, so that a damaged folder is refused soon."""
    index = _index(folder)
    _check_version(folder, index.get("version"))
    with refused_with("its files cannot be checked", folder / INDEX):
        check_contents(folder, index.get("files"), NEEDED)
    settings, provenance = _settings(index.get("settings"), folder / INDEX), _provenance(folder, index)
    grammar = Grammar.read(folder / "grammar.txt", max_non_terminals=9)
    target_grammar = _target_grammar(folder / "target.grammar")
    shapes = weight_shapes(folder / WEIGHTS)
    check_config(folder / "config.json", shapes)
    with quiet_transformers():
        config = _config(folder)
        tokenizer = _tokenizer(folder, config)
        scorer = _scorer(folder, shapes, partial(_new_scorer, folder, config, len(grammar), settings))
    model = SavedModel(grammar, scorer.to(device), tokenizer, settings, target_grammar, provenance)
    _try(model, folder)
    return model


def _provenance(folder: Path, index: dict[str, Any]) -> Provenance:
    past = read_records(folder / RECORDS) if (folder / RECORDS).exists() else ()
    return Provenance.of_facts(index.get("provenance"), past, folder / INDEX)


def _target_grammar(path: Path) -> TargetGrammar | None:
    return TargetGrammar.read(path) if path.exists() else None


def _config(folder: Path) -> Any:
    with refused_with("the encoder cannot be made", folder / "config.json"):
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)


def _tokenizer(folder: Path, config: Any) -> Any:
    with refused_with("the tokenizer cannot be made", folder / "tokenizer.json"):
        return AutoTokenizer.from_pretrained(folder, config=config, trust_remote_code=False)


def _scorer(folder: Path, shapes: Shapes, new: Callable[[], Scorer]) -> Scorer:
    """The scorer with its weights, which must be those that its config asks for."""
    path = folder / WEIGHTS
    with torch.device("meta"):  # where tensors have shapes and take no memory
        check_shapes(new(), shapes, path)
    scorer = new()
    scorer.load_state_dict(load_file(path))
    check_finite(scorer.state_dict(), path)
    return scorer


def _new_scorer(folder: Path, config: Any, rules: int, settings: ModelSettings) -> Scorer:
    """A scorer, its weights not yet set; code that a config may name is never run."""
    with refused_with("the encoder cannot be made", folder / "config.json"):
        encoder = AutoModel.from_config(config, trust_remote_code=False)  # type: ignore[no-untyped-call]
        return Scorer(without_pooler(encoder), rules, settings.dimension)


def _try(model: SavedModel, folder: Path) -> None:
    """Refuse a model that cannot read a sentence of known and unknown words."""
    sentence = ("a", *(str(symbol) for rule in model.grammar.rules[:1] for symbol in rule.source))
    with refused_with("the tokenizer does not fit", folder / "tokenizer.json"):
        check_vocabulary(model.tokenizer, model.scorer.encoder, folder / "tokenizer.json")
    with refused_with("the encoder cannot read a sentence", folder / "config.json"), torch.inference_mode():
        read = piece_batch(pieces(model.tokenizer, [sentence]), model.tokenizer.pad_token_id, model.device)
        model.scorer.eval().encoder(input_ids=read.ids, attention_mask=read.mask)


def _check_version(folder: Path, version: Any) -> None:
    if version == VERSION:
        return
    is_newer = isinstance(version, int) and version > VERSION
    way_out = "use the nqg that wrote it, or a newer one" if is_newer else "use the nqg that wrote it, or train again"
    raise NqgError(
        f"{folder} was written in version {version} of the format; this nqg reads version {VERSION}: {way_out}"
    )


def _index_text(folder: Path) -> bytes:
    try:
        return (folder / INDEX).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NqgError(f"{folder} is no model folder: it has no {INDEX}") from None


def _index(folder: Path) -> dict[str, Any]:
    try:
        index = strict_json(_index_text(folder).decode(), Place(folder / INDEX, 1))
    except UnicodeDecodeError as error:
        raise FormatError(f"damaged: {error}", folder / INDEX) from None
    if not isinstance(index, dict) or index.get("kind") != KIND:
        raise FormatError(f"expected an object with 'kind': '{KIND}'", folder / INDEX)
    return index


def _settings(values: Any, place: Path) -> ModelSettings:
    try:
        return ModelSettings(**{**values, "embedded": EncoderSettings(**values["embedded"])})
    except (TypeError, KeyError) as error:
        raise FormatError(f"the settings do not fit this version of nqg: {error}", place) from None
