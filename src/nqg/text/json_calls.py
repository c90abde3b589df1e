"""Calls in JSON become calls of a language: `{"name": f, "arguments": {…}}` is `f ( key = value )`.

    {"name": "dim", "arguments": {"room": "attic"}}   →   dim ( room = " attic " )
    {"intent": "dim", "room": "attic"}                →   dim ( room = " attic " )

The brackets and keys that every program has tell nothing, and rules that write them would have to
learn where they stand. Values are as they were: strings in quotes, numbers, lists, and objects,
whose keys lose their quotes too, `{ room = " attic " }`. What cannot be written so stays JSON.

People see and write JSON. Only grammars, types and models have the calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from nqg.text.brackets import BRACKETS, CLOSING_BRACKETS

# Keys of JSON objects that hold the name of a function, or its arguments.
NAME_KEYS = ("name", "function", "tool", "intent", "action")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "params")
# Brackets inside of each other at most: they are read by recursion.
DEEPEST = 100

QUOTE, COLON, COMMA, EQUALS = '"', ":", ",", "="
# What a name or a key cannot go over.
MARKS = frozenset(("(", ")", "[", "]", "{", "}", ",", "=", ":", ";", "&&"))
_WORD = re.compile(r"[^\W\d]\w*")

Symbol = TypeVar("Symbol")


class WrittenToken(NamedTuple, Generic[Symbol]):
    """A token of a program as people see it, and which token of its calls it comes from."""

    symbol: Symbol | str
    origin: int


@dataclass(frozen=True, slots=True)
class _String(Generic[Symbol]):
    """What stands between quotes."""

    inside: tuple[WrittenToken[Symbol], ...]
    opening: int
    closing: int


@dataclass(frozen=True, slots=True)
class _Bracketed(Generic[Symbol]):
    """What stands in brackets."""

    bracket: str
    items: tuple[_Item[Symbol], ...]
    opening: int
    closing: int


_Item: TypeAlias = "WrittenToken[Symbol] | _String[Symbol] | _Bracketed[Symbol]"
_Items: TypeAlias = "Sequence[_Item[Symbol]]"


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """Which objects are calls: the keys of the name and of the arguments.

    Without a key for them, arguments stand beside the name. Categories, wildcards and
    non-terminals are symbols like any other, so that rules and productions are encoded like programs.

    >>> calls = JsonCalls("name", "arguments")
    >>> program = '{ " name " : " dim " , " arguments " : { " percent " : 20 } }'.split()
    >>> " ".join(calls.encode(program))
    'dim ( percent = 20 )'
    >>> calls.decode(calls.encode(program)) == tuple(program)
    True
    """

    name_key: str
    arguments_key: str = ""
    has_name_last: bool = False
    # Calls without arguments lack the key for them.
    omits_empty: bool = False

    def encode(self, tokens: Sequence[Symbol]) -> tuple[Symbol | str, ...]:
        """A program, or a part of one, with calls; the same where its brackets do not match."""
        items = _read(tokens)
        if items is None:
            return tuple(tokens)
        encoded = self._encoded(items, is_outer=True)
        return tuple(encoded)

    def decode(self, tokens: Sequence[Symbol]) -> tuple[Symbol | str, ...]:
        """The JSON of a program with calls; the same where its brackets do not match."""
        return tuple(token.symbol for token in self.written(tokens))

    def written(self, tokens: Sequence[Symbol]) -> list[WrittenToken[Symbol]]:
        """The tokens of the JSON of a program with calls, and where each comes from.

        >>> written = JsonCalls("tool").written("dim ( percent = 20 )".split())
        >>> " ".join(token.symbol for token in written)
        '{ " tool " : " dim " , " percent " : 20 }'
        >>> [token.origin for token in written][-6:]
        [2, 2, 2, 3, 4, 5]
        """
        items = _read(tokens)
        if items is None:
            return [WrittenToken(symbol, at) for at, symbol in enumerate(tokens)]
        return list(self._decoded(items))

    def has_calls(self, tokens: Sequence[str]) -> bool:
        """Whether a program is a call or a sequence of calls."""
        items = _read(tokens)
        objects = list(_outer_objects(items or ()))
        return bool(objects) and all(map(self._call, objects))

    def problem(self, tokens: Sequence[str]) -> str:
        """Why a program is not JSON as programs of training are; "" if it may be.

        >>> JsonCalls("name", "arguments").problem("dim ( percent = 20 )".split())
        'expected JSON as in training, found a call such as dim(…)'
        """
        if self.decode(self.encode(tokens)) == tuple(tokens):
            return ""
        name = next(iter(tokens), "")
        return f"expected JSON as in training, found a call such as {name}(…)"

    # From JSON to calls.

    def _encoded(
        self, items: _Items[Symbol], *, is_outer: bool
    ) -> Iterator[Symbol | str]:
        before_colon = _before_colon(items)
        is_key = False
        for place, item in enumerate(items):
            if isinstance(item, WrittenToken):
                # The colon behind a key.
                yield EQUALS if is_key else item.symbol
                is_key = False
            elif isinstance(item, _String):
                is_key = place in before_colon and _is_name(item.inside)
                inside = [token.symbol for token in item.inside]
                yield from inside if is_key else (QUOTE, *inside, QUOTE)
            else:
                yield from self._encoded_group(item, is_outer=is_outer)

    def _encoded_group(
        self, group: _Bracketed[Symbol], *, is_outer: bool
    ) -> Iterator[Symbol | str]:
        # Where arguments stand beside the name, any object inside of a call could be one.
        call = None
        if is_outer or self.arguments_key:
            call = self._call(group)
        if call is None:
            yield group.bracket
            is_outer = is_outer and group.bracket == "["
            yield from self._encoded(group.items, is_outer=is_outer)
            yield BRACKETS[group.bracket]
            return
        name, arguments = call
        yield from [token.symbol for token in name.inside]
        yield "("
        yield from self._encoded(arguments, is_outer=False)
        yield ")"

    def _call(
        self, group: _Bracketed[Symbol]
    ) -> tuple[_String[Symbol], _Items[Symbol]] | None:
        """The name and the arguments of a call; None where an object is none."""
        if group.bracket != "{":
            return None
        members = _members(group.items)
        if self.has_name_last:
            members.reverse()
        name = _value(members[0], self.name_key)
        if not isinstance(name, _String) or not _is_name(name.inside):
            return None
        if not self.arguments_key:
            # What remains behind the name and its comma.
            return name, group.items[len(members[0]) + 1 :]
        if len(members) == 1:
            return (name, ()) if self.omits_empty else None
        arguments = _value(members[1], self.arguments_key)
        is_object = isinstance(arguments, _Bracketed) and arguments.bracket == "{"
        if len(members) > 2 or not is_object:
            return None
        assert isinstance(arguments, _Bracketed)
        if self.omits_empty and not arguments.items:
            return None
        return name, arguments.items

    # From calls to JSON.

    def _decoded(self, items: _Items[Symbol]) -> Iterator[WrittenToken[Symbol]]:
        # The words that may become a name or a key.
        words: list[WrittenToken[Symbol]] = []
        for item in items:
            if isinstance(item, WrittenToken) and item.symbol not in MARKS:
                words.append(item)
                continue
            if isinstance(item, _Bracketed) and item.bracket == "(" and words:
                yield from self._decoded_call(words, item)
                words = []
                continue
            if isinstance(item, WrittenToken) and item.symbol == EQUALS and words:
                yield from _quoted(words)
                words = []
                yield WrittenToken(COLON, item.origin)
                continue
            yield from words
            words = []
            if isinstance(item, WrittenToken):
                yield item
            elif isinstance(item, _String):
                yield WrittenToken(QUOTE, item.opening)
                yield from item.inside
                yield WrittenToken(QUOTE, item.closing)
            else:
                yield WrittenToken(item.bracket, item.opening)
                yield from self._decoded(item.items)
                yield WrittenToken(BRACKETS[item.bracket], item.closing)
        yield from words

    def _decoded_call(
        self, name: Sequence[WrittenToken[Symbol]], group: _Bracketed[Symbol]
    ) -> Iterator[WrittenToken[Symbol]]:
        opening, closing = group.opening, group.closing
        first = name[0].origin
        name_member = [*_key(self.name_key, first), *_quoted(name)]
        arguments = list(self._decoded(group.items))
        if self.arguments_key and (arguments or not self.omits_empty):
            key: list[WrittenToken[Symbol]] = _key(self.arguments_key, opening)
            arguments.insert(0, WrittenToken("{", opening))
            arguments.append(WrittenToken("}", closing))
            arguments = [*key, *arguments]
        members = [name_member, arguments] if arguments else [name_member]
        if self.has_name_last:
            members.reverse()
        yield WrittenToken("{", first)
        for number, member in enumerate(members):
            if number:
                yield WrittenToken(COMMA, opening)
            yield from member
        yield WrittenToken("}", closing)


def _key(key: str, origin: int) -> list[WrittenToken[Symbol]]:
    return [WrittenToken(symbol, origin) for symbol in (QUOTE, key, QUOTE, COLON)]


def _quoted(words: Sequence[WrittenToken[Symbol]]) -> list[WrittenToken[Symbol]]:
    opening = WrittenToken[Symbol](QUOTE, words[0].origin)
    return [opening, *words, WrittenToken(QUOTE, words[-1].origin)]


def _is_name(words: Sequence[WrittenToken[Symbol]]) -> bool:
    """Whether words can stand without quotes: one, or several with points between them."""
    for number, word in enumerate(words):
        if number % 2 and word.symbol != ".":
            return False
        is_token = isinstance(word.symbol, str)
        if number % 2 == 0 and is_token and not _WORD.fullmatch(str(word.symbol)):
            return False
    return len(words) % 2 == 1


def _read(tokens: Sequence[Symbol]) -> tuple[_Item[Symbol], ...] | None:
    """The strings, brackets and other tokens of a program; None where they do not match."""
    opened: list[tuple[str, int, list[_Item[Symbol]]]] = [("", 0, [])]
    string: list[WrittenToken[Symbol]] | None = None
    start = 0
    for place, symbol in enumerate(tokens):
        token = WrittenToken[Symbol](symbol, place)
        items = opened[-1][2]
        if string is not None:
            if symbol == QUOTE:
                items.append(_String(tuple(string), start, place))
                string = None
            else:
                string.append(token)
        elif symbol == QUOTE:
            string, start = [], place
        elif isinstance(symbol, str) and symbol in BRACKETS:
            opened.append((symbol, place, []))
            if len(opened) > DEEPEST:
                return None
        elif isinstance(symbol, str) and symbol in CLOSING_BRACKETS:
            bracket, opening, inside = opened.pop()
            if BRACKETS.get(bracket) != symbol:
                return None
            opened[-1][2].append(_Bracketed(bracket, tuple(inside), opening, place))
        else:
            items.append(token)
    if string is not None or len(opened) > 1:
        return None
    return tuple(opened[0][2])


def _before_colon(items: _Items[Symbol]) -> set[int]:
    """The places of items with a colon behind them."""
    places = set()
    for place, item in enumerate(items):
        if isinstance(item, WrittenToken) and item.symbol == COLON:
            places.add(place - 1)
    return places


def _members(items: _Items[Symbol]) -> list[list[_Item[Symbol]]]:
    """The items of an object, divided at its commas; there is at least one list."""
    members: list[list[_Item[Symbol]]] = [[]]
    for item in items:
        if isinstance(item, WrittenToken) and item.symbol == COMMA:
            members.append([])
        else:
            members[-1].append(item)
    return members


def _value(
    member: Sequence[_Item[Symbol]], key: str
) -> _String[Symbol] | _Bracketed[Symbol] | None:
    """The string, the object or the list under a key; None where a member is another."""
    if len(member) != 3 or key not in _keys(member):
        return None
    value = member[2]
    return None if isinstance(value, WrittenToken) else value


def _keys(member: Sequence[_Item[Symbol]]) -> tuple[Symbol | str, ...]:
    """The key of a member, if it is one token."""
    if len(member) < 2:
        return ()
    key, colon = member[:2]
    if not isinstance(key, _String) or len(key.inside) != 1:
        return ()
    if not isinstance(colon, WrittenToken) or colon.symbol != COLON:
        return ()
    return (key.inside[0].symbol,)


def _outer_objects(items: _Items[Symbol]) -> Iterator[_Bracketed[Symbol]]:
    """The objects of a program that stand in no other object."""
    for item in items:
        if isinstance(item, _Bracketed) and item.bracket == "[":
            yield from _outer_objects(item.items)
        elif isinstance(item, _Bracketed) and item.bracket == "{":
            yield item


def fit_json_calls(programs: Iterable[Sequence[str]]) -> JsonCalls | None:
    """How programs like these write calls in JSON; None where most of them do not.

    >>> fit_json_calls(['{ " intent " : " stop " }'.split()])
    JsonCalls(name_key='intent', arguments_key='', has_name_last=False, omits_empty=False)
    >>> fit_json_calls(["stop ( )".split()]) is None
    True
    """
    programs = [tuple(program) for program in programs]
    calls = _usual_style(programs)
    # Nothing may be lost.
    if calls is None or any(map(calls.problem, programs)):
        return None
    return calls


def lost_programs(programs: Sequence[Sequence[str]]) -> list[int]:
    """The numbers of the programs that keep the others, which are JSON, from becoming calls.

    >>> programs = [f'{{ " name " : " f{n} " , " arguments " : {{ }} }}' for n in range(9)]
    >>> lost_programs([program.split() for program in [*programs, "f1 ( )"]])
    [9]
    """
    calls = _usual_style(programs)
    if calls is None:
        return []
    return [number for number, program in enumerate(programs) if calls.problem(program)]


def _usual_style(programs: Sequence[Sequence[str]]) -> JsonCalls | None:
    """How most programs write calls in JSON; None where most of them do not."""
    styles: set[JsonCalls] = set()
    for program in programs:
        for group in _outer_objects(_read(program) or ()):
            styles.update(_possible_styles(group))
    if not styles:
        return None
    # Calls without arguments may lack the key that others show.
    for style in list(styles):
        if style.arguments_key:
            styles.add(replace(style, omits_empty=True))
    counts = {style: sum(map(style.has_calls, programs)) for style in styles}
    # Of styles that suit as many programs, arguments of their own leave less doubt.
    calls = min(
        styles,
        key=lambda style: (-counts[style], not style.arguments_key, repr(style)),
    )
    # Programs that are no calls stay JSON, but most must be calls.
    if 2 * counts[calls] < len(programs):
        return None
    return calls


def _possible_styles(group: _Bracketed[str]) -> Iterator[JsonCalls]:
    """The ways to write calls in which an object is one."""
    for name_key in NAME_KEYS:
        styles = [JsonCalls(name_key)]
        for arguments_key in ARGUMENT_KEYS:
            styles.append(JsonCalls(name_key, arguments_key))
            styles.append(JsonCalls(name_key, arguments_key, has_name_last=True))
        yield from (style for style in styles if style._call(group))
