"""How the core reaches what stands on it: `nqg.paper`, `nqg.web` and `nqg.sql`, by name.

No module of the core imports one of them (`tests/test_architecture.py`). Where the core offers
something that lives there (a command, a language of programs, a metric), a table names it as
`module:attribute`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nqg.errors import MissingExtra

EXTRAS = ("paper", "web", "sql")


def load_extension(name: str) -> Any:
    """The object that `module:attribute` names; if its extra is not installed, an error says so.

    >>> load_extension("nqg.errors:NqgError").__name__
    'NqgError'
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        extra = module.split(".")[1]
        if error.name is None or error.name.startswith("nqg") or extra not in EXTRAS:
            raise
        raise MissingExtra(f"'{name}'", extra) from error


def notebook_html(shown: object) -> str:
    """An answer, a derivation or a grammar as a cell of a notebook shows it."""
    return str(load_extension("nqg.web.render:notebook_html")(shown))
