"""Learns to turn sentences into programs from pairs of strings, and stays right on unseen combinations.

This module is the one public door. Names load on first use, so that `import nqg` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nqg.data.example import Example as Example
    from nqg.errors import NqgError as NqgError

__version__ = "0.1.0"

_HOMES = {
    "Example": "nqg.data.example",
    "NqgError": "nqg.errors",
}
__all__ = ["Example", "NqgError", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nqg' has no name '{name}'; it offers {', '.join(sorted(_HOMES))}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
