"""The settings of a training: a dataclass for each stage, named as the tables of a TOML file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nqg.errors import SettingsError, check_at_least
from nqg.evaluation.calibration import CALIBRATION_FOLDS, HeldOut
from nqg.induction.settings import InductionSettings
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.preprocessing.preprocessor import TextSettings
from nqg.seq2seq.settings import (
    AugmentationSettings,
    FineTuningSettings,
    Seq2seqSettings,
)
from nqg.settings_reader import read_dataclass, read_toml

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from nqg.model.checkpoint import SavedModel

AUTOMATIC, INFERRED, NONE = "auto", "inferred", "none"
# How a grammar teaches a second reader where only the number of samples is given.
TEACHING = AugmentationSettings(kept=0.5)
SECOND_READER_TABLES = ("fine_tuning", "augmentation")


@dataclass(frozen=True)
class TypeSettings:
    """Which programs are legal.

    >>> TypeSettings("none").target_grammar, TypeSettings().target_grammar
    ('none', 'auto')
    """

    # "inferred" from training programs, "none" (all are legal), a name, or the file of a grammar.
    # "auto" takes the grammar of a database, or of the model that training continues, or infers one.
    target_grammar: str = AUTOMATIC
    # Leave out examples with illegal programs, instead of refusing the file.
    skip_illegal: bool = False

    @property
    def has_file(self) -> bool:
        """Whether the types are those of a file, or of a language with a name."""
        return self.target_grammar not in (AUTOMATIC, INFERRED, NONE)


@dataclass(frozen=True)
class ConfidenceSettings:
    """How confidence is learned from examples that are held out in turn, and what it is used for.

    >>> str(ConfidenceSettings(least_precision=0.9).hold_out)
    'random'
    """

    # How many fifths of the examples are held out in turn, where 0 means no confidence. Without a
    # number, about as many as hold 300 examples, or one where a second reader is trained on a CPU.
    folds: int | None = None
    # Which examples are held out together.
    hold_out: HeldOut = HeldOut.RANDOM
    # Share of answers that should be right. A model abstains where its confidence is too low for it.
    least_precision: float = 0.95
    # With pre-trained weights, teach all examples to the second reader of the first fold, once it was
    # asked about those that were held out, instead of training another. By default on a CPU.
    continue_fold: bool | None = None

    def __post_init__(self) -> None:
        check_at_least(0, self, "folds")
        if self.folds is not None and self.folds > CALIBRATION_FOLDS:
            raise SettingsError(
                f"folds is {self.folds}; expected 0 to {CALIBRATION_FOLDS}"
            )
        if not 0 <= self.least_precision <= 1:
            raise SettingsError(
                f"least_precision is {self.least_precision}; expected 0 to 1"
            )


@dataclass(frozen=True)
class RunSettings:
    """What changes how a training runs, and nothing of its result."""

    # Steps between two stored states of training. Without a number, it follows from the model.
    save_every: int | None = None

    def __post_init__(self) -> None:
        check_at_least(1, self, "save_every")


@dataclass(frozen=True)
class TrainSettings:
    """Everything that decides what `nqg.train` makes of its data, a table for each stage.

    Without `model` there is no grammar: a sequence-to-sequence model is all that is trained.
    Without `seq2seq` there is no second reader, without `augmentation` it learns from the examples
    alone, and without `induction` trial searches choose the settings of the search for rules.
    `slots` are the declared ones, as a settings file has them. Paths are relative to the `file`
    that the settings were read from.

    >>> settings = TrainSettings(confidence=ConfidenceSettings(folds=0))
    >>> settings.with_seq2seq("google/flan-t5-small").seq2seq.model
    'google/flan-t5-small'
    """

    text: TextSettings = field(default_factory=TextSettings)
    slots: Mapping[str, Any] = field(default_factory=dict)
    types: TypeSettings = field(default_factory=TypeSettings)
    induction: InductionSettings | None = None
    model: ModelSettings | None = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    seq2seq: Seq2seqSettings | None = None
    fine_tuning: FineTuningSettings = field(default_factory=FineTuningSettings)
    augmentation: AugmentationSettings | None = None
    confidence: ConfidenceSettings = field(default_factory=ConfidenceSettings)
    run: RunSettings = field(default_factory=RunSettings)
    file: Path | None = field(default=None, compare=False)

    def check(self) -> None:
        """Refuse settings of a second reader where there is none."""
        if self.seq2seq:
            return
        if self.augmentation:
            raise SettingsError("samples teach a fallback; name one as 'seq2seq'")
        if self.model is None:
            raise SettingsError(
                "neither 'model' nor 'seq2seq' is set; expected at least one"
            )

    @classmethod
    def of(cls, settings: TrainSettings | Path | str | None) -> TrainSettings:
        """Settings, those in a TOML file, or the defaults."""
        if settings is None:
            return cls()
        if isinstance(settings, str | Path):
            return cls.read(settings)
        return settings

    @classmethod
    def read(cls, path: Path | str) -> TrainSettings:
        """The settings in a TOML file. An unknown key or a value of another type is refused by
        name.

        A table [seq2seq], even an empty one, asks for a second reader.
        """
        file = Path(path)
        return replace(
            read_dataclass(cls, read_toml(file), "the settings", file), file=file
        )

    def with_seq2seq(self, model: str) -> TrainSettings:
        """The same settings with a second reader: weights from Hugging Face, a folder, or "embedded"."""
        # Its other settings stay.
        seq2seq = replace(self.seq2seq or Seq2seqSettings.of(model), model=model)
        return replace(self, seq2seq=seq2seq)

    def tables(self) -> Iterator[tuple[str, DataclassInstance]]:
        """The settings of each stage under the name of their table. A second reader may have none."""
        for table in fields(self):
            value = getattr(self, table.name)
            is_unused = self.seq2seq is None and table.name in SECOND_READER_TABLES
            if (
                table.name not in ("slots", "file")
                and value is not None
                and not is_unused
            ):
                yield table.name, value


def recorded_settings(model: SavedModel, folder: Path) -> TrainSettings:
    """The settings with which a model was trained, as far as its folder has them."""
    recorded, index = model.provenance, folder / "nqg.json"
    training = read_dataclass(
        TrainingSettings, dict(recorded.training), "'training'", index
    )
    # Older models do not record the settings of induction.
    induction = InductionSettings.automatic()
    if model.text.slots.slots:
        induction = InductionSettings.for_slots()
    if recorded.induction:
        values = dict(recorded.induction)
        induction = read_dataclass(InductionSettings, values, "'induction'", index)
    return TrainSettings(model=model.settings, training=training, induction=induction)


def in_words(settings: DataclassInstance) -> str:
    """Settings on one line.

    >>> in_words(InductionSettings())[:46]
    'terminal_bits = 8.0, non_terminal_bits = 1.0, '
    """
    return ", ".join(
        f"{field.name} = {getattr(settings, field.name)}" for field in fields(settings)
    )
