"""The public door: every name that `nqg` offers, and where it lives."""

from .answers import Answer as Answer
from .answers import System as System
from .answers import exact_match as exact_match
from .calls import Call as Call
from .calls import read_calls as read_calls
from .data.dataset import Dataset as Dataset
from .data.dataset import Split as Split
from .data.dataset import read_split as read_split
from .data.dataset import write_split as write_split
from .data.example import Example as Example
from .data.example_files import read_examples as read_examples
from .data.example_files import write_examples as write_examples
from .errors import NqgError as NqgError
from .evaluation.metrics import Scores as Scores
from .evaluation.metrics import score as score
from .grammar.derivation import Derivation as Derivation
from .grammar.grammar import Grammar as Grammar
from .grammar.grammar import Rule as Rule
from .induction.induce import Induction as Induction
from .induction.induce import induce as induce
from .induction.settings import InductionSettings as InductionSettings
from .inference.hybrid import Hybrid as Hybrid
from .inference.hybrid import load as load
from .inference.parser import Parser as Parser
from .model.settings import ModelSettings as ModelSettings
from .model.settings import TrainingSettings as TrainingSettings
from .pipeline.advice import NextStep as NextStep
from .pipeline.events import Notice as Notice
from .pipeline.events import StageStarted as StageStarted
from .pipeline.events import TrainReport as TrainReport
from .pipeline.events import WorkDone as WorkDone
from .pipeline.program_types import training_types as training_types
from .pipeline.settings import ConfidenceSettings as ConfidenceSettings
from .pipeline.settings import TrainSettings as TrainSettings
from .pipeline.settings import TypeSettings as TypeSettings
from .pipeline.train import train as train
from .preprocessing.preprocessor import Preprocessor as Preprocessor
from .preprocessing.preprocessor import TextSettings as TextSettings
from .preprocessing.training_text import fit_text as fit_text
from .preprocessing.training_text import tokenized as tokenized
from .seq2seq.seq2seq import Seq2seq as Seq2seq
from .seq2seq.settings import FineTuningSettings as FineTuningSettings
from .seq2seq.settings import Seq2seqSettings as Seq2seqSettings
from .splits.audit import Audit as Audit
from .splits.audit import audit as audit
from .splits.partition import split as split
from .splits.tmcd import TmcdSettings as TmcdSettings
from .types.inference import infer_target_grammar as infer_target_grammar
from .types.target_grammar import TargetGrammar as TargetGrammar

__all__: list[str]
__version__: str
