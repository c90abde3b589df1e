"""The public door: every name that `nqg` offers, and where it lives."""

from .answers import Answer as Answer
from .answers import System as System
from .answers import exact_match as exact_match
from .data.catalogue import load_dataset as load_dataset
from .data.dataset import Dataset as Dataset
from .data.dataset import Split as Split
from .data.dataset import read_split as read_split
from .data.dataset import write_split as write_split
from .data.examples import Example as Example
from .data.examples import fit_text as fit_text
from .data.examples import read_examples as read_examples
from .data.examples import tokenized as tokenized
from .data.examples import write_examples as write_examples
from .errors import NqgError as NqgError
from .evaluation.metrics import Scores as Scores
from .evaluation.metrics import score as score
from .grammar.derivation import Derivation as Derivation
from .grammar.grammar import Grammar as Grammar
from .grammar.grammar import Rule as Rule
from .grammar.target_grammar import TargetGrammar as TargetGrammar
from .grammar.type_inference import infer_target_grammar as infer_target_grammar
from .induction.induce import Induction as Induction
from .induction.induce import induce as induce
from .induction.settings import InductionSettings as InductionSettings
from .inference.hybrid import Gate as Gate
from .inference.hybrid import Hybrid as Hybrid
from .inference.parser import Parser as Parser
from .model.settings import ModelSettings as ModelSettings
from .model.settings import TrainingSettings as TrainingSettings
from .seq2seq.seq2seq import Seq2seq as Seq2seq
from .seq2seq.settings import FineTuningSettings as FineTuningSettings
from .seq2seq.settings import Seq2seqSettings as Seq2seqSettings
from .splits.audit import Audit as Audit
from .splits.audit import audit as audit
from .splits.split import split as split
from .splits.tmcd import TmcdSettings as TmcdSettings
from .text.preprocessing import Preprocessor as Preprocessor
from .text.preprocessing import TextSettings as TextSettings

__all__: list[str]
__version__: str
