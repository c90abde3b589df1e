"""The page docs/api.md, made from the docstrings of the public names."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import nqg

HEAD = """# Python reference

Every public name of `nqg`, with its signature, a description and an example. [From Python](python.md) is the tutorial,
and `nqg --help` describes the command line. `make golden` writes this page from the docstrings.
"""
# What a reader looks for, and the names under it.
GROUPS = {
    "Train and load": (
        *("train", "load", "TrainSettings"),
        *("TrainReport", "NextStep", "Notice", "StageStarted", "WorkDone"),
    ),
    "Parse": ("Parser", "Hybrid", "Answer", "Call", "read_calls", "System"),
    "Examples": ("Example", "read_examples", "write_examples", "Dataset"),
    "Measure": ("score", "Scores", "exact_match"),
    "Splits": (
        *("split", "Split", "read_split", "write_split"),
        *("audit", "Audit", "TmcdSettings"),
    ),
    "Grammars": ("induce", "Induction", "Grammar", "Rule", "Derivation"),
    "Types": ("training_types", "infer_target_grammar", "TargetGrammar"),
    "Settings": (
        *("TextSettings", "TypeSettings", "InductionSettings", "ModelSettings"),
        *("TrainingSettings", "Seq2seqSettings", "FineTuningSettings"),
        "ConfidenceSettings",
    ),
    "Text, second readers and errors": (
        *("Preprocessor", "fit_text", "tokenized", "Seq2seq", "NqgError"),
    ),
}
REMARKS = {"Settings": "[Settings](settings.md) explains each key."}
LONGEST_DEFAULT = 30
# Columns of a block on the site.
WIDEST = 80


def api_reference() -> str:
    """The whole page."""
    lines = [HEAD]
    for group, names in GROUPS.items():
        lines.append(f"## {group}\n")
        if group in REMARKS:
            lines.append(f"{REMARKS[group]}\n")
        for name in names:
            lines += _entry(name, getattr(nqg, name))
    return "\n".join(lines)


def _entry(name: str, thing: Any) -> Iterator[str]:
    yield f"### `{name}`\n"
    if not _is_error(thing) and not _is_protocol(thing):
        yield f"```text\n{_signature(name, thing)}\n```\n"
    yield f"{_doc(thing)}\n"
    if inspect.isclass(thing) and not _is_error(thing):
        yield from (f"- {line}" for line in _members(thing))
        yield ""


def _is_protocol(thing: Any) -> bool:
    """Whether it says what others have to offer, and cannot be made."""
    return bool(getattr(thing, "_is_protocol", False))


def _is_error(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, Exception)


def _signature(name: str, thing: Any) -> str:
    """A call as one would write it, one argument a line where it is long."""
    signature = inspect.signature(thing)
    arguments = list(_arguments(signature.parameters.values()))
    returns = "" if inspect.isclass(thing) else f" -> {signature.return_annotation}"
    whole = f"{name}({', '.join(arguments)}){returns}"
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return whole if len(whole) <= WIDEST else f"{name}(\n{lines}){returns}"


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
    shown = repr(str(value)) if isinstance(value, Enum) else repr(value)
    return f" = {'…' if _is_long(shown) else shown}"


def _is_long(shown: str) -> bool:
    return "factory" in shown or shown.startswith("<") or len(shown) > LONGEST_DEFAULT


def _doc(thing: Any) -> str:
    """A docstring, its examples fenced."""
    paragraphs = (inspect.getdoc(thing) or "").split("\n\n")
    return "\n\n".join(
        f"```pycon\n{each}\n```" if each.startswith(">>>") else each
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
            call = "" if isinstance(plain, property) else _call(plain)
            yield f"`{name}{call}`: {first}"


def _call(function: Any) -> str:
    """The arguments of a method, by name alone where they must be given, else with their defaults."""
    shown: list[str] = []
    for each in inspect.signature(function).parameters.values():
        if each.name not in ("self", "cls"):
            if each.kind is each.KEYWORD_ONLY and "*" not in shown:
                shown.append("*")
            default = _default(each.default).replace(" = ", "=")
            shown.append(f"{each.name}{default}")
    return f"({', '.join(shown)})"
