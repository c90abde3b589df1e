"""A recipe: which data, which systems with which settings, and what the paper reports for them.

Recipes are TOML files, one for each column of the paper's tables, in `recipes/` beside this file. The settings in them
are the paper's; what they leave out are the defaults of each stage or, with `like = "NAME"`, what the recipe of that
name says, but for the paper's figures. A table is taken over whole, or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from nqg.errors import SettingsError, UnknownName
from nqg.evaluation.calibration import HeldOut
from nqg.induction.settings import InductionSettings
from nqg.model.settings import EMBEDDED
from nqg.paper.baselines import BASELINES
from nqg.seq2seq.settings import AugmentationSettings
from nqg.settings_reader import Settings, change_value, read_dataclass, read_toml

SystemName = Literal[
    "nqg",
    "typed",
    "inferred",
    "syntactic-attention",
    "cgps",
    "seq2seq",
    "schemaless",
    "geca",
    "augmented",
    "taught",
    "hybrid",
    "gated",
]
SYSTEMS: tuple[SystemName, ...] = get_args(SystemName)
GRAMMARS: tuple[SystemName, ...] = (
    "nqg",
    "typed",
    "inferred",
)  # the paper's parser, and two with types
FALLBACKS: tuple[SystemName, ...] = (
    "seq2seq",
    "schemaless",
    "geca",
    "augmented",
    "taught",
)  # T5 in all its forms
PUBLISHED: tuple[SystemName, ...] = (
    "syntactic-attention",
    "cgps",
)  # those of others, without pre-trained weights
SCRATCH = "scratch"  # how records call the weights of those
UNUSED = frozenset({"rounds", "programs", "sentences", "round_steps"})  # by `augmented`
FOLDER = Path(__file__).with_name("recipes")


@dataclass(frozen=True, slots=True)
class SystemPlan:
    """The pre-trained weights of a system, by their Hugging Face name, and the settings of its training.

    `offline` stands in for the weights where they are not available. Only settings that differ from the defaults are
    named; other weights may want other ones: `others` has them by the name of the weights.
    """

    weights: str = EMBEDDED
    offline: str = EMBEDDED
    training: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def values(self, weights: str) -> dict[str, Any]:
        return {**self.training, **self.others.get(Path(weights).name, {})}

    def settings(self, kind: type[Settings], weights: str, seed: int, name: str) -> Settings:
        """The settings of a training from `weights`; an unknown one is refused with the `name` of the table."""
        return read_dataclass(kind, {**self.values(weights), "seed": seed}, name)


@dataclass(frozen=True, slots=True)
class PaperFigures:
    """What the paper reports: accuracies by system in per cent, and facts of NQG and of the split by name."""

    accuracy: Mapping[str, float] = field(default_factory=dict)
    nqg: Mapping[str, float] = field(default_factory=dict)
    split: Mapping[str, float] = field(default_factory=dict)
    deviation: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, float] = field(
        default_factory=dict
    )  # of T5-Base: how many, and shares of causes in per cent


@dataclass(frozen=True, slots=True)
class Recipe:
    """One column of the paper's tables, from data to figures; or what anybody wants to compare on their own files."""

    name: str
    dataset: str  # by its name, or a file of examples
    split: str  # by its name or, of a file, one that `nqg split` wrote, or a file of test examples
    systems: tuple[SystemName, ...] = ("nqg", "seq2seq", "hybrid")
    nqg: SystemPlan = SystemPlan()
    seq2seq: SystemPlan = SystemPlan()
    augmented: SystemPlan = SystemPlan()  # the same model, taught by the grammar
    augmentation: AugmentationSettings = field(default_factory=AugmentationSettings)
    taught: SystemPlan = SystemPlan()  # the same with round trips and all that helps in decoding
    teaching: AugmentationSettings = field(default_factory=AugmentationSettings)
    held_out: HeldOut | None = (
        None  # a quarter of the training examples takes the place of the test examples
    )
    metric: Literal["exact", "spider"] = "exact"
    random_train_size: int | None = None  # the split is ours: that many examples, drawn with seed 0
    induction: Mapping[str, Any] = field(
        default_factory=dict
    )  # what differs from the dataset's own settings
    trials: bool = (
        False  # trial searches choose the settings of induction, as in `nqg induce`, not the paper
    )
    names_aliases: bool = (
        False  # the grammar calls the aliases of SQL after their tables; answers count them again
    )
    target_grammar: str | None = (
        None  # a file that says which programs are legal; that of FunQL is known
    )
    paper: PaperFigures = PaperFigures()

    def __post_init__(self) -> None:
        if not self.systems:
            raise SettingsError("'systems' names none; expected at least one")
        if self.random_train_size is not None and self.random_train_size < 1:
            raise SettingsError(
                f"'random_train_size' is {self.random_train_size}; expected at least 1"
            )

    @property
    def title(self) -> str:
        """The recipe in words, as tables name it.

        >>> read_recipe("geoquery-tmcd").title
        'geoquery, tmcd'
        """
        return f"{self.dataset}, {self.split}"

    def fingerprint(self, system: SystemName, weights: str) -> str:
        """SHA-256 of everything in the recipe that a result of `system` with `weights` depends on.

        The weights of a hybrid are those of its parts with a `+` between them.
        """
        first, *rest = weights.split("+")
        plans = {
            "nqg": self.nqg.values(first),
            "seq2seq": self.seq2seq.values(rest[0] if rest else first),
        }
        one = "nqg" if system in GRAMMARS else system
        used: dict[str, Any] = {
            name: each for name, each in plans.items() if one in (name, "hybrid", "gated")
        }
        if system == "schemaless":
            used = {"seq2seq": plans["seq2seq"], "schema": False}
        elif system == "augmented":
            chosen = {
                name: value
                for name, value in asdict(self.augmentation).items()
                if name not in UNUSED
            }
            used = {"augmented": self.augmented.values(first), "augmentation": chosen}
        elif system == "taught":
            used = {"taught": self.taught.values(first), "teaching": asdict(self.teaching)}
        elif system == "geca":
            used = {
                "augmented": self.augmented.values(first),
                "real_share": self.augmentation.real_share,
            }
        elif system in PUBLISHED:
            used = {system: asdict(BASELINES[system])}
        facts = [
            self.dataset,
            self.split,
            self.metric,
            self.random_train_size,
            dict(self.induction),
            used,
        ]
        facts += [self.held_out] if self.held_out else []
        facts += (
            ["trials"]
            if self.trials and system not in ("seq2seq", "schemaless", "geca", *PUBLISHED)
            else []
        )
        facts += (
            ["names_aliases"]
            if self.names_aliases and system not in ("seq2seq", "schemaless")
            else []
        )
        facts += [self.target_grammar] if self.target_grammar else []
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def recipe_names() -> list[str]:
    """The recipes that nqg brings along.

    >>> "scan-length" in recipe_names()
    True
    """
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_recipe(name: str, changes: Sequence[str] = ()) -> Recipe:
    """A recipe by its name, or one of your own by the path of its file; with changes, a recipe of its own.

    >>> changed = read_recipe("geoquery-length", ["teaching.kept=1.0"])
    >>> changed.name, changed.teaching.kept
    ('geoquery-length,teaching.kept=1.0', 1.0)
    """
    path = Path(name) if name.endswith(".toml") else _path(name)
    values = read_toml(path)
    if "like" in values:
        model = read_toml(_path(str(values.pop("like"))))
        values = {key: model[key] for key in model if key != "paper"} | values
    values["name"] = ",".join([path.stem, *changes])
    for change in changes:
        change_value(values, change)
    for system, weights in (
        ("nqg", "encoder"),
        *((each, "model") for each in ("seq2seq", "augmented", "taught")),
    ):
        if isinstance(table := values.get(system), dict):
            named = {weights: "weights", "offline": "offline", "other": "others"}
            training = {key: table[key] for key in table if key not in named}
            values[system] = {named[key]: table[key] for key in named if key in table} | {
                "training": training
            }
    recipe = read_dataclass(Recipe, values, "the recipe", path)
    read_dataclass(
        InductionSettings, recipe.induction, "[induction]", path
    )  # a wrong one is refused early
    return replace(recipe, systems=tuple(system for system in SYSTEMS if system in recipe.systems))


