"""Grammars of strings in the formats of other decoders: Lark, and GBNF of llama.cpp."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

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
        starts = [each[0] for each in alternatives]
        first_of[name] = {each.rule for each in starts if isinstance(each, Reference)}
    below = {name: reachable(name, first_of) for name in rules}
    changed: dict[str, list[Alternative]] = {}
    for name, alternatives in rules.items():
        circle = [each for each in rules if each in below[name] and name in below[each]]
        if not any(first_of[each].intersection(circle) for each in circle):
            changed[name] = list(alternatives)
            continue
        changed |= _from_left_corner(name, circle, rules)
    return changed


def _from_left_corner(
    name: str, circle: Sequence[str], rules: Rules
) -> dict[str, list[Alternative]]:
    """The alternatives of a rule of a circle, and the rules for what remains of it."""
    # Which rules are complete where another one is, and what may follow each.
    units: dict[str, set[str]] = {each: set() for each in circle}
    followed: dict[str, list[tuple[str, Alternative]]] = {each: [] for each in circle}
    corners: list[tuple[str, Alternative]] = []
    for other in circle:
        for alternative in rules[other]:
            start = alternative[0]
            if not isinstance(start, Reference) or start.rule not in units:
                corners.append((other, alternative))
            elif len(alternative) == 1:
                units[start.rule].add(other)
            else:
                followed[start.rule].append((other, alternative[1:]))
    complete = {each: reachable(each, units) for each in circle}
    rests = {each: f"{name}_after_{each}" for each in circle}
    has_rest = {
        each: any(followed[other] for other in complete[each]) for each in circle
    }

    def continued(other: str, written: Alternative) -> list[Alternative]:
        """What was written of `other`, as the end of the rule or as its beginning."""
        alternatives = []
        if name in complete[other]:
            alternatives.append(written)
        if has_rest[other]:
            alternatives.append((*written, Reference(rests[other])))
        return alternatives

    changed: dict[str, list[Alternative]] = {name: []}
    for other, alternative in corners:
        changed[name] += continued(other, alternative)
    for each in circle:
        if has_rest[each]:
            rest = changed[rests[each]] = []
            for seen in sorted(complete[each]):
                for other, behind in followed[seen]:
                    rest += continued(other, behind)
    return {rule: list(dict.fromkeys(written)) for rule, written in changed.items()}
