"""What can be said about a grammar: its rules by kind and, on examples, what it derives and how ambiguously."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nqg.data.example import Example
from nqg.errors import NqgError, counted
from nqg.grammar.arrays import Int64Array
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.grammar import Grammar, Rule
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.semirings import derivation_counts, log_derivation_counts
from nqg.induction.description_length import grammar_bits
from nqg.induction.settings import InductionSettings
from nqg.slots.instantiate import instantiate_slots

CHARTED_AT_ONCE = 512  # examples whose charts are in memory together


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
    return sorted(grammar, key=lambda rule: (-len(rule.source) - len(rule.target), str(rule)))[
        :count
    ]


def coverage(grammar: Grammar, examples: Sequence[Example]) -> Coverage:
    """What the grammar derives of `examples`.

    >>> grammar = Grammar.parse("jump ### J\\nNT_1 twice ### NT_1 NT_1")
    >>> found = coverage(grammar, [Example("jump twice", "J J"), Example("jump", "JUMP"), Example("run", "R")])
    >>> found.examples, found.with_derivation, found.with_target
    (3, 2, 1)
    """
    if not examples:
        raise NqgError("there are no examples to look at")
    everything, right = np.zeros((2, len(examples)))
    uses = np.zeros(len(grammar), dtype=np.int64)
    for start in range(0, len(examples), CHARTED_AT_ONCE):
        part = examples[start : start + CHARTED_AT_ONCE]
        sources = [example.source_tokens for example in part]
        own = instantiate_slots(grammar, sources)
        full = charts(own, sources)
        goal = goal_charts(own, full, [example.target_tokens for example in part])
        everything[start : start + len(part)] = log_derivation_counts(full)
        right[start : start + len(part)] = log_derivation_counts(goal)
        uses += sentences_using(goal._replace(rules=own.model_rule_ids(goal.rules)), len(grammar))
    places = {
        (example.source_tokens, example.target_tokens): at for at, example in enumerate(examples)
    }
    distinct = [at for at in places.values() if np.isfinite(right[at])]
    by_ambiguity = [
        examples[at] for at in np.argsort(everything, kind="stable") if np.isfinite(everything[at])
    ]
    shown = [by_ambiguity[(len(by_ambiguity) - 1) // 2], by_ambiguity[-1]] if by_ambiguity else []
    sources = [example.source_tokens for example in shown]
    exact = derivation_counts(charts(instantiate_slots(grammar, sources), sources))
    median, largest = (
        map(Ambiguity, [example.source for example in shown], exact) if shown else (None, None)
    )
    found = [RuleUse(rule, int(count)) for rule, count in zip(grammar, uses, strict=True)]
    return Coverage(
        examples=len(examples),
        with_derivation=len(by_ambiguity),
        with_target=int(np.count_nonzero(np.isfinite(right))),
        data_bits=float((everything[distinct] - right[distinct]).sum() / np.log(2)),
        median=median,
        largest=largest,
        uses=tuple(sorted(found, key=lambda use: (-use.examples, str(use.rule)))),
    )


def sentences_using(graph: Hypergraph, rules: int) -> Int64Array:
    """For each of so many rules the number of sentences with a derivation that uses it."""
    sentences = np.repeat(np.arange(graph.sentences), np.diff(graph.first_node))
    pairs = np.unique(sentences[graph.owners()] * rules + graph.rules)
    return np.bincount(pairs % rules, minlength=rules)


NUMBERS = ("no", "one", "two", "three", "four")


@dataclass(frozen=True, slots=True)
class GrammarReport:
    """A grammar, what symbols cost, how many rules to list and, where it was asked for, coverage."""

    grammar: Grammar
    settings: InductionSettings
    top: int = 5
    coverage: Coverage | None = None

    def to_dict(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "rules": len(self.grammar),
            "rules_by_arity": {
                str(arity): count for arity, count in rules_by_arity(self.grammar).items()
            },
            "longest_rules": [str(rule) for rule in longest_rules(self.grammar, self.top)],
            "terminal_bits": self.settings.terminal_bits,
            "non_terminal_bits": self.settings.non_terminal_bits,
            "grammar_bits": grammar_bits(self.grammar, self.settings),
        }
        if self.coverage:
            uses = [
                {"rule": str(use.rule), "examples": use.examples}
                for use in self.coverage.uses[: self.top]
            ]
            facts["data"] = asdict(self.coverage) | {"uses": uses}
        return facts

    def __str__(self) -> str:
        paragraphs = [self._size()]
        if self.top and self.grammar.rules:
            paragraphs.append(
                "\n  ".join(["longest rules:", *map(str, longest_rules(self.grammar, self.top))])
            )
        if self.coverage:
            paragraphs += self._fit(self.coverage)
        return "\n\n".join(paragraphs)

    def _size(self) -> str:
        """How many rules there are, by their number of non-terminals, and how many bits."""
        counts = rules_by_arity(self.grammar)
        words = [
            f"{count:,} with {NUMBERS[arity] if arity < 5 else arity}"
            for arity, count in counts.items()
        ]
        if words:
            words[0] += " non-terminal" if min(counts) < 2 else " non-terminals"
        settings, bits = self.settings, grammar_bits(self.grammar, self.settings)
        price = (
            f"{settings.terminal_bits:g} a terminal, {settings.non_terminal_bits:g} a non-terminal"
        )
        lines = [
            ": ".join(filter(None, [f"{len(self.grammar):,} rules", ", ".join(words)])),
            f"{bits:,.1f} bits to write them down ({price})",
        ]
        if self.coverage and self.coverage.with_target:
            data_bits = self.coverage.data_bits
            lines.append(
                f"{data_bits:,.1f} bits to choose the targets of the data among their derivations"
            )
            lines.append(f"{bits + data_bits:,.1f} bits together")
        return "\n".join(lines)

    def _fit(self, found: Coverage) -> Iterator[str]:
        """How the grammar fits the examples, and the rules that their derivations use."""
        parts = {
            "sources with a derivation": found.with_derivation,
            "examples whose target is among the derivations": found.with_target,
        }
        shares = (
            f"{100 * count / found.examples:5.1f} % ({count:,})  {part}"
            for part, count in parts.items()
        )
        lines = [f"on the {counted(found.examples, 'example')} of the data:", *shares]
        if found.median and found.largest:
            middle, most = (
                f"{count:,}"
                if count < 10**9
                else f"{count:.1e}"  # a number that can be astronomical
                for count in (found.median.derivations, found.largest.derivations)
            )
            lines.append(
                f"derivations of a source: {middle} in the median, at most {most}: {found.largest.source}"
            )
        yield "\n  ".join(lines)
        if self.top and found.with_target:
            used = [use for use in found.uses if use.examples]
            title = "most used rules, by the share of those examples whose derivations use them:"
            lines = [
                f"{100 * use.examples / found.with_target:5.1f} %  {use.rule}"
                for use in used[: self.top]
            ]
            unused = f"rules that none of them uses: {len(found.uses) - len(used):,}"
            yield "\n  ".join([title, *lines, unused])
