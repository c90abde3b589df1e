"""Pairs drawn from a grammar: what it predicts beyond its examples, for other models and people.

A derivation has the probability ∏ p(rule | parent rule, non-terminal), fitted to examples by
expectation maximisation over the derivations of their targets (`nqg.induction.probabilities`).
Rules that no example has as an argument share what a few examples are worth, if their type fits.
Arguments that have similar rules may lend each other the others: where only *left* was seen behind
*around*, *right* is drawn as well, because elsewhere the two come as the same arguments.

Only derivations of legal targets, no deeper than a bound, are drawn, and none is rejected for being
illegal: B_d(a, c) sums the probabilities of all derivations of depth d and class of types c of an
argument a, so that each choice is made in proportion to what can follow it.

    B_d(a, c) = Σ_(r, c₁ … c_k) p(r | a) · ∏ᵢ B_(d-1)(argumentᵢ(r), cᵢ)

where r over c₁ … c_k has a type of class c in a. Shapes: A arguments, R rules, T types, K entries.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.arrays import FloatArray, Int64Array
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.encoding import NO_TYPE
from nqg.grammar.grammar import Grammar, NonTerminal
from nqg.induction.probabilities import (
    ITERATIONS,
    ROOT_ARGUMENT,
    AnnotatedForests,
    RuleProbabilities,
)
from nqg.induction.settings import SamplingSettings

# How long sampled targets may be, as a multiple of the longest training target. Longer ones show
# deeper recursion, and take more time to learn from: a bound of work.
MAX_LENGTH_RATIO = 1.5
# The share of rules of similar arguments in what is explored; any legal rule has the rest (not
# measured).
BACKOFF_WEIGHT = 0.8
# Draws for each pair that is asked for, since likely ones are drawn repeatedly.
# benchmarks/sampling.py shows how many different pairs they give.
DRAWS = 4

# Arguments and the rules that fill them, parents before children, left to right.
DrawnDerivation = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a generative model foresees pairs: how many it derives, and its perplexity on them.

    Perplexity is per token, of source and target together.
    """

    pairs: int
    derivable: int
    perplexity: float | None

    def __str__(self) -> str:
        text = f"{self.derivable} of {self.pairs} pairs derivable"
        if self.perplexity is not None:
            text += f", perplexity {self.perplexity:.2f} a token"
        return text


class GrammarSampler:
    """Draws pairs from a grammar, fitted to `examples`.

    Without examples, all rules of a type are equally likely.

    >>> grammar = Grammar.parse("jump ### J\\nwalk ### W\\nNT_1 twice ### NT_1 NT_1")
    >>> sampler = GrammarSampler(grammar, [Example("walk twice", "W W")], SamplingSettings(depth=2))
    >>> [(pair.source, pair.target) for pair in sampler.samples(3, seed=1)]
    [('jump', 'J'), ('walk twice', 'W W'), ('walk', 'W')]
    """

    def __init__(
        self,
        grammar: Grammar,
        examples: Sequence[Example] = (),
        settings: SamplingSettings = SamplingSettings(),  # noqa: B008 (frozen)
    ) -> None:
        if not len(grammar):
            raise NqgError("the grammar has no rules to draw pairs from")
        self.grammar, self.settings = grammar, settings
        self.space = TypedSpace.of(grammar)
        # Without a set bound the longest example gives it; 0 means that there is none.
        lengths = [len(example.target_tokens) for example in examples]
        self.longest = settings.longest or math.ceil(
            MAX_LENGTH_RATIO * max(lengths, default=0)
        )
        counts = self._expected_counts(examples)
        self.rule_bonus = self._rule_bonus(examples)
        self.probabilities = smoothed(counts, self.space.legal, settings)

    def samples(self, count: int, seed: int = 0) -> list[Example]:
        """Different pairs, `count` or as many as a few draws for each have found."""
        table = SamplingTable(
            self.space, self.probabilities * self.rule_bonus, self.settings.depth
        )
        if table.total <= 0:
            raise NqgError(
                f"no legal target has a derivation of depth {self.settings.depth} or less; "
                "raise depth"
            )
        rng = random.Random(seed)
        derivations: set[DrawnDerivation] = set()
        pairs: dict[tuple[str, str], Example] = {}
        sentences_of = Counter[str]()
        # Draws are bounded, because the grammar may have fewer than `count` pairs.
        for _ in range(DRAWS * count):
            if len(pairs) >= count:
                break
            derivation = table.derivation(rng)
            if derivation in derivations:
                continue
            derivations.add(derivation)
            source, target = render_derivation(derivation, self.grammar)
            # A target of n tokens has n - 1 spaces.
            is_long = bool(self.longest) and target.count(" ") >= self.longest
            is_common = sentences_of[target] >= self.settings.per_target
            if not (is_long or is_common or (source, target) in pairs):
                pairs[source, target] = Example(source, target)
                sentences_of[target] += 1
        return list(pairs.values())

    def fit(self, examples: Sequence[Example]) -> Fit:
        """How well the model, as fitted, foresees other pairs."""
        model = RuleProbabilities(self.space.first_argument, self.probabilities)
        sums = model.log_sums(self._forests(examples))
        is_derivable = np.isfinite(sums)
        derivable = int(is_derivable.sum())
        tokens = 0
        for number in np.flatnonzero(is_derivable).tolist():
            tokens += len(examples[number].source_tokens) + len(
                examples[number].target_tokens
            )
        total = SamplingTable(self.space, self.probabilities, self.settings.depth).total
        if not tokens or total <= 0:
            return Fit(len(examples), derivable, None)
        # The probabilities of the derivations that can be drawn sum to `total`, not to 1.
        surprise = derivable * math.log(total) - float(sums[is_derivable].sum())
        return Fit(len(examples), derivable, math.exp(surprise / tokens))

    def _forests(self, examples: Sequence[Example]) -> AnnotatedForests:
        full = charts(self.grammar, [example.source_tokens for example in examples])
        goal = goal_charts(
            self.grammar, full, [example.target_tokens for example in examples]
        )
        return AnnotatedForests.of(goal, self.space.first_argument)

    def _expected_counts(self, examples: Sequence[Example]) -> FloatArray:
        """How often each rule is expected as each argument in the examples' derivations: (A, R)."""
        model = RuleProbabilities.uniform(self.grammar.encoded.arrays)
        counts = np.zeros_like(model.values)
        if examples:
            forests = self._forests(examples)
            for _ in range(ITERATIONS):
                counts = model.expected_counts(forests)
                weights = counts + self.settings.smoothing / len(self.grammar)
                model = RuleProbabilities(model.first_argument, normalised(weights))
        return counts

    def _rule_bonus(self, examples: Sequence[Example]) -> FloatArray:
        """How much each rule is favoured, for its rarest target token and for their
        number: (R,).
        """
        holders = Counter[object]()
        for example in examples:
            holders.update(set(example.target_tokens))
        usual = float(np.median(list(holders.values()))) if holders else 1.0
        rarities, lengths = [], []
        for rule in self.grammar:
            tokens = [symbol for symbol in rule.target if isinstance(symbol, str)]
            rarest = min((holders[token] for token in tokens), default=usual)
            rarities.append(max(1.0, usual / max(1, rarest)))
            lengths.append(len(tokens))
        length_bonus: FloatArray = np.exp(self.settings.longer * np.array(lengths))
        return np.array(rarities) ** self.settings.rare * length_bonus


