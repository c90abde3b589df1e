"""The work of a search, counted in units that are the same on every machine, and its limit.

A unit is a hyperedge of a chart, about a tenth of a microsecond. Whatever else takes time is
counted in such units too, by constants that are estimates. Seconds would make the grammar depend
on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from nqg.data.example import Example

# What a search may spend with `InductionSettings.budget = 1`: so many units, and so many for each
# token of the examples. SCAN, COGS and GeoQuery end before they have spent it.
BASE_UNITS, UNITS_A_TOKEN = 400_000_000, 1500
# A tenth of a second or so lies between two calls of a watcher.
UNITS_A_PULSE = 1_000_000

# What anything else than a hyperedge costs.
CHART_UNITS = 2000  # a call of the charts' kernels
RULE_UNITS = 60  # a rule that is encoded, into the trie of a grammar
PROPOSAL_UNITS = 300  # a pair of a rule that becomes a proposal for the first time
SIDE_UNITS = 100  # a source or a target of the factors of a rule's splits
SYMBOL_UNITS = 200  # a symbol of a target whose types are looked up for the first time
MATCH_UNITS = 1 / 4  # a sentence in which the words of a rule are looked for
SPLIT_UNITS = 1 / 4  # a split in the pool of factoring, each time that the pool is read


def work_units(examples: Iterable[Example]) -> float:
    """The work that a budget of 1 allows for a search on these examples."""
    tokens = 0
    for example in examples:
        tokens += len(example.source_tokens) + len(example.target_tokens)
    return float(BASE_UNITS + UNITS_A_TOKEN * tokens)


class SearchStopped(Exception):
    """The limit of a search is reached, or its watcher wants it to end; its rules are valid."""


class WorkMeter:
    """Counts units of work, and stops a search at its limit.

    The `watcher` is called every `UNITS_A_PULSE` units, and returns whether the search shall stop.

    >>> meter = WorkMeter()
    >>> meter.limit = 10
    >>> meter.spend(7)
    >>> meter.spend(7)
    Traceback (most recent call last):
    nqg.induction.work.SearchStopped: the work of 10 units is done
    """

    def __init__(self, watcher: Callable[[], bool] = lambda: False) -> None:
        self.spent = 0.0
        self.limit = math.inf
        self.is_interrupted = False
        self._watcher = watcher
        self._next_pulse = float(UNITS_A_PULSE)

    def add(self, units: float) -> None:
        """Count work that cannot be left half done."""
        self.spent += units
        if self.spent >= self._next_pulse:
            self._next_pulse = self.spent + UNITS_A_PULSE
            self.is_interrupted |= self._watcher()

    def spend(self, units: float) -> None:
        """Count work after which a search can stop."""
        self.add(units)
        self.check()

    def check(self) -> None:
        if self.is_interrupted:
            raise SearchStopped("the search was interrupted")
        if self.spent > self.limit:
            raise SearchStopped(f"the work of {self.limit:,.0f} units is done")
