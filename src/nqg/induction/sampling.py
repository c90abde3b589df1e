"""Pairs drawn from a grammar: what it believes about sentences it never saw, to teach another model or a person.

A derivation has the probability ∏ p(rule | parent rule, non-terminal), fitted to examples by expectation maximisation
over the derivations of their targets (`nqg.induction.probabilities`); rules that no example has in a place share what
a few examples are worth, if their type fits there. What resembles a place in its rules may lend it others: where only
*left* was seen behind *around*, *right* is drawn as well, because elsewhere the two come in the same places. Only
derivations of legal targets, no deeper than asked, are drawn, and none is thrown away for being illegal: B_d(s, c) sums
the probabilities of all derivations of depth d and class of types c below a slot s, so that each choice is made in
proportion to what can follow it.

    B_d(s, c) = Σ_(r, c₁ … c_k) p(r | s) · ∏ᵢ B_(d-1)(slotᵢ(r), cᵢ),   where r over c₁ … c_k has a type of class c in s
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from typing import NamedTuple

import numpy as np

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.arrays import FloatArray, Int64Array
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.encoding import NO_TYPE
from nqg.grammar.grammar import Grammar, NonTerminal, Rule, Symbols
from nqg.induction.probabilities import (
    ITERATIONS,
    ROOT_ARGUMENT,
    AnnotatedForests,
    RuleProbabilities,
)
from nqg.induction.settings import SamplingSettings

MAX_LENGTH_RATIO = 1.5  # times the longest training target that sampled ones may be long
BACKOFF_WEIGHT = 0.8  # of what is explored, the share of rules that similar slots have; any legal rule has the rest
DRAWS = 4  # for each pair that is asked for: what is likely comes again and again


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a generative model foresees pairs: how many it derives, and its perplexity on them.

    Perplexity is per token, of source and target together.
    """

    pairs: int
    derivable: int
    perplexity: float | None

    def __str__(self) -> str:
        perplexity = (
            "" if self.perplexity is None else f", perplexity {self.perplexity:.2f} a token"
        )
        return f"{self.derivable} of {self.pairs} pairs derivable{perplexity}"


class GrammarSampler:
    """Draws pairs from a grammar, fitted to `examples`; without any, all rules of a type are equally likely.

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
        lengths = [len(example.target_tokens) for example in examples]
        self.longest = settings.longest or (
            math.ceil(MAX_LENGTH_RATIO * max(lengths)) if lengths else None
        )
        self.counts, self.rule_bonus = self._expected_counts(examples), self._rule_bonus(examples)
        self.probabilities = smoothed(self.counts, self.space.legal, settings)

    def samples(self, count: int, seed: int = 0) -> list[Example]:
        """Different pairs, so many or as many as a few draws for each have found; the same for the same seed."""
        found = PairCollection(self.grammar, self.settings, self.longest, random.Random(seed))
        found.draw(self._table(self.probabilities * self.rule_bonus), count, DRAWS * count)
        return [Example(source, target) for source, target in found.pairs]

    def _table(self, weights: FloatArray) -> SamplingTable:
        table = SamplingTable(self.space, weights, self.settings.depth)
        if table.total <= 0:
            raise NqgError(
                f"no legal target has a derivation of depth {self.settings.depth} or less; raise depth"
            )
        return table

    def fit(self, examples: Sequence[Example]) -> Fit:
        """How well the model, as fitted, foresees other pairs."""
        forests = self._forests(examples)
        model = RuleProbabilities(self.space.first_argument, self.probabilities)
        sums = model.log_sums(forests)
        table = SamplingTable(self.space, self.probabilities, self.settings.depth)
        some = np.isfinite(sums)
        tokens = [len(example.source_tokens) + len(example.target_tokens) for example in examples]
        total, known = float(sums[some].sum()), int(np.array(tokens)[some].sum()) if examples else 0
        derivable = int(some.sum())
        bits = (
            (derivable * math.log(table.total) - total) / known
            if known and table.total > 0
            else None
        )
        return Fit(len(examples), derivable, None if bits is None else math.exp(bits))

    def _forests(self, examples: Sequence[Example]) -> AnnotatedForests:
        full = charts(self.grammar, [example.source_tokens for example in examples])
        goal = goal_charts(self.grammar, full, [example.target_tokens for example in examples])
        return AnnotatedForests.of(goal, self.space.first_argument)

    def _expected_counts(self, examples: Sequence[Example]) -> FloatArray:
        """How often each rule is expected in each slot of the examples' derivations: (S, R)."""
        model = RuleProbabilities.uniform(self.grammar.encoded.arrays)
        counts = np.zeros_like(model.values)
        forests = self._forests(examples) if examples else None
        for _ in range(ITERATIONS if forests else 0):
            assert forests
            counts = model.expected_counts(forests)
            model = RuleProbabilities(
                model.first_argument, counts + self.settings.smoothing / len(self.grammar)
            )
            model.values[:] /= model.values.sum(1, keepdims=True)
        return counts

    def _rule_bonus(self, examples: Sequence[Example]) -> FloatArray:
        """For every rule how much it is favoured for the rarest token in its target, and for their number: (R,)."""
        tokens = Counter(token for example in examples for token in set(example.target_tokens))
        usual = float(np.median(list(tokens.values()))) if tokens else 1.0

        def rarity(target: Symbols) -> float:
            counts = [tokens[token] for token in target if isinstance(token, str)]
            return max(1.0, usual / max(1, min(counts, default=usual)))

        rarities = np.array([rarity(rule.target) for rule in self.grammar])
        tokens_written = np.array(
            [sum(isinstance(each, str) for each in rule.target) for rule in self.grammar]
        )
        return rarities**self.settings.rare * np.exp(self.settings.longer * tokens_written)


