"""FunQL, the language of GeoQuery's programs, as a tree: parser and the two printers.

One parser reads both written forms, the corpus's own (`answer(city(loc_2(stateid('virginia'))))`) and the spaced one
that models are trained on (`answer ( intersection ( city , loc_2 ( m0 ) ) )`). What turns one into the other is
`funql_conversion`; which programs make sense is the business of the target grammar in `funql.grammar`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from nqg.errors import FormatError

MAX_DEPTH = 100
"""Programs nested deeper are refused, so that walks over a tree may recurse; GeoQuery's deepest has 16 levels."""


class EntityKind(StrEnum):
    """What sort of thing an entity is, written as FunQL writes it."""

    STATE = "stateid"
    CITY = "cityid"
    RIVER = "riverid"
    PLACE = "placeid"
    COUNTRY = "countryid"


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing of the real world; a city may name the abbreviation of its state.

    >>> str(Entity(EntityKind.CITY, "austin", "tx")), str(Entity(EntityKind.CITY, "austin"))
    ("cityid('austin', 'tx')", "cityid('austin', _)")
    """

    kind: EntityKind
    name: str
    state: str | None = None

    def __post_init__(self) -> None:
        if self.state is not None and self.kind is not EntityKind.CITY:
            raise FormatError(f"{self.kind} '{self.name}' names the state '{self.state}'; only a cityid has one")

    def __str__(self) -> str:
        if self.kind is not EntityKind.CITY:
            return f"{self.kind}({_quoted(self.name)})"
        return f"{self.kind}({_quoted(self.name)}, {'_' if self.state is None else _quoted(self.state)})"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The place of the entity with this number: `m0`, `m1`."""

    index: int

    def __str__(self) -> str:
        return f"m{self.index}"


@dataclass(frozen=True, slots=True)
class Number:
    """A literal number."""

    value: Decimal

    def __str__(self) -> str:
        return format(self.value, "f")


@dataclass(frozen=True, slots=True)
class Name:
    """A bare word: `all`, and in the converted form a predicate that is mentioned rather than applied."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Call:
    """A predicate applied to its arguments."""

    predicate: str
    arguments: tuple[Term, ...]


Leaf: TypeAlias = Entity | Placeholder | Number | Name
Term: TypeAlias = Leaf | Call


def original_text(term: Term) -> str:
    """`term` as the corpus writes programs.

    >>> original_text(parse_funql("answer ( exclude ( state ( all ) , stateid ( 'ohio' ) ) )"))
    "answer(exclude(state(all), stateid('ohio')))"
    """
    if isinstance(term, Call):
        return f"{term.predicate}({', '.join(map(original_text, term.arguments))})"
    return str(term)


def spaced_text(term: Term) -> str:
    """`term` with a space between any two tokens.

    >>> spaced_text(parse_funql("answer(intersection(city,loc_2(m0)))"))
    'answer ( intersection ( city , loc_2 ( m0 ) ) )'
    """
    if isinstance(term, Call):
        return f"{term.predicate} ( {' , '.join(map(spaced_text, term.arguments))} )"
    return " ".join(token.text for token in _tokens(str(term)) if token.kind != "end")


def leaves(term: Term) -> Iterator[Leaf]:
    """Entities, placeholders, numbers and bare names of `term`, from left to right."""
    if not isinstance(term, Call):
        yield term
        return
    for argument in term.arguments:
        yield from leaves(argument)


def with_leaves(term: Term, change: Callable[[Leaf], Term]) -> Term:
    """`term` with every leaf replaced by what `change` makes of it."""
    if isinstance(term, Call):
        return Call(term.predicate, tuple(with_leaves(argument, change) for argument in term.arguments))
    return change(term)


def parse_funql(text: str) -> Term:
    """The tree of a program or of a part of one, in either written form.

    >>> parse_funql("size ( m0 )")
    Call(predicate='size', arguments=(Placeholder(index=0),))
    >>> parse_funql("answer(count(state(all))")
    Traceback (most recent call last):
    nqg.errors.FormatError: position 25: found the end of the program, expected ',' or ')'
    """
    parser = _Parser(list(_tokens(text)))
    term = parser.term(depth=1)
    parser.expect("end", "the end of the program")
    return term


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int

    def refused(self, expected: str) -> FormatError:
        found = (
            "the end of the program" if self.kind == "end" else self.text if self.kind == "text" else f"'{self.text}'"
        )
        return FormatError(f"position {self.position}: found {found}, expected {expected}")


_TOKEN = re.compile(
    r"""\s*(?:(?P<placeholder>m(?:0|[1-9][0-9]{0,3})\b)
           |(?P<word>[A-Za-z_][A-Za-z_0-9]*)
           |(?P<number>-?[0-9]+(?:\.[0-9]+)?)
           |(?P<text>'(?:[^']|'')*')
           |(?P<mark>[(),])
           |(?P<end>\Z)
           |(?P<unknown>\S))""",
    re.VERBOSE,
)


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "unknown"
        yield _Token(kind if kind != "mark" else match[kind], match[kind], match.start(kind) + 1)
        if kind == "end":
            return


class _Parser:
    """Recursive descent; `MAX_DEPTH` keeps it off the end of Python's stack."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def term(self, depth: int) -> Term:
        token = self._taken()
        if token.kind == "placeholder":
            return Placeholder(int(token.text[1:]))
        if token.kind == "number":
            return Number(Decimal(token.text))
        if token.kind != "word" or token.text == "_":
            raise token.refused("a predicate, an entity, a number or a placeholder such as 'm0'")
        if self._peeked().kind != "(":
            return Name(token.text)
        if depth > MAX_DEPTH:
            raise FormatError(
                f"position {token.position}: nested deeper than {MAX_DEPTH} levels, expected a flatter program"
            )
        self._taken()
        return self._entity(EntityKind(token.text)) if token.text in _ENTITY_KINDS else self._call(token.text, depth)

    def expect(self, kind: str, expected: str) -> _Token:
        token = self._taken()
        if token.kind != kind:
            raise token.refused(expected)
        return token

    def _call(self, predicate: str, depth: int) -> Call:
        arguments = [self.term(depth + 1)]
        while self._peeked().kind == ",":
            self._taken()
            arguments.append(self.term(depth + 1))
        self.expect(")", "',' or ')'")
        return Call(predicate, tuple(arguments))

    def _entity(self, kind: EntityKind) -> Entity:
        name = self._name(f"the quoted name of a {kind}")
        state = self._state() if kind is EntityKind.CITY else None
        self.expect(")", "')'")
        return Entity(kind, name, state)

    def _state(self) -> str | None:
        self.expect(",", "',' and the city's state")
        if self._peeked().text == "_":
            self._taken()
            return None
        return self._name("the state's quoted abbreviation or _")

    def _name(self, expected: str) -> str:
        return self.expect("text", expected).text[1:-1].replace("''", "'")

    def _peeked(self) -> _Token:
        return self._tokens[self._next]

    def _taken(self) -> _Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token


_ENTITY_KINDS = frozenset(EntityKind)


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"
