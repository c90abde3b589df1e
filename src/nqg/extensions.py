"""How the core reaches what stands on it, by name: `nqg.paper`, `nqg.web`, `nqg.sql`, and whatever
of the core needs packages that the base install does not have.

No module of the core imports one of the three (`tests/test_architecture.py`). Where the core offers
something that lives there (a command, a language of programs, a metric), a table names it as
`module:attribute`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nqg.errors import MissingExtra

# The folders that stand on the core; each has an extra of its name.
FOLDERS = ("paper", "sql", "web")
# The packages that an install may lack, with the extra that brings them.
EXTRA_OF_PACKAGE = {
    "accelerate": "train",
    "huggingface_hub": "train",
    "numba": "train",
    "torch": "train",
    "transformers": "train",
    "ctranslate2": "fast",
    "matplotlib": "paper",
    "pooch": "paper",
    "sqlalchemy": "sql",
    "sqlglot": "sql",
    "fastapi": "web",
    "h11": "web",
    "httpx": "web",
    "pydantic": "web",
    "starlette": "web",
    "uvicorn": "web",
}


def missing_extra(error: ModuleNotFoundError, feature: str) -> MissingExtra | None:
    """The error that names the extra which a feature needs; None where a package is of no extra.

    >>> print(missing_extra(ModuleNotFoundError(name="torch.nn"), "nqg train"))
    nqg train needs the extra 'train': in a checkout of nqg, pip install -c constraints.txt '.[train]'
    """
    package = (error.name or "").partition(".")[0]
    if package not in EXTRA_OF_PACKAGE:
        return None
    return MissingExtra(feature, EXTRA_OF_PACKAGE[package])


def load_extension(name: str, feature: str = "") -> Any:
    """The object that `module:attribute` names; if its extra is not installed, an error says so.

    The error names the `feature`, without one the object.

    >>> load_extension("nqg.errors:NqgError").__name__
    'NqgError'
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        missing = missing_extra(error, feature or f"'{name}'")
        if missing is None:
            raise
        # What stands on the core has an extra of its own, which brings all that it needs.
        folder = module.split(".")[1:2]
        if folder and folder[0] in FOLDERS:
            missing = MissingExtra(feature or f"'{name}'", folder[0])
        raise missing from error


def notebook_html(shown: object) -> str:
    """An answer, a derivation or a grammar as a cell of a notebook shows it."""
    return str(load_extension("nqg.web.render:notebook_html")(shown))
