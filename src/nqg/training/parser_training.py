"""Training of the parser: from a grammar and examples to the weights that fit them by maximum
marginal likelihood.

The forests of the examples are built or given, an encoder and a scorer are made, and each step
lowers the loss of a batch (`nqg.model.forest_crf`). How a model answers dev examples comes in from
a later stage, as `make_system`.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from nqg.answers import System, exact_match
from nqg.data.example import Example, distinct_pairs
from nqg.grammar.grammar import Grammar
from nqg.model.checkpoint import SavedModel
from nqg.model.encoder import new_encoder
from nqg.model.forest_crf import Batch, TrainingData, batch_loss
from nqg.model.forests import TrainingForests
from nqg.model.scorer import Scorer
from nqg.model.settings import EMBEDDED, ModelSettings, TrainingSettings
from nqg.model.subwords import tokenize
from nqg.model.tensors import best_device
from nqg.run_config import DataFingerprint, RunConfig, sha256
from nqg.slots.instantiate import SHAPES, encoder_tokens
from nqg.training.processes import Processes
from nqg.training.records import DevScores, TrainingStep
from nqg.training.resume import PARSER_SAVE_EVERY, resumed_steps
from nqg.training.trainer import LearningRate, Trainer, autocast
from nqg.types.target_grammar import TargetGrammar

# A bound of memory: dev examples whose loss is computed at once.
DEV_BATCH = 256
# Sentences that have a word of free text, from which on the encoder may rely on it. With fewer it
# may learn single values by heart; benchmarks/constants.py varies it.
MIN_WORD_COUNT = 3
DEFAULT_MODEL, DEFAULT_TRAINING = ModelSettings(), TrainingSettings()
MakeSystem = Callable[[SavedModel], System]
"""Makes a model answer sentences: `nqg.inference.parser.Parser`, which is a later stage."""


class ParserTraining:
    """A parser in the making: `steps` trains it, `model` is the parser so far.

    With `dev`, examples that are not learned from, the model ends with the weights that did best on
    them. Under `accelerate launch` every process makes the same ParserTraining, and all of them
    train it together. `forests` must be those of `distinct_pairs(examples)`.
    """

    def __init__(
        self,
        grammar: Grammar,
        examples: Sequence[Example],
        make_system: MakeSystem,
        *,
        dev: Sequence[Example] = (),
        forests: TrainingForests | None = None,
        target_grammar: TargetGrammar | None = None,
        model: ModelSettings = DEFAULT_MODEL,
        training: TrainingSettings = DEFAULT_TRAINING,
        device: str | None = None,
        processes: Processes | None = None,
    ) -> None:
        processes = processes or Processes.launched(device)
        config = RunConfig.of(
            "training",
            examples,
            model,
            training,
            dev_examples=DataFingerprint.of(dev).fingerprint,
            grammar=sha256(str(grammar)),
            target_grammar=sha256(str(target_grammar)),
            processes=processes.count,
        )
        examples = distinct_pairs(examples)
        grammar = grammar.typed_by(target_grammar if model.typed else None)
        if forests is None:
            forests = TrainingForests.of(grammar, examples)

        # The encoder's words, and a scorer with new weights.
        torch.manual_seed(training.seed)
        words, frequent, longest = encoder_words(grammar, examples)
        if model.encoder != EMBEDDED:
            frequent = None
        encoder, tokenizer = new_encoder(
            model, [words], neighbours=frequent is not None, longest=longest
        )
        scorer = Scorer(encoder, len(grammar), model.dimension)
        scorer.to(processes.device or device or best_device())
        self.scorer = scorer
        self.model = SavedModel(grammar, scorer, tokenizer, model, target_grammar)
        self.settings = training
        self.data = TrainingData.of(grammar, examples, forests, tokenizer, frequent)
        self.data.check_lengths(self.model.max_length)

        # The training. Its examples are numbered without those that the grammar does not derive.
        sources = [examples[number].source for number in forests.derivable.tolist()]
        rate = training.rate(model.encoder)
        warm_up = training.warm_up_steps(model.encoder)
        batch = max(training.batch(len(self.data)), 1)
        evaluate = None
        if dev:
            system = make_system(self.model)
            evaluate = DevSet.of(self.model, scorer, dev, system).scores
        self.trainer = Trainer(
            ForestObjective(scorer, self.data, training, processes),
            torch.optim.AdamW(
                scorer.parameters(), weight_decay=training.weight_decay, fused=True
            ),
            LearningRate(rate, training.steps, warm_up),
            config,
            epoch=math.ceil(len(self.data) / batch),
            sources=sources,
            evaluate=evaluate,
        )

    def steps(
        self, state: Path | None = None, save_every: int = PARSER_SAVE_EVERY
    ) -> Iterator[TrainingStep]:
        """Train, one record a step; with `state`, a file that lets a killed training continue where
        it was.
        """
        return resumed_steps(self.trainer, state, save_every)


def encoder_words(
    grammar: Grammar, examples: Sequence[Example]
) -> tuple[list[str], set[str] | None, int]:
    """The words that an encoder from scratch reads, those that it may rely on, and how many the
    longest sentence has.

    Without free text, the encoder may rely on all of them, and the second is None.
    """
    sentences = encoder_tokens(grammar, [example.source_tokens for example in examples])
    longest = max(map(len, sentences), default=0)
    # Count sentences, not occurrences: a word repeated in one sentence is still rare.
    counts = Counter[str]()
    for sentence in sentences:
        counts.update(set(sentence))
    if grammar.slots is None or not grammar.slots.free_text:
        return sorted(counts), None, longest
    # With free text, a rare word may be part of a value, unless a rule contains it.
    frequent = {word for word, count in counts.items() if count >= MIN_WORD_COUNT}
    return (
        sorted({*counts, *SHAPES}),
        frequent | (grammar.words & counts.keys()),
        longest,
    )


@dataclass(frozen=True, slots=True)
class Share:
    """This process's examples of a batch, if any, and their share of the whole batch."""

    batch: Batch | None
    weight: float