def smoothed(
    counts: FloatArray, legal: FloatArray, settings: SamplingSettings
) -> FloatArray:
    """p(rule | argument) from counts, similar arguments, and a little of all that is
    legal: (A, R).
    """
    uniform, seen = normalised(legal), normalised(counts)
    # Of arguments: 1 for the same distribution, 0 for no rule in common.
    similarity = np.sqrt(seen) @ np.sqrt(seen).T
    np.fill_diagonal(similarity, 0.0)
    lent = normalised(legal * (similarity @ seen))
    mixed = BACKOFF_WEIGHT * lent + (1 - BACKOFF_WEIGHT) * uniform
    explored = np.where(lent.any(1, keepdims=True), mixed, uniform)
    fitted = normalised(counts + settings.smoothing * uniform)
    return (1 - settings.explore) * fitted + settings.explore * explored


def normalised(weights: FloatArray) -> FloatArray:
    """Rows that sum to 1, or are empty: (A, R)."""
    sums: FloatArray = np.maximum(weights.sum(1, keepdims=True), 1e-300)
    return weights / sums


@dataclass(frozen=True)
class TypedSpace:
    """The entries of a grammar: each rule once for every combination of its children's classes.

    A class is a set of types that an argument does not tell apart. The classes of the root are
    "legal target" and none. An untyped grammar has one type.
    """

    first_argument: Int64Array  # (R,)
    argument_classes: (
        Int64Array  # (A, T) the class of each type as each argument, or NO_TYPE
    )
    rules: Int64Array  # (K,) of each entry
    types: Int64Array  # (K,) its result, never NO_TYPE
    children: Int64Array  # (K, most children) the class of each child
    arities: Int64Array  # (R,)

    @classmethod
    def of(cls, grammar: Grammar) -> TypedSpace:
        arities = np.array([rule.arity for rule in grammar], dtype=np.int64)
        width = max(1, int(arities.max()))
        # A rule, its type and the classes of its children.
        entries: list[list[int]] = []
        if grammar.typing is None:
            classes = np.zeros((1 + int(arities.sum()), 1), dtype=np.int64)
            entries += [[rule, 0] + [0] * width for rule in range(len(grammar))]
        else:
            arrays = grammar.typing.arrays
            root = np.where(arrays.is_whole, 0, NO_TYPE)[None]
            classes = np.concatenate([root, arrays.classes]).astype(np.int64)
            for rule in range(len(grammar)):
                sizes = arrays.sizes[
                    arrays.first_place[rule] : arrays.first_place[rule + 1]
                ]
                results = arrays.results[
                    arrays.first_result[rule] : arrays.first_result[rule + 1]
                ]
                padding = [0] * (width - len(sizes))
                for result, children in zip(results.tolist(), np.ndindex(*sizes)):
                    if result != NO_TYPE:
                        entries.append([rule, result, *children, *padding])
        columns = np.array(entries, dtype=np.int64).reshape(-1, 2 + width)
        return cls(
            first_argument=ROOT_ARGUMENT + 1 + np.cumsum(arities) - arities,
            argument_classes=classes,
            rules=columns[:, 0],
            types=columns[:, 1],
            children=columns[:, 2:],
            arities=arities,
        )

    @cached_property
    def legal(self) -> FloatArray:
        """1 for every rule that some legal target may have as an argument, else 0: (A, R)."""
        legal = np.zeros((len(self.argument_classes), len(self.arities)))
        for argument, classes in enumerate(self.argument_classes):
            legal[argument, self.rules[classes[self.types] != NO_TYPE]] = 1.0
        return legal


