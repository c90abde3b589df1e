"""From examples to a fine-tuned model: tokenizer, spelling, pieces, and the steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

import nqg
from nqg.data.dataset import Dataset
from nqg.data.examples import Example
from nqg.errors import NqgError
from nqg.model.settings import EMBEDDED
from nqg.seq2seq.batches import Corpus, Pieces
from nqg.seq2seq.checkpoint import load_pretrained, merged, small_t5, with_lora, word_tokenizer
from nqg.seq2seq.resume import restore, saved_steps
from nqg.seq2seq.seq2seq import Seq2seq, best_device, encoded_sources
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings
from nqg.seq2seq.sharding import Shards
from nqg.seq2seq.spelling import Spelling, encoded_targets, spelling_for
from nqg.seq2seq.training import FineTuning
from nqg.training.processes import Processes
from nqg.training.records import TrainingStep
from nqg.training.resume import TrainingOrigin

SAVE_EVERY = 500


@dataclass(frozen=True, slots=True)
class Cut:
    """Training examples that the model sees only the beginnings of: how many sources, how many targets, the first."""

    sources: int
    targets: int
    first: str | None = None

    def __str__(self) -> str:
        return (
            f"{self.sources} sources and {self.targets} targets are longer than the model reads, first {self.first!r}"
        )


class Seq2seqFitting:
    """A model on its way; `seq2seq` is what it has become so far, `cut` says what it could not be shown."""

    def __init__(
        self,
        examples: Sequence[Example],
        settings: Seq2seqSettings = Seq2seqSettings(),  # noqa: B008 (frozen)
        training: FineTuningSettings = FineTuningSettings(),  # noqa: B008 (frozen)
        *,
        dev: Sequence[Example] = (),
        device: str | None = None,
    ) -> None:
        if not examples:
            raise NqgError("there are no examples to fine-tune on")
        self.processes = Processes.launched(device)
        self.device = torch.device(self.processes.device or device or best_device())
        self.settings, self.training = settings, training
        model, self.tokenizer = _new_model(settings, training, examples)
        is_sharded = training.shard and self.processes.count > 1
        self.shards = Shards.of(model, self.device, training.precision) if is_sharded else None
        self.model = self.shards.model if self.shards else model.to(self.device)
        self.spelling = spelling_for(self.tokenizer, (example.target for example in examples))
        pieces, self.cut = _pieces(self.tokenizer, self.spelling, settings, examples)
        corpus = Corpus(pieces, self.tokenizer.pad_token_id, _start(model), self.device)
        self.origin = _origin(examples, dev, settings, training, self.processes.count)
        self.tuning = FineTuning(
            self.model,
            corpus,
            training,
            training.rate(settings.model),
            exact_match=(lambda: self._so_far().exact_match(dev)) if dev else None,
            processes=self.processes,
        )

    def steps(self, state: Path | None = None, save_every: int = SAVE_EVERY) -> Iterator[TrainingStep]:
        """Make the steps, one record a step; with `state`, a file that lets a killed training go on where it was."""
        if state is None:
            return self.tuning.steps()
        if state.exists():
            restore(state, self.tuning, self.origin)
        return saved_steps(self.tuning, state, self.origin, save_every)

    @property
    def seq2seq(self) -> Seq2seq:
        """The model as it is now, for good: with LoRA, its updates are added into the weights.

        If it was sharded, all processes must ask for it; each gets the whole.
        """
        so_far = self._so_far()
        model = merged(so_far.model).eval()
        if self.shards is None:
            self.model = model
        return replace(so_far, model=model)

    def _so_far(self) -> Seq2seq:
        model = self.shards.whole() if self.shards else self.model
        return Seq2seq(model, self.tokenizer, self.spelling, self.settings)


def _new_model(settings: Seq2seqSettings, training: FineTuningSettings, examples: Sequence[Example]) -> tuple[Any, Any]:
    if settings.model == EMBEDDED:
        texts = [text for example in examples for text in (settings.prefix + example.source, example.target)]
        tokenizer = word_tokenizer(texts)
        model: Any = small_t5(settings.embedded, len(tokenizer), training.seed)
    else:
        model, tokenizer = load_pretrained(settings.model)
    if settings.lora:
        model = with_lora(model, settings.lora, training.seed)
    if training.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model, tokenizer


def _start(model: Any) -> int:
    """The piece that decoding begins with."""
    start = model.generation_config.decoder_start_token_id
    if start is None:
        start = getattr(model.config, "decoder_start_token_id", None)
    if start is None:
        raise NqgError("the model does not say which piece its targets begin with (decoder_start_token_id)")
    return int(start)


def _pieces(
    tokenizer: Any, spelling: Spelling, settings: Seq2seqSettings, examples: Sequence[Example]
) -> tuple[list[Pieces], Cut]:
    """The pieces of all examples, as many as the model reads and writes, and how many were cut for it."""
    sources = encoded_sources(tokenizer, settings, [example.source for example in examples], is_cut=True)
    whole = encoded_sources(tokenizer, settings, [example.source for example in examples], is_cut=False)
    targets = encoded_targets(tokenizer, [spelling.spelled(example.target) for example in examples])
    long_sources = [number for number, ids in enumerate(whole) if len(ids) > settings.longest_source]
    long_targets = [number for number, ids in enumerate(targets) if len(ids) > settings.longest_target]
    first = min([*long_sources, *long_targets], default=None)
    cut = Cut(len(long_sources), len(long_targets), None if first is None else examples[first].source)
    pairs = zip(sources, targets, strict=True)
    return [Pieces(tuple(source), tuple(target[: settings.longest_target])) for source, target in pairs], cut


def _origin(
    examples: Sequence[Example],
    dev: Sequence[Example],
    settings: Seq2seqSettings,
    training: FineTuningSettings,
    processes: int,
) -> TrainingOrigin:
    facts = {
        "the fingerprint of the examples": Dataset("examples", examples).fingerprint,
        "the fingerprint of the dev examples": Dataset("dev", dev).fingerprint,
        **asdict(settings),
        **asdict(training),
        "the number of processes": processes,
        "the version of nqg": nqg.__version__,
    }
    return TrainingOrigin(facts)
