"""Programs as calls of functions: a name, and arguments as Python values.

A program is one call or a sequence of them, in any of these notations:

    set_alarm(time="7:30", repeat=true)                         keywords
    turn ( right , 120 )                                        positions, tokenised or not
    {"name": "set_alarm", "arguments": {"time": "7:30"}}        JSON, one object a call

Sequences are written with `;`, `&&`, commas or line breaks between calls, or as a list.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from nqg.errors import FormatError
from nqg.text.json_calls import ARGUMENT_KEYS, NAME_KEYS
from nqg.text.programs import detected_scheme

Value: TypeAlias = (
    "str | int | float | bool | list[Value] | dict[str, Value] | Call | None"
)
# The same without calls, which JSON writes as objects.
JsonValue: TypeAlias = (
    "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"
)

# The key of the arguments that have a place in place of a name.
POSITIONAL = "positional"
# A call inside of a call inside of a call: deeper programs are refused, lest Python's stack end.
MAX_BRACKET_DEPTH = 100
SHOWN = 20  # characters, of a program that cannot be read

_NOTATIONS = 'a call such as f(key="value"), f(a, b) or {"name": …, "arguments": {…}}'
_SPACE = re.compile(r"\s*")
_FUNCTION_NAME = re.compile(r"[^\W\d][\w:-]*(?:\s*\.\s*\w[\w:-]*)*")
_JSON_NUMBER = re.compile(
    r"-?(?:0|[1-9]\d*)(?P<fraction>\.\d+)?(?P<exponent>[eE][+-]?\d+)?"
)
# What stands between two calls.
_SEPARATOR = re.compile(r"\s*(?:;|&&|,|\n)\s*")
# A value without quotation marks: words, marks and numbers up to the next mark of structure.
_UNQUOTED = re.compile(r"""[^\s()\[\]{},;="'][^()\[\]{},;="]*""")
_UNQUOTED_KEY = re.compile(r"""[^\s()\[\]{},;=:"'][^()\[\]{},;=:"]*""")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_CONSTANTS = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}


class NotACall(FormatError):
    """A program that is neither a call nor a sequence of calls."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function's name and arguments. Those without a keyword are `positional`.

    >>> Call("set_alarm", {"time": "7:30"}).to_json()
    {'name': 'set_alarm', 'arguments': {'time': '7:30'}}
    """

    name: str
    arguments: Mapping[str, Value] = field(default_factory=dict)
    positional: tuple[Value, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """The call as an object for JSON. `positional` is there only if there are such arguments.

        >>> Call("turn", {}, ("right", 120)).to_json()
        {'name': 'turn', 'arguments': {}, 'positional': ['right', 120]}
        """
        arguments = {key: _to_json(value) for key, value in self.arguments.items()}
        written: dict[str, JsonValue] = {"name": self.name, "arguments": arguments}
        if self.positional:
            written[POSITIONAL] = [_to_json(value) for value in self.positional]
        return written

    def with_names(self, names: Sequence[str]) -> Call:
        """The call whose positional arguments have the first of `names`, if those are free.

        >>> Call("turn", {}, ("right", 120)).with_names(["to", "degrees"])
        Call(name='turn', arguments={'to': 'right', 'degrees': 120}, positional=())
        """
        named = dict(zip(names, self.positional))
        if len(named) < len(self.positional) or named.keys() & self.arguments.keys():
            return self
        return Call(self.name, {**named, **self.arguments})


def _to_json(value: Value) -> JsonValue:
    if isinstance(value, Call):
        return value.to_json()
    if isinstance(value, list):
        return [_to_json(element) for element in value]
    if isinstance(value, dict):
        return {key: _to_json(element) for key, element in value.items()}
    return value


def read_calls(program: str) -> tuple[Call, ...]:
    """The calls of a program, in their order. There is at least one.

    >>> read_calls('play(song="Hey Jude", volume=7); lights ( kitchen , off )')
    (Call(name='play', arguments={'song': 'Hey Jude', 'volume': 7}, positional=()), \
Call(name='lights', arguments={}, positional=('kitchen', 'off')))
    >>> read_calls("kitchen lights")
    Traceback (most recent call last):
    nqg.calls.NotACall: character 9 of 'kitchen lights': expected '(' after the name \
