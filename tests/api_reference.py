"""The page docs/api.md, made from the docstrings of the public names and from the help of every command."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import nqg

HEAD = """# Reference

Every public name of `nqg`, from its docstrings. `make golden` writes this page anew. The command line is described by
`nqg --help` and `nqg VERB --help`.
"""


def api_reference() -> str:
    """The whole page."""
    names = [name for name in nqg.__all__ if not name.startswith("_")]
    return "\n".join(
        [HEAD, *(line for name in names for line in _entry(name, getattr(nqg, name)))]
    )


def _entry(name: str, thing: Any) -> Iterator[str]:
    yield f"## `{name}`\n"
    if not _is_error(thing):
        yield f"```text\n{_signature(name, thing)}\n```\n"
    yield f"{_doc(thing)}\n"
    if inspect.isclass(thing) and not _is_error(thing):
        yield from (f"- {line}" for line in _members(thing))
        yield ""


def _is_error(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, Exception)


def _signature(name: str, thing: Any) -> str:
    """A call as one would write it, one argument a line where it is long."""
    signature = inspect.signature(thing)
    arguments = list(_arguments(signature.parameters.values()))
    returns = "" if inspect.isclass(thing) else f" -> {signature.return_annotation}"
    whole = f"{name}({', '.join(arguments)}){returns}"
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return whole if len(whole) <= 100 else f"{name}(\n{lines}){returns}"


def _arguments(parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    """Each parameter with its type and default; a star where those by name begin."""
    by_name = False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not by_name:
            by_name = True
            yield "*"
        yield f"{each.name}: {each.annotation}{_default(each.default)}"


def _default(value: Any) -> str:
    """How a signature shows a default; one that has no value to show is an ellipsis."""
    if value is inspect.Parameter.empty:
        return ""
    name = getattr(value, "__name__", None)
    return f" = {name or ('…' if 'factory' in repr(value) else repr(value))}"


def _doc(thing: Any) -> str:
    """A docstring, its examples fenced."""
    paragraphs = (inspect.getdoc(thing) or "").split("\n\n")
    return "\n\n".join(
        f"```text\n{each}\n```" if each.startswith(">>>") else each
        for each in paragraphs
    )


def _members(thing: type) -> Iterator[str]:
    members: dict[str, Any] = {}
    for kind in reversed(thing.__mro__):
        if kind.__module__.startswith("nqg."):
            members |= vars(kind)
    for name, member in members.items():
        if name.startswith("_"):
            continue
        plain = getattr(member, "__func__", member)
        if isinstance(plain, property) or inspect.isfunction(plain):
            first = (inspect.getdoc(plain) or "").split("\n\n")[0].replace("\n", " ")
            call = "" if isinstance(plain, property) else "(…)"
            yield f"`{name}{call}`: {first}"
