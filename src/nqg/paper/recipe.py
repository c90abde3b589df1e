"""A recipe: which data, which systems with which settings, and what the paper reports for them.

Recipes are TOML files, one for each column of the paper's tables, in `recipes/` beside this file.
The settings in them are the paper's; what they leave out are the defaults of each stage or, with
`like = "NAME"`, what the recipe of that name says, but for the paper's figures. A table is taken
over whole, or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from nqg.errors import SettingsError, UnknownName
from nqg.induction.settings import InductionSettings
from nqg.model.settings import EMBEDDED
from nqg.paper.schema_text import SchemaSettings
from nqg.seq2seq.settings import AugmentationSettings
from nqg.settings_reader import Settings, change_value, read_dataclass, read_toml

SystemName = Literal[
    "nqg",
    "paper-induction",
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
# The paper's parser with our induction and with the paper's, and two parsers with types.
GRAMMARS: tuple[SystemName, ...] = ("nqg", "paper-induction", "typed", "inferred")
# T5 in all its forms.
FALLBACKS: tuple[SystemName, ...] = (
    "seq2seq",
    "schemaless",
    "geca",
    "augmented",
    "taught",
)
# Systems that others have published, without pre-trained weights, which records call "scratch".
PUBLISHED: tuple[SystemName, ...] = ("syntactic-attention", "cgps")
SCRATCH = "scratch"
# Settings of augmentation that `augmented` does not read, and so its fingerprint does not have.
UNUSED = ("rounds", "programs", "sentences", "round_steps")
FOLDER = Path(__file__).with_name("recipes")


@dataclass(frozen=True, slots=True)
class SystemPlan:
    """The pre-trained weights of a system, by their Hugging Face name, and the settings of its
    training.

    `offline` stands in for the weights where they are not available. Only settings that differ from
    the defaults are named; other weights may want other ones: `others` has them by the name of the
    weights.
    """

    weights: str = EMBEDDED
    offline: str = EMBEDDED
    training: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def values(self, weights: str) -> dict[str, Any]:
        return {**self.training, **self.others.get(Path(weights).name, {})}

    def settings(
        self,
        kind: type[Settings],
        weights: str,
        seed: int,
        name: str,
        defaults: Mapping[str, Any] = MappingProxyType({}),
    ) -> Settings:
        """The settings of a training from `weights`; an unknown one is refused with the `name` of
        the table.
        """
        values = {**defaults, **self.values(weights), "seed": seed}
        return read_dataclass(kind, values, name)


@dataclass(frozen=True, slots=True)
class PaperFigures:
    """What the paper reports: accuracies by system in per cent, and facts of NQG and of the split
    by name.
    """

    accuracy: Mapping[str, float] = field(default_factory=dict)
    # Of accuracies: `‡` those that the paper quotes, `†` those with other settings of the data.
    marks: Mapping[str, str] = field(default_factory=dict)
    nqg: Mapping[str, float] = field(default_factory=dict)
    split: Mapping[str, float] = field(default_factory=dict)
    deviation: Mapping[str, float] = field(default_factory=dict)
    # Of T5-Base: how many, shares of causes and accuracies by unseen atoms in per cent.
    errors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One column of the paper's tables, from data to figures; or what anybody wants to compare on
    their own files.
    """

    name: str
    # A dataset by its name, or a file of examples.
    dataset: str
    # A split by its name or, of a file, one that `nqg split` wrote, or a file of test examples.
    split: str
    systems: tuple[SystemName, ...] = ("nqg", "seq2seq", "hybrid")
    nqg: SystemPlan = SystemPlan()
    seq2seq: SystemPlan = SystemPlan()
    # The same model, taught by the grammar.
    augmented: SystemPlan = SystemPlan()
    augmentation: AugmentationSettings = field(default_factory=AugmentationSettings)
    # The same, with round trips and all that helps in decoding.
    taught: SystemPlan = SystemPlan()
    teaching: AugmentationSettings = field(default_factory=AugmentationSettings)
    # A quarter of the training examples takes the place of the test examples.
    held_out: Literal["random", "template", "length", "tmcd"] | None = None
    metric: Literal["exact", "spider"] = "exact"
    # The split is ours: that many examples, drawn with seed 0.
    random_train_size: int | None = None
    # What differs from the dataset's own settings.
    induction: Mapping[str, Any] = field(default_factory=dict)
    # Trial searches choose the settings of induction, as in `nqg induce`, not the paper.
    trials: bool = False
    # A file that says which programs are legal; that of FunQL is known.
    target_grammar: str | None = None
    # How T5 reads schemas and writes queries under them, where there are schemas.
    schema: SchemaSettings = field(default_factory=SchemaSettings)
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
        encoder, _, fallback = weights.partition("+")
        nqg = self.nqg.values(encoder)
        seq2seq = self.seq2seq.values(fallback or encoder)
        used: dict[str, Any]
        match system:
            case "nqg" | "paper-induction" | "typed" | "inferred":
                used = {"nqg": nqg}
            case "seq2seq":
                used = {"seq2seq": seq2seq}
            case "schemaless":
                used = {"seq2seq": seq2seq, "schema": False}
            case "hybrid" | "gated":
                used = {"nqg": nqg, "seq2seq": seq2seq}
            case "geca":
                used = {"real_share": self.augmentation.real_share}
            case "augmented":
                augmentation = asdict(self.augmentation)
                for name in UNUSED:
                    del augmentation[name]
                used = {"augmentation": augmentation}
            case "taught":
                used = {
                    "taught": self.taught.values(encoder),
                    "teaching": asdict(self.teaching),
                }
            case _:
                # Loads torch.
                from nqg.paper.baselines import BASELINES

                baseline = asdict(BASELINES[system])
                # Added later, and not used.
                del baseline["training"]["freeze_embeddings"]
                # Removed later, and never used.
                baseline["training"] |= {
                    "label_smoothing": 0.0,
                    "scale_by_weights": False,
                }
                used = {system: baseline}
        if system in ("geca", "augmented"):
            used["augmented"] = self.augmented.values(encoder)
        facts: list[Any] = [self.dataset, self.split, self.metric]
        facts += [self.random_train_size, dict(self.induction), used]
        # What was added later is left out where it is not used, so that records stay valid.
        if self.held_out:
            facts.append(self.held_out)
        if self.trials and system not in ("seq2seq", "schemaless", "geca", *PUBLISHED):
            facts.append("trials")
        if self.target_grammar:
            facts.append(self.target_grammar)
        if self.schema != SchemaSettings() and system not in (*GRAMMARS, *PUBLISHED):
            facts.append(asdict(self.schema))
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def recipe_names() -> list[str]:
    """The recipes that nqg brings along.

    >>> "scan-length" in recipe_names()
    True
    """
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_recipe(name: str, changes: Sequence[str] = ()) -> Recipe:
    """A recipe by its name, or one of your own by the path of its file; with changes, a recipe of
    its own.

    >>> changed = read_recipe("geoquery-length", ["teaching.kept=1.0"])
    >>> changed.name, changed.teaching.kept
    ('geoquery-length,teaching.kept=1.0', 1.0)
    """
    path = Path(name) if name.endswith(".toml") else _path(name)
    values = read_toml(path)
    # A recipe that is like another one differs from it in what it says itself.
    while "like" in values:
        model = read_toml(_path(str(values.pop("like"))))
        values = {key: model[key] for key in model if key != "paper"} | values
    values["name"] = ",".join([path.stem, *changes])
    for change in changes:
        change_value(values, change)
    # Weights stand beside settings in a file, but apart from them in a plan.
    for system in ("nqg", "seq2seq", "augmented", "taught"):
        table = values.get(system)
        if isinstance(table, dict):
            weights = "encoder" if system == "nqg" else "model"
            plan = {}
            for key, name in (
                (weights, "weights"),
                ("offline", "offline"),
                ("other", "others"),
            ):
                if key in table:
                    plan[name] = table.pop(key)
            values[system] = plan | {"training": table}
    recipe = read_dataclass(Recipe, values, "the recipe", path)
    # A wrong setting is refused early.
    read_dataclass(InductionSettings, recipe.induction, "[induction]", path)
    return replace(
        recipe, systems=tuple(system for system in SYSTEMS if system in recipe.systems)
    )