def smoothed(counts: FloatArray, legal: FloatArray, settings: SamplingSettings) -> FloatArray:
    """p(rule | slot) from what was counted, what similar slots have, and a little of all that is legal: (S, R)."""
    uniform, seen = normalised(legal), normalised(counts)
    similarity = (
        np.sqrt(seen) @ np.sqrt(seen).T
    )  # of slots: 1 for the same distribution, 0 for no rule in common
    np.fill_diagonal(similarity, 0.0)
    lent = normalised(legal * (similarity @ seen))
    others = np.where(
        lent.any(1, keepdims=True), BACKOFF_WEIGHT * lent + (1 - BACKOFF_WEIGHT) * uniform, uniform
    )
    own = normalised(counts + settings.smoothing * uniform)
    return (1 - settings.explore) * own + settings.explore * others


def normalised(weights: FloatArray) -> FloatArray:
    """Rows that sum to 1, or are empty: (S, R)."""
    sums: FloatArray = np.maximum(weights.sum(1, keepdims=True), 1e-300)
    return weights / sums


class PairCollection:
    """Pairs as they are drawn, each once, with no more sentences for a program and no longer ones than asked for."""

    def __init__(
        self, grammar: Grammar, settings: SamplingSettings, longest: int | None, rng: random.Random
    ) -> None:
        self.texts = [Texts.of(rule) for rule in grammar]
        self.per_target, self.longest, self.rng = settings.per_target, longest, rng
        self.pairs: dict[tuple[str, str], None] = {}
        self.targets = Counter[str]()
        self.derivations: set[tuple[tuple[int, int], ...]] = set()

    def draw(self, table: SamplingTable, wanted: int, tries: int) -> None:
        """Draw until there are as many pairs as wanted, but no more often than that."""
        for _ in range(tries):
            if len(self.pairs) >= wanted:
                break
            self._add(table.derivation(self.rng))

    def _add(self, derivation: tuple[tuple[int, int], ...]) -> None:
        if derivation in self.derivations:
            return
        self.derivations.add(derivation)
        source, target = written(derivation, self.texts)
        is_long = self.longest is not None and target.count(" ") >= self.longest
        if is_long or (source, target) in self.pairs or self.targets[target] >= self.per_target:
            return
        self.pairs[source, target] = None
        self.targets[target] += 1


@dataclass(frozen=True)
class TypedSpace:
    """The entries of a grammar: each rule once for every combination of classes of types that its children may have.

    A slot is a place of a rule, or the root, where the classes are "legal target" and none. An untyped grammar has
    one type.
    """

    first_argument: Int64Array  # (R,)
    argument_classes: Int64Array  # (S, T) the class of each type in each slot, or NO_TYPE
    rules: Int64Array  # (K,) of each entry
    types: Int64Array  # (K,) its result, never NO_TYPE
    children: Int64Array  # (K, A) the class of each child
    arities: Int64Array  # (R,)

    @classmethod
    def of(cls, grammar: Grammar) -> TypedSpace:
        first_argument, typing = (
            RuleProbabilities.uniform(grammar.encoded.arrays).first_argument,
            grammar.typing,
        )
        arities = np.array([rule.arity for rule in grammar], dtype=np.int64)
        slots, width = 1 + int(arities.sum()), max(1, int(arities.max()))
        if typing is None:
            one = np.zeros(len(grammar), dtype=np.int64)
            classes = np.zeros((slots, 1), dtype=np.int64)
            return cls(
                first_argument,
                classes,
                np.arange(len(grammar)),
                one,
                np.zeros((len(grammar), width), int),
                arities,
            )
        arrays = typing.arrays
        root = np.where(arrays.is_whole, 0, NO_TYPE)[None]
        rules, types, rows = list[int](), list[int](), list[list[int]]()
        for rule in range(len(grammar)):
            sizes = arrays.sizes[arrays.first_place[rule] : arrays.first_place[rule + 1]].tolist()
            begin, end = int(arrays.first_result[rule]), int(arrays.first_result[rule + 1])
            for at in range(end - begin):
                if (result := int(arrays.results[begin + at])) != NO_TYPE:
                    place = np.unravel_index(at, sizes) if sizes else ()
                    rules.append(rule)
                    types.append(result)
                    rows.append([*map(int, place), *[0] * (width - len(sizes))])
        argument_classes = np.concatenate([root, arrays.classes]).astype(np.int64)
        entries = np.array(rows, dtype=np.int64).reshape(len(rules), width)
        return cls(
            first_argument,
            argument_classes,
            np.array(rules, int),
            np.array(types, int),
            entries,
            arities,
        )

    @cached_property
    def legal(self) -> FloatArray:
        """1 for every rule that some legal target may have in a slot, else 0: (S, R)."""
        found = np.zeros((len(self.argument_classes), len(self.arities)))
        for slot, classes in enumerate(self.argument_classes):
            found[slot, self.rules[classes[self.types] != NO_TYPE]] = 1.0
        return found


