"""`nqg train`: from a file of examples to a model folder; killed, the same command goes on where it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nqg.cli.induce import LIKE, STOPPED, chosen_settings
from nqg.cli.seq2seq_training import GATE, HOLD_OUT, SEQ2SEQ, SEQ2SEQ_BATCH_SIZE, SEQ2SEQ_STEPS, FallbackWish
from nqg.cli.terminal import complain, out, report_written
from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.errors import NqgError
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.model.settings import EMBEDDED, ModelSettings, TrainingSettings

if TYPE_CHECKING:
    from nqg.evaluation.metrics import Scores
    from nqg.inference.fitting import Fitting
    from nqg.inference.parser import Parser
    from nqg.model.provenance import Measurement

MOST_NON_TERMINALS = 9  # in a rule of a model folder

FILES, MODEL, FITTING = "Files", "The model", "How it is fitted"
STOPPING, RUNNING = "When it is best", "How it runs"
DATA = typer.Argument(metavar="TRAIN", help="Examples: a .tsv or .jsonl file, plain or .gz.", show_default=False)
OUTPUT = typer.Option(..., "-o", "--output", metavar="FOLDER", help="Where to write the model.", rich_help_panel=FILES)


def _option(flag: str, metavar: str | None, words: str, panel: str | None, default: Any = None, **more: Any) -> Any:
    """An option; its default is said in its help, where it has one, so that it takes one line."""
    return typer.Option(default, flag, metavar=metavar, help=words, rich_help_panel=panel, show_default=False, **more)


def _setting(name: str, metavar: str, words: str, panel: str = FITTING, **more: Any) -> Any:
    """An option for a setting of the training, with its default."""
    default = getattr(TrainingSettings(), name)
    said = words if default is None else f"{words} Default: {default}."
    return _option(f"--{name.replace('_', '-')}", metavar, said, panel, default, **more)


GRAMMAR = _option("--grammar", "FILE", "Rules from `nqg induce`. Default: induced here.", MODEL)
TARGET_GRAMMAR = _option("--target-grammar", "FILE", "Which programs are legal; others are no answers.", MODEL)
ENCODER = _option(
    "--encoder", "NAME|FOLDER", "A pre-trained encoder of Hugging Face's. Default: a small one, from scratch.", MODEL
)
STEPS = _setting("steps", "N", "How many batches to learn from.", min=1)
BATCH_SIZE = _setting("batch_size", "N", "Examples a step.", min=1)
LEARNING_RATE = _setting("learning_rate", "R", "At its highest. Default: 0.001 from scratch, 0.0001 with --encoder.")
WARM_UP = _setting("warm_up", "N", "Steps until the learning rate is at its highest.", min=0)
WEIGHT_DECAY = _setting("weight_decay", "R", "How strongly weights are pulled to 0.")
CLIP = _setting("clip", "NORM", "Longer gradients are cut to this.")
SEED = _setting("seed", "S", "Another seed, another model.")
DEV = _option("--dev", "FILE", "Examples to try the model on: the best weights are kept.", STOPPING)
EVALUATE_EVERY = _setting("evaluate_every", "N", "Steps between two trials.", STOPPING, min=1)
PATIENCE = _setting("patience", "N", "Stop after this many trials that were no better.", STOPPING, min=1)
DEVICE = _option("--device", "cpu|cuda", "Default: cuda where there is one.", None)
PRECISION = _setting("precision", "auto|bf16|float32", "Of the encoder. auto: bf16 on GPUs.", RUNNING)
SAVE_EVERY = _option("--save-every", "N", "Steps that a kill can cost at most. Default: 32.", RUNNING, 32, min=1)
NO_CACHE = _option("--no-cache", None, "Build forests anew, and keep none for next time.", RUNNING, False)
TENSORBOARD = _option("--tensorboard", "FOLDER", "Draw curves there while it runs.", RUNNING)
JSON = typer.Option(False, "--json", help="Print JSON.")


def train(
    data: Path = DATA,
    output: Path = OUTPUT,
    grammar: Path | None = GRAMMAR,
    like: str | None = LIKE,
    target_grammar: Path | None = TARGET_GRAMMAR,
    encoder: str | None = ENCODER,
    steps: int = STEPS,
    batch_size: int = BATCH_SIZE,
    learning_rate: float | None = LEARNING_RATE,
    warm_up: int = WARM_UP,
    weight_decay: float = WEIGHT_DECAY,
    clip: float = CLIP,
    seed: int = SEED,
    dev: Path | None = DEV,
    evaluate_every: int = EVALUATE_EVERY,
    patience: int = PATIENCE,
    precision: str = PRECISION,
    save_every: int = SAVE_EVERY,
    no_cache: bool = NO_CACHE,
    tensorboard: Path | None = TENSORBOARD,
    device: str | None = DEVICE,
    seq2seq: str | None = SEQ2SEQ,
    seq2seq_steps: int = SEQ2SEQ_STEPS,
    seq2seq_batch_size: int = SEQ2SEQ_BATCH_SIZE,
    gate: bool = GATE,
    hold_out: str = HOLD_OUT,
    as_json: bool = JSON,
) -> None:
    """Fit the parsing model to pairs of strings; it chooses among the derivations of a grammar.

    Example: nqg train train.tsv -o models/mine --like scan --dev dev.tsv

    Ctrl-C or a kill costs little: FOLDER.training keeps the state of the training, and the same command goes on from
    there to the model that an undisturbed run writes. FOLDER itself appears, or is replaced, when the model is whole.
    """
    _check_output(output)
    if grammar and like:
        raise typer.BadParameter("--like is for inducing a grammar; leave it away with --grammar", param_hint="--like")
    settings = chosen_settings(like, {})
    fallback = FallbackWish.chosen(
        seq2seq, steps=seq2seq_steps, batch_size=seq2seq_batch_size, seed=seed, gate=gate, hold_out=hold_out
    )
    training = TrainingSettings(
        steps, batch_size, learning_rate, warm_up, weight_decay, clip, seed, precision, evaluate_every, patience
    )
    examples, held_out = read_examples(data), read_examples(dev) if dev else []
    legal = TargetGrammar.read(target_grammar) if target_grammar else None
    rules = Grammar.read(grammar, MOST_NON_TERMINALS) if grammar else settings

    from nqg.cli.training_run import Task, TrainingRun

    task = Task(examples, held_out, rules, legal, ModelSettings(encoder or EMBEDDED), training, checked_device(device))
    run = TrainingRun.towards(output, task.device, save_every=save_every, use_cache=not no_cache, curves=tensorboard)
    try:
        fitting = run.fitted(task)
        also = fallback.trained(task, run) if fallback else None
    except KeyboardInterrupt:
        complain(f"interrupted; the same command goes on with what is in {run.folder}")
        raise typer.Exit(STOPPED) from None
    if run.processes.is_main:
        scores = _scores(fitting.parser, held_out) if held_out else None
        _write(fitting, examples, output, also, [_measured(scores, held_out, dev)] if scores and dev else [])
        shutil.rmtree(run.folder)
        _report(output, fitting, scores, as_json)
        report_written(output)
    run.processes.part()


def checked_device(name: str | None) -> str | None:
    """The device that a user named, if there is one."""
    import torch

    if name not in (None, "cpu", "cuda"):
        raise typer.BadParameter(f"'{name}' is neither 'cpu' nor 'cuda'", param_hint="--device")
    if name == "cuda" and not torch.cuda.is_available():
        raise NqgError("there is no GPU that torch can use; leave --device away, or say --device cpu")
    return name


def _check_output(output: Path) -> None:
    """Refuse, before any work is done, to replace what is no model."""
    if not output.name:
        raise NqgError(f"{output}: expected a folder of the model's own, found the current one; choose another with -o")
    if output.exists() and not output.is_dir():
        raise NqgError(f"{output}: expected a folder to write the model to, found a file")
    if output.is_dir() and any(output.iterdir()) and not (output / "nqg.json").exists():
        raise NqgError(f"{output}: the folder holds something that is no model; choose another with -o")


def _write(
    fitting: Fitting,
    examples: Sequence[Example],
    output: Path,
    also: Callable[[Path], None] | None,
    measurements: Sequence[Measurement],
) -> None:
    """The model folder, and in it a line of JSON for every step."""
    from nqg.model.provenance import Provenance

    lines = (step.facts for step in fitting.under_way.records)
    made = Provenance.of(examples, fitting.training, lines)
    fitting.parser.save(output, provenance=replace(made, measurements=tuple(measurements)), also=also)


def _measured(scores: Scores, examples: Sequence[Example], path: Path) -> Measurement:
    """The scores as the model folder keeps them, with the data that they were measured on."""
    from nqg.model.provenance import DataPrint, Measurement

    shares = {"accuracy": scores.accuracy, "coverage": scores.coverage, "precision": scores.precision}
    return Measurement(DataPrint.of(examples, path.name), shares)


def _scores(parser: Parser, examples: Sequence[Example]) -> Scores:
    from nqg.evaluation.metrics import compute

    parses = parser.parses(example.source for example in examples)
    return compute([parse.target for parse in parses], [example.target for example in examples])


def _report(output: Path, fitting: Fitting, scores: Scores | None, as_json: bool) -> None:
    records, best = fitting.under_way.records, fitting.under_way.best
    facts: dict[str, Any] = {
        "rules": len(fitting.parser.grammar),
        "examples": len(fitting.data),
        "steps": len(records),
        "loss": records[-1].loss,
        "best_step": best.number if best else None,
        "dev": scores.facts() if scores else None,
        "folder": str(output),
    }
    if as_json:
        out.print_json(data=facts)
        return
    out.print("{examples:,} examples, {rules:,} rules, {steps:,} steps, loss {loss:.4f} in the last".format(**facts))
    if scores:
        out.print(f"{scores.examples:,} dev examples, best after step {facts['best_step']:,}: {scores}")
