"""Types from tools: a target grammar of the calls that tools allow, as training programs write them.

A tool has its own arguments and no others. An argument has the values of its schema: all of an
enum, numbers, truth values, and for strings what training shows. Which arguments are required and
how large numbers may be is checked when a program is complete (`nqg.types.tool_calls`).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from nqg.calls import Call, NotACall, Value, read_calls
from nqg.grammar.grammar import SLOT
from nqg.slots.slot import Slot
from nqg.slots.tool_slots import FORMAT_KINDS
from nqg.text.brackets import QUOTES
from nqg.text.json_calls import ARGUMENT_KEYS, NAME_KEYS
from nqg.types.target_grammar import (
    Category,
    Production,
    TargetGrammar,
    TargetSymbol,
    Wildcard,
)
from nqg.types.tools import ABSENT, Json, JsonSchema, Tool

Right = tuple[TargetSymbol, ...]
TokenizeText = Callable[[str, str], Sequence[str]]
PROGRAM, CALL = Category("program"), Category("call")
SEPARATORS = (";", "&&", ",")
CONSTANTS = {True: ("true", "True"), False: ("false", "False"), None: ("null", "None")}
# Objects inside of objects inside of objects: what is deeper may be anything.
MAX_DEPTH = 4


def tool_grammar(
    tools: Sequence[Tool],
    programs: Sequence[Sequence[str]],
    tokenize: TokenizeText = lambda text, quote: text.split(),
    slots: Iterable[Slot] = (),
) -> TargetGrammar | None:
    """The grammar of the calls of tools, in the notation of programs with slots for values.

    None where programs are written in a way that it does not describe.

    >>> from nqg.types.tools import read_tools
    >>> tools = read_tools([{"name": "light", "parameters": {"properties": {
    ...     "state": {"enum": ["on", "off"]}, "percent": {"type": "integer"}}}}])
    >>> print(tool_grammar(tools, ["light ( state = on )".split()]), end="")
    <program> ::= <call>
    <call> ::= light ( <light_list> ) | light ( )
    <light_list> ::= state = <state> | percent = <percent> | <light_list> , <light_list>
    <state> ::= on | off
    <percent> ::= <#>
    """
    notation = Notation.of(programs)
    if notation is None:
        return None
    writer = _Writer(tools, notation, tokenize, tuple(slots))
    grammar = TargetGrammar(tuple(writer.productions()))
    if all(map(grammar.accepts, dict.fromkeys(map(tuple, programs)))):
        return grammar
    return None


@dataclass(frozen=True)
class Notation:
    """How programs write calls, and the calls that they have.

    `name_key` and `arguments_key` are those of JSON objects; without the second, arguments stand
    beside the name.
    """

    calls: tuple[Call, ...]
    quote: str
    is_json: bool = False
    name_key: str = NAME_KEYS[0]
    arguments_key: str | None = ARGUMENT_KEYS[0]
    separators: tuple[str, ...] = ()
    has_list: bool = False
    has_bare_name: bool = False
    tokens: frozenset[str] = field(default=frozenset(), repr=False)

    @classmethod
    def of(cls, programs: Iterable[Sequence[str]]) -> Notation | None:
        """The notation of tokenised programs; None if they are not calls."""
        calls: list[Call] = []
        separators: set[str] = set()
        tokens: set[str] = set()
        has_list, is_json, has_bare_name = False, False, False
        name_key = NAME_KEYS[0]
        arguments_key: str | None = None
        for program in programs:
            text = readable(program)
            try:
                calls += read_calls(text)
            except NotACall:
                return None
            tokens.update(program)
            separators |= _separators(program)
            has_list |= program[0] == "["
            if "{" in program[:2]:
                is_json = True
                for keys in _objects(text):
                    name_key = _first_of(NAME_KEYS, keys) or name_key
                    arguments_key = _first_of(ARGUMENT_KEYS, keys) or arguments_key
                    has_bare_name |= len(keys) == 1
        return cls(
            tuple(calls),
            _first_of(QUOTES, tokens) or "",
            is_json,
            name_key,
            arguments_key,
            tuple(mark for mark in SEPARATORS if mark in separators),
            has_list,
            has_bare_name,
            frozenset(tokens),
        )

    @cached_property
    def is_positional(self) -> bool:
        """Whether arguments have places in the stead of names."""
        has_places = any(call.positional for call in self.calls)
        return has_places and not any(call.arguments for call in self.calls)

    def quoted(self, right: Right) -> Right:
        return (self.quote, *right, self.quote) if self.quote else right

    def constant(self, value: bool | None) -> str:
        """True, false or null, as programs write it."""
        usual, other = CONSTANTS[value]
        pythonic = self.tokens.intersection(("True", "False", "None"))
        return other if pythonic and not self.is_json else usual


def _first_of(wanted: Iterable[str], held: Container[str]) -> str | None:
    return next((each for each in wanted if each in held), None)


def readable(tokens: Sequence[str]) -> str:
    """A tokenised program with slots as one that can be read: slots become strings.

    >>> readable('{ " percent " : @number }'.split())
    '{ " percent " : " @number " }'
    """
    words = []
    quote = ""
    for token in tokens:
        if token in QUOTES and quote in ("", token):
            quote = "" if quote else token
        if token.startswith(SLOT) and not quote:
            token = f'" {token} "'
        words.append(token)
    return " ".join(words)


def _separators(program: Sequence[str]) -> set[str]:
    """The marks between calls; those of a list stand inside of its brackets."""
    depth, quote = 0, ""
    marks = set()
    outermost = 1 if program[0] == "[" else 0
    for token in program:
        if token in QUOTES and quote in ("", token):
            quote = "" if quote else token
        elif quote:
            continue
        elif token in ("(", "[", "{"):
            depth += 1
        elif token in (")", "]", "}"):
            depth -= 1
        elif token in SEPARATORS and depth == outermost:
            marks.add(token)
    return marks


def _objects(text: str) -> list[list[str]]:
    """The keys of the objects of a program, one object a call."""
    decoder = json.JSONDecoder()
    objects = []
    at = text.find("{")
    while at >= 0:
        parsed, end = decoder.raw_decode(text, at)
        objects.append([key.strip() for key in parsed])
        at = text.find("{", end)
    return objects


class _Writer:
    """Collects the productions of a grammar, categories in the order of their use."""

    def __init__(
        self,
        tools: Sequence[Tool],
        notation: Notation,
        tokenize: TokenizeText,
        slots: tuple[Slot, ...],
    ) -> None:
        self.tools = tools
        self.notation = notation
        self.tokenize = tokenize
        self.slots = {slot.name: slot for slot in slots}
        self.by_category: dict[Category, list[Right]] = {}
        # The category of each parameter, by its name and what its values may be.
        self.categories: dict[tuple[str, str], Category] = {}
        self.positional: dict[str, int] = defaultdict(int)
        self.seen = self._seen_values()

    def productions(self) -> list[Production]:
        # The first category is the start symbol.
        self._define(PROGRAM, [])
        self._define(PROGRAM, self._program())
        self._define(CALL, [])
        for tool in self.tools:
            for right in self._call(tool):
                self._define(CALL, [right])
        productions = []
        for left, rights in self.by_category.items():
            productions += [Production(left, right) for right in dict.fromkeys(rights)]
        return productions

    def _define(self, left: Category, rights: Iterable[Right]) -> None:
        self.by_category.setdefault(left, []).extend(rights)

    def _new(self, name: str) -> Category:
        """A category of a name like this, whose place in the grammar is behind those known."""
        name = re.sub(r"[\s<>]", "_", name)
        category, number = Category(name), 1
        while category in self.by_category:
            number += 1
            category = Category(f"{name}_{number}")
        self._define(category, [])
        return category

    # Calls.

    def _program(self) -> list[Right]:
        rights: list[Right] = [(CALL,)]
        calls = Category("calls") if self.notation.has_list else PROGRAM
        if self.notation.has_list:
            rights.append(("[", calls, "]"))
            self._define(calls, [(CALL,)])
        for mark in self.notation.separators:
            target = rights if calls is PROGRAM else self.by_category[calls]
            target.append((calls, mark, calls))
        return rights

    def _call(self, tool: Tool) -> list[Right]:
        """The ways to call a tool: with its arguments by name, without any, or by their places."""
        notation = self.notation
        name = self._tokens(tool.name, notation.quote if notation.is_json else "")
        needs = any(parameter.is_required for parameter in tool.parameters)
        bodies: list[Right] = []
        if tool.parameters and not self.notation.is_positional:
            bodies.append((self._arguments(tool),))
        if not needs:
            bodies.append(())
        if not notation.is_json:
            bodies += self._positional(tool)
        rights = []
        for body in bodies:
            if not notation.is_json:
                rights.append((*name, "(", *body, ")"))
                continue
            head = (*self._key(notation.name_key), ":", *notation.quoted(name))
            if notation.arguments_key is not None:
                key = self._key(notation.arguments_key)
                rights.append(("{", *head, ",", *key, ":", "{", *body, "}", "}"))
            elif body:
                rights.append(("{", *head, ",", *body, "}"))
            is_bare = notation.arguments_key is None or notation.has_bare_name
            if not body and is_bare:
                rights.append(("{", *head, "}"))
        return rights

    def _arguments(self, tool: Tool) -> Category:
        """The list of a tool's arguments: a list may be joined of lists, as rules join them."""
        items = self._new(f"{tool.name}_list")
        mark = ":" if self.notation.is_json else "="
        for parameter in tool.parameters:
            key: Right = tuple(self._tokens(parameter.name, ""))
            if self.notation.is_json:
                key = self._key(parameter.name)
            value = self._value_category(tool, parameter.name, parameter.schema)
            self._define(items, [(*key, mark, value)])
            if parameter.is_nullable:
                self._define(items, [(*key, mark, self.notation.constant(None))])
        self._define(items, [(items, ",", items)])
        return items

    def _positional(self, tool: Tool) -> list[Right]:
        """Argument lists without keywords, as long as training programs have them.

        Where programs have no keywords, a list has what is required and may have all the others.
        """
        parameters, least = tool.parameters, 1
        if not self.notation.is_positional:
            parameters = parameters[: self.positional[tool.name]]
        else:
            for number, parameter in enumerate(parameters, start=1):
                if parameter.is_required:
                    least = number
        values: list[TargetSymbol] = []
        rights: list[Right] = []
        for number, parameter in enumerate(parameters, start=1):
            if values:
                values.append(",")
            values.append(self._value_category(tool, parameter.name, parameter.schema))
            if number >= least:
                rights.append(tuple(values))
        return rights

    def _key(self, name: str) -> Right:
        return self.notation.quoted(self._tokens(name, self.notation.quote))

    def _tokens(self, text: str, quote: str) -> tuple[str, ...]:
        return tuple(self.tokenize(text, quote))

    # Values.

    def _seen_values(self) -> dict[tuple[str, str], list[Value]]:
        """The values that training programs have for each parameter."""
        tools = {tool.name: tool for tool in self.tools}
        seen: dict[tuple[str, str], list[Value]] = defaultdict(list)

        def visit(call: Call) -> None:
            tool = tools.get(call.name)
            if tool is None:
                return
            schemas = {each.name: each.schema for each in tool.parameters}
            count = len(call.positional)
            self.positional[tool.name] = max(self.positional[tool.name], count)
            arguments = dict(zip(schemas, call.positional)) | dict(call.arguments)
            for name, value in arguments.items():
                if name in schemas:
                    seen[_identity(name, schemas[name])].append(value)
                for inner in _calls_in(value):
                    visit(inner)

        for call in self.notation.calls:
            visit(call)
        return seen

    def _value_category(self, tool: Tool, name: str, schema: JsonSchema) -> Category:
        """The category of a parameter's values; equal parameters of several tools share it."""
        identity = _identity(name, schema)
        if identity not in self.categories:
            category = self.categories[identity] = self._new(name)
            values = self._values(tool, category, schema, self.seen[identity])
            self._define(category, values or [(Wildcard.TOKENS,)])
        return self.categories[identity]

    def _values(
        self,
        tool: Tool,
        category: Category,
        schema: JsonSchema,
        seen: Sequence[Value],
        depth: int = 0,
    ) -> list[Right]:
        """The right sides that write the values of a schema."""
        schema = tool.resolved(schema)
        if depth > MAX_DEPTH:
            return [(Wildcard.TOKENS,)]
        rights: list[Right] = []
        if any(isinstance(value, Call) for value in seen):
            rights.append((CALL,))
        # A value of a list, or one of several schemas.
        literals: tuple[Json, ...] | None = schema.enum
        if schema.const is not ABSENT:
            literals = (schema.const,)
        if literals is not None:
            return rights + self._literals(category, literals, seen)
        if schema.alternatives:
            for alternative in schema.alternatives:
                rights += self._values(tool, category, alternative, seen, depth + 1)
            return rights
        # Values of a type; without one, any value that is not a list or an object.
        for name in schema.types or ("string", "number", "boolean"):
            match name:
                case "string":
                    rights += self._strings(category, schema, seen)
                case "number" | "integer":
                    rights.append((Wildcard.NUMBER,))
                    rights += self._slots(seen, "number", is_quoted=False)
                case "boolean":
                    rights += [
                        (self.notation.constant(True),),
                        (self.notation.constant(False),),
                    ]
                case "null":
                    rights.append((self.notation.constant(None),))
                case "array":
                    rights += self._array(tool, category, schema, seen, depth)
                case _:
                    rights += self._object(tool, category, schema, seen, depth)
        return rights

    def _literals(
        self, category: Category, values: Iterable[Json], seen: Sequence[Value]
    ) -> list[Right]:
        """The values of an enum, and the slots that have some of them."""
        words: list[Right] = []
        rights: list[Right] = []
        texts = set()
        for value in values:
            if isinstance(value, str):
                texts.add(value)
                words.append(self._tokens(value, self.notation.quote))
            elif value is None or isinstance(value, bool):
                rights.append((self.notation.constant(value),))
            elif isinstance(value, int | float):
                rights.append(self._tokens(str(value), ""))
        words += [
            (f"{SLOT}{slot.name}",)
            for slot in self.slots.values()
            if slot.names and texts.issuperset(slot.names.values.values())
        ]
        rights += self._slots(seen, None, is_quoted=False)
        words += self._slots(seen, None, is_quoted=True)
        return rights + self._quoted_words(category, words)

    def _strings(
        self, category: Category, schema: JsonSchema, seen: Sequence[Value]
    ) -> list[Right]:
        """Strings: slots and words that training shows, and new words; any words if it shows none."""
        kind = FORMAT_KINDS.get(schema.format or "")
        is_quoted = bool(self.notation.quote)
        slots = self._slots(seen, kind, is_quoted=is_quoted)
        words = []
        for value in seen:
            if isinstance(value, str):
                words += [word for word in value.split() if not word.startswith(SLOT)]
        if not slots and not words:
            # Without quotes, marks of programs would be words, too.
            word = Wildcard.UNQUOTED if self.notation.quote else Wildcard.NEW_TOKEN
            text = self._new(f"{category.name}_words")
            self._define(text, [(word,), (text, word)])
            return [self.notation.quoted((text,))]
        rights = slots
        if words:
            one = self._new(f"{category.name}_word")
            self._define(one, [(word,) for word in words])
            self._define(one, [(Wildcard.NEW_TOKEN,), (one, one)])
            # A value may be words and slots together.
            mixed = any(isinstance(v, str) and _is_mixed(v) for v in seen)
            if mixed:
                self._define(one, slots)
            rights = [*slots, (one,)]
        return self._quoted_words(category, rights)

    def _quoted_words(self, category: Category, words: list[Right]) -> list[Right]:
        named = [right for right in words if right]
        if not self.notation.quote:
            return named
        rights: list[Right] = []
        if named:
            inner = self._new(f"{category.name}_value")
            self._define(inner, named)
            rights.append(self.notation.quoted((inner,)))
        if len(named) < len(words):
            rights.append(self.notation.quoted(()))
        return rights

    def _slots(
        self, seen: Sequence[Value], kind: str | None, *, is_quoted: bool
    ) -> list[Right]:
        """The slots that training has as these values, and those of a kind."""
        texts = [value for value in seen if isinstance(value, str)]
        tokens = [text.split()[0] for text in texts if text.startswith(SLOT)]
        slots = self.slots.values()
        tokens += [f"{SLOT}{slot.name}" for slot in slots if slot.kind == kind]
        rights: dict[Right, None] = {}
        for token in tokens:
            known = self.slots.get(token.removeprefix(SLOT))
            if known is not None and bool(known.quote) == is_quoted:
                rights[(token,)] = None
        return list(rights)

    def _array(
        self,
        tool: Tool,
        category: Category,
        schema: JsonSchema,
        seen: Sequence[Value],
        depth: int,
    ) -> list[Right]:
        """A list in brackets."""
        inner: list[Value] = []
        for value in seen:
            if isinstance(value, list):
                inner += value
        items = self._new(f"{category.name}_items")
        item = self._new(f"{category.name}_item")
        schema_of_items = schema.items or JsonSchema()
        values = self._values(tool, item, schema_of_items, inner, depth + 1)
        self._define(item, values or [(Wildcard.TOKENS,)])
        self._define(items, [(item,), (items, ",", items)])
        rights: list[Right] = [("[", items, "]")]
        if not schema.min_items:
            rights.append(("[", "]"))
        return rights

    def _object(
        self,
        tool: Tool,
        category: Category,
        schema: JsonSchema,
        seen: Sequence[Value],
        depth: int,
    ) -> list[Right]:
        """An object in braces."""
        rights: list[Right] = []
        if schema.properties:
            members = self._new(f"{category.name}_members")
            for name, inner in schema.properties.items():
                objects = [value for value in seen if isinstance(value, dict)]
                values = [value[name] for value in objects if name in value]
                member = self._new(f"{category.name}_{name}")
                written = self._values(tool, member, inner, values, depth + 1)
                self._define(member, written or [(Wildcard.TOKENS,)])
                self._define(members, [(*self._key(name), ":", member)])
            self._define(members, [(members, ",", members)])
            rights.append(("{", members, "}"))
        is_open = schema.additional_properties not in (None, False)
        if is_open or not schema.properties:
            rights.append(("{", Wildcard.TOKENS, "}"))
        if not schema.required:
            rights.append(("{", "}"))
        return rights


def _identity(name: str, schema: JsonSchema) -> tuple[str, str]:
    """What two parameters share whose values are of one type: descriptions do not count."""
    written = schema.to_json()
    for key in ("description", "default", "title", "examples"):
        written.pop(key, None)
    return name, json.dumps(written, sort_keys=True)


def _is_mixed(text: str) -> bool:
    words = text.split()
    return len(words) > 1 and any(word.startswith(SLOT) for word in words)


def _calls_in(value: Value) -> Iterable[Call]:
    if isinstance(value, Call):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _calls_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _calls_in(item)
