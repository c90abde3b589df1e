"""A trained model as a folder: weights, grammar, tokenizer, settings; nothing executable, nothing else needed.

`nqg.json` is its index: version of the format, settings, provenance, and every file with its checksum. `README.md` is
for people. `nqg.model_folder` writes folders whole or not at all and checks what is in them.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

import nqg
from nqg.data.example import Example
from nqg.errors import FormatError, NqgError
from nqg.files import numbered_lines, strict_json, write_text
from nqg.grammar.grammar import Grammar, Rule
from nqg.model.confidence import CONFIDENCE_FILE, Calibrator
from nqg.model.encoder import read_encoder
from nqg.model.model_card import model_card
from nqg.model.scorer import Scorer
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.model.spans import Anchors, Boundaries
from nqg.model.subwords import collate, tokenize
from nqg.model_folder import (
    CARD,
    INDEX,
    Shapes,
    check_config,
    check_contents,
    check_finite,
    check_shapes,
    check_vocabulary,
    index_bytes,
    model_written,
    read_manifest,
    refused_with,
    weight_shapes,
)
from nqg.preprocessing.preprocessor import FILE as TEXT
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.preprocessing.program_language import ProgramLanguage, read_language
from nqg.run_config import DataFingerprint
from nqg.settings_reader import read_dataclass
from nqg.slots.target_grammars import open_slot_categories
from nqg.types.target_grammar import TargetGrammar

Record = Mapping[str, Any]  # one line of `training.jsonl`
KEPT_SENTENCES = 32  # of the training data
CONSIDERED_SENTENCES = 4096  # of which those are chosen
LONGEST_KEPT_SENTENCE = 200  # characters


@dataclass(frozen=True, slots=True)
class Measurement:
    """Scores of a model on some data, by name; None where one has no value, as precision where nothing is answered."""

    data: DataFingerprint
    scores: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Provenance:
    """What is known of a model's making; all of it may be missing."""

    data: DataFingerprint | None = None
    training: Mapping[str, Any] = field(default_factory=dict)  # the settings
    records: tuple[Record, ...] = ()  # what was noted after each step
    measurements: tuple[Measurement, ...] = ()
    sentences: tuple[
        str, ...
    ] = ()  # a few of the training data, short ones first: for people who want to try it
    induction: Mapping[str, Any] = field(
        default_factory=dict
    )  # the settings, where rules were searched

    @classmethod
    def of(
        cls, examples: Sequence[Example], training: TrainingSettings, records: Iterable[Record] = ()
    ) -> Provenance:
        # Every so many examples, so that large data take no longer.
        interval = max(1, math.ceil(len(examples) / CONSIDERED_SENTENCES))
        short = [
            each.source
            for each in examples[::interval]
            if len(each.source) <= LONGEST_KEPT_SENTENCE
        ]
        sentences = spread(short, KEPT_SENTENCES)
        return cls(
            DataFingerprint.of(examples),
            asdict(training),
            tuple(records),
            sentences=tuple(sentences),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the records, as JSON has it."""
        return {name: value for name, value in asdict(self).items() if name != "records"}


def spread(sentences: Iterable[str], most: int) -> list[str]:
    """Some of the sentences, from the shortest to the longest.

    >>> spread(["jump", "walk twice", "jump", "run and walk", "look"], 2)
    ['look', 'run and walk']
    """
    ordered = sorted(dict.fromkeys(sentences), key=lambda each: (len(each.split()), each))
    count = min(most, len(ordered))
    return [ordered[(2 * at + 1) * len(ordered) // (2 * count)] for at in range(count)]


def record_lines(records: Iterable[Record]) -> str:
    return "".join(f"{json.dumps(dict(record))}\n" for record in records)


def read_records(path: Path) -> tuple[Record, ...]:
    records = []
    for place, line in numbered_lines(path):
        record = strict_json(line, place)
        if not isinstance(record, dict):
            raise FormatError("expected a JSON object with what was noted after a step", place)
        records.append(record)
    return tuple(records)


MODEL_KIND = "nqg model"
MODEL_VERSION = 4  # of the format
RECORDS_FILE = "training.jsonl"
RULES_FILE = "rules.txt"
GRAMMAR_FILE = "grammar.txt"
TARGET_GRAMMAR_FILE = "target.grammar"
TOKENIZER_FILE = "tokenizer.json"
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
REQUIRED_FILES = (GRAMMAR_FILE, CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE)
MOST_NON_TERMINALS = 9  # in a rule of a model folder


@dataclass(frozen=True, slots=True)
class SavedModel:
    """Everything that a model folder holds.

    Of the rules `by_hand` some may have been trained. The others come last in the grammar, and have no embedding.
    """

    grammar: Grammar
    scorer: Scorer
    tokenizer: Tokenizer
    settings: ModelSettings
    target_grammar: TargetGrammar | None = None
    provenance: Provenance = field(default_factory=Provenance)
    calibrator: Calibrator | None = None
    by_hand: tuple[Rule, ...] = ()
    text: Preprocessor = Preprocessor()  # noqa: RUF009 (frozen)
    language: ProgramLanguage | None = None  # where programs are queries of a database

    @property
    def trained_rules(self) -> tuple[Rule, ...]:
        return self.grammar.rules[: len(self.scorer.rules)]

    @property
    def untrained_rules(self) -> tuple[Rule, ...]:
        return self.grammar.rules[len(self.scorer.rules) :]

    @property
    def legal_programs(self) -> TargetGrammar | None:
        """The grammar of legal programs, in which any values may stand for slots."""
        return self.target_grammar and open_slot_categories(
            self.target_grammar, self.text.slots.quotes
        )

    def with_rules_by_hand(self, rules: Iterable[Rule]) -> SavedModel:
        """The same model with these rules by hand, and no others."""
        by_hand, trained = tuple(rules), dict.fromkeys(self.trained_rules)
        everything = (*trained, *(rule for rule in by_hand if rule not in trained))
        bound = max([self.grammar.max_non_terminals, *(rule.arity for rule in by_hand)])
        grammar = replace(self.grammar, rules=everything, max_non_terminals=bound)
        return replace(self, grammar=grammar, by_hand=by_hand)

    @property
    def device(self) -> torch.device:
        return next(self.scorer.parameters()).device

    @property
    def max_length(self) -> int:
        """How many subwords of a sentence the encoder reads at most."""
        return self.scorer.encoder.max_length


def save_model(
    folder: Path, model: SavedModel, also: Callable[[Path], object] | None = None
) -> None:
    """Write a model folder, whole or not at all; only an older model, or nothing, may be at its place.

    `also` may write more into the new folder before it is put in its place: files, which the index will name, or
    subfolders with an index of their own. Such a subfolder of the older model stays unless `also` wrote another.
    """
    manifest = {
        "kind": MODEL_KIND,
        "version": MODEL_VERSION,
        "settings": asdict(model.settings),
        "provenance": model.provenance.to_dict(),
    }
    with model_written(folder, manifest) as part:
        _write_files(part, model)
        if also is not None:
            also(part)
        for index in sorted(folder.glob(f"*/{INDEX}")):
            if not (part / index.parent.name).exists():
                shutil.copytree(index.parent, part / index.parent.name, copy_function=os.link)


def _write_files(folder: Path, model: SavedModel) -> None:
    replace(model.grammar, rules=model.trained_rules).write(folder / GRAMMAR_FILE)
    if model.by_hand:
        write_text(folder / RULES_FILE, rules_text(model.by_hand))
    if model.target_grammar is not None:
        model.target_grammar.write(folder / TARGET_GRAMMAR_FILE)
    if model.calibrator is not None:
        model.calibrator.write(folder / CONFIDENCE_FILE)
    if not model.text.is_plain:
        model.text.write(folder / TEXT)
    if model.language is not None:
        model.language.write(folder / model.language.file_name)
    write_text(folder / CONFIG_FILE, model.scorer.encoder.config_json())
    write_text(folder / TOKENIZER_FILE, model.tokenizer.to_str(pretty=True))
    weights = {
        name: tensor.contiguous().cpu() for name, tensor in model.scorer.state_dict().items()
    }
    save_file(weights, folder / WEIGHTS_FILE)
    if model.provenance.records:
        write_text(folder / RECORDS_FILE, record_lines(model.provenance.records))
    python, torch_version = platform.python_version(), str(torch.__version__)
    versions = {
        "nqg": nqg.__version__,
        "format": str(MODEL_VERSION),
        "Python": python,
        "torch": torch_version,
    }
    write_text(folder / CARD, model_card(model, versions))


def rules_text(by_hand: Iterable[Rule]) -> str:
    return "".join(
        f"{line}\n" for line in ["# Rules written by hand, see `nqg rule --help`", *by_hand]
    )


def save_rules(folder: Path, by_hand: Sequence[Rule]) -> None:
    """Replace the rules by hand in a model folder, whole or not at all; nothing else in it changes."""
    before = index_bytes(folder)
    with model_written(
        folder, read_manifest(folder, before, MODEL_KIND, MODEL_VERSION), before
    ) as part:
        shutil.copytree(folder, part, copy_function=os.link, dirs_exist_ok=True)
        for name in (
            RULES_FILE,
            INDEX,
        ):  # whose files are another model's, too, until they are removed here
            (part / name).unlink(missing_ok=True)
        if by_hand:
            write_text(part / RULES_FILE, rules_text(by_hand))


def load_model(folder: Path, device: str) -> SavedModel:
    """The model in a folder; a folder that is not one, or is damaged, is refused with the reason."""
    while True:
        before = index_bytes(folder)
        try:
            model = read_model(folder, before, device)
        except (NqgError, OSError):
            if index_bytes(folder) == before:
                raise
        else:
            if index_bytes(folder) == before:
                return model
        # another process replaced the model while we read it: what we have is of both, or of neither


def read_rules(path: Path) -> Grammar:
    return Grammar.read(path, MOST_NON_TERMINALS)


def read_tokenizer(path: Path) -> Tokenizer:
    with refused_with("the tokenizer cannot be made", path):
        return Tokenizer.from_file(str(path))


READERS: Mapping[str, Callable[[Path], Any]] = {
    GRAMMAR_FILE: read_rules,
    RULES_FILE: read_rules,
    TARGET_GRAMMAR_FILE: TargetGrammar.read,
    RECORDS_FILE: read_records,
    TEXT: Preprocessor.read,
    TOKENIZER_FILE: read_tokenizer,
}


def read_model(folder: Path, index: bytes, device: str) -> SavedModel:
    """The model in a folder: what is quick to read comes first, so that a damaged folder is refused soon."""
    # The index, and the files that it names.
    place = folder / INDEX
    manifest = read_manifest(folder, index, MODEL_KIND, MODEL_VERSION)
    with refused_with("its files cannot be checked", place):
        check_contents(folder, manifest.get("files"), REQUIRED_FILES)
    settings = read_dataclass(
        ModelSettings, manifest.get("settings"), "'settings'", place, complete=True
    )
    provenance = read_dataclass(Provenance, manifest.get("provenance"), "'provenance'", place)
    # Small files, of which a model need not have all.
    files: dict[str, Any] = {}
    for name, read in READERS.items():
        if (folder / name).exists():
            files[name] = read(folder / name)
    grammar, target_grammar = files[GRAMMAR_FILE], files.get(TARGET_GRAMMAR_FILE)
    text = files.get(TEXT, Preprocessor())
    calibrator = None
    if (folder / CONFIDENCE_FILE).exists():
        calibrator = Calibrator.read(folder / CONFIDENCE_FILE, grammar)
    language = read_language(folder)
    # The weights.
    shapes = weight_shapes(folder / WEIGHTS_FILE)
    check_config(folder / CONFIG_FILE, shapes)
    scorer = _read_scorer(folder, shapes, len(grammar), settings).to(device).eval()
    # All of it together.
    grammar = replace(grammar, slots=text.slots if text.slots.slots else None)
    model = SavedModel(
        grammar.typed_by(target_grammar if settings.typed else None),
        scorer,
        files[TOKENIZER_FILE],
        settings,
        target_grammar,
        replace(provenance, records=files.get(RECORDS_FILE, ())),
        calibrator,
        text=text,
        language=language,
    )
    probe(model, folder)
    return model.with_rules_by_hand(files[RULES_FILE].rules) if RULES_FILE in files else model


def probe(model: SavedModel, folder: Path) -> None:
    """Refuse a model that cannot score a sentence."""
    with refused_with("the tokenizer does not fit", folder / TOKENIZER_FILE):
        check_vocabulary(
            model.tokenizer.get_vocab(), model.scorer.encoder.vocab_size, folder / TOKENIZER_FILE
        )
    sentence = ["a"]
    for rule in model.grammar.rules[:1]:
        sentence += map(str, rule.source)
    with (
        refused_with("the encoder cannot read a sentence", folder / CONFIG_FILE),
        torch.inference_mode(),
    ):
        batch = collate(tokenize(model.tokenizer, [sentence]), model.device)
        nothing = np.zeros(1, np.int64)
        starts = Boundaries(
            nothing, nothing, torch.zeros(1, dtype=torch.int64, device=model.device)
        )
        ends = replace(starts, tokens=np.array([len(sentence) - 1]))
        scores = model.scorer(batch, Anchors(starts, ends))
        if not scores.isfinite().all():
            raise FormatError("the scores of a sentence are not all numbers", folder / WEIGHTS_FILE)


def _read_scorer(folder: Path, shapes: Shapes, rules: int, settings: ModelSettings) -> Scorer:
    def new() -> Scorer:
        with refused_with("the encoder cannot be made", folder / CONFIG_FILE):
            return Scorer(read_encoder(folder / CONFIG_FILE), rules, settings.dimension)

    with torch.device("meta"):  # where tensors have shapes and take no memory
        scorer = new()
    check_shapes(scorer, shapes, folder / WEIGHTS_FILE)
    if any(True for _ in scorer.buffers()):  # whose values are not in the file
        scorer = new()
    kinds = {name: weight.dtype for name, weight in scorer.state_dict().items()}
    copies = {}
    for name, weight in load_file(folder / WEIGHTS_FILE).items():
        if weight.is_floating_point() != kinds[name].is_floating_point:
            expected = "floats" if kinds[name].is_floating_point else "integers"
            raise FormatError(
                f"the weights '{name}' are {weight.dtype}, expected {expected}",
                folder / WEIGHTS_FILE,
            )
        # The file may change where a system maps it into memory.
        copies[name] = weight.to(kinds[name], copy=True)
    scorer.load_state_dict(copies, assign=True)
    check_finite(scorer.state_dict(), folder / WEIGHTS_FILE)
    return scorer
