"""Sentence templates as people write them for voice assistants, in the syntax of hassil.

`turn (on|off) [the] {name}` describes four sentences with a value in each. `(a|b)` are alternatives,
`[a]` may be left out, `{slot}` is a value, `{slot:argument}` a value that the program calls
otherwise, and `<name>` is a part that is defined elsewhere. A backslash before a sign makes it a
plain character.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product, starmap

from nqg.errors import FormatError
from nqg.text.brackets import IN_QUOTES, bracket_depths

# A template that describes more sentences is refused: each becomes a rule.
MAX_SENTENCES = 1_000
_TOKEN = re.compile(r"\\.|[()\[\]|]|\{[^{}]*\}|<[^<>]*>|[^\\()\[\]|{}<>]+|.", re.DOTALL)
_SIGN = re.compile(r"(?<!\\)(?:[()\[\]{}|]|<\w+>)")
_SLOT = re.compile(r"\{\s*([\w-]+)\s*(?::\s*([\w-]+)\s*)?\}")
_PART = re.compile(r"<\s*(\w+)\s*>")
_CLOSING = {"(": ")", "[": "]"}
_OPENING = {closing: opening for opening, closing in _CLOSING.items()}


@dataclass(slots=True)
class _Group:
    """A bracket that is open: the texts of its finished alternatives, and of the one at hand."""

    opening: str
    finished: list[str] = field(default_factory=list)
    current: list[str] = field(default_factory=lambda: [""])

    def append(self, texts: Sequence[str]) -> None:
        if len(self.current) * len(texts) > MAX_SENTENCES:
            raise FormatError(
                f"the template describes more than {MAX_SENTENCES:,} sentences; split it"
            )
        self.current = list(starmap(str.__add__, product(self.current, texts)))

    def alternatives(self) -> list[str]:
        texts = [*self.finished, *self.current]
        if self.opening == "[":
            texts.append("")
        return texts


def is_template(text: str) -> bool:
    """Whether a text has any of the signs of templates.

    >>> is_template("turn on [the] lamp"), is_template("turn on the lamp")
    (True, False)
    """
    return _SIGN.search(text) is not None


def expanded_template(
    template: str, parts: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """The sentences that a template describes, with `{slot}` where they have values.

    `parts` are the texts of each `<name>`.

    >>> expanded_template("turn (on|off) [the] {name}")
    ['turn on the {name}', 'turn on {name}', 'turn off the {name}', 'turn off {name}']
    """
    parts = parts or {}
    stack = [_Group("")]
    for token in _TOKEN.findall(template):
        group = stack[-1]
        if token in _CLOSING:
            stack.append(_Group(token))
        elif token in _OPENING:
            if group.opening != _OPENING[token]:
                raise FormatError(f"'{token}' in the template closes nothing")
            stack.pop()
            stack[-1].append(group.alternatives())
        elif token == "|":
            if not group.opening:
                raise FormatError(
                    "alternatives need brackets: write (a|b), or [a|b] if both may be left out"
                )
            group.finished += group.current
            group.current = [""]
        elif token.startswith("<") and len(token) > 1:
            group.append(_part(token, parts))
        elif token.startswith("{"):
            group.append([_slot(token)])
        elif token == "}":
            raise FormatError("'}' in the template closes nothing")
        elif token.startswith("\\") and len(token) > 1:
            group.append([token[1]])
        else:
            group.append([token])
    if len(stack) > 1:
        raise FormatError(f"'{stack[-1].opening}' in the template is never closed")
    sentences = [" ".join(text.split()) for text in stack[0].current]
    return list(dict.fromkeys(sentences))


def _part(token: str, parts: Mapping[str, Sequence[str]]) -> Sequence[str]:
    match = _PART.fullmatch(token)
    if match is None or match[1] not in parts:
        defined = ", ".join(f"<{name}>" for name in parts) or "none"
        raise FormatError(
            f"{token} is not defined; expected a line '{token} = (…|…)' above (known: {defined})"
        )
    return parts[match[1]]


def _slot(token: str) -> str:
    match = _SLOT.fullmatch(token)
    if match is None:
        raise FormatError(
            f"expected a name as in {{title}} or {{number:people}}, found '{token}'"
        )
    return token.replace(" ", "")


@dataclass(frozen=True, slots=True)
class TemplateSlot:
    """A value in a template: the slot that reads it, and what the program calls it."""

    slot: str
    argument: str

    @property
    def mark(self) -> str:
        """How the program writes the value's place.

        >>> slots_in("meet at {time:start}")[0].mark
        '{start}'
        """
        return f"{{{self.argument}}}"


def slot_names(template: str) -> list[str]:
    """The slots that a template names, each once.

    >>> slot_names("(dim {name}|make {name} darker) [in {area}]")
    ['name', 'area']
    """
    return list(dict.fromkeys(match[1] for match in _SLOT.finditer(template)))


def slots_in(sentence: str) -> list[TemplateSlot]:
    """The values of an expanded template, in their order.

    >>> [each.slot for each in slots_in("move {name} to {area}")]
    ['name', 'area']
    """
    slots = [
        TemplateSlot(match[1], match[2] or match[1])
        for match in _SLOT.finditer(sentence)
    ]
    arguments = [slot.argument for slot in slots]
    for argument in arguments:
        if arguments.count(argument) > 1:
            raise FormatError(
                f"{{{argument}}} is there twice; name one of them otherwise: {{slot:name}}"
            )
    return slots


def without_slots(sentence: str, marks: Sequence[str]) -> str:
    """An expanded template with a mark in the place of each value.

    >>> without_slots("move {name} to {area}", ["NT_1", "NT_2"])
    'move NT_1 to NT_2'
    """
    rest = iter(marks)
    marked = _SLOT.sub(lambda match: f" {next(rest)} ", sentence)
    return " ".join(marked.split())


def without_argument(tokens: Sequence[str], mark: str) -> list[str]:
    """The tokens of a program without the argument that holds `mark`, and without its comma.

    >>> " ".join(without_argument("f ( a = 1 , b = \\" X \\" )".split(), "X"))
    'f ( a = 1 )'
    """
    # A mark inside of quotes is as deep as the quotes before it.
    at, depths = tokens.index(mark), bracket_depths(tokens)
    level = next(depth for depth in reversed(depths[: at + 1]) if depth != IN_QUOTES)
    if level <= 0:
        raise FormatError(
            "a value may be left out of the sentence, but the program has no argument for it "
            "that could be left out"
        )
    start, end = at, at + 1
    while not _is_border(tokens[start - 1], depths[start - 1], level):
        start -= 1
    while not _is_border(tokens[end], depths[end], level):
        end += 1
    # One comma goes with the argument: that behind it, else that before it.
    if tokens[end] == ",":
        end += 1
    elif tokens[start - 1] == ",":
        start -= 1
    return [*tokens[:start], *tokens[end:]]


def _is_border(token: str, depth: int, level: int) -> bool:
    return (token == "," and depth == level) or 0 <= depth < level
