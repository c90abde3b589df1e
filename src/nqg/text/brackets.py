"""Brackets and quotes of programs and sentences."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence

BRACKETS = {"(": ")", "[": "]", "{": "}"}
CLOSING_BRACKETS = frozenset(BRACKETS.values())
# They stand around strings in nearly all languages of programs, a backquote in some.
QUOTES = ('"', "'")
CODE_QUOTES = frozenset("\"'`")
# The quotation marks of sentences.
QUOTATION_MARKS = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»", "‘": "’"}
# The depth of text inside of quotes.
IN_QUOTES = sys.maxsize


def bracket_depths(
    tokens: Iterable[object], quotes: Collection[str] = CODE_QUOTES
) -> list[int]:
    """How many brackets are open around each token; what is inside of quotes is `IN_QUOTES`.

    A bracket and a quote have the depth of what they stand in.

    >>> bracket_depths("f ( a , g ( b ) )".split())
    [0, 0, 1, 1, 1, 1, 2, 1, 0]
    """
    depths: list[int] = []
    depth, quote = 0, None
    for token in tokens:
        if token in quotes and quote in (None, token):
            quote = token if quote is None else None
            depths.append(depth)
        elif quote is not None:
            depths.append(IN_QUOTES)
        else:
            depth -= token in CLOSING_BRACKETS
            depths.append(depth)
            depth += token in BRACKETS
    return depths


def bracket_error(tokens: Sequence[str], quotes: Collection[str] = ()) -> str:
    """What is wrong with the brackets of a program, but for those inside pairs of `quotes`.

    >>> bracket_error("f ( a , ' :) ' )".split(), QUOTES), bracket_error("f ( a ] )".split())
    ('', "']' closes '('")
    """
    opened: list[str] = []
    quote = ""
    paired = {mark for mark in quotes if tokens.count(mark) % 2 == 0}
    for token in tokens:
        if token in paired and quote in ("", token):
            quote = "" if quote else token
        elif quote:
            continue
        elif token in BRACKETS:
            opened.append(token)
        elif token in CLOSING_BRACKETS:
            if not opened:
                return f"'{token}' closes nothing"
            if BRACKETS[opened[-1]] != token:
                return f"'{token}' closes '{opened[-1]}'"
            opened.pop()
    return f"'{opened[-1]}' is never closed" if opened else ""


def is_balanced(tokens: Sequence[str]) -> bool:
    """Whether brackets match.

    >>> is_balanced("f ( [ a ] )".split()), is_balanced("a ) (".split())
    (True, False)
    """
    return not bracket_error(tokens)
