"""The data term with fitted probabilities: how likely a rule is under each non-terminal of each rule.

Equal weights charge every sentence for readings that no example ever uses, so ambiguity costs more the more examples
there are. Here a derivation has the probability ∏ p(rule | parent rule, non-terminal), and what the examples show is
learnt by expectation maximisation over the derivations of their targets; what is left to pay is real doubt. Each half
of the examples is judged by what the other half shows, so that nothing is learnt by heart.

    −Σ_(x,y) log₂ Σ_{z ∈ Z_xy} p(z) / Σ_{z ∈ Z_x*} p(z)

An *argument* is a non-terminal of a rule, or the root. Rules that no example has as an argument keep a share of
`SMOOTHING`. Forests are annotated with parents (Johnson, 1998): a node for each argument that it fills, so that the
weight of a hyperedge is one number and the passes of `nqg.grammar.semirings` do the rest.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
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
SMOOTHING = 1.0  # how many examples the uniform distribution is worth
FOLDS = 2  # pairs of one are judged by what is fitted to the others
ITERATIONS = (
    5  # of expectation maximisation; on SCAN jump two more change the bits by less than a hundredth
)
BATCH_SIZE = 256  # examples whose forests are in memory together


@dataclass(frozen=True, slots=True)
class AnnotatedForests:
    """Forests with a node for each argument that a node fills, and the argument of every hyperedge's node: (A,)."""

    graph: Hypergraph
    arguments: Int64Array

    @classmethod
    def of(cls, forests: Hypergraph, first_argument: Int64Array) -> AnnotatedForests:
        """The annotation of pruned forests; the arguments of rule r are numbered from first_argument[r] on."""
        count = int(first_argument[-1]) + forests.children.shape[1] if len(first_argument) else 1
        # Every use of a node as a child, and every root, is a pair (node, argument); equal pairs are one new node.
        hyperedges, positions = np.nonzero(forests.children != NO_CHILD)
        children = forests.children[hyperedges, positions].astype(np.int64)
        roots = forests.roots()
        roots = roots[roots != NO_ROOT]
        uses = children * count + first_argument[forests.rules[hyperedges]] + positions
        pairs, numbers = np.unique(
            np.concatenate([uses, roots * count + ROOT_ARGUMENT]), return_inverse=True
        )
        nodes, arguments = np.divmod(pairs, count)
        # Each new node has copies of the hyperedges of the old one, with the new nodes for children.
        new_children = np.full_like(forests.children, NO_CHILD)
        new_children[hyperedges, positions] = numbers[: len(uses)]
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
    """p(rule | argument): (S, R); the arguments of rule r begin at first_argument[r], the root is argument 0."""

    first_argument: Int64Array
    values: FloatArray

    @classmethod
    def uniform(cls, grammar: GrammarArrays) -> RuleProbabilities:
        ends = ROOT_ARGUMENT + 1 + np.cumsum(grammar.arities, dtype=np.int64)
        arguments = int(ends[-1]) if len(ends) else 1
        rules = max(1, int(np.count_nonzero(grammar.active)))
        return cls(ends - grammar.arities, np.full((arguments, len(grammar.arities)), 1 / rules))

    def annotated(self, forests: Hypergraph) -> AnnotatedForests:
        return AnnotatedForests.of(forests, self.first_argument)

    def log_sums(self, forests: AnnotatedForests) -> FloatArray:
        """For every sentence the logarithm of the summed probabilities of its derivations."""
        return root_values(forests.graph, log_inside(forests.graph, self._log_weights(forests)))

    def refitted(self, forests: AnnotatedForests, rules: int) -> RuleProbabilities:
        """One step of expectation maximisation on the derivations in `forests`, smoothed over so many rules."""
        counts = self.expected_counts(forests)
        totals = counts.sum(axis=1, keepdims=True)
        return RuleProbabilities(
            self.first_argument, (counts + SMOOTHING / rules) / (totals + SMOOTHING)
        )

    def expected_counts(self, forests: AnnotatedForests) -> FloatArray:
        """How often each rule is expected as each argument in the derivations in `forests`: (S, R)."""
        arguments, rules = self.values.shape
        cells = forests.arguments * rules + forests.graph.rules
        weights = marginals(forests.graph, self._log_weights(forests))
        counts: FloatArray = np.bincount(cells, weights, minlength=arguments * rules).astype(
            np.float64
        )
        return counts.reshape(arguments, rules)

    def _log_weights(self, forests: AnnotatedForests) -> FloatArray:
        with np.errstate(divide="ignore"):
            logarithms = np.log(self.values)
        return logarithms[forests.arguments, forests.graph.rules]


def fitted_data_bits(grammar: GrammarArrays, sources: Ragged, targets: Ragged) -> FloatArray:
    """For each pair the bits that tell its target, by probabilities fitted to others; infinite if not derivable."""
    rules = max(1, int(np.count_nonzero(grammar.active)))
    folds = np.array(random_folds(sources.rows), dtype=np.int64)
    uniform = RuleProbabilities.uniform(grammar)
    batches = list(zip(_batches(sources), _batches(targets), strict=True))
    goals = concatenate(
        [
            encoded_goals(grammar, encoded_charts(grammar, batch), target)
            for batch, target in batches
        ]
    )

    # Fit a model to all folds but one, for each of them.
    models = []
    for fold in range(FOLDS):
        others = uniform.annotated(goals.select(np.flatnonzero(folds != fold).tolist()))
        model = uniform
        for _ in range(ITERATIONS):
            model = model.refitted(others, rules)
        models.append(model)

    def log_sums(forests: Iterable[Hypergraph]) -> FloatArray:
        """For every sentence the logarithm of its sum by the model that was not fitted to it."""
        annotated = map(uniform.annotated, forests)
        sums = [np.stack([model.log_sums(batch) for model in models]) for batch in annotated]
        return np.hstack([np.empty((FOLDS, 0)), *sums])[folds, np.arange(len(folds))]

    log_goal = log_sums([goals])
    log_full = log_sums(
        encoded_charts(grammar, batch) for batch, _ in batches
    )  # charted twice, never all in memory
    bits = np.full(len(log_goal), np.inf)
    is_derivable = np.isfinite(log_goal)
    bits[is_derivable] = np.maximum(0.0, log_full[is_derivable] - log_goal[is_derivable]) / np.log(
        2
    )
    return bits


@lru_cache(maxsize=4)
def random_folds(count: int) -> list[int]:
    """The fold of each of so many pairs; at random, because the order of examples often has a pattern."""
    rng = random.Random(0)
    return [rng.randrange(FOLDS) for _ in range(count)]


def _batches(sentences: Ragged) -> Iterator[Ragged]:
    for low in range(0, sentences.rows, BATCH_SIZE):
        yield sentences.slice(low, min(low + BATCH_SIZE, sentences.rows))
