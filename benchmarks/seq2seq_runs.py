"""Fine-tune and test sequence-to-sequence models on prepared folders, several seeds each.

    python benchmarks/seq2seq_runs.py OUT.jsonl FOLDER... --model NAME --seeds 0 1 2 [--steps N] [--rate R] ...

A folder holds train.tsv and test.tsv. A line of OUT.jsonl is one run: accuracy (exact match of
tokens), times, versions.
The predictions of a run lie beside it, in OUT-predictions/FOLDER-MODEL-SEED.jsonl: source, target, prediction.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import transformers

import nqg
from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.files import write_text
from nqg.seq2seq.fitting import Seq2seqFitting
from nqg.seq2seq.settings import FineTuningSettings, LoraSettings, Seq2seqSettings
from nqg.seq2seq.spelling import normalised


def measured(
    folder: Path, settings: Seq2seqSettings, training: FineTuningSettings
) -> tuple[dict[str, Any], list[Example], list[str]]:
    train, test = (read_examples(folder / f"{part}.tsv") for part in ("train", "test"))
    begun = time.perf_counter()
    fitting = Seq2seqFitting(train, settings, training)
    ready = time.perf_counter()
    losses = [step.loss for step in fitting.steps()]
    trained = time.perf_counter()
    predicted = fitting.seq2seq.predict([example.source for example in test])
    ended = time.perf_counter()
    right = sum(normalised(example.target) == found for example, found in zip(test, predicted, strict=True))
    record = {
        "folder": folder.name,
        "model": Path(settings.model).name,
        "accuracy": 100 * right / len(test),
        "right": right,
        "test": len(test),
        "last_loss": sum(losses[-10:]) / len(losses[-10:]),
        "cut_sources": fitting.cut.sources,
        "cut_targets": fitting.cut.targets,
        "set_up_s": ready - begun,
        "training_s": trained - ready,
        "steps_per_s": len(losses) / (trained - ready),
        "predictions_per_s": len(test) / (ended - trained),
        "settings": {**asdict(settings), **asdict(training)},
        "versions": {
            "nqg": nqg.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": platform.python_version(),
        },
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
    return record, test, predicted


def write_predictions(path: Path, examples: list[Example], predicted: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        {"source": example.source, "target": normalised(example.target), "prediction": found}
        for example, found in zip(examples, predicted, strict=True)
    )
    write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def parsed() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out", type=Path)
    arguments.add_argument("folders", type=Path, nargs="+")
    arguments.add_argument("--model", default="embedded")
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments.add_argument("--steps", type=int, default=3000)
    arguments.add_argument("--batch-size", type=int, default=128)
    arguments.add_argument("--accumulate", type=int, default=1)
    arguments.add_argument("--optimizer", default="adafactor")
    arguments.add_argument("--rate", type=float, default=None)
    arguments.add_argument("--scale-by-weights", action="store_true")
    arguments.add_argument("--schedule", default="constant")
    arguments.add_argument("--pool", type=int, default=8)
    arguments.add_argument("--beams", type=int, default=1)
    arguments.add_argument("--lora-rank", type=int, default=0)
    arguments.add_argument("--no-recording", action="store_true")
    return arguments.parse_args()


def main() -> None:
    asked = parsed()
    lora = LoraSettings(rank=asked.lora_rank) if asked.lora_rank else None
    settings = Seq2seqSettings(model=asked.model, beams=asked.beams, lora=lora)
    training = FineTuningSettings(
        steps=asked.steps,
        batch_size=asked.batch_size,
        accumulate=asked.accumulate,
        optimizer=asked.optimizer,
        learning_rate=asked.rate,
        scale_by_weights=asked.scale_by_weights,
        schedule=asked.schedule,
        pool=asked.pool,
        record_kernels=not asked.no_recording,
    )
    for folder in asked.folders:
        for seed in asked.seeds:
            record, test, predicted = measured(folder, settings, replace(training, seed=seed))
            name = f"{folder.name}-{Path(asked.model).name}-{seed}.jsonl"
            write_predictions(asked.out.with_name(f"{asked.out.stem}-predictions") / name, test, predicted)
            with asked.out.open("a") as out:
                out.write(json.dumps(record) + "\n")
            print(json.dumps({name: value for name, value in record.items() if name != "settings"}), flush=True)


if __name__ == "__main__":
    main()