class SamplingTable:
    """The sums B_d(slot, class), and draws in proportion to them."""

    def __init__(self, space: TypedSpace, weights: FloatArray, depth: int) -> None:
        self.space, self.weights, self.depth = space, weights, depth
        slots, types = space.argument_classes.shape
        classes = int(space.argument_classes.max(initial=0)) + 1
        sums = np.zeros((slots, classes))
        self.below: list[
            FloatArray
        ] = []  # for each depth, of every entry the summed weights of its children: (K,)
        rows, columns = np.nonzero(space.argument_classes != NO_TYPE)
        for _ in range(depth):
            below = np.ones(len(space.rules))
            for child in range(space.children.shape[1]):
                has = space.arities[space.rules] > child
                below[has] *= sums[
                    space.first_argument[space.rules[has]] + child, space.children[has, child]
                ]
            by_type = np.zeros((len(space.arities), types))
            np.add.at(by_type, (space.rules, space.types), below)
            totals = weights @ by_type  # (S, T)
            sums = np.zeros((slots, classes))
            np.add.at(sums, (rows, space.argument_classes[rows, columns]), totals[rows, columns])
            self.below.append(below)
        self.total = float(sums[ROOT_ARGUMENT, 0])
        self.choices: dict[tuple[int, int, int], Choices] = {}

    def derivation(self, rng: random.Random) -> tuple[tuple[int, int], ...]:
        """A derivation as slots and the rules in them, parents before children, left to right."""
        space, found = self.space, list[tuple[int, int]]()
        pending = [(ROOT_ARGUMENT, 0, self.depth)]
        while pending:
            state = pending.pop()
            choices = self.choices.get(state) or self._choices(*state)
            rule, children = choices.drawn(rng)
            found.append((state[0], rule))
            if children:
                first, depth = int(space.first_argument[rule]), state[2] - 1
                pending.extend(
                    [(first + at, children[at], depth) for at in range(len(children) - 1, -1, -1)]
                )
        return tuple(found)

    def _choices(self, slot: int, kind: int, depth: int) -> Choices:
        space = self.space
        fitting = np.flatnonzero(space.argument_classes[slot][space.types] == kind)
        weights = self.weights[slot, space.rules[fitting]] * self.below[depth - 1][fitting]
        some = fitting[weights > 0]
        rules = space.rules[some].tolist()
        rows = zip(rules, space.children[some].tolist(), strict=True)
        children = [tuple(row[: space.arities[rule]]) for rule, row in rows]
        sums = list(accumulate(weights[weights > 0].tolist()))
        made = self.choices[slot, kind, depth] = Choices(rules, children, sums)
        return made


@dataclass(frozen=True, slots=True)
class Choices:
    """Rules with the classes of their children, and the sums of their weights up to each."""

    rules: list[int]
    children: list[tuple[int, ...]]
    sums: list[float]

    def drawn(self, rng: random.Random) -> tuple[int, tuple[int, ...]]:
        at = min(bisect_right(self.sums, rng.random() * self.sums[-1]), len(self.sums) - 1)
        return self.rules[at], self.children[at]


class Texts(NamedTuple):
    """The sides of a rule: runs of words, and the numbers of non-terminals between them, from 0."""

    source: tuple[str | int, ...]
    target: tuple[str | int, ...]
    arity: int

    @classmethod
    def of(cls, rule: Rule) -> Texts:
        return cls(runs(rule.source), runs(rule.target), rule.arity)


def runs(symbols: Symbols) -> tuple[str | int, ...]:
    """Symbols with neighbouring words joined.

    >>> runs(Rule.parse("what is NT_1 ### answer ( NT_1 )").target)
    ('answer (', 0, ')')
    """
    groups = groupby(symbols, key=lambda symbol: isinstance(symbol, NonTerminal))
    joined: list[str | int] = []
    for _, group in groups:
        words = list(group)
        joined += [word.index - 1 for word in words if isinstance(word, NonTerminal)] or [
            " ".join(map(str, words))
        ]
    return tuple(joined)


def written(derivation: Sequence[tuple[int, int]], texts: Sequence[Texts]) -> tuple[str, str]:
    """The source and the target of a derivation, put together from its leaves upwards."""
    pending: list[tuple[str, str]] = []
    for _, rule in reversed(derivation):
        source, target, arity = texts[rule]
        below = [pending.pop() for _ in range(arity)]
        pending.append(
            (
                " ".join([part if isinstance(part, str) else below[part][0] for part in source]),
                " ".join([part if isinstance(part, str) else below[part][1] for part in target]),
            )
        )
    return pending[0]
