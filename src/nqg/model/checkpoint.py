"""A trained model as a folder: weights, grammar, tokenizer, settings; nothing executable, nothing else needed.

`nqg.json` is its index: version of the format, settings, provenance, and every file with its checksum. `README.md` is
for people. `nqg.model_folder` writes folders whole or not at all and checks what is in them.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch.overrides import TorchFunctionMode

import nqg
from nqg.data.examples import Example
from nqg.errors import FormatError, NqgError, counted
from nqg.files import numbered_lines, strict_json, write_text
from nqg.grammar.grammar import Grammar, Rule
from nqg.grammar.slots import with_values
from nqg.grammar.target_grammar import TargetGrammar
from nqg.model.confidence import FILE as CONFIDENCE
from nqg.model.confidence import Calibrator
from nqg.model.encoder import read_encoder
from nqg.model.scorer import Scorer
from nqg.model.settings import EMBEDDED, ModelSettings, TrainingSettings
from nqg.model.spans import Anchors, Boundaries
from nqg.model.subwords import collate, tokenize
from nqg.model_folder import (
    CARD,
    INDEX,
    Shapes,
    bring_back,
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
from nqg.run_config import DataFingerprint
from nqg.settings_reader import read_dataclass
from nqg.text.preprocessing import FILE as TEXT
from nqg.text.preprocessing import Preprocessor

if TYPE_CHECKING:
    from nqg.data.sql_programs import SqlPrograms

Record = Mapping[str, Any]  # one line of `training.jsonl`
SENTENCES, LOOKED_AT, LONGEST_SENTENCE = 32, 4096, 200  # of the training data that a model keeps; characters of one


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
    sentences: tuple[str, ...] = ()  # a few of the training data, short ones first: for people who want to try it
    induction: Mapping[str, Any] = field(default_factory=dict)  # the settings, where rules were searched

    @classmethod
    def of(cls, examples: Sequence[Example], training: TrainingSettings, records: Iterable[Record] = ()) -> Provenance:
        some = (examples[place].source for place in range(0, len(examples), -(-len(examples) // LOOKED_AT) or 1))
        sentences = spread([each for each in some if len(each) <= LONGEST_SENTENCE], SENTENCES)
        return cls(DataFingerprint.of(examples), asdict(training), tuple(records), sentences=tuple(sentences))

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


SHOWN_RULES = 12

CARD_TEXT = """\
---
library_name: nqg
tags:
- semantic-parsing
---
# A parsing model of nqg

It turns sentences into programs: a grammar says which programs a sentence can mean, and a neural scorer
chooses among them. Every answer comes with the rules that produced it and with its probability.

- Grammar: {rules} rules (`grammar.txt`)
- Legal programs: {legal}
- Encoder: {encoder}; it reads at most {max_length} subwords of a sentence
- Size: {parameters} weights (`model.safetensors`)

## Some of its rules

{shown}

## Training

- Data: {data}{training}

## Scores

{scores}

## Use

    from nqg import Parser
    Parser.from_pretrained("this/folder or owner/name").parse("a sentence").target

    nqg parse this/folder "a sentence" --explain

Rules that were added by hand, if any, are in `rules.txt`.
The folder holds data alone, nothing that runs. `nqg.json` has the checksum of each file that is read; `nqg verify`
checks them, and prints a digest that stands for all of them.

## Limits

- It answers only with programs that its grammar derives. For any other sentence it says that it has no answer, which is
  a result and not an error.
- A probability compares the readings that the grammar has of a sentence. 1.0 means that there is no other reading, not
  that the reading is right.
- {confidence}
- {text}
- Scores hold for data like those that they were measured on.

