"""Settings of induction: the presets, and what is refused."""

from __future__ import annotations

import re

import pytest

from nqg.errors import SettingsError, UnknownName
from nqg.induction.settings import InductionSettings


def test_the_presets_have_the_papers_values() -> None:
    scan, geoquery, spider = map(
        InductionSettings.named, ("scan", "geoquery", "spider-ssp")
    )
    assert [each.non_terminal_bits for each in (scan, geoquery, spider)] == [
        1.0,
        1.0,
        1.0,
    ]
    assert [each.terminal_bits for each in (scan, geoquery, spider)] == [32.0, 8.0, 8.0]
    assert [each.identity_rules for each in (scan, geoquery, spider)] == [
        False,
        True,
        True,
    ]
    assert [each.repeated_targets for each in (scan, geoquery, spider)] == [
        True,
        False,
        True,
    ]
    assert [each.shortest for each in (scan, geoquery, spider)] == [500, None, 1000]
    assert all(
        each.max_non_terminals == 2 and each.balanced
        for each in (scan, geoquery, spider)
    )
    assert InductionSettings.named("spider-xsp") == spider


def test_an_unknown_preset_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(
        UnknownName,
        match=r"no settings for induction 'geo'; did you mean 'geoquery'\? Known: geoq.*xsp",
    ):
        InductionSettings.named("geo")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("terminal_bits", 0, "more than 0"),
        ("non_terminal_bits", -1.0, "more than 0"),
        ("shortest", 0, "1 or more"),
        ("sample", 0, "1 or more"),
        ("max_non_terminals", 0, "1 or more"),
        ("minimum_gain", -0.5, "0 or more"),
        ("data_weight", -1.0, "0 or more"),
    ],
)
def test_nonsense_is_refused_with_the_value_and_what_was_expected(
    name: str, value: float, expected: str
) -> None:
    with pytest.raises(
        SettingsError, match=re.escape(f"{name} is {value}; expected {expected}")
    ):
        InductionSettings().changed(**{name: value})


def test_no_bound_is_a_bound_too() -> None:
    assert (
        InductionSettings.named("scan").changed(shortest=None, sample=None).shortest
        is None
    )


def test_settings_are_changed_by_name_and_unknown_names_are_refused() -> None:
    assert InductionSettings().changed(seed=7) == InductionSettings(seed=7)
    with pytest.raises(
        UnknownName,
        match="no setting of induction 'terminal_bit'; did you mean 'terminal_bits'",
    ):
        InductionSettings().changed(terminal_bit=9)


@pytest.mark.parametrize("name", ["terminal_bits", "minimum_gain", "data_weight"])
def test_not_a_number_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is nan"):
        InductionSettings().changed(**{name: float("nan")})
