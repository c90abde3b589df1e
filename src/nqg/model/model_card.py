"""The README of a model folder, for the person who finds it and wonders what it is."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nqg.errors import counted
from nqg.model.settings import EMBEDDED
from nqg.preprocessing.preprocessor import TEXT_FILE
from nqg.run_config import DataFingerprint

if TYPE_CHECKING:
    from nqg.model.checkpoint import SavedModel

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

<!-- To fill in: who made it, which sentences it is for, what runs its programs, the licence of the data. -->

## Some of its rules

{shown}

## Training

- Data: {training}

## Scores

{scores}

## Use

    from nqg import Parser
    Parser.from_pretrained("this/folder or owner/name").parse("a sentence").target

    nqg parse this/folder "a sentence" --explain

Rules that were added by hand, if any, are in `rules.txt`.
The folder holds data alone, nothing that runs. `nqg.json` has the checksum of each file that is read; `nqg check-model`
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
NO_CONFIDENCE = "It has no confidence, which is learned with `nqg train`, unless `confidence.folds` is 0."
PLAIN_TEXT = (
    "Sentences are split at white space; they should be written as those of the training data are "
    "(case, punctuation)."
)
FITTED_TEXT = f"Sentences are read as `{TEXT_FILE}` says; it was fitted to those of the training data."


def model_card(model: SavedModel, versions: Mapping[str, str]) -> str:
    """The README of a model folder, for the person who finds it and wonders what it is.

    Whatever comes from a user stands in it as code, so that nothing is taken for markup.
    """
    # The encoder. Of a path on somebody's machine, which says nothing to others, the last part.
    settings = model.settings
    folder = Path(settings.encoder)
    if settings.encoder == EMBEDDED:
        size = f"layers: {settings.embedded.layers}, width: {settings.embedded.hidden_size}"
        encoder = f"a small BERT ({size}), trained from scratch with this model"
    else:
        name = folder.name if folder.is_absolute() else settings.encoder
        encoder = f"{_as_code(name)}, fine-tuned"

    # The data, the training and its scores.
    provenance = model.provenance
    training = ["not recorded"]
    if provenance.data is not None:
        training = [_described(provenance.data)]
    for name, value in provenance.training.items():
        training.append(f"- {_as_code(name)}: {_as_code(value)}")
    if provenance.records:
        steps = f"{len(provenance.records):,} steps"
        training.append(
            f"- What was noted after each of {steps} is in `training.jsonl`"
        )
    measured = []
    for measurement in provenance.measurements:
        scores = ", ".join(
            f"{_as_code(name)} {_as_code(value)}"
            for name, value in measurement.scores.items()
        )
        measured.append(f"- {scores}, on {_described(measurement.data)}")

    # What is special about the answers of this model.
    legal = "all"
    if model.target_grammar is not None:
        legal = "`target.grammar`; other programs are not answers"
    confidence = NO_CONFIDENCE
    calibrator = model.calibrator
    if calibrator is not None:
        confidence = (
            "A confidence is the chance of being right. Sentences like those of training: "
            f"{calibrator.expected}."
        )
    rules = sorted(map(str, model.trained_rules), key=lambda rule: (len(rule), rule))
    shortest = "\n".join(rules[:SHOWN_RULES])
    weights = sum(weight.size for weight in model.scorer.weights().values())
    written_by = ", ".join(f"{name} {version}" for name, version in versions.items())
    return CARD_TEXT.format(
        rules=f"{len(rules):,}",
        legal=legal,
        encoder=encoder,
        max_length=f"{model.max_length:,}",
        parameters=f"{weights:,}",
        shown=textwrap.indent(shortest, "    "),
        training="\n".join(training),
        scores="\n".join(measured) or "None were measured when the model was saved.",
        confidence=confidence,
        text=PLAIN_TEXT if model.text.is_plain else FITTED_TEXT,
        versions=written_by,
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
