"""Which language targets are written in."""

from __future__ import annotations

from pathlib import Path

import pytest

from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.errors import SettingsError, UnknownName
from nqg.splits.compounds import COMPOUND_LANGUAGES, language_of, likely_language


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("answer ( state )", "funql"),
        ("SELECT name FROM head", "sql"),
        ("(call listValue (x))", "brackets"),
        ("[IN:GET_WEATHER [SL:DATE today ] ]", "brackets"),
        ("I_TURN_LEFT I_JUMP", "tokens"),
        ("selection", "tokens"),
        ("SELECT ?x WHERE { ?x a film }", "brackets"),
    ],
)
def test_a_target_looks_like_its_language(target: str, name: str) -> None:
    assert likely_language([Example("s", target)]).name == name


def test_the_majority_of_targets_counts() -> None:
    targets = ["select a from b", "answer ( state )", "select a from b"]
    assert likely_language([Example("s", target) for target in targets]).name == "sql"


@pytest.mark.parametrize(("folder", "name"), [("geoquery", "funql"), ("spider", "sql")])
def test_real_data_is_recognised(real_data: Path, folder: str, name: str) -> None:
    assert (
        likely_language(read_examples(real_data / folder / "expected_dataset.tsv")).name
        == name
    )


def test_languages_are_found_by_name() -> None:
    assert [language_of([], name).name for name in COMPOUND_LANGUAGES] == [
        "funql",
        "sql",
        "brackets",
        "tokens",
    ]


def test_an_unknown_language_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        UnknownName, match="no target language 'funq'; did you mean 'funql'"
    ):
        language_of([], "funq")


def test_no_examples_have_no_language() -> None:
    with pytest.raises(SettingsError, match="there are no examples"):
        likely_language([])
