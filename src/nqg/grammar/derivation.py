"""A derivation: which rule covers which span, all the way down (appendix A.1 of the paper)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from nqg.errors import FormatError, LimitExceeded
from nqg.grammar.graph import Span
from nqg.grammar.rule import Rule, Symbols
from nqg.grammar.symbols import NonTerminal

Tokens = tuple[str, ...]
Value = TypeVar("Value")
MOST_TOKENS = 1_000_000  # repeated non-terminals double a target at every level: 200 levels would fill the universe
_LINE = re.compile(r"(?P<indent>(?:  )*)\[(?P<start>\d+):(?P<end>\d+)\] (?P<rule>.+)")


@dataclass(frozen=True, slots=True)
class Application:
    """A rule laid over a span of the source."""

    rule: Rule
    span: Span

    def __str__(self) -> str:
        return f"[{self.span}] {self.rule}"


@dataclass(frozen=True, slots=True)
class Derivation:
    """The applications of a derivation, parents before children, left to right; the rules' arities make it a tree.

    It is flat so that no depth of nesting is too deep for Python's stack.

    >>> derivation = Derivation.parse('''
    ... [0:2] NT_1 twice ### NT_1 NT_1
    ...   [0:1] jump ### I_JUMP
    ... ''')
    >>> derivation.source, derivation.target
    (('jump', 'twice'), ('I_JUMP', 'I_JUMP'))
    """

    applications: tuple[Application, ...]

    def __post_init__(self) -> None:
        self._folded(_checked_span)

    @property
    def root(self) -> Application:
        """The application that covers the whole source."""
        return self.applications[0]

    @property
    def source(self) -> Tokens:
        """The tokens that it reads."""
        return self._folded(lambda application, children: substituted(application.rule.source, children))

    @property
    def target(self) -> Tokens:
        """The tokens that it yields."""
        if (length := self.target_length) > MOST_TOKENS:
            raise LimitExceeded(f"the derivation yields a target of {length:,} tokens, more than {MOST_TOKENS:,}")
        return self._folded(lambda application, children: substituted(application.rule.target, children))

    @property
    def target_length(self) -> int:
        """How many tokens it yields, without writing them down."""
        return self._folded(_target_length)

    @property
    def children(self) -> tuple[Derivation, ...]:
        """The derivations under the root, left to right in the source."""
        bounds = [at for at, depth in enumerate(self.depths()) if depth == 1] + [len(self.applications)]
        return tuple(Derivation(self.applications[low:high]) for low, high in pairwise(bounds))

    def depths(self) -> Iterator[int]:
        """How deep each application lies, the root at 0."""
        pending = [0]
        for application in self.applications:
            depth = pending.pop()
            yield depth
            pending.extend([depth + 1] * application.rule.arity)

    def _folded(self, combine: Callable[[Application, list[Value]], Value]) -> Value:
        """Combine values from the leaves to the root; `combine` gets an application and its children's values."""
        values: list[Value] = []
        for application in reversed(self.applications):
            arity = application.rule.arity
            if len(values) < arity:
                raise FormatError(f"'{application}' has {len(values)} children, its rule asks for {arity}")
            children = [values.pop() for _ in range(arity)]
            values.append(combine(application, children))
        if len(values) != 1:
            raise FormatError(f"expected one root, found {len(values)}")
        return values[0]

    def __str__(self) -> str:
        pairs = zip(self.depths(), self.applications, strict=True)
        return "\n".join(f"{'  ' * depth}{application}" for depth, application in pairs)

    def _repr_html_(self) -> str:
        """The derivation as a notebook shows it."""
        from nqg.grammar.pictures import derivation_picture, in_notebook

        return in_notebook(derivation_picture(self))

    @classmethod
    def parse(cls, text: str) -> Derivation:
        """The derivation that `text` spells: one application a line, children indented by two spaces more."""
        lines = [line for line in text.split("\n") if line.strip()]
        derivation = cls(tuple(_read_application(line) for line in lines))
        for line, depth in zip(lines, derivation.depths(), strict=True):
            found = len(line) - len(line.lstrip(" "))
            if found != 2 * depth:
                raise FormatError(f"'{line.strip()}' is indented by {found} spaces, expected {2 * depth}")
        return derivation


def _read_application(line: str) -> Application:
    match = _LINE.fullmatch(line)
    if not match:
        raise FormatError(f"expected '[start:end] source ### target', found '{line}'")
    return Application(Rule.parse(match["rule"]), Span(int(match["start"]), int(match["end"])))


def _checked_span(application: Application, children: list[Span]) -> Span:
    """The application's span, which its tokens and its children's spans must tile."""
    position = application.span.start
    remaining = iter(children)
    for symbol in application.rule.source:
        if isinstance(symbol, NonTerminal):
            child = next(remaining)
            if child.start != position:
                raise FormatError(f"'{application}' expects {symbol} at {position}, found it at {child}")
            position = child.end
        else:
            position += 1
    if position != application.span.end:
        raise FormatError(f"'{application}' covers tokens up to {position}, not {application.span.end}")
    return application.span


def _target_length(application: Application, children: list[int]) -> int:
    symbols = application.rule.target
    return sum(children[symbol.index - 1] if isinstance(symbol, NonTerminal) else 1 for symbol in symbols)


def substituted(side: Symbols, children: Sequence[Tokens]) -> Tokens:
    """One side of a rule with the children's tokens in place of its non-terminals."""
    tokens: list[str] = []
    for symbol in side:
        if isinstance(symbol, NonTerminal):
            tokens.extend(children[symbol.index - 1])
        else:
            tokens.append(symbol)
    return tuple(tokens)
