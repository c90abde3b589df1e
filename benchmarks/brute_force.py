"""The mathematics against brute force, on random grammars: far more of them than the tests look at.

    python benchmarks/brute_force.py --grammars 1000

Half are grammars of targets: exactly the strings of the language, enumerated up to four tokens, are accepted. Others
are grammars of pairs, with random scores: the number of derivations, the best one and the probability of its target are
those of all derivations, enumerated. Prints how many grammars differ; the exit code is 1 where one does.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from nqg.grammar.chart import charts
from nqg.grammar.grammar import Grammar, Rule
from nqg.grammar.hypergraph import NodeId
from nqg.grammar.semirings import derivation_counts
from nqg.inference.decoding import ScoredCharts
from nqg.slots.instantiate import instantiate_slots
from nqg.types.target_grammar import Category, Production, TargetGrammar, TargetSymbol
from oracles import all_derivations, target_languages

ALPHABET, LONGEST = ("a", "b", "unknown"), 4
MOST = 2_000  # derivations of a sentence that are enumerated


def random_target_grammar(rng: random.Random) -> TargetGrammar:
    """Up to four categories; the first production of each uses only later ones, so that it derives something."""
    categories = [Category(name) for name in "ABCD"[: rng.randint(1, 4)]]
    productions = []
    for number, category in enumerate(categories):
        later: list[TargetSymbol] = ["a", "b", *categories[number + 1 :]]
        anything: list[TargetSymbol] = ["a", "b", *categories]
        rights = [rng.choices(later, k=rng.randint(1, 2))]
        rights += [
            rng.choices(anything, k=rng.randint(1, 3)) for _ in range(rng.randint(0, 3))
        ]
        productions += [Production(category, tuple(right)) for right in rights]
    return TargetGrammar(tuple(productions))


def accepts_its_language(grammar: TargetGrammar) -> bool:
    language = target_languages(grammar.productions, ALPHABET, longest=LONGEST)[
        grammar.start
    ]
    strings = (
        string
        for length in range(LONGEST + 1)
        for string in product(ALPHABET, repeat=length)
    )
    return {string for string in strings if grammar.accepts(string)} == language


def random_grammar(rng: random.Random) -> Grammar:
    """Rules for three words, some of them twice, and a few that join or copy parts."""
    words = [
        f"{word} ### {target}"
        for word in "abc"
        for target in rng.sample("XYZ", rng.randint(1, 2))
    ]
    shapes = [
        "NT_1 twice ### NT_1 NT_1",
        "NT_1 NT_2 ### NT_2 NT_1",
        "NT_1 NT_2 ### NT_1 NT_2",
        "a NT_1 ### NT_1 W",
    ]
    shapes += [
        "NT_1 and NT_2 ### NT_1 NT_2",
        "NT_1 and NT_2 ### NT_2 NT_1",
        "and NT_1 ### NT_1",
        "b c ### V",
    ]
    rules = [*words, *rng.sample(shapes, rng.randint(1, 5))]
    return Grammar(tuple(map(Rule.parse, rules)))


def agrees(grammar: Grammar, rng: random.Random) -> bool:
    source = tuple(rng.choices(["a", "b", "c", "and", "twice"], k=rng.randint(1, 6)))
    full = charts(grammar, [source])
    found = list(all_derivations(grammar, source))
    if derivation_counts(full) != [len(found)] or not 0 < len(found) <= MOST:
        return derivation_counts(full) == [len(found)]
    table = np.random.default_rng(rng.randrange(1 << 30)).normal(
        0, 2, (full.nodes, len(grammar))
    )
    spans = {full.span(NodeId(node)): node for node in range(full.nodes)}
    numbers = {rule: number for number, rule in enumerate(grammar)}
    totals = {
        derivation: sum(
            float(table[spans[each.span], numbers[each.rule]])
            for each in derivation.hyperedges
        )
        for derivation in found
    }
    scored = ScoredCharts(
        instantiate_slots(grammar, []), full, table[full.owners(), full.rules]
    )
    (best,) = scored.best()
    everything = sum(map(math.exp, totals.values()))
    share = (
        sum(
            math.exp(total)
            for each, total in totals.items()
            if each.target == best.target
        )
        / everything
    )
    is_best = math.isclose(totals[best], max(totals.values()))
    return is_best and math.isclose(
        float(scored.probabilities([best.target], [0])[0]), share, rel_tol=1e-9
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--grammars", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, wrong = random.Random(options.seed), []
    for number in range(options.grammars):
        if number % 2:
            legal = random_target_grammar(rng)
            wrong += [] if accepts_its_language(legal) else [str(legal)]
        else:
            grammar = random_grammar(rng)
            wrong += (
                []
                if all(agrees(grammar, rng) for _ in range(5))
                else ["\n".join(map(str, grammar))]
            )
    print(f"{options.grammars:,} grammars, {len(wrong)} of them not as by brute force")
    for each in wrong[:3]:
        print(each)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
