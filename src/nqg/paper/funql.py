"""FunQL, the language of GeoQuery's programs, as a tree: its parser, and its two written forms.

The corpus writes `answer(city(loc_2(stateid('virginia'))))`; models are trained on the converted
form, with a space between any two tokens: `answer ( intersection ( city , loc_2 ( m0 ) ) )`. One
parser reads both. Which programs make sense is the business of the target grammar in
`funql.grammar`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import TypeAlias, TypeVar

from nqg.errors import FormatError, Place
from nqg.types.target_grammar import TargetGrammar

Item = TypeVar("Item")

# Programs nested deeper are refused, so that walks over a tree may recurse; GeoQuery's deepest has
# 16 levels.
MAX_TERM_DEPTH = 100


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
            raise FormatError(
                f"{self.kind} '{self.name}' names the state '{self.state}'; only a cityid has one"
            )

    def __str__(self) -> str:
        arguments = _quoted(self.name)
        if self.kind is EntityKind.CITY:
            arguments += ", " + (_quoted(self.state) if self.state is not None else "_")
        return f"{self.kind}({arguments})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The place of the entity with this number: `m0`, `m1`."""

    index: int

    def __str__(self) -> str:
        return f"m{self.index}"


@dataclass(frozen=True, slots=True)
class Number:
    value: Decimal

    def __str__(self) -> str:
        return format(self.value, "f")


@dataclass(frozen=True, slots=True)
class Name:
    """A bare word: `all`, and in the converted form a predicate that is mentioned rather than
    applied.
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Application:
    predicate: str
    arguments: tuple[Term, ...]


Leaf: TypeAlias = Entity | Placeholder | Number | Name
Term: TypeAlias = Leaf | Application


def original_text(term: Term) -> str:
    """`term` as the corpus writes programs.

    >>> original_text(parse_funql("answer ( exclude ( state ( all ) , stateid ( 'ohio' ) ) )"))
    "answer(exclude(state(all), stateid('ohio')))"
    """
    if isinstance(term, Application):
        return f"{term.predicate}({', '.join(map(original_text, term.arguments))})"
    return str(term)


def spaced_text(term: Term) -> str:
    """`term` with a space between any two tokens.

    >>> spaced_text(parse_funql("answer(intersection(city,loc_2(m0)))"))
    'answer ( intersection ( city , loc_2 ( m0 ) ) )'
    """
    if isinstance(term, Application):
        return f"{term.predicate} ( {' , '.join(map(spaced_text, term.arguments))} )"
    return " ".join(token.text for token in _tokens(str(term)) if token.kind != "end")


def leaves(term: Term) -> Iterator[Leaf]:
    """Entities, placeholders, numbers and bare names of `term`, from left to right."""
    if isinstance(term, Application):
        for argument in term.arguments:
            yield from leaves(argument)
    else:
        yield term


def parse_funql(text: str) -> Term:
    """The tree of a program or of a part of one, in either written form.

    >>> parse_funql("size ( m0 )")
    Application(predicate='size', arguments=(Placeholder(index=0),))
    >>> parse_funql("answer(count(state(all))")
    Traceback (most recent call last):
    nqg.errors.FormatError: position 25: found the end of the program, expected ',' or ')'
    """
    tokens = Tokens(_tokens(text))
    term = _term(tokens, depth=1)
    tokens.expect("end", "the end of the program")
    return term


def _term(tokens: Tokens, depth: int) -> Term:
    """Recursive descent; `MAX_TERM_DEPTH` keeps it off the end of Python's stack."""
    token = tokens.take()
    if token.kind == "placeholder":
        return Placeholder(int(token.text[1:]))
    if token.kind == "number":
        return Number(Decimal(token.text))
    if token.kind != "word" or token.text == "_":
        raise token.refused(
            "a predicate, an entity, a number or a placeholder such as 'm0'"
        )
    if tokens.next.kind != "(":
        return Name(token.text)
    if depth > MAX_TERM_DEPTH:
        raise FormatError(
            f"position {token.place}: nested deeper than {MAX_TERM_DEPTH} levels, "
            "expected a flatter program"
        )
    tokens.take()
    if token.text in frozenset(EntityKind):
        return _entity(tokens, EntityKind(token.text))
    arguments = tokens.separated(lambda: _term(tokens, depth + 1))
    tokens.expect(")", "',' or ')'")
    return Application(token.text, tuple(arguments))


