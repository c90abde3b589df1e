"""The charts of sentences with a score for every application: the best derivations, and how probable targets are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nqg.grammar.best import best_derivations, k_best_derivations
from nqg.grammar.charts import goal_charts
from nqg.grammar.compiled import kernel
from nqg.grammar.derivation import Derivation, Tokens
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import Graph, Longs
from nqg.grammar.inside import Floats, log_inside
from nqg.grammar.rule import Rule
from nqg.grammar.trie import Integers
from nqg.inference.marginals import marginals
from nqg.model.anchors import span_numbers


@dataclass(frozen=True)
class ScoredCharts:
    """The pruned charts of B sentences, each of which has a derivation, and the scores of their A applications."""

    grammar: Grammar
    full: Graph
    scores: Floats  # (A,)

    def select(self, sentences: Sequence[int]) -> ScoredCharts:
        """The charts of some sentences, in the order asked for; a sentence may be asked for twice."""
        scores = [np.empty(0), *(self.scores[self._applications(sentence)] for sentence in sentences)]
        return ScoredCharts(self.grammar, self.full.select(sentences), np.concatenate(scores))

    def best(self) -> list[Derivation]:
        """The best derivation of each sentence."""
        found = best_derivations(self.grammar, self.full, self.scores)
        return [each.derivation for each in found if each is not None]

    def best_of_targets(self, count: int) -> list[Derivation]:
        """For every target among the `count` best derivations of one sentence the best that yields it."""
        (ranked,) = k_best_derivations(self.grammar, self.full, self.scores, count)
        found: dict[Tokens, Derivation] = {}
        for each in ranked:
            found.setdefault(each.derivation.target, each.derivation)
        return list(found.values())

    def probabilities(self, targets: Sequence[Tokens]) -> Floats:
        """The probability of a target of each sentence, all derivations that yield it together: (B,)."""
        goal = goal_charts(self.grammar, self.full, targets)
        everything = log_inside(self.full, self.scores)[self.full.roots()]
        right = np.append(log_inside(goal, self._scores_of(goal)), -np.inf)[goal.roots()]
        chances: Floats = np.minimum(np.exp(right - everything), 1.0)  # rounding may lead past 1
        return chances

    def application_scores(self, derivations: Sequence[Derivation]) -> list[tuple[float, ...]]:
        """For a derivation of each sentence the scores of its applications, in their order."""
        return _cut(self.scores[self._places(derivations)], derivations)

    def application_marginals(self, derivations: Sequence[Derivation]) -> list[tuple[float, ...]]:
        """For a derivation of each sentence how probable it is that its rules are applied to their spans."""
        places = self._places(derivations)
        owners, chances = self.full.owners(), marginals(self.full, self.scores)
        bounds = self.full.first_application[owners[places]], self.full.first_application[owners[places] + 1]
        together = [
            chances[low:high][self.full.rules[low:high] == self.full.rules[place]].sum()  # wherever its children meet
            for low, high, place in zip(*bounds, places, strict=True)
        ]
        return _cut(np.minimum(together, 1.0), derivations)

    @cached_property
    def _rule_numbers(self) -> dict[Rule, int]:
        return {rule: number for number, rule in enumerate(self.grammar)}

    def _applications(self, sentence: int) -> slice:
        low, high = self.full.first_choice[sentence], self.full.first_choice[sentence + 1]
        return slice(int(self.full.first_application[low]), int(self.full.first_application[high]))

    def _scores_of(self, goal: Graph) -> Floats:
        """The scores of a goal graph's applications: those of the same rule over the same span."""
        width = len(self.grammar)
        known = self.full.owners().astype(np.int64) * width + self.full.rules
        asked = span_numbers(goal, self.full)[goal.owners()] * width + goal.rules
        order = np.argsort(known, kind="stable")
        return self.scores[order[np.searchsorted(known[order], asked)]]

    def _places(self, derivations: Sequence[Derivation]) -> Longs:
        """Which applications of the graph those of the derivations are, one derivation after the other."""
        numbers = self._rule_numbers
        asked = [
            (sentence, each.span.start, each.span.end, numbers[each.rule])
            for sentence, derivation in enumerate(derivations)
            for each in derivation.applications
        ]
        full = self.full
        table = np.array(asked, dtype=np.int64).reshape(-1, 4)
        return _places(full.first_choice, full.starts, full.ends, full.first_application, full.rules, table)


@kernel
def _places(
    first_choice: Longs, starts: Integers, ends: Integers, first_application: Longs, rules: Integers, asked: Longs
) -> Longs:
    """For every row (sentence, start, end, rule) the first application of the rule over the span."""
    places = np.full(len(asked), -1)
    for row in range(len(asked)):
        sentence, start, end, rule = asked[row]
        choice = first_choice[sentence]
        while starts[choice] != start or ends[choice] != end:
            choice += 1
        application = first_application[choice]
        while rules[application] != rule:
            application += 1
        places[row] = application
    return places


def _cut(values: Floats, derivations: Sequence[Derivation]) -> list[tuple[float, ...]]:
    """Values of applications, one derivation after the other, as a tuple for each derivation."""
    rest = iter(values.tolist())
    return [tuple(next(rest) for _ in derivation.applications) for derivation in derivations]
