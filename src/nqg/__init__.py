"""Learns to turn sentences into programs from pairs of strings, and stays right on unseen combinations.

This module is the one public door. Names load on first use, so that `import nqg` costs nothing: the imports below, read
by type checkers as they are, only note in which module a name is found.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any

__version__ = "0.1.0"
_MODULES: dict[str, str] = {}  # of each public name


@contextmanager
def _noted_imports() -> Iterator[None]:
    """Within the block, an import by this file notes the module of each name in `_MODULES` instead of loading it."""
    load = builtins.__import__

    def note(module: str, scope: Any = None, local: Any = None, names: Any = (), level: int = 0) -> Any:
        if scope is not globals():  # another thread imports something else meanwhile
            return load(module, scope, local, names or (), level)
        _MODULES.update(dict.fromkeys(names or (), module))
        return SimpleNamespace(**dict.fromkeys(names or ()))

    builtins.__import__ = note  # type: ignore[assignment]  # its arguments come by position
    try:
        yield
    finally:
        builtins.__import__ = load
        for name in _MODULES:
            globals().pop(name, None)  # so that `__getattr__` is asked


with _noted_imports():
    from nqg.answers import Answer as Answer
    from nqg.answers import System as System
    from nqg.answers import exact_match as exact_match
    from nqg.data.catalogue import load_dataset as load_dataset
    from nqg.data.dataset import Dataset as Dataset
    from nqg.data.dataset import Split as Split
    from nqg.data.dataset import read_split as read_split
    from nqg.data.dataset import write_split as write_split
    from nqg.data.examples import Example as Example
    from nqg.data.examples import read_examples as read_examples
    from nqg.data.examples import write_examples as write_examples
    from nqg.errors import NqgError as NqgError
    from nqg.evaluation.metrics import Scores as Scores
    from nqg.evaluation.metrics import score as score
    from nqg.grammar.derivation import Derivation as Derivation
    from nqg.grammar.grammar import Grammar as Grammar
    from nqg.grammar.grammar import Rule as Rule
    from nqg.grammar.target_grammar import TargetGrammar as TargetGrammar
    from nqg.induction.induce import Induction as Induction
    from nqg.induction.induce import induce as induce
    from nqg.induction.settings import InductionSettings as InductionSettings
    from nqg.inference.hybrid import Gate as Gate
    from nqg.inference.hybrid import Hybrid as Hybrid
    from nqg.inference.parser import Parser as Parser
    from nqg.model.settings import ModelSettings as ModelSettings
    from nqg.model.settings import TrainingSettings as TrainingSettings
    from nqg.seq2seq.seq2seq import Seq2seq as Seq2seq
    from nqg.seq2seq.settings import FineTuningSettings as FineTuningSettings
    from nqg.seq2seq.settings import Seq2seqSettings as Seq2seqSettings
    from nqg.splits.audit import Audit as Audit
    from nqg.splits.audit import audit as audit
    from nqg.splits.split import split as split
    from nqg.splits.tmcd import TmcdSettings as TmcdSettings

__all__ = sorted([*_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'nqg' has no name '{name}'; it offers {', '.join(sorted(_MODULES))}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