'kitchen', found 'lights'; programs are read as calls if each is a call such as \
f(key="value"), f(a, b) or {"name": …, "arguments": {…}}
    """
    return tuple(_Reader(program).calls())


def all_calls(value: Value) -> Iterator[Call]:
    """The calls in a value, and the calls among their arguments, outer ones first.

    >>> (outer,) = read_calls("at(time=7, do=play(song=Africa))")
    >>> [call.name for call in all_calls(outer)]
    ['at', 'play']
    """
    inner: Iterable[Value] = ()
    if isinstance(value, Call):
        yield value
        inner = (*value.arguments.values(), *value.positional)
    elif isinstance(value, list):
        inner = value
    elif isinstance(value, dict):
        inner = value.values()
    for argument in inner:
        yield from all_calls(argument)


def calls_or_none(program: str | None) -> tuple[Call, ...] | None:
    """The calls of a program; None of another program, and of no program.

    >>> calls_or_none("SELECT name FROM rivers") is None
    True
    """
    if program is None:
        return None
    try:
        return read_calls(program)
    except NotACall:
        return None


class _Reader:
    """A program and the place up to which it was read."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.at = 0
        # Spaces beside the quotation marks of a tokenised program belong to no value.
        self.is_tokenised = detected_scheme([program]) == "spaces"

    def calls(self) -> Iterator[Call]:
        self.skip_space()
        # Brackets around the calls make them a list; JSON and code may stand in it alike.
        is_list = self.accepts("[")
        while True:
            yield self.call_or_object()
            separator = _SEPARATOR.match(self.program, self.at)
            if separator is None:
                break
            self.at = separator.end()
            # A separator may stand after the last call, too.
            if self.at == len(self.program) or (is_list and self.peek() == "]"):
                break
        self.skip_space()
        if is_list:
            self.expect("]", "after the calls of a list")
            self.skip_space()
        if self.at < len(self.program):
            raise self.error("expected ';' or the end after a call")

    def call_or_object(self) -> Call:
        if self.peek() == "{":
            return self.json_call()
        name = _FUNCTION_NAME.match(self.program, self.at)
        if name is None:
            raise self.error("expected the name of a function")
        self.at = name.end()
        self.skip_space()
        return self.arguments(_without_spaces(name[0]), depth=0)

    def json_call(self) -> Call:
        start = self.at
        decoder = json.JSONDecoder(**_STRICT_JSON)
        try:
            parsed, end = decoder.raw_decode(self.program, start)
            # Halves of characters, which JSON can write and nothing else can.
            json.dumps(parsed, ensure_ascii=False).encode()
            if self.is_tokenised:
                parsed = _stripped(parsed)
            call = call_of_json(parsed)
        except json.JSONDecodeError as error:
            self.at = error.pos
            raise self.error(f"expected JSON: {error.msg}") from None
        except UnicodeEncodeError:
            raise self.error("expected whole characters") from None
        except (ValueError, RecursionError) as error:
            raise self.error(f"expected JSON: {error}") from None
        if call is None:
            raise self.error(
                f"expected an object with one of the keys {', '.join(NAME_KEYS)} and, "
                f"perhaps, one of {', '.join(ARGUMENT_KEYS)}"
            )
        self.at = end
        return call

    def arguments(self, name: str, depth: int) -> Call:
        self.expect("(", f"after the name '{name}'")
        keywords: dict[str, Value] = {}
        positional: list[Value] = []
        for _ in self.elements(")", f"of '{name}'"):
            start = self.at
            value = self.value(depth + 1)
            self.skip_space()
            if self.peek() != "=":
                positional.append(value)
                continue
            # What looked like a value is a keyword.
            keyword = self.program[start : self.at].strip()
            if not _FUNCTION_NAME.fullmatch(keyword):
                self.at = start
                raise self.error("expected a keyword before '='")
            if keyword in keywords:
                self.at = start
                raise self.error(f"expected every keyword of '{name}' once")
            self.expect("=", "after a keyword")
            self.skip_space()
            keywords[keyword] = self.value(depth + 1)
        return Call(name, keywords, tuple(positional))

    def value(self, depth: int) -> Value:
        """A string, number, constant, list, object or call; other words are strings."""
        if depth > MAX_BRACKET_DEPTH:
            raise self.error(
                f"expected at most {MAX_BRACKET_DEPTH} brackets in each other"
            )
        first = self.peek()
        if first in ("'", '"'):
            return self.string()
        if first == "[":
            self.at += 1
            return [self.value(depth + 1) for _ in self.elements("]", "of a list")]
        if first == "{":
            return self.object(depth)
        words = _UNQUOTED.match(self.program, self.at)
        if words is None:
            raise self.error("expected a value")
        text = words[0].rstrip()
        self.at += len(text)
        # A name before a bracket is that of a call.
        end = _SPACE.match(self.program, self.at)
        assert end is not None
        if self.program.startswith("(", end.end()) and _FUNCTION_NAME.fullmatch(text):
            self.at = end.end()
            return self.arguments(_without_spaces(text), depth)
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _JSON_NUMBER.fullmatch(text):
            return self.number(text)
        return " ".join(text.split())

    def object(self, depth: int) -> Value:
        self.expect("{", "before an object")
        members: dict[str, Value] = {}
        for _ in self.elements("}", "of an object"):
            start = self.at
            if self.peek() in ("'", '"'):
                key = self.string()
            else:
                words = _UNQUOTED_KEY.match(self.program, self.at)
                if words is None:
                    raise self.error("expected a key")
                self.at = words.end()
                key = words[0].strip()
            if key in members:
                self.at = start
                raise self.error("expected every key of an object once")
            self.skip_space()
            self.expect(":", "after a key")
            self.skip_space()
            members[key] = self.value(depth + 1)
        return members

    def elements(self, closing: str, of: str) -> Iterator[None]:
        """A stop before each of some values with commas between them, up to a bracket."""
        self.skip_space()
        if self.accepts(closing):
            return
        while True:
            yield
            self.skip_space()
            if self.accepts(closing):
                return
            if not self.accepts(","):
                raise self.error(f"expected ',' or '{closing}' after a value {of}")
            self.skip_space()

    def string(self) -> str:
        start, quote = self.at, self.program[self.at]
        end = start + 1
        while end < len(self.program) and self.program[end] != quote:
            # A backslash and the character after it belong together.
            end += 2 if self.program[end] == "\\" else 1
        if end >= len(self.program):
            raise self.error(f"expected a closing {quote}")
        text = self.program[start + 1 : end]
        self.at = end + 1
        if self.is_tokenised:
            text = text.strip()
        text = _ESCAPE.sub(_unescaped, text)
        # Two escapes may be the halves of one character.
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self.at = start
            raise self.error("expected whole characters") from None

    def number(self, text: str) -> int | float:
        match = _JSON_NUMBER.fullmatch(text)
        assert match is not None
        try:
            if match["fraction"] or match["exponent"]:
                return _finite(text)
            return int(text)
        except ValueError as error:
            self.at -= len(text)
            raise self.error(f"expected a number: {error}") from None

    def peek(self) -> str:
        return self.program[self.at : self.at + 1]

    def skip_space(self) -> None:
        match = _SPACE.match(self.program, self.at)
        assert match is not None
        self.at = match.end()

    def accepts(self, mark: str) -> bool:
        """Whether a mark stands here, which is then read, and the white space after it."""
        if self.peek() != mark:
            return False
        self.at += 1
        if mark in "[,":
            self.skip_space()
        return True

    def expect(self, mark: str, where: str) -> None:
        if self.peek() != mark:
            raise self.error(f"expected '{mark}' {where}")
        self.at += 1

    def error(self, expected: str) -> NotACall:
        rest = self.program[self.at : self.at + SHOWN]
        actual = f"found '{rest}'" if rest else "found the end"
        shown = self.program
        if len(shown) > 4 * SHOWN:
            shown = f"{shown[: 4 * SHOWN]}…"
        return NotACall(
            f"character {self.at + 1} of '{shown}': {expected}, {actual}; "
            f"programs are read as calls if each is {_NOTATIONS}"
        )


