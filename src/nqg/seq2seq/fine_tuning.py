"""From examples to a fine-tuned model: tokenizer, spelling, subwords, the weights perhaps sharded, and the steps."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, zeros
from transformers.activations import NewGELUActivation
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.t5.modeling_t5 import T5Attention, T5LayerNorm

from nqg.data.examples import Example
from nqg.errors import NqgError, SettingsError
from nqg.run_config import DataFingerprint, RunConfig
from nqg.seq2seq.objective import Seq2seqObjective, SubwordCorpus, SubwordPair
from nqg.seq2seq.seq2seq import Seq2seq, load_pretrained, merged, small_t5, tokenize_sources, with_lora, word_tokenizer
from nqg.seq2seq.settings import BASELINES, EMBEDDED, FineTuningSettings, Seq2seqSettings
from nqg.seq2seq.spelling import spelling_for, tokenize_targets
from nqg.seq2seq.two_streams import TwoStreams
from nqg.training.processes import Processes, best_device, gathered
from nqg.training.records import DevScores, TrainingStep
from nqg.training.resume import resumed_steps
from nqg.training.trainer import Trainer, autocast, trainable

SAVE_EVERY = 500
MAX_STACKED = 2**24  # numbers that are stacked at most, so that the copies take no memory to speak of
MIN_SQUARE = 1e-30
MIN_SIZE = 1e-3  # of weights that steps are relative to
DECAY_EXPONENT = 0.8  # of the second moments' decay: step t is blended in with weight t^-0.8
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
        if self.device.type == "cuda":
            fuse_kernels(model)
        is_sharded = training.shard and processes.count > 1
        if is_sharded:
            check_divisible(min(training.batch_size, len(examples)), training.accumulate, processes)
        self.shards = Shards.of(model, self.device, training.precision) if is_sharded else None
        self.model = self.shards.model if self.shards else model.to(self.device)
        targets = [example.target for example in examples]
        self.spelling = spelling_for(self.tokenizer, targets, settings.longest_target, one_subword=training.one_subword)
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
    model: Any
    if settings.model == EMBEDDED or settings.model in BASELINES:
        tokenizer = word_tokenizer(f"{settings.prefix}{example.source} {example.target}" for example in examples)
        if settings.model == EMBEDDED:
            model = small_t5(settings.embedded, len(tokenizer), training.seed)
        else:
            model = TwoStreams.new(settings.model, len(tokenizer), training.seed)
    else:
        model, tokenizer = load_pretrained(settings.model)
    if settings.lora:
        model = with_lora(model, settings.lora, training.seed)
    if training.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model, tokenizer


def fuse_kernels(model: nn.Module) -> None:
    """Let torch's own modules, one kernel each, take the place of T5's norms and activations, which are a dozen.

    Attention is one kernel as well, if position biases are laid out as it wants. Weights keep their names and places.
    """
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if isinstance(module, T5LayerNorm):
                norm = nn.RMSNorm(module.weight.shape, eps=module.variance_epsilon, device="meta")
                norm.weight = module.weight
                setattr(parent, name, norm)
            elif isinstance(module, NewGELUActivation):
                setattr(parent, name, nn.GELU(approximate="tanh"))
            elif isinstance(parent, T5Attention) and isinstance(module, nn.Embedding):
                module.register_forward_hook(laid_out_by_heads)


def laid_out_by_heads(_module: nn.Module, _inputs: object, bias: Tensor) -> Tensor:
    """A position bias, (queries, keys, heads), in the order in memory that torch's kernels for attention want."""
    return bias.movedim(-1, 0).contiguous().movedim(0, -1)


def new_optimizer(weights: Iterable[Tensor], settings: FineTuningSettings, rate: float) -> torch.optim.Optimizer:
    weights = list(weights)
    if settings.optimizer == "adafactor":
        return Adafactor(weights, rate, scale_by_weights=settings.scale_by_weights, decay=settings.weight_decay)
    return torch.optim.AdamW(weights, rate, weight_decay=settings.weight_decay, fused=weights[0].is_cuda)


