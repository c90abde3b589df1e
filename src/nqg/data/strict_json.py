"""JSON without its loose ends: repeated keys, NaN and bottomless nesting are refused with their place."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from nqg.errors import FormatError, Place


def strict_json(text: str, start: Place) -> Any:
    """The value of a JSON text that begins at `start`; errors name the line of the file where it goes wrong.

    >>> from pathlib import Path
    >>> strict_json('{"source": "jump"}', Place(Path("train.jsonl"), 3))
    {'source': 'jump'}
    """
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError as error:
        raise FormatError(f"a string holds U+{ord(error.object[error.start]):04X}, which is no text", start) from error
    except json.JSONDecodeError as error:
        place = Place(start.path, start.line + error.lineno - 1)
        raise FormatError(f"not valid JSON: {error.msg} (column {error.colno})", place) from error
    except RecursionError as error:
        raise FormatError("the JSON value is nested too deeply", start) from error
    except FormatError as error:
        raise error.at(start) from error
    except ValueError as error:  # an integer of thousands of digits
        raise FormatError(f"not usable JSON: {error}", start) from error


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half of a character, unless the other half follows


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, each in pairs:
        if key in value:
            raise FormatError(f"the key '{key}' stands twice in one JSON object")
        value[key] = each
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise FormatError(f"{name} is no JSON value")


def json_kind(value: object) -> str:
    """What a JSON value is, in words for an error.

    >>> json_kind(["jump"]), json_kind(True), json_kind(None)
    ('a list', 'true', 'null')
    """
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    kinds = {str: "a string", int: "the number", float: "the number", list: "a list", dict: "an object"}
    kind = kinds[type(value)]
    return f"{kind} {value}" if kind == "the number" else kind
