"""How fast sentences are parsed, and where the time goes: CPU milliseconds a sentence beside the published ones.

    python benchmarks/decoding.py ENCODER [--device cuda] [--grammars FOLDER] [--steps 20]

ENCODER is a folder or name of Hugging Face's (BERT-Tiny, as in the published figures), or `embedded`. GRAMMARS has the
published grammars (`scan-jump.rules.txt`, `geoquery-length.rules.txt`); GeoQuery comes from NQG_DATA_MIRROR or the net.
A few steps of training are enough: speed does not depend on what was learned. On a GPU the milliseconds are those of
the clock, because a CPU that waits for a GPU is busy too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nqg.grammar.chart import charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph
from nqg.inference.decoding import ScoredCharts
from nqg.inference.parser import ENCODER_BATCH, Parser
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.model.subwords import Subwords
from nqg.paper import load_dataset
from nqg.paper.funql import funql_target_grammar
from nqg.pipeline.parser import fit_parser
from nqg.slots.instantiate import instantiate_slots
from nqg.types.target_grammar import TargetGrammar
from timing import cpu_seconds

Tokens = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """Sentences to parse, and what the published implementation needs for one of them."""

    name: str
    dataset: str
    split: str
    sentences: int
    published_ms: float
    legal: TargetGrammar | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentences that have a derivation, as every stage of parsing leaves them for the next."""

    sources: list[Tokens]
    full: Hypergraph
    subwords: list[Subwords]
    scored: ScoredCharts
    targets: list[Tokens]


def tasks() -> list[Task]:
    legal = funql_target_grammar()
    return [
        Task("SCAN jump", "scan", "jump", 1000, 100),
        Task("GeoQuery length", "geoquery", "length", 440, 500),
        Task("GeoQuery length, FunQL grammar", "geoquery", "length", 440, 472, legal),
    ]


def batches(parser: Parser, sources: Sequence[Tokens]) -> list[Batch]:
    ordered = sorted(sources, key=len)
    return [
        batch(parser, ordered[start : start + ENCODER_BATCH])
        for start in range(0, len(ordered), ENCODER_BATCH)
    ]


def batch(parser: Parser, sources: Sequence[Tokens]) -> Batch:
    every = charts(parser.grammar, sources)
    derivable = [
        number
        for number in range(len(sources))
        if every.first_node[number] < every.first_node[number + 1]
    ]
    kept, full = [sources[number] for number in derivable], every.select(derivable)
    scored = parser.scored(
        instantiate_slots(parser.grammar, kept), parser.subwords(kept), full
    )
    return Batch(
        list(sources),
        full,
        parser.subwords(kept),
        scored,
        [each.target for each in scored.best()],
    )


def stages(parser: Parser, parts: Sequence[Batch]) -> dict[str, Callable[[], object]]:
    """What parsing does, each stage alone on what the one before has left."""
    return {
        "chart": lambda: [charts(parser.grammar, part.sources) for part in parts],
        "encoder": lambda: [
            parser.scored(
                instantiate_slots(parser.grammar, part.sources),
                part.subwords,
                part.full,
            )
            for part in parts
        ],
        "search": lambda: [
            [each.target for each in part.scored.best()] for part in parts
        ],
        "probabilities": lambda: [
            part.scored.probabilities(part.targets, range(len(part.targets)))
            for part in parts
        ],
    }


def clock_seconds(work: Callable[[], object], runs: int = 3) -> float:
    work()
    return min(_clocked(work) for _ in range(runs))


def _clocked(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - begun


def measure(task: Task, encoder: str, device: str, grammars: Path, steps: int) -> None:
    train, test = load_dataset(task.dataset).split(task.split)
    grammar = Grammar.read(grammars / f"{task.dataset}-{task.split}.rules.txt")
    training = TrainingSettings(steps=steps, batch_size=128, warm_up=min(steps, 10))
    parser = fit_parser(
        grammar,
        train,
        target_grammar=task.legal,
        model=ModelSettings(encoder),
        training=training,
        device=device,
    )
    seconds = clock_seconds if device == "cuda" else cpu_seconds
    sentences = [example.source for example in test[: task.sentences]]
    count = len(sentences)
    whole = seconds(lambda: list(parser.answers(sentences))) / count
    parts = batches(parser, [tuple(sentence.split()) for sentence in sentences])
    shares = {
        name: 1000 * seconds(work) / count
        for name, work in stages(parser, parts).items()
    }
    shares["rest"] = max(1000 * whole - sum(shares.values()), 0.0)
    ratio = task.published_ms / (1000 * whole)
    print(
        f"| {task.name} | {count:,} | {1000 * whole:.3f} | {1 / whole:,.0f} | ", end=""
    )
    print(" | ".join(f"{share:.3f}" for share in shares.values()), end="")
    print(
        f" | {task.published_ms:.0f} | {1000 / task.published_ms:.0f} | {ratio:,.0f} |",
        flush=True,
    )


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("encoder")
    arguments.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    arguments.add_argument("--grammars", type=Path, default=Path("../shared/reference"))
    arguments.add_argument("--steps", type=int, default=20)
    asked = arguments.parse_args()
    print(
        "| data | sentences | ms | sentences/s | chart ms | encoder ms | search ms | probabilities ms | rest ms ",
        end="",
    )
    print(
        "| published ms | published sentences/s | times faster |\n|---|" + "--:|" * 11
    )
    for task in tasks():
        measure(task, asked.encoder, asked.device, asked.grammars, asked.steps)


if __name__ == "__main__":
    main()
