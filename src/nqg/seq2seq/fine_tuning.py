"""From examples to a fine-tuned model: tokenizer, codec, subwords, weights, perhaps sharded, and
the steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.activations import NewGELUActivation
from transformers.models.t5.modeling_t5 import T5Attention, T5LayerNorm

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.extensions import load_extension
from nqg.model.settings import EMBEDDED
from nqg.model.tensors import best_device
from nqg.run_config import DataFingerprint, RunConfig
from nqg.seq2seq.adafactor import StackedAdafactor
from nqg.seq2seq.batches import SubwordCorpus, SubwordPair
from nqg.seq2seq.objective import Seq2seqObjective
from nqg.seq2seq.seq2seq import (
    Seq2seq,
    load_pretrained,
    merged,
    small_t5,
    with_lora,
    word_tokenizer,
)
from nqg.seq2seq.settings import BASELINE_MODELS, FineTuningSettings, Seq2seqSettings
from nqg.seq2seq.sharding import Shards, check_divisible, sharded_moments
from nqg.seq2seq.target_codec import fit_codec, tokenize_targets
from nqg.seq2seq.tokenizer import tokenize_sources
from nqg.training.processes import Processes, is_sharded
from nqg.training.records import DevScores, TrainingStep
from nqg.training.resume import FINE_TUNING_SAVE_EVERY, resumed_steps
from nqg.training.trainer import LearningRate, Trainer, trainable

# A bound of work: steps that a GPU makes before it is asked for their losses, because the question
# makes it wait.
RECORD_EVERY = 32


@dataclass(frozen=True, slots=True)
class Truncation:
    """How many sources and targets of training examples the model sees only the beginnings of, and
    the first.
    """

    sources: int
    targets: int
    first: str | None = None

    def __str__(self) -> str:
        truncated = f"{self.sources} sources and {self.targets} targets"
        return f"{truncated} are longer than the model reads, first {self.first!r}"


class FineTuning:
    """A model in the making: `steps` trains it, `seq2seq` is the model so far.

    With `dev`, examples that are not learned from, the model ends with the weights that did best on
    them. With `start`, a model that has learned some of the examples, that model goes on learning,
    unless the new targets need another spelling. Under `accelerate launch` every process makes the
    same FineTuning, and all of them train it together; with `training.shard` each holds a share of
    the weights.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        settings: Seq2seqSettings = Seq2seqSettings(),  # noqa: B008 (frozen)
        training: FineTuningSettings = FineTuningSettings(),  # noqa: B008 (frozen)
        *,
        dev: Sequence[Example] = (),
        device: str | None = None,
        start: Seq2seq | None = None,
    ) -> None:
        if not examples:
            raise NqgError("there are no examples to fine-tune on")
        processes = self.processes = Processes.launched(device)
        self.device = torch.device(processes.device or device or best_device())
        self.settings = settings
        is_cuda = self.device.type == "cuda"
        targets = [example.target for example in examples]
        if start is not None:
            spelling = fit_codec(
                start.tokenizer,
                targets,
                settings.longest_target,
                one_subword=training.one_subword,
            )
            if spelling != start.spelling:
                start = None
        training = self.training = training.resolved(
            settings.model,
            len(examples),
            on_cpu=self.device.type == "cpu",
            has_bf16=bool(torch.cpu.get_capabilities().get("avx512_bf16")),
            has_dev=bool(dev),
            is_continued=start is not None,
        )

        # 1. The model on its device or devices.
        if start is None:
            model, self.tokenizer = new_model(settings, training, examples)
        else:
            model, self.tokenizer = start.model, start.tokenizer
        if is_cuda or training.freeze_embeddings:
            fuse_kernels(model)
        if training.freeze_embeddings:
            model.get_input_embeddings().requires_grad_(False)
            model.get_output_embeddings().requires_grad_(False)
        self.shards: Shards | None = None
        if training.shard and processes.count > 1:
            check_divisible(
                min(training.batch_size, len(examples)), training.accumulate, processes
            )
            self.shards = Shards.of(model, self.device, training.precision)
        self.model = self.shards.model if self.shards else model.to(self.device)

        # 2. The examples as subwords.
        self.spelling = fit_codec(
            self.tokenizer,
            targets,
            settings.longest_target,
            one_subword=training.one_subword,
        )
        subwords, self.truncation = self._tokenize(examples)
        first_input = model.generation_config.decoder_start_token_id
        if first_input is None:
            first_input = getattr(model.config, "decoder_start_token_id", None)
        if first_input is None:
            raise NqgError(
                "the model does not say which subword its targets begin with "
                "(decoder_start_token_id)"
            )
        corpus = SubwordCorpus(
            subwords, self.tokenizer.pad_token_id, first_input, self.device
        )

        # 3. The training.
        peak = training.rate(settings.model)
        config = RunConfig.of(
            "fine-tuning",
            examples,
            settings,
            training,
            dev_examples=DataFingerprint.of(dev).fingerprint,
            processes=processes.count,
        )
        is_sharded = self.shards is not None
        objective = Seq2seqObjective(
            self.model, corpus, training, processes, is_sharded
        )
        optimizer = new_optimizer(trainable(self.model).values(), training, peak)
        rate = LearningRate(peak, training.steps, training.warm_up, training.schedule)
        evaluate = None
        if dev:
            evaluate = partial(self._scores, dev)
        self.trainer = Trainer(
            objective,
            optimizer,
            rate,
            config,
            # All examples have to be learned before the loss may end the training.
            epoch=math.ceil(len(examples) / training.batch_size),
            sources=[example.source for example in examples],
            evaluate=evaluate,
            record_every=RECORD_EVERY if is_cuda else 1,
        )

    def steps(
        self, state: Path | None = None, save_every: int = FINE_TUNING_SAVE_EVERY
    ) -> Iterator[TrainingStep]:
        """Train, one record a step; with `state`, a file that lets a killed training continue where
        it was.
        """
        return resumed_steps(self.trainer, state, save_every)

    @property
    def seq2seq(self) -> Seq2seq:
        """The model as it is now, for good: with LoRA, its updates are added to the weights.

        If the model is sharded, all processes must ask for it; each gets the whole.
        """
        current = self._current()
        model = merged(current.model).eval()
        if self.shards is None:
            self.model = model
        return replace(current, model=model)

    def _current(self) -> Seq2seq:
        model = self.shards.gather() if self.shards else self.model
        return Seq2seq(model, self.tokenizer, self.spelling, self.settings)

    def _scores(self, dev: Sequence[Example]) -> DevScores:
        return DevScores(self._current().exact_match(dev))

    def _tokenize(
        self, examples: Sequence[Example]
    ) -> tuple[list[SubwordPair], Truncation]:
        """The subwords of all examples, as many as the model reads and writes, and how many were
        truncated.
        """
        settings, tokenizer = self.settings, self.tokenizer
        texts = [example.source for example in examples]
        sources = tokenize_sources(tokenizer, settings, texts, truncate=True)
        whole = tokenize_sources(tokenizer, settings, texts, truncate=False)
        encoded = [self.spelling.encode(example.target) for example in examples]
        pairs, truncated = [], []
        long_sources = long_targets = 0
        for number, target in enumerate(tokenize_targets(tokenizer, encoded)):
            pairs.append(
                SubwordPair(
                    tuple(sources[number]), tuple(target[: settings.longest_target])
                )
            )
            has_long_source = len(whole[number]) > settings.longest_source
            has_long_target = len(target) > settings.longest_target
            long_sources += has_long_source
            long_targets += has_long_target
            if has_long_source or has_long_target:
                truncated.append(texts[number])
        return pairs, Truncation(
            long_sources, long_targets, next(iter(truncated), None)
        )


