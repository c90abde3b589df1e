"""JSON that is read strictly: what json accepts and ours does not, and places inside longer files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError, Place
from nqg.files import strict_json

START = Place(Path("data.json"), 10)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
)


@given(value=VALUES)
def test_every_proper_json_value_is_read_as_json_reads_it(value: Any) -> None:
    assert strict_json(json.dumps(value), START) == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(
            '{\n"a": 1,\n}',
            "data.json:12: not valid JSON: ",
            id="the line inside the file is named",
        ),
        pytest.param(
            '[{"a": 1, "a": 2}]',
            "data.json:10: the key 'a' stands twice in one JSON object",
            id="repeated key",
        ),
        pytest.param("[NaN]", "data.json:10: NaN is not a JSON value", id="NaN"),
        pytest.param(
            "-Infinity", "data.json:10: -Infinity is not a JSON value", id="infinity"
        ),
        pytest.param(
            "[" * 50_000,
            "data.json:10: the JSON value is nested too deeply",
            id="nesting",
        ),
        pytest.param(
            "1" * 10_000, "data.json:10: not usable JSON: ", id="giant number"
        ),
    ],
)
def test_loose_json_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(FormatError) as caught:
        strict_json(text, START)
    assert str(caught.value).startswith(complaint)


def test_half_of_a_character_is_refused_and_a_whole_one_is_not() -> None:
    place = Place(Path("a.json"), 3)
    assert strict_json('["\\ud83d\\ude00"]', place) == ["😀"]
    with pytest.raises(
        FormatError, match=r"a\.json:3: a string holds U\+DE00, which is not text"
    ):
        strict_json('{"a": {"\\ude00": 1}}', place)
