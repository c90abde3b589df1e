"""Which settings hold: options override --like, which overrides the project's TOML file, else the defaults hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from nqg.induction.settings import InductionSettings
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.seq2seq.settings import BASELINES, AugmentationSettings, FineTuningSettings, Seq2seqSettings
from nqg.settings_reader import read_dataclass, read_toml
from nqg.text.preprocessing import TextSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from nqg.model.checkpoint import SavedModel

TAUGHT = AugmentationSettings(kept=0.5)
OF_FALLBACKS = ("fine_tuning", "augmentation")
Settings = TypeVar("Settings", bound="DataclassInstance")

SETTINGS = typer.Option(None, "--settings", metavar="FILE", help="Read settings from this TOML file; see `nqg init`.")
LIKE = typer.Option(
    None, "--like", metavar="NAME", help="Use the settings for: geoquery, scan, spider-ssp, spider-xsp."
)


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """How a project's text is cut, its grammar induced, its parser built and trained, and perhaps a fallback too."""

    text: TextSettings = field(default_factory=TextSettings)
    slots: Mapping[str, Any] = field(default_factory=dict)  # as `nqg.text.slots.read_slots` reads them
    induction: InductionSettings | None = None  # chosen by trials
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    seq2seq: Seq2seqSettings | None = None  # no fallback
    fine_tuning: FineTuningSettings = field(default_factory=FineTuningSettings)
    augmentation: AugmentationSettings | None = None  # the fallback learns from the examples alone

    def tables(self) -> Iterator[tuple[str, Any]]:
        """The settings of each stage under the name of their table; without a fallback, none of its."""
        for each in fields(self):
            value = getattr(self, each.name)
            is_shown = each.name != "slots" and (self.seq2seq is not None or each.name not in OF_FALLBACKS)
            if value is not None and is_shown:
                yield each.name, value


def read_settings(path: Path) -> ProjectSettings:
    """The settings in a file; an unknown key or a value of another type is refused by name.

    A table [seq2seq], even an empty one, asks for a fallback.
    """
    return read_dataclass(ProjectSettings, read_toml(path), "the settings", path)


def induction_settings(
    like: str | None, given: Mapping[str, Any], base: InductionSettings | None = None
) -> InductionSettings:
    """The settings for a dataset, else those of `base`, else the defaults, changed by what the command line says."""
    named = InductionSettings.named(like) if like else base or InductionSettings()
    return named.changed(**given_induction_settings(given))


def given_induction_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    values = {each.name: given[each.name] for each in fields(InductionSettings) if given.get(each.name) is not None}
    for name in ("shortest", "sample"):
        if name in values:
            try:
                values[name] = None if values[name] == "all" else int(values[name])
            except ValueError as error:
                reason = f"'{values[name]}' is neither a number nor 'all'"
                raise typer.BadParameter(reason, param_hint=f"--{name}") from error
    return values


def recorded_settings(model: SavedModel, folder: Path) -> ProjectSettings:
    """The settings with which a model was trained, as far as it has them."""
    made, place = model.provenance, folder / "nqg.json"
    training = read_dataclass(TrainingSettings, dict(made.training), "'training'", place)
    induction = InductionSettings.for_slots() if model.text.slots.slots else InductionSettings.automatic()
    if made.induction:
        induction = read_dataclass(InductionSettings, dict(made.induction), "'induction'", place)
    return ProjectSettings(model=model.settings, training=training, induction=induction)


def project_settings(given: Mapping[str, Any], earlier: SavedModel | None = None) -> ProjectSettings:
    """The settings of `nqg train`, from the values of its options, else those of an `earlier` model."""
    base = recorded_settings(earlier, given["earlier"]) if earlier else ProjectSettings()
    if given["settings"]:
        read = read_settings(given["settings"])
        base = replace(read, induction=read.induction or base.induction)
    if given["grammar"] and given["like"]:
        raise typer.BadParameter("--like is for inducing a grammar; omit it with --grammar", param_hint="--like")

    def changed(settings: Settings, values: Mapping[str, Any]) -> Settings:
        names = [each.name for each in fields(settings) if values.get(each.name) is not None]
        return replace(settings, **{name: values[name] for name in names})

    seq2seq = base.seq2seq
    if given["seq2seq"] is not None:
        seq2seq = replace(seq2seq or Seq2seqSettings.of(given["seq2seq"]), model=given["seq2seq"])
    tuning = {"steps": given["seq2seq_steps"], "batch_size": given["seq2seq_batch_size"], "seed": given["seed"]}
    if given["system"] is not None:
        seq2seq, tuning = Seq2seqSettings.of(given["system"]), dict(given)
    fine_tuning = base.fine_tuning
    if seq2seq and seq2seq.model in BASELINES and fine_tuning == FineTuningSettings():
        fine_tuning = BASELINES[seq2seq.model].training
    return ProjectSettings(
        changed(base.text, given),
        base.slots,
        induction_settings(given["like"], {}, base.induction) if given["like"] else base.induction,
        changed(base.model, given),
        changed(base.training, given),
        seq2seq,
        changed(fine_tuning, tuning),
        replace(base.augmentation or TAUGHT, samples=given["augment"]) if given["augment"] else base.augmentation,
    )


def setting_option(defaults: DataclassInstance, name: str, metavar: str, words: str, panel: str, **more: Any) -> Any:
    """An option for a setting; its default is None, so that --like, the file or the default can decide."""
    default = getattr(defaults, name)
    flag = f"--{name.replace('_', '-')}"
    shown = f"{default:g}" if isinstance(default, float) else "all" if default is None else str(default)
    if isinstance(default, bool):
        flag, shown = f"{flag}/--no-{flag[2:]}", "yes" if default else "no"
    return typer.Option(
        None, flag, metavar=metavar, help=words, rich_help_panel=panel, **{"show_default": shown, **more}
    )


def in_words(settings: DataclassInstance) -> str:
    """Settings on one line.

    >>> in_words(InductionSettings())[:46]
    'terminal_bits = 8.0, non_terminal_bits = 1.0, '
    """
    return ", ".join(f"{each.name} = {getattr(settings, each.name)}" for each in fields(settings))
