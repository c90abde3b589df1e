"""A trained model as a folder: weights, grammar, tokenizer, settings; nothing executable, nothing
else needed.

`nqg.json` is its index: version of the format, settings, provenance, and every file with its
checksum. `README.md` is for people. `nqg.model_folder` writes folders whole or not at all and
checks what is in them.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import deserialize
from safetensors.numpy import save_file
from tokenizers import Tokenizer

import nqg
from nqg.data.example import Example
from nqg.errors import FormatError, NqgError
from nqg.extensions import load_extension
from nqg.files import numbered_lines, strict_json, write_text
from nqg.grammar.grammar import Grammar, Rule
from nqg.model.bert_config import BertConfig
from nqg.model.call_reader import CALLS_FILE, CallReader
from nqg.model.confidence import CONFIDENCE_FILE, Calibrator
from nqg.model.model_card import model_card
from nqg.model.numpy_scorer import Float32Array, NumpyScorer, scorer_shapes
from nqg.model.rule_scorer import RuleScorer
from nqg.model.settings import EMBEDDED, ModelSettings, TrainingSettings
from nqg.model.spans import Anchors, Boundaries, Pairs
from nqg.model.subwords import tokenize
from nqg.model_folder import (
    CARD,
    CONFIG_FILE,
    INDEX,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    check_config,
    check_contents,
    check_finite,
    check_shapes,
    check_vocabulary,
    convert_errors,
    index_bytes,
    model_written,
    read_manifest,
    weight_shapes,
)
from nqg.preprocessing.preprocessor import TEXT_FILE, Preprocessor
from nqg.preprocessing.program_language import ProgramLanguage, read_language
from nqg.run_config import DataFingerprint
from nqg.settings_reader import read_dataclass
from nqg.slots.target_grammars import legal_with, open_slot_categories
from nqg.text.known_sentences import KnownSentences
from nqg.types.target_grammar import TargetGrammar
from nqg.types.tool_calls import (
    REQUIRED_FILE,
    RequiredArguments,
    missing_argument,
    program_misfit,
    read_required,
    write_required,
)
from nqg.types.tools import FILE as TOOLS_FILE
from nqg.types.tools import Tool, read_tools, write_tools

Record = Mapping[str, Any]  # one line of `training.jsonl`
# Sentences of the training data that a model keeps for people who want to try it: how many, of how
# many they are chosen, and of how many characters. They bound the size of a model's index, and no
# answer depends on them.
KEPT_SENTENCES = 200
CONSIDERED_SENTENCES = 4096
LONGEST_KEPT_SENTENCE = 200


@dataclass(frozen=True, slots=True)
class Measurement:
    """Scores of a model on some data, by name; None where a score has no value.

    Precision, for instance, has none where nothing is answered.
    """

    data: DataFingerprint
    scores: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Provenance:
    """What is known of a model's training; all of it may be missing.

    `training` and `induction` are settings, `records` what was noted after each step, and
    `sentences` a few of the training data, short ones first.
    """

    data: DataFingerprint | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    records: tuple[Record, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    sentences: tuple[str, ...] = ()
    induction: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        examples: Sequence[Example],
        training: TrainingSettings,
        records: Iterable[Record] = (),
    ) -> Provenance:
        # Of large data, only one in so many examples is considered.
        interval = max(1, math.ceil(len(examples) / CONSIDERED_SENTENCES))
        sources = (example.source for example in examples[::interval])
        short = [source for source in sources if len(source) <= LONGEST_KEPT_SENTENCE]
        return cls(
            DataFingerprint.of(examples),
            asdict(training),
            tuple(records),
            sentences=tuple(spread(short, KEPT_SENTENCES)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the records, as JSON has it."""
        entries = asdict(self)
        del entries["records"]
        return entries


