"""FunQL, the language of GeoQuery's programs, as a tree: parser and the two printers.

One parser reads both written forms, the corpus's own (`answer(city(loc_2(stateid('virginia'))))`) and the spaced one
that models are trained on (`answer ( intersection ( city , loc_2 ( m0 ) ) )`). What turns one into the other is
`funql_conversion`; which programs make sense is the business of the target grammar in `funql.grammar`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, TypeAlias

from nqg.errors import FormatError

if TYPE_CHECKING:
    from nqg.grammar.target_grammar import TargetGrammar


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


CLASSES = frozenset({"state", "city", "river", "place", "lake", "mountain", "capital", "major"})
BY_MEASURE = frozenset({"largest_one", "smallest_one"})
BY_COUNT = frozenset({"most", "fewest"})
ALL = Name("all")


def expanded(term: Term) -> Term:
    """The converted form of a program of the corpus.

    >>> from nqg.data.funql import parse_funql
    >>> spaced_text(expanded(parse_funql("state(next_to_2(state(all)))")))
    'intersection ( state , next_to_2 ( state ) )'
    >>> spaced_text(expanded(parse_funql("most(state(loc_1(river(all))))")))
    'most ( state , loc_1 , river )'
    """
    match term:
        case Name(name):
            raise FormatError(f"found the bare name '{name}', expected it applied, as in 'state(all)'")
        case Call(name, (argument,)) if name in CLASSES:
            return Name(name) if argument == ALL else Call("intersection", (Name(name), expanded(argument)))
        case Call(name, (Call(measure, (things,)),)) if name in BY_MEASURE:
            return Call(name, (Name(measure), expanded(things)))
        case Call(name, (Call(kind, (Call(relation, (things,)),)),)) if name in BY_COUNT and kind in CLASSES:
            return Call(name, (Name(kind), Name(relation), expanded(things)))
        case Call(name) if name in _ORIGINAL_SHAPES:
            raise FormatError(f"found {original_text(term)}, expected {_ORIGINAL_SHAPES[name]}")
        case Call(name, arguments):
            return Call(name, tuple(map(expanded, arguments)))
        case _:
            return term


def folded(term: Term) -> Term:
    """The program of the corpus whose converted form is `term`: the inverse of `expanded`.

    An intersection written out in the corpus whose first argument is a whole class, `intersection(city(all), …)`,
    would come back as `city(…)`, which means the same; GeoQuery has none.

    >>> from nqg.data.funql import parse_funql
    >>> original_text(folded(parse_funql("largest_one ( density_1 , intersection ( major , city ) )")))
    'largest_one(density_1(major(city(all))))'
    """
    match term:
        case Name(name) if name in CLASSES:
            return Call(name, (ALL,))
        case Name(name):
            raise FormatError(f"found the bare name '{name}', expected a class of things: {', '.join(sorted(CLASSES))}")
        case Call("intersection", (Name(name), things)) if name in CLASSES:
            return Call(name, (folded(things),))
        case Call(name, (Name(measure), things)) if name in BY_MEASURE:
            return Call(name, (Call(measure, (folded(things),)),))
        case Call(name, (Name(kind), Name(relation), things)) if name in BY_COUNT and kind in CLASSES:
            return Call(name, (Call(kind, (Call(relation, (folded(things),)),)),))
        case Call(name) if name in _CONVERTED_SHAPES:
            raise FormatError(f"found {spaced_text(term)}, expected {_CONVERTED_SHAPES[name]}")
        case Call(name, arguments):
            return Call(name, tuple(map(folded, arguments)))
        case _:
            return term


_ORIGINAL_SHAPES = (
    {name: f"'{name}' with one argument" for name in CLASSES}
    | {name: f"{name}(measure(things))" for name in BY_MEASURE}
    | {name: f"{name}(class(relation(things)))" for name in BY_COUNT}
)
_CONVERTED_SHAPES = (
    {name: f"the bare name '{name}' or 'intersection ( {name} , … )'" for name in CLASSES}
    | {name: f"'{name} ( measure , things )'" for name in BY_MEASURE}
    | {name: f"'{name} ( class , relation , things )'" for name in BY_COUNT}
)


def funql_target_grammar() -> TargetGrammar:
    """The grammar of `funql.grammar`: programs in the converted form, with placeholders, whose types fit."""
    return _grammar(_grammar_text())


def is_well_typed(target: str, entities: Sequence[Entity]) -> bool:
    """Whether a target in the converted form makes sense once `entities[i]` stands for its placeholder `m{i}`."""

    def kind(leaf: Leaf) -> Leaf:
        match leaf:
            case Placeholder(index) if index < len(entities):
                return Name(entities[index].kind)
            case _:
                return leaf

    return _grammar_of_kinds().accepts(spaced_text(with_leaves(parse_funql(target), kind)).split())


@cache
def _grammar_text() -> str:
    return resources.files("nqg.data").joinpath("funql.grammar").read_text(encoding="utf-8")


@cache
def _grammar(text: str) -> TargetGrammar:
    from nqg.grammar.target_grammar import TargetGrammar

    return TargetGrammar.parse(text)


def _grammar_of_kinds() -> TargetGrammar:
    """The same grammar, in which an entity may also stand as the bare word of its kind: `size ( stateid )`."""
    return _grammar(_grammar_text() + "".join(f"<{kind}> ::= {kind}\n" for kind in EntityKind))