@dataclass(frozen=True)
class ForestObjective:
    """The mean negative log-likelihood of targets, summed over their derivations."""

    model: Scorer
    data: TrainingData
    settings: TrainingSettings
    processes: Processes

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def seed(self, step: int) -> str:
        rank = self.processes.rank
        return (
            f"{self.settings.seed} {step} {rank}"
            if rank
            else f"{self.settings.seed} {step}"
        )

    def batches(self) -> Iterator[Sequence[int]]:
        return batches(len(self.data), self.settings)

    def collate(self, batch: Sequence[int]) -> Share:
        share = self.processes.share(batch)
        if not share:
            return Share(None, 0.0)
        return Share(self.data.collate(share, self.device), len(share) / len(batch))

    def backward(self, share: Share) -> Tensor:
        if share.batch is None:
            return torch.zeros((), device=self.device)
        with autocast(self.settings.precision, self.device):
            loss = batch_loss(self.model, share.batch)
        # The loss of a step is a mean over its whole batch.
        weighted = loss * share.weight
        weighted.backward()  # type: ignore[no-untyped-call]
        return weighted.detach()

    def running(self) -> AbstractContextManager[None]:
        return nullcontext()


def batches(examples: int, settings: TrainingSettings) -> Iterator[list[int]]:
    """The examples of every step: each epoch in a new order, which depends on the seed alone."""
    rng, size = random.Random(settings.seed), settings.batch(examples)
    queue: list[int] = []
    for _ in range(settings.steps):
        while len(queue) < size:
            epoch = list(range(examples))
            rng.shuffle(epoch)
            queue += epoch
        yield queue[:size]
        del queue[:size]


@dataclass(frozen=True, slots=True)
class DevSet:
    """Examples that a parser does not learn from, and its scores on them.

    `data` are those with a loss, which the grammar derives and the encoder can read.
    """

    scorer: Scorer
    examples: Sequence[Example]
    system: System
    data: TrainingData | None

    @classmethod
    def of(
        cls,
        model: SavedModel,
        scorer: Scorer,
        examples: Sequence[Example],
        system: System,
    ) -> DevSet:
        grammar, tokenizer = model.grammar, model.tokenizer
        views = encoder_tokens(grammar, [example.source_tokens for example in examples])
        short = []
        for example, subwords in zip(examples, tokenize(tokenizer, views)):
            if len(subwords.ids) <= model.max_length:
                short.append(example)
        forests, data = TrainingForests.of(grammar, short), None
        if forests.derivable.size:
            data = TrainingData.of(grammar, short, forests, tokenizer)
        return cls(scorer, examples, system, data)

    @torch.no_grad()
    def scores(self) -> DevScores:
        """The scores of the model as it is, without dropout."""
        answers = self.system.answers(example.source for example in self.examples)
        right = 0
        for answer, example in zip(answers, self.examples):
            right += exact_match(answer.target, example.target)
        share = right / len(self.examples)
        if self.data is None:
            return DevScores(share)
        # The loss is a mean over examples, so a smaller last batch counts by its size.
        total = 0.0
        self.scorer.eval()
        for start in range(0, len(self.data), DEV_BATCH):
            batch = range(start, min(start + DEV_BATCH, len(self.data)))
            collated = self.data.collate(batch, self.scorer.device)
            loss = batch_loss(self.scorer, collated)
            total += len(batch) * float(loss)
        return DevScores(share, total / len(self.data))
