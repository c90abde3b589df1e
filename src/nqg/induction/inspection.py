"""What can be said about a grammar: its rules by kind and, on examples, what it derives and how ambiguously."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.algebras import derivation_counts, log_derivation_counts
from nqg.grammar.charts import charts, goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import Graph, Longs
from nqg.grammar.inside import Floats
from nqg.grammar.rule import Rule
from nqg.induction.description_length import rule_bits
from nqg.induction.settings import InductionSettings

PART_SIZE = 512  # examples whose charts are in memory together


@dataclass(frozen=True, slots=True)
class RuleUse:
    """How many examples have a derivation of their target that uses the rule."""

    rule: Rule
    examples: int


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """The number of derivations of a source."""

    source: str
    derivations: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """How a grammar fits examples."""

    examples: int
    with_derivation: int  # whose source has a derivation
    with_target: int  # whose target is among the derivations of the source
    data_bits: float  # over distinct pairs of those: what it takes to choose among the derivations of the source
    median: Ambiguity | None  # over sources that have a derivation; of the middle two the smaller
    largest: Ambiguity | None
    uses: tuple[RuleUse, ...]  # most used first


def rules_by_arity(grammar: Grammar) -> dict[int, int]:
    """How many rules have no non-terminal, one, two, …

    >>> rules_by_arity(Grammar.parse("jump ### J\\nNT_1 twice ### NT_1 NT_1\\nrun ### R"))
    {0: 2, 1: 1}
    """
    return dict(sorted(Counter(rule.arity for rule in grammar).items()))


def longest_rules(grammar: Grammar, count: int) -> list[Rule]:
    """The rules with most symbols, the longest first; equally long ones by their text."""
    return sorted(grammar, key=lambda rule: (-len(rule.source) - len(rule.target), str(rule)))[:count]


def grammar_bits(grammar: Grammar, settings: InductionSettings) -> float:
    """Bits to write the grammar down."""
    return sum(rule_bits(rule, settings) for rule in grammar)


def coverage(grammar: Grammar, examples: Sequence[Example]) -> Coverage:
    """What the grammar derives of `examples`.

    >>> grammar = Grammar.parse("jump ### J\\nNT_1 twice ### NT_1 NT_1")
    >>> found = coverage(grammar, [Example("jump twice", "J J"), Example("jump", "JUMP"), Example("run", "R")])
    >>> found.examples, found.with_derivation, found.with_target
    (3, 2, 1)
    """
    if not examples:
        raise NqgError("there are no examples to look at")
    counts = np.zeros((2, len(examples)))
    uses = np.zeros(len(grammar), dtype=np.int64)
    for start, full, goal in _parts(grammar, examples):
        counts[:, start : start + len(full)] = log_derivation_counts(full), log_derivation_counts(goal)
        uses += sentences_using(goal, len(grammar))
    everything, right = counts
    ranked = [int(at) for at in np.argsort(everything, kind="stable") if np.isfinite(everything[at])]
    return Coverage(
        examples=len(examples),
        with_derivation=len(ranked),
        with_target=int(np.count_nonzero(np.isfinite(right))),
        data_bits=_data_bits(examples, everything, right),
        median=_ambiguity(grammar, examples[ranked[(len(ranked) - 1) // 2]]) if ranked else None,
        largest=_ambiguity(grammar, examples[ranked[-1]]) if ranked else None,
        uses=_most_used(grammar, uses),
    )


def _parts(grammar: Grammar, examples: Sequence[Example]) -> Iterator[tuple[int, Graph, Graph]]:
    """The full and the goal charts of consecutive examples, and the number of the first of them."""
    for start in range(0, len(examples), PART_SIZE):
        part = examples[start : start + PART_SIZE]
        full = charts(grammar, [example.source_tokens for example in part])
        yield start, full, goal_charts(grammar, full, [example.target_tokens for example in part])


def sentences_using(graph: Graph, rules: int) -> Longs:
    """For each of so many rules the number of sentences with a derivation that uses it."""
    sentences = np.repeat(np.arange(len(graph)), np.diff(graph.first_choice))
    pairs = np.unique(sentences[graph.owners()] * rules + graph.rules)
    return np.bincount(pairs % rules, minlength=rules)


def _data_bits(examples: Sequence[Example], everything: Floats, right: Floats) -> float:
    """The data term of the objective, over the pairs that can be derived, repetitions counted once."""
    places = {(example.source_tokens, example.target_tokens): at for at, example in enumerate(examples)}
    distinct = [at for at in places.values() if np.isfinite(right[at])]
    return float((everything[distinct] - right[distinct]).sum() / np.log(2))


def _ambiguity(grammar: Grammar, example: Example) -> Ambiguity:
    return Ambiguity(example.source, derivation_counts(charts(grammar, [example.source_tokens]))[0])


def _most_used(grammar: Grammar, uses: Longs) -> tuple[RuleUse, ...]:
    found = [RuleUse(rule, int(count)) for rule, count in zip(grammar, uses, strict=True)]
    return tuple(sorted(found, key=lambda use: (-use.examples, str(use.rule))))
