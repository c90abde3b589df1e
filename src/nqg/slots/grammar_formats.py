"""Grammars of strings in the formats of other decoders: Lark, and GBNF of llama.cpp."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nqg.slots.string_grammar import (
    Alternative,
    Reference,
    StringGrammar,
    StringSymbol,
    Terminal,
)
from nqg.text.patterns import gbnf_expression, gbnf_string, regular_expression
from nqg.types.target_grammar import reachable

LINE_WIDTH = 100
Rules = Mapping[str, Sequence[Alternative]]


def write_lark(grammar: StringGrammar) -> str:
    """The grammar as `lark` and llguidance read it."""

    def written(symbol: StringSymbol) -> str:
        if isinstance(symbol, Reference):
            return symbol.rule
        if isinstance(symbol, Terminal):
            return symbol.name
        return json.dumps(symbol, ensure_ascii=False)

    lines = []
    for name, alternatives in grammar.rules.items():
        lines += _rule(f"{name}: ", alternatives, written, "\n    | ")
    for name, pattern in grammar.terminals.items():
        lines.append(f"{name}: /{regular_expression(pattern)}/")
    return "".join(f"{line}\n" for line in lines)


def write_gbnf(grammar: StringGrammar) -> str:
    """The grammar as llama.cpp reads it, which knows no rule that begins with itself."""
    rules = without_left_recursion(grammar.rules)
    # A rule and a terminal may have the same name, which differs in its casing.
    names: dict[StringSymbol, str] = {Reference(grammar.start): "root"}
    taken = {"root"}
    terminals = [Terminal(*item) for item in grammar.terminals.items()]
    symbols: list[Reference | Terminal] = [*terminals]
    symbols += [Reference(rule) for rule in rules if rule != grammar.start]
    for symbol in symbols:
        plain = symbol.rule if isinstance(symbol, Reference) else symbol.name
        name = plain.lower().replace("_", "-")
        while name in taken:
            name += "-x"
        taken.add(name)
        names[symbol] = name

    def written(symbol: StringSymbol) -> str:
        return gbnf_string(symbol) if isinstance(symbol, str) else names[symbol]

    lines = []
    for rule, alternatives in rules.items():
        head = f"{names[Reference(rule)]} ::= "
        lines += _rule(head, alternatives, written, " |\n    ")
    for terminal in terminals:
        lines.append(f"{names[terminal]} ::= {gbnf_expression(terminal.pattern)}")
    return "".join(f"{line}\n" for line in lines)


def _rule(
    head: str,
    alternatives: Sequence[Alternative],
    written: Callable[[StringSymbol], str],
    line_break: str,
) -> list[str]:
    """The lines of a rule: alternatives share a line up to its width."""
    lines = [head]
    for number, alternative in enumerate(alternatives):
        text = " ".join(map(written, alternative))
        if not number:
            lines[-1] += text
        elif len(lines[-1]) + len(text) + 3 <= LINE_WIDTH:
            lines[-1] += f" | {text}"
        else:
            # The mark ends a line in one format and begins it in the other.
            before, after = line_break.split("\n")
            lines[-1] += before
            lines.append(f"{after}{text}")
    return lines


def without_left_recursion(rules: Rules) -> dict[str, list[Alternative]]:
    """Rules for the same strings, none of which begins with itself, directly or through others.

    The left-corner transform: what is written first is an alternative that begins with no rule of
    its circle, and `a_after_b` is what remains of `a` behind a `b` at its beginning.

    >>> rules = {"a": [(Reference("a"), "x"), ("y",)]}
    >>> for name, alternatives in without_left_recursion(rules).items():
    ...     print(name, *alternatives)
    a ('y',) ('y', Reference(rule='a_after_a'))
    a_after_a ('x',) ('x', Reference(rule='a_after_a'))
    """
    first_of: dict[str, set[str]] = {}
    for name, alternatives in rules.items():
        first_of[name] = set()
        for first, *_ in alternatives:
            if isinstance(first, Reference):
                first_of[name].add(first.rule)
    below = {name: reachable(name, first_of) for name in rules}
    changed: dict[str, list[Alternative]] = {}
    for name, alternatives in rules.items():
        circle = [rule for rule in rules if rule in below[name] and name in below[rule]]
        if len(circle) > 1 or name in first_of[name]:
            changed |= _Circle.of(circle, rules).from_left_corner(name)
        else:
            changed[name] = list(alternatives)
    return changed


@dataclass(frozen=True)
class _Circle:
    """Rules that begin with each other; their alternatives are sorted by what they begin with.

    `corners` are the alternatives that begin with no rule of the circle, each with its rule.
    `complete` has the rules that are complete where a rule is: they may consist of this rule alone.
    `followed` has the rules that begin with a rule and go on, and what they write behind it.
    """

    corners: list[tuple[str, Alternative]]
    complete: dict[str, set[str]]
    followed: dict[str, list[tuple[str, Alternative]]]

    @classmethod
    def of(cls, circle: Sequence[str], rules: Rules) -> _Circle:
        corners: list[tuple[str, Alternative]] = []
        units: dict[str, set[str]] = {}
        followed: dict[str, list[tuple[str, Alternative]]] = {}
        for name in circle:
            units[name], followed[name] = set(), []
        for name in circle:
            for alternative in rules[name]:
                first = alternative[0]
                if not isinstance(first, Reference) or first.rule not in units:
                    corners.append((name, alternative))
                elif len(alternative) == 1:
                    units[first.rule].add(name)
                else:
                    followed[first.rule].append((name, alternative[1:]))
        complete = {name: reachable(name, units) for name in circle}
        return cls(corners, complete, followed)

    def from_left_corner(self, start: str) -> dict[str, list[Alternative]]:
        """The alternatives of a rule of the circle, and the rules for what remains of it."""
        alternatives: dict[str, list[Alternative]] = {start: []}
        for name, corner in self.corners:
            alternatives[start] += self._continued(start, name, corner)
        for name in self.complete:
            remainders = self._remainders(name)
            if remainders:
                rest = alternatives[_remainder_rule(start, name)] = []
                for longer, behind in remainders:
                    rest += self._continued(start, longer, behind)
        # The same may be written along different rules.
        for rule, written in alternatives.items():
            alternatives[rule] = list(dict.fromkeys(written))
        return alternatives

    def _continued(
        self, start: str, name: str, written: Alternative
    ) -> Iterator[Alternative]:
        """What was written up to the end of a `name`, as a whole `start` or as its beginning."""
        if start in self.complete[name]:
            yield written
        if self._remainders(name):
            yield (*written, Reference(_remainder_rule(start, name)))

    def _remainders(self, name: str) -> list[tuple[str, Alternative]]:
        """What may follow a rule, each with the longer rule that it is a part of."""
        remainders: list[tuple[str, Alternative]] = []
        for finished in sorted(self.complete[name]):
            remainders += self.followed[finished]
        return remainders


def _remainder_rule(start: str, name: str) -> str:
    return f"{start}_after_{name}"