def _entity(tokens: Tokens, kind: EntityKind) -> Entity:
    name = tokens.expect("text", f"the quoted name of a {kind}").unquoted
    state = None
    if kind is EntityKind.CITY:
        tokens.expect(",", "',' and the city's state")
        # A city of any state.
        if tokens.next.text == "_":
            tokens.take()
        else:
            state = tokens.expect(
                "text", "the state's quoted abbreviation or _"
            ).unquoted
    tokens.expect(")", "')'")
    return Entity(kind, name, state)


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A token and its place, in a file or as a position in a text; a punctuation mark is its own
    kind.
    """

    kind: str
    text: str
    place: Place | int

    @classmethod
    def of(cls, match: re.Match[str], place: Place | int) -> Lexeme:
        """The token that a pattern with a group for each kind has found."""
        kind = match.lastgroup or ""
        text = match[kind]
        return cls(text if kind == "mark" else kind, text, place)

    @property
    def unquoted(self) -> str:
        return self.text[1:-1].replace("''", "'")

    def refused(self, expected: str) -> FormatError:
        actual = self.text or "the end of the program"
        if self.kind not in ("text", "end"):
            actual = f"'{actual}'"
        reason = f"found {actual}, expected {expected}"
        if isinstance(self.place, Place):
            return FormatError(reason, self.place)
        return FormatError(f"position {self.place}: {reason}")


class Tokens:
    """Tokens that are taken one after the other; the last, of kind `end`, never runs out."""

    def __init__(self, tokens: Iterator[Lexeme]) -> None:
        self._rest = tokens
        self.next = next(tokens)

    def take(self) -> Lexeme:
        token = self.next
        self.next = next(self._rest, token)
        return token

    def expect(self, kind: str, expected: str) -> Lexeme:
        token = self.take()
        if token.kind != kind:
            raise token.refused(expected)
        return token

    def separated(self, item: Callable[[], Item]) -> list[Item]:
        """One or more items with commas between them, each read by `item`."""
        items = [item()]
        while self.next.kind == ",":
            self.take()
            items.append(item())
        return items


_LEXEME = re.compile(
    r"""\s*(?:(?P<placeholder>m(?:0|[1-9][0-9]{0,3})\b)
           |(?P<word>[A-Za-z_][A-Za-z_0-9]*)
           |(?P<number>-?[0-9]+(?:\.[0-9]+)?)
           |(?P<text>'(?:[^']|'')*')
           |(?P<mark>[(),])
           |(?P<end>\Z)
           |(?P<unknown>\S))""",
    re.VERBOSE,
)


def _tokens(text: str) -> Iterator[Lexeme]:
    for match in _LEXEME.finditer(text):
        yield Lexeme.of(match, match.start(match.lastgroup or 0) + 1)


CLASSES = frozenset(
    {"state", "city", "river", "place", "lake", "mountain", "capital", "major"}
)
BY_MEASURE = frozenset({"largest_one", "smallest_one"})
BY_COUNT = frozenset({"most", "fewest"})
ALL = Name("all")


def expanded(term: Term) -> Term:
    """The converted form of a program of the corpus.

    >>> spaced_text(expanded(parse_funql("state(next_to_2(state(all)))")))
    'intersection ( state , next_to_2 ( state ) )'
    >>> spaced_text(expanded(parse_funql("most(state(loc_1(river(all))))")))
    'most ( state , loc_1 , river )'
    """
    match term:
        case Name(name):
            raise FormatError(
                f"found the bare name '{name}', expected it applied, as in 'state(all)'"
            )
        case Application(name, (argument,)) if name in CLASSES:
            if argument == ALL:
                return Name(name)
            return Application("intersection", (Name(name), expanded(argument)))
        case Application(name, (Application(measure, (things,)),)) if (
            name in BY_MEASURE
        ):
            return Application(name, (Name(measure), expanded(things)))
        case Application(
            name, (Application(kind, (Application(relation, (things,)),)),)
        ) if name in BY_COUNT and kind in CLASSES:
            return Application(name, (Name(kind), Name(relation), expanded(things)))
        case Application(name) if name in _ORIGINAL_SHAPES:
            raise FormatError(
                f"found {original_text(term)}, expected {_ORIGINAL_SHAPES[name]}"
            )
        case Application(name, arguments):
            return Application(name, tuple(map(expanded, arguments)))
        case _:
            return term


_ORIGINAL_SHAPES = (
    {name: f"'{name}' with one argument" for name in CLASSES}
    | {name: f"{name}(measure(things))" for name in BY_MEASURE}
    | {name: f"{name}(class(relation(things)))" for name in BY_COUNT}
)


@cache
def funql_target_grammar() -> TargetGrammar:
    """The grammar of `funql.grammar`: programs in the converted form, with placeholders, whose
    types fit.
    """
    file = resources.files("nqg.paper").joinpath("funql.grammar")
    return TargetGrammar.parse(file.read_text(encoding="utf-8"))
