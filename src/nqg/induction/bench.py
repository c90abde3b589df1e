"""The grammar of a search and some candidates in one set of arrays, of which any rules can be switched on and off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from nqg.grammar.algebras import log_derivation_counts
from nqg.grammar.charts import Batch, encoded_charts, encoded_goals
from nqg.grammar.encoding import GrammarArrays, flat, grammar_arrays
from nqg.grammar.trie import firsts_of
from nqg.induction.labels import LabelRule

AT_LEAST_TWO = np.log(1.5)  # a logarithm of a number of derivations that rounding cannot bring to either side


class Bench:
    """Arrays of the rules that are in force and of others that are only tried: building a trie costs, switching not."""

    def __init__(self, rules: Iterable[LabelRule], tried: Iterable[LabelRule] = ()) -> None:
        in_force = list(rules)
        self._numbers = {rule: number for number, rule in enumerate(dict.fromkeys([*in_force, *tried]))}
        everything = list(self._numbers)
        arrays = grammar_arrays([rule.source for rule in everything], [rule.target for rule in everything])
        arrays.active[len(in_force) :] = False
        self.arrays = arrays

    def __contains__(self, rule: LabelRule) -> bool:
        return rule in self._numbers

    def switch(self, added: Iterable[LabelRule], removed: Iterable[LabelRule]) -> None:
        """Put rules in force, and others out of force."""
        self.arrays = self.switched(added, removed)

    def switched(self, added: Iterable[LabelRule], removed: Iterable[LabelRule]) -> GrammarArrays:
        """The arrays as `switch` would leave them."""
        active = self.arrays.active.copy()
        active[[self._numbers[rule] for rule in added]] = True
        active[[self._numbers[rule] for rule in removed]] = False
        return self.arrays._replace(active=active)


def superfluous(rules: Sequence[LabelRule], grammar: GrammarArrays) -> list[LabelRule]:
    """Of `rules`, all in force, those that the others derive too: their sides have a second derivation.

    All of them can go at once. A derivation of a rule's sides uses shorter rules, or one that is as long but has
    non-terminals where the rule has words, so no two rules can each need the other.
    """
    sources, targets = [rule.leaf_source() for rule in rules], [rule.leaf_target() for rule in rules]
    full = encoded_charts(grammar, Batch(firsts_of(sources), flat(sources)))
    goal = encoded_goals(grammar, full, Batch(firsts_of(targets), flat(targets)))
    counts = log_derivation_counts(goal)
    return [rule for rule, count in zip(rules, counts, strict=True) if count > AT_LEAST_TWO]
