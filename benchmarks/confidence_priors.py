"""The weights that confidence begins with: one regression over the held-out sentences of many datasets.

    python benchmarks/confidence_priors.py --mirror ../shared/data [--seq2seq FOLDER] [--thresholds]

trains every dataset of `real_use.py` without test sentences, reads what the folds of each left in
its run folder, and prints the weights that fit all of them together (every dataset counts alike),
with the log loss of held-out sentences for several strengths of that prior. Without --seq2seq the
weights are those of the grammar alone. Eleven datasets take an hour on two cores without a second
reader, and ten minutes on a GPU machine with one.

With --call-reader the datasets are those of `call_reader.py`, models have a call reader, and only its
weights are fitted, beside those that the grammar has.

With --thresholds it compares rules that choose the threshold, on the same held-out sentences. Weights
and threshold are fitted to a random four fifths of them, and judged by the others: for each rule and
dataset it prints the share of sentences that are answered, the share of the answers that are right,
and the standard deviation of the threshold over repetitions, which says how much the rule jumps.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

import numpy as np

import nqg
from call_reader import SETS as CALL_SETS
from call_reader import training_pairs
from nqg.evaluation.calibration import (
    EVEN_ODDS,
    Outcome,
    are_precise,
    expectation,
    outcomes,
)
from nqg.grammar.arrays import FloatArray
from nqg.model import confidence
from nqg.model.confidence import (
    NO_CALL_FEATURES,
    PRIORS,
    HeldOutSentence,
    Weights,
)
from nqg.pipeline.confidence import FoldTrials
from nqg.settings_reader import read_dataclass
from real_use_datasets import EXAMPLES, Folder, RealDataset, load_datasets

# The grammar of these datasets is not induced within minutes.
SLOW = ("overnight-calendar", "overnight-blocks")
# Every dataset counts as so many candidates.
WEIGHT = 100.0
# Of the regression over all datasets, whose prior is 0.
POOLED_PRECISION = 0.05
# Of weights that stay as they are.
FIXED_PRECISION = 1e6
STRENGTHS = (0.1, 0.5, 1.0, 3.0, 10.0)
# Of thresholds: what is wanted, how often sentences are divided, and how many choose.
WANTED = (0.95, 0.9)
REPETITIONS = 40
CHOOSING_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Rule:
    """When answers are precise enough, given how many are right, how many there are, the sum of
    their confidences, and the precision that is wanted; and the least confidence of an answer.
    """

    is_enough: Callable[[int, int, float, float], bool]
    least: float = EVEN_ODDS


def laplace(right: int, answers: int, total: float, wanted: float) -> bool:
    return (right + 1) / (answers + 2) >= wanted


def share_right(right: int, answers: int, total: float, wanted: float) -> bool:
    return right / answers >= wanted


def mean_confidence(right: int, answers: int, total: float, wanted: float) -> bool:
    return total / answers >= wanted


def half_deviation(right: int, answers: int, total: float, wanted: float) -> bool:
    return are_precise(right, answers, wanted)


def one_deviation(right: int, answers: int, total: float, wanted: float) -> bool:
    deviation = math.sqrt(answers * wanted * (1 - wanted))
    return right >= answers * wanted - deviation


RULES = {
    "one more right and wrong, from 0 on": Rule(laplace, 1e-9),
    "share right": Rule(share_right),
    "mean confidence": Rule(mean_confidence),
    "half a standard deviation (default)": Rule(half_deviation),
    "one standard deviation": Rule(one_deviation),
}


def trained_folds(
    dataset: RealDataset,
    folder: Path,
    seq2seq: str | None,
    device: str | None,
    *,
    call_reader: bool = False,
) -> list[HeldOutSentence]:
    """The held-out sentences of all folds, from the run folder if an earlier run left them."""
    settings = nqg.TrainSettings()
    if dataset.settings:
        settings = nqg.TrainSettings.read(dataset.settings)
    if call_reader:
        text = replace(settings.text, call_reader="auto")
        settings = replace(settings, text=text)
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
    features, rights, counts = evidence(datasets)
    fitted = confidence.newton(
        features, rights, counts, np.array(astuple(prior)), precision
    )
    return Weights(*fitted.tolist())


def evidence(
    datasets: Sequence[Sequence[HeldOutSentence]],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The features of all candidates, whether each is right, and how much it counts."""
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
    return np.array(rows), np.array(rights), np.array(counts)


def pooled(datasets: Sequence[Sequence[HeldOutSentence]]) -> Weights:
    """The weights of all datasets together."""
    return regression(
        datasets, Weights(*[0.0] * len(fields(Weights))), POOLED_PRECISION
    )


def with_call_weights(datasets: Sequence[Sequence[HeldOutSentence]]) -> Weights:
    """The weights of the grammar alone, and those of the call reader that fit all datasets."""
    own = np.array(astuple(PRIORS[False]))
    calls = len(NO_CALL_FEATURES)
    prior = np.concatenate([own[:-calls], np.zeros(calls)])
    precisions = np.full(len(own), FIXED_PRECISION)
    precisions[-calls:] = POOLED_PRECISION
    # A weight of another precision is that of a feature on another scale.
    scales = np.sqrt(precisions / POOLED_PRECISION)
    rows, rights, counts = evidence(datasets)
    fitted = confidence.newton(
        rows / scales, rights, counts, prior * scales, POOLED_PRECISION
    )
    return Weights(*(fitted / scales).tolist())


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


