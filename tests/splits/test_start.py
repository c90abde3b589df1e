"""Where searches begin: random, with every atom in train."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import SettingsError
from nqg.splits.compounds import BRACKET_TREES
from nqg.splits.swap_search import Decomposed, decomposed, greedy_cover, random_start
from strategies import program_examples


def data_of(*targets: str) -> Decomposed:
    return decomposed([Example("s", target) for target in targets], BRACKET_TREES)


@given(program_examples(), st.integers(), st.data())
def test_every_atom_occurs_in_train(
    examples: list[Example], seed: int, data: st.DataObject
) -> None:
    held = decomposed(examples, BRACKET_TREES)
    train_size = data.draw(st.integers(1, len(examples) - 1))
    cover = greedy_cover(held.atoms, np.arange(len(examples)))
    assume(len(cover) <= train_size)
    try:
        start = random_start(held, train_size, random.Random(seed))
    except SettingsError:
        return  # the greedy cover depends on the order that ties are met in
    assert len(start.train) == train_size
    assert sorted([*start.train, *start.test]) == list(range(len(examples)))
    assert start.atoms.train.min() >= 1
    assert start.atoms.train.tolist() == held.atoms.totals(start.train).tolist()
    assert start.compounds.test.tolist() == held.compounds.totals(start.test).tolist()


def test_an_example_with_an_atom_of_its_own_always_stands_in_train() -> None:
    data = data_of("f ( a )", "f ( a )", "f ( a )", "f ( b )", "f ( a )", "f ( c )")
    for seed in range(30):
        assert {3, 5} <= set(random_start(data, 3, random.Random(seed)).train.tolist())


def test_more_such_examples_than_train_has_places_are_refused() -> None:
    data = data_of("f ( a )", "f ( b )", "f ( c )", "f ( d )")
    with pytest.raises(SettingsError) as caught:
        random_start(data, 3, random.Random(0))
    assert (
        "train is to have 3 examples, but 4 were needed to hold each of the 5 atoms"
        in str(caught.value)
    )


def test_a_start_is_found_even_where_single_swaps_get_stuck() -> None:
    # Only {0, 5} covers all atoms with two examples; a train of e.g. {1, 2} can spare neither for example 0 or 5.
    data = data_of(
        "f ( a , b , c )",
        "f ( a , d )",
        "f ( b , e )",
        "f ( a , e )",
        "f ( b , d )",
        "f ( d , e , g )",
    )
    for seed in range(30):
        assert set(random_start(data, 2, random.Random(seed)).train.tolist()) == {0, 5}


def test_the_seed_alone_decides() -> None:
    data = data_of(*(f"f ( {letter} )" for letter in "aabbccddee"))
    first, again, other = (
        random_start(data, 6, random.Random(seed)).train.tolist() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@given(program_examples())
def test_a_greedy_cover_holds_all_atoms_and_no_idle_example(
    examples: list[Example],
) -> None:
    atoms = decomposed(examples, BRACKET_TREES).atoms
    cover = greedy_cover(atoms, np.arange(len(examples))).tolist()
    held: set[int] = set()
    gains = []
    for example in cover:
        gains.append(len(set(atoms.row(example)) - held))
        held |= set(atoms.row(example))
    assert held == set(range(atoms.width))
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] > 0