Written by {versions}.
"""


def model_card(model: SavedModel, versions: Mapping[str, str]) -> str:
    """The README of a model folder, for the person who finds it and wonders what it is.

    Whatever comes from a user stands in it as code, so that nothing is taken for markup.
    """
    settings, provenance, folder = model.settings, model.provenance, Path(model.settings.encoder)
    encoder = f"{_as_code(folder.name if folder.is_absolute() else settings.encoder)}, fine-tuned"
    if settings.encoder == EMBEDDED:
        size = f"layers: {settings.embedded.layers}, width: {settings.embedded.hidden_size}"
        encoder = f"a small BERT ({size}), trained from scratch with this model"
    training = [f"- {_as_code(name)}: {_as_code(value)}" for name, value in provenance.training.items()]
    if provenance.records:
        training.append(f"- What was noted after each of {len(provenance.records):,} steps is in `training.jsonl`")
    measured = []
    for each in provenance.measurements:
        scores = ", ".join(f"{_as_code(name)} {_as_code(value)}" for name, value in each.scores.items())
        measured.append(f"- {scores}, on {_described(each.data)}")
    confidence = "It has no confidence, which is learned with `nqg train --folds`."
    if (fitted := model.calibrator) is not None:
        answers = (
            f"{fitted.trials:,} answers about training examples that were held out, {fitted.right:,} of them right"
        )
        confidence = f"A confidence is the chance of being right, learned from {answers}; it holds for similar data."
    shortest = sorted(map(str, model.trained_rules), key=lambda rule: (len(rule), rule))[:SHOWN_RULES]
    return CARD_TEXT.format(
        rules=f"{len(model.trained_rules):,}",
        legal="all" if model.target_grammar is None else "`target.grammar`; other programs are not answers",
        encoder=encoder,
        max_length=f"{model.max_length:,}",
        parameters=f"{sum(weight.numel() for weight in model.scorer.parameters()):,}",
        shown="\n".join(f"    {rule}" for rule in shortest),
        data="not recorded" if provenance.data is None else _described(provenance.data),
        training="".join(f"\n{line}" for line in training),
        scores="\n".join(measured) or "None were measured when the model was saved.",
        confidence=confidence,
        text=(
            "Sentences are split at white space; they should be written as those of the training data are "
            "(case, punctuation)."
            if model.text.is_plain
            else f"Sentences are read as `{TEXT}` says; it was fitted to those of the training data."
        ),
        versions=", ".join(f"{name} {version}" for name, version in versions.items()),
    )


def _described(data: DataFingerprint) -> str:
    name = f"{_as_code(data.name)}, " if data.name else ""
    return f"{name}{counted(data.examples, 'example')}, SHA-256 `{data.fingerprint}`"


def _as_code(value: object) -> str:
    """A value as Markdown code, whatever is in it.

    >>> print(_as_code("dev.tsv"), _as_code("<b>`x`"), _as_code(0.98765432))
    `dev.tsv` `` <b>`x` `` `0.987654`
    """
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    fence = "`"
    while fence in text:
        fence += "`"
    padding = " " if len(fence) > 1 else ""
    return f"{fence}{padding}{text}{padding}{fence}".replace("\n", " ")


KIND = "nqg model"
VERSION, OLDEST = 4, 3  # that is written, and that is read
RECORDS = "training.jsonl"
RULES = "rules.txt"
MOST_NON_TERMINALS = 9  # in a rule of a model folder
WEIGHTS = "model.safetensors"
SQL = "sql.json"
NEEDED = ("grammar.txt", "config.json", "tokenizer.json", WEIGHTS)


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
    sql: SqlPrograms | None = None  # where programs are queries of a database

    @property
    def trained_rules(self) -> tuple[Rule, ...]:
        return self.grammar.rules[: len(self.scorer.rules)]

    @property
    def untrained_rules(self) -> tuple[Rule, ...]:
        return self.grammar.rules[len(self.scorer.rules) :]

    @property
    def legal_programs(self) -> TargetGrammar | None:
        """The grammar of legal programs, in which any values may stand for slots."""
        return self.target_grammar and with_values(self.target_grammar, self.text.slots.quotes)

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


def save_model(folder: Path, model: SavedModel, also: Callable[[Path], object] | None = None) -> None:
    """Write a model folder, whole or not at all; only an older model, or nothing, may be at its place.

    `also` may write more into the new folder before it is put in its place: files, which the index will name, or
    subfolders with an index of their own. Such a subfolder of the older model stays unless `also` wrote another.
    """
    provenance = model.provenance.to_dict()
    manifest = {"kind": KIND, "version": VERSION, "settings": asdict(model.settings), "provenance": provenance}
    with model_written(folder, manifest) as part:
        _write_files(part, model)
        if also is not None:
            also(part)
        for index in sorted(folder.glob(f"*/{INDEX}")):
            if not (part / index.parent.name).exists():
                shutil.copytree(index.parent, part / index.parent.name, copy_function=os.link)


def _write_files(folder: Path, model: SavedModel) -> None:
    replace(model.grammar, rules=model.trained_rules).write(folder / "grammar.txt")
    if model.by_hand:
        write_text(folder / RULES, rules_text(model.by_hand))
    if model.target_grammar is not None:
        model.target_grammar.write(folder / "target.grammar")
    if model.calibrator is not None:
        model.calibrator.write(folder / CONFIDENCE)
    if not model.text.is_plain:
        model.text.write(folder / TEXT)
    if model.sql is not None:
        model.sql.write(folder / SQL)
    write_text(folder / "config.json", model.scorer.encoder.config_json())
    write_text(folder / "tokenizer.json", model.tokenizer.to_str(pretty=True))
    weights = {name: tensor.contiguous().cpu() for name, tensor in model.scorer.state_dict().items()}
    save_file(weights, folder / WEIGHTS)
    if model.provenance.records:
        write_text(folder / RECORDS, record_lines(model.provenance.records))
    python, torch_version = platform.python_version(), str(torch.__version__)
    versions = {"nqg": nqg.__version__, "format": str(VERSION), "Python": python, "torch": torch_version}
    write_text(folder / CARD, model_card(model, versions))


def rules_text(by_hand: Iterable[Rule]) -> str:
    return "".join(f"{line}\n" for line in ["# Rules written by hand, see `nqg rule --help`", *by_hand])


def save_rules(folder: Path, by_hand: Sequence[Rule]) -> None:
    """Replace the rules by hand in a model folder, whole or not at all; nothing else in it changes."""
    before = index_bytes(folder)
    with model_written(folder, read_manifest(folder, before, KIND, VERSION, OLDEST), before) as part:
        shutil.copytree(folder, part, copy_function=os.link, dirs_exist_ok=True)
        for name in (RULES, INDEX):  # whose files are another model's, too, until they are removed here
            (part / name).unlink(missing_ok=True)
        if by_hand:
            write_text(part / RULES, rules_text(by_hand))


def load_model(folder: Path, device: str) -> SavedModel:
    """The model in a folder; a folder that is not one, or is damaged, is refused with the reason."""
    bring_back(folder)
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


def read_model(folder: Path, index: bytes, device: str) -> SavedModel:
    """The model in a folder: what is quick to read comes first, so that a damaged folder is refused soon."""
    place = folder / INDEX
    manifest = read_manifest(folder, index, KIND, VERSION, OLDEST)
    with refused_with("its files cannot be checked", place):
        check_contents(folder, manifest.get("files"), NEEDED)
    written = manifest.get("settings")
    if manifest["version"] == OLDEST and isinstance(written, dict):  # when charts had no types
        written = {"typed": False, **written}
    settings = read_dataclass(ModelSettings, written, "'settings'", place, complete=True)
    provenance = read_dataclass(Provenance, manifest.get("provenance"), "'provenance'", place)
    if (folder / RECORDS).exists():
        provenance = replace(provenance, records=read_records(folder / RECORDS))
    grammar = Grammar.read(folder / "grammar.txt", MOST_NON_TERMINALS)
    by_hand = Grammar.read(folder / RULES, MOST_NON_TERMINALS).rules if (folder / RULES).exists() else ()
    legal = folder / "target.grammar"
    target_grammar = TargetGrammar.read(legal) if legal.exists() else None
    certain = folder / CONFIDENCE
    calibrator = Calibrator.read(certain, grammar) if certain.exists() else None
    text = Preprocessor.read(folder / TEXT) if (folder / TEXT).exists() else Preprocessor()
    sql = None
    if (folder / SQL).exists():
        from nqg.data.sql_programs import SqlPrograms  # which other models do not need

        sql = SqlPrograms.read(folder / SQL)
    shapes = weight_shapes(folder / WEIGHTS)
    check_config(folder / "config.json", shapes)
    with refused_with("the tokenizer cannot be made", folder / "tokenizer.json"):
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    scorer = _read_scorer(folder, shapes, len(grammar), settings)
    grammar = replace(grammar, slots=text.slots if text.slots.slots else None)
    grammar = grammar.typed_by(target_grammar if settings.typed else None)
    model = SavedModel(
        grammar, scorer.to(device), tokenizer, settings, target_grammar, provenance, calibrator, text=text, sql=sql
    )
    with refused_with("the tokenizer does not fit", folder / "tokenizer.json"):
        check_vocabulary(tokenizer.get_vocab(), scorer.encoder.vocab_size, folder / "tokenizer.json")
    with refused_with("the encoder cannot read a sentence", folder / "config.json"), torch.inference_mode():
        sentence = ("a", *(str(symbol) for rule in grammar.rules[:1] for symbol in rule.source))
        batch = collate(tokenize(tokenizer, [sentence]), model.device)
        first = Boundaries(np.zeros(1, np.int64), np.zeros(1, np.int64), torch.zeros(1, dtype=torch.int64).to(device))
        scores = scorer.eval()(batch, Anchors(first, replace(first, tokens=np.array([len(sentence) - 1]))))
        if not scores.isfinite().all():
            raise FormatError("the scores of a sentence are not all numbers", folder / WEIGHTS)
    return model.with_rules_by_hand(by_hand) if by_hand else model


class SkipInit(TorchFunctionMode):
    """A block in which new modules get no first weights: drawing them for "meta" loads torch's compiler, a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return (args or tuple(kwargs.values()))[0]
        return func(*args, **(kwargs or {}))


def _read_scorer(folder: Path, shapes: Shapes, rules: int, settings: ModelSettings) -> Scorer:
    def new() -> Scorer:
        with refused_with("the encoder cannot be made", folder / "config.json"):
            return Scorer(read_encoder(folder / "config.json"), rules, settings.dimension)

    with torch.device("meta"), SkipInit():  # where tensors have shapes and take no memory
        scorer = new()
    check_shapes(scorer, shapes, folder / WEIGHTS)
    if any(True for _ in scorer.buffers()):  # whose values are not in the file
        scorer = new()
    kinds, weights = {name: own.dtype for name, own in scorer.state_dict().items()}, load_file(folder / WEIGHTS)
    for name, weight in weights.items():
        if weight.is_floating_point() != kinds[name].is_floating_point:
            found, expected = weight.dtype, "floats" if kinds[name].is_floating_point else "integers"
            raise FormatError(f"the weights '{name}' are {found}, expected {expected}", folder / WEIGHTS)
    # copies, because the file may change where a system maps it into memory
    copies = {name: weight.to(kinds[name], copy=True) for name, weight in weights.items()}
    scorer.load_state_dict(copies, assign=True)
    check_finite(scorer.state_dict(), folder / WEIGHTS)
    return scorer
