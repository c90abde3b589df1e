"""The data term with fitted probabilities: how likely a rule is under each non-terminal of each
rule.

Equal weights charge every sentence for readings that no example ever uses, so ambiguity costs more
the more examples there are. Here a derivation has the probability ∏ p(rule | parent rule,
non-terminal), and what the examples show is learnt by expectation maximisation over the derivations
of their targets; what is left to pay is real doubt. Each half of the examples is judged by what the
other half shows, so that nothing is learnt by heart.

    −Σ_(x,y) log₂ Σ_{z ∈ Z_xy} p(z) / Σ_{z ∈ Z_x*} p(z)

An *argument* is a non-terminal of a rule, or the root. Rules that no example has as an argument
keep a share of `SMOOTHING`. Forests are annotated with parents (Johnson, 1998): a node for each
argument that it fills, so that the weight of a hyperedge is one number and the passes of
`nqg.grammar.semirings` do the rest.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from nqg.grammar.arrays import FloatArray, Int64Array
from nqg.grammar.chart import encoded_charts, encoded_goals
from nqg.grammar.encoding import GrammarArrays
from nqg.grammar.hypergraph import NO_CHILD, NO_ROOT, Hypergraph, concatenate
from nqg.grammar.ragged import Ragged, gather_ranges, offsets_from_lengths
from nqg.grammar.semirings import log_inside, marginals, root_values

ROOT_ARGUMENT = 0
# How many examples the uniform distribution is worth; benchmarks/constants.py varies it.
SMOOTHING = 1.0
# Pairs of one fold are judged by what is fitted to the others.
FOLDS = 2
# On SCAN jump two more iterations change the bits by less than a hundredth.
ITERATIONS = 5
# Examples whose full forests are in memory together.
BATCH_SIZE = 256


@dataclass(frozen=True, slots=True)
class AnnotatedForests:
    """Forests with a node for each argument that a node fills, and the argument of
    every hyperedge's node: (A,).
    """

    graph: Hypergraph
    arguments: Int64Array

    @classmethod
    def of(cls, forests: Hypergraph, first_argument: Int64Array) -> AnnotatedForests:
        """The annotation of pruned forests; the arguments of rule r are numbered from
        first_argument[r] on.
        """
        count = (
            int(first_argument[-1]) + forests.children.shape[1]
            if len(first_argument)
            else 1
        )
        # Every use of a node as a child, and every root, is a pair (node, argument); equal pairs
        # are one new node.
        hyperedges, positions = np.nonzero(forests.children != NO_CHILD)
        children = forests.children[hyperedges, positions].astype(np.int64)
        roots = forests.roots()
        roots = roots[roots != NO_ROOT]
        uses = children * count + first_argument[forests.rules[hyperedges]] + positions
        uses = np.append(uses, roots * count + ROOT_ARGUMENT)
        pairs, numbers = np.unique(uses, return_inverse=True)
        nodes, arguments = np.divmod(pairs, count)
        # Each new node has copies of the hyperedges of the old one, with the new nodes for
        # children.
        new_children = np.full_like(forests.children, NO_CHILD)
        new_children[hyperedges, positions] = numbers[: len(hyperedges)]
        sizes = np.diff(forests.first_hyperedge)[nodes]
        rows = gather_ranges(forests.first_hyperedge[nodes], sizes)
        graph = Hypergraph(
            first_node=np.searchsorted(nodes, forests.first_node).astype(np.int64),
            starts=forests.starts[nodes],
            ends=forests.ends[nodes],
            first_hyperedge=offsets_from_lengths(sizes),
            rules=forests.rules[rows],
            children=new_children[rows],
        )
        return cls(graph, np.repeat(arguments, sizes))


@dataclass(frozen=True, slots=True)
class RuleProbabilities:
    """p(rule | argument): (S, R); the arguments of rule r begin at first_argument[r],
    the root is argument 0.
    """

    first_argument: Int64Array
    values: FloatArray

    @classmethod
    def uniform(cls, grammar: GrammarArrays) -> RuleProbabilities:
        ends = ROOT_ARGUMENT + 1 + np.cumsum(grammar.arities, dtype=np.int64)
        arguments = int(ends[-1]) if len(ends) else 1
        rules = max(1, int(np.count_nonzero(grammar.active)))
        return cls(
            ends - grammar.arities,
            np.full((arguments, len(grammar.arities)), 1 / rules),
        )

    def log_sums(self, forests: AnnotatedForests) -> FloatArray:
        """For every sentence the logarithm of the summed probabilities of its derivations."""
        return root_values(
            forests.graph, log_inside(forests.graph, self._log_weights(forests))
        )

    def refitted(self, forests: AnnotatedForests, rules: int) -> RuleProbabilities:
        """One step of expectation maximisation on the derivations in `forests`,
        smoothed over so many rules.
        """
        counts = self.expected_counts(forests)
        totals = counts.sum(axis=1, keepdims=True)
        values = (counts + SMOOTHING / rules) / (totals + SMOOTHING)
        return RuleProbabilities(self.first_argument, values)

    def expected_counts(self, forests: AnnotatedForests) -> FloatArray:
        """How often each rule is expected as each argument in the derivations in
        `forests`: (S, R).
        """
        arguments, rules = self.values.shape
        cells = forests.arguments * rules + forests.graph.rules
        weights = marginals(forests.graph, self._log_weights(forests))
        counts = np.bincount(cells, weights, minlength=arguments * rules)
        return counts.astype(np.float64).reshape(arguments, rules)

    def _log_weights(self, forests: AnnotatedForests) -> FloatArray:
        with np.errstate(divide="ignore"):
            logarithms = np.log(self.values)
        return logarithms[forests.arguments, forests.graph.rules]


def fitted_data_bits(
    grammar: GrammarArrays, sources: Ragged, targets: Ragged
) -> FloatArray:
    """For each pair the bits that tell its target, by probabilities fitted to others."""
    rules = max(1, int(np.count_nonzero(grammar.active)))
    folds = random_folds(sources.rows)
    uniform = RuleProbabilities.uniform(grammar)
    goals = []
    for low in range(0, sources.rows, BATCH_SIZE):
        full = encoded_charts(grammar, _batch(sources, low))
        goals.append(encoded_goals(grammar, full, _batch(targets, low)))
    goal = concatenate(goals)

    # Fit a model to all folds but one, for each of them.
    models = []
    for fold in range(FOLDS):
        others = AnnotatedForests.of(
            goal.select(np.flatnonzero(folds != fold).tolist()), uniform.first_argument
        )
        model = uniform
        for _ in range(ITERATIONS):
            model = model.refitted(others, rules)
        models.append(model)

    def log_sums(forests: Hypergraph) -> FloatArray:
        """The logarithm of every sentence's sum, by each of the models."""
        annotated = AnnotatedForests.of(forests, uniform.first_argument)
        return np.stack([model.log_sums(annotated) for model in models])

    # A pair is judged by the model that was not fitted to it. Full charts are made a second time,
    # because all of them together may not fit into memory.
    log_full = np.empty((FOLDS, 0))
    for low in range(0, sources.rows, BATCH_SIZE):
        batch = log_sums(encoded_charts(grammar, _batch(sources, low)))
        log_full = np.hstack([log_full, batch])
    chosen = folds, np.arange(len(folds))
    return target_bits(log_full[chosen], log_sums(goal)[chosen])


def target_bits(log_full: FloatArray, log_goal: FloatArray) -> FloatArray:
    """Bits that tell each target among the derivations; infinite where no derivation yields it."""
    bits: FloatArray = np.full_like(log_goal, np.inf)
    np.subtract(log_full, log_goal, out=bits, where=np.isfinite(log_goal))
    np.maximum(0.0, bits, out=bits)
    return bits / math.log(2)


@lru_cache(maxsize=4)
def random_folds(count: int) -> Int64Array:
    """The fold of each pair; at random, because the order of examples often has a pattern."""
    rng = random.Random(0)
    return np.array([rng.randrange(FOLDS) for _ in range(count)], dtype=np.int64)


def _batch(sentences: Ragged, low: int) -> Ragged:
    return sentences.slice(low, min(low + BATCH_SIZE, sentences.rows))
