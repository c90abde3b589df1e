"""Names of entities: how sentences are cut into words, and what in them is a mention."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geobase_rows import geobase_of
from nqg.paper.geobase import read_geobase
from nqg.paper.geoquery import EntityNames, entity_of, words
from nqg.slots.matcher import longest_spans

NAMES = EntityNames.of(
    geobase_of(
        (
            "state",
            "new york",
            "ny",
            "albany",
            1,
            1,
            11,
            *("new york", "buffalo", "rochester", "yonkers"),
        ),
        (
            "state",
            "oregon",
            "or",
            "salem",
            1,
            1,
            33,
            *("portland", "eugene", "salem", "springfield"),
        ),
        (
            "state",
            "maine",
            "me",
            "augusta",
            1,
            1,
            23,
            *("portland", "lewiston", "bangor", "auburn"),
        ),
        (
            "state",
            "minnesota",
            "mn",
            "st. paul",
            1,
            1,
            32,
            *("minneapolis", "st. paul", "duluth", "bloomington"),
        ),
        (
            "state",
            "district of columbia",
            "dc",
            "washington",
            1,
            1,
            0,
            *("washington",),
        ),
        ("city", "new york", "ny", "rochester", 241741),
        ("city", "minnesota", "mn", "rochester", 57906),
        ("city", "north carolina", "nc", "high point", 64107),
        ("river", "columbia", 1953, ("washington", "oregon")),
        ("river", "maine", 10, ("maine",)),
        ("highlow", "oregon", "or", "mount hood", 3424, "columbia river", 0),
        ("mountain", "alaska", "ak", "mckinley", 6194),
        ("lake", "champlain", 1114, ("new york",)),
        ("country", "usa", 1, 1),
    )
)


def readings(name: str) -> list[str]:
    source = words(name)
    whole = [
        mention
        for mention in NAMES.mentions(source)
        if (mention.start, mention.end) == (0, len(source))
    ]
    return [str(entity_of(mention)) for mention in whole]


def mentioned(sentence: str) -> list[str]:
    source = words(sentence)
    return [
        " ".join(source[span[0].start : span[0].end])
        for span in longest_spans(NAMES.mentions(source))
    ]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Give me the cities in Virginia .", "give me the cities in virginia"),
        ("What 's the largest city ?", "whats the largest city"),
        (
            "Which state 's capital city is the largest ?",
            "which states capital city is the largest",
        ),
        ("what's the states' capital?", "whats the states capital"),
        ("What ’s Maine’s capital ?", "whats maines capital"),
        ("What" + " " * 100_000 + "'s this ?", "whats this"),
        ("Austin, Texas; 'Reno'!", "austin texas reno"),
        ("the U.S. has 3.5 of them.", "the us has 3.5 of them"),
        ("St. Paul\tand  Duluth\n", "st paul and duluth"),
        (" ?! ", ""),
    ],
)
def test_a_sentence_is_cut_into_lower_case_words_without_punctuation(
    sentence: str, expected: str
) -> None:
    assert " ".join(words(sentence)) == expected


@given(st.text())
def test_cutting_a_sentence_that_was_cut_changes_nothing(sentence: str) -> None:
    once = words(sentence)
    assert words(" ".join(once)) == once


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("new york", ["stateid('new york')", "cityid('new york', _)"]),
        ("rochester", ["cityid('rochester', _)"]),
        ("St. Paul", ["cityid('st. paul', _)"]),
        ("maine", ["stateid('maine')", "riverid('maine')"]),
        ("mount hood", ["placeid('mount hood')"]),
        ("mckinley", ["placeid('mckinley')"]),
        ("champlain", ["placeid('champlain')"]),
        ("america", ["countryid('usa')"]),
        ("united states of america", ["countryid('usa')"]),
        ("rochester minnesota", ["cityid('rochester', 'mn')"]),
        ("rochester mn", ["cityid('rochester', 'mn')"]),
        ("rochester oregon", ["cityid('rochester', 'or')"]),
        ("new york new york", ["cityid('new york', 'ny')"]),
        ("washington district of columbia", ["cityid('washington', 'dc')"]),
        ("duluth ny", []),
        ("portland or", []),
        ("minnesota new york", []),
        ("texas", []),
        ("", []),
    ],
)
def test_a_name_means_what_geobase_knows_by_it(name: str, expected: list[str]) -> None:
    assert readings(name) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("How big is New York ?", ["new york"]),
        (
            "Is Rochester, New York bigger than Rochester MN ?",
            ["rochester new york", "rochester mn"],
        ),
        ("Is Portland or Salem bigger ?", ["portland", "salem"]),
        (
            "Does the Columbia river cross the District of Columbia ?",
            ["columbia", "district of columbia"],
        ),
        ("What is the high point of the continental US ?", ["continental us"]),
        ("Which is the most populous state ?", []),
        ("", []),
    ],
)
def test_the_longest_names_of_a_sentence_are_its_mentions(
    sentence: str, expected: list[str]
) -> None:
    assert mentioned(sentence) == expected


def test_a_geobase_without_facts_mentions_nothing() -> None:
    assert EntityNames.of(geobase_of()).mentions(("how", "big", "is", "ohio")) == []


def test_rivers_under_the_name_of_a_lowest_point_stay_rivers(real_data: Path) -> None:
    names = EntityNames.of(read_geobase(real_data / "geoquery" / "geobase"))
    readings = names.mentions(words("How long is the Ohio river ?"))
    assert [str(entity_of(reading)) for reading in readings] == [
        "stateid('ohio')",
        "riverid('ohio')",
    ]
