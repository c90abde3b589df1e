"""A derivation: which rule covers which span, all the way down (appendix A.1 of the paper)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nqg.errors import FormatError, LimitExceeded
from nqg.extensions import notebook_html
from nqg.grammar.grammar import NonTerminal, Rule, Symbols
from nqg.grammar.hypergraph import Span

Tokens = tuple[str, ...]
# Repeated non-terminals double a target at every level: 200 levels would fill the universe.
MAX_TARGET_TOKENS = 1_000_000
_LINE = re.compile(r"(?:  )*\[(?P<start>\d+):(?P<end>\d+)\] (?P<rule>.+)")


@dataclass(frozen=True, slots=True)
class Hyperedge:
    """A rule laid over a span of the source."""

    rule: Rule
    span: Span

    def __str__(self) -> str:
        return f"[{self.span}] {self.rule}"


@dataclass(frozen=True, slots=True)
class Derivation:
    """The hyperedges of a derivation, parents first, left to right. Arities make it a tree.

    It is flat so that no depth of nesting is too deep for Python's stack.

    >>> derivation = Derivation.parse('''
    ... [0:2] NT_1 twice ### NT_1 NT_1
    ...   [0:1] jump ### I_JUMP
    ... ''')
    >>> derivation.source, derivation.target
    (('jump', 'twice'), ('I_JUMP', 'I_JUMP'))
    """

    hyperedges: tuple[Hyperedge, ...]

    def __post_init__(self) -> None:
        pending: list[Span] = []
        for hyperedge in reversed(self.hyperedges):
            rule, position = hyperedge.rule, hyperedge.span.start
            if len(pending) < rule.arity:
                raise FormatError(
                    f"'{hyperedge}' has {len(pending)} children, its rule asks for {rule.arity}"
                )
            # Its tokens and its children's spans must tile its span.
            for symbol in rule.source:
                if isinstance(symbol, NonTerminal):
                    child = pending.pop()
                    if child.start != position:
                        raise FormatError(
                            f"'{hyperedge}' expects {symbol} at {position}, found it at {child}"
                        )
                    position = child.end
                else:
                    position += 1
            if position != hyperedge.span.end:
                raise FormatError(
                    f"'{hyperedge}' covers tokens up to {position}, not {hyperedge.span.end}"
                )
            pending.append(hyperedge.span)
        if len(pending) != 1:
            raise FormatError(f"expected one root, found {len(pending)}")

    @property
    def root(self) -> Hyperedge:
        """The hyperedge that covers the whole source."""
        return self.hyperedges[0]

    @property
    def source(self) -> Tokens:
        """The tokens that it reads."""
        return self.substituted(
            [hyperedge.rule.source for hyperedge in self.hyperedges]
        )

    @property
    def target(self) -> Tokens:
        """The tokens that it yields."""
        if self.target_length > MAX_TARGET_TOKENS:
            size = f"{self.target_length:,} tokens, more than {MAX_TARGET_TOKENS:,}"
            raise LimitExceeded(f"the derivation yields a target of {size}")
        return self.substituted(
            [hyperedge.rule.target for hyperedge in self.hyperedges]
        )

    @property
    def target_length(self) -> int:
        """How many tokens it yields, without writing them down."""
        return self.target_lengths()[0]

    @property
    def children(self) -> tuple[Derivation, ...]:
        """The derivations under the root, left to right in the source."""
        bounds = [*self.child_numbers()[0], len(self.hyperedges)]
        return tuple(
            Derivation(self.hyperedges[low:high]) for low, high in pairwise(bounds)
        )

    def depths(self) -> Iterator[int]:
        """How deep each hyperedge lies, the root at 0."""
        pending = [0]
        for hyperedge in self.hyperedges:
            depth = pending.pop()
            yield depth
            pending.extend([depth + 1] * hyperedge.rule.arity)

    def child_numbers(self) -> list[list[int]]:
        """For every hyperedge the numbers of its children, left to right in the source."""
        children: list[list[int]] = [[] for _ in self.hyperedges]
        pending: list[int] = []
        # From the last hyperedge to the first, the children of a hyperedge are the latest pending.
        for number in reversed(range(len(children))):
            children[number] = [
                pending.pop() for _ in range(self.hyperedges[number].rule.arity)
            ]
            pending.append(number)
        return children

    def target_lengths(self) -> list[int]:
        """For every hyperedge how many tokens it yields."""
        lengths = [0] * len(self.hyperedges)
        for number, below in reversed(list(enumerate(self.child_numbers()))):
            target = self.hyperedges[number].rule.target
            for symbol in target:
                if isinstance(symbol, str):
                    lengths[number] += 1
                else:
                    lengths[number] += lengths[below[symbol.index - 1]]
        return lengths

    def substituted(self, sides: Sequence[Symbols]) -> Tokens:
        """The sides of the hyperedges put together, children's tokens in place of non-terminals."""
        pending: list[list[str]] = []
        for hyperedge, side in zip(reversed(self.hyperedges), reversed(sides)):
            below = [pending.pop() for _ in range(hyperedge.rule.arity)]
            tokens: list[str] = []
            for symbol in side:
                if isinstance(symbol, str):
                    tokens.append(symbol)
                else:
                    tokens += below[symbol.index - 1]
            pending.append(tokens)
        return tuple(pending[0])

    def __str__(self) -> str:
        pairs = zip(self.depths(), self.hyperedges, strict=True)
        return "\n".join(f"{'  ' * depth}{hyperedge}" for depth, hyperedge in pairs)

    def _repr_html_(self) -> str:
        """The derivation as a notebook shows it."""
        return notebook_html(self)

    @classmethod
    def parse(cls, text: str) -> Derivation:
        """The derivation that `text` spells: a hyperedge a line, children indented by two
        spaces.
        """
        lines = [line for line in text.split("\n") if line.strip()]
        hyperedges: list[Hyperedge] = []
        for line in lines:
            match = _LINE.fullmatch(line)
            if not match:
                raise FormatError(
                    f"expected '[start:end] source ### target', found '{line}'"
                )
            span = Span(int(match["start"]), int(match["end"]))
            hyperedges.append(Hyperedge(Rule.parse(match["rule"]), span))
        derivation = cls(tuple(hyperedges))
        # The rules' arities give the depths, and the indentation must agree with them.
        for line, depth in zip(lines, derivation.depths(), strict=True):
            indent = len(line) - len(line.lstrip(" "))
            if indent != 2 * depth:
                raise FormatError(
                    f"'{line.strip()}' is indented by {indent} spaces, expected {2 * depth}"
                )
        return derivation


def target_spans(derivation: Derivation) -> list[Span]:
    """For every hyperedge the first span of the target that it yields.

    >>> derivation = Derivation.parse('''
    ... [0:4] NT_1 and NT_2 ### NT_1 NT_2
    ...   [0:1] walk ### I_WALK
    ...   [2:4] NT_1 twice ### NT_1 NT_1
    ...     [2:3] jump ### I_JUMP
    ... ''')
    >>> [str(span) for span in target_spans(derivation)]
    ['0:3', '0:1', '1:3', '1:2']
    """
    lengths = derivation.target_lengths()
    spans = [Span(0, lengths[0])] * len(lengths)
    for number, children in enumerate(derivation.child_numbers()):
        # From the last symbol to the first, a repeated non-terminal keeps its first span.
        end = spans[number].end
        for symbol in reversed(derivation.hyperedges[number].rule.target):
            start = end - 1
            if isinstance(symbol, NonTerminal):
                child = children[symbol.index - 1]
                start = end - lengths[child]
                spans[child] = Span(start, end)
            end = start
    return spans
