"""The settings of induction; the defaults are the paper's for GeoQuery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from nqg.errors import SettingsError, UnknownName, check_above_zero, check_at_least
from nqg.extensions import load_extension
from nqg.grammar.grammar import MAX_NON_TERMINALS

ROUNDING = 1e-6  # bits; sums of thousands of logarithms are exact to far less


@dataclass(frozen=True, slots=True)
class InductionSettings:
    """What a symbol costs, which rules may be proposed, and how much of the data is looked at.

    >>> InductionSettings.named("scan").terminal_bits
    32.0
    """

    terminal_bits: float = 8.0  # l_T
    non_terminal_bits: float = 1.0  # l_N
    identity_rules: bool = (
        True  # begin with rules for strings that a source and its target share
    )
    # A string that repeats in a target may become a non-terminal that repeats.
    repeated_targets: bool = False
    shortest: int | None = (
        None  # N: search on the N shortest examples only. None for all
    )
    # So often the sample may be doubled by what is not derivable yet (not in the
    # paper).
    stages: int = 0
    sample: int | None = (
        None  # k: estimate the data term on so many examples a candidate. None for all: exact
    )
    # This weighs the data term when candidates are ranked. 1 is the objective as
    # printed.
    data_weight: float = 1.0
    # When that has run dry, split rules into two that are both new (not in the paper).
    factoring: bool = False
    # First search without what all targets begin and end with (not in the paper).
    frame: bool = False
    # Begin with rules for words and target tokens that occur together (not in the
    # paper).
    lexical: bool = False
    # Try to do without each rule: examples that need it are searched again (not in the
    # paper).
    returning: bool = False
    # Grammars are compared by fitted probabilities, not equal weights (not in the
    # paper).
    fitted: bool = False
    pruning: bool = (
        True  # finally, remove rules that no example needs (not in the paper)
    )
    balanced: bool = True  # no rule with unbalanced parentheses
    bare_targets: bool = True  # a target may be a non-terminal alone
    max_non_terminals: int = MAX_NON_TERMINALS
    minimum_gain: float = 0.0  # stop when no rule saves more bits than this
    seed: int = 0  # of the sample
    # How much work the search may do: 1 is what `work.py` says, None is no limit (not in
    # the paper).
    budget: float | None = None

    def __post_init__(self) -> None:
        check_above_zero(self, "terminal_bits", "non_terminal_bits", "budget")
        check_at_least(1, self, "shortest", "sample", "max_non_terminals")
        check_at_least(0, self, "minimum_gain", "data_weight", "stages")

    @classmethod
    def named(cls, dataset: str) -> InductionSettings:
        """Our settings for one of the paper's datasets (`nqg.paper.presets`)."""
        presets: Mapping[str, InductionSettings] = load_extension(
            "nqg.paper.presets:INDUCTION"
        )
        if dataset not in presets:
            raise UnknownName("settings for induction", dataset, presets)
        return presets[dataset]

    @classmethod
    def automatic(cls) -> InductionSettings:
        """What a search begins with where nothing is known of the data. `tuning.trials`
        goes on from here.
        """
        sample = cls(data_weight=0.25, repeated_targets=True, shortest=500, stages=20)
        extended = replace(sample, frame=True, lexical=True, returning=True)
        return replace(extended, fitted=True, budget=1.0)

    @classmethod
    def for_slots(cls) -> InductionSettings:
        """What a search in marked examples does: slots leave little to choose, and
        typed trials would take minutes.

        On six projects of 100 to 300 pairs the search ends with two to eight tenths of this
        budget; on Overnight's calendar it does not end.
        """
        return cls(data_weight=0.25, factoring=True, budget=0.25)

    @property
    def least_gain(self) -> float:
        """Bits that a step must save more than: `minimum_gain`, and never just an error
        of rounding.
        """
        return self.minimum_gain + ROUNDING

    def changed(self, **values: Any) -> InductionSettings:
        """These settings with some values changed. An unknown name is refused."""
        known = [field.name for field in fields(self)]
        for name in values:
            if name not in known:
                raise UnknownName("setting of induction", name, known)
        return replace(self, **values)


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """How deep and long, how close to the examples, and how varied the pairs are."""

    depth: int = 10  # rules from the root to the deepest one
    longest: int | None = (
        None  # tokens of a target. None: half as many again as the longest example's
    )
    # The uniform distribution over the rules of a type is worth so many examples.
    smoothing: float = 3.0
    # This share of the choices is made as in similar places, for combinations that no
    # example has.
    explore: float = 0.0
    rare: float = (
        0.0  # how much rules with rare tokens are favoured: 1 makes up for their rarity
    )
    longer: float = 0.0  # how much rules are favoured for each token that they write
    per_target: int = 30  # sentences for one program

    def __post_init__(self) -> None:
        check_at_least(1, self, "depth", "longest", "per_target")
        if self.smoothing <= 0 or self.rare < 0:
            raise SettingsError(
                f"smoothing is {self.smoothing} and rare {self.rare}; expected above 0 and 0 or more"
            )
        if not 0 <= self.explore <= 1:
            raise SettingsError(f"explore is {self.explore}; expected 0 to 1")
