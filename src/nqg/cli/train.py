"""`nqg train`: from a file of examples to a model folder; killed, the same command goes on where it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nqg.cli import training_options as options
from nqg.cli.induce import LIKE, SETTINGS
from nqg.cli.seq2seq_training import GATE, HOLD_OUT, SEQ2SEQ, SEQ2SEQ_BATCH_SIZE, SEQ2SEQ_STEPS, FallbackWish
from nqg.cli.settings import ProjectSettings
from nqg.cli.terminal import DEVICE, STOPPED, checked_device, complain, detail, in_words, out, report_written
from nqg.data.examples import Example, read_examples
from nqg.errors import NqgError
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.plotting import check_picture

if TYPE_CHECKING:
    from nqg.cli.training_run import Task
    from nqg.evaluation.metrics import Scores
    from nqg.inference.parser import Parser
    from nqg.model.checkpoint import Measurement
    from nqg.training.parser_training import ParserTraining

MOST_NON_TERMINALS = 9  # in a rule of a model folder

DATA = typer.Argument(metavar="TRAIN", help="Examples: a .tsv or .jsonl file, plain or .gz.", show_default=False)
JSON = typer.Option(False, "--json", metavar="", help="Print JSON.")


def train(
    context: typer.Context,
    data: Path = DATA,
    output: Path = options.OUTPUT,
    settings: Path | None = SETTINGS,
    plot: Path | None = options.PLOT,
    grammar: Path | None = options.GRAMMAR,
    like: str | None = LIKE,
    target_grammar: Path | None = options.TARGET_GRAMMAR,
    encoder: str | None = options.ENCODER,
    steps: int | None = options.STEPS,
    batch_size: int | None = options.BATCH_SIZE,
    learning_rate: float | None = options.LEARNING_RATE,
    warm_up: int | None = options.WARM_UP,
    weight_decay: float | None = options.WEIGHT_DECAY,
    clip: float | None = options.CLIP,
    seed: int | None = options.SEED,
    dev: Path | None = options.DEV,
    evaluate_every: int | None = options.EVALUATE_EVERY,
    patience: int | None = options.PATIENCE,
    precision: str | None = options.PRECISION,
    save_every: int = options.SAVE_EVERY,
    no_cache: bool = options.NO_CACHE,
    forests: Path | None = options.FORESTS,
    tensorboard: Path | None = options.TENSORBOARD,
    device: str | None = DEVICE,
    seq2seq: str | None = SEQ2SEQ,
    seq2seq_steps: int | None = SEQ2SEQ_STEPS,
    seq2seq_batch_size: int | None = SEQ2SEQ_BATCH_SIZE,
    gate: bool = GATE,
    hold_out: str = HOLD_OUT,
    as_json: bool = JSON,
) -> None:
    """Train a parser: a grammar, and a model that ranks its derivations.

    Example: nqg train train.tsv -o models/mine --like scan --dev dev.tsv

    Little is lost to Ctrl-C or a kill: FOLDER.training keeps the state, and the
    same command resumes from there and ends with the same model. FOLDER itself is
    written, or replaced, only when the model is complete.
    """
    from nqg.cli.training_run import TrainingRun

    _check_output(output)
    chosen = options.project_settings(context.params)
    fallback = FallbackWish.chosen(chosen, gate=gate, hold_out=hold_out)
    task = _task(context.params, chosen)
    run = TrainingRun.towards(output, task.device, save_every=save_every, use_cache=not no_cache, curves=tensorboard)
    context.with_resource(run.alone())
    try:
        training = run.trained(task)
        also = fallback.trained(task, run) if fallback else None
    except KeyboardInterrupt:
        complain(f"interrupted; the same command goes on with what is in {run.folder}")
        raise typer.Exit(STOPPED) from None
    if run.processes.is_main:
        scores = _concluded(task, training, context.params, also)
        shutil.rmtree(run.folder)
        _report(output, training, scores, as_json)
        report_written(output, *_drawn(training, plot))
    run.processes.close()


def _task(given: Mapping[str, Any], chosen: ProjectSettings) -> Task:
    """What is to be learned, read from the files that were named; whatever is wrong with them is said now."""
    from nqg.cli.training_run import Task
    from nqg.data.examples import MappedExamples

    check_picture(given["plot"])
    for table, settings in chosen.tables():
        detail(f"[{table}] {in_words(settings)}")
    forests, grammar, legal, dev = (given[name] for name in ("forests", "grammar", "target_grammar", "dev"))
    return Task(
        MappedExamples.of(given["data"]) if forests else read_examples(given["data"]),
        read_examples(dev) if dev else [],
        Grammar.read(grammar, MOST_NON_TERMINALS) if grammar else chosen.induction,
        TargetGrammar.read(legal) if legal else None,
        chosen.model,
        chosen.training,
        checked_device(given["device"]),
        forests,
    )


def _concluded(
    task: Task, training: ParserTraining, given: Mapping[str, Any], also: Callable[[Path], None] | None
) -> Scores | None:
    """The scores on the dev examples, written into the model folder with everything else."""
    from nqg.inference.parser import Parser

    scores = _scores(Parser(training.model), task.dev) if task.dev else None
    measured = [_measured(scores, task.dev, given["dev"])] if scores else []
    _write(training, task.examples, given["output"], also, measured)
    return scores


def _check_output(output: Path) -> None:
    """Refuse, before any work is done, to replace what is no model."""
    if not output.name:
        raise NqgError(f"{output}: expected a folder of the model's own, found the current one; choose another with -o")
    if output.exists() and not output.is_dir():
        raise NqgError(f"{output}: expected a folder to write the model to, found a file")
    if output.is_dir() and any(output.iterdir()) and not (output / "nqg.json").exists():
        raise NqgError(f"{output}: the folder holds something that is no model; choose another with -o")


def _write(
    training: ParserTraining,
    examples: Sequence[Example],
    output: Path,
    also: Callable[[Path], None] | None,
    measurements: Sequence[Measurement],
) -> None:
    """The model folder, and in it a line of JSON for every step."""
    from nqg.inference.parser import Parser
    from nqg.model.checkpoint import Provenance

    lines = (step.to_dict() for step in training.trainer.records)
    made = Provenance.of(examples, training.settings, lines)
    Parser(training.model).save(output, provenance=replace(made, measurements=tuple(measurements)), also=also)


def _drawn(training: ParserTraining, plot: Path | None) -> list[Path]:
    """The picture of the training, where one is wanted."""
    from nqg.training.records import write_plot

    if plot:
        write_plot(plot, training.trainer.records)
    return [plot] if plot else []


def _measured(scores: Scores, examples: Sequence[Example], path: Path) -> Measurement:
    """The scores as the model folder keeps them, with the data that they were measured on."""
    from nqg.model.checkpoint import DataPrint, Measurement

    shares = {"accuracy": scores.accuracy, "coverage": scores.coverage, "precision": scores.precision}
    return Measurement(DataPrint.of(examples, path.name), shares)


def _scores(parser: Parser, examples: Sequence[Example]) -> Scores:
    from nqg.evaluation.metrics import score

    answers = parser.answers(example.source for example in examples)
    return score([answer.target for answer in answers], [example.target for example in examples])


def _report(output: Path, training: ParserTraining, scores: Scores | None, as_json: bool) -> None:
    records, best = training.trainer.records, training.trainer.best
    facts: dict[str, Any] = {
        "rules": len(training.model.grammar),
        "examples": len(training.data),
        "steps": len(records),
        "loss": records[-1].loss,
        "best_step": best.step if best else None,
        "dev": scores.to_dict() if scores else None,
        "folder": str(output),
    }
    if as_json:
        out.print_json(data=facts)
        return
    out.print("{examples:,} examples, {rules:,} rules, {steps:,} steps, loss {loss:.4f} in the last".format(**facts))
    if scores:
        out.print(f"{scores.examples:,} dev examples, best after step {facts['best_step']:,}: {scores}")
