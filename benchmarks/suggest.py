"""How many labels `nqg suggest` saves: a simulated annotator, who labels what is suggested or what is drawn at random.

Begins with a few random pairs of a dataset's training part; in each round the annotator labels the next ones, a parser
is trained from scratch, and answers the test part. Prints a curve of accuracy over labels for both ways to choose.

    python benchmarks/suggest.py geoquery --mirror ../shared/data
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from nqg import Example, Grammar, InductionSettings, Parser, TrainingSettings, induce, load_dataset
from nqg.answers import exact_match
from nqg.data.examples import distinct_pairs
from nqg.evaluation.calibration import HeldOut, fitted_calibrator, fold_trials, folds, used_rules
from nqg.evaluation.suggestions import suggestions
from nqg.grammar.type_inference import infer_target_grammar

SETTINGS = {
    "geoquery": ("standard", InductionSettings.named("geoquery"), 80, 40, 320),
    "cogs": ("standard", InductionSettings(max_non_terminals=4, repeated_targets=True), 100, 50, 400),
}
POOL, TESTED = 2000, 1000  # pairs of a large dataset
Choose = Callable[[Parser, Sequence[Example], int, random.Random], list[Example]]


def trained(examples: Sequence[Example], induction: InductionSettings, seed: int) -> Parser:
    """A parser with confidence from three folds, in which the rules stay those that their examples need."""
    training = TrainingSettings(steps=96, warm_up=32, seed=seed)
    legal = infer_target_grammar(example.target_tokens for example in examples)
    grammar = induce(examples, induction)

    def parser(rules: Grammar, part: Sequence[Example], steps: int) -> Parser:
        return Parser.train(rules, part, target_grammar=legal, training=replace(training, steps=steps), device="cpu")

    found = []
    for split in folds(examples, HeldOut.TEMPLATE, 3, seed=seed):
        found += fold_trials(examples, split, lambda part: parser(used_rules(grammar, part), part, 48))
    whole = parser(grammar, examples, training.steps)
    return Parser(replace(whole.model, calibrator=fitted_calibrator(whole, examples, found)))


def suggested(parser: Parser, pool: Sequence[Example], count: int, rng: random.Random) -> list[Example]:
    by_source = {" ".join(example.source.split()): example for example in pool}
    chosen = [by_source[each.source] for each in suggestions(parser, by_source, count)]
    rest = [example for example in pool if example not in chosen]
    return chosen + rng.sample(rest, min(len(rest), count - len(chosen)))


def drawn(parser: Parser, pool: Sequence[Example], count: int, rng: random.Random) -> list[Example]:
    return rng.sample(list(pool), min(len(pool), count))


def curve(name: str, choose: Choose, mirror: Path, seed: int) -> list[tuple[int, float]]:
    split, induction, first, more, most = SETTINGS[name]
    train, test = load_dataset(name, mirror).split(split)
    rng = random.Random(seed)
    pool = distinct_pairs(train)
    pool = rng.sample(pool, min(POOL, len(pool)))
    test = random.Random(0).sample(list(test), min(TESTED, len(test)))
    labelled, points = pool[:first], list[tuple[int, float]]()
    while True:
        parser = trained(labelled, induction, seed)
        answers = parser.answers(example.source for example in test)
        right = sum(exact_match(each.target, example.target) for each, example in zip(answers, test, strict=True))
        points.append((len(labelled), right / len(test)))
        print(f"{name} {choose.__name__:9} seed {seed}: {points[-1][0]:4} labels, {points[-1][1]:.1%}", flush=True)
        if len(labelled) >= most:
            return points
        left = [example for example in pool if example not in labelled]
        labelled = labelled + choose(parser, left, more, rng)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("name", choices=SETTINGS)
    options.add_argument("--mirror", type=Path, default=Path("../shared/data"))
    options.add_argument("--seeds", type=int, default=3)
    given = options.parse_args()
    began = time.process_time()
    means = {}
    for choose in (suggested, drawn):
        curves = [curve(given.name, choose, given.mirror, seed) for seed in range(given.seeds)]
        means[choose] = {labels: statistics.mean(dict(each)[labels] for each in curves) for labels, _ in curves[0]}
    print("labels  suggested  at random")
    for labels, share in means[suggested].items():
        print(f"{labels:6}  {share:9.1%}  {means[drawn][labels]:9.1%}")
    print(f"{time.process_time() - began:.0f} s of CPU time")


if __name__ == "__main__":
    main()
