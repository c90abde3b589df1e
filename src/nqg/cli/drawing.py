"""A derivation drawn for the terminal: the sentence on top, under it a bracket for each application, with its rule."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from rich.cells import cell_len

from nqg.grammar.derivation import Application, Derivation
from nqg.grammar.graph import Span
from nqg.grammar.symbols import spelled


def drawn(derivation: Derivation) -> str:
    """The derivation as aligned text.

    >>> print(drawn(Derivation.parse('''
    ... [0:2] NT_1 twice ### NT_1 NT_1
    ...   [0:1] jump ### I_JUMP
    ... ''')))
    jump twice
    ╰────────╯  NT_1 twice → NT_1 NT_1
    ╰──╯        jump → I_JUMP
    """
    words = derivation.source
    columns = _columns(words)
    lines = [_line(application, columns) for application in derivation.applications]
    return "\n".join([" ".join(words), *lines])


def _columns(words: Sequence[str]) -> list[int]:
    """Where each word begins on the screen, and where one more would."""
    return [0, *accumulate(cell_len(word) + 1 for word in words)]


def _line(application: Application, columns: Sequence[int]) -> str:
    bracket = _bracket(application.span, columns)
    source, target = (" ".join(map(spelled, side)) for side in (application.rule.source, application.rule.target))
    return f"{bracket.ljust(columns[-1])} {source} → {target}"


def _bracket(span: Span, columns: Sequence[int]) -> str:
    left, width = columns[span.start], columns[span.end] - columns[span.start] - 1
    return " " * left + ("│" if width == 1 else f"╰{'─' * (width - 2)}╯")
