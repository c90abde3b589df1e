"""`nqg train`: reads options, calls `nqg.train`, and prints what came of it.

FOLDER.training holds what an interrupted training needs to continue. It is removed when the model is complete.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from nqg.cli.options import (
    Device,
    Preset,
    Setting,
    SettingsFile,
    TrainFile,
    changes_option,
    chosen_settings,
    command,
)
from nqg.cli.terminal import checked_device, err, interruptible, out, output, report_written
from nqg.cli.training_display import TrainingDisplay
from nqg.errors import NqgError, counted
from nqg.induction.settings import InductionSettings
from nqg.inference.hybrid import TokenSystem
from nqg.model.checkpoint import RULES_FILE, load_model
from nqg.pipeline.events import TrainReport
from nqg.pipeline.settings import NONE, TEACHING, TrainSettings, recorded_settings
from nqg.pipeline.train import train as run_training
from nqg.training.processes import is_main_process

FEWEST_TO_JUDGE = 10  # answers to held-out examples
NONE_RIGHT = (
    "warning: none of these was right, so what the model does with new combinations is not to be trusted: read the "
    "rules (`nqg show-grammar`), and give more examples of each construction. docs/your-data.md tells more"
)
LEFT_OUT = "no derivation yields their program; `nqg evaluate` with --breakdown on the training file shows which"
FILES, MODEL, SECOND_READER = (
    "Files",
    "Model",
    "Fallback, for sentences that the grammar does not answer",
)


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    data: TrainFile
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Where to write the model.",
            rich_help_panel=FILES,
        ),
    ]
    settings: SettingsFile = None
    changes: Annotated[list[str], changes_option("training.learning_rate=3e-4")] = field(
        default_factory=list
    )
    preset: Preset = None
    dev: Annotated[
        Path | None,
        typer.Option(
            "--dev",
            metavar="FILE",
            help="Evaluate on these examples while training, and keep the best weights.",
            rich_help_panel=FILES,
        ),
    ] = None
    start_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Go on from a model of some of TRAIN: with its rules, settings, slots and types.",
            rich_help_panel=MODEL,
        ),
    ] = None
    grammar: Annotated[
        Path | None,
        typer.Option(
            "--grammar",
            metavar="FILE",
            help="Rules from `nqg induce`.",
            show_default="induced from the examples",
            rich_help_panel=MODEL,
        ),
    ] = None
    rules: Annotated[
        str | None,
        typer.Option(
            "--rules",
            metavar="FILE|none",
            help="Rules written by hand: the search begins with them, and all are kept.",
            show_default="those of --from, or of the model that is replaced",
            rich_help_panel=MODEL,
        ),
    ] = None
    target_grammar: Annotated[
        str | None,
        Setting(
            "types.target_grammar",
            "FILE|inferred|none",
            "A grammar of the legal programs; others are never answers.",
            default="inferred from TRAIN",
            panel=MODEL,
        ),
    ] = None
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="FILE|URL",
            help="Programs are SQL over this database (SQLite, or a URL of SQLAlchemy's) and fit its schema.",
            rich_help_panel=MODEL,
        ),
    ] = None
    encoder: Annotated[
        str | None,
        Setting(
            "model.encoder",
            "NAME|FOLDER",
            "A pre-trained encoder from Hugging Face.",
            default="a small one, from scratch",
            panel=MODEL,
        ),
    ] = None
    steps: Annotated[
        int | None, Setting("training.steps", "N", "Number of training steps.", panel=MODEL)
    ] = None
    seed: Annotated[
        int | None,
        Setting("training.seed", "S", "Seed of initial weights, batches and dropout.", panel=MODEL),
    ] = None
    seq2seq: Annotated[
        str | None,
        typer.Option(
            "--seq2seq",
            metavar="NAME|FOLDER",
            help="Also train a fallback: a model from Hugging Face, or 'embedded', a small one from scratch.",
            rich_help_panel=SECOND_READER,
        ),
    ] = None
    augment: Annotated[
        int | None,
        typer.Option(
            "--augment",
            metavar="N",
            min=1,
            help="Also teach it what the grammar knows, with the likelier half of N samples (try 20000).",
            show_default="the examples alone",
            rich_help_panel=SECOND_READER,
        ),
    ] = None
    gate: Annotated[
        bool | None,
        typer.Option(
            "--gate",
            metavar="",
            help="Also use it where the grammar is unsure; the threshold is learned from held-out examples.",
            rich_help_panel=SECOND_READER,
        ),
    ] = None
    device: Device = None


@command(TrainOptions, TrainSettings())
def train(options: TrainOptions) -> None:
    """Train a parser: a grammar, and a model that ranks its derivations.

    Example: nqg train train.tsv -o models/mine --dev dev.tsv

    Little is lost to Ctrl-C or a kill: the same command goes on from what is in
    FOLDER.training. FOLDER is written, or replaced, when the model is complete.
    Every setting of `nqg.TrainSettings` can be changed, with --set or --settings.
    """
    _check_output(options.output)
    device = checked_device(options.device)
    settings = _settings(options)
    folder = options.output.with_name(f"{options.output.name}.training")
    if not is_main_process():
        err.quiet = out.quiet = True
    with (
        interruptible(f"run the same command again to continue with what is in {folder}"),
        TrainingDisplay() as display,
    ):
        system = run_training(
            options.data,
            settings=settings,
            dev=options.dev,
            grammar=options.grammar,
            manual_rules=_manual_rules(options),
            database=options.database,
            start_from=options.start_from,
            run_folder=folder,
            device=device,
            listener=display,
        )
    if not is_main_process():
        return
    system.save(options.output)
    shutil.rmtree(folder, ignore_errors=True)
    assert display.report is not None, "a training ends with its report"
    if output.as_json:
        out.print_json(data=_figures(display.report) | {"folder": str(options.output)})
    else:
        _print_report(display.report, is_parser=not isinstance(system, TokenSystem))
    report_written(options.output)


def _check_output(folder: Path) -> None:
    """Refuse a folder that cannot be written, before hours are spent."""
    if not folder.name:
        raise NqgError(
            f"{folder}: expected a folder of the model's own, found the current one; choose another with -o"
        )
    if folder.exists() and not folder.is_dir():
        raise NqgError(f"{folder}: expected a folder to write the model to, found a file")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "nqg.json").exists():
        raise NqgError(
            f"{folder}: the folder is not empty and not a model folder; choose another with -o"
        )


def _settings(options: TrainOptions) -> TrainSettings:
    """The settings of the file, else those of the model to go on from, changed by the options."""
    settings = TrainSettings()
    if options.settings is not None:
        settings = TrainSettings.read(options.settings)
    elif options.start_from is not None:
        settings = recorded_settings(load_model(options.start_from, "cpu"), options.start_from)
    if options.preset is not None:
        for name in ("grammar", "start_from"):
            if getattr(options, name) is not None:
                raise typer.BadParameter(
                    "is for inducing a grammar, which is given here", param_hint="--preset"
                )
        settings = replace(settings, induction=InductionSettings.named(options.preset))
    if options.seq2seq is not None:
        settings = settings.with_seq2seq(options.seq2seq)
    if options.seed is not None:
        settings = replace(settings, fine_tuning=replace(settings.fine_tuning, seed=options.seed))
    if settings.seq2seq is None:
        for name in ("gate", "augment"):
            if getattr(options, name):
                raise typer.BadParameter(
                    "needs a fallback; name one with --seq2seq", param_hint=f"--{name}"
                )
    if options.augment is not None:
        settings = replace(
            settings,
            augmentation=replace(settings.augmentation or TEACHING, samples=options.augment),
        )
    if options.gate:
        settings = replace(settings, confidence=replace(settings.confidence, gate=True))
    return chosen_settings(settings, options, options.changes)


def _manual_rules(options: TrainOptions) -> Path | None:
    """The file of rules written by hand: that of the option, else that of the model to go on from or to replace."""
    if options.rules == NONE:
        return None
    if options.rules is not None:
        return Path(options.rules)
    path = (options.start_from or options.output) / RULES_FILE
    if not path.exists():
        return None
    err.print(f"{path}: rules by hand are kept; --rules none drops them")
    return path


def _figures(report: TrainReport) -> dict[str, Any]:
    """What `--json` prints."""
    unprinted = ("confidence", "dev_scores", "gate", "repeated")
    return {name: value for name, value in asdict(report).items() if name not in unprinted}


def _print_report(report: TrainReport, *, is_parser: bool) -> None:
    examples = counted(report.examples, "example")
    if report.repeated:
        examples += f" (without {report.repeated:,} repeated)"
    counts = [examples, counted(report.rules, "rule"), counted(report.steps, "step")]
    if not is_parser:
        del counts[1]
    out.print(f"{', '.join(counts)}, loss {report.loss:.4f} in the last")
    if report.left_out:
        err.print(
            f"warning: nothing was learned from {counted(report.left_out, 'example')}: {LEFT_OUT}"
        )
    if report.dev_scores is not None:
        scores = report.dev_scores
        out.print(
            f"{scores.examples:,} dev examples, best after step {report.best_step:,}: {scores}"
        )
    elif report.dev is not None:
        out.print(
            f"dev examples, best after step {report.best_step:,}: {report.dev['accuracy']:.1%} right"
        )
    if report.held_out is not None:
        out.print(report.confidence)
        if report.held_out["answers"] >= FEWEST_TO_JUDGE and not report.held_out["right"]:
            err.print(NONE_RIGHT)
    if report.gate:
        err.print(report.gate)
