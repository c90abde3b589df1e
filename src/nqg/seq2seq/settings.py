"""The settings of the sequence-to-sequence model and of its fine-tuning; the defaults suit a few
hundred pairs of a user's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from nqg.errors import SettingsError, UnknownName, check_above_zero, check_at_least
from nqg.induction.settings import SamplingSettings
from nqg.model.settings import EMBEDDED, Precision, Schedule, fitting_batch

# Architectures of published baselines, by the name of the model. They have a vocabulary of their
# own and no beam search.
BASELINE_MODELS = dict.fromkeys(
    ("syntactic-attention", "cgps"), "nqg.paper.baselines:TwoStreams"
)
Optimizer = Literal["adafactor", "adamw"]
# How much a pre-trained model learns where the settings do not say: that many passes over the
# examples, within bounds, in batches with which a pass has that many steps, within bounds. The
# examples of a batch are divided into chunks of similar lengths on a CPU. docs/seq2seq.md has what
# was measured.
PASSES = 40
MIN_STEPS, MAX_STEPS = 200, 3000
PASS_STEPS, MIN_BATCH, MAX_BATCH = 40, 8, 64
CPU_CHUNK = 16
# A model that has learned most of the examples makes such a share of the steps, and has such a share
# of the learning rate. docs/seq2seq.md has what was measured on one dataset; others were not tried.
CONTINUED_STEPS, CONTINUED_RATE = 0.25, 0.6
# A model from scratch learns in batches of at most so many examples, until its loss stays below
# `LEARNED_LOSS`: the first bounds memory, the second time.
MAX_NEW_BATCH = 128
LEARNED_LOSS = 0.01
# A bound of work: how often held-out pairs are tried in a training where the settings do not say.
EVALUATIONS = 10
# A model folder must not ask for days of decoding.
UPPER_LIMITS = {"longest_source": 1 << 16, "longest_target": 1 << 16, "beams": 256}


def is_new(model: str) -> bool:
    """Whether a model has no pre-trained weights.

    >>> is_new("embedded"), is_new("google/flan-t5-small")
    (True, False)
    """
    return model == EMBEDDED or model in BASELINE_MODELS


@dataclass(frozen=True, slots=True)
class SmallT5Settings:
    """The small T5 that is trained from scratch where no pre-trained model is named."""

    # Numbers in the vector of a subword.
    width: int = 128
    # Layers of the encoder, and of the decoder.
    layers: int = 3
    # Attention heads of a layer.
    heads: int = 4
    # Share of values that are dropped in training.
    dropout: float = 0.1

    def __post_init__(self) -> None:
        check_at_least(1, self, "width", "layers", "heads")
        if self.width % self.heads:
            raise SettingsError(
                f"width is {self.width}; expected a multiple of heads, which is {self.heads}"
            )
        if not 0 <= self.dropout < 1:
            raise SettingsError(
                f"dropout is {self.dropout}; expected at least 0 and less than 1"
            )


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """Low-rank updates beside frozen weights (package peft)."""

    # Rank of an update.
    rank: int = 16
    # Scale of an update. What LoRA calls alpha is this times the rank.
    scale: float = 2.0
    # Share of values that are dropped in training.
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_at_least(1, self, "rank")


@dataclass(frozen=True, slots=True)
class Seq2seqSettings:
    """Which model (a Hugging Face name or folder, or the embedded one), what it reads and how it
    writes.

    >>> Seq2seqSettings(model="google/flan-t5-small").longest_target
    256
    """

    # "embedded", or pre-trained weights: a Hugging Face name or a folder.
    model: str = EMBEDDED
    # What stands before each sentence.
    prefix: str = "semanticparse: "
    # Most subwords of a sentence.
    longest_source: int = 512
    # Most subwords of a program.
    longest_target: int = 256
    # Width of the beam search. 1 is a greedy search.
    beams: int = 1
    embedded: SmallT5Settings = SmallT5Settings()
    lora: LoraSettings | None = None

    @classmethod
    def of(cls, model: str) -> Seq2seqSettings:
        """The settings that suit a model: a baseline reads nothing but the sentence."""
        return cls(model, prefix="") if model in BASELINE_MODELS else cls(model)

    def __post_init__(self) -> None:
        check_at_least(1, self, "longest_source", "longest_target", "beams")
        for name, most in UPPER_LIMITS.items():
            value = getattr(self, name)
            if value > most:
                raise SettingsError(f"{name} is {value}; expected {most:,} or less")
        if self.lora is not None and is_new(self.model):
            raise SettingsError(
                f"lora freezes pre-trained weights, and '{self.model}' has none; name another model"
            )
        if self.beams > 1 and self.model in BASELINE_MODELS:
            raise SettingsError(
                f"beams is {self.beams}; expected 1, which is all that '{self.model}' can do"
            )


@dataclass(frozen=True, slots=True)
class FineTuningSettings:
    """How a sequence-to-sequence model is fitted. What is 0 or None follows from the model, the
    number of examples and the device (`resolved`).

    The paper's settings are `nqg.paper.presets.FINE_TUNING`.

    >>> FineTuningSettings(steps=500).steps
    500
    """

    # Most steps. 0: 40 passes over the examples, 200 to 3,000 steps. From scratch 3,000.
    steps: int = 0
    # Examples of a step. 0: a fortieth of all, 8 to 64. From scratch a quarter, 32 to 128.
    batch_size: int = 0
    # Parts into which a step is cut, to save memory. The parts are sorted by length.
    accumulate: int = 1
    # The optimizer. The paper has Adafactor.
    optimizer: Optimizer = "adamw"
    # The highest learning rate. Without a number, 5e-4, or 1e-3 from scratch.
    learning_rate: float | None = None
    # Weight decay of the optimizer.
    weight_decay: float = 0.0
    # How the learning rate falls after the warm-up: linearly to 0, or not at all.
    schedule: Schedule = "linear"
    # Steps in which the learning rate rises.
    warm_up: int = 0
    # Largest norm of the gradient.
    clip: float | None = 1.0
    # Write each token of the programs as one subword. By default where programs would be long.
    one_subword: bool | None = None
    # Keep embeddings and output layer as they were pre-trained. By default on a CPU.
    freeze_embeddings: bool | None = None
    # "auto" is bf16 on GPUs that have it, and on CPUs with bf16 instructions where embeddings are
    # frozen. Elsewhere, and for weights, it is float32.
    precision: Precision = "auto"
    # Compute activations again in the backward pass, which saves memory and takes time.
    gradient_checkpointing: bool = False
    # On a GPU, record the kernels of every frequent batch shape as a CUDA graph, and replay them.
    record_kernels: bool = True
    # GB that a process may use for recorded kernels.
    recording_memory: float = 16.0
    # Divide weights, gradients and the optimizer's state among the processes of `accelerate launch`.
    shard: bool = False
    # Batches whose examples are sorted by length together, against padding.
    pool: int = 8
    # With dev examples, steps between two evaluations.
    evaluate_every: int | None = None
    # With dev examples, training ends after this many evaluations without improvement.
    patience: int = 5
    # Training ends when the loss stays below this number for an epoch. From scratch 0.01.
    learned: float | None = None
    # Seed of the weights and of the order of examples.
    seed: int = 0

    def __post_init__(self) -> None:
        check_at_least(1, self, "accumulate", "pool", "evaluate_every", "patience")
        check_at_least(
            0,
            self,
            "steps",
            "batch_size",
            "warm_up",
            "weight_decay",
            "learned",
        )
        choices = {"optimizer": Optimizer, "schedule": Schedule, "precision": Precision}
        for name, kind in choices.items():
            value = getattr(self, name)
            if value not in get_args(kind):
                raise UnknownName(name, value, get_args(kind))
        check_above_zero(self, "learning_rate", "clip", "recording_memory")

    def rate(self, model: str) -> float:
        """The learning rate at its highest."""
        if self.learning_rate:
            return self.learning_rate
        return 1e-3 if is_new(model) else 5e-4

    def resolved(
        self,
        model: str,
        examples: int,
        *,
        on_cpu: bool,
        has_bf16: bool = False,
        has_dev: bool = False,
        is_continued: bool = False,
    ) -> FineTuningSettings:
        """The settings with everything decided that follows from the model, the examples and the
        device.

        `has_bf16` says whether a CPU multiplies in bf16, `has_dev` whether there are held-out pairs,
        and `is_continued` whether the model has learned most of the examples already.

        >>> auto = FineTuningSettings()
        >>> for examples in (60, 300, 3_000, 30_000):
        ...     chosen = auto.resolved("google/flan-t5-small", examples, on_cpu=False)
        ...     print(examples, chosen.batch_size, chosen.steps)
        60 8 300
        300 8 1500
        3000 64 1875
        30000 64 3000
        """
        is_pretrained = not is_new(model)
        batch_size = self.batch_size
        if not batch_size and is_pretrained:
            batch_size = min(max(examples // PASS_STEPS, MIN_BATCH), MAX_BATCH)
        elif not batch_size:
            batch_size = fitting_batch(examples, MAX_NEW_BATCH)
        steps = self.steps
        if not steps and is_pretrained:
            passes = math.ceil(PASSES * examples / batch_size)
            steps = min(max(passes, MIN_STEPS), MAX_STEPS)
        elif not steps:
            steps = MAX_STEPS
        rate = self.rate(model)
        if is_continued:
            steps, rate = math.ceil(CONTINUED_STEPS * steps), CONTINUED_RATE * rate
        learned = self.learned
        if learned is None:
            learned = 0.0 if is_pretrained else LEARNED_LOSS

        # A CPU learns the body of a pre-trained model alone, in bf16 if it has instructions for it,
        # and examples of similar lengths together.
        freeze, precision = self.freeze_embeddings, self.precision
        if freeze is None:
            freeze = on_cpu and is_pretrained and not self.shard
        accumulate = self.accumulate
        if freeze and on_cpu:
            accumulate = max(accumulate, batch_size // CPU_CHUNK)
            if precision == "auto" and has_bf16:
                precision = "bf16"
        evaluate_every = self.evaluate_every
        if evaluate_every is None and has_dev:
            evaluate_every = max(1, steps // EVALUATIONS)
        return replace(
            self,
            steps=steps,
            batch_size=batch_size,
            accumulate=accumulate,
            learning_rate=rate,
            freeze_embeddings=freeze,
            precision=precision,
            evaluate_every=evaluate_every,
            learned=learned,
        )


@dataclass(frozen=True, slots=True)
class AugmentationSettings:
    """How many pairs are drawn, which are kept, and the share of training pairs in what the model
    sees.
    """

    # Pairs to draw from the grammar.
    samples: int = 20_000
    # Share of training pairs in a batch. The others are samples.
    real_share: float = 0.5
    # Share of samples to keep: those that a reverse model finds likeliest. At 1 there is none.
    kept: float = 1.0
    # Steps of the reverse model, which writes sentences for programs.
    reverse_steps: int = 500
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    # Rounds of round trips. Each draws new programs, and trains one more model on the sentences that
    # the reverse model writes for them.
    rounds: int = 0
    # Programs to draw in a round.
    programs: int = 6_000
    # Sentences that the reverse model writes for a program.
    sentences: int = 3
    # Steps of the models before the last. Without a number, as many as the last.
    round_steps: int | None = None

    def __post_init__(self) -> None:
        check_at_least(0, self, "samples", "rounds")
        check_at_least(1, self, "reverse_steps", "programs", "sentences", "round_steps")
        for name in ("real_share", "kept"):
            share = getattr(self, name)
            if not 0 < share <= 1:
                raise SettingsError(
                    f"{name} is {share}; expected more than 0 and at most 1"
                )
