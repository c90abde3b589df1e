"""Seconds of a training step at batch 256 and where they go, beside the published implementation's.

    OMP_NUM_THREADS=1 python benchmarks/training_step.py                       # CPU, embedded encoder
    python benchmarks/training_step.py --device cuda --encoders embedded,PATH

Grammars are those that the published implementation induced (../shared/reference); its CPU seconds a step, with
BERT-Tiny on the same kind of machine, are in ../shared/reference.md. The embedded encoder has BERT-Tiny's size. Parts
are measured apart from each other, with the device synchronised around each; `step` is measured as training makes it.
CPU seconds are the least of all steps because machines are shared, parts are medians.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
import torch

from nqg import load_dataset
from nqg.forests.build import build_forests
from nqg.grammar.grammar import Grammar
from nqg.model.encoder import new_encoder
from nqg.model.forest_crf import forest_loss
from nqg.model.objective import TrainingData, batch_loss
from nqg.model.scorer import Scorer
from nqg.model.settings import ModelSettings

SHARED = Path(__file__).resolve().parents[2] / "shared"
CASES = (("scan", "jump"), ("geoquery", "standard"), ("geoquery", "length"))
PUBLISHED = {("scan", "jump"): 1.8, ("geoquery", "length"): 5.2}
PARTS = ("lay out", "encoder", "scorer", "forests", "optimizer")
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
    """A scorer with its data and its optimizer."""

    scorer: Scorer
    data: TrainingData
    padding: int
    optimizer: torch.optim.Optimizer
    device: torch.device

    @classmethod
    def of(cls, dataset: str, split: str, encoder: str, device: torch.device, shared: Path) -> Bench:
        examples = list(dict.fromkeys(load_dataset(dataset, mirror=shared / "data").split(split)[0]))
        grammar = Grammar.read(shared / "reference" / f"{dataset}-{split}.rules.txt")
        torch.manual_seed(0)
        settings = ModelSettings(encoder=encoder)
        model, tokenizer = new_encoder(settings, [example.source_tokens for example in examples])
        scorer = Scorer(model, len(grammar), settings.dimension).to(device).train()
        optimizer = torch.optim.AdamW(scorer.parameters(), lr=1e-4, fused=True)
        data = TrainingData.of(examples, build_forests(grammar, examples), tokenizer)
        return cls(scorer, data, tokenizer.pad_token_id, optimizer, device)

    def batches(self, count: int) -> Iterator[list[int]]:
        rng = random.Random(0)
        return (rng.sample(range(len(self.data)), BATCH) for _ in range(count))

    def step(self, batch: list[int]) -> float:
        """A step as training makes it."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = batch_loss(self.scorer, self.data, batch, self.padding, self.device)
        loss.backward()  # type: ignore[no-untyped-call]
        self.update()
        return float(loss.detach())

    def update(self) -> None:
        torch.nn.utils.clip_grad_norm_(self.scorer.parameters(), 1.0)
        self.optimizer.step()

    def timed_parts(self, batch: list[int]) -> dict[str, float]:
        """The same step, cut where one part hands its results to the next, forwards and backwards."""
        clock, numbers = Clock(self.device), np.asarray(batch)
        self.optimizer.zero_grad(set_to_none=True)
        with clock.part("lay out"):
            sentences = self.data.pieces.picked(numbers, self.padding, self.device)
            spans = self.data.spans.picked(numbers, self.device)
            pairs = self.data.pairs.picked(numbers, self.device)
        with clock.part("encoder"):
            edges = self.scorer.edges(sentences, spans)
            cut = [each.detach().requires_grad_() for each in edges]
        with clock.part("scorer"):
            computed = self.scorer.scores(cut[0], cut[1], spans, pairs)
            scores = computed.detach().requires_grad_()
        with clock.part("forests"):
            forest_loss(scores, self.data.forests, self.data.pairs, numbers).backward()  # type: ignore[no-untyped-call]
        with clock.part("scorer"):
            computed.backward(scores.grad)  # type: ignore[no-untyped-call]
        with clock.part("encoder"):
            torch.autograd.backward(edges, [each.grad for each in cut])
        with clock.part("optimizer"):
            self.update()
        return clock.seconds


@dataclass(frozen=True)
class Measured:
    """A step in CPU seconds and wall-clock seconds, and the seconds of its parts."""

    cpu: float
    wall: float
    parts: dict[str, float]

    @classmethod
    def of(cls, bench: Bench, steps: int) -> Measured:
        warm_up, *batches = bench.batches(steps + 1)
        for work in (bench.step, bench.timed_parts):
            work(warm_up)
        parts = [bench.timed_parts(batch) for batch in batches]
        cpu = min(_seconds(time.process_time, lambda batch=batch: bench.step(batch)) for batch in batches)  # type: ignore[misc]
        wall = _seconds(time.perf_counter, lambda: [bench.step(batch) for batch in batches]) / steps
        return cls(cpu, wall, {name: median(each[name] for each in parts) for name in PARTS})


def _seconds(clock: Callable[[], float], work: Callable[[], object]) -> float:
    begun = clock()
    work()
    return clock() - begun


def row(case: tuple[str, str], encoder: str, measured: Measured, published: float | None) -> str:
    figures = (measured.cpu, measured.wall, *(measured.parts[name] for name in PARTS))
    outside = 1 - measured.parts["encoder"] / sum(measured.parts.values())
    ratio = f"{published / measured.cpu:.1f} x" if published else ""
    columns = " ".join(f"{1000 * seconds:9.1f}" for seconds in figures)
    return f"{' '.join(case):18} {Path(encoder).name:10} {columns} {outside:17.0%} {ratio:>22}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    arguments.add_argument("--encoders", default="embedded", help="names or folders, separated by commas")
    arguments.add_argument("--steps", type=int, default=20)
    arguments.add_argument("--shared", type=Path, default=SHARED, help="folder with data/ and reference/")
    asked = arguments.parse_args()
    device = torch.device(asked.device)
    unit = "wall-clock" if device.type == "cuda" else "CPU"
    print(f"milliseconds a step of {BATCH}, parts in {unit} time; {torch.get_num_threads()} threads")
    heads = " ".join(f"{name:>9}" for name in ("CPU", "wall", *PARTS))
    print(f"{'training set':18} {'encoder':10} {heads}   outside encoder   published CPU / ours")
    for encoder in asked.encoders.split(","):
        for case in CASES:
            measured = Measured.of(Bench.of(*case, encoder, device, asked.shared), asked.steps)
            print(row(case, encoder, measured, PUBLISHED.get(case) if device.type == "cpu" else None), flush=True)


if __name__ == "__main__":
    main()
