"""The seq2seq stage: a sequence-to-sequence model, fine-tuned on the examples and perhaps taught by the grammar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nqg.answers import Answer, System
from nqg.data.example import Example
from nqg.grammar.grammar import SLOT, Grammar
from nqg.model.settings import EMBEDDED, fitting_batch
from nqg.pipeline.run import Run
from nqg.pipeline.settings import TrainSettings
from nqg.preprocessing.training_text import TrainingText
from nqg.seq2seq.settings import AugmentationSettings, FineTuningSettings, Seq2seqSettings

if TYPE_CHECKING:
    from nqg.seq2seq.augmentation import Augmentation
    from nqg.seq2seq.fine_tuning import FineTuning

LEARNED_LOSS = (
    0.01  # at which a model from scratch has learned enough, unless the user says otherwise
)


@dataclass(frozen=True, slots=True)
class SecondReader:
    """How a sequence-to-sequence model is trained."""

    settings: Seq2seqSettings
    training: FineTuningSettings
    augmentation: AugmentationSettings | None = None
    fits_data: bool = (
        False  # the user left it to the examples how large batches are, and when training ends
    )

    @classmethod
    def of(cls, settings: TrainSettings) -> SecondReader | None:
        """The one that the settings ask for, if any."""
        if settings.seq2seq is None:
            return None
        training, defaults = settings.fine_tuning, FineTuningSettings()
        is_default = (training.batch_size, training.learned) == (
            defaults.batch_size,
            defaults.learned,
        )
        fits_data = is_default and settings.seq2seq.model == EMBEDDED
        return cls(settings.seq2seq, training, settings.augmentation, fits_data)


def train_seq2seq(
    reader: SecondReader,
    examples: Sequence[Example],
    run: Run,
    *,
    dev: Sequence[Example] = (),
    grammar: Grammar | None = None,
) -> FineTuning:
    """Fine-tune on the examples, among what `grammar` teaches if the settings ask for that."""
    from nqg.seq2seq.fine_tuning import FineTuning  # which loads transformers
    from nqg.training.resume import FINE_TUNING_SAVE_EVERY

    if reader.augmentation is not None and grammar is not None:
        augmentation = _augmentation(reader, reader.augmentation, examples, grammar)
        teach(augmentation, reader, run)
        if not run.label:
            run.note(
                f"the fallback also learns from {len(augmentation.added):,} pairs that the grammar knows"
            )
        examples = augmentation.mixture
    training = reader.training
    if reader.fits_data:  # a small model needs small batches of few examples, and ends early
        batch_size = fitting_batch(len(examples), training.batch_size)
        training = replace(training, batch_size=batch_size, learned=LEARNED_LOSS)
    fine_tuning = FineTuning(examples, reader.settings, training, dev=dev, device=run.device)
    if fine_tuning.truncation.first is not None:
        run.note(str(fine_tuning.truncation))
    steps = fine_tuning.steps(
        run.path("seq2seq.safetensors"), run.settings.save_every or FINE_TUNING_SAVE_EVERY
    )
    for step in steps:
        run.progress(f"fine-tuning · loss {step.loss:.4f}", step.number, training.steps)
    return fine_tuning


def _augmentation(
    reader: SecondReader,
    settings: AugmentationSettings,
    examples: Sequence[Example],
    grammar: Grammar,
) -> Augmentation:
    """Pairs that the grammar knows; rules that read slots have no words to teach."""
    from nqg.seq2seq.augmentation import Augmentation

    if grammar.slots is not None:
        fixed = [
            rule
            for rule in grammar
            if not any(str(symbol).startswith(SLOT) for symbol in rule.source)
        ]
        grammar = replace(grammar, rules=tuple(fixed), slots=None)
    return Augmentation(grammar, examples, settings, reader.training.seed)


def teach(augmentation: Augmentation, reader: SecondReader, run: Run) -> None:
    """Filter the samples of an augmentation and make its round trips."""
    total = augmentation.steps_in_all(reader.training)
    for _ in run.tracked(
        augmentation.steps(reader.settings, reader.training, run.device), "teaching", total
    ):
        pass


@dataclass(frozen=True, slots=True)
class AsWrittenSystem:
    """A system that is asked about tokenised sentences in the casing that somebody wrote."""

    system: System
    values: TrainingText

    def answers(self, sentences: Iterable[str]) -> Iterable[Answer]:
        return self.system.answers(self.values.as_written(sentences))
