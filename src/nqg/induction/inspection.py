"""What can be said about a grammar: its rules by kind and, on examples, what it derives and how ambiguously."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from nqg.data.examples import Example
from nqg.errors import NqgError, counted
from nqg.grammar.arrays import Int64Array
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.grammar import Grammar, Rule
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.semirings import derivation_counts, log_derivation_counts
from nqg.grammar.slots import columns, of_sentences
from nqg.induction.description_length import grammar_bits
from nqg.induction.search import Phase
from nqg.induction.settings import InductionSettings
from nqg.induction.trace import Trace
from nqg.plotting import write_picture

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
    for start in range(0, len(examples), PART_SIZE):
        part = examples[start : start + PART_SIZE]
        sources = [example.source_tokens for example in part]
        own = of_sentences(grammar, sources)
        full = charts(own, sources)
        goal = goal_charts(own, full, [example.target_tokens for example in part])
        everything[start : start + len(part)] = log_derivation_counts(full)
        right[start : start + len(part)] = log_derivation_counts(goal)
        uses += sentences_using(replace(goal, rules=columns(own, goal.rules)), len(grammar))
    places = {(example.source_tokens, example.target_tokens): at for at, example in enumerate(examples)}
    distinct = [at for at in places.values() if np.isfinite(right[at])]
    by_ambiguity = [examples[at] for at in np.argsort(everything, kind="stable") if np.isfinite(everything[at])]
    shown = [by_ambiguity[(len(by_ambiguity) - 1) // 2], by_ambiguity[-1]] if by_ambiguity else []
    sources = [example.source_tokens for example in shown]
    exact = derivation_counts(charts(of_sentences(grammar, sources), sources))
    median, largest = map(Ambiguity, [example.source for example in shown], exact) if shown else (None, None)
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
    sentences = np.repeat(np.arange(len(graph)), np.diff(graph.first_node))
    pairs = np.unique(sentences[graph.owners()] * rules + graph.rules)
    return np.bincount(pairs % rules, minlength=rules)


NUMBERS = ("no", "one", "two", "three", "four")


@dataclass(frozen=True, slots=True)
class Report:
    """A grammar, what symbols cost, how many rules to list and, where they were asked for, coverage and trace."""

    grammar: Grammar
    settings: InductionSettings
    top: int = 5
    coverage: Coverage | None = None
    trace: Trace | None = None

    def to_dict(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "rules": len(self.grammar),
            "rules_by_arity": {str(arity): count for arity, count in rules_by_arity(self.grammar).items()},
            "longest_rules": [str(rule) for rule in longest_rules(self.grammar, self.top)],
            "terminal_bits": self.settings.terminal_bits,
            "non_terminal_bits": self.settings.non_terminal_bits,
            "grammar_bits": grammar_bits(self.grammar, self.settings),
        }
        if self.coverage:
            uses = [{"rule": str(use.rule), "examples": use.examples} for use in self.coverage.uses[: self.top]]
            facts["data"] = asdict(self.coverage) | {"uses": uses}
        if trace := self.trace:
            facts["search"] = {
                "steps": len(trace.steps),
                "steps_by_phase": dict(Counter(traced.step.phase.value for traced in trace.steps)),
                "seconds": trace.seconds,
                "start": {"rules": trace.header.rules, **asdict(trace.header.length)},
                "end": {"rules": trace.rules, **asdict(trace.length)},
            }
        return facts

    def __str__(self) -> str:
        paragraphs = [self._size()]
        if self.top and self.grammar.rules:
            paragraphs.append("\n  ".join(["longest rules:", *map(str, longest_rules(self.grammar, self.top))]))
        if self.coverage:
            paragraphs += self._fit(self.coverage)
        if trace := self.trace:
            by_phase = Counter(traced.step.phase.value for traced in trace.steps)
            phases = ", ".join(f"{count:,} {phase}" for phase, count in by_phase.items()) or "none"
            paragraphs.append(
                f"search: {len(trace.steps):,} steps ({phases}) in {trace.seconds:,.1f} s, "
                f"from {trace.header.rules:,} rules to {trace.rules:,}, "
                f"from {trace.header.length.total:,.0f} bits to {trace.length.total:,.0f}"
            )
        return "\n\n".join(paragraphs)

    def _size(self) -> str:
        """How many rules there are, by their number of non-terminals, and how many bits."""
        counts = rules_by_arity(self.grammar)
        words = [f"{count:,} with {NUMBERS[arity] if arity < 5 else arity}" for arity, count in counts.items()]
        if words:
            words[0] += " non-terminal" if min(counts) < 2 else " non-terminals"
        settings, bits = self.settings, grammar_bits(self.grammar, self.settings)
        price = f"{settings.terminal_bits:g} a terminal, {settings.non_terminal_bits:g} a non-terminal"
        lines = [
            ": ".join(filter(None, [f"{len(self.grammar):,} rules", ", ".join(words)])),
            f"{bits:,.1f} bits to write them down ({price})",
        ]
        if self.coverage and self.coverage.with_target:
            data_bits = self.coverage.data_bits
            lines.append(f"{data_bits:,.1f} bits to choose the targets of the data among their derivations")
            lines.append(f"{bits + data_bits:,.1f} bits together")
        return "\n".join(lines)

    def _fit(self, found: Coverage) -> Iterator[str]:
        """How the grammar fits the examples, and the rules that their derivations use."""
        parts = {
            "sources with a derivation": found.with_derivation,
            "examples whose target is among the derivations": found.with_target,
        }
        shares = (f"{100 * count / found.examples:5.1f} % ({count:,})  {part}" for part, count in parts.items())
        lines = [f"on the {counted(found.examples, 'example')} of the data:", *shares]
        if found.median and found.largest:
            middle, most = (
                f"{count:,}" if count < 10**9 else f"{count:.1e}"  # a number that can be astronomical
                for count in (found.median.derivations, found.largest.derivations)
            )
            lines.append(f"derivations of a source: {middle} in the median, at most {most}: {found.largest.source}")
        yield "\n  ".join(lines)
        if self.top and found.with_target:
            used = [use for use in found.uses if use.examples]
            title = "most used rules, by the share of those examples whose derivations use them:"
            lines = [f"{100 * use.examples / found.with_target:5.1f} %  {use.rule}" for use in used[: self.top]]
            unused = f"rules that none of them uses: {len(found.uses) - len(used):,}"
            yield "\n  ".join([title, *lines, unused])


COLOURS = {"total": "#bbbbcc", "grammar": "#4477aa", "data": "#ee6677", "rules": "#444455"}
WIDTHS = {"total": 4.0, "grammar": 1.4, "data": 1.4}
SHADES = {  # and their names, but for that of the phase with which every search begins
    Phase.SPLITTING: ("#ffffff", ""),
    Phase.FACTORING: ("#fdf0c8", "yellow"),
    Phase.PRUNING: ("#d5ead5", "green"),
    Phase.RETURNING: ("#f3d9e8", "pink"),
    Phase.SAMPLING: ("#d3e3f5", "blue"),
    Phase.FRAMING: ("#777788", "grey"),
}


def write_plot(path: Path, trace: Trace) -> None:
    """Draw description length and number of rules over the steps, as PNG or SVG by the name of the file."""

    def draw(figure_class: Any) -> Any:
        figure = figure_class(figsize=(9, 5.5), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        _draw_bits(above, trace)
        _draw_rules(below, trace)
        for panel in (above, below):
            panel.yaxis.set_major_formatter("{x:,.0f}")
            panel.set_xlim(0, max(1, len(trace.steps)))
            panel.spines[["top", "right"]].set_visible(False)
            panel.tick_params(labelsize=8)
            end = 0
            for phase, steps in groupby(traced.step.phase for traced in trace.steps):
                start, end = end, end + len(list(steps))
                panel.axvspan(start, end, color=SHADES[phase][0], zorder=-1)
        header = trace.header
        shortest = header.settings.get("shortest")
        searched = "" if shortest is None or shortest >= header.examples else f"the {shortest:,} shortest of "
        reached = f"{trace.rules:,} rules, {trace.length.total:,.0f} bits after {len(trace.steps):,} steps"
        figure.suptitle(f"{reached} on {searched}{header.examples:,} examples", fontsize=10)
        return figure

    write_picture(path, draw)


def _draw_bits(panel: Any, trace: Trace) -> None:
    """The objective and its two parts; where a part is 0 it has no place on a logarithmic scale."""
    lengths = [trace.header.length, *(traced.step.length for traced in trace.steps)]
    parts = {
        "total": [length.total for length in lengths],
        "grammar": [length.grammar_bits for length in lengths],
        "data": [length.data_bits or math.nan for length in lengths],
    }
    for part, bits in parts.items():
        panel.plot(range(len(bits)), bits, color=COLOURS[part], linewidth=WIDTHS[part], label=part)
    panel.set_ylabel("description length, bits", fontsize=9)
    panel.legend(fontsize=8, frameon=False)
    panel.set_yscale("log")


def _draw_rules(panel: Any, trace: Trace) -> None:
    counts = [trace.header.rules, *(traced.step.rules for traced in trace.steps)]
    panel.plot(range(len(counts)), counts, color=COLOURS["rules"], linewidth=1.2)
    panel.set_ylim(bottom=0)
    panel.set_ylabel("rules", fontsize=9)
    phases = {traced.step.phase for traced in trace.steps}
    shades = [f"; {name}: {phase}" for phase, (_, name) in SHADES.items() if name and phase in phases]
    panel.set_xlabel("step" + "".join(shades), fontsize=9)
