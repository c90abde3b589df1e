"""The data term with fitted probabilities: how likely a rule is under each non-terminal of each rule.

Equal weights charge every sentence for readings that no example ever uses, so ambiguity costs more the more examples
there are. Here a derivation has the probability ∏ p(rule | parent rule, non-terminal), and what the examples show is
learnt by expectation maximisation over the derivations of their targets; what is left to pay is real doubt. Each half
of the examples is judged by what the other half shows, so that nothing is learnt by heart.

    −Σ_(x,y) log₂ Σ_{z ∈ Z_xy} p(z) / Σ_{z ∈ Z_x*} p(z)

A *slot* is a non-terminal of a rule, or the root. Rules that no example has in a slot keep a share of `SMOOTHING`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from nqg.grammar.arrays import FloatArray, Int64Array, inlined, kernel
from nqg.grammar.chart import EncodedBatch, encoded_charts, encoded_goals
from nqg.grammar.chart_kernels import Graphs
from nqg.grammar.encoding import GrammarArrays
from nqg.grammar.hypergraph import NO_CHILD, Hypergraph, concatenated

ROOT_SLOT = 0
SMOOTHING = 1.0  # how many examples the uniform distribution is worth
FOLDS = 2  # pairs of one are judged by what is fitted to the others
ITERATIONS = 5  # of expectation maximisation; on SCAN jump two more change the bits by less than a hundredth
PART_SIZE = 256  # examples whose forests are in memory together


@dataclass(frozen=True, slots=True)
class RuleProbabilities:
    """p(rule | slot): (S, R); the slots of rule r begin at first_slot[r], that of the root is 0."""

    first_slot: Int64Array
    values: FloatArray

    @classmethod
    def uniform(cls, grammar: GrammarArrays) -> RuleProbabilities:
        ends = ROOT_SLOT + 1 + np.cumsum(grammar.arities, dtype=np.int64)
        slots = int(ends[-1]) if len(ends) else 1
        rules = max(1, int(np.count_nonzero(grammar.active)))
        return cls(ends - grammar.arities, np.full((slots, len(grammar.arities)), 1 / rules))

    def log_sums(self, forests: Hypergraph) -> FloatArray:
        """For every sentence the logarithm of the summed probabilities of its derivations."""
        return self._inside(forests)[1]

    def refitted(self, forests: Hypergraph, rules: int) -> RuleProbabilities:
        """One step of expectation maximisation on the derivations in `forests`, smoothed over so many rules."""
        counts = self.expected_counts(forests)
        totals = counts.sum(axis=1, keepdims=True)
        return RuleProbabilities(self.first_slot, (counts + SMOOTHING / rules) / (totals + SMOOTHING))

    def expected_counts(self, forests: Hypergraph) -> FloatArray:
        """How often each rule is expected in each slot of the derivations in `forests`: (S, R)."""
        inside, _ = self._inside(forests)
        counts = np.zeros_like(self.values)
        _expect(Graphs.of(forests), self.first_slot, self.values, inside, np.zeros_like(inside), counts)
        return counts

    def _inside(self, forests: Hypergraph) -> tuple[FloatArray, FloatArray]:
        inside, scales, sums = np.empty(forests.hyperedges), np.empty(forests.nodes), np.empty(len(forests))
        _fill_inside(Graphs.of(forests), self.first_slot, self.values, inside, scales, sums)
        return inside, sums


def fitted_data_bits(grammar: GrammarArrays, sources: EncodedBatch, targets: EncodedBatch) -> FloatArray:
    """For each pair the bits that tell its target, by probabilities fitted to others; infinite if not derivable."""
    parts = list(zip(_parts(sources), _parts(targets), strict=True))
    goals = concatenated([encoded_goals(grammar, encoded_charts(grammar, part), target) for part, target in parts])
    rules, folds = max(1, int(np.count_nonzero(grammar.active))), np.array(random_folds(len(sources)), dtype=np.int64)
    models = []
    for fold in range(FOLDS):
        others, model = goals.select(np.flatnonzero(folds != fold).tolist()), RuleProbabilities.uniform(grammar)
        for _ in range(ITERATIONS):
            model = model.refitted(others, rules)
        models.append(model)

    def log_sums(forests: Iterable[Hypergraph]) -> FloatArray:
        sums = [np.stack([model.log_sums(part) for model in models]) for part in forests]
        return np.hstack([np.empty((FOLDS, 0)), *sums])[folds, np.arange(len(folds))]

    right = log_sums([goals])
    everything = log_sums(encoded_charts(grammar, part) for part, _ in parts)  # charted twice, never all in memory
    bits = np.full(len(right), np.inf)
    some = np.isfinite(right)
    bits[some] = np.maximum(0.0, everything[some] - right[some]) / np.log(2)
    return bits


@lru_cache(maxsize=4)
def random_folds(count: int) -> list[int]:
    """The fold of each of so many pairs; at random, because the order of examples often has a pattern."""
    rng = random.Random(0)
    return [rng.randrange(FOLDS) for _ in range(count)]


def _parts(batch: EncodedBatch) -> Iterator[EncodedBatch]:
    for low, high in pairwise([*range(0, len(batch), PART_SIZE), len(batch)]):
        firsts = batch.first_token[low : high + 1]
        yield EncodedBatch(firsts - firsts[0], batch.tokens[firsts[0] : firsts[-1]])


@inlined
def _sum(node: int, slot: int, forest: Graphs, probabilities: FloatArray, inside: FloatArray) -> float:
    """The summed probabilities of a node's derivations in a slot, in units of the node's scale."""
    total = 0.0
    for hyperedge in range(forest.first_hyperedge[node], forest.first_hyperedge[node + 1]):
        total += probabilities[slot, forest.rules[hyperedge]] * inside[hyperedge]
    return total


@kernel
def _fill_inside(
    forest: Graphs,
    first_slot: Int64Array,
    probabilities: FloatArray,
    inside: FloatArray,
    scales: FloatArray,
    sums: FloatArray,
) -> None:
    """Set `inside` of hyperedges to the probability of what lies below them, their own rule left out.

    The best hyperedge of a node has 1, and the node's scale is the logarithm of what that stands for.
    """
    first_node = forest.first_node
    for sentence in range(len(sums)):
        for node in range(first_node[sentence], first_node[sentence + 1]):
            first, last = forest.first_hyperedge[node], forest.first_hyperedge[node + 1]
            scales[node] = -np.inf
            for hyperedge in range(first, last):
                inside[hyperedge] = 0.0
                for at in range(forest.children.shape[1]):
                    child = forest.children[hyperedge, at]
                    if child != NO_CHILD:
                        slot = first_slot[forest.rules[hyperedge]] + at
                        total = _sum(child, slot, forest, probabilities, inside)
                        inside[hyperedge] += scales[child] + np.log(total)
                scales[node] = max(scales[node], inside[hyperedge])
            for hyperedge in range(first, last):
                inside[hyperedge] = np.exp(inside[hyperedge] - scales[node])
        sums[sentence] = -np.inf
        if first_node[sentence] < first_node[sentence + 1]:
            root = first_node[sentence + 1] - 1
            total = _sum(root, ROOT_SLOT, forest, probabilities, inside)
            sums[sentence] = scales[root] + np.log(total)


@inlined
def _hand_down(
    node: int,
    slot: int,
    share: float,
    forest: Graphs,
    probabilities: FloatArray,
    inside: FloatArray,
    shares: FloatArray,
    counts: FloatArray,
) -> None:
    """Divide the share of a node in a slot among its hyperedges, and count their rules there."""
    total = _sum(node, slot, forest, probabilities, inside)
    for hyperedge in range(forest.first_hyperedge[node], forest.first_hyperedge[node + 1]):
        part = share * probabilities[slot, forest.rules[hyperedge]] * inside[hyperedge] / total
        shares[hyperedge] += part
        counts[slot, forest.rules[hyperedge]] += part


@kernel
def _expect(
    forest: Graphs,
    first_slot: Int64Array,
    probabilities: FloatArray,
    inside: FloatArray,
    shares: FloatArray,
    counts: FloatArray,
) -> None:
    """Add up how often each rule is expected in each slot."""
    for sentence in range(len(forest.first_node) - 1):
        low, high = forest.first_node[sentence], forest.first_node[sentence + 1]
        if low == high:
            continue
        _hand_down(high - 1, ROOT_SLOT, 1.0, forest, probabilities, inside, shares, counts)
        for node in range(high - 1, low - 1, -1):
            for hyperedge in range(forest.first_hyperedge[node], forest.first_hyperedge[node + 1]):
                for at in range(forest.children.shape[1]):
                    child = forest.children[hyperedge, at]
                    if child != NO_CHILD and shares[hyperedge] > 0.0:
                        slot, share = first_slot[forest.rules[hyperedge]] + at, shares[hyperedge]
                        _hand_down(child, slot, share, forest, probabilities, inside, shares, counts)
