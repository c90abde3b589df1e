"""The settings of the parsing model and of its training; the defaults are the paper's."""

from __future__ import annotations

from dataclasses import dataclass

from nqg.errors import SettingsError

EMBEDDED = "embedded"


def _check_positive(settings: object, *names: str) -> None:
    for name in names:
        if getattr(settings, name) < 1:
            raise SettingsError(f"{name} is {getattr(settings, name)}; expected 1 or more")


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """The small BERT that is trained from scratch where no pre-trained encoder is named."""

    hidden_size: int = 128
    layers: int = 2
    heads: int = 4
    longest: int = 512

    def __post_init__(self) -> None:
        _check_positive(self, "hidden_size", "layers", "heads", "longest")
        if self.hidden_size % self.heads:
            raise SettingsError(
                f"hidden_size is {self.hidden_size}; expected a multiple of heads, which is {self.heads}"
            )


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which encoder (a Hugging Face name or folder, or the embedded one), and the width of the scorer."""

    encoder: str = EMBEDDED
    dimension: int = 256  # d of appendix A.3
    embedded: EncoderSettings = EncoderSettings()

    def __post_init__(self) -> None:
        _check_positive(self, "dimension")


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
        _check_positive(self, "steps", "batch_size")
        if self.learning_rate is not None and self.learning_rate <= 0:
            raise SettingsError(f"learning_rate is {self.learning_rate}; expected more than 0")

    def rate(self, encoder: str) -> float:
        """The learning rate at its highest."""
        return self.learning_rate or (1e-3 if encoder == EMBEDDED else 1e-4)
