"""A parser in the making: everything from a grammar and examples to the weights that fit them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from nqg.answers import exact_match
from nqg.data.examples import Example, MappedExamples, distinct_pairs
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.inference.parser import Parser, best_device
from nqg.model.checkpoint import SavedModel
from nqg.model.encoder import new_encoder
from nqg.model.forest_crf import StreamedData, TrainingData, batch_loss
from nqg.model.forest_storage import ForestFolder
from nqg.model.forests import Forests, build_forests
from nqg.model.scorer import Scorer
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.model.subwords import tokenize
from nqg.training.processes import Processes
from nqg.training.records import DevScores, TrainingStep
from nqg.training.resume import TrainingOrigin
from nqg.training.trainer import Learnable, Training


class Fitting:
    """A parser in the making: `steps` trains it, `under_way` is that training, `parser` is what there is so far.

    With `dev`, examples that are not learned from, the parser ends with the weights that did best on them. Under
    `accelerate launch` every process makes the same Fitting, and all of them train it together. With `forests` in a
    folder, which must be those of `distinct(examples)`, a process reads what it needs of them batch by batch.
    """

    def __init__(
        self,
        grammar: Grammar,
        examples: Sequence[Example],
        *,
        dev: Sequence[Example] = (),
        forests: Forests | ForestFolder | None = None,
        target_grammar: TargetGrammar | None = None,
        model: ModelSettings = ModelSettings(),  # noqa: B008 (frozen)
        training: TrainingSettings = TrainingSettings(),  # noqa: B008 (frozen)
        device: str | None = None,
        processes: Processes | None = None,
    ) -> None:
        processes = Processes.launched(device) if processes is None else processes
        self.origin = TrainingOrigin.of(
            grammar, examples, model, training, dev=dev, target_grammar=target_grammar, processes=processes.count
        )
        examples = distinct(examples)
        forests = build_forests(grammar, examples) if forests is None else forests
        torch.manual_seed(training.seed)
        words = {token for example in examples for token in example.source_tokens}
        encoder, tokenizer = new_encoder(model, [sorted(words)])
        scorer = Scorer(encoder, len(grammar), model.dimension).to(processes.device or device or best_device())
        self.training = training
        self.parser = Parser(SavedModel(grammar, scorer, tokenizer, model, target_grammar))
        self.data = _data(examples, forests, self.parser.model)
        self.under_way = Training(
            scorer,
            self.data,
            training,
            training.rate(model.encoder),
            sources=() if isinstance(forests, ForestFolder) else _learned_sources(examples, forests),
            evaluate=DevSet.of(self.parser, dev, training.batch_size).scores if dev else None,
            processes=processes,
        )

    def steps(self) -> Iterator[TrainingStep]:
        """Train, one record a step."""
        return self.under_way.steps()


def distinct(examples: Sequence[Example]) -> Sequence[Example]:
    """What is learned from: each pair once, but those on disk as they are."""
    return examples if isinstance(examples, MappedExamples) else distinct_pairs(examples)


def _data(examples: Sequence[Example], forests: Forests | ForestFolder, model: SavedModel) -> Learnable:
    if isinstance(forests, ForestFolder):
        return StreamedData.of(examples, forests, model.tokenizer, model.max_length)
    data = TrainingData.of(examples, forests, model.tokenizer)
    data.check_lengths(model.max_length)
    return data


def _learned_sources(examples: Sequence[Example], forests: Forests) -> list[str]:
    underivable = set(forests.underivable())
    return [example.source for number, example in enumerate(examples) if number not in underivable]


@dataclass(frozen=True, slots=True)
class DevSet:
    """Examples that a parser does not learn from, and how it does on them."""

    parser: Parser
    examples: Sequence[Example]
    data: TrainingData | None  # of those with a loss, which the grammar derives and the encoder can read
    batch_size: int

    @classmethod
    def of(cls, parser: Parser, examples: Sequence[Example], batch_size: int) -> DevSet:
        """Everything that trials on `examples` need."""
        model = parser.model
        lengths = [len(each.ids) for each in tokenize(model.tokenizer, [example.source_tokens for example in examples])]
        short = [example for example, length in zip(examples, lengths, strict=True) if length <= model.max_length]
        forests = build_forests(parser.grammar, short)
        has_loss = len(forests.underivable()) < len(short)
        data = TrainingData.of(short, forests, model.tokenizer) if has_loss else None
        return cls(parser, examples, data, batch_size)

    def scores(self) -> DevScores:
        """The scores of the parser as it is."""
        answers = self.parser.answers(example.source for example in self.examples)
        pairs = zip(answers, self.examples, strict=True)
        right = sum(exact_match(answer.target, example.target) for answer, example in pairs)
        return DevScores(right / len(self.examples), self._loss(self.data) if self.data else None)

    @torch.no_grad()
    def _loss(self, data: TrainingData) -> float:
        """The mean loss, without dropout."""
        model, total = self.parser.model, 0.0
        model.scorer.eval()
        for start in range(0, len(data), self.batch_size):
            batch = range(start, min(start + self.batch_size, len(data)))
            loss = batch_loss(model.scorer, data.collate(batch, model.device))
            total += len(batch) * float(loss)
        return total / len(data)
