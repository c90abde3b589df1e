"""The one function for all ways to split, and the audit of what it gives."""

from __future__ import annotations

import random

import pytest

from nqg import TmcdSettings, audit, split
from nqg.data.example import Example
from nqg.errors import SettingsError, UnknownName
from nqg.splits.compounds import load_language
from nqg.splits.partition import (
    Side,
    length_split,
    random_split,
    sizes_for,
    template_split,
)
from nqg.splits.tmcd import tmcd_split

EXAMPLES = [
    Example(f"{f} of {g} {x}", f"answer ( {f} ( {g} ( {x} ) ) )")
    for f in "abc"
    for g in "abcd"
    for x in "xy"
]
SIZES = sizes_for(24, test=8, dev=2)
FUNQL = load_language("funql")
QUICK = TmcdSettings(moves=500, restarts=1)


def test_every_method_is_the_function_of_its_name() -> None:
    found = split(EXAMPLES, test=8, dev=2, seed=7)
    assert found.made_by == {"method": "random", "seed": 7}
    assert found.parts(EXAMPLES) == random_split(
        EXAMPLES, SIZES, random.Random(7)
    ).parts(EXAMPLES)
    assert split(
        EXAMPLES, "length", by="target", test=8, dev=2, seed=7
    ) == length_split(EXAMPLES, SIZES, by=Side.TARGET)
    found = split(EXAMPLES, "template", test=8, dev=2, seed=7)
    assert found.made_by == {"method": "template", "seed": 7, "language": "funql"}
    expected = template_split(EXAMPLES, SIZES, FUNQL.template, random.Random(7))
    assert found.parts(EXAMPLES) == expected.parts(EXAMPLES)
    found = split(EXAMPLES, "tmcd", settings=QUICK, test=8, dev=2, seed=7)
    expected = tmcd_split(EXAMPLES, SIZES, FUNQL.decomposition, random.Random(7), QUICK)
    assert found.made_by == {**expected.made_by, "seed": 7, "language": "funql"}
    assert found.parts(EXAMPLES) == expected.parts(EXAMPLES)


def test_templates_can_blank_what_a_pattern_matches() -> None:
    found = split(EXAMPLES, "template", test=8, blank="[xy]")
    assert found.made_by["blank"] == "[xy]"
    held_out = {EXAMPLES[at].target[:-8] for at in found.test}
    assert held_out.isdisjoint(EXAMPLES[at].target[:-8] for at in found.train)


def test_a_search_reports_its_progress() -> None:
    seen: list[tuple[str, int, int | None]] = []
    split(
        EXAMPLES,
        "tmcd",
        settings=QUICK,
        progress=lambda what, done, total: seen.append((what, done, total)),
    )
    assert seen[0][0].startswith("start 1: compound divergence 0.")
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[-1][1:] == (100, 100)


def test_an_unknown_method_or_language_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        UnknownName, match="no way to split a dataset 'lenght'; did you mean 'length'"
    ):
        split(EXAMPLES, "lenght")
    with pytest.raises(
        UnknownName, match="no target language 'funq'; did you mean 'funql'"
    ):
        split(EXAMPLES, "tmcd", language="funq")
    with pytest.raises(SettingsError, match="a split needs at least 2"):
        split([])


def test_an_audit_finds_the_language_by_itself_and_takes_another() -> None:
    found = split(EXAMPLES, "tmcd", settings=QUICK)
    measured = audit(EXAMPLES, found)
    assert measured.language == "funql"
    assert measured.compound_divergence == pytest.approx(
        float(found.made_by["compound_divergence"] or 0), abs=1e-6
    )
    assert audit(EXAMPLES, found, "tokens") == audit(
        EXAMPLES, found, load_language("tokens")
    )
