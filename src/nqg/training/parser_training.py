"""Training of the parser: from a grammar and examples to the weights that fit them by maximum marginal likelihood.

The forests of the examples are built, or come from a cache; an encoder and a scorer are made; each step lowers the loss
of a batch (`nqg.model.forest_crf`). How a model answers dev examples comes in from a later stage, as `make_system`.
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
from nqg.model.forests import Forests, build_forests
from nqg.model.scorer import Scorer
from nqg.model.settings import EMBEDDED, ModelSettings, TrainingSettings
from nqg.model.subwords import tokenize
from nqg.run_config import DataFingerprint, RunConfig, sha256
from nqg.slots.instantiate import SHAPES, encoder_tokens
from nqg.training.processes import Processes, best_device
from nqg.training.records import DevScores, TrainingStep
from nqg.training.resume import PARSER_SAVE_EVERY, resumed_steps
from nqg.training.trainer import LearningRate, Trainer, autocast
from nqg.types.target_grammar import TargetGrammar

DEV_BATCH = 256  # examples whose loss is computed at once
MIN_WORD_COUNT = (
    3  # sentences that have a word of free text, from which on the encoder may rely on it
)
MakeSystem = Callable[[SavedModel], System]
"""Makes a model answer sentences: `nqg.inference.parser.Parser`, which is a later stage."""


class ParserTraining:
    """A parser in the making: `steps` trains it, `model` is what there is so far.

    With `dev`, examples that are not learned from, the model ends with the weights that did best on them. Under
    `accelerate launch` every process makes the same ParserTraining, and all of them train it together. `forests`
    must be those of `distinct_pairs(examples)`.
    """

    def __init__(
        self,
        grammar: Grammar,
        examples: Sequence[Example],
        make_system: MakeSystem,
        *,
        dev: Sequence[Example] = (),
        forests: Forests | None = None,
        target_grammar: TargetGrammar | None = None,
        model: ModelSettings = ModelSettings(),  # noqa: B008 (frozen)
        training: TrainingSettings = TrainingSettings(),  # noqa: B008 (frozen)
        device: str | None = None,
        processes: Processes | None = None,
    ) -> None:
        processes = Processes.launched(device) if processes is None else processes
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
        examples, grammar = (
            distinct_pairs(examples),
            grammar.typed_by(target_grammar if model.typed else None),
        )
        forests = build_forests(grammar, examples) if forests is None else forests
        torch.manual_seed(training.seed)
        words, frequent, most = encoder_words(grammar, examples)
        frequent = frequent if model.encoder == EMBEDDED else None
        encoder, tokenizer = new_encoder(
            model, [words], neighbours=frequent is not None, longest=most
        )
        scorer = Scorer(encoder, len(grammar), model.dimension).to(
            processes.device or device or best_device()
        )
        self.model, self.settings = (
            SavedModel(grammar, scorer, tokenizer, model, target_grammar),
            training,
        )
        self.data = TrainingData.of(grammar, examples, forests, tokenizer, frequent)
        self.data.check_lengths(self.model.max_length)
        underivable = set(forests.underivable())
        sources = [
            example.source for number, example in enumerate(examples) if number not in underivable
        ]
        self.trainer = Trainer(
            ForestObjective(scorer, self.data, training, processes),
            torch.optim.AdamW(scorer.parameters(), weight_decay=training.weight_decay, fused=True),
            training,
            LearningRate(
                training.rate(model.encoder), training.steps, training.warm_up_steps(model.encoder)
            ),
            config,
            epoch=math.ceil(len(self.data) / max(training.batch(len(self.data)), 1)),
            sources=sources,
            evaluate=DevSet.of(self.model, dev, make_system(self.model)).scores if dev else None,
            processes=processes,
        )

    def steps(
        self, state: Path | None = None, save_every: int = PARSER_SAVE_EVERY
    ) -> Iterator[TrainingStep]:
        """Train, one record a step; with `state`, a file that lets a killed training continue where it was."""
        return resumed_steps(self.trainer, state, save_every)


def encoder_words(
    grammar: Grammar, examples: Sequence[Example]
) -> tuple[list[str], set[str] | None, int]:
    """The words that an encoder from scratch reads, where there is free text those that it may rely on, and how many
    the longest sentence has.
    """
    sentences = encoder_tokens(grammar, [each.source_tokens for each in examples])
    seen, most = (
        Counter(word for view in sentences for word in set(view)),
        max(map(len, sentences), default=0),
    )
    if grammar.slots is None or not grammar.slots.free_text:
        return sorted(seen), None, most
    frequent = {
        word for word, count in seen.items() if count >= MIN_WORD_COUNT or word in grammar.words
    }
    return sorted({*seen, *SHAPES}), frequent, most


@dataclass(frozen=True, slots=True)
class Share:
    """This process's examples of a batch on the device, if any, and their share of the whole batch."""

    own: Batch | None
    weight: float


