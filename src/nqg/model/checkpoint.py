"""A trained model as a folder: weights, grammar, tokenizer, settings; nothing executable, nothing else needed.

`nqg.json` is its index: version of the format, settings, provenance, and every file with its checksum. `contents.py`
compares the files with it, `folder.py` puts a new model in the place of an old one, `card.py` writes the README.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch.overrides import TorchFunctionMode

import nqg
from nqg.data.dataset import Dataset
from nqg.data.examples import Example
from nqg.errors import FormatError, NqgError, Place
from nqg.files import numbered_lines, strict_json, write_text
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.model.encoder import read_encoder
from nqg.model.scorer import Scorer
from nqg.model.settings import EMBEDDED, EncoderSettings, ModelSettings, TrainingSettings
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
    checksums,
    folder_written_atomically,
    refused_with,
    weight_shapes,
)

Record = Mapping[str, Any]  # one line of `training.jsonl`


@dataclass(frozen=True, slots=True)
class DataPrint:
    """Which examples: how many, and the SHA-256 of their `.tsv` lines; `name` says what they are called.

    >>> DataPrint.of([Example("jump", "I_JUMP")]).fingerprint[:12]
    '56527c363320'
    """

    examples: int
    fingerprint: str
    name: str = ""

    @classmethod
    def of(cls, examples: Sequence[Example], name: str = "") -> DataPrint:
        """The print of `examples`, in their order."""
        return cls(len(examples), Dataset("examples", examples).fingerprint, name)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Scores of a model on some data, by name; None where one has no value, as precision where nothing is answered."""

    data: DataPrint
    scores: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Provenance:
    """What is known of a model's making; all of it may be missing."""

    data: DataPrint | None = None
    training: Mapping[str, Any] = field(default_factory=dict)  # the settings
    records: Sequence[Record] = ()  # what was noted after each step
    measurements: Sequence[Measurement] = ()

    @classmethod
    def of(cls, examples: Sequence[Example], training: TrainingSettings, records: Iterable[Record] = ()) -> Provenance:
        """The provenance of a model that was fitted to `examples`."""
        return cls(DataPrint.of(examples), asdict(training), tuple(records))

    def facts(self) -> dict[str, Any]:
        """Everything but the records, as JSON has it."""
        return {
            "data": None if self.data is None else asdict(self.data),
            "training": dict(self.training),
            "measurements": [{"data": asdict(each.data), "scores": dict(each.scores)} for each in self.measurements],
        }

    @classmethod
    def of_facts(cls, facts: Any, records: Sequence[Record], place: Path) -> Provenance:
        """The opposite of `facts`; what does not fit is refused."""
        found = _object(facts, ("data", "training", "measurements"), "provenance", place)
        data = None if found["data"] is None else _data_print(found["data"], place)
        training = _object(found["training"], None, "training", place)
        if not isinstance(found["measurements"], list):
            raise FormatError("'measurements' should be a list", place)
        return cls(data, training, records, tuple(_measurement(each, place) for each in found["measurements"]))


def record_lines(records: Iterable[Record]) -> str:
    """Records as `training.jsonl` has them, one a line."""
    return "".join(f"{json.dumps(dict(record))}\n" for record in records)


def read_records(path: Path) -> tuple[Record, ...]:
    """The records in a file."""
    return tuple(_record(strict_json(line, place), place) for place, line in numbered_lines(path))


def _record(value: Any, place: Place) -> Record:
    if not isinstance(value, dict):
        raise FormatError("expected a JSON object with what was noted after a step", place)
    return value


def _measurement(value: Any, place: Path) -> Measurement:
    found = _object(value, ("data", "scores"), "measurements", place)
    return Measurement(_data_print(found["data"], place), _object(found["scores"], None, "scores", place))


def _data_print(value: Any, place: Path) -> DataPrint:
    found = _object(value, [each.name for each in fields(DataPrint)], "data", place)
    if not isinstance(found["examples"], int):
        raise FormatError("'examples' should be a number", place)
    return DataPrint(found["examples"], str(found["fingerprint"]), str(found["name"]))


