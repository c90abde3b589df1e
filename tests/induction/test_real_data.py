"""SCAN and GeoQuery: small grammars that cover the test sets, at least as good as the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from nqg.data.dataset import Dataset
from nqg.data.example import Example
from nqg.grammar.grammar import Grammar
from nqg.induction.corpus import underivable
from nqg.induction.description_length import description_length
from nqg.induction.induce import Induction, induce
from nqg.induction.settings import InductionSettings
from nqg.model.forests import build_forests
from nqg.paper.datasets import load_dataset

SCAN = InductionSettings.named("scan")
GEOQUERY = InductionSettings.named("geoquery")
MOST_SCAN_RULES = 22


@cache
def dataset(name: str, mirror: Path) -> Dataset:
    return load_dataset(name, mirror)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many sources have a derivation, and how many of those yield the target."""

    sources: int
    pairs: int


def coverage(grammar: Grammar, examples: Sequence[Example]) -> Coverage:
    forests = build_forests(grammar, examples)
    return Coverage(
        *(
            int(np.count_nonzero(np.diff(graph.first_node)))
            for graph in (forests.full, forests.goal)
        )
    )


@pytest.mark.parametrize("split", ["jump", "turn-left", "length", "mcd1"])
@pytest.mark.parametrize(
    "seed",
    [None, *range(10)],
    ids=lambda seed: "exact" if seed is None else f"seed{seed}",
)
def test_a_small_scan_grammar_derives_all_pairs(
    real_data: Path, split: str, seed: int | None
) -> None:
    train, test = dataset("scan", real_data).split(split)
    settings = SCAN if seed is None else SCAN.changed(sample=10, seed=seed)
    grammar = induce(train, settings)
    assert len(grammar) <= MOST_SCAN_RULES
    assert not underivable(grammar, test)
    assert not underivable(grammar, train)


@pytest.mark.parametrize("split", ["standard", "template", "length", "tmcd"])
def test_geoquery_grammars_are_at_least_as_good_as_the_published_ones(
    real_data: Path, reference_grammars: Path, split: str
) -> None:
    train, test = dataset("geoquery", real_data).split(split)
    ours, theirs = (
        induce(train, GEOQUERY),
        Grammar.read(reference_grammars / f"geoquery-{split}.rules.txt"),
    )
    assert not underivable(ours, train)
    assert (
        description_length(ours, train, GEOQUERY).total
        <= description_length(theirs, train, GEOQUERY).total
    )
    our_coverage, their_coverage = coverage(ours, test), coverage(theirs, test)
    assert our_coverage.sources >= their_coverage.sources
    assert our_coverage.pairs >= their_coverage.pairs


def test_with_full_weight_the_description_length_of_geoquery_falls_at_every_step(
    real_data: Path,
) -> None:
    train, _ = dataset("geoquery", real_data).split("length")
    induction = Induction(train, GEOQUERY.changed(data_weight=1.0))
    before = induction.length.total
    for step in induction.steps():
        assert step.saved.total == pytest.approx(before - step.length.total, abs=1e-6)
        assert step.length.total < before
        before = step.length.total
    recomputed = description_length(induction.grammar, train, GEOQUERY)
    assert recomputed.total == pytest.approx(induction.length.total)
