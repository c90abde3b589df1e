"""Seconds of a training step at batch 256 and where they go, beside the published implementation's.

    OMP_NUM_THREADS=1 python benchmarks/training_step.py                       # CPU, embedded encoder
    python benchmarks/training_step.py --device cuda --encoders embedded,/models/mpnet-base

Grammars are those that the published implementation induced (../shared/reference); its CPU seconds a step, with
BERT-Tiny on the same kind of machine, are in ../shared/reference.md. The embedded encoder has BERT-Tiny's size. `CPU`
and `wall` are of steps as training makes them. Parts are measured apart from each other, with the device synchronised
around each; `collate` is the wait for the batch, which a thread prepares during the step before, `outside encoder` the
share of all other parts. CPU seconds are the least of all steps because machines are shared, parts are medians.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import torch

from nqg.grammar.grammar import Grammar
from nqg.model.encoder import new_encoder
from nqg.model.forest_crf import Batch, TrainingData, forest_loss
from nqg.model.forests import TrainingForests
from nqg.model.scorer import Scorer
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.paper import load_dataset
from nqg.run_config import RunConfig
from nqg.training.parser_training import ForestObjective, batches
from nqg.training.processes import Processes
from nqg.training.trainer import LearningRate, Trainer, autocast, prefetch

SHARED = Path(__file__).resolve().parents[2] / "shared"
CASES = (("scan", "jump"), ("geoquery", "standard"), ("geoquery", "length"))
PUBLISHED = {("scan", "jump"): 1.8, ("geoquery", "length"): 5.2}
PARTS = ("collate", "encoder", "scorer", "forests", "optimizer")
BATCH = 256


@dataclass
class Clock:
    """Seconds of each part of a step, of several steps."""

    device: torch.device
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            return time.perf_counter()
        return time.process_time()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        begun = self.now()
        yield
        self.seconds[name] += self.now() - begun


@dataclass(frozen=True)
class Bench:
    """A training of as many steps as are measured, and its data."""

    trainer: Trainer
    data: TrainingData
    settings: TrainingSettings

    @classmethod
    def of(
        cls,
        dataset: str,
        split: str,
        encoder: str,
        device: torch.device,
        shared: Path,
        steps: int,
    ) -> Bench:
        examples = list(
            dict.fromkeys(load_dataset(dataset, mirror=shared / "data").split(split)[0])
        )
        grammar = Grammar.read(shared / "reference" / f"{dataset}-{split}.rules.txt")
        torch.manual_seed(0)
        settings = ModelSettings(encoder=encoder)
        model, tokenizer = new_encoder(
            settings, [example.source_tokens for example in examples]
        )
        scorer = Scorer(model, len(grammar), settings.dimension).to(device).train()
        data = TrainingData.of(
            grammar, examples, TrainingForests.of(grammar, examples), tokenizer
        )
        wanted = TrainingSettings(steps=steps, batch_size=BATCH, warm_up=0)
        objective = ForestObjective(scorer, data, wanted, Processes())
        optimizer = torch.optim.AdamW(
            scorer.parameters(), weight_decay=wanted.weight_decay, fused=True
        )
        config = RunConfig.of("training", examples, settings, wanted)
        return cls(
            Trainer(objective, optimizer, LearningRate(1e-4, steps), config),
            data,
            wanted,
        )

    def timed_parts(self) -> Iterator[dict[str, float]]:
        """Steps cut where one part hands its results to the next, forwards and backwards."""
        device = self.trainer.device
        examples = batches(len(self.data), self.settings)
        left = prefetch(lambda batch: self.data.collate(batch, device), examples)
        while True:
            clock = Clock(device)
            with clock.part("collate"):
                batch = next(left, None)
            if batch is None:
                return
            self._step(batch, clock)
            yield clock.seconds

    def _step(self, batch: Batch, clock: Clock) -> None:
        scorer, optimizer = self.trainer.objective.model, self.trainer.optimizer
        tensors = batch.tensors
        with (
            clock.part("encoder"),
            autocast(self.settings.precision, self.trainer.device),
        ):
            ends = scorer.encoder(tensors.sentences, tensors.rows)
            cut = ends.detach().requires_grad_()
        with clock.part("scorer"):
            computed = scorer.pair_scores(cut, tensors.spans, tensors.pairs)
            scores = computed.detach().requires_grad_()
        with clock.part("forests"):
            forest_loss(scores, batch.forests, batch.pairs, batch.numbers).backward()  # type: ignore[no-untyped-call]
        with clock.part("scorer"):
            computed.backward(scores.grad)
        with clock.part("encoder"):
            ends.backward(cut.grad)
        with clock.part("optimizer"):
            torch.nn.utils.clip_grad_norm_(scorer.parameters(), self.settings.clip)
            optimizer.step()
            optimizer.zero_grad()


@dataclass(frozen=True)
class Measured:
    """A step in CPU seconds and wall-clock seconds, and the seconds of its parts."""

    cpu: float
    wall: float
    parts: dict[str, float]

    @classmethod
    def of(cls, bench: Bench) -> Measured:
        _, *parts = bench.timed_parts()
        steps = bench.trainer.steps()
        next(steps)
        begun = time.perf_counter()
        cpu = [_seconds(time.process_time, lambda: next(steps)) for _ in parts]
        wall = (time.perf_counter() - begun) / len(parts)
        return cls(
            min(cpu),
            wall,
            {name: median(each[name] for each in parts) for name in PARTS},
        )


def _seconds(clock: Callable[[], float], work: Callable[[], object]) -> float:
    begun = clock()
    work()
    return clock() - begun


def row(
    case: tuple[str, str], encoder: str, measured: Measured, published: float | None
) -> str:
    figures = (measured.cpu, measured.wall, *(measured.parts[name] for name in PARTS))
    outside = 1 - measured.parts["encoder"] / sum(measured.parts.values())
    ratio = f"{published / measured.cpu:.1f} x" if published else ""
    columns = " ".join(f"{1000 * seconds:9.1f}" for seconds in figures)
    return f"{' '.join(case):18} {Path(encoder).name:10} {columns} {outside:17.0%} {ratio:>22}"


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    arguments.add_argument(
        "--encoders", default="embedded", help="names or folders, separated by commas"
    )
    arguments.add_argument("--steps", type=int, default=20)
    arguments.add_argument(
        "--shared", type=Path, default=SHARED, help="folder with data/ and reference/"
    )
    asked = arguments.parse_args()
    device = torch.device(asked.device)
    unit = "wall-clock" if device.type == "cuda" else "CPU"
    print(
        f"milliseconds a step of {BATCH}, parts in {unit} time; {torch.get_num_threads()} threads"
    )
    heads = " ".join(f"{name:>9}" for name in ("CPU", "wall", *PARTS))
    print(
        f"{'training set':18} {'encoder':10} {heads}   outside encoder   published CPU / ours"
    )
    for encoder in asked.encoders.split(","):
        for case in CASES:
            measured = Measured.of(
                Bench.of(*case, encoder, device, asked.shared, asked.steps + 1)
            )
            print(
                row(
                    case,
                    encoder,
                    measured,
                    PUBLISHED.get(case) if device.type == "cpu" else None,
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
