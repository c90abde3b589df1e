"""What can be said about a grammar: its rules by kind and, on examples, what it derives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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

# Examples whose charts are in memory together.
CHARTED_AT_ONCE = 512
NUMBERS = ("no", "one", "two", "three", "four")


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

    def __str__(self) -> str:
        # The number can be astronomical.
        return (
            f"{self.derivations:,}"
            if self.derivations < 10**9
            else f"{self.derivations:.1e}"
        )


@dataclass(frozen=True, slots=True)
class Coverage:
    """How a grammar fits examples.

    The data bits choose among the derivations of the source, over distinct pairs that have a
    derivation of the target. Ambiguities are those of sources with a derivation; of the middle two
    the median is the smaller.
    """

    examples: int
    with_derivation: int  # whose source has a derivation
    with_target: int  # whose target is among the derivations of the source
    data_bits: float
    median: Ambiguity | None
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

    def rank(rule: Rule) -> tuple[int, str]:
        return -len(rule.source) - len(rule.target), str(rule)

    return sorted(grammar, key=rank)[:count]


def coverage(grammar: Grammar, examples: Sequence[Example]) -> Coverage:
    """What the grammar derives of `examples`.

    >>> grammar = Grammar.parse("jump ### J\\nNT_1 twice ### NT_1 NT_1")
    >>> pairs = [("jump twice", "J J"), ("jump", "JUMP"), ("run", "R")]
    >>> covered = coverage(grammar, [Example(*pair) for pair in pairs])
    >>> covered.examples, covered.with_derivation, covered.with_target
    (3, 2, 1)
    """
    if not examples:
        raise NqgError("there are no examples to look at")
    log_full, log_goal = np.zeros((2, len(examples)))
    uses = np.zeros(len(grammar), dtype=np.int64)
    for start in range(0, len(examples), CHARTED_AT_ONCE):
        batch = slice(start, start + CHARTED_AT_ONCE)
        sources = [example.source_tokens for example in examples[batch]]
        instances = instantiate_slots(grammar, sources)
        full = charts(instances, sources)
        targets = [example.target_tokens for example in examples[batch]]
        goal = goal_charts(instances, full, targets)
        log_full[batch] = log_derivation_counts(full)
        log_goal[batch] = log_derivation_counts(goal)
        goal = goal._replace(rules=instances.model_rule_ids(goal.rules))
        uses += sentences_using(goal, len(grammar))

    # Distinct pairs count once in the data term.
    last: dict[object, int] = {}
    for number, example in enumerate(examples):
        if np.isfinite(log_goal[number]):
            last[example.source_tokens, example.target_tokens] = number
    distinct = list(last.values())

    # The sources with the median and the largest number of derivations are counted exactly.
    order = np.argsort(log_full, kind="stable")
    order = order[np.isfinite(log_full[order])]
    median, largest = None, None
    if len(order):
        middle = examples[order[(len(order) - 1) // 2]]
        ends = [middle.source_tokens, examples[order[-1]].source_tokens]
        exact = derivation_counts(charts(instantiate_slots(grammar, ends), ends))
        median = Ambiguity(middle.source, exact[0])
        largest = Ambiguity(examples[order[-1]].source, exact[1])
    nats = (log_full[distinct] - log_goal[distinct]).sum()
    rule_uses = map(RuleUse, grammar, uses.tolist())
    most_used = sorted(rule_uses, key=lambda use: (-use.examples, str(use.rule)))
    return Coverage(
        examples=len(examples),
        with_derivation=len(order),
        with_target=int(np.count_nonzero(np.isfinite(log_goal))),
        data_bits=float(nats / np.log(2)),
        median=median,
        largest=largest,
        uses=tuple(most_used),
    )


def sentences_using(graph: Hypergraph, rules: int) -> Int64Array:
    """For each of so many rules the number of sentences with a derivation that uses it."""
    sentences = np.repeat(np.arange(graph.sentences), np.diff(graph.first_node))
    pairs = np.unique(sentences[graph.owners()] * rules + graph.rules)
    return np.bincount(pairs % rules, minlength=rules)


@dataclass(frozen=True, slots=True)
class GrammarReport:
    """A grammar, what symbols cost, how many rules to list and, where it was asked for,
    coverage.
    """

    grammar: Grammar
    settings: InductionSettings
    top: int = 5
    coverage: Coverage | None = None

    def to_dict(self) -> dict[str, Any]:
        by_arity = rules_by_arity(self.grammar)
        longest = longest_rules(self.grammar, self.top)
        facts: dict[str, Any] = {
            "rules": len(self.grammar),
            "rules_by_arity": {str(arity): count for arity, count in by_arity.items()},
            "longest_rules": list(map(str, longest)),
            "terminal_bits": self.settings.terminal_bits,
            "non_terminal_bits": self.settings.non_terminal_bits,
            "grammar_bits": grammar_bits(self.grammar, self.settings),
        }
        if self.coverage:
            facts["data"] = asdict(self.coverage)
            facts["data"]["uses"] = [
                {"rule": str(use.rule), "examples": use.examples}
                for use in self.coverage.uses[: self.top]
            ]
        return facts

    def __str__(self) -> str:
        paragraphs = [self._size()]
        if self.top and self.grammar.rules:
            longest = map(str, longest_rules(self.grammar, self.top))
            paragraphs.append("\n  ".join(["longest rules:", *longest]))
        if self.coverage:
            paragraphs.append(self._fit(self.coverage))
            if self.top and self.coverage.with_target:
                paragraphs.append(self._uses(self.coverage))
        return "\n\n".join(paragraphs)

    def _size(self) -> str:
        """How many rules there are, by their number of non-terminals, and how many bits."""
        kinds: list[str] = []
        for arity, count in rules_by_arity(self.grammar).items():
            kinds.append(f"{count:,} with {NUMBERS[arity] if arity < 5 else arity}")
            if len(kinds) == 1:
                kinds[0] += " non-terminal" if arity < 2 else " non-terminals"
        size = f"{len(self.grammar):,} rules"
        if kinds:
            size += ": " + ", ".join(kinds)
        settings, bits = self.settings, grammar_bits(self.grammar, self.settings)
        lines = [
            size,
            f"{bits:,.1f} bits to write them down ({settings.terminal_bits:g} a terminal, "
            f"{settings.non_terminal_bits:g} a non-terminal)",
        ]
        if self.coverage and self.coverage.with_target:
            data_bits = self.coverage.data_bits
            lines += [
                f"{data_bits:,.1f} bits to choose the targets of the data among their derivations",
                f"{bits + data_bits:,.1f} bits together",
            ]
        return "\n".join(lines)

    def _fit(self, covered: Coverage) -> str:
        """How the grammar fits the examples."""
        lines = [f"on the {counted(covered.examples, 'example')} of the data:"]
        for count, kind in (
            (covered.with_derivation, "sources with a derivation"),
            (covered.with_target, "examples whose target is among the derivations"),
        ):
            lines.append(f"{100 * count / covered.examples:5.1f} % ({count:,})  {kind}")
        if covered.median and covered.largest:
            lines.append(
                f"derivations of a source: {covered.median} in the median, "
                f"at most {covered.largest}: {covered.largest.source}"
            )
        return "\n  ".join(lines)

    def _uses(self, covered: Coverage) -> str:
        """The rules that derivations of the examples use most."""
        used = [use for use in covered.uses if use.examples]
        lines = [
            "most used rules, by the share of those examples whose derivations use them:"
        ]
        lines += [
            f"{100 * use.examples / covered.with_target:5.1f} %  {use.rule}"
            for use in used[: self.top]
        ]
        lines.append(f"rules that none of them uses: {len(covered.uses) - len(used):,}")
        return "\n  ".join(lines)
