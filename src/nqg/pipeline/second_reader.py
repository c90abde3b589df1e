"""The seq2seq stage: a sequence-to-sequence model, fine-tuned on the examples.

The grammar can teach the model what it knows: pairs that it generates are added to the examples.
"""

from __future__ import annotations

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
)

if TYPE_CHECKING:
    from nqg.seq2seq.augmentation import Augmentation
    from nqg.seq2seq.fine_tuning import FineTuning


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


def train_seq2seq(
    reader: SecondReader,
    examples: Sequence[Example],
    run: Run,
    *,
    dev: Sequence[Example] = (),
    grammar: Grammar | None = None,
) -> FineTuning:
    """Fine-tune on the examples and, if the settings ask for it, on pairs of the grammar."""
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
        examples, reader.settings, training, dev=dev, device=run.device
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
