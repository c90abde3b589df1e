"""The settings of the parsing model and of its training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from nqg.errors import SettingsError, UnknownName, check_above_zero, check_at_least

EMBEDDED = "embedded"  # the name of a small model that is trained from scratch
Schedule = Literal["constant", "linear"]  # of the learning rate, after its warm-up
Precision = Literal["auto", "bf16", "float32"]  # auto: bf16 on GPUs that have it


def default_learning_rate(model: str) -> float:
    """The paper's for pre-trained models; a model from scratch learns faster."""
    return 1e-3 if model == EMBEDDED else 1e-4


def fitting_batch(examples: int, most: int) -> int:
    """How many of so many examples a step had better learn from, where nobody says: a quarter, but
    32 or more.
    """
    return min(max(examples // 4, 32), most)


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """The small BERT that is trained from scratch where no pre-trained encoder is named."""

    # Numbers in the vector of a word.
    hidden_size: int = 128
    # Layers of the encoder.
    layers: int = 2
    # Attention heads of a layer.
    heads: int = 4
    # Most subwords of a sentence.
    longest: int = 512

    def __post_init__(self) -> None:
        check_at_least(1, self, "hidden_size", "layers", "heads", "longest")
        if self.hidden_size % self.heads:
            expected = f"expected a multiple of heads, which is {self.heads}"
            raise SettingsError(f"hidden_size is {self.hidden_size}; {expected}")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which encoder (a Hugging Face name or folder, or the embedded one), and the width of the
    scorer.

    >>> ModelSettings(encoder="bert-base-uncased").typed
    True
    """

    # "embedded", or a pre-trained encoder: a Hugging Face name or a folder.
    encoder: str = EMBEDDED
    # Width of the scorer of rules, d in appendix A.3 of the paper.
    dimension: int = 256
    # With a target grammar, only legal derivations count. The paper's parser has false.
    typed: bool = True
    embedded: EncoderSettings = EncoderSettings()

    def __post_init__(self) -> None:
        check_at_least(1, self, "dimension")


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How the model is fitted.

    With dev examples, training ends early when they no longer improve. Without, it ends early when
    the loss stays low.

    >>> TrainingSettings(steps=64, batch_size=32).seed
    0
    """

    # Most steps.
    steps: int = 256
    # Examples of a step. Without a number, a quarter of all, but 32 to 256.
    batch_size: int | None = None
    # Training ends when the loss stays below this number.
    learned: float = 1e-3
    # The highest learning rate. Without a number, it follows from the encoder.
    learning_rate: float | None = None
    # Steps in which the learning rate rises. Without a number, 100, or 16 from scratch.
    warm_up: int | None = None
    # Weight decay of AdamW.
    weight_decay: float = 0.01
    # Largest norm of the gradient.
    clip: float = 1.0
    # Seed of the weights and of the order of examples.
    seed: int = 0
    # "auto" multiplies in bf16 on GPUs that support it. The others are "bf16" and "float32".
    precision: str = "auto"
    # With dev examples, steps between two evaluations.
    evaluate_every: int = 32
    # With dev examples, training ends after this many evaluations without improvement.
    patience: int = 5

    def __post_init__(self) -> None:
        check_at_least(1, self, "steps", "batch_size", "evaluate_every", "patience")
        check_at_least(0, self, "learned", "warm_up", "weight_decay")
        check_above_zero(self, "clip", "learning_rate")
        for name in ("learned", "weight_decay", "learning_rate"):
            if getattr(self, name) == math.inf:
                raise SettingsError(f"{name} is inf; expected a finite number")
        if self.precision not in get_args(Precision):
            raise UnknownName("precision", self.precision, get_args(Precision))

    def batch(self, examples: int) -> int:
        """How many of so many examples a step learns from.

        >>> [TrainingSettings().batch(examples) for examples in (20, 150, 600, 24000)]
        [20, 37, 150, 256]
        """
        return min(examples, self.batch_size or fitting_batch(examples, 256))

    def rate(self, encoder: str) -> float:
        """The learning rate at its highest."""
        return self.learning_rate or default_learning_rate(encoder)

    def warm_up_steps(self, encoder: str) -> int:
        """How many steps the learning rate rises."""
        return (
            self.warm_up
            if self.warm_up is not None
            else 16
            if encoder == EMBEDDED
            else 100
        )
