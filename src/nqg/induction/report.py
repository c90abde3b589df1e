"""What `nqg inspect` says of a grammar, as text and as plain values for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from nqg.grammar.grammar import Grammar
from nqg.induction.inspection import Ambiguity, Coverage, grammar_bits, longest_rules, rules_by_arity
from nqg.induction.settings import InductionSettings
from nqg.induction.trace import Trace

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
    return [f"{100 * use.examples / coverage.with_target:5.1f} %  {use.rule}" for use in coverage.uses[:top]]


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
