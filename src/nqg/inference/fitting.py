"""A parser in the making: everything from a grammar and examples to the weights that fit them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from nqg.data.example import Example
from nqg.forests.build import build_forests
from nqg.forests.forest import Forests
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.inference.parser import Parser, best_device
from nqg.model.checkpoint import SavedModel
from nqg.model.encoder import new_encoder
from nqg.model.objective import TrainingData
from nqg.model.scorer import Scorer
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.model.training import Training, TrainingStep


class Fitting:
    """A parser in the making: `steps` trains it, `under_way` is that training, `parser` is what there is so far."""

    def __init__(
        self,
        grammar: Grammar,
        examples: Sequence[Example],
        *,
        forests: Forests | None = None,
        target_grammar: TargetGrammar | None = None,
        model: ModelSettings = ModelSettings(),  # noqa: B008 (frozen)
        training: TrainingSettings = TrainingSettings(),  # noqa: B008 (frozen)
        device: str | None = None,
    ) -> None:
        examples = list(dict.fromkeys(examples))
        torch.manual_seed(training.seed)
        encoder, tokenizer = new_encoder(model, [example.source_tokens for example in examples])
        scorer = Scorer(encoder, len(grammar), model.dimension).to(device or best_device())
        self.training = training
        self.data = TrainingData.of(examples, forests or build_forests(grammar, examples), tokenizer)
        self.parser = Parser(SavedModel(grammar, scorer, tokenizer, model, target_grammar))
        self.data.check_lengths(self.parser.model.longest)
        rate = training.rate(model.encoder)
        self.under_way = Training(scorer, self.data, training, rate, tokenizer.pad_token_id)

    def steps(self) -> Iterator[TrainingStep]:
        """Train, one record a step."""
        return self.under_way.steps()
