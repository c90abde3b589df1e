"""The model card: README.md of a model folder, for the person who finds the folder and wonders what it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqg.model.provenance import DataPrint, Measurement, Provenance
from nqg.model.settings import EMBEDDED, ModelSettings

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
    longest: int  # word pieces
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
    yield f"- Encoder: {_encoder(facts.settings)}; it reads {facts.longest:,} word pieces of a sentence at most"
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
