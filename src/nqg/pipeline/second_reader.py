"""The seq2seq stage: a sequence-to-sequence model, fine-tuned on the examples.

The grammar can teach the model what it knows: pairs that it generates are added to the examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nqg.answers import Answer, System
from nqg.data.example import Example
from nqg.grammar.grammar import SLOT, Grammar, Rule
from nqg.model.settings import EMBEDDED, fitting_batch
from nqg.pipeline.run import Run
from nqg.pipeline.settings import TrainSettings
from nqg.pipeline.task import ParserTask
from nqg.preprocessing.training_text import TrainingText
from nqg.seq2seq.settings import (
    AugmentationSettings,
    FineTuningSettings,
    Seq2seqSettings,
)
from nqg.slots.target_grammars import open_slot_categories

if TYPE_CHECKING:
    from nqg.seq2seq.augmentation import Augmentation
    from nqg.seq2seq.fine_tuning import FineTuning

# The loss at which a model from scratch has learned enough, unless the user says otherwise.
# Not measured.
LEARNED_LOSS = 0.01


@dataclass(frozen=True)
class SecondReader:
    """How a sequence-to-sequence model is trained.

    With `fits_data`, the number of examples decides how large batches are and when training ends.
    """

    settings: Seq2seqSettings
    training: FineTuningSettings
    augmentation: AugmentationSettings | None = None
    fits_data: bool = False

    @classmethod
    def of(cls, settings: TrainSettings) -> SecondReader | None:
        """The one that the settings ask for, if any."""
        if not settings.seq2seq:
            return None
        training, default = settings.fine_tuning, FineTuningSettings()
        # Whoever changed the size of batches or the end of training means it.
        fits_data = (
            settings.seq2seq.model == EMBEDDED
            and training.batch_size == default.batch_size
            and training.learned == default.learned
        )
        return cls(settings.seq2seq, training, settings.augmentation, fits_data)


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
            run.note(f"the fallback also learns from {added}")
        examples = augmentation.mixture
    if reader.fits_data:
        # A small model needs small batches of few examples, and ends early.
        batch_size = fitting_batch(len(examples), training.batch_size)
        training = replace(training, batch_size=batch_size, learned=LEARNED_LOSS)
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


def trained_fallback(
    reader: SecondReader, task: ParserTask, grammar: Grammar, run: Run
) -> System:
    """A fallback for the tokenised sentences of a task; it writes only legal programs."""
    from nqg.seq2seq.legal_decoding import LegalSeq2seq  # which loads transformers

    seq2seq = train_seq2seq(
        reader, task.as_written(task.examples), run, grammar=grammar
    ).seq2seq
    system: System = seq2seq
    # The fallback of a typed model cannot write illegal programs.
    if task.target_grammar is not None:
        legal = open_slot_categories(task.target_grammar, task.text.slots.quotes)
        system = LegalSeq2seq(seq2seq, legal)
    if not task.values:
        return system
    return AsWrittenSystem(system, task.values)


@dataclass(frozen=True)
class AsWrittenSystem:
    """A system that reads tokenised sentences in the casing that somebody wrote."""

    system: System
    values: TrainingText

    def answers(self, sentences: Iterable[str]) -> Iterable[Answer]:
        return self.system.answers(self.values.as_written(sentences))