@dataclass(frozen=True)
class ForestObjective:
    """The mean negative log-likelihood of targets, summed over their derivations."""

    model: Scorer
    data: TrainingData
    settings: TrainingSettings
    processes: Processes

    def seed(self, step: int) -> str:
        rank = self.processes.rank
        return f"{self.settings.seed} {step} {rank}" if rank else f"{self.settings.seed} {step}"

    def batches(self) -> Iterator[Sequence[int]]:
        return batches(len(self.data), self.settings)

    def collate(self, batch: Sequence[int]) -> Share:
        if not (own := self.processes.share(batch)):
            return Share(None, 0.0)
        device = next(self.model.parameters()).device
        return Share(self.data.collate(own, device), len(own) / len(batch))

    def backward(self, share: Share) -> Tensor:
        device = next(self.model.parameters()).device
        if share.own is None:
            return torch.zeros((), device=device)
        with autocast(self.settings.precision, device):
            loss = batch_loss(self.model, share.own)
        weighted = loss * share.weight  # of a mean over the whole batch
        weighted.backward()  # type: ignore[no-untyped-call]
        return weighted.detach()

    def running(self) -> AbstractContextManager[None]:
        return nullcontext()


def batches(examples: int, settings: TrainingSettings) -> Iterator[list[int]]:
    """The examples of every step: each epoch in a new order, which the seed alone decides."""
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
    """Examples that a parser does not learn from, and how it does on them."""

    model: SavedModel
    examples: Sequence[Example]
    system: System
    data: (
        TrainingData | None
    )  # of those with a loss, which the grammar derives and the encoder can read

    @classmethod
    def of(cls, model: SavedModel, examples: Sequence[Example], system: System) -> DevSet:
        sources = [example.source_tokens for example in examples]
        lengths = [
            len(each.ids)
            for each in tokenize(model.tokenizer, encoder_tokens(model.grammar, sources))
        ]
        short = [
            example
            for example, length in zip(examples, lengths, strict=True)
            if length <= model.max_length
        ]
        forests = build_forests(model.grammar, short)
        has_loss = len(forests.underivable()) < len(short)
        data = TrainingData.of(model.grammar, short, forests, model.tokenizer) if has_loss else None
        return cls(model, examples, system, data)

    @torch.no_grad()
    def scores(self) -> DevScores:
        """The scores of the model as it is, without dropout."""
        answers = self.system.answers(example.source for example in self.examples)
        pairs = zip(answers, self.examples, strict=True)
        share = sum(exact_match(answer.target, example.target) for answer, example in pairs) / len(
            self.examples
        )
        if self.data is None:
            return DevScores(share)
        model, total = self.model, 0.0
        model.scorer.eval()
        for start in range(0, len(self.data), DEV_BATCH):
            batch = range(start, min(start + DEV_BATCH, len(self.data)))
            total += len(batch) * float(
                batch_loss(model.scorer, self.data.collate(batch, model.device))
            )
        return DevScores(share, total / len(self.data))
