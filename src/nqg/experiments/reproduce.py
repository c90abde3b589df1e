"""From the name of a recipe to a runner of it: data, weights, and who trains what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nqg.data.progress import Report, silent
from nqg.experiments.nqg_run import nqg_outcome, training_settings
from nqg.experiments.recipe import Recipe, System
from nqg.experiments.runner import Run, Runner, Tell
from nqg.experiments.seq2seq_run import fine_tuning_settings, seq2seq_outcome
from nqg.experiments.task import prepared
from nqg.experiments.weights import UsedWeights
from nqg.inference.parser import best_device

RUNS: Mapping[System, Run] = {"nqg": nqg_outcome, "seq2seq": seq2seq_outcome}


def runner(
    recipe: Recipe,
    weights: UsedWeights,
    results: Path,
    *,
    device: str | None = None,
    mirror: Path | None = None,
    report: Report = silent,
    tell: Tell = lambda cell, progress: None,
) -> Runner:
    """A runner of a recipe; its settings are checked and its data prepared before anything is run."""
    training_settings(recipe, weights.encoder, 0), fine_tuning_settings(recipe, weights.seq2seq, 0)
    return Runner(prepared(recipe, mirror, report), results, weights, RUNS, device or best_device(), tell)
