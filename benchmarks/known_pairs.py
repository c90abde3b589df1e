"""Which reading: by the scores of a model alone, or with pairs of rules that training had before new ones.

python benchmarks/known_pairs.py MODEL EXAMPLES.tsv

All answers count, however unsure.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from nqg import Parser
from nqg.answers import exact_match
from nqg.data.examples import read_examples


def main(folder: str, file: str) -> None:
    parser, examples = Parser.load(folder, "cpu"), read_examples(file)
    parser = parser.with_options(replace(parser.options, least_confidence=0.0))
    alone = Parser(replace(parser.model, calibrator=None))
    for system, name in ((alone, "by scores alone"), (parser, "with the pairs of training")):
        answers = list(system.answers(example.source for example in examples))
        right = sum(exact_match(each.target, example.target) for each, example in zip(answers, examples, strict=True))
        answered = sum(each.target is not None for each in answers)
        print(f"{name}: {right:,} right of {answered:,} answers to {len(examples):,} sentences")


if __name__ == "__main__":
    main(*sys.argv[1:])
