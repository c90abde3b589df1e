"""A derivation: which rule covers which span, all the way down (appendix A.1 of the paper)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TypeVar

from nqg.errors import FormatError, LimitExceeded
from nqg.grammar.hypergraph import Span
from nqg.grammar.rule import NonTerminal, Rule, Symbols

Tokens = tuple[str, ...]
Value = TypeVar("Value")
MOST_TOKENS = 1_000_000  # repeated non-terminals double a target at every level: 200 levels would fill the universe
_LINE = re.compile(r"(?P<indent>(?:  )*)\[(?P<start>\d+):(?P<end>\d+)\] (?P<rule>.+)")


@dataclass(frozen=True, slots=True)
class Hyperedge:
    """A rule laid over a span of the source."""

    rule: Rule
    span: Span

    def __str__(self) -> str:
        return f"[{self.span}] {self.rule}"


@dataclass(frozen=True, slots=True)
class Derivation:
    """The hyperedges of a derivation, parents before children, left to right; the rules' arities make it a tree.

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
        self._folded(_checked_span)

    @property
    def root(self) -> Hyperedge:
        """The hyperedge that covers the whole source."""
        return self.hyperedges[0]

    @property
    def source(self) -> Tokens:
        """The tokens that it reads."""
        return self._folded(lambda hyperedge, children: substituted(hyperedge.rule.source, children))

    @property
    def target(self) -> Tokens:
        """The tokens that it yields."""
        if (length := self.target_length) > MOST_TOKENS:
            raise LimitExceeded(f"the derivation yields a target of {length:,} tokens, more than {MOST_TOKENS:,}")
        return self._folded(lambda hyperedge, children: substituted(hyperedge.rule.target, children))

    @property
    def target_length(self) -> int:
        """How many tokens it yields, without writing them down."""
        return self._folded(_target_length)

    @property
    def children(self) -> tuple[Derivation, ...]:
        """The derivations under the root, left to right in the source."""
        bounds = [at for at, depth in enumerate(self.depths()) if depth == 1] + [len(self.hyperedges)]
        return tuple(Derivation(self.hyperedges[low:high]) for low, high in pairwise(bounds))

    def depths(self) -> Iterator[int]:
        """How deep each hyperedge lies, the root at 0."""
        pending = [0]
        for hyperedge in self.hyperedges:
            depth = pending.pop()
            yield depth
            pending.extend([depth + 1] * hyperedge.rule.arity)

    def _folded(self, combine: Callable[[Hyperedge, list[Value]], Value]) -> Value:
        """Combine values from the leaves to the root; `combine` gets a hyperedge and its children's values."""
        values: list[Value] = []
        for hyperedge in reversed(self.hyperedges):
            arity = hyperedge.rule.arity
            if len(values) < arity:
                raise FormatError(f"'{hyperedge}' has {len(values)} children, its rule asks for {arity}")
            children = [values.pop() for _ in range(arity)]
            values.append(combine(hyperedge, children))
        if len(values) != 1:
            raise FormatError(f"expected one root, found {len(values)}")
        return values[0]

    def __str__(self) -> str:
        pairs = zip(self.depths(), self.hyperedges, strict=True)
        return "\n".join(f"{'  ' * depth}{hyperedge}" for depth, hyperedge in pairs)

    def _repr_html_(self) -> str:
        """The derivation as a notebook shows it."""
        from nqg.grammar.pictures import derivation_picture, in_notebook

        return in_notebook(derivation_picture(self))

    @classmethod
    def parse(cls, text: str) -> Derivation:
        """The derivation that `text` spells: one hyperedge a line, children indented by two spaces more."""
        lines = [line for line in text.split("\n") if line.strip()]
        derivation = cls(tuple(_read_hyperedge(line) for line in lines))
        for line, depth in zip(lines, derivation.depths(), strict=True):
            found = len(line) - len(line.lstrip(" "))
            if found != 2 * depth:
                raise FormatError(f"'{line.strip()}' is indented by {found} spaces, expected {2 * depth}")
        return derivation


def _read_hyperedge(line: str) -> Hyperedge:
    match = _LINE.fullmatch(line)
    if not match:
        raise FormatError(f"expected '[start:end] source ### target', found '{line}'")
    return Hyperedge(Rule.parse(match["rule"]), Span(int(match["start"]), int(match["end"])))


def _checked_span(hyperedge: Hyperedge, children: list[Span]) -> Span:
    """The hyperedge's span, which its tokens and its children's spans must tile."""
    position = hyperedge.span.start
    remaining = iter(children)
    for symbol in hyperedge.rule.source:
        if isinstance(symbol, NonTerminal):
            child = next(remaining)
            if child.start != position:
                raise FormatError(f"'{hyperedge}' expects {symbol} at {position}, found it at {child}")
            position = child.end
        else:
            position += 1
    if position != hyperedge.span.end:
        raise FormatError(f"'{hyperedge}' covers tokens up to {position}, not {hyperedge.span.end}")
    return hyperedge.span


def _target_length(hyperedge: Hyperedge, children: list[int]) -> int:
    symbols = hyperedge.rule.target
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


Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Origins:
    """Hyperedges are numbered as the derivation lists them, so that a subtree is a run of numbers.

    >>> origins(Derivation.parse('''
    ... [0:2] NT_1 twice ### NT_1 NT_1
    ...   [0:1] jump ### I_JUMP
    ... '''))
    Origins(words=(1, 0), tokens=(1, 1), lasts=(1, 1), heights=(1, 0))
    """

    words: Numbers  # for every word of the source, the hyperedge that reads it
    tokens: Numbers  # for every token of the target, the hyperedge that writes it
    lasts: Numbers  # for every hyperedge, the last one under it (itself at a leaf)
    heights: Numbers  # for every hyperedge, how far it is above its deepest leaf


@dataclass(frozen=True, slots=True)
class _Subtree:
    words: Numbers
    tokens: Numbers
    last: int
    height: int


def origins(derivation: Derivation) -> Origins:
    """Who reads each word and writes each token of `derivation`."""
    pending: list[_Subtree] = []
    lasts, heights = [0] * len(derivation.hyperedges), [0] * len(derivation.hyperedges)
    for number, hyperedge in reversed(list(enumerate(derivation.hyperedges))):
        rule = hyperedge.rule
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


def target_spans(derivation: Derivation) -> list[Span]:
    """For every hyperedge the part of the target that it yields; where it stands several times, the first.

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
    rules = [hyperedge.rule for hyperedge in derivation.hyperedges]
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
    """For every hyperedge the numbers of those directly under it, left to right in the source."""
    children: list[list[int]] = [[] for _ in derivation.hyperedges]
    roots: list[int] = []
    for number in reversed(range(len(children))):
        children[number] = [roots.pop() for _ in range(derivation.hyperedges[number].rule.arity)]
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
