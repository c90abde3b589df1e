"""The settings of the parsing model and of its training; the defaults are the paper's."""

from __future__ import annotations

from dataclasses import dataclass

from nqg.errors import SettingsError

EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """The small BERT that is trained from scratch where no pre-trained encoder is named."""

    hidden_size: int = 128
    layers: int = 2
    heads: int = 4
    longest: int = 512


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which encoder (a Hugging Face name or folder, or the embedded one), and the width of the scorer."""

    encoder: str = EMBEDDED
    dimension: int = 256  # d of appendix A.3
    embedded: EncoderSettings = EncoderSettings()


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How the model is fitted. `learning_rate` None: 1e-4 for pre-trained encoders, 1e-3 from scratch."""

    steps: int = 256
    batch_size: int = 256
    learning_rate: float | None = None
    warm_up: int = 100
    weight_decay: float = 0.01
    clip: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; expected 1 or more")
        if self.learning_rate is not None and self.learning_rate <= 0:
            raise SettingsError(f"learning_rate is {self.learning_rate}; expected more than 0")

    def rate(self, encoder: str) -> float:
        """The learning rate at its highest."""
        return self.learning_rate or (1e-3 if encoder == EMBEDDED else 1e-4)
