"""Learns to turn sentences into programs from pairs of strings, and stays right on unseen combinations.

This module is the one public door. Names load on first use, so that `import nqg` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

__version__ = "0.1.0"

_HOMES = {
    "Answer": "nqg.answers",
    "Dataset": "nqg.data.dataset",
    "Derivation": "nqg.grammar.derivation",
    "Example": "nqg.data.examples",
    "FineTuningSettings": "nqg.seq2seq.settings",
    "Gate": "nqg.inference.hybrid",
    "Grammar": "nqg.grammar.grammar",
    "Hybrid": "nqg.inference.hybrid",
    "Induction": "nqg.induction.induce",
    "InductionSettings": "nqg.induction.settings",
    "ModelSettings": "nqg.model.settings",
    "NqgError": "nqg.errors",
    "Parser": "nqg.inference.parser",
    "Rule": "nqg.grammar.grammar",
    "Scores": "nqg.evaluation.metrics",
    "Seq2seq": "nqg.seq2seq.seq2seq",
    "Seq2seqSettings": "nqg.seq2seq.settings",
    "Split": "nqg.data.dataset",
    "System": "nqg.answers",
    "TargetGrammar": "nqg.grammar.target_grammar",
    "TrainingSettings": "nqg.model.settings",
    "exact_match": "nqg.answers",
    "induce": "nqg.induction.induce",
    "load_dataset": "nqg.data.catalogue",
    "read_examples": "nqg.data.examples",
    "read_split": "nqg.data.dataset",
    "score": "nqg.evaluation.metrics",
    "write_examples": "nqg.data.examples",
    "write_split": "nqg.data.dataset",
}
__all__ = [
    "Answer",
    "Dataset",
    "Derivation",
    "Example",
    "FineTuningSettings",
    "Gate",
    "Grammar",
    "Hybrid",
    "Induction",
    "InductionSettings",
    "ModelSettings",
    "NqgError",
    "Parser",
    "Rule",
    "Scores",
    "Seq2seq",
    "Seq2seqSettings",
    "Split",
    "System",
    "TargetGrammar",
    "TrainingSettings",
    "__version__",
    "exact_match",
    "induce",
    "load_dataset",
    "read_examples",
    "read_split",
    "score",
    "write_examples",
    "write_split",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nqg' has no name '{name}'; it offers {', '.join(sorted(_HOMES))}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