class SamplingTable:
    """The sums B_d(argument, class), and draws in proportion to them.

    `below` has, for each depth, the summed weights of every entry's children: (K,).
    """

    def __init__(self, space: TypedSpace, weights: FloatArray, depth: int) -> None:
        self.space, self.weights, self.depth = space, weights, depth
        arguments, types = space.argument_classes.shape
        sums = np.zeros((arguments, int(space.argument_classes.max(initial=0)) + 1))
        self.below: list[FloatArray] = []
        rows, columns = np.nonzero(space.argument_classes != NO_TYPE)
        for _ in range(depth):
            # Multiply, for each entry, the sums of its children at the depth before.
            below = np.ones(len(space.rules))
            for child in range(space.children.shape[1]):
                has_child = space.arities[space.rules] > child
                filled = space.first_argument[space.rules[has_child]] + child
                below[has_child] *= sums[filled, space.children[has_child, child]]
            # Add up the entries of a rule and type, then weigh them for each argument.
            by_type = np.zeros((len(space.arities), types))
            np.add.at(by_type, (space.rules, space.types), below)
            totals = weights @ by_type  # (A, T)
            # An argument does not tell the types of a class apart: their totals add up.
            sums = np.zeros_like(sums)
            np.add.at(
                sums,
                (rows, space.argument_classes[rows, columns]),
                totals[rows, columns],
            )
            self.below.append(below)
        self.total = float(sums[ROOT_ARGUMENT, 0])
        self._choices: dict[tuple[int, int, int], tuple[list[int], list[float]]] = {}

    def derivation(self, rng: random.Random) -> DrawnDerivation:
        """Draw a derivation."""
        space, derivation = self.space, list[tuple[int, int]]()
        pending = [(ROOT_ARGUMENT, 0, self.depth)]
        while pending:
            state = pending.pop()
            if state not in self._choices:
                self._choices[state] = self._weighted_entries(*state)
            entries, sums = self._choices[state]
            entry = rng.choices(entries, cum_weights=sums)[0]
            rule = int(space.rules[entry])
            derivation.append((state[0], rule))
            # The first child is put on the stack last, so that it is expanded first.
            for child in reversed(range(space.arities[rule])):
                argument = int(space.first_argument[rule]) + child
                pending.append(
                    (argument, int(space.children[entry, child]), state[2] - 1)
                )
        return tuple(derivation)

    def _weighted_entries(
        self, argument: int, type_class: int, depth: int
    ) -> tuple[list[int], list[float]]:
        """The entries that fit, and the sums of their weights up to each."""
        space = self.space
        fitting = np.flatnonzero(
            space.argument_classes[argument][space.types] == type_class
        )
        weights = (
            self.weights[argument, space.rules[fitting]]
            * self.below[depth - 1][fitting]
        )
        # Entries that cannot be finished within the depth have no weight.
        is_likely = weights > 0
        return fitting[is_likely].tolist(), list(
            accumulate(weights[is_likely].tolist())
        )


def render_derivation(derivation: DrawnDerivation, grammar: Grammar) -> tuple[str, str]:
    """The source and the target of a derivation, put together from its leaves upwards."""
    pending: list[tuple[str, str]] = []
    for _, number in reversed(derivation):
        rule = grammar[number]
        # Backwards, children come before their parent, and the first lies on top.
        children = [pending.pop() for _ in range(rule.arity)]
        sides: list[str] = []
        for side, symbols in enumerate((rule.source, rule.target)):
            words: list[str] = []
            for symbol in symbols:
                if isinstance(symbol, NonTerminal):
                    words.append(children[symbol.index - 1][side])
                else:
                    words.append(symbol)
            sides.append(" ".join(words))
        pending.append((sides[0], sides[1]))
    return pending[0]
