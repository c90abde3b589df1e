"""The settings of a training: a small frozen dataclass for each stage, named as the tables of a TOML file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nqg.errors import SettingsError, check_at_least
from nqg.evaluation.calibration import LEAST_PRECISION, HeldOut
from nqg.induction.settings import InductionSettings
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.preprocessing.preprocessor import TextSettings
from nqg.seq2seq.settings import AugmentationSettings, FineTuningSettings, Seq2seqSettings
from nqg.settings_reader import read_dataclass, read_toml

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from nqg.model.checkpoint import SavedModel

AUTOMATIC, INFERRED, NONE = "auto", "inferred", "none"
TEACHING = AugmentationSettings(
    kept=0.5
)  # how a grammar teaches a fallback where only the number of samples is given
SECOND_READER_TABLES = ("fine_tuning", "augmentation")


@dataclass(frozen=True, slots=True)
class TypeSettings:
    """Which programs are legal: "inferred" from the training programs, "none" (all are), or the path of a grammar.

    With "auto" they are those of a database, or of the model that training goes on from, or inferred.
    """

    target_grammar: str = AUTOMATIC
    skip_illegal: bool = False  # leave out examples with illegal programs instead of refusing them


@dataclass(frozen=True, slots=True)
class ConfidenceSettings:
    """How confidence is learned from examples that are held out in turn, and what it is used for."""

    folds: int | None = None  # None: as many as suit the number of examples; 0: no confidence
    hold_out: HeldOut = HeldOut.TEMPLATE
    min_precision: float = LEAST_PRECISION
    gate: bool = (
        False  # the fallback also answers where the grammar is unsure; the threshold is learned
    )

    def __post_init__(self) -> None:
        check_at_least(0, self, "folds")
        if self.folds == 1:
            raise SettingsError("folds is 1; expected 2 or more, or 0 for no confidence")
        if self.gate and self.folds == 0:
            raise SettingsError(
                "folds is 0; a gate needs 2 or more, on which its threshold is learned"
            )
        if not 0 <= self.min_precision <= 1:
            raise SettingsError(f"min_precision is {self.min_precision}; expected 0 to 1")


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What changes how a training runs, and nothing of its result."""

    save_every: int | None = None  # steps that a kill can cost; None: as suits what is trained
    tensorboard: str | None = None  # folder for curves

    def __post_init__(self) -> None:
        check_at_least(1, self, "save_every")


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """Everything that decides what `nqg.train` makes of its data, a table for each stage.

    Without `model` there is no grammar: a sequence-to-sequence model is all that is trained. Without `seq2seq` there is
    no fallback, without `augmentation` it learns from the examples alone, and without `induction` trial searches choose
    the settings of the search for rules.
    """

    text: TextSettings = field(default_factory=TextSettings)
    slots: Mapping[str, Any] = field(
        default_factory=dict
    )  # the declared ones, as a settings file has them
    types: TypeSettings = field(default_factory=TypeSettings)
    induction: InductionSettings | None = None
    model: ModelSettings | None = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    seq2seq: Seq2seqSettings | None = None
    fine_tuning: FineTuningSettings = field(default_factory=FineTuningSettings)
    augmentation: AugmentationSettings | None = None
    confidence: ConfidenceSettings = field(default_factory=ConfidenceSettings)
    run: RunSettings = field(default_factory=RunSettings)
    file: Path | None = field(
        default=None, compare=False
    )  # that these were read from: its paths are relative to it

    def check(self) -> None:
        """Refuse settings of a fallback where there is none."""
        if self.seq2seq is not None:
            return
        if self.confidence.gate:
            raise SettingsError("a gate needs a fallback; name one as 'seq2seq'")
        if self.augmentation is not None:
            raise SettingsError("samples teach a fallback; name one as 'seq2seq'")
        if self.model is None:
            raise SettingsError("neither 'model' nor 'seq2seq' is set; expected at least one")

    @classmethod
    def read(cls, path: Path | str) -> TrainSettings:
        """The settings in a TOML file; an unknown key or a value of another type is refused by name.

        A table [seq2seq], even an empty one, asks for a fallback.
        """
        file = Path(path)
        return replace(read_dataclass(cls, read_toml(file), "the settings", file), file=file)

    def with_seq2seq(self, model: str) -> TrainSettings:
        """The same settings with a fallback: weights from Hugging Face, a folder, or "embedded"."""
        return replace(
            self, seq2seq=replace(self.seq2seq or Seq2seqSettings.of(model), model=model)
        )

    def tables(self) -> Iterator[tuple[str, DataclassInstance]]:
        """The settings of each stage under the name of their table; without a fallback, none of its."""
        for table in fields(self):
            value = getattr(self, table.name)
            is_unused = self.seq2seq is None and table.name in SECOND_READER_TABLES
            if table.name not in ("slots", "file") and value is not None and not is_unused:
                yield table.name, value


def recorded_settings(model: SavedModel, folder: Path) -> TrainSettings:
    """The settings with which a model was trained, as far as its folder has them."""
    place = folder / "nqg.json"
    training = read_dataclass(
        TrainingSettings, dict(model.provenance.training), "'training'", place
    )
    if model.provenance.induction:
        induction = read_dataclass(
            InductionSettings, dict(model.provenance.induction), "'induction'", place
        )
    elif model.text.slots.slots:
        induction = InductionSettings.for_slots()
    else:
        induction = InductionSettings.automatic()
    return TrainSettings(model=model.settings, training=training, induction=induction)


def in_words(settings: DataclassInstance) -> str:
    """Settings on one line.

    >>> in_words(InductionSettings())[:46]
    'terminal_bits = 8.0, non_terminal_bits = 1.0, '
    """
    return ", ".join(f"{each.name} = {getattr(settings, each.name)}" for each in fields(settings))
