"""Sentences longer than all of training: a verb-final language whose longest sentences are held out.

python benchmarks/longer_sentences.py [SEED …]

Clauses are joined to the right, by words that repeat, turn round or keep what they join. The grammar is induced, a
model from scratch chooses among the derivations: by its scores alone, and as a model of `nqg train` does, which knows
what training had and puts readings with new pairs of rules behind others. What is right is counted by number of words.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from nqg import Example, Parser, induce
from nqg.evaluation.calibration import fitted_calibrator
from nqg.model.settings import TrainingSettings
from nqg.splits.split import split

VERBS = {"dak": "DAK", "mip": "MIP", "tuf": "TUF", "wep": "WEP"}
TIMES = {"du": 2, "tri": 3}
DIRECTIONS = {"lo": "LEFT", "ri": "RIGHT"}
JOINED = {"be": "{0} {1}", "na": "{1} {0}", "ek": "{0} {1} {0}"}
EXAMPLES, NESTED = 2500, 0.3  # of which as many have three clauses


def clauses() -> list[Example]:
    found = [Example(*pair) for pair in VERBS.items()]
    found += [
        Example(f"{word} {verb.source}", " ".join([verb.target] * times))
        for verb in tuple(found)
        for word, times in TIMES.items()
    ]
    for each in tuple(found):
        for word, turn in DIRECTIONS.items():
            found.append(Example(f"{word} ta {each.source}", f"{turn} {each.target}"))
            found.append(Example(f"{word} opi {each.source}", f"{turn} {turn} {each.target}"))
            found.append(Example(f"{word} gur {each.source}", " ".join([f"{turn} {each.target}"] * 4)))
    return found


def language(seed: int = 0) -> list[Example]:
    rng, parts = random.Random(seed), clauses()

    def joined(left: Example, right: Example) -> Example:
        word, form = rng.choice(list(JOINED.items()))
        return Example(f"{left.source} {word} {right.source}", form.format(left.target, right.target))

    found = dict.fromkeys(parts)
    while len(found) < EXAMPLES:
        pair = joined(rng.choice(parts), rng.choice(parts))
        found[joined(rng.choice(parts), pair) if rng.random() < NESTED else pair] = None
    return list(found)


def right_by_length(parser: Parser, test: Sequence[Example]) -> Counter[int]:
    answers = zip(test, parser.answers(example.source for example in test), strict=True)
    return Counter(len(each.source_tokens) for each, answer in answers if answer.target == each.target)


def main() -> None:
    parts = split(language(), "length", test=0.3).parts(language())
    grammar, asked = induce(parts.train), Counter(len(each.source_tokens) for each in parts.test)
    longest = max(len(each.source_tokens) for each in parts.train)
    print(f"{len(parts.train):,} examples of up to {longest} words, {len(grammar)} rules")
    for seed in map(int, sys.argv[1:] or ["0"]):
        parser = Parser.train(grammar, parts.train, training=TrainingSettings(seed=seed), device="cpu")
        knowing = Parser(replace(parser.model, calibrator=fitted_calibrator(parser, parts.train, [])))
        for system, name in ((parser, "by scores alone"), (knowing, "with the pairs of training")):
            right = right_by_length(system, parts.test)
            shown = ", ".join(f"{length} words {right[length]} of {asked[length]}" for length in sorted(asked))
            print(f"seed {seed}, {name}: {right.total() / asked.total():.1%} right; {shown}", flush=True)


if __name__ == "__main__":
    main()
