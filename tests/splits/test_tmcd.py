"""TMCD splits of real and of small datasets."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from nqg.data.dataset import Split
from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.errors import NqgError, SettingsError
from nqg.splits.audit import audit
from nqg.splits.compounds import load_language
from nqg.splits.partition import Sizes
from nqg.splits.swap_search import Budget, decomposed, tmcd_search, usual_budget
from nqg.splits.tmcd import Method, TmcdSettings, tmcd_split

FUNQL = load_language("funql")
SMALL = [
    Example("s", f"answer ( {f} ( {g} ( {x} ) ) )")
    for f in "abcd"
    for g in "abcd"
    for x in ("m0", "m1", "all")
]
QUICK = TmcdSettings(moves=5000, restarts=2)
USUAL = Sizes(30, 18)


def small_split(
    seed: int = 0, settings: TmcdSettings = QUICK, sizes: Sizes = USUAL
) -> Split:
    return tmcd_split(SMALL, sizes, FUNQL.decomposition, random.Random(seed), settings)


@pytest.fixture(scope="module")
def geoquery(real_data: Path) -> Sequence[Example]:
    return read_examples(real_data / "geoquery" / "expected_dataset.tsv")


@pytest.mark.parametrize("seed", range(5))
def test_a_tenth_of_the_default_search_reaches_0_45_on_geoquery(
    geoquery: Sequence[Example], seed: int
) -> None:
    split = tmcd_split(
        geoquery,
        Sizes(440, 440),
        FUNQL.decomposition,
        random.Random(seed),
        TmcdSettings(moves=300_000, restarts=4),
    )
    measured = audit(geoquery, split, FUNQL)
    assert (measured.train, measured.test) == (440, 440)
    assert measured.compound_divergence >= 0.45
    assert measured.unseen_atom_examples == 0
    assert split.made_by["compound_divergence"] == pytest.approx(
        measured.compound_divergence, abs=1e-6
    )


def test_a_fiftieth_of_the_default_search_reaches_0_35_on_spider(
    real_data: Path,
) -> None:
    examples, sql = (
        read_examples(real_data / "spider" / "expected_dataset.tsv"),
        load_language("sql"),
    )
    settings = TmcdSettings(moves=400_000, restarts=1)
    split = tmcd_split(
        examples, Sizes(3282, 1094), sql.decomposition, random.Random(0), settings
    )
    measured = audit(examples, split, sql)
    assert measured.compound_divergence >= 0.35
    assert measured.unseen_atom_examples == 0


def test_the_greedy_search_of_the_paper_stops_lower(
    geoquery: Sequence[Example],
) -> None:
    settings = TmcdSettings(method=Method.GREEDY)
    split = tmcd_split(
        geoquery, Sizes(440, 440), FUNQL.decomposition, random.Random(0), settings
    )
    assert 0.15 < audit(geoquery, split, FUNQL).compound_divergence < 0.45
    assert split.made_by["search"] == "greedy"


@pytest.mark.parametrize("aim", [0.05, 0.25, 0.4])
def test_a_chosen_divergence_is_met_on_geoquery(
    geoquery: Sequence[Example], aim: float
) -> None:
    settings = TmcdSettings(target_divergence=aim)
    split = tmcd_split(
        geoquery, Sizes(440, 352, 88), FUNQL.decomposition, random.Random(0), settings
    )
    assert audit(geoquery, split, FUNQL).compound_divergence == pytest.approx(
        aim, abs=0.002
    )


def test_a_bound_on_atom_divergence_holds_on_geoquery(
    geoquery: Sequence[Example],
) -> None:
    settings = TmcdSettings(max_atom_divergence=0.02, moves=300_000, restarts=1)
    split = tmcd_split(
        geoquery, Sizes(440, 440), FUNQL.decomposition, random.Random(0), settings
    )
    measured = audit(geoquery, split, FUNQL)
    assert measured.atom_divergence <= 0.02
    assert (
        measured.compound_divergence > 0.19
    )  # the published split, whose atom divergence is twice as large


def test_three_parts_divide_the_dataset_and_train_has_every_atom() -> None:
    split = small_split(sizes=Sizes(30, 12, 6))
    assert (len(split.train), len(split.test), len(split.dev)) == (30, 12, 6)
    assert sorted(split.train + split.dev + split.test) == list(range(len(SMALL)))
    assert audit(SMALL, split, FUNQL).unseen_atom_examples == 0
    assert audit(SMALL, Split(split.train, split.dev), FUNQL).unseen_atom_examples == 0


def test_parts_are_in_the_order_of_the_dataset() -> None:
    split = small_split(sizes=Sizes(30, 12, 6))
    assert all(
        list(part) == sorted(part) for part in (split.train, split.dev, split.test)
    )


def test_the_seed_alone_decides() -> None:
    assert small_split(1) == small_split(1)
    assert small_split(1).test != small_split(2).test


def test_a_split_says_how_it_was_made() -> None:
    made_by = small_split(
        settings=TmcdSettings(moves=2000, restarts=1, max_atom_divergence=0.5)
    ).made_by
    assert list(made_by) == [
        "method", "search", "max_atom_divergence", "moves", "restarts", "compound_divergence", "atom_divergence"
    ]  # fmt: skip
    assert (made_by["method"], made_by["search"], made_by["moves"]) == (
        "tmcd",
        "annealing",
        2000,
    )


def test_an_unreachable_divergence_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(NqgError) as caught:
        small_split(
            settings=TmcdSettings(target_divergence=0.99, moves=2000, restarts=1)
        )
    assert str(caught.value).startswith(
        "no split with a compound divergence of 0.99 was found, the nearest has 0."
    )


def test_an_unreachable_atom_bound_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(NqgError) as caught:
        small_split(
            settings=TmcdSettings(max_atom_divergence=0.0, moves=2000, restarts=1),
            sizes=Sizes(31, 17),
        )
    assert (
        "no split with an atom divergence of at most 0.0 was found, the nearest has 0.0"
        in str(caught.value)
    )


def test_atoms_that_do_not_fit_into_train_are_an_error() -> None:
    examples = [Example("s", f"f ( {letter} )") for letter in "abcdeg"]
    with pytest.raises(
        SettingsError, match="train is to have 4 examples, but 6 were needed"
    ):
        tmcd_split(examples, Sizes(4, 2), FUNQL.decomposition, random.Random(0))


def test_sizes_of_another_dataset_are_refused() -> None:
    with pytest.raises(
        SettingsError, match="add up to 49, the dataset has 48 examples"
    ):
        tmcd_search(
            decomposed(SMALL, FUNQL.decomposition), Sizes(31, 18), random.Random(0)
        )


def test_targets_without_compounds_can_still_be_divided() -> None:
    examples = [Example("s", letter) for letter in "aabb"]
    split = tmcd_split(
        examples,
        Sizes(2, 2),
        load_language("tokens").decomposition,
        random.Random(0),
        QUICK,
    )
    assert {examples[at].target for at in split.train} == {"a", "b"}
    assert split.made_by["compound_divergence"] == 0


@pytest.mark.parametrize(
    ("examples", "given", "budget"),
    [
        (880, TmcdSettings(), Budget(880_000, 15)),
        (4376, TmcdSettings(), Budget(4_376_000, 5)),
        (100_000, TmcdSettings(), Budget(100_000_000, 1)),
        (880, TmcdSettings(moves=10, restarts=3), Budget(10, 3)),
        (880, TmcdSettings(seconds=60), Budget(880_000, math.inf, 60)),
    ],
    ids=str,
)
def test_the_usual_budget_depends_on_the_size(
    examples: int, given: TmcdSettings, budget: Budget
) -> None:
    assert usual_budget(given, examples) == budget


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"target_divergence": 1.5},
            "target_divergence is 1.5; a divergence lies between 0 and 1",
        ),
        (
            {"max_atom_divergence": -0.1},
            "max_atom_divergence is -0.1; a divergence lies between 0 and 1",
        ),
        ({"moves": 0}, "moves is 0; expected more than 0"),
        ({"restarts": -1}, "restarts is -1; expected more than 0"),
        ({"seconds": 0.0}, "seconds is 0.0; expected more than 0"),
        ({"tolerance": 0.0}, "tolerance is 0.0; expected more than 0"),
    ],
    ids=str,
)
def test_settings_without_sense_are_refused(
    wrong: dict[str, float], words: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        TmcdSettings(**wrong)  # type: ignore[arg-type]
    assert str(caught.value) == words
