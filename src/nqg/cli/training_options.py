"""The options of `nqg train`, and how they and a settings file become settings: what is typed wins, then the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import typer

from nqg.cli.induce import chosen_settings
from nqg.cli.settings import ProjectSettings, read_settings
from nqg.model.settings import TrainingSettings
from nqg.seq2seq.settings import Seq2seqSettings

Settings = TypeVar("Settings", bound=Any)

FILES, MODEL, FITTING = "Files", "The model", "How it is fitted"
STOPPING, RUNNING = "When it is best", "How it runs"


def option(flag: str, metavar: str | None, words: str, panel: str | None, default: Any = None, **more: Any) -> Any:
    """An option; its default is said in its help, where it has one."""
    return typer.Option(default, flag, metavar=metavar, help=words, rich_help_panel=panel, show_default=False, **more)


def _setting(name: str, metavar: str, words: str, panel: str = FITTING, **more: Any) -> Any:
    """An option for a setting of the training; where it is not given, --settings or the default decides."""
    default = getattr(TrainingSettings(), name)
    said = words if default is None else f"{words} Default: {default}."
    return option(f"--{name.replace('_', '-')}", metavar, said, panel, **more)


OUTPUT = typer.Option(..., "-o", "--output", metavar="FOLDER", help="Where to write the model.", rich_help_panel=FILES)
PLOT = option("--plot", "FILE", "Draw loss and dev accuracy over the steps, .png or .svg.", FILES)
GRAMMAR = option("--grammar", "FILE", "Rules from `nqg induce`. Default: induced here.", MODEL)
TARGET_GRAMMAR = option("--target-grammar", "FILE", "Which programs are legal; others are no answers.", MODEL)
ENCODER = option(
    "--encoder", "NAME|FOLDER", "A pre-trained encoder of Hugging Face's. Default: a small one, from scratch.", MODEL
)
STEPS = _setting("steps", "N", "How many batches to learn from.", min=1)
BATCH_SIZE = _setting("batch_size", "N", "Examples a step.", min=1)
LEARNING_RATE = _setting("learning_rate", "R", "At its highest. Default: 0.001 from scratch, 0.0001 with --encoder.")
WARM_UP = _setting("warm_up", "N", "Steps until the learning rate is at its highest.", min=0)
WEIGHT_DECAY = _setting("weight_decay", "R", "How strongly weights are pulled to 0.")
CLIP = _setting("clip", "NORM", "Longer gradients are cut to this.")
SEED = _setting("seed", "S", "Another seed, another model.")
DEV = option("--dev", "FILE", "Examples to try the model on: the best weights are kept.", STOPPING)
EVALUATE_EVERY = _setting("evaluate_every", "N", "Steps between two trials.", STOPPING, min=1)
PATIENCE = _setting("patience", "N", "Stop after this many trials that were no better.", STOPPING, min=1)
PRECISION = _setting("precision", "auto|bf16|float32", "Of the encoder. auto: bf16 on GPUs.", RUNNING)
SAVE_EVERY = option("--save-every", "N", "Steps that a kill can cost at most. Default: 32.", RUNNING, 32, min=1)
NO_CACHE = option("--no-cache", None, "Build forests anew, and keep none for next time.", RUNNING, False)
FORESTS = option(
    "--forests", "FOLDER", "Keep forests there and read them batch by batch: for corpora larger than memory.", RUNNING
)
TENSORBOARD = option("--tensorboard", "FOLDER", "Draw curves there while it runs.", RUNNING)


def project_settings(given: Mapping[str, Any]) -> ProjectSettings:
    """The settings that hold: what the command line says, else the file of --settings, else the defaults."""
    base = read_settings(given["settings"]) if given["settings"] else ProjectSettings()
    if given["grammar"] and given["like"]:
        raise typer.BadParameter("--like is for inducing a grammar; leave it away with --grammar", param_hint="--like")
    tuning = {"steps": given["seq2seq_steps"], "batch_size": given["seq2seq_batch_size"], "seed": given["seed"]}
    return ProjectSettings(
        chosen_settings(given["like"], {}, base.induction),
        _changed(base.model, given),
        _changed(base.training, given),
        _seq2seq(base.seq2seq, given["seq2seq"]),
        _changed(base.fine_tuning, tuning),
    )


def _changed(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """The settings, with the values that were given."""
    names = [each.name for each in fields(settings) if given.get(each.name) is not None]
    return replace(settings, **{name: given[name] for name in names})


def _seq2seq(settings: Seq2seqSettings | None, model: str | None) -> Seq2seqSettings | None:
    return settings if model is None else replace(settings or Seq2seqSettings(), model=model)
