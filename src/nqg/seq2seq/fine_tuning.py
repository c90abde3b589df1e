"""From examples to a fine-tuned model: tokenizer, spelling, subwords, the weights perhaps sharded, and the steps."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers.modeling_layers import GradientCheckpointingLayer

from nqg.data.examples import Example
from nqg.errors import NqgError, SettingsError
from nqg.run_config import DataFingerprint, RunConfig
from nqg.seq2seq.adafactor import Adafactor
from nqg.seq2seq.objective import Seq2seqObjective, SubwordCorpus, SubwordPair
from nqg.seq2seq.seq2seq import Seq2seq, load_pretrained, merged, small_t5, tokenize_sources, with_lora, word_tokenizer
from nqg.seq2seq.settings import EMBEDDED, FineTuningSettings, Seq2seqSettings
from nqg.seq2seq.spelling import spelling_for, tokenize_targets
from nqg.training.processes import Processes, best_device, gathered
from nqg.training.records import DevScores, TrainingStep
from nqg.training.resume import resumed_steps
from nqg.training.trainer import Trainer, autocast, trainable

SAVE_EVERY = 500
RECORD_EVERY = 32  # steps that a GPU makes before anybody asks it for their losses, which would make it wait


@dataclass(frozen=True, slots=True)
class Truncation:
    """How many sources and targets of training examples the model sees only the beginnings of, and the first."""

    sources: int
    targets: int
    first: str | None = None

    def __str__(self) -> str:
        cut = f"{self.sources} sources and {self.targets} targets"
        return f"{cut} are longer than the model reads, first {self.first!r}"


class FineTuning:
    """A model in the making: `steps` trains it, `seq2seq` is what there is so far.

    With `dev`, examples that are not learned from, the model ends with the weights that did best on them. Under
    `accelerate launch` every process makes the same FineTuning, and all of them train it together; with
    `training.shard` each has a part of the weights.
    """

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
        processes = self.processes = Processes.launched(device)
        self.device = torch.device(processes.device or device or best_device())
        self.settings = settings
        model, self.tokenizer = new_model(settings, training, examples)
        is_sharded = training.shard and processes.count > 1
        if is_sharded:
            check_divisible(min(training.batch_size, len(examples)), training.accumulate, processes)
        self.shards = Shards.of(model, self.device, training.precision) if is_sharded else None
        self.model = self.shards.model if self.shards else model.to(self.device)
        self.spelling = spelling_for(self.tokenizer, (example.target for example in examples))
        subwords, self.truncation = self._tokenize(examples)
        start = model.generation_config.decoder_start_token_id
        start = getattr(model.config, "decoder_start_token_id", None) if start is None else start
        if start is None:
            raise NqgError("the model does not say which subword its targets begin with (decoder_start_token_id)")
        corpus = SubwordCorpus(subwords, self.tokenizer.pad_token_id, start, self.device)
        self.trainer = Trainer(
            Seq2seqObjective(self.model, corpus, training, processes, is_sharded),
            new_optimizer(trainable(self.model).values(), training, training.rate(settings.model)),
            training,
            training.rate(settings.model),
            RunConfig.of(
                "fine-tuning",
                examples,
                settings,
                training,
                dev_examples=DataFingerprint.of(dev).fingerprint,
                processes=processes.count,
            ),
            schedule=training.schedule,
            sources=[example.source for example in examples],
            evaluate=(lambda: DevScores(self._current().exact_match(dev))) if dev else None,
            processes=processes,
            record_every=RECORD_EVERY if self.device.type == "cuda" else 1,
        )

    def steps(self, state: Path | None = None, save_every: int = SAVE_EVERY) -> Iterator[TrainingStep]:
        """Train, one record a step; with `state`, a file that lets a killed training continue where it was."""
        return resumed_steps(self.trainer, state, save_every)

    @property
    def seq2seq(self) -> Seq2seq:
        """The model as it is now, for good: with LoRA, its updates are added to the weights.

        If it was sharded, all processes must ask for it; each gets the whole.
        """
        current = self._current()
        model = merged(current.model).eval()
        if self.shards is None:
            self.model = model
        return replace(current, model=model)

    def _current(self) -> Seq2seq:
        model = self.shards.gather() if self.shards else self.model
        return Seq2seq(model, self.tokenizer, self.spelling, self.settings)

    def _tokenize(self, examples: Sequence[Example]) -> tuple[list[SubwordPair], Truncation]:
        """The subwords of all examples, as many as the model reads and writes, and how many were cut for it."""
        settings, tokenizer = self.settings, self.tokenizer
        texts = [example.source for example in examples]
        sources = tokenize_sources(tokenizer, settings, texts, truncate=True)
        whole = tokenize_sources(tokenizer, settings, texts, truncate=False)
        targets = tokenize_targets(tokenizer, [self.spelling.spelled(example.target) for example in examples])
        long_sources = [number for number, ids in enumerate(whole) if len(ids) > settings.longest_source]
        long_targets = [number for number, ids in enumerate(targets) if len(ids) > settings.longest_target]
        first = min([*long_sources, *long_targets], default=None)
        truncation = Truncation(len(long_sources), len(long_targets), None if first is None else examples[first].source)
        pairs = zip(sources, targets, strict=True)
        cut = [SubwordPair(tuple(source), tuple(target[: settings.longest_target])) for source, target in pairs]
        return cut, truncation


def new_model(settings: Seq2seqSettings, training: FineTuningSettings, examples: Sequence[Example]) -> tuple[Any, Any]:
    """The model that fine-tuning begins with, and its tokenizer."""
    if settings.model == EMBEDDED:
        tokenizer = word_tokenizer(f"{settings.prefix}{example.source} {example.target}" for example in examples)
        model: Any = small_t5(settings.embedded, len(tokenizer), training.seed)
    else:
        model, tokenizer = load_pretrained(settings.model)
    if settings.lora:
        model = with_lora(model, settings.lora, training.seed)
    if training.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model, tokenizer


def new_optimizer(weights: Iterable[Tensor], settings: FineTuningSettings, rate: float) -> torch.optim.Optimizer:
    weights = list(weights)
    if settings.optimizer == "adafactor":
        return Adafactor(weights, rate, scale_by_weights=settings.scale_by_weights, decay=settings.weight_decay)
    return torch.optim.AdamW(weights, rate, weight_decay=settings.weight_decay, fused=weights[0].is_cuda)


@dataclass(frozen=True)
class Shards:
    """A model whose weights are sharded by PyTorch's `fully_shard` (FSDP2; ZeRO of stage 3), and an empty copy of it.

    The weights of a block of encoder or decoder are gathered when its turn comes and freed after it; gradients are
    summed where they are kept.
    """

    model: Any
    empty: Any
    device: torch.device

    @classmethod
    def of(cls, model: Any, device: torch.device, precision: str) -> Shards:
        """Shard a model, which all processes have alike; a block at a time goes to the device."""
        empty = with_weights(model, (weight.detach().to("meta") for weight in model.parameters()))
        mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
        with autocast(precision, device):
            is_half = torch.is_autocast_enabled(device.type)  # then autocast would round gathered weights anyway
        if device.type == "cpu" and any(isinstance(module, nn.LayerNorm) for module in model.modules()):
            is_half = False  # on CPUs, that one takes no weights in bf16 with inputs in float32
        half = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
        for block in [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]:
            fully_shard(block, mesh=mesh, mp_policy=half if is_half else MixedPrecisionPolicy())
        fully_shard(model, mesh=mesh)
        return cls(model, empty, device)

    def gather(self) -> Any:
        """The whole model as it is now, for each process; all of them must ask for it."""
        whole = (gathered(weight.detach()) for weight in self.model.parameters())
        return with_weights(self.empty, whole).to(self.device)


def with_weights(model: nn.Module, weights: Iterable[Tensor]) -> Any:
    """A copy of a model with other weights at the places of its own; one that stood in several places still does."""
    pairs = zip(model.parameters(), weights, strict=True)
    return copy.deepcopy(model, {id(old): nn.Parameter(new, requires_grad=old.requires_grad) for old, new in pairs})


def check_divisible(examples: int, accumulate: int, processes: Processes) -> None:
    """Refuse steps in which a process would have nothing to do, for the others would wait for it."""
    parts = accumulate * processes.count
    if examples < parts:
        raise SettingsError(
            f"a step of {examples} examples cannot be sharded in {parts} parts, accumulate ({accumulate}) times the "
            f"processes ({processes.count}); expected an example each: lower accumulate, or raise batch_size"
        )
