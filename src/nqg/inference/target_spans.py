"""Which part of the target each application of a derivation yields."""

from __future__ import annotations

from nqg.grammar.derivation import Derivation
from nqg.grammar.graph import Span
from nqg.grammar.rule import Symbols
from nqg.grammar.symbols import NonTerminal


def target_spans(derivation: Derivation) -> list[Span]:
    """For every application the part of the target that it yields; where it stands several times, the first.

    >>> derivation = Derivation.parse('''
    ... [0:4] NT_1 and NT_2 ### NT_1 NT_2
    ...   [0:1] walk ### I_WALK
    ...   [2:4] NT_1 twice ### NT_1 NT_1
    ...     [2:3] jump ### I_JUMP
    ... ''')
    >>> [str(span) for span in target_spans(derivation)]
    ['0:3', '0:1', '1:3', '1:2']
    """
    children = _children(derivation)
    rules = [application.rule for application in derivation.applications]
    lengths = [0] * len(rules)
    for number in reversed(range(len(rules))):
        lengths[number] = sum(
            lengths[children[number][symbol.index - 1]] if isinstance(symbol, NonTerminal) else 1
            for symbol in rules[number].target
        )
    starts = [0] * len(rules)
    for number, rule in enumerate(rules):
        sizes = [lengths[child] for child in children[number]]
        for child, offset in zip(children[number], _offsets(rule.target, sizes), strict=True):
            starts[child] = starts[number] + offset
    return [Span(start, start + length) for start, length in zip(starts, lengths, strict=True)]


def _children(derivation: Derivation) -> list[list[int]]:
    """For every application the numbers of those directly under it, left to right in the source."""
    children: list[list[int]] = [[] for _ in derivation.applications]
    roots: list[int] = []
    for number in reversed(range(len(children))):
        children[number] = [roots.pop() for _ in range(derivation.applications[number].rule.arity)]
        roots.append(number)
    return children


def _offsets(target: Symbols, sizes: list[int]) -> list[int]:
    """Where the parts of the children first stand in what a rule yields, given their sizes."""
    offsets: dict[int, int] = {}
    at = 0
    for symbol in target:
        if isinstance(symbol, NonTerminal):
            offsets.setdefault(symbol.index, at)
            at += sizes[symbol.index - 1]
        else:
            at += 1
    return [offsets[index] for index in range(1, len(sizes) + 1)]
