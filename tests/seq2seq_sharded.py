"""Fine-tunings whose weights are sharded or not, and the program that two processes make them with."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from nqg.paper.presets import FINE_TUNING
from nqg.seq2seq.fine_tuning import FineTuning
from nqg.seq2seq.settings import LoraSettings, Seq2seqSettings, SmallT5Settings
from nqg.training.processes import Processes, gathered
from seq2seq_examples import EXAMPLES

UNEVEN = Seq2seqSettings(
    longest_target=8, embedded=SmallT5Settings(width=15, layers=2, heads=3, dropout=0.0)
)
WHOLE = replace(FINE_TUNING, steps=6, batch_size=4, learning_rate=0.01)
SHARDED = replace(WHOLE, shard=True)
CASES = {
    "not sharded": WHOLE,
    "adafactor": SHARDED,
    "adafactor, decayed": replace(SHARDED, weight_decay=0.1),
    "adamw, clipped": replace(SHARDED, optimizer="adamw", clip=0.1),
    "in parts, recomputed": replace(SHARDED, accumulate=2, gradient_checkpointing=True),
    "dev examples": replace(SHARDED, evaluate_every=2, patience=1),
    "bf16": replace(SHARDED, precision="bf16"),
    "lora": replace(SHARDED, optimizer="adamw"),
}
KILLED = ("adafactor", "adamw, clipped")
SAVED = 4  # steps that were made when they are killed and that are not lost


def new_fitting(case: str, pretrained: str, *, shard: bool = True) -> FineTuning:
    """The fine-tuning of a case, before its first step."""
    settings = (
        Seq2seqSettings(pretrained, longest_target=8, lora=LoraSettings(rank=2))
        if case == "lora"
        else UNEVEN
    )
    dev = EXAMPLES[:2] if case == "dev examples" else ()
    training = replace(CASES[case], shard=shard and CASES[case].shard)
    return FineTuning(EXAMPLES, settings, training, dev=dev, device="cpu")


def train_until_killed(folder: Path) -> None:
    for case in KILLED:
        list(
            islice(
                new_fitting(case, "").steps(folder / f"{case}.state", save_every=2),
                SAVED + 1,
            )
        )
    Processes.launched("cpu").state.wait_for_everyone()
    os.kill(os.getpid(), signal.SIGKILL)


def train(case: str, folder: Path, pretrained: str) -> None:
    """Make the steps of a case, if it was killed the others; write what each process saw and held, and the model."""
    fitting = new_fitting(case, pretrained)
    steps = [
        (step.number, step.loss) for step in fitting.steps(folder / f"{case}.state")
    ]
    weights, state = (
        fitting.trainer.weights.values(),
        fitting.trainer.optimizer.state.values(),
    )
    held = {
        "weights": own_numbers(fitting.model.parameters()),
        "gradients": own_numbers(
            weight.grad for weight in weights if weight.grad is not None
        ),
        "moments": own_numbers(
            moment
            for values in state
            for moment in values.values()
            if is_moment(moment)
        ),
    }
    found = {
        "processes": fitting.processes.count,
        "steps": steps,
        "held": held,
        "gradient": gradient_size(fitting),
        "units": sum(
            isinstance(module, FSDPModule) for module in fitting.model.modules()
        ),
        "predicted": fitting.seq2seq.predict([each.source for each in EXAMPLES]),
    }
    (folder / f"{case}.{fitting.processes.rank}.json").write_text(json.dumps(found))
    finished = fitting.seq2seq
    if fitting.processes.is_main:
        finished.save(folder / case)


def is_moment(value: object) -> bool:
    """Whether a value of an optimizer's is a tensor that grows with a weight, and not a count or a norm."""
    return isinstance(value, Tensor) and value.dim() > 0


def own_numbers(tensors: Iterable[Tensor]) -> int:
    """How many numbers of tensors are in this process's memory."""
    return sum(
        each.to_local().numel() if isinstance(each, DTensor) else each.numel()
        for each in tensors
    )


def gradient_size(fitting: FineTuning) -> float:
    """The sum of all squares in the gradient of the last step."""
    gradients = [
        weight.grad
        for weight in fitting.trainer.weights.values()
        if weight.grad is not None
    ]
    return sum(float(gathered(gradient).square().sum()) for gradient in gradients)


if __name__ == "__main__":
    torch.set_num_threads(1)
    deed, place, model = sys.argv[1:]
    if deed == "be killed":
        train_until_killed(Path(place))
    for name in CASES:
        train(name, Path(place), model)
    Processes.launched("cpu").close()
