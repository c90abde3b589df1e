"""Prolog facts, as far as databases are written in them: `river('red',1638,['new mexico','texas']).`"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from nqg.errors import FormatError, Place
from nqg.files import numbered_lines

Value = str | float | tuple[str, ...]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class PrologFact:
    """A predicate with its arguments: names, numbers and lists of names."""

    place: Place
    predicate: str
    arguments: tuple[Value, ...]


def prolog_facts(path: Path) -> Iterator[PrologFact]:
    """The facts of a file, without its comments; what is no fact is refused with its line."""
    tokens = _Tokens(path)
    while tokens.peeked().kind != "end":
        yield _fact(tokens)


def _fact(tokens: _Tokens) -> PrologFact:
    head = tokens.expect("word", "the name of a fact")
    tokens.expect("(", "'('")
    arguments = tuple(tokens.separated(_argument))
    tokens.expect(")", "',' or ')'")
    tokens.expect(".", "'.' at the end of the fact")
    return PrologFact(head.place, head.text, arguments)


def _argument(tokens: _Tokens) -> Value:
    if tokens.peeked().kind == "number":
        return _number(tokens.taken())
    if tokens.peeked().kind != "[":
        return _name(tokens, "a name, a number or a list")
    tokens.taken()
    names = () if tokens.peeked().kind == "]" else tuple(tokens.separated(_name))
    tokens.expect("]", "',' or ']'")
    return names


def _name(tokens: _Tokens, expected: str = "a name") -> str:
    token = tokens.taken()
    if token.kind not in ("text", "word"):
        raise token.refused(expected)
    return token.text[1:-1].replace("''", "'") if token.kind == "text" else token.text


def _number(token: _Token) -> float:
    value = float(token.text)
    if not math.isfinite(value):
        raise token.refused("a number that fits a float")
    return int(value) if value.is_integer() else value


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: Place

    def refused(self, expected: str) -> FormatError:
        found = "the end of the file" if self.kind == "end" else self.text if self.kind == "text" else f"'{self.text}'"
        return FormatError(f"found {found}, expected {expected}", self.place)


_TOKEN = re.compile(
    r"""(?P<space>\s+|%[^\n]*|/\*.*?\*/)
       |(?P<text>'(?:[^'\n]|'')*')
       |(?P<number>[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)
       |(?P<word>[a-z][A-Za-z_0-9]*)
       |(?P<mark>[(),.\[\]])
       |(?P<unknown>/\*|.)""",
    re.VERBOSE | re.DOTALL,
)


class _Tokens:
    """The tokens of a file, one after the other; the last, of kind `end`, never runs out."""

    def __init__(self, path: Path) -> None:
        self._tokens = _tokenised(path)
        self._next = next(self._tokens)

    def peeked(self) -> _Token:
        return self._next

    def taken(self) -> _Token:
        token = self._next
        self._next = next(self._tokens, token)
        return token

    def expect(self, kind: str, expected: str) -> _Token:
        token = self.taken()
        if token.kind != kind:
            raise token.refused(expected)
        return token

    def separated(self, item: Callable[[_Tokens], Item]) -> Iterator[Item]:
        """One or more items with commas between them."""
        yield item(self)
        while self.peeked().kind == ",":
            self.taken()
            yield item(self)


def _tokenised(path: Path) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer("\n".join(text for _, text in numbered_lines(path))):
        kind = match.lastgroup or "unknown"
        if kind != "space":
            yield _Token(match[kind] if kind == "mark" else kind, match[kind], Place(path, line))
        line += match[0].count("\n")
    yield _Token("end", "", Place(path, line))
