"""`nqg train`: reads options, calls `nqg.train`, and prints what came of it.

FOLDER.training holds what an interrupted training needs to continue. It is removed when the model
is complete.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from nqg.answers import System
from nqg.cli.options import (
    Device,
    Preset,
    SettingsFile,
    TrainFile,
    changes_option,
    command,
    option,
)
from nqg.cli.terminal import (
    checked_device,
    err,
    interruptible,
    out,
    output,
    report_written,
)
from nqg.cli.training_display import TrainingDisplay
from nqg.data.example import Example, in_scope
from nqg.data.example_files import read_examples
from nqg.errors import NqgError, counted
from nqg.extensions import load_extension
from nqg.induction.settings import InductionSettings
from nqg.inference.hybrid import TokenSystem
from nqg.model.checkpoint import RULES_FILE, load_model
from nqg.model.settings import TrainingSettings
from nqg.pipeline.events import TrainReport, only_progress
from nqg.pipeline.learning_curve import CurvePoint, learning_curve
from nqg.pipeline.settings import NONE, TEACHING, TrainSettings, recorded_settings
from nqg.pipeline.train import train as run_training
from nqg.settings_reader import changed_settings, updated_settings
from nqg.training.processes import is_main_process, process_count

LEFT_OUT = (
    "no derivation yields their program; `nqg evaluate` with --breakdown on the training file "
    "shows which"
)
FEW_ANSWERS = "so most sentences like these will have no answer yet: the model is not sure of them"
FILES, MODEL = "Files", "Model"
SECOND = "Second reader, beside the grammar"
# The options that are settings of the same name, and the table of each.
SETTINGS = (
    ("types", "target_grammar"),
    ("model", "encoder"),
    ("training", "steps"),
    ("training", "seed"),
    ("fine_tuning", "seed"),
)


@dataclass(frozen=True)
class TrainOptions:
    data: TrainFile
    output: Annotated[
        Path, option("-o --output", "FOLDER", "Where to write the model.", FILES)
    ]
    settings: SettingsFile = None
    changes: Annotated[list[str], changes_option("training.learning_rate=3e-4")] = (
        field(default_factory=list)
    )
    preset: Preset = None
    dev: Annotated[
        Path | None,
        option(
            "--dev",
            "FILE",
            "Evaluate on these examples while training, and keep the best weights.",
            FILES,
        ),
    ] = None
    start_from: Annotated[
        Path | None,
        option(
            "--from",
            "MODEL",
            "Continue from a model that learned part of TRAIN: keep its rules, settings, slots and types.",
            MODEL,
        ),
    ] = None
    grammar: Annotated[
        Path | None,
        option(
            "--grammar",
            "FILE",
            "Rules from `nqg induce`.",
            MODEL,
            show_default="induced from the examples",
        ),
    ] = None
    rules: Annotated[
        str | None,
        option(
            "--rules",
            "FILE|none",
            "Rules written by hand: the search begins with them, and all are kept.",
            MODEL,
            show_default="those of --from, or of the model that is replaced",
        ),
    ] = None
    target_grammar: Annotated[
        str | None,
        option(
            "--target-grammar",
            "FILE|inferred|none",
            "A grammar of the legal programs; others are never answers.",
            MODEL,
            show_default="inferred from TRAIN",
        ),
    ] = None
    database: Annotated[
        str | None,
        option(
            "--database",
            "FILE|URL",
            "Programs are SQL over this database (SQLite, or a URL of SQLAlchemy's) and fit its "
            "schema.",
            MODEL,
        ),
    ] = None
    tools: Annotated[
        str | None,
        option(
            "--tools",
            "FILE|MODULE",
            "Programs are calls of these tools: JSON Schemas of function calling or MCP, or "
            "annotated Python functions.",
            MODEL,
            show_default="those of --from",
        ),
    ] = None
    encoder: Annotated[
        str | None,
        option(
            "--encoder",
            "NAME|FOLDER",
            "A pre-trained encoder from Hugging Face.",
            MODEL,
            show_default="a small one, from scratch",
        ),
    ] = None
    steps: Annotated[
        int | None,
        option(
            "--steps",
            "N",
            "Number of training steps.",
            MODEL,
            show_default=str(TrainingSettings().steps),
        ),
    ] = None
    seed: Annotated[
        int | None,
        option(
            "--seed",
            "S",
            "Seed of initial weights, batches and dropout.",
            MODEL,
            show_default=str(TrainingSettings().seed),
        ),
    ] = None
    seq2seq: Annotated[
        str | None,
        option(
            "--seq2seq",
            "NAME|FOLDER",
            "Also train a second reader: a model from Hugging Face, or 'embedded', a small one "
            "from scratch.",
            SECOND,
        ),
    ] = None
    augment: Annotated[
        int | None,
        option(
            "--augment",
            "N",
            "Also teach it what the grammar knows, with the likelier half of N samples "
            "(try 20000).",
            SECOND,
            min=1,
            show_default="the examples alone",
        ),
    ] = None
    plot: Annotated[
        Path | None,
        option(
            "--plot",
            "PICTURE",
            "Also draw the learning curve of TRAIN, as .png or .svg. It takes about three more "
            "trainings.",
            FILES,
        ),
    ] = None
    device: Device = None


@command(TrainOptions)
def train(options: TrainOptions) -> None:
    """Train a parser: a grammar, and a model that ranks its derivations.

    Example: nqg train train.tsv -o models/mine --dev dev.tsv

    An interrupted run resumes from FOLDER.training when the command is repeated.
    FOLDER is written, or replaced, when the model is complete.
    Every setting of `nqg.TrainSettings` can be changed, with --set or --settings.
    """
    # Refuse mistakes before hours are spent.
    _check_output(options.output)
    device = checked_device(options.device)
    settings = _settings(options)
    if options.plot:
        _check_plot(options.plot, options)
    folder = options.output.with_name(f"{options.output.name}.training")
    if not is_main_process():
        err.quiet = out.quiet = True
    with (
        interruptible(
            f"run the same command again to continue with what is in {folder}"
        ),
        TrainingDisplay() as display,
    ):
        system = run_training(
            options.data,
            settings=settings,
            dev=options.dev,
            grammar=options.grammar,
            manual_rules=_manual_rules(options),
            database=options.database,
            tools=options.tools,
            start_from=options.start_from,
            run_folder=folder,
            device=device,
            listener=display,
        )
    if not is_main_process():
        return
    # The main process writes the model and reports.
    system.save(options.output)
    shutil.rmtree(folder, ignore_errors=True)
    assert display.report is not None, "a training ends with its report"
    is_parser = not isinstance(system, TokenSystem)
    if not output.as_json:
        _print_report(display.report, is_parser=is_parser)
    curve: list[CurvePoint] = []
    if options.plot:
        with interruptible(f"{options.output} is complete, only the curve is missing"):
            curve = _curve(options, settings, device)
    if output.as_json:
        figures = _figures(display.report) | {"folder": str(options.output)}
        if options.plot:
            figures["learning_curve"] = list(map(asdict, curve))
        out.print_json(data=figures)
    else:
        for point in curve:
            out.print(f"learned from {point.examples:,} examples: {point.scores}")
    report_written(options.output)
    if options.plot:
        load_extension("nqg.paper.plots:draw_learning_curve")(options.plot, curve)
        report_written(options.plot)


def _figures(report: TrainReport) -> dict[str, Any]:
    """What a program wants to know of a training."""
    figures = asdict(report)
    for name in ("calibrator", "dev_scores", "repeated"):
        del figures[name]
    figures["next_steps"] = list(map(str, report.next_steps))
    calibrator = report.calibrator
    if calibrator:
        figures["threshold"] = calibrator.threshold
        figures["expected"] = asdict(calibrator.expected)
        figures["new_templates"] = asdict(calibrator.new_templates)
    return figures


def _check_output(folder: Path) -> None:
    """Refuse a folder that cannot be written, before hours are spent."""
    if not folder.name:
        raise NqgError(
            f"{folder}: expected a folder of the model's own, found the current one; "
            "choose another with -o"
        )
    if folder.exists() and not folder.is_dir():
        raise NqgError(
            f"{folder}: expected a folder to write the model to, found a file"
        )
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "nqg.json").exists():
        raise NqgError(
            f"{folder}: the folder is not empty and not a model folder; choose another with -o"
        )


def _check_plot(picture: Path, options: TrainOptions) -> None:
    load_extension("nqg.paper.plots:check_picture", "--plot")(picture)
    if options.start_from or options.grammar:
        reason = (
            "holds sentences out, which the rules of --from or --grammar may know; "
            "omit one of them"
        )
        raise typer.BadParameter(reason, param_hint="--plot")
    if process_count() > 1:
        reason = "draws what one process learns; leave it out with several"
        raise typer.BadParameter(reason, param_hint="--plot")


def _curve(
    options: TrainOptions, settings: TrainSettings, device: str | None
) -> list[CurvePoint]:
    """How parsers of parts of the examples fare on others, without a threshold."""
    settings = replace(settings, confidence=replace(settings.confidence, folds=0))

    def learn(examples: Sequence[Example]) -> System:
        with TrainingDisplay() as display:
            return run_training(
                examples,
                settings=settings,
                database=options.database,
                tools=options.tools,
                device=device,
                listener=only_progress(display),
            )

    examples = in_scope(read_examples(options.data, allows_out_of_scope=True))
    return list(learning_curve(examples, learn, settings.training.seed))


def _settings(options: TrainOptions) -> TrainSettings:
    """The settings of the file, else those of the model to go on from, changed by the options."""
    # Begin with the settings of a file, or of an earlier model.
    settings = TrainSettings()
    if options.settings:
        settings = TrainSettings.read(options.settings)
    elif options.start_from:
        settings = recorded_settings(
            load_model(options.start_from, "cpu"), options.start_from
        )
    if options.preset is not None:
        if options.grammar or options.start_from:
            reason = "is for inducing a grammar, which is given here"
            raise typer.BadParameter(reason, param_hint="--preset")
        settings = replace(settings, induction=InductionSettings.named(options.preset))

    # The second reader and what needs it.
    if options.seq2seq:
        settings = settings.with_seq2seq(options.seq2seq)
    if settings.seq2seq is None and options.augment:
        reason = "needs a second reader; name one with --seq2seq"
        raise typer.BadParameter(reason, param_hint="--augment")
    if options.augment is not None:
        teaching = replace(settings.augmentation or TEACHING, samples=options.augment)
        settings = replace(settings, augmentation=teaching)

    # Options come before --set, so that --set wins.
    for table, name in SETTINGS:
        value = getattr(options, name)
        if value is not None:
            settings = updated_settings(settings, {table: {name: value}})
    return changed_settings(settings, options.changes)


def _manual_rules(options: TrainOptions) -> Path | None:
    """The rules written by hand: of the option, else of the model to go on from or to replace."""
    if options.rules == NONE:
        return None
    if options.rules is not None:
        return Path(options.rules)
    path = (options.start_from or options.output) / RULES_FILE
    if not path.exists():
        return None
    err.print(f"{path}: rules by hand are kept; --rules none drops them")
    return path


def _print_report(report: TrainReport, *, is_parser: bool) -> None:
    examples = counted(report.examples, "example")
    if report.repeated:
        examples += f" (without {report.repeated:,} repeated)"
    counts = [examples, counted(report.rules, "rule"), counted(report.steps, "step")]
    # Only a parser has rules, so the count of them is left out for other models.
    if not is_parser:
        del counts[1]
    out.print(f"{', '.join(counts)}, loss {report.loss:.4f} in the last")
    if report.found:
        out.print(report.found)
    if report.left_out:
        left_out = counted(report.left_out, "example")
        err.print(f"warning: nothing was learned from {left_out}: {LEFT_OUT}")
    scores = report.dev_scores
    if scores:
        best = f"best after step {report.best_step:,}"
        out.print(f"{scores.examples:,} dev examples, {best}: {scores}")
    elif report.dev:
        right = f"{report.dev['accuracy']:.1%} right"
        out.print(f"dev examples, best after step {report.best_step:,}: {right}")
    if report.calibrator:
        out.print(str(report.calibrator))
        if report.calibrator.expected.is_low:
            out.print(FEW_ANSWERS)
    if report.next_steps:
        err.print("most useful next:")
    for number, step in enumerate(report.next_steps, start=1):
        # Lines to paste are not wrapped, and brackets in them are not markup.
        err.print(f"{number}. {step}", markup=False, soft_wrap=True)
