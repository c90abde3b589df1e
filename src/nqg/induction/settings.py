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
    """What a symbol costs, which rules may be proposed, and how much of the data is searched.

    A star marks what is not in the paper. The page on induction explains the search.

    >>> InductionSettings.named("scan").terminal_bits
    32.0
    """

    # Cost of a word in a rule. A higher cost gives fewer and more general rules.
    terminal_bits: float = 8.0
    # Cost of a non-terminal in a rule.
    non_terminal_bits: float = 1.0
    # Begin with rules for strings that a sentence and its program share: `m0 ### m0`.
    identity_rules: bool = True
    # A string that repeats in a program may become a non-terminal that repeats.
    repeated_targets: bool = False
    # Search on the N shortest examples. Others that are not derivable get a rule each. Without a
    # number, search on all.
    shortest: int | None = None
    # * Then double N up to this many times with the shortest examples that are not derivable.
    stages: int = 0
    # Estimate the ambiguity of a rule on this many of the examples that it touches, drawn at each
    # step. The paper has 10. Without a number, use all.
    sample: int | None = None
    # Weight of ambiguity when rules are ranked. A lower weight gives more general rules.
    data_weight: float = 1.0
    # * When nothing else helps, split rules into two new ones.
    factoring: bool = False
    # * First search without the common beginning and end of all programs, such as `answer (` and `)`.
    frame: bool = False
    # * Begin with rules for words and target tokens that occur together (`left ### I_TURN_LEFT`) or
    # begin alike (`capitals ### capital`).
    lexical: bool = False
    # * Finally remove each rule in turn, search again, and keep the shorter result.
    returning: bool = False
    # * Compare grammars by fitted probabilities of rules instead of equal weights.
    fitted: bool = False
    # * Finally remove rules that no example needs.
    pruning: bool = True
    # No rule with unbalanced parentheses.
    balanced: bool = True
    # A target may be a non-terminal alone: `please NT_1 ### NT_1`.
    bare_targets: bool = True
    # Most non-terminals in a rule.
    max_non_terminals: int = MAX_NON_TERMINALS
    # Stop when no rule saves more bits than this.
    minimum_gain: float = 0.0
    # Seed of the sample.
    seed: int = 0
    # * Bound on the work of the search: 1 allows 400 million hyperedges of charts, and 1,500 more for
    # each token of the examples. Without a number, there is no bound.
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
        """The settings with which the trials begin (`tuning.trials`)."""
        sample = cls(data_weight=0.25, repeated_targets=True, shortest=500, stages=20)
        extended = replace(sample, frame=True, lexical=True, returning=True)
        return replace(extended, fitted=True, budget=1.0)

    @classmethod
    def for_slots(cls) -> InductionSettings:
        """The settings for data with slots, without trials, because typed trials are slow.

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

    # Most rules from the root of a derivation to its deepest rule.
    depth: int = 10
    # Most tokens of a program. Without a number, half as many again as in the longest example.
    longest: int | None = None
    # How many examples the uniform distribution over the rules of a type is worth.
    smoothing: float = 3.0
    # Share of the choices that are made as similar places have them, for combinations that no
    # example has.
    explore: float = 0.0
    # How much rules with rare tokens are favoured. 1 makes up for their rarity.
    rare: float = 0.0
    # How much rules are favoured for each token that they write.
    longer: float = 0.0
    # Most sentences for one program.
    per_target: int = 30

    def __post_init__(self) -> None:
        check_at_least(1, self, "depth", "longest", "per_target")
        if self.smoothing <= 0 or self.rare < 0:
            raise SettingsError(
                f"smoothing is {self.smoothing} and rare {self.rare}; expected above 0 and 0 or more"
            )
        if not 0 <= self.explore <= 1:
            raise SettingsError(f"explore is {self.explore}; expected 0 to 1")