def _object(value: Any, keys: Sequence[str] | None, name: str, place: Path) -> dict[str, Any]:
    """A JSON object, with just these keys where they are known."""
    if not isinstance(value, dict) or (keys is not None and set(value) != set(keys)):
        wanted = "an object" if keys is None else f"an object with {', '.join(keys)}"
        raise FormatError(f"'{name}' should be {wanted}", place)
    return value


SHOWN_RULES = 12

LIMITS = """\
- It answers only with programs that its grammar derives. For any other sentence it says that it has no answer, which is
  a result and not an error.
- A probability compares the readings that the grammar has of a sentence. 1.0 means that there is no other reading, not
  that the reading is right.
- Sentences are cut at white space; they should be written as those of the training data are (case, punctuation).
- Scores hold for data like those that they were measured on.
"""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What a card tells of a model."""

    rules: tuple[str, ...]
    has_target_grammar: bool
    settings: ModelSettings
    provenance: Provenance
    parameters: int
    max_length: int  # subwords
    versions: Mapping[str, str]


def model_card(facts: CardFacts) -> str:
    """The card as Markdown; whatever comes from a user stands in it as code, so that nothing is taken for markup."""
    sections = (_head(facts), _grammar(facts), _training(facts.provenance), _scores(facts.provenance), _use(facts))
    return "\n".join(line for section in sections for line in section)


def _head(facts: CardFacts) -> Iterator[str]:
    yield "# A parsing model of nqg\n"
    yield "It turns sentences into programs: a grammar says which programs a sentence can mean, and a neural scorer"
    yield "chooses among them. Every answer comes with the rules that produced it and with its probability.\n"
    yield f"- Grammar: {len(facts.rules):,} rules (`grammar.txt`)"
    yield f"- Legal programs: {'`target.grammar`; others are no answers' if facts.has_target_grammar else 'all'}"
    yield f"- Encoder: {_encoder(facts.settings)}; it reads at most {facts.max_length:,} subwords of a sentence"
    yield f"- Size: {facts.parameters:,} weights (`model.safetensors`)\n"


def _encoder(settings: ModelSettings) -> str:
    if settings.encoder == EMBEDDED:
        shape = settings.embedded
        return (
            f"a small BERT (layers: {shape.layers}, width: {shape.hidden_size}), trained from scratch with this model"
        )
    folder = Path(settings.encoder)
    return f"{_code(folder.name if folder.is_absolute() else settings.encoder)}, fine-tuned"


def _grammar(facts: CardFacts) -> Iterator[str]:
    yield "## Some of its rules\n"
    yield from (f"    {rule}" for rule in sorted(facts.rules, key=lambda rule: (len(rule), rule))[:SHOWN_RULES])
    yield ""


def _training(provenance: Provenance) -> Iterator[str]:
    yield "## Training\n"
    yield f"- Data: {_data(provenance.data)}"
    yield from (f"- {_code(name)}: {_code(_value(value))}" for name, value in provenance.training.items())
    if provenance.records:
        yield f"- What was noted after each of {len(provenance.records):,} steps is in `training.jsonl`"
    yield ""


def _scores(provenance: Provenance) -> Iterator[str]:
    yield "## Scores\n"
    if not provenance.measurements:
        yield "None were measured when the model was saved."
    yield from map(_score_line, provenance.measurements)
    yield ""


def _score_line(measured: Measurement) -> str:
    scores = ", ".join(f"{_code(name)} {_code(_value(value))}" for name, value in measured.scores.items())
    return f"- {scores}, on {_data(measured.data)}"


def _use(facts: CardFacts) -> Iterator[str]:
    yield "## Use\n"
    yield "    from nqg import Parser"
    yield '    Parser.load("this/folder").parse("a sentence").target\n'
    yield '    nqg parse this/folder "a sentence" --explain\n'
    yield "The folder holds data alone, nothing that runs. `nqg.json` has the checksum of each file that is read.\n"
    yield f"## Limits\n\n{LIMITS}"
    yield f"Written by {', '.join(f'{name} {version}' for name, version in facts.versions.items())}.\n"


def _data(data: DataPrint | None) -> str:
    if data is None:
        return "not recorded"
    name = f"{_code(data.name)}, " if data.name else ""
    return f"{name}{data.examples:,} examples, SHA-256 `{data.fingerprint}`"


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _code(text: str) -> str:
    """Text as Markdown code, whatever is in it.

    >>> print(_code("dev.tsv"), _code("<b>`x`"))
    `dev.tsv` `` <b>`x` ``
    """
    fence = "`"
    while fence in text:
        fence += "`"
    padding = " " if len(fence) > 1 else ""
    return f"{fence}{padding}{text}{padding}{fence}".replace("\n", " ")


KIND = "nqg model"
VERSION = 3
RECORDS = "training.jsonl"
WEIGHTS = "model.safetensors"
NEEDED = ("grammar.txt", "config.json", "tokenizer.json", WEIGHTS)


@dataclass(frozen=True, slots=True)
class SavedModel:
    """Everything that a model folder holds."""

    grammar: Grammar
    scorer: Scorer
    tokenizer: Tokenizer
    settings: ModelSettings
    target_grammar: TargetGrammar | None = None
    provenance: Provenance = field(default_factory=Provenance)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
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
    write_text(folder / "config.json", model.scorer.encoder.config_json())
    write_text(folder / "tokenizer.json", model.tokenizer.to_str(pretty=True))
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
        max_length=model.max_length,
        versions={
            "nqg": nqg.__version__,
            "format": str(VERSION),
            "Python": platform.python_version(),
            "torch": torch.__version__,
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
    with refused_with("the tokenizer cannot be made", folder / "tokenizer.json"):
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    scorer = read_scorer(folder, shapes, len(grammar), settings)
    model = SavedModel(grammar, scorer.to(device), tokenizer, settings, target_grammar, provenance)
    _try(model, folder)
    return model


def _provenance(folder: Path, index: dict[str, Any]) -> Provenance:
    past = read_records(folder / RECORDS) if (folder / RECORDS).exists() else ()
    return Provenance.of_facts(index.get("provenance"), past, folder / INDEX)


def _target_grammar(path: Path) -> TargetGrammar | None:
    return TargetGrammar.read(path) if path.exists() else None


class SkipInit(TorchFunctionMode):
    """A block in which new modules get no first weights: drawing them for "meta" loads torch's compiler, a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The outcome of a function of torch, but what `nn.init` would fill stays as it is."""
        if getattr(func, "__module__", None) == "torch.nn.init":
            return (args or tuple(kwargs.values()))[0]
        return func(*args, **(kwargs or {}))


