"""Commands about a trained model that need no training: `suggest` and `check-model`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, cast

from nqg.answers import in_percent
from nqg.cli import terminal
from nqg.cli.options import Device, Model, argument, option
from nqg.cli.terminal import checked_device, err, print_results, report_written
from nqg.errors import counted
from nqg.evaluation.active_learning import Suggestion, suggested
from nqg.files import write_text
from nqg.inference.hybrid import Hybrid, TokenSystem, load, load_with_grammar
from nqg.inference.parser import Parser
from nqg.model_folder import check_digest, folder_digest
from nqg.run_config import DataFingerprint

LogFile = Annotated[
    Path,
    argument(
        "LOG", "Sentences: a line each, or what --log of nqg parse and serve wrote."
    ),
]
KnownExamples = Annotated[
    Path | None,
    option(
        "--data",
        "FILE",
        "Training examples: leave out their sentences, and guess programs like theirs.",
    ),
]
PairsFile = Annotated[
    Path | None,
    option(
        "-o --output",
        "FILE.tsv",
        "Write pairs to review; delete the third column, which marks guesses.",
    ),
]


def suggest(
    model: Model,
    log: LogFile,
    count: Annotated[
        int, option("-n --count", "N", "How many sentences to suggest.", min=1)
    ] = 20,
    data: KnownExamples = None,
    output: PairsFile = None,
    device: Device = None,
) -> None:
    """Suggest which sentences to annotate next: those that would teach most.

    Example: nqg suggest models/mine asked.txt -o new.tsv

    Sentences with no answer or an unsure one are ranked by the words and
    constructions in them that the model lacks, and by how many other sentences
    have the same gap. Each comes with a reason, the nearest rule and a legal
    program to accept or correct. A program that the parser is unsure of, or that
    belongs to the most similar training sentence, is marked as a guess. Add the
    corrected pairs to the training file, and train again: nqg train TRAIN
    --from MODEL.
    """
    system = load_with_grammar(model, checked_device(device))
    # Rows are for programs, texts for people, pairs for the training file.
    rows, texts, pairs = [], [], []
    for number, suggestion in enumerate(suggested(system, log, data, count), start=1):
        nearest = suggestion.nearest and str(suggestion.nearest)
        rows.append(asdict(suggestion) | {"nearest": nearest})
        texts.append(f"{number}. {suggestion.source}\n   {suggestion.why}")
        if suggestion.program:
            texts.append(f"   {_origin(suggestion)}: {suggestion.program}")
        if nearest:
            texts.append(f"   nearest rule: {nearest}")
        columns = [suggestion.source, suggestion.program or ""]
        if suggestion.is_guess:
            columns.append("guess")
        pairs.append("\t".join(columns) + "\n")
    print_results(rows, *texts)
    if not rows and not terminal.output.as_json:
        err.print("nothing to suggest: every sentence has an answer that is sure")
    if output:
        write_text(output, "".join(pairs))
        report_written(output)


def _origin(suggestion: Suggestion) -> str:
    """How far to trust a suggested program."""
    if suggestion.guess_of:
        return f"a guess, that of '{suggestion.guess_of}'"
    if suggestion.is_guess:
        return f"a guess, {in_percent(suggestion.confidence or 0.0)} sure"
    return "perhaps"


def check_model(
    model: Model,
    digest: Annotated[
        str | None,
        option("--digest", "SHA256", "Fail unless this is the model's digest."),
    ] = None,
) -> None:
    """Check that a model folder is undamaged, and print its contents and digest.

    Example: nqg check-model models/mine

    Every file is compared with its checksum, the model is loaded, and it has to
    score a sentence. The digest covers all files that are read; publish it beside
    the model, and compare it with --digest, here or with `nqg serve`.
    """
    # Compare the digest before the model is loaded, so that a wrong one is never used.
    check_digest(model, digest)
    promises = _promises(load(model, "cpu")) | {"digest": folder_digest(model)}
    lines = [
        f"{model} is undamaged: its files are those that were saved, and it scores a sentence"
    ]
    for name, value in promises.items():
        words = {None: "not recorded", True: "yes", False: "no"}
        is_word = value is None or isinstance(value, bool)
        lines.append(f"{name:13} {words[value] if is_word else value}")
    print_results(promises, *lines)


def _promises(loaded: Parser | Hybrid | TokenSystem) -> dict[str, Any]:
    if isinstance(loaded, TokenSystem):
        return {"rules": None, "system": cast(Any, loaded.system).settings.model}
    parser = cast(Parser, loaded.parser) if isinstance(loaded, Hybrid) else loaded
    # Older models record less.
    provenance, calibrator = parser.model.provenance, parser.model.calibrator
    measured = [
        f"{dict(measurement.scores)} on {_in_words(measurement.data)}"
        for measurement in provenance.measurements
    ]
    calibrated = None
    if calibrator:
        calibrated = str(calibrator.expected)
    return {
        "rules": len(parser.grammar),
        "by hand": len(parser.model.by_hand),
        "second reader": isinstance(loaded, Hybrid),
        "made from": provenance.data and _in_words(provenance.data),
        "measured": measured or None,
        "calibrated": calibrated,
    }


def _in_words(data: DataFingerprint) -> str:
    facts = f"{counted(data.examples, 'example')}, SHA-256 {data.fingerprint}"
    return f"{data.name}: {facts}" if data.name else facts
