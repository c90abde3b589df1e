"""The page docs/settings.md, made from the dataclasses of `nqg.TrainSettings` and their comments."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_args, get_type_hints

from nqg.pipeline.settings import TrainSettings

HEAD = """# Settings file

A settings file is TOML with a table for each stage. Give it to `nqg train` or `nqg induce`
with `--settings`, and to Python as `nqg.train(…, settings="nqg.toml")`. Whatever is left
out has its default. `--set TABLE.KEY=VALUE` overrides the file, and `-v` prints the settings in effect.
Unknown keys are refused by name.

```toml
[text]
casing = "keep"

[slots]
song = { gazetteer = "songs.tsv" }

[training]
steps = 60

[confidence]
least_precision = 0.9
```

Without a table `[induction]`, trial searches choose its values ([induction](induction.md)).
Without `[seq2seq]` there is no second reader, and `[fine_tuning]` and `[augmentation]` have no effect.
`make golden` writes this page from the code. The table `[slots]` has a page of its own: [slots](slots.md).
"""
# Tables of which the page says nothing: a slot is declared by name, and a path is no setting.
LEFT_OUT = ("slots", "file")


def settings_reference() -> str:
    """The whole page."""
    parts = [HEAD]
    hints = get_type_hints(TrainSettings)
    for table in fields(TrainSettings):
        if table.name not in LEFT_OUT:
            parts += _table(table.name, _settings_class(hints[table.name]))
    return "\n".join(parts)


def _settings_class(hint: Any) -> Any:
    """The dataclass of a table, which may be None."""
    return next(option for option in (*get_args(hint), hint) if is_dataclass(option))


def _table(name: str, settings: Any) -> Iterator[str]:
    """A table of keys, and those of the tables in it."""
    yield f"## `[{name}]`\n"
    paragraphs = (inspect.getdoc(settings) or "").split("\n\n")
    prose = [paragraph for paragraph in paragraphs if not paragraph.startswith(">>>")]
    yield "\n\n".join(prose) + "\n"
    yield "| key | type | default | remark |\n|---|---|---|---|"
    hints, comments = get_type_hints(settings), _comments(settings)
    inner = []
    for key in fields(settings):
        options = [*get_args(hints[key.name]), hints[key.name]]
        if any(is_dataclass(option) for option in options):
            inner.append((f"{name}.{key.name}", _settings_class(hints[key.name])))
            continue
        remark = comments.get(key.name, "")
        yield f"| `{key.name}` | {_type(hints[key.name])} | {_default(key)} | {remark} |"
    yield ""
    for path, nested in inner:
        yield from _table(path, nested)


def _type(hint: Any) -> str:
    """How a file writes values of a type: choices are listed."""
    options = get_args(hint)
    if options and all(isinstance(option, str) for option in options):
        return ", ".join(f"`{option}`" for option in options)
    names = {
        "str": "string",
        "int": "integer",
        "float": "number",
        "bool": "true or false",
    }
    found = [option for option in (options or (hint,)) if option is not type(None)]
    if hasattr(found[0], "__members__"):
        return ", ".join(f"`{member}`" for member in found[0])
    return " or ".join(
        names.get(getattr(option, "__name__", ""), str(option)) for option in found
    )


def _default(key: Field[Any]) -> str:
    value = key.default if key.default is not MISSING else "…"
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{value}`" if isinstance(value, str) else f"{value:g}"


def _comments(settings: Any) -> dict[str, str]:
    """The comment of each field: behind it, within it, or on the lines before it."""
    lines = textwrap.dedent(inspect.getsource(settings)).splitlines()
    body = ast.parse("\n".join(lines)).body[0]
    assert isinstance(body, ast.ClassDef)
    found, end = {}, 0
    for statement in body.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(
            statement.target, ast.Name
        ):
            first, last = statement.lineno - 1, statement.end_lineno or 0
            before = lines[end:first]
            own = [line.strip() for line in before if line.strip().startswith("#")]
            behind = [
                line[line.index("  # ") + 2 :]
                for line in lines[first:last]
                if "  # " in line
            ]
            text = " ".join(line.lstrip("# ") for line in [*own, *behind])
            found[statement.target.id] = re.sub(r"\s+", " ", text).replace("|", "\\|")
        end = statement.end_lineno or 0
    return found