def call_of_json(parsed: object) -> Call | None:
    """The call that a JSON object writes; None where the object has no name that is clear.

    >>> call_of_json({"intent": "set_alarm", "time": "7:30"})
    Call(name='set_alarm', arguments={'time': '7:30'}, positional=())
    >>> call_of_json({"time": "7:30"}) is None
    True
    """
    if not isinstance(parsed, dict):
        return None
    members = dict(parsed)
    # {"type": "function", "function": {…}}, as servers of language models write a call.
    inner = members.get("function")
    if isinstance(inner, dict):
        if set(members) <= {"id", "type", "function"}:
            return call_of_json(inner)
        return None
    # Arguments of their own leave no doubt about the name; else all other keys are arguments.
    named = [key for key in NAME_KEYS if isinstance(members.get(key), str)]
    if len(named) != 1:
        return None
    name = members.pop(named[0])
    positional = members.pop(POSITIONAL, [])
    if len(members) == 1 and next(iter(members)) in ARGUMENT_KEYS:
        members = next(iter(members.values()))
        # Servers of language models write arguments as a string of JSON.
        if isinstance(members, str):
            members = _loaded(members)
    if not name or not isinstance(members, dict) or not isinstance(positional, list):
        return None
    arguments = {key: _from_json(value) for key, value in members.items()}
    return Call(name, arguments, tuple(_from_json(value) for value in positional))


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, **_STRICT_JSON)
    except ValueError:
        return None


def _from_json(value: Any) -> Value:
    """A value of JSON; an object that is written as `Call.to_json` writes calls is a call."""
    if isinstance(value, list):
        return [_from_json(element) for element in value]
    if isinstance(value, dict):
        keys = set(value) - {POSITIONAL}
        if keys == {"name", "arguments"} and isinstance(value["arguments"], dict):
            call = call_of_json(value)
            if call is not None:
                return call
        return {key: _from_json(element) for key, element in value.items()}
    return value  # type: ignore[no-any-return]


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"the key '{key}' is there twice")
        members[key] = value
    return members


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


_STRICT_JSON: dict[str, Any] = {
    "object_pairs_hook": _unique_keys,
    "parse_float": _finite,
    "parse_constant": _finite,
}


def _stripped(value: Any) -> Any:
    """A value of JSON whose strings have no space at their ends."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return [_stripped(element) for element in value]
    if isinstance(value, dict):
        return {key.strip(): _stripped(element) for key, element in value.items()}
    return value


def _without_spaces(name: str) -> str:
    return "".join(name.split())


def _unescaped(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return _ESCAPED.get(match[2], match[2])
