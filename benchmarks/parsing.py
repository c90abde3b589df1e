"""Train and test parsers on prepared folders, several seeds each: accuracy, coverage, precision, and where time goes.

    python benchmarks/parsing.py OUT.jsonl FOLDER... --encoders embedded,PATH --seeds 0,1,2

A folder holds train.tsv, test.tsv and grammar.txt, and perhaps target.grammar.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import torch

from nqg.data.example_files import read_examples
from nqg.forests.build import build_forests
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.inference.fitting import Fitting
from nqg.model.settings import ModelSettings, TrainingSettings


def measured(folder: Path, encoder: str, training: TrainingSettings) -> dict[str, object]:
    train, test = (read_examples(folder / f"{part}.tsv") for part in ("train", "test"))
    grammar = Grammar.read(folder / "grammar.txt")
    legal = TargetGrammar.read(folder / "target.grammar") if (folder / "target.grammar").exists() else None
    begun = time.perf_counter()
    forests = build_forests(grammar, list(dict.fromkeys(train)))
    fitting = Fitting(
        grammar, train, forests=forests, target_grammar=legal, model=ModelSettings(encoder=encoder), training=training
    )
    ready = time.perf_counter()
    losses = [step.loss for step in fitting.steps()]
    trained = time.perf_counter()
    parses = fitting.parser.parse_all([example.source for example in test])
    ended = time.perf_counter()
    answers = [(parse.best, example.target_tokens) for parse, example in zip(parses, test, strict=True)]
    covered = [best.target == target for best, target in answers if best is not None]
    unfiltered = fitting.parser.parse_all([example.source for example in test], only_legal=True)
    legal_right = sum(
        parse.best is not None and parse.best.target == example.target_tokens
        for parse, example in zip(unfiltered, test, strict=True)
    )
    return {
        "folder": folder.name,
        "encoder": Path(encoder).name,
        "seed": training.seed,
        "steps": training.steps,
        "accuracy": 100 * sum(covered) / len(test),
        "coverage": 100 * len(covered) / len(test),
        "precision": 100 * sum(covered) / max(len(covered), 1),
        "accuracy_best_legal": 100 * legal_right / len(test),
        "last_loss": sum(losses[-10:]) / len(losses[-10:]),
        "set_up_s": ready - begun,
        "step_ms": 1000 * (trained - ready) / training.steps,
        "sentences_per_s": len(test) / (ended - trained),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out", type=Path)
    arguments.add_argument("folders", type=Path, nargs="+")
    arguments.add_argument("--encoders", default="embedded")
    arguments.add_argument("--seeds", default="0,1,2")
    arguments.add_argument("--steps", type=int, default=256)
    arguments.add_argument("--rate", type=float, default=None)
    asked = arguments.parse_args()
    training = TrainingSettings(steps=asked.steps, learning_rate=asked.rate)
    with asked.out.open("a") as out:
        for encoder in asked.encoders.split(","):
            for folder in asked.folders:
                for seed in map(int, asked.seeds.split(",")):
                    record = measured(folder, encoder, replace(training, seed=seed))
                    out.write(json.dumps(record) + "\n")
                    out.flush()
                    print(record, flush=True)


if __name__ == "__main__":
    main()