def new_model(
    settings: Seq2seqSettings, training: FineTuningSettings, examples: Sequence[Example]
) -> tuple[Any, Any]:
    """The model that fine-tuning begins with, and its tokenizer."""
    model: Any
    if settings.model == EMBEDDED or settings.model in BASELINE_MODELS:
        tokenizer = word_tokenizer(
            f"{settings.prefix}{example.source} {example.target}"
            for example in examples
        )
        if settings.model == EMBEDDED:
            model = small_t5(settings.embedded, len(tokenizer), training.seed)
        else:
            baseline = load_extension(BASELINE_MODELS[settings.model])
            model = baseline.new(settings.model, len(tokenizer), training.seed)
    else:
        model, tokenizer = load_pretrained(settings.model)
    if settings.lora:
        model = with_lora(model, settings.lora, training.seed)
    if training.gradient_checkpointing:
        model.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": False}
        )
    return model, tokenizer


def fuse_kernels(model: nn.Module) -> None:
    """Replace T5's norms and activations, a dozen kernels each, by torch's own modules, one kernel
    each.

    Attention is one kernel as well, if position biases are laid out for it. Weights keep their
    names.
    """
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if isinstance(module, T5LayerNorm):
                norm = nn.RMSNorm(
                    module.weight.shape, eps=module.variance_epsilon, device="meta"
                )
                norm.weight = module.weight
                setattr(parent, name, norm)
            elif isinstance(module, NewGELUActivation):
                setattr(parent, name, nn.GELU(approximate="tanh"))
            elif isinstance(parent, T5Attention) and isinstance(module, nn.Embedding):
                # A model that goes on learning has such a hook already; a second changes nothing.
                module.register_forward_hook(laid_out_by_heads)


def laid_out_by_heads(_module: nn.Module, _inputs: object, bias: Tensor) -> Tensor:
    """A position bias, (queries, keys, heads), in the memory layout of torch's attention."""
    return bias.movedim(-1, 0).contiguous().movedim(0, -1)


def new_optimizer(
    weights: Iterable[Tensor], settings: FineTuningSettings, rate: float
) -> torch.optim.Optimizer:
    """The optimizer that settings name; its steps are not recorded."""
    weights = list(weights)
    if settings.optimizer == "adamw":
        first = weights[0]
        return torch.optim.AdamW(
            weights,
            rate,
            weight_decay=settings.weight_decay,
            fused=first.is_cuda or not is_sharded(first),
        )
    adafactor = StackedAdafactor(  # type: ignore[no-untyped-call]
        weights,
        lr=rate,
        scale_parameter=False,
        relative_step=False,
        weight_decay=settings.weight_decay,
    )
    for weight in weights:
        if is_sharded(weight):
            adafactor.state[weight] = sharded_moments(weight)
    return adafactor
