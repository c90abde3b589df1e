"""JSON with line breaks and indentation, for people; nothing but white space changes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

INDENTATION = "  "
LAYOUT_WIDTH = 60  # characters of an object or a list that stays on one line
_JSON_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_CLOSING_OF = {"{": "}", "[": "]"}


@dataclass
class _Bracket:
    """An object or a list, whose items are texts or brackets in their turn."""

    opening: str
    items: list[list[str | _Bracket]] = field(default_factory=lambda: [[]])

    def flat(self) -> str:
        items = []
        for item in self.items:
            item_text = ""
            for value in item:
                item_text += value if isinstance(value, str) else value.flat()
            items.append(item_text)
        return f"{self.opening}{', '.join(items)}{_CLOSING_OF[self.opening]}"

    def lines(self, depth: int) -> str:
        """The text at a depth, on one line if that is short enough."""
        flat = self.flat()
        if len(flat) <= LAYOUT_WIDTH:
            return flat
        inner, outer = INDENTATION * (depth + 1), INDENTATION * depth
        items = []
        for item in self.items:
            item_text = inner
            for value in item:
                item_text += value if isinstance(value, str) else value.lines(depth + 1)
            items.append(item_text)
        body = ",\n".join(items)
        return f"{self.opening}\n{body}\n{outer}{_CLOSING_OF[self.opening]}"


def indented(program: str) -> str:
    """A program in JSON over several lines, if it is long; any other program as it is.

    >>> call = '{"name": "get_weather", "arguments": {"city": "Oslo", "day": "tomorrow"}}'
    >>> print(indented(call))
    {
      "name": "get_weather",
      "arguments": {"city": "Oslo", "day": "tomorrow"}
    }
    >>> indented("dim(lamp, 20)")
    'dim(lamp, 20)'
    """
    # Programs may be nested as deeply as they like; the deepest stay on one line.
    try:
        if isinstance(json.loads(program), dict | list):
            return _outermost(program).lines(0)
    except (ValueError, RecursionError):
        pass
    return program


def _outermost(program: str) -> _Bracket:
    """The object or the list that a program is."""
    whole = _Bracket("[")
    opened = [whole]
    for token in _JSON_TOKEN.findall(program):
        if token in _CLOSING_OF:
            bracket = _Bracket(token)
            opened[-1].items[-1].append(bracket)
            opened.append(bracket)
        elif token in _CLOSING_OF.values():
            opened.pop()
        elif token == ",":
            opened[-1].items.append([])
        else:
            opened[-1].items[-1].append(": " if token == ":" else token)
    (outermost,) = whole.items[0]
    assert isinstance(outermost, _Bracket), "the program is an object or a list"
    return outermost