class Adafactor(torch.optim.Optimizer):
    """Adafactor (Shazeer and Stern, 2018): Adam with a factored second moment, a row and a column for a matrix.

    All weights of one shape are updated together, and nothing is looked up on the host (`.item()`): one kernel for each
    of hundreds of small weights would leave a GPU waiting. Weights may be sharded, by their first dimension; then each
    process updates its part, and only means over that dimension are taken together.

    The root mean square of an update is at most 1 times the rate; `scale_by_weights` makes it relative to the weights'.
    """

    def __init__(
        self, weights: Iterable[Tensor], lr: float, *, scale_by_weights: bool = False, decay: float = 0.0
    ) -> None:
        super().__init__(weights, {"lr": lr, "scale_by_weights": scale_by_weights, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Change the weights by their gradients."""
        for group in self.param_groups:
            for alike in stacks(weight for weight in group["params"] if weight.grad is not None):
                self._update(alike, group)

    def _update(self, weights: Sequence[Tensor], group: dict[str, Any]) -> None:
        for weight in weights:
            self.state[weight].setdefault("step", torch.zeros(()))  # on the host, where counting costs nothing
            self.state[weight]["step"] += 1
        blend = float(self.state[weights[0]]["step"]) ** -DECAY_EXPONENT
        one, own = weights[0], _local(weights)
        gradients = _stacked(_local([weight.grad for weight in weights if weight.grad is not None]))  # (K, *shape)
        squares = gradients.square() + MIN_SQUARE
        if one.dim() < 2:
            update = gradients * self._blended(weights, "squares", one.shape, squares, blend).rsqrt()
        else:
            height = one.shape[-2]
            rows = self._blended(weights, "rows", one.shape[:-1], squares.mean(-1), blend)
            below = one.shape[:-2] + one.shape[-1:]
            columns = self._blended(weights, "columns", below, _mean(squares, -2, one, height), blend)
            shares = rows / _mean(rows, -1, one, height).unsqueeze(-1)
            update = gradients * (shares.rsqrt().unsqueeze(-1) * columns.rsqrt().unsqueeze(-2))
        update /= _root_mean_squares(update, one).clamp(min=1)
        update *= -group["lr"]
        if group["scale_by_weights"]:
            update *= _root_mean_squares(_stacked(own), one).clamp(min=MIN_SIZE)
        if group["decay"]:
            torch._foreach_mul_(own, 1 - group["lr"] * group["decay"])
        torch._foreach_add_(own, list(update.unbind()))

    def _blended(self, weights: Sequence[Tensor], name: str, shape: torch.Size, new: Tensor, blend: float) -> Tensor:
        """The second moments of that name and shape, after those of this step were blended in."""
        for weight in weights:
            if name not in self.state[weight]:
                is_whole = name == "columns" and weight.dim() == 2  # a mean over the dimension that is sharded
                if isinstance(weight, DTensor) and not is_whole:
                    layout: Any = {"device_mesh": weight.device_mesh, "placements": weight.placements}
                    self.state[weight][name] = zeros(shape, dtype=weight.dtype, **layout)
                else:
                    self.state[weight][name] = torch.zeros(shape, dtype=weight.dtype, device=weight.device)
        kept = _local([self.state[weight][name] for weight in weights])
        blended = _stacked(kept).lerp(new, blend)
        torch._foreach_copy_(kept, list(blended.unbind()))
        return blended


def stacks(weights: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """The weights by shape, as many together as stay small."""
    by_shape: dict[torch.Size, list[Tensor]] = {}
    for weight in weights:
        by_shape.setdefault(weight.shape, []).append(weight)
    for alike in by_shape.values():
        size = max(1, MAX_STACKED // max(1, alike[0].numel()))
        yield from (alike[start : start + size] for start in range(0, len(alike), size))


def _local(tensors: Sequence[Tensor]) -> list[Tensor]:
    """This process's parts of tensors."""
    return [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0].unsqueeze(0) if len(tensors) == 1 else torch.stack(list(tensors))


def _mean(stack: Tensor, dimension: int, weight: Tensor, count: int) -> Tensor:
    """The mean over a dimension of a stack; where its weights are sharded by that one, over all `count` numbers."""
    if dimension % stack.dim() != 1 or not isinstance(weight, DTensor):
        return stack.mean(dimension)
    sums = stack.sum(dimension)
    torch.distributed.all_reduce(sums, group=weight.device_mesh.get_group())
    return sums / count


def _root_mean_squares(stack: Tensor, weight: Tensor) -> Tensor:
    """The root mean square of every tensor in a stack, in a shape that multiplies it."""
    flat = stack.reshape(len(stack), math.prod(stack.shape[1:]))  # which may be 0, of a part
    sizes = _mean(flat.square(), 1, weight, weight.numel()).sqrt()
    return sizes.view(-1, *[1] * (stack.dim() - 1))


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
