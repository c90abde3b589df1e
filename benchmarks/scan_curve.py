"""The learning curve of SCAN: accuracy of the paper's NQG on commands that were not drawn.

    python benchmarks/scan_curve.py --sizes 50 100 200 --draws 5

For each size and draw, that many of SCAN's 20,910 commands are drawn, a grammar is induced with the
recipe's settings, the parser is trained from scratch, and asked for some of the other commands.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from functools import partial

from nqg.evaluation.evaluation import ExactJudge
from nqg.paper.datasets import load_dataset
from nqg.paper.recipe import read_recipe
from nqg.paper.systems import RecipeData, SystemTask, run_nqg
from nqg.parallel import Engine
from nqg.pipeline.run import Run

SIZES = (25, 50, 100, 200, 400, 800)


def accuracy_of(asked: int, drawn: tuple[int, int]) -> tuple[float, float]:
    """Accuracy after one draw of `size` commands, and the number of rules."""
    size, draw = drawn
    examples = list(load_dataset("scan").examples)
    random.Random(draw).shuffle(examples)
    train, test = examples[:size], examples[size : size + asked]
    recipe = read_recipe("scan-length")
    judge = ExactJudge()
    data = RecipeData(recipe, tuple(train), tuple(test), {}, {"exact": judge})
    result = run_nqg(SystemTask(data, "embedded", draw, Run()))
    right = [
        answer.target is not None and judge.is_right(answer.target, example)
        for answer, example in zip(result.answers, test, strict=True)
    ]
    return sum(right) / len(right), result.figures["rules"]


def asking(asked: int) -> Callable[[tuple[int, int]], tuple[float, float]]:
    """What each worker does."""
    return partial(accuracy_of, asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--asked", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    tasks = [(size, draw) for size in given.sizes for draw in range(given.draws)]
    engine = Engine(workers=given.workers)
    found = dict(zip(tasks, engine.map(partial(asking, given.asked), tasks)))
    print("| commands | rules | accuracy of each draw, % | draws with 100 % |")
    print("|--:|--:|---|--:|")
    for size in given.sizes:
        outcomes = [found[size, draw] for draw in range(given.draws)]
        shares = " / ".join(f"{100 * accuracy:.1f}" for accuracy, _ in outcomes)
        rules = " / ".join(f"{count:.0f}" for _, count in outcomes)
        whole = sum(accuracy == 1 for accuracy, _ in outcomes)
        print(f"| {size:,} | {rules} | {shares} | {whole} of {given.draws} |")


if __name__ == "__main__":
    main()
