"""What can be said about a grammar: its rules by kind and, on examples, what it derives and how ambiguously."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from nqg.data.examples import Example
from nqg.errors import NqgError
from nqg.grammar.arrays import FloatArray, Int64Array
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.grammar import Grammar, Rule
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.semirings import derivation_counts, log_derivation_counts
from nqg.induction.description_length import rule_bits
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


def _parts(grammar: Grammar, examples: Sequence[Example]) -> Iterator[tuple[int, Hypergraph, Hypergraph]]:
    """The full and the goal charts of consecutive examples, and the number of the first of them."""
    for start in range(0, len(examples), PART_SIZE):
        part = examples[start : start + PART_SIZE]
        full = charts(grammar, [example.source_tokens for example in part])
        yield start, full, goal_charts(grammar, full, [example.target_tokens for example in part])


def sentences_using(graph: Hypergraph, rules: int) -> Int64Array:
    """For each of so many rules the number of sentences with a derivation that uses it."""
    sentences = np.repeat(np.arange(len(graph)), np.diff(graph.first_node))
    pairs = np.unique(sentences[graph.owners()] * rules + graph.rules)
    return np.bincount(pairs % rules, minlength=rules)


def _data_bits(examples: Sequence[Example], everything: FloatArray, right: FloatArray) -> float:
    """The data term of the objective, over the pairs that can be derived, repetitions counted once."""
    places = {(example.source_tokens, example.target_tokens): at for at, example in enumerate(examples)}
    distinct = [at for at in places.values() if np.isfinite(right[at])]
    return float((everything[distinct] - right[distinct]).sum() / np.log(2))


def _ambiguity(grammar: Grammar, example: Example) -> Ambiguity:
    return Ambiguity(example.source, derivation_counts(charts(grammar, [example.source_tokens]))[0])


def _most_used(grammar: Grammar, uses: Int64Array) -> tuple[RuleUse, ...]:
    found = [RuleUse(rule, int(count)) for rule, count in zip(grammar, uses, strict=True)]
    return tuple(sorted(found, key=lambda use: (-use.examples, str(use.rule))))


NUMBERS = ("no", "one", "two", "three", "four")


@dataclass(frozen=True, slots=True)
class Report:
    """A grammar, what symbols cost, how many rules to list and, where they were asked for, coverage and trace."""

    grammar: Grammar
    settings: InductionSettings
    top: int = 5
    coverage: Coverage | None = None
    trace: Trace | None = None

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        facts: dict[str, Any] = {
            "rules": len(self.grammar),
            "rules_by_arity": {str(arity): count for arity, count in rules_by_arity(self.grammar).items()},
            "longest_rules": [str(rule) for rule in longest_rules(self.grammar, self.top)],
            "terminal_bits": self.settings.terminal_bits,
            "non_terminal_bits": self.settings.non_terminal_bits,
            "grammar_bits": grammar_bits(self.grammar, self.settings),
        }
        if self.coverage:
            facts["data"] = _coverage_facts(self.coverage, self.top)
        if self.trace:
            facts["search"] = _trace_facts(self.trace)
        return facts

    def __str__(self) -> str:
        return "\n\n".join(self._paragraphs())

    def _paragraphs(self) -> Iterator[str]:
        yield "\n".join([_arities(self.grammar), *self._bits()])
        if self.top and self.grammar.rules:
            yield _listed("longest rules", [str(rule) for rule in longest_rules(self.grammar, self.top)])
        if self.coverage:
            yield _coverage_text(self.coverage)
            if self.top and self.coverage.with_target:
                yield _listed(
                    "most used rules, by the share of those examples whose derivations use them",
                    _uses(self.coverage, self.top),
                )
        if self.trace:
            yield _trace_text(self.trace)

    def _bits(self) -> Iterator[str]:
        settings, bits = self.settings, grammar_bits(self.grammar, self.settings)
        price = f"{settings.terminal_bits:g} a terminal, {settings.non_terminal_bits:g} a non-terminal"
        yield f"{bits:,.1f} bits to write them down ({price})"
        if self.coverage and self.coverage.with_target:
            data_bits = self.coverage.data_bits
            yield f"{data_bits:,.1f} bits to choose the targets of the data among their derivations"
            yield f"{bits + data_bits:,.1f} bits together"


def _arities(grammar: Grammar) -> str:
    """How many rules there are, by their number of non-terminals.

    >>> _arities(Grammar.parse("jump ### J\\nNT_1 twice ### NT_1 NT_1"))
    '2 rules: 1 with no non-terminal, 1 with one'
    """
    counts = rules_by_arity(grammar)
    words = [f"{count:,} with {NUMBERS[arity] if arity < 5 else arity}" for arity, count in counts.items()]
    if words:
        words[0] += " non-terminal" if min(counts) < 2 else " non-terminals"
    return ": ".join(filter(None, [f"{len(grammar):,} rules", ", ".join(words)]))


def _listed(title: str, lines: list[str]) -> str:
    return "\n".join([f"{title}:", *(f"  {line}" for line in lines)])


def _coverage_text(coverage: Coverage) -> str:
    lines = [
        f"{_share(coverage.with_derivation, coverage.examples)}  sources with a derivation",
        f"{_share(coverage.with_target, coverage.examples)}  examples whose target is among the derivations",
    ]
    if coverage.median and coverage.largest:
        middle, most = (_large(found) for found in (coverage.median, coverage.largest))
        lines.append(f"derivations of a source: {middle} in the median, at most {most}: {coverage.largest.source}")
    return _listed(f"on the {coverage.examples:,} examples of the data", lines)


def _large(ambiguity: Ambiguity) -> str:
    """A number that can be astronomical.

    >>> _large(Ambiguity("jump", 1234)), _large(Ambiguity("jump", 12345678901234567890))
    ('1,234', '1.2e+19')
    """
    count = ambiguity.derivations
    return f"{count:,}" if count < 10**9 else f"{count:.1e}"


def _share(count: int, of: int) -> str:
    return f"{100 * count / of:5.1f} % ({count:,})"


def _uses(coverage: Coverage, top: int) -> list[str]:
    used = [use for use in coverage.uses if use.examples]
    lines = [f"{100 * use.examples / coverage.with_target:5.1f} %  {use.rule}" for use in used[:top]]
    unused = len(coverage.uses) - len(used)
    return [*lines, f"rules that none of them uses: {unused:,}"]


def _trace_text(trace: Trace) -> str:
    before, after = trace.header.length.total, trace.length.total
    phases = ", ".join(f"{count:,} {phase}" for phase, count in _steps_by_phase(trace).items()) or "none"
    return (
        f"search: {len(trace.steps):,} steps ({phases}) in {trace.seconds:,.1f} s, from {trace.header.rules:,} rules "
        f"to {trace.rules:,}, from {before:,.0f} bits to {after:,.0f}"
    )


def _steps_by_phase(trace: Trace) -> dict[str, int]:
    return dict(Counter(traced.step.phase.value for traced in trace.steps))


def _coverage_facts(coverage: Coverage, top: int) -> dict[str, Any]:
    uses = [{"rule": str(use.rule), "examples": use.examples} for use in coverage.uses[:top]]
    return asdict(coverage) | {"uses": uses}


def _trace_facts(trace: Trace) -> dict[str, Any]:
    return {
        "steps": len(trace.steps),
        "steps_by_phase": _steps_by_phase(trace),
        "seconds": trace.seconds,
        "start": {"rules": trace.header.rules, **asdict(trace.header.length)},
        "end": {"rules": trace.rules, **asdict(trace.length)},
    }


COLOURS = {"total": "#bbbbcc", "grammar": "#4477aa", "data": "#ee6677", "rules": "#444455"}
WIDTHS = {"total": 4.0, "grammar": 1.4, "data": 1.4}
SHADES = {
    Phase.SPLITTING: "#ffffff",
    Phase.FACTORING: "#fdf0c8",
    Phase.PRUNING: "#d5ead5",
    Phase.SAMPLING: "#d3e3f5",
}
SHADE_NAMES = {Phase.FACTORING: "yellow", Phase.PRUNING: "green", Phase.SAMPLING: "blue"}


def write_plot(path: Path, trace: Trace) -> None:
    """Draw description length and number of rules over the steps, as PNG or SVG by the name of the file."""
    write_picture(path, lambda figure_class: _drawn(trace, figure_class))


def _drawn(trace: Trace, figure_class: Any) -> Any:
    figure = figure_class(figsize=(9, 5.5), layout="constrained")
    _draw(figure, trace)
    return figure


def _draw(figure: Any, trace: Trace) -> None:
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    _draw_bits(above, trace)
    _draw_rules(below, trace)
    above.set_yscale("log")
    below.set_ylim(bottom=0)
    for panel in (above, below):
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.set_xlim(0, max(1, len(trace.steps)))
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
        for run in _phase_runs(trace):
            panel.axvspan(run.start, run.end, color=SHADES[run.phase], zorder=-1)
    figure.suptitle(_title(trace), fontsize=10)


def _title(trace: Trace) -> str:
    header = trace.header
    shortest = header.settings.get("shortest")
    searched = "" if shortest is None or shortest >= header.examples else f"the {shortest:,} shortest of "
    reached = f"{trace.rules:,} rules, {trace.length.total:,.0f} bits after {len(trace.steps):,} steps"
    return f"{reached} on {searched}{header.examples:,} examples"


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


def _draw_rules(panel: Any, trace: Trace) -> None:
    counts = [trace.header.rules, *(traced.step.rules for traced in trace.steps)]
    panel.plot(range(len(counts)), counts, color=COLOURS["rules"], linewidth=1.2)
    panel.set_ylabel("rules", fontsize=9)
    panel.set_xlabel("step" + _legend_of_shades(trace), fontsize=9)


def _legend_of_shades(trace: Trace) -> str:
    phases = [phase for phase in Phase if phase in {run.phase for run in _phase_runs(trace)}]
    return "".join(f"; {SHADE_NAMES[phase]}: {phase}" for phase in phases if phase in SHADE_NAMES)


@dataclass(frozen=True, slots=True)
class PhaseRun:
    """Steps `start` (not included) to `end` of one phase."""

    phase: Phase
    start: int
    end: int


def _phase_runs(trace: Trace) -> Iterator[PhaseRun]:
    end = 0
    for phase, steps in groupby(traced.step.phase for traced in trace.steps):
        start, end = end, end + len(list(steps))
        yield PhaseRun(phase, start, end)
