"""The template split: whole groups of templates, sizes as near as they can be."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.errors import SettingsError
from nqg.splits.compounds import (
    FUNQL,
    constants_template,
    load_language,
    regex_template,
)
from nqg.splits.partition import Sizes, nearest_subset, sizes_for, template_split
from oracles import nearest_sum


def examples_in_groups(sizes: list[int]) -> list[Example]:
    return [
        Example("s", f"f{group} ( {at} )")
        for group, size in enumerate(sizes)
        for at in range(size)
    ]


@given(st.lists(st.integers(1, 9), min_size=2, max_size=9), st.integers(-3, 80))
def test_the_chosen_groups_come_as_near_as_any_choice(
    sizes: list[int], wanted: int
) -> None:
    chosen = nearest_subset(sizes, wanted)
    assert 0 < len(chosen) < len(sizes)
    assert abs(sum(sizes[at] for at in chosen) - wanted) == nearest_sum(sizes, wanted)


@given(st.lists(st.integers(1, 6), min_size=5, max_size=12), st.integers())
def test_no_template_stands_in_two_parts(sizes: list[int], seed: int) -> None:
    examples = examples_in_groups(sizes)
    asked = sizes_for(len(examples), test=max(len(examples) // 3, 2), dev=1)
    try:
        split = template_split(examples, asked, constants_template, random.Random(seed))
    except SettingsError:
        return  # what is held out may be a single large template, which cannot fill dev and test
    parts = [
        {constants_template(examples[at].target) for at in part}
        for part in (split.train, split.dev, split.test)
    ]
    assert all(parts)
    assert sum(map(len, parts)) == len(set().union(*parts)) == len(sizes)
    assert sorted(split.train + split.dev + split.test) == list(range(len(examples)))


def test_sizes_are_met_exactly_where_groups_allow_it() -> None:
    examples = examples_in_groups([7, 5, 3, 2, 2, 1])
    for test in range(1, 20):
        split = template_split(
            examples, Sizes(20 - test, test), constants_template, random.Random(test)
        )
        assert (len(split.train), len(split.test)) == (20 - test, test)


@pytest.mark.parametrize("name", ["geoquery", "spider"])
def test_real_datasets_are_divided_exactly_without_a_shared_template(
    real_data: Path, name: str
) -> None:
    examples = read_examples(real_data / name / "expected_dataset.tsv")
    template = load_language("funql" if name == "geoquery" else "sql").template
    asked = sizes_for(len(examples), test=0.25, dev=0.1)
    split = template_split(examples, asked, template, random.Random(5))
    assert (len(split.train), len(split.dev), len(split.test)) == (
        asked.train,
        asked.dev,
        asked.test,
    )
    train, dev, test = (
        {template(examples[at].target) for at in part}
        for part in (split.train, split.dev, split.test)
    )
    assert not train & dev
    assert not train & test
    assert not dev & test


def test_the_seed_decides_which_templates_are_held_out() -> None:
    examples = examples_in_groups([2] * 20)
    first, again, other = (
        template_split(examples, Sizes(30, 10), constants_template, random.Random(seed))
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first.test != other.test
    assert first.made_by == {"method": "template"}


def test_a_single_template_is_refused() -> None:
    with pytest.raises(
        SettingsError, match="1 template cannot fill two parts of a split"
    ):
        template_split(
            examples_in_groups([4]), Sizes(3, 1), constants_template, random.Random(0)
        )


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("population ( m0 , m12 )", "population ( _ , _ )"),
        ("greater ( population_1 , 150000 )", "greater ( population_1 , _ )"),
        ("at_least ( -1.5 , 'san jose' )", "at_least ( _ , _ )"),
        ("m0x ( 3d )", "m0x ( 3d )"),
    ],
)
def test_funql_templates_blank_entities_and_numbers(target: str, expected: str) -> None:
    assert FUNQL.template(target) == expected


def test_other_languages_keep_words_that_look_like_entities() -> None:
    assert constants_template('f ( m0 , 3 , "two words" )') == "f ( m0 , _ , _ )"


def test_a_regular_expression_makes_a_template() -> None:
    assert (
        regex_template("city_[a-z]+", blank="CITY")("in ( city_austin )")
        == "in ( CITY )"
    )


def test_a_blank_is_taken_literally() -> None:
    assert regex_template("[0-9]", blank=r"\1")("a 3") == r"a \1"


def test_a_bad_regular_expression_is_refused() -> None:
    with pytest.raises(
        SettingsError,
        match=r"'\(' is not a regular expression: missing \), unterminated subpattern",
    ):
        regex_template("(")