def threshold(tried: Sequence[Outcome], rule: Rule, wanted: float) -> float:
    """The smallest confidence from which on a rule is content; even odds if there is none."""
    least = EVEN_ODDS
    right, total = 0, 0.0
    ranked = sorted(
        (each for each in tried if each.confidence >= rule.least), reverse=True
    )
    for count, outcome in enumerate(ranked, start=1):
        right += outcome.is_right
        total += outcome.confidence
        is_last = count == len(ranked) or ranked[count].confidence < outcome.confidence
        if is_last and rule.is_enough(right, count, total, wanted):
            least = outcome.confidence
    return least


def judged(
    sentences: Sequence[HeldOutSentence], wanted: float, has_seq2seq: bool
) -> dict[str, tuple[float, float, float]]:
    """For each rule the share answered, the share of these that is right, and how much the
    threshold varies.
    """
    rng = random.Random(0)
    thresholds = {name: list[float]() for name in RULES}
    answered, right = dict.fromkeys(RULES, 0), dict.fromkeys(RULES, 0)
    asked = 0
    for _ in range(REPETITIONS):
        order = rng.sample(sentences, len(sentences))
        size = round(CHOOSING_SHARE * len(order))
        tried = outcomes(order[:size], has_seq2seq=has_seq2seq)
        weights = Weights.fit(order[:size], has_seq2seq=has_seq2seq)
        others = [sentence for sentence in order[size:] if sentence.is_in_scope]
        answers = [surest(sentence, weights) for sentence in others]
        asked += len(others)
        for name, rule in RULES.items():
            thresholds[name].append(threshold(tried, rule, wanted))
            fared = expectation(answers, thresholds[name][-1])
            answered[name] += fared.answered
            right[name] += fared.right
    figures = {}
    for name, chosen in thresholds.items():
        precision = right[name] / max(answered[name], 1)
        figures[name] = answered[name] / asked, precision, float(np.std(chosen))
    return figures


def surest(sentence: HeldOutSentence, weights: Weights) -> Outcome:
    best = Outcome(0.0, False, False)
    for trial in sentence.candidates:
        chance = weights.confidence(trial.evidence)
        if chance > best.confidence:
            best = Outcome(chance, trial.is_right, False)
    return best


def print_thresholds(
    found: Mapping[str, Sequence[HeldOutSentence]], has_seq2seq: bool
) -> None:
    for wanted in WANTED:
        print(f"\n| {wanted:.0%} wanted |", " | ".join(RULES), "|")
        print("|---|" + "--:|" * len(RULES))
        sums = {name: np.zeros(3) for name in RULES}
        for dataset, sentences in found.items():
            figures = judged(sentences, wanted, has_seq2seq)
            print(f"| {dataset} |", " | ".join(map(cell, figures.values())), "|")
            for name, figure in figures.items():
                sums[name] += figure
        means = [tuple(total / len(found)) for total in sums.values()]
        print("| mean |", " | ".join(map(cell, means)), "|", flush=True)


def cell(figure: Sequence[float]) -> str:
    """Share answered, precision, and deviation of the threshold, in per cent."""
    answered, precision, deviation = figure
    return f"{100 * answered:.1f}, {100 * precision:.1f} (± {100 * deviation:.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mirror", type=Path, default=Path("../shared/data"))
    parser.add_argument("--folder", type=Path, default=Path("confidence_priors"))
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--seq2seq", help="folder of an encoder-decoder's weights")
    parser.add_argument("--device")
    parser.add_argument("--call-reader", action="store_true")
    parser.add_argument("--thresholds", action="store_true")
    chosen = parser.parse_args()
    found = {}
    datasets = {}
    if chosen.call_reader:
        for name in CALL_SETS:
            pairs, settings = training_pairs(name, chosen.mirror, chosen.folder)
            datasets[name] = RealDataset(
                name, tuple(pairs), (), frozenset(), settings=settings.file
            )
    else:
        datasets = load_datasets(chosen.mirror, chosen.folder / "data")
        tools = Folder("tools", "tools", EXAMPLES)
        datasets["tools"] = tools.load("tools", chosen.mirror, chosen.folder)
    for dataset in datasets.values():
        is_chosen = dataset.name not in SLOW
        if chosen.datasets:
            is_chosen = dataset.name in chosen.datasets
        if is_chosen:
            found[dataset.name] = trained_folds(
                dataset,
                chosen.folder,
                chosen.seq2seq,
                chosen.device,
                call_reader=chosen.call_reader,
            )
            print(f"{dataset.name}: {len(found[dataset.name])} held-out sentences")
    if chosen.thresholds:
        print_thresholds(found, has_seq2seq=chosen.seq2seq is not None)
    elif chosen.call_reader:
        weights = with_call_weights(list(found.values()))
        for field, value in zip(fields(Weights), astuple(weights)):
            print(f"{field.name:18} {value:5.1f}")
    else:
        print_figures(found)


if __name__ == "__main__":
    main()
