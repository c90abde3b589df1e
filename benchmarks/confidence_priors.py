"""The weights that confidence begins with: one regression over the held-out sentences of many datasets.

    python benchmarks/confidence_priors.py --mirror ../shared/data [--seq2seq FOLDER]

trains every dataset of `real_use.py` without test sentences, reads what the folds of each left in
its run folder, and prints the weights that fit all of them together (every dataset counts alike),
with the log loss of held-out sentences for several strengths of that prior. Without --seq2seq the
weights are those of the grammar alone. Ten datasets take an hour on two cores without a second
reader, and ten minutes on a GPU machine with one.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path

import numpy as np

import nqg
from nqg.model import confidence
from nqg.model.confidence import HeldOutSentence, Weights
from nqg.pipeline.confidence import FoldTrials
from nqg.settings_reader import read_dataclass
from real_use_datasets import RealDataset, load_datasets

# The grammar of these datasets is not induced within minutes.
SLOW = ("overnight-calendar", "overnight-blocks")
# Every dataset counts as so many candidates.
WEIGHT = 100.0
# Of the regression over all datasets, whose prior is 0.
POOLED_PRECISION = 0.05
STRENGTHS = (0.1, 0.5, 1.0, 3.0, 10.0)


def trained_folds(
    dataset: RealDataset, folder: Path, seq2seq: str | None, device: str | None
) -> list[HeldOutSentence]:
    """The held-out sentences of all folds, from the run folder if an earlier run left them."""
    settings = nqg.TrainSettings()
    if dataset.settings:
        settings = nqg.TrainSettings.read(dataset.settings)
    run_folder = folder / dataset.name
    nqg.train(
        dataset.train,
        settings=settings,
        seq2seq=seq2seq,
        device=device,
        run_folder=run_folder,
    )
    sentences: list[HeldOutSentence] = []
    for path in sorted(run_folder.glob("fold-*.json")):
        stored = json.loads(path.read_text(encoding="utf-8"))["result"]
        sentences += read_dataclass(FoldTrials, stored, "the fold", path).sentences
    return sentences


def regression(
    datasets: Sequence[Sequence[HeldOutSentence]], prior: Weights, precision: float
) -> Weights:
    """The weights that fit datasets; of several, each counts alike."""
    rows: list[tuple[float, ...]] = []
    rights: list[float] = []
    counts: list[float] = []
    for sentences in datasets:
        in_scope = sum(sentence.is_in_scope for sentence in sentences)
        share = confidence.OUT_OF_SCOPE_SHARE * in_scope
        share /= max(len(sentences) - in_scope, 1)
        own: list[float] = []
        for sentence in sentences:
            for trial in sentence.candidates:
                rows.append(trial.evidence.features())
                rights.append(float(trial.is_right))
                own.append(1.0 if sentence.is_in_scope else share)
        total = WEIGHT if len(datasets) > 1 else sum(own)
        counts += [total * count / sum(own) for count in own]
    fitted = confidence.newton(
        np.array(rows),
        np.array(rights),
        np.array(counts),
        np.array(astuple(prior)),
        precision,
    )
    return Weights(*fitted.tolist())


def pooled(datasets: Sequence[Sequence[HeldOutSentence]]) -> Weights:
    """The weights of all datasets together."""
    return regression(
        datasets, Weights(*[0.0] * len(fields(Weights))), POOLED_PRECISION
    )


def log_loss(sentences: Sequence[HeldOutSentence], weights: Weights) -> float:
    """The mean log loss of the best candidates for sentences in scope."""
    losses = []
    for sentence in sentences:
        if not sentence.is_in_scope:
            continue
        chance, is_right = 0.0, False
        for trial in sentence.candidates:
            trial_chance = weights.confidence(trial.evidence)
            if trial_chance > chance:
                chance, is_right = trial_chance, trial.is_right
        losses.append(-math.log(max(chance if is_right else 1 - chance, 1e-6)))
    return sum(losses) / max(len(losses), 1)


def cross_validated(
    sentences: Sequence[HeldOutSentence],
    prior: Weights,
    strength: float,
    folds: int = 5,
) -> float:
    """The log loss where weights are fitted to other sentences of a dataset, with a prior."""
    losses = []
    for fold in range(folds):
        others = [each for at, each in enumerate(sentences) if at % folds != fold]
        weights = regression([others], prior, strength)
        losses.append(log_loss(sentences[fold::folds], weights))
    return sum(losses) / folds


def print_figures(found: Mapping[str, Sequence[HeldOutSentence]]) -> None:
    weights = pooled(list(found.values()))
    for field, value in zip(fields(Weights), astuple(weights)):
        print(f"{field.name:18} {value:5.1f}")
    # Each dataset is judged with a prior that the others taught.
    for strength in STRENGTHS:
        losses = []
        for name, sentences in found.items():
            others = [each for other, each in found.items() if other != name]
            prior = pooled(others) if others else weights
            losses.append(cross_validated(sentences, prior, strength))
        print(f"strength {strength:4}: log loss {sum(losses) / len(losses):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mirror", type=Path, default=Path("../shared/data"))
    parser.add_argument("--folder", type=Path, default=Path("confidence_priors"))
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--seq2seq", help="folder of an encoder-decoder's weights")
    parser.add_argument("--device")
    chosen = parser.parse_args()
    found = {}
    datasets = load_datasets(chosen.mirror, chosen.folder / "data")
    for dataset in datasets.values():
        is_chosen = dataset.name not in SLOW
        if chosen.datasets:
            is_chosen = dataset.name in chosen.datasets
        if is_chosen:
            found[dataset.name] = trained_folds(
                dataset, chosen.folder, chosen.seq2seq, chosen.device
            )
            print(f"{dataset.name}: {len(found[dataset.name])} held-out sentences")
    print_figures(found)


if __name__ == "__main__":
    main()
