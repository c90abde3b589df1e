"""The order in which programs write the named arguments of a call.

`on(area="Attic", domain="light")` and `on(domain="light", area="Attic")` mean the same, but
training data writes one of them. A grammar writes arguments as the sentence mentions them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from nqg.text.brackets import BRACKETS, CLOSING_BRACKETS, IN_QUOTES, bracket_depths
from nqg.text.sentences import TOLERATED

CallKey = tuple[str, frozenset[str]]


class NamedArgument(NamedTuple):
    """An argument `name = …` of a call, and which tokens of the program it is."""

    name: str
    start: int
    end: int


class NamedCall(NamedTuple):
    """A call, all of whose arguments have names, each a different one."""

    function: str
    arguments: tuple[NamedArgument, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(argument.name for argument in self.arguments)

    @property
    def key(self) -> CallKey:
        return self.function, frozenset(self.names)


@dataclass
class _OpenBracket:
    """A bracket that is not closed yet, and where its arguments begin."""

    function: str
    starts: list[int] = field(default_factory=list)


def named_calls(tokens: Sequence[str]) -> Iterator[NamedCall]:
    """The calls of a program that have several arguments, all with names; inner ones come first.

    >>> [call.names for call in named_calls('f ( b = g ( y = 1 , x = "," ) , a = 2 )'.split())]
    [('y', 'x'), ('b', 'a')]
    """
    brackets: list[_OpenBracket] = []
    before = ""
    for position, depth in enumerate(bracket_depths(tokens)):
        token = tokens[position]
        if depth == IN_QUOTES:
            continue
        if token in BRACKETS:
            function = ""
            if token == "(" and any(map(str.isalnum, before)):
                function = before
            brackets.append(_OpenBracket(function, [position + 1]))
        elif token in CLOSING_BRACKETS and brackets:
            bracket = brackets.pop()
            call = _named_call(
                tokens, bracket.function, [*bracket.starts, position + 1]
            )
            if call:
                yield call
        elif token == "," and brackets:
            brackets[-1].starts.append(position + 1)
        before = token


def _named_call(
    tokens: Sequence[str], function: str, starts: Sequence[int]
) -> NamedCall | None:
    """The call whose arguments begin at these places, or None if they have no names."""
    arguments = []
    for start, after in pairwise(starts):
        end = after - 1
        if end - start < 3 or tokens[start + 1] != "=":
            return None
        arguments.append(NamedArgument(tokens[start], start, end))
    call = NamedCall(function, tuple(arguments))
    if not function or len(arguments) < 2 or len(set(call.names)) < len(arguments):
        return None
    return call


@dataclass(frozen=True)
class ArgumentOrder:
    """For functions with certain arguments the order in which training programs write these.

    Each of `calls` is a function and the names of its arguments. There are none where programs
    write the same arguments in different orders, as where they follow the sentence.

    >>> order = ArgumentOrder.fit(["on ( room = attic , kind = lamp )".split()])
    >>> " ".join(order.ordered("on ( kind = fan , room = attic )".split()))
    'on ( room = attic , kind = fan )'
    """

    calls: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def fit(cls, programs: Iterable[Sequence[str]]) -> ArgumentOrder:
        """The orders of most calls in programs, if nearly all calls are written so."""
        orders: dict[CallKey, Counter[tuple[str, ...]]] = defaultdict(Counter)
        for tokens in programs:
            for call in named_calls(tokens):
                orders[call.key][call.names] += 1
        calls = []
        total = others = 0
        for (function, _), counts in orders.items():
            names = min(counts, key=lambda names: (-counts[names], names))
            calls.append((function, *names))
            total += counts.total()
            others += counts.total() - counts[names]
        if others > TOLERATED * total:
            return cls()
        return cls(tuple(sorted(calls)))

    def __bool__(self) -> bool:
        return bool(self.calls)

    def ordered(self, tokens: Sequence[str]) -> tuple[str, ...]:
        """A program with the arguments of calls in the order of training, where that has them."""
        return tuple(tokens[place] for place in self.places(tokens))

    def places(self, tokens: Sequence[str]) -> list[int]:
        """The places of a program's tokens in the order of training.

        >>> ArgumentOrder((("on", "room", "kind"),)).places("on ( kind = fan , room = attic )".split())
        [0, 1, 6, 7, 8, 5, 2, 3, 4, 9]
        """
        ordered = list(range(len(tokens)))
        if not self.calls:
            return ordered
        # Inner calls come first. Reordering keeps their length, so the places of outer ones hold.
        for call in named_calls(tokens):
            names = self._orders.get(call.key)
            if names is None or names == call.names:
                continue
            by_name, commas = {}, []
            for argument in call.arguments:
                by_name[argument.name] = ordered[argument.start : argument.end]
                commas.append(ordered[argument.end])
            joined = list(by_name[names[0]])
            for name, comma in zip(names[1:], commas):
                joined += [comma, *by_name[name]]
            ordered[call.arguments[0].start : call.arguments[-1].end] = joined
        return ordered

    @cached_property
    def _orders(self) -> Mapping[CallKey, tuple[str, ...]]:
        orders = {}
        for function, *names in self.calls:
            orders[function, frozenset(names)] = tuple(names)
        return orders
