"""Throughput beside plain transformers: the same model, data and settings, in one run, on whatever device there is.

    python benchmarks/seq2seq.py TRAIN.tsv TEST.tsv --model NAME [--steps 200] [--batch-size 128] [--json OUT]

Training: target subwords a second of `nqg.seq2seq` and of `Seq2SeqTrainer`, without set-up.
Prediction: sentences a second of `Seq2seq.predict` and of `generate`, in batches of the same size as in training and in
one batch as large as ours; both with the weights that ours learned, so the answers can be compared.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import (
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

from nqg.data.example_files import read_examples
from nqg.model_folder import quiet_transformers
from nqg.seq2seq.batches import SubwordPair
from nqg.seq2seq.fine_tuning import FineTuning
from nqg.seq2seq.seq2seq import Seq2seq, load_pretrained
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begun = time.perf_counter()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begun, result


def trainer(
    model: Any,
    tokenizer: Any,
    pieces: list[SubwordPair],
    settings: FineTuningSettings,
    rate: float,
) -> Any:
    rows = [
        {"input_ids": list(each.source), "labels": list(each.target)} for each in pieces
    ]
    arguments = Seq2SeqTrainingArguments(
        output_dir=tempfile.mkdtemp(),
        max_steps=settings.steps,
        per_device_train_batch_size=settings.batch_size,
        learning_rate=rate,
        lr_scheduler_type="constant",
        optim="adafactor" if settings.optimizer == "adafactor" else "adamw_torch_fused",
        max_grad_norm=settings.clip or 0.0,
        bf16=torch.cuda.is_available(),
        seed=settings.seed,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    collator = DataCollatorForSeq2Seq(tokenizer, model=model, pad_to_multiple_of=8)
    return Seq2SeqTrainer(
        model=model, args=arguments, train_dataset=rows, data_collator=collator
    )


def plain_predictions(seq2seq: Seq2seq, sources: list[str], size: int) -> list[str]:
    answers: list[str] = []
    for start in range(0, len(sources), size):
        texts = [
            seq2seq.settings.prefix + source for source in sources[start : start + size]
        ]
        batch = seq2seq.tokenizer(texts, padding=True, return_tensors="pt").to(
            seq2seq.device
        )
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        ids = seq2seq.model.generate(
            **inputs,
            do_sample=False,
            num_beams=seq2seq.settings.beams,
            max_new_tokens=seq2seq.settings.longest_target,
        )
        answers += seq2seq.tokenizer.batch_decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
    return [seq2seq.spelling.decode(answer) for answer in answers]


def measured(asked: argparse.Namespace) -> dict[str, Any]:
    train, test = read_examples(asked.train), read_examples(asked.test)
    settings = Seq2seqSettings(model=asked.model, beams=asked.beams)
    training = FineTuningSettings(
        steps=asked.steps,
        batch_size=asked.batch_size,
        optimizer=asked.optimizer,
        learning_rate=asked.rate,
    )
    fine_tuning = FineTuning(train, settings, training)
    objective: Any = fine_tuning.trainer.objective
    ours, records = seconds(lambda: list(fine_tuning.steps()))
    subwords = sum(
        objective.sizes[number][0] for step in objective.batches() for number in step
    )
    seq2seq = fine_tuning.seq2seq
    sources = [example.source for example in test]
    plain_predictions(
        seq2seq, sources[:8], 8
    )  # whoever is first would pay for what a GPU loads late
    predicting, answers = seconds(lambda: seq2seq.predict(sources))
    plainly, plain = seconds(
        lambda: plain_predictions(seq2seq, sources, asked.batch_size)
    )
    at_once, _ = seconds(lambda: plain_predictions(seq2seq, sources, len(sources)))
    model, tokenizer = load_pretrained(asked.model)
    rival = trainer(
        model,
        tokenizer,
        list(objective.corpus.examples),
        training,
        fine_tuning.trainer.rate.peak,
    )
    theirs, outcome = seconds(rival.train)
    mean_subwords = sum(size[0] for size in objective.sizes) / len(objective.sizes)
    their_subwords = mean_subwords * len(train) * float(outcome.metrics["epoch"])
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "model": Path(asked.model).name,
        "steps": asked.steps,
        "batch_size": asked.batch_size,
        "ours": {
            "steps_per_s": asked.steps / ours,
            "target_subwords_per_s": subwords / ours,
            "loss": sum(step.loss for step in records) / len(records),
            "predictions_per_s": len(sources) / predicting,
        },
        "transformers": {
            "steps_per_s": asked.steps / theirs,
            "target_subwords_per_s": their_subwords / theirs,
            "loss": outcome.training_loss,
            "predictions_per_s": len(sources) / plainly,
            "predictions_per_s_in_one_batch": len(sources) / at_once,
        },
        "equal_predictions": sum(
            one == other for one, other in zip(answers, plain, strict=True)
        )
        / len(sources),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("train", type=Path)
    arguments.add_argument("test", type=Path)
    arguments.add_argument("--model", required=True)
    arguments.add_argument("--steps", type=int, default=200)
    arguments.add_argument("--batch-size", type=int, default=128)
    arguments.add_argument("--optimizer", default="adafactor")
    arguments.add_argument("--rate", type=float, default=None)
    arguments.add_argument("--beams", type=int, default=1)
    arguments.add_argument("--json", type=Path, default=None)
    asked = arguments.parse_args()
    with quiet_transformers():
        found = measured(asked)
    print(json.dumps(found, indent=1))
    if asked.json:
        asked.json.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
