"""Who wrote what: the application behind every word and every target token of a derivation."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from nqg.grammar.derivation import Derivation
from nqg.grammar.rule import Symbols
from nqg.grammar.symbols import NonTerminal

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Origins:
    """Applications are numbered as the derivation lists them, so that a subtree is a run of numbers.

    >>> origins(Derivation.parse('''
    ... [0:2] NT_1 twice ### NT_1 NT_1
    ...   [0:1] jump ### I_JUMP
    ... '''))
    Origins(words=(1, 0), tokens=(1, 1), lasts=(1, 1), heights=(1, 0))
    """

    words: Numbers  # for every word of the source, the application that reads it
    tokens: Numbers  # for every token of the target, the application that writes it
    lasts: Numbers  # for every application, the last one under it (itself at a leaf)
    heights: Numbers  # for every application, how far it is above its deepest leaf


@dataclass(frozen=True, slots=True)
class _Subtree:
    words: Numbers
    tokens: Numbers
    last: int
    height: int


def origins(derivation: Derivation) -> Origins:
    """Who reads each word and writes each token of `derivation`."""
    pending: list[_Subtree] = []
    lasts, heights = [0] * len(derivation.applications), [0] * len(derivation.applications)
    for number, application in reversed(list(enumerate(derivation.applications))):
        rule = application.rule
        children = [pending.pop() for _ in range(rule.arity)]
        lasts[number] = max((child.last for child in children), default=number)
        heights[number] = max((child.height + 1 for child in children), default=0)
        words = _written(number, rule.source, [child.words for child in children])
        tokens = _written(number, rule.target, [child.tokens for child in children])
        pending.append(_Subtree(words, tokens, lasts[number], heights[number]))
    return Origins(pending[0].words, pending[0].tokens, tuple(lasts), tuple(heights))


def _written(number: int, side: Symbols, children: list[Numbers]) -> Numbers:
    parts = (children[each.index - 1] if isinstance(each, NonTerminal) else (number,) for each in side)
    return tuple(chain.from_iterable(parts))