def _path(name: str) -> Path:
    if name not in recipe_names():
        raise UnknownName("recipe", name, recipe_names())
    return FOLDER / f"{name}.toml"


# Seconds to wait for the hub, so that a run without a network begins soon.
HUB_TIMEOUT = 3.0


@dataclass(frozen=True, slots=True)
class UsedWeights:
    """Encoder and sequence-to-sequence model, as paths or names, beside those of the recipe."""

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
        if system in PUBLISHED:
            return SCRATCH
        weights = []
        if system not in FALLBACKS:
            weights.append(self.encoder)
        if system not in GRAMMARS:
            weights.append(self.seq2seq)
        return "+".join(map(_label, weights))

    def asked(self, system: SystemName) -> str:
        """The weights that the recipe names, written like a label."""
        plans = self.recipe.nqg, self.recipe.seq2seq
        return UsedWeights(self.recipe, *(plan.weights for plan in plans)).label(system)


def _label(weights: str) -> str:
    is_hub_name = weights.count("/") == 1 and not Path(weights).exists()
    return weights if is_hub_name else Path(weights).name


def used_weights(
    recipe: Recipe,
    encoder: str | None = None,
    seq2seq: str | None = None,
    *,
    systems: Sequence[SystemName] = SYSTEMS,
    available: Callable[[str], bool] | None = None,
) -> UsedWeights:
    """The weights that the user names, else the recipe's where they are available, else what stands
    in for them.

    Nobody is asked for weights that none of the `systems` needs.
    """

    def choose(plan: SystemPlan, needless: Sequence[SystemName]) -> str:
        is_needless = {*systems} <= {*needless, *PUBLISHED}
        if is_needless or (available or is_available)(plan.weights):
            return plan.weights
        return plan.offline

    encoder = encoder or choose(recipe.nqg, FALLBACKS)
    return UsedWeights(recipe, encoder, seq2seq or choose(recipe.seq2seq, GRAMMARS))


def is_available(name: str) -> bool:
    """Whether weights are embedded, lie in a folder or the cache, or on the hub within a few
    seconds.
    """
    if name == EMBEDDED or Path(name).is_dir():
        return True
    from huggingface_hub import HfApi, try_to_load_from_cache

    if isinstance(try_to_load_from_cache(name, "config.json"), str):
        return True
    try:
        return bool(HfApi().model_info(name, timeout=HUB_TIMEOUT))
    except Exception:
        # Whatever keeps the hub from answering, the stand-in is used and says so.
        return False