def spread(sentences: Iterable[str], most: int) -> list[str]:
    """Some of the sentences, from the shortest to the longest.

    >>> spread(["jump", "walk twice", "jump", "run and walk", "look"], 2)
    ['look', 'run and walk']
    """
    ordered = sorted(
        set(sentences), key=lambda sentence: (len(sentence.split()), sentence)
    )
    count = min(most, len(ordered))
    return [ordered[(2 * at + 1) * len(ordered) // (2 * count)] for at in range(count)]


def record_lines(records: Iterable[Record]) -> str:
    return "".join(f"{json.dumps(dict(record))}\n" for record in records)


def read_records(path: Path) -> tuple[Record, ...]:
    records = []
    for place, line in numbered_lines(path):
        record = strict_json(line, place)
        if not isinstance(record, dict):
            raise FormatError(
                "expected a JSON object with what was noted after a step", place
            )
        records.append(record)
    return tuple(records)


MODEL_KIND = "nqg model"
MODEL_VERSION = 4  # of the format
RECORDS_FILE = "training.jsonl"
RULES_FILE = "rules.txt"
GRAMMAR_FILE = "grammar.txt"
TARGET_GRAMMAR_FILE = "target.grammar"
REQUIRED_FILES = (GRAMMAR_FILE, CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE)
MOST_NON_TERMINALS = 9  # in a rule of a model folder
# The precisions of weights, as safetensors names them.
FLOATS = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


@dataclass(frozen=True)
class SavedModel:
    """Everything that a model folder holds.

    Of the rules `by_hand` some may have been trained. The others come last in the grammar, and have
    no embedding. The `language` is that of a database, where programs are queries of it. The `tools`
    are those that programs call, where they were given; elsewhere training shows which arguments
    are `required`.
    """

    grammar: Grammar
    scorer: RuleScorer
    tokenizer: Tokenizer
    settings: ModelSettings
    target_grammar: TargetGrammar | None = None
    provenance: Provenance = field(default_factory=Provenance)
    calibrator: Calibrator | None = None
    by_hand: tuple[Rule, ...] = ()
    text: Preprocessor = Preprocessor()  # noqa: RUF009 (frozen)
    language: ProgramLanguage | None = None
    tools: tuple[Tool, ...] = ()
    required: RequiredArguments = field(default_factory=dict)
    call_reader: CallReader | None = None

    @property
    def trained_rules(self) -> tuple[Rule, ...]:
        return self.grammar.rules[: len(self.scorer.rules)]

    @property
    def untrained_rules(self) -> tuple[Rule, ...]:
        return self.grammar.rules[len(self.scorer.rules) :]

    def program(self, tokens: Sequence[str], words: Sequence[str] = ()) -> str:
        """The program of tokens for a sentence of `words`, as the training data would write it."""
        if self.language:
            return self.language.render(tokens)
        return self.text.program(tokens, words)

    def problem(self, program: str, words: Sequence[str] = ()) -> str:
        """Why a program is not one of this model for a sentence of `words`, as far as no grammar says
        it; "" if it is.
        """
        if self.language:
            return self.language.problem(program) or self.call_problem(program)
        return self.text.programs.problem(program, words) or self.call_problem(program)

    def call_problem(self, program: str) -> str:
        """Why the calls of a program do not fit the tools, or lack an argument; "" if all is well.

        What a rule by hand calls may lack arguments that training always has.
        """
        if self.tools:
            return program_misfit(program, self.tools)
        required = dict(self.required)
        for rule in self.by_hand:
            written = "".join(map(str, rule.target))
            for name in self.required:
                if name in written:
                    required.pop(name, None)
        if required:
            return missing_argument(program, required)
        return ""

    def is_misread(self, program: str, words: Sequence[str]) -> bool:
        """Whether a program has a flaw that other readings of its sentence may not have."""
        problem = self.text.programs.problem(program, words)
        return bool(problem or self.call_problem(program))

    @cached_property
    def known_sentences(self) -> KnownSentences:
        """The training sentences that the model kept."""

        def words_of(sentence: str) -> Sequence[str]:
            return self.text.tokenized(sentence)[0].words

        return KnownSentences(self.provenance.sentences, words_of)

    @property
    def legal_programs(self) -> TargetGrammar | None:
        """The grammar of legal programs, in which any values may stand for slots."""
        if self.target_grammar is None:
            return None
        return open_slot_categories(self.target_grammar, self.text.slots.quotes)

    def with_rules_by_hand(self, rules: Iterable[Rule]) -> SavedModel:
        """The same model with these rules by hand, and no others; values that they write down are
        legal.
        """
        by_hand = tuple(rules)
        every_rule = tuple(dict.fromkeys(self.trained_rules + by_hand))
        bound = max([self.grammar.max_non_terminals, *(rule.arity for rule in by_hand)])
        grammar = replace(self.grammar, rules=every_rule, max_non_terminals=bound)
        legal = legal_with(by_hand, self.target_grammar, self.text.slots)
        return replace(self, grammar=grammar, by_hand=by_hand, target_grammar=legal)

    @property
    def max_length(self) -> int:
        """How many subwords of a sentence the encoder reads at most."""
        return self.scorer.encoder.max_length


def save_model(
    folder: Path, model: SavedModel, also: Callable[[Path], object] | None = None
) -> None:
    """Write a model folder, whole or not at all; only an older model may stand there already.

    `also` may write more into the new folder: files, which the index will name, or subfolders with
    an index of their own. Such a subfolder of the older model stays unless `also` wrote another.
    """
    manifest = {
        "kind": MODEL_KIND,
        "version": MODEL_VERSION,
        "settings": asdict(model.settings),
        "provenance": model.provenance.to_dict(),
    }
    with model_written(folder, manifest) as staging:
        _write_files(staging, model)
        if also is not None:
            also(staging)
        # Subfolders of the older model are kept as links, which take no space.
        for index in sorted(folder.glob(f"*/{INDEX}")):
            subfolder = staging / index.parent.name
            if not subfolder.exists():
                shutil.copytree(index.parent, subfolder, copy_function=os.link)


def _write_files(folder: Path, model: SavedModel) -> None:
    replace(model.grammar, rules=model.trained_rules).write(folder / GRAMMAR_FILE)
    # What a model need not have.
    _write_rules(folder, model.by_hand)
    if model.target_grammar is not None:
        model.target_grammar.write(folder / TARGET_GRAMMAR_FILE)
    if model.calibrator is not None:
        model.calibrator.write(folder / CONFIDENCE_FILE)
    if model.text != Preprocessor():
        model.text.write(folder / TEXT_FILE)
    if model.language is not None:
        model.language.write(folder / model.language.file_name)
    if model.tools:
        write_tools(folder / TOOLS_FILE, model.tools)
    if model.required:
        write_required(folder / REQUIRED_FILE, model.required)
    if model.call_reader:
        model.call_reader.write(folder / CALLS_FILE)
    if model.provenance.records:
        write_text(folder / RECORDS_FILE, record_lines(model.provenance.records))
    # The neural model.
    write_text(folder / CONFIG_FILE, model.scorer.encoder.config_json())
    write_text(folder / TOKENIZER_FILE, model.tokenizer.to_str(pretty=True))
    save_file(dict(model.scorer.weights()), folder / WEIGHTS_FILE)
    versions = {
        "nqg": nqg.__version__,
        "format": str(MODEL_VERSION),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
    }
    write_text(folder / CARD, model_card(model, versions))


def _write_rules(folder: Path, by_hand: Sequence[Rule]) -> None:
    if by_hand:
        lines = [
            "# Rules written by hand, see `nqg rule --help`",
            *map(str, by_hand),
            "",
        ]
        write_text(folder / RULES_FILE, "\n".join(lines))


def save_rules(folder: Path, by_hand: Sequence[Rule]) -> None:
    """Replace the rules by hand in a model folder, whole or not at all; nothing else in
    it changes.
    """
    before = index_bytes(folder)
    manifest = read_manifest(folder, before, MODEL_KIND, MODEL_VERSION)
    with model_written(folder, manifest, before) as staging:
        shutil.copytree(folder, staging, copy_function=os.link, dirs_exist_ok=True)
        # What is written anew must not be a link to the file of the old folder.
        (staging / RULES_FILE).unlink(missing_ok=True)
        (staging / INDEX).unlink()
        _write_rules(staging, by_hand)


def load_model(folder: Path, device: str | None = None) -> SavedModel:
    """The model in a folder; a folder that is not a model, or is damaged, is refused with the
    reason.

    The device is that of a pre-trained encoder, without a choice a GPU where there is one; an
    embedded one needs none.
    """
    while True:
        before = index_bytes(folder)
        try:
            model = read_model(folder, before, device)
        except (NqgError, OSError):
            if index_bytes(folder) == before:
                raise
            continue
        # If another process replaced the folder meanwhile, the files may be of both models.
        if index_bytes(folder) == before:
            return model


def read_rules(path: Path) -> Grammar:
    return Grammar.read(path, MOST_NON_TERMINALS)


def read_tokenizer(path: Path) -> Tokenizer:
    with convert_errors("the tokenizer cannot be made", path):
        return Tokenizer.from_file(str(path))


READERS: Mapping[str, Callable[[Path], Any]] = {
    GRAMMAR_FILE: read_rules,
    RULES_FILE: read_rules,
    TARGET_GRAMMAR_FILE: TargetGrammar.read,
    RECORDS_FILE: read_records,
    TEXT_FILE: Preprocessor.read,
    TOOLS_FILE: read_tools,
    REQUIRED_FILE: read_required,
    CALLS_FILE: CallReader.read,
    TOKENIZER_FILE: read_tokenizer,
}


def read_model(folder: Path, index: bytes, device: str | None) -> SavedModel:
    """The model in a folder; what is quick to read comes first, to refuse a damaged folder soon."""
    # 1. The index, and the files that it names.
    manifest = read_manifest(folder, index, MODEL_KIND, MODEL_VERSION)
    with convert_errors("its files cannot be checked", folder / INDEX):
        check_contents(folder, manifest.get("files"), REQUIRED_FILES)
    settings = read_dataclass(
        ModelSettings,
        manifest.get("settings"),
        "'settings'",
        folder / INDEX,
        complete=True,
    )
    provenance = read_dataclass(
        Provenance, manifest.get("provenance"), "'provenance'", folder / INDEX
    )
    # 2. Small files, of which a model need not have all.
    files: dict[str, Any] = {}
    for name, read in READERS.items():
        if (folder / name).exists():
            files[name] = read(folder / name)
    grammar, target_grammar = files[GRAMMAR_FILE], files.get(TARGET_GRAMMAR_FILE)
    text = files.get(TEXT_FILE, Preprocessor())
    calibrator = None
    if (folder / CONFIDENCE_FILE).exists():
        calibrator = Calibrator.read(folder / CONFIDENCE_FILE, grammar)
    language = read_language(folder)
    # 3. The weights.
    scorer = _read_scorer(folder, len(grammar), settings, device)
    # 4. All of it together.
    if text.slots.slots:
        grammar = replace(grammar, slots=text.slots)
    if settings.typed:
        grammar = grammar.typed_by(target_grammar)
    model = SavedModel(
        grammar,
        scorer,
        files[TOKENIZER_FILE],
        settings,
        target_grammar,
        replace(provenance, records=files.get(RECORDS_FILE, ())),
        calibrator,
        text=text,
        language=language,
        tools=files.get(TOOLS_FILE, ()),
        required=files.get(REQUIRED_FILE, {}),
        call_reader=files.get(CALLS_FILE),
    )
    probe(model, folder)
    if RULES_FILE in files:
        return model.with_rules_by_hand(files[RULES_FILE].rules)
    return model


def probe(model: SavedModel, folder: Path) -> None:
    """Refuse a model that cannot score a sentence."""
    path, encoder = folder / TOKENIZER_FILE, model.scorer.encoder
    with convert_errors("the tokenizer does not fit", path):
        check_vocabulary(model.tokenizer.get_vocab(), encoder.vocab_size, path)
    # The sentence is "a" and the source of the first rule; one span covers all of it.
    sentence = ["a"]
    for rule in model.grammar.rules[:1]:
        sentence += map(str, rule.source)
    first, last = np.array([0]), np.array([len(sentence) - 1])
    spans = Anchors(Boundaries(first, first, first), Boundaries(first, last, first))
    rules = np.arange(len(model.scorer.rules))
    pairs = Pairs(np.zeros_like(rules), rules)
    with convert_errors("the encoder cannot read a sentence", folder / CONFIG_FILE):
        subwords = tokenize(model.tokenizer, [sentence])
        if not np.isfinite(model.scorer.score(subwords, spans, pairs)).all():
            raise FormatError(
                "the scores of a sentence are not all numbers", folder / WEIGHTS_FILE
            )


def _read_scorer(
    folder: Path, rules: int, settings: ModelSettings, device: str | None
) -> RuleScorer:
    """The scorer in a folder: an embedded one in NumPy, any other in torch; without torch every
    BERT in NumPy.
    """
    config, path = folder / CONFIG_FILE, folder / WEIGHTS_FILE
    shapes = weight_shapes(path)
    check_config(config, shapes)
    bert = None
    if settings.encoder == EMBEDDED or find_spec("torch") is None:
        values = json.loads(config.read_text(encoding="utf-8"))
        with convert_errors("the encoder cannot be made", config):
            bert = BertConfig.from_dict(values)
    if bert is None:
        read_scorer = load_extension(
            "nqg.model.scorer:read_scorer",
            f"the encoder '{settings.encoder}' of this model",
        )
        scorer: RuleScorer = read_scorer(folder, rules, settings, device)
        return scorer
    check_shapes(scorer_shapes(bert, rules, settings.dimension), shapes, path)
    weights = read_weights(path)
    check_finite(weights, path)
    return NumpyScorer(bert, weights)


def read_weights(path: Path) -> dict[str, Float32Array]:
    """The weights in a file, in the precision of training."""
    weights = {}
    for name, entry in deserialize(path.read_bytes()):  # type: ignore[no-untyped-call]
        kind, data = entry["dtype"], entry["data"]
        if kind == "BF16":
            # These are the upper halves of float32.
            upper = np.frombuffer(data, dtype="<u2").astype(np.uint32)
            values = (upper << 16).view(np.float32)
        elif kind in FLOATS:
            values = np.frombuffer(data, dtype=FLOATS[kind]).astype(np.float32)
        else:
            raise FormatError(f"the weights '{name}' are {kind}, expected floats", path)
        weights[name] = values.reshape(entry["shape"])
    return weights
