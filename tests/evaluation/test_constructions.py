"""Constructions that are held out: pairs of rules, with enough examples left of both rules."""

from __future__ import annotations

import numpy as np
import pytest

from nqg import Grammar
from nqg.evaluation.constructions import FEWEST_LEFT, construction_split, constructions
from nqg.grammar.derivation import Derivation
from nqg.grammar.semirings import best_derivations
from nqg.inference.charts import BatchCharts
from nqg.model.confidence import ROOT_PARENT, RulePair

GRAMMAR = Grammar.parse(
    "NT_1 twice ### NT_1 NT_1\nNT_1 and NT_2 ### NT_1 NT_2\njump ### JUMP\nwalk ### WALK"
)
# Each of five rules below each of four others, often.
PAIRS = [RulePair(parent, 0, child) for parent in range(4) for child in range(5, 10)]
PAIRS_OF = [[PAIRS[number % 20]] for number in range(400)]


def derivation(sentence: str) -> Derivation:
    forest = BatchCharts.of(GRAMMAR, [tuple(sentence.split())])
    grammar, graph = forest.grammar, forest.forests
    (best,) = best_derivations(grammar, graph, np.zeros(graph.hyperedges))
    assert best is not None
    return best.derivation


def test_words_are_no_construction() -> None:
    joined, twice = (
        next(at for at, rule in enumerate(GRAMMAR) if word in rule.source)
        for word in ("and", "twice")
    )
    numbers = GRAMMAR.numbers
    found = constructions(derivation("jump twice and walk"), numbers)
    assert found & {RulePair(joined, 0, twice), RulePair(twice, 0, joined)}
    assert all(GRAMMAR[pair.child].arity for pair in found)
    assert constructions(derivation("jump"), numbers) == frozenset()
    assert constructions(derivation("jump twice"), numbers) == {
        RulePair(ROOT_PARENT, 0, twice)
    }


def test_no_example_of_a_construction_is_left_and_enough_of_its_rules_are() -> None:
    split, new = construction_split(PAIRS_OF, 30, seed=0)
    held_out = {pair for at in new for pair in PAIRS_OF[at]}
    trained = [pair for at in split.train for pair in PAIRS_OF[at]]
    assert len(held_out) == 4
    assert held_out.isdisjoint(trained)
    for pair in held_out:
        assert sum(pair.parent == each.parent for each in trained) >= FEWEST_LEFT
        assert sum(pair.child == each.child for each in trained) >= FEWEST_LEFT
    assert len(new) == 30
    assert len(split.test) == 60


@pytest.mark.parametrize("times", [1, FEWEST_LEFT - 1])
def test_the_only_examples_of_a_rule_stay(times: int) -> None:
    rare = RulePair(0, 1, 11)
    split, new = construction_split([*PAIRS_OF, *[[rare]] * times], 500, seed=0)
    assert not any(rare in ([*PAIRS_OF, *[[rare]] * times][at]) for at in new)
    assert set(split.train).isdisjoint(split.test)


def test_the_same_seed_holds_out_the_same() -> None:
    splits = [construction_split(PAIRS_OF, 30, seed=seed)[0] for seed in (1, 1, 2)]
    assert splits[0] == splits[1] != splits[2]
