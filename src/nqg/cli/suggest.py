"""`nqg suggest`: which sentences of a log to annotate next, each with a program to correct."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from nqg.cli.terminal import DEVICE, JSON, MODEL, checked_device, err, out, report_written
from nqg.errors import NqgError
from nqg.evaluation.suggestions import suggested
from nqg.files import write_text
from nqg.inference.hybrid import Hybrid, load_model
from nqg.inference.parser import Parser

LOG = typer.Argument(
    metavar="LOG", help="Sentences: a line each, or what --log of nqg parse and serve wrote.", show_default=False
)
COUNT = typer.Option(20, "-n", "--number", metavar="N", min=1, help="How many sentences to suggest.")
KNOWN = typer.Option(
    None, "--train", metavar="FILE", help="Leave out what these examples have already; guess programs like theirs."
)
OUTPUT = typer.Option(
    None,
    "-o",
    "--output",
    metavar="FILE.tsv",
    help="Write pairs to correct; a guess has a third column, to be removed with it.",
)


def suggest(
    model: Path = MODEL,
    log: Path = LOG,
    count: int = COUNT,
    train: Path | None = KNOWN,
    output: Path | None = OUTPUT,
    device: str | None = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Suggest which sentences to annotate next: those that would teach most.

    Example: nqg suggest models/mine asked.txt -o new.tsv

    Sentences without an answer and those with unsure ones are ranked by what is
    new in them, how many others lack the same, and what better ones teach
    already. Each comes with the reason, the nearest rule and a program to accept
    or to correct: the parser's or, marked as a guess, that of the most similar
    training sentence. Add the corrected pairs to the training file, and train
    again: nqg train TRAIN --from MODEL.
    """
    loaded = load_model(model, checked_device(device))
    parser = loaded.parser if isinstance(loaded, Hybrid) else loaded
    if not isinstance(parser, Parser):
        raise NqgError(f"{model}: expected a model with a grammar, whose gaps sentences could fill")
    found = suggested(parser, log, train, count)
    if as_json:
        facts = [asdict(each) | {"nearest": each.nearest and str(each.nearest)} for each in found]
        out.print_json(data=facts)
    else:
        for number, each in enumerate(found, start=1):
            out.print(f"{number}. {each.source}\n   {each.why}")
            if each.program:
                of = f"a guess, that of '{each.guess_of}'" if each.guess_of else "perhaps"
                out.print(f"   {of}: {each.program}")
            if each.nearest:
                out.print(f"   nearest rule: {each.nearest}")
        if not found:
            err.print("nothing to suggest: every sentence has an answer that is sure")
    if output:
        rows = ([each.source, each.program or "", *(["guess"] if each.guess_of else [])] for each in found)
        write_text(output, "".join("\t".join(row) + "\n" for row in rows))
        report_written(output)
