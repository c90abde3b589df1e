"""JSON Schema of the programs of a model: of JSON programs from their target grammar, of calls from
the tools.

A target grammar of JSON has its brackets, quotes, commas and colons as tokens. So an object, a list
or a string can be read off each production: a category inside of braces lists members, one inside
of brackets lists items, all others are values. What is not JSON is refused with its production.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from nqg.errors import NqgError
from nqg.grammar.grammar import SLOT
from nqg.slots.slot import Slot
from nqg.slots.string_grammar import word_pattern
from nqg.slots.value_patterns import slot_values
from nqg.text.brackets import bracket_depths
from nqg.text.patterns import Pattern, regular_expression
from nqg.text.programs import ProgramTokenizer
from nqg.types.target_grammar import (
    Category,
    Production,
    TargetGrammar,
    TargetSymbol,
    Wildcard,
)
from nqg.types.tools import Json, Tool

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ANY_STRING = {"type": "string", "minLength": 1}
JSON_QUOTES = ('"',)
# Slots whose values are numbers, however sentences say them.
NUMBER_KINDS = ("number", "ordinal", "duration")
Symbols: TypeAlias = "tuple[TargetSymbol, ...]"


def tool_call_schema(tools: Sequence[Tool]) -> dict[str, Json]:
    """The schema of calls of tools, `{"name": …, "arguments": {…}}`, alone or in a list."""
    definitions: dict[str, Json] = {}
    calls = []
    for tool in tools:
        arguments: Json = {"type": "object", "properties": {}}
        if tool.schema is not None:
            arguments = _with_definitions(tool.schema.to_json(), tool, definitions)
        if isinstance(arguments, dict) and not tool.is_open:
            arguments = {**arguments, "additionalProperties": False}
        call = {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": arguments},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        if tool.description is not None:
            call["description"] = tool.description
        calls.append(call)
    definitions["call"] = {"anyOf": calls}
    call = {"$ref": "#/$defs/call"}
    several = {"type": "array", "items": call, "minItems": 1}
    return {"$schema": DIALECT, "anyOf": [call, several], "$defs": definitions}


def _with_definitions(value: Json, tool: Tool, definitions: dict[str, Json]) -> Json:
    """A schema whose definitions are moved to the root, under the name of the tool."""
    if isinstance(value, list):
        return [_with_definitions(item, tool, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    moved = {}
    for key, item in value.items():
        if key in ("$defs", "definitions") and isinstance(item, dict):
            for name, inner in item.items():
                written = _with_definitions(inner, tool, definitions)
                definitions[f"{tool.name}.{name}"] = written
        elif key == "$ref" and isinstance(item, str) and item != "#":
            name = item.split("/", 2)[2]
            moved[key] = f"#/$defs/{tool.name}.{name}"
        else:
            moved[key] = _with_definitions(item, tool, definitions)
    return moved


def json_program_schema(
    grammar: TargetGrammar, programs: ProgramTokenizer, slots: Sequence[Slot]
) -> dict[str, Json]:
    """The schema of programs that are JSON.

    >>> grammar = TargetGrammar.parse('<p> ::= { " n " : <n> }\\n<n> ::= <#> | " <w> "\\n<w> ::= a | b')
    >>> json.dumps(json_program_schema(grammar, ProgramTokenizer("code"), ())["$defs"]["n"])
    '{"anyOf": [{"type": "number"}, {"enum": ["a", "b"]}]}'
    """
    writer = _SchemaWriter(grammar, programs, slots)
    try:
        root = writer.value((grammar.start,), grammar.productions[0])
    except RecursionError as error:
        raise NqgError(
            "an object or list of the grammar holds itself without a category of its own, which "
            "has no JSON Schema; export it as lark or gbnf"
        ) from error
    return {"$schema": DIALECT, **root, "$defs": writer.definitions}


@dataclass
class _SchemaWriter:
    grammar: TargetGrammar
    programs: ProgramTokenizer
    slots: Sequence[Slot]
    definitions: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slot_of = {f"{SLOT}{slot.name}": slot for slot in self.slots}
        self.productions: dict[Category, list[Production]] = {}
        for production in self.grammar.productions:
            self.productions.setdefault(production.left, []).append(production)

    def value(self, symbols: Symbols, production: Production) -> dict[str, Json]:
        """The schema of what symbols derive; `production` is named where this is not JSON."""
        first, last = symbols[0], symbols[-1]
        if len(symbols) == 1:
            if isinstance(first, Category):
                return self._reference(first)
            return self._single(first, production)
        if first == '"' == last and '"' not in symbols[1:-1] and len(symbols) > 2:
            return self._string(symbols[1:-1])
        if (first, last) == ("{", "}") and _is_closed_by_last(symbols):
            return self._object(symbols[1:-1], production)
        if (first, last) == ("[", "]") and _is_closed_by_last(symbols):
            return self._array(symbols[1:-1], production)
        raise _not_json(production)

    def _reference(self, category: Category) -> dict[str, Json]:
        name = re.sub(r"[^\w.-]", "_", category.name)
        if name not in self.definitions:
            # A category may hold itself.
            self.definitions[name] = {}
            productions = self.productions[category]
            options = [
                self.value(production.right, production) for production in productions
            ]
            self.definitions[name] = _any_of(options)
        return {"$ref": f"#/$defs/{name}"}

    def _single(
        self, symbol: str | Wildcard, production: Production
    ) -> dict[str, Json]:
        """The schema of one token."""
        if symbol is Wildcard.NUMBER:
            return {"type": "number"}
        if isinstance(symbol, Wildcard):
            return {}
        if symbol in self.slot_of:
            values = slot_values(self.slot_of[symbol])
            if self.slot_of[symbol].kind in NUMBER_KINDS and not values.listed:
                return {"type": "number"}
            return _any_of(
                [{"const": _read(value, production)} for value in values.listed]
            )
        return {"const": _read(symbol, production)}

    # Strings.

    def _string(self, symbols: Symbols) -> dict[str, Json]:
        """The schema of a string with these symbols between its quotes."""
        texts, patterns = [], []
        for option in self._spelled(symbols, frozenset()):
            if option is None:
                return ANY_STRING
            if isinstance(option, str):
                texts.append(option)
            else:
                patterns.append(f"^(?:{regular_expression(option)})$")
        options: list[dict[str, Json]] = []
        if texts:
            options.append({"enum": list(dict.fromkeys(texts))})
        distinct = dict.fromkeys(patterns)
        options += [{"type": "string", "pattern": pattern} for pattern in distinct]
        return _any_of(options)

    def _spelled(
        self, symbols: Symbols, above: frozenset[Category]
    ) -> Iterator[str | Pattern | None]:
        """The texts that symbols derive, or patterns of them; None is any text."""
        if all(
            isinstance(symbol, str) and symbol not in self.slot_of for symbol in symbols
        ):
            yield self._text(symbols)
            return
        symbol = symbols[0]
        if len(symbols) > 1 or symbol in above:
            yield None
        elif isinstance(symbol, Category):
            for production in self.productions[symbol]:
                yield from self._spelled(production.right, above | {symbol})
        elif isinstance(symbol, Wildcard):
            excluded = frozenset[str]()
            if symbol is Wildcard.NEW_TOKEN:
                excluded = self.grammar.terminals
            is_text = symbol is Wildcard.TOKENS
            yield None if is_text else word_pattern(self.programs, excluded, '"')
        else:
            values = slot_values(self.slot_of[symbol])
            yield from values.listed
            if not values.listed:
                yield values.pattern

    def _text(self, tokens: Sequence[TargetSymbol]) -> str:
        written = self.programs.render(('"', *map(str, tokens), '"'))
        if self.programs.scheme == "spaces":
            return written[2:-2]
        try:
            text: str = json.loads(written)
        except ValueError as error:
            raise NqgError(
                f"programs are not JSON, so that they have no JSON Schema: {written} is not a "
                "string of it; export them as lark or gbnf"
            ) from error
        return text

    # Objects and lists.

    def _object(self, symbols: Symbols, production: Production) -> dict[str, Json]:
        members: dict[str, list[dict[str, Json]]] = {}
        required: list[str] = []
        has_list = False
        for part in _split(symbols):
            if len(part) == 1 and isinstance(part[0], Category):
                has_list = True
                self._members(part[0], members, set())
                continue
            if part == (Wildcard.TOKENS,):
                return {"type": "object"}
            keys = self._member(part, production, members)
            if len(keys) == 1:
                required += keys
        schema: dict[str, Json] = {
            "type": "object",
            "properties": {key: _any_of(values) for key, values in members.items()},
            "additionalProperties": False,
        }
        if required:
            schema["required"] = list(dict.fromkeys(required))
        elif has_list:
            schema["minProperties"] = 1
        return schema

    def _members(
        self,
        category: Category,
        members: dict[str, list[dict[str, Json]]],
        seen: set[Category],
    ) -> None:
        """Add the members that a category lists."""
        if category in seen:
            return
        seen.add(category)
        for production in self.productions[category]:
            for part in _split(production.right):
                if len(part) == 1 and isinstance(part[0], Category):
                    self._members(part[0], members, seen)
                else:
                    self._member(part, production, members)

    def _member(
        self,
        part: Symbols,
        production: Production,
        members: dict[str, list[dict[str, Json]]],
    ) -> list[str]:
        """Add a member; returns the keys that it may have."""
        if ":" not in part:
            raise _not_json(production)
        colon = part.index(":")
        key, value = part[:colon], part[colon + 1 :]
        if not key or not value:
            raise _not_json(production)
        schema = self.value(value, production)
        keys = list(self._keys(key, production))
        for name in keys:
            schemas = members.setdefault(name, [])
            if schema not in schemas:
                schemas.append(schema)
        return keys

    def _keys(self, symbols: Symbols, production: Production) -> Iterator[str]:
        first = symbols[0]
        if isinstance(first, Category) and len(symbols) == 1:
            for inner in self.productions[first]:
                yield from self._keys(inner.right, inner)
            return
        if len(symbols) < 3 or first != '"' or symbols[-1] != '"':
            raise _not_json(production)
        for option in self._spelled(symbols[1:-1], frozenset()):
            if not isinstance(option, str):
                raise _not_json(production)
            yield option

    def _array(self, symbols: Symbols, production: Production) -> dict[str, Json]:
        if not symbols:
            return {"type": "array", "maxItems": 0}
        options: list[dict[str, Json]] = []
        for part in _split(symbols):
            for item in self._items(part, production, set()):
                if item not in options:
                    options.append(item)
        return {"type": "array", "items": _any_of(options), "minItems": 1}

    def _items(
        self, part: Symbols, production: Production, seen: set[Category]
    ) -> Iterator[dict[str, Json]]:
        """The items that a part of a list has: those of a category that lists them, or one value."""
        category = part[0]
        if len(part) > 1 or not isinstance(category, Category):
            yield self.value(part, production)
            return
        if category in seen:
            return
        rights = [inner.right for inner in self.productions[category]]
        if not any(len(_split(right)) > 1 for right in rights):
            yield self._reference(category)
            return
        seen.add(category)
        for inner in self.productions[category]:
            for item in _split(inner.right):
                yield from self._items(item, inner, seen)


def _split(symbols: Symbols) -> list[Symbols]:
    """The parts between commas that stand in no brackets and in no quotes."""
    parts: list[list[TargetSymbol]] = [[]]
    for symbol, depth in zip(symbols, bracket_depths(symbols, JSON_QUOTES)):
        if symbol == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(symbol)
    return [tuple(part) for part in parts if part]


def _is_closed_by_last(symbols: Symbols) -> bool:
    """Whether the last bracket closes the first."""
    depths = bracket_depths(symbols, JSON_QUOTES)
    return depths[-1] == 0 and 0 not in depths[1:-1]


def _any_of(options: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    if len(options) == 1:
        return dict(options[0])
    constants = [option["const"] for option in options if set(option) == {"const"}]
    if options and len(constants) == len(options):
        return {"enum": constants}
    return {"anyOf": [dict(option) for option in options]}


def _read(token: str, production: Production) -> Json:
    """The JSON value of a token."""
    try:
        return json.loads(token)
    except ValueError:
        raise _not_json(production) from None


def _not_json(production: Production) -> NqgError:
    return NqgError(
        f"programs are not JSON, so that they have no JSON Schema: '{production}' is neither an "
        "object nor a list nor a value; export them as lark or gbnf, or train with tools"
    )
