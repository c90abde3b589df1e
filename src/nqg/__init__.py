"""Learns to turn sentences into programs from pairs of strings, and stays right on unseen combinations.

This module is the one public door. Names load on first use, so that `import nqg` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nqg.data.catalogue import load_dataset as load_dataset
    from nqg.data.dataset import Dataset as Dataset
    from nqg.data.example import Example as Example
    from nqg.data.example_files import read_examples as read_examples
    from nqg.data.example_files import write_examples as write_examples
    from nqg.data.split import Split as Split
    from nqg.data.split_files import read_split as read_split
    from nqg.data.split_files import write_split as write_split
    from nqg.errors import NqgError as NqgError
    from nqg.grammar.derivation import Derivation as Derivation
    from nqg.grammar.grammar import Grammar as Grammar
    from nqg.grammar.rule import Rule as Rule
    from nqg.induction.induce import Induction as Induction
    from nqg.induction.induce import induce as induce
    from nqg.induction.settings import InductionSettings as InductionSettings
    from nqg.inference.parser import Parse as Parse
    from nqg.inference.parser import Parser as Parser

__version__ = "0.1.0"

_HOMES = {
    "Dataset": "nqg.data.dataset",
    "Derivation": "nqg.grammar.derivation",
    "Example": "nqg.data.example",
    "Grammar": "nqg.grammar.grammar",
    "Induction": "nqg.induction.induce",
    "InductionSettings": "nqg.induction.settings",
    "NqgError": "nqg.errors",
    "Parse": "nqg.inference.parser",
    "Parser": "nqg.inference.parser",
    "Rule": "nqg.grammar.rule",
    "Split": "nqg.data.split",
    "induce": "nqg.induction.induce",
    "load_dataset": "nqg.data.catalogue",
    "read_examples": "nqg.data.example_files",
    "read_split": "nqg.data.split_files",
    "write_examples": "nqg.data.example_files",
    "write_split": "nqg.data.split_files",
}
__all__ = [
    "Dataset",
    "Derivation",
    "Example",
    "Grammar",
    "Induction",
    "InductionSettings",
    "NqgError",
    "Parse",
    "Parser",
    "Rule",
    "Split",
    "__version__",
    "induce",
    "load_dataset",
    "read_examples",
    "read_split",
    "write_examples",
    "write_split",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nqg' has no name '{name}'; it offers {', '.join(sorted(_HOMES))}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