def _path(name: str) -> Path:
    if name not in recipe_names():
        raise UnknownName("recipe", name, recipe_names())
    return FOLDER / f"{name}.toml"


HUB_TIMEOUT = 3.0  # seconds to wait for the hub, so that a run without a network begins soon


@dataclass(frozen=True, slots=True)
class UsedWeights:
    """Encoder and sequence-to-sequence model, as paths or names, beside what the recipe asks for."""

    recipe: Recipe
    encoder: str
    seq2seq: str

    def path(self, system: SystemName) -> str:
        if system in PUBLISHED:
            return system
        return self.encoder if system in GRAMMARS else self.seq2seq

    def label(self, system: SystemName) -> str:
        """How records and tables call the weights.

        >>> from nqg.paper.recipe import read_recipe
        >>> used = UsedWeights(read_recipe("scan-length"), "embedded", "/models/flan-t5-small")
        >>> used.label("seq2seq"), used.label("hybrid")
        ('flan-t5-small', 'embedded+flan-t5-small')
        """
        alone = {each: [self.seq2seq] for each in FALLBACKS} | {
            each: [self.encoder] for each in GRAMMARS
        }
        alone |= {each: [SCRATCH] for each in PUBLISHED}
        parts = alone.get(system, [self.encoder, self.seq2seq])
        is_hub_name = [part.count("/") == 1 and not Path(part).exists() for part in parts]
        return "+".join(
            part if whole else Path(part).name
            for part, whole in zip(parts, is_hub_name, strict=True)
        )

    def asked(self, system: SystemName) -> str:
        """The weights that the recipe names, written like a label."""
        return UsedWeights(self.recipe, self.recipe.nqg.weights, self.recipe.seq2seq.weights).label(
            system
        )


def used_weights(
    recipe: Recipe,
    encoder: str | None = None,
    seq2seq: str | None = None,
    *,
    systems: Sequence[SystemName] = SYSTEMS,
    available: Callable[[str], bool] | None = None,
) -> UsedWeights:
    """The weights that the user names, else the recipe's where they are available, else what stands in for them.

    Nobody is asked for weights that none of the `systems` needs.
    """
    is_there = available or is_available

    def chosen(plan: SystemPlan, needless: Sequence[SystemName]) -> str:
        is_needless = {*systems} <= {*needless, *PUBLISHED}
        return plan.weights if is_needless or is_there(plan.weights) else plan.offline

    encoder = encoder or chosen(recipe.nqg, FALLBACKS)
    return UsedWeights(recipe, encoder, seq2seq or chosen(recipe.seq2seq, GRAMMARS))


def is_available(name: str) -> bool:
    """Whether weights are embedded, lie in a folder or the cache, or on the hub within a few seconds."""
    if name == EMBEDDED or Path(name).is_dir():
        return True
    from huggingface_hub import HfApi, try_to_load_from_cache

    if isinstance(try_to_load_from_cache(name, "config.json"), str):
        return True
    try:
        return bool(HfApi().model_info(name, timeout=HUB_TIMEOUT))
    except Exception:  # whatever keeps the hub from answering, the stand-in is used and says so
        return False