def read_scorer(folder: Path, shapes: Shapes, rules: int, settings: ModelSettings) -> Scorer:
    """The scorer in a folder, whose weights must be those that its config asks for."""

    def new() -> Scorer:
        with refused_with("the encoder cannot be made", folder / "config.json"):
            return Scorer(read_encoder(folder / "config.json"), rules, settings.dimension)

    with torch.device("meta"), SkipInit():  # where tensors have shapes and take no memory
        scorer = new()
    check_shapes(scorer, shapes, folder / WEIGHTS)
    if any(True for _ in scorer.buffers()):  # whose values are not in the file
        scorer = new()
    # clones, because the file may change where a system maps it into memory
    scorer.load_state_dict({name: weight.clone() for name, weight in load_file(folder / WEIGHTS).items()}, assign=True)
    check_finite(scorer.state_dict(), folder / WEIGHTS)
    return scorer


def _try(model: SavedModel, folder: Path) -> None:
    """Refuse a model that cannot read a sentence of known and unknown words."""
    sentence = ("a", *(str(symbol) for rule in model.grammar.rules[:1] for symbol in rule.source))
    with refused_with("the tokenizer does not fit", folder / "tokenizer.json"):
        check_vocabulary(model.tokenizer.get_vocab(), model.scorer.encoder.vocab_size, folder / "tokenizer.json")
    with refused_with("the encoder cannot read a sentence", folder / "config.json"), torch.inference_mode():
        batch = collate(tokenize(model.tokenizer, [sentence]), model.device)
        model.scorer.eval().encoder(batch, torch.arange(len(batch.ids), device=model.device))


def _check_version(folder: Path, version: Any) -> None:
    if version == VERSION:
        return
    is_newer = isinstance(version, int) and version > VERSION
    way_out = "use the nqg that wrote it, or a newer one"
    if not is_newer:
        way_out = "train again with this nqg, or use the version of nqg that wrote it"
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
