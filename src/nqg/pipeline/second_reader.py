"""The seq2seq stage: a sequence-to-sequence model, fine-tuned on the examples.

The grammar can teach the model what it knows: pairs that it generates are added to the examples.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nqg.data.example import Example
from nqg.grammar.grammar import SLOT, Grammar, Rule
from nqg.pipeline.run import Run
from nqg.pipeline.settings import TrainSettings
from nqg.seq2seq.settings import (
    AugmentationSettings,
    FineTuningSettings,
    Seq2seqSettings,
    is_new,
)

if TYPE_CHECKING:
    from nqg.seq2seq.augmentation import Augmentation
    from nqg.seq2seq.fine_tuning import FineTuning
    from nqg.seq2seq.seq2seq import Seq2seq


@dataclass(frozen=True)
class SecondReader:
    """How a sequence-to-sequence model is trained."""

    settings: Seq2seqSettings
    training: FineTuningSettings
    augmentation: AugmentationSettings | None = None

    @classmethod
    def of(cls, settings: TrainSettings) -> SecondReader | None:
        """The one that the settings ask for, if any."""
        if not settings.seq2seq:
            return None
        return cls(settings.seq2seq, settings.fine_tuning, settings.augmentation)


# The model of a fold, in the folder of a run that has not ended.
FOLD_MODEL = "fold-seq2seq"


class FoldModel:
    """The model of the first held-out fold, which goes on to learn all examples.

    A run with a folder keeps it there, so that a training can continue.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.model: Seq2seq | None = None

    @classmethod
    def of(cls, settings: TrainSettings, run: Run) -> FoldModel | None:
        """Where a model will be kept, if the settings and the device ask for it."""
        seq2seq, wanted = settings.seq2seq, settings.confidence.continue_fold
        if seq2seq is None or settings.model is None or settings.confidence.folds == 0:
            return None
        if wanted is None:
            wanted = not uses_gpu(run)
        # The words of a new model are those of the fold alone, low-rank updates become part of the
        # weights, pairs of a grammar are those of the whole grammar, and several processes would
        # each need the model.
        is_plain = not (is_new(seq2seq.model) or seq2seq.lora or settings.augmentation)
        if not wanted or not is_plain or run.processes.count > 1:
            return None
        return cls(run)

    def give(self, model: Seq2seq) -> None:
        """Keep the model of the first fold; later ones are not needed."""
        if self.model is None:
            self.model = model
            if path := self.run.path(FOLD_MODEL):
                model.save(path)

    def prepare(self) -> None:
        """Forget what a run has recorded of the fold, if its model is not there."""
        path = self.run.path(FOLD_MODEL)
        if path is not None and not path.exists():
            (path.parent / fold_record(1)).unlink(missing_ok=True)

    def get(self) -> Seq2seq | None:
        """The model, if confidence was learned from any fold."""
        from nqg.seq2seq.seq2seq import Seq2seq  # which loads transformers

        path = self.run.path(FOLD_MODEL)
        if self.model is None and path is not None and path.exists():
            self.model = Seq2seq.load(path, self.run.device)
        return self.model

    def remove(self) -> None:
        """Remove the model from the folder of the run, where all has learned from it."""
        if path := self.run.path(FOLD_MODEL):
            shutil.rmtree(path, ignore_errors=True)


def fold_record(number: int) -> str:
    """The file in the folder of a run that has what readers of a fold made of it."""
    return f"fold-{number}.json"


def uses_gpu(run: Run) -> bool:
    """Whether a training runs on a GPU."""
    import torch

    return torch.cuda.is_available() and run.device != "cpu"


def train_seq2seq(
    reader: SecondReader,
    examples: Sequence[Example],
    run: Run,
    *,
    dev: Sequence[Example] = (),
    grammar: Grammar | None = None,
    start: Seq2seq | None = None,
) -> FineTuning:
    """Fine-tune on the examples and, if the settings ask for it, on pairs of the grammar.

    A model that has learned some of the examples may be the `start`.
    """
    from nqg.seq2seq.augmentation import Augmentation
    from nqg.seq2seq.fine_tuning import FineTuning  # which loads transformers
    from nqg.training.resume import FINE_TUNING_SAVE_EVERY

    training = reader.training
    if reader.augmentation and grammar is not None:
        if grammar.slots is not None:
            # Rules that read slots have no words to teach.
            fixed = tuple(rule for rule in grammar if not _reads_slot(rule))
            grammar = replace(grammar, rules=fixed, slots=None)
        augmentation = Augmentation(
            grammar, examples, reader.augmentation, training.seed
        )
        teach(augmentation, reader, run)
        if not run.label:
            added = f"{len(augmentation.added):,} pairs that the grammar knows"
            run.note(f"the second reader also learns from {added}")
        examples = augmentation.mixture
    fine_tuning = FineTuning(
        examples, reader.settings, training, dev=dev, device=run.device, start=start
    )
    # Long sentences are truncated, and the user should know.
    if fine_tuning.truncation.first is not None:
        run.note(str(fine_tuning.truncation))
    save_every = run.settings.save_every or FINE_TUNING_SAVE_EVERY
    for step in fine_tuning.steps(run.path("seq2seq.safetensors"), save_every):
        total = fine_tuning.training.steps
        run.progress(f"fine-tuning · loss {step.loss:.4f}", step.number, total)
    return fine_tuning


def _reads_slot(rule: Rule) -> bool:
    return any(str(symbol).startswith(SLOT) for symbol in rule.source)


def teach(augmentation: Augmentation, reader: SecondReader, run: Run) -> None:
    """Filter the samples of an augmentation and make its round trips."""
    steps = augmentation.steps(reader.settings, reader.training, run.device)
    total = augmentation.steps_in_all(reader.training)
    for done, _ in enumerate(steps, start=1):
        run.progress("teaching", done, total)
