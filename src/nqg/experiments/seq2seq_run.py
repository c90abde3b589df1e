"""A sequence-to-sequence model on a task: fine-tune, predict. Killed, it goes on from its last checkpoint."""

from __future__ import annotations

from dataclasses import asdict

from nqg.evaluation.evaluation import Reply
from nqg.experiments.outcome import Outcome, Progress, Stopwatch, Workplace
from nqg.experiments.recipe import Recipe
from nqg.experiments.task import Task
from nqg.seq2seq.fitting import Seq2seqFitting
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings


def seq2seq_outcome(task: Task, weights: str, seed: int, place: Workplace) -> Outcome:
    """What a model that begins with the given weights makes of a task."""
    watch = Stopwatch()
    settings = fine_tuning_settings(task.recipe, weights, seed)
    train, test = task.for_seq2seq(task.train), task.for_seq2seq(task.test)
    with watch.timing("training"):
        fitting = Seq2seqFitting(train, Seq2seqSettings(model=weights), settings, device=place.device)
        for step in fitting.steps(place.folder / "seq2seq.safetensors"):
            place.tell(Progress("fine-tuning", step.number, settings.steps, step.loss))
    with watch.timing("predicting"):
        guesses = fitting.seq2seq.guesses([example.source for example in test])
    replies = tuple(Reply(guess.target or None, "fallback", guess.probability) for guess in guesses)
    figures = {"train_examples": float(len(train)), "cut_sources": float(fitting.cut.sources)}
    return Outcome(replies, figures, asdict(settings), watch.seconds)


def fine_tuning_settings(recipe: Recipe, weights: str, seed: int) -> FineTuningSettings:
    """How the recipe fine-tunes the model."""
    return recipe.seq2seq.settings(FineTuningSettings, weights, seed, f"[seq2seq] of {recipe.name}")
