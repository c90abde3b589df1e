"""Split files: three forms read, one form written, every refusal in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.dataset import Split, read_split, split_text, write_split
from nqg.errors import FormatError, NqgError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SETTINGS = st.dictionaries(
    TEXT,
    TEXT
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none(),
)


@st.composite
def splits(draw: st.DrawFn) -> Split:
    positions = draw(st.lists(st.integers(0, 10**6), unique=True, max_size=60))
    first, second = sorted(draw(st.tuples(*[st.integers(0, len(positions))] * 2)))
    train, dev, test = (
        tuple(positions[:first]),
        tuple(positions[first:second]),
        tuple(positions[second:]),
    )
    return Split(train=train + train[:2], dev=dev, test=test, made_by=draw(SETTINGS))


@pytest.mark.parametrize("name", ["split.json", "split.json.gz"])
@given(split=splits())
def test_a_split_survives_its_file(
    tmp_path_factory: pytest.TempPathFactory, name: str, split: Split
) -> None:
    path = tmp_path_factory.mktemp("split") / name
    write_split(path, split)
    assert read_split(path) == split


@given(split=splits())
def test_a_split_file_is_plain_json_with_short_lines(split: Split) -> None:
    fields = json.loads(split_text(split))
    assert fields["train"] == list(split.train)
    assert list(fields) == [
        key for key in ("made_by", "train", "dev", "test") if key != "dev" or split.dev
    ]
    assert all(
        len(line) <= 100
        for line in split_text(split).split("\n")
        if line.startswith("    ")
    )


def test_the_published_forms_are_read(tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    path.write_text('{"train": [2, 0], "test": [1]}')
    assert read_split(path) == Split(train=(2, 0), test=(1,))
    path.write_text('{"trainIdxs": [2, 0], "devIdxs": [3], "testIdxs": [1]}')
    assert read_split(str(path), size=4) == Split(train=(2, 0), dev=(3,), test=(1,))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param([1], "expected an object as the split, found [1]", id="a list"),
        pytest.param(
            {"train": [1]},
            "the key 'test' of the split is missing; expected a list",
            id="no test",
        ),
        pytest.param(
            {"test": [1]},
            "the key 'train' of the split is missing; expected a list",
            id="no train",
        ),
        pytest.param(
            {"trainIdxs": [1]},
            "the key 'testIdxs' of the split is missing",
            id="mcd no test",
        ),
        pytest.param(
            {"trainIdxs": [1], "testIdxs": [1]},
            "position 1 stands in more than one part",
            id="mcd shared",
        ),
        pytest.param(
            {"train": [1], "test": [2], "valid": [3]},
            "no key of the split 'valid'. Known: dev",
            id="unknown",
        ),
        pytest.param(
            {"train": 3, "test": [1]},
            "expected a list as 'train' of the split, found 3",
            id="no list",
        ),
        pytest.param(
            {"train": [0, 1.0], "test": [2]},
            "expected an integer as entry 1 of 'train'",
            id="float",
        ),
        pytest.param(
            {"train": [0], "test": ["2"]},
            "expected an integer as entry 0 of 'test'",
            id="string",
        ),
        pytest.param(
            {"train": [True], "test": [2]},
            "expected an integer as entry 0 of 'train'",
            id="boolean",
        ),
        pytest.param(
            {"train": [3, 1], "test": [3]},
            "the split: position 3 stands in more than one",
            id="shared",
        ),
        pytest.param(
            {"train": [-1], "test": [3]},
            "the split: position -1 is negative",
            id="negative",
        ),
        pytest.param(
            {"train": [0], "test": [10]},
            "position 10 lies outside a dataset of 10 examples",
            id="outside",
        ),
        pytest.param(
            {"train": [0], "test": [1], "made_by": "us"},
            "expected an object as 'made_by' of the",
            id="made_by",
        ),
        pytest.param(
            {"train": [0], "test": [1], "made_by": {"seeds": [1]}},
            "expected a string or an integer or a number or true or false as 'seeds' of [made_by], found [1]",
            id="nested setting",
        ),
    ],
)
def test_a_bad_split_file_is_refused_with_its_reason(
    tmp_path: Path, fields: Any, reason: str
) -> None:
    path = tmp_path / "split.json"
    path.write_text(json.dumps(fields))
    with pytest.raises(FormatError) as caught:
        read_split(path, size=10)
    assert str(caught.value).startswith(f"{path}: {reason}")


def test_broken_json_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    path.write_text('{\n  "train": [0, 1],\n  "test": [2,,3]\n}\n')
    with pytest.raises(
        FormatError,
        match=r"split\.json:3: not valid JSON: Expecting value \(column 14\)",
    ):
        read_split(path)
    with pytest.raises(NqgError, match="no such file"):
        read_split(tmp_path / "gone.json")


@pytest.mark.parametrize(
    "value",
    [float("nan"), object(), "\ud800", [1]],
    ids=["NaN", "object", "half", "list"],
)
def test_a_record_that_json_cannot_hold_is_refused_before_writing(
    tmp_path: Path, value: Any
) -> None:
    with pytest.raises(FormatError, match="made_by"):
        write_split(
            tmp_path / "split.json", Split((0,), (1,), made_by={"setting": value})
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("file", "sizes"),
    [
        ("geoquery/splits/standard.json", (600, 0, 280)),
        ("geoquery/splits/template_1.json", (441, 0, 439)),
        ("geoquery/splits/length_1.json", (440, 0, 440)),
        ("geoquery/splits/tmcd_1.json", (440, 0, 440)),
        ("spider/splits/random_1.json", (3282, 0, 1094)),
        ("spider/splits/template_1.json", (3280, 0, 1096)),
        ("spider/splits/length_1.json", (3282, 0, 1094)),
        ("spider/splits/tmcd_1.json", (3282, 0, 1094)),
        ("scan/mcd1.json", (8365, 1046, 1045)),
    ],
)
def test_the_published_files_have_the_published_sizes(
    real_data: Path, file: str, sizes: tuple[int, int, int]
) -> None:
    split = read_split(real_data / file, size=20910)
    assert (len(split.train), len(split.dev), len(split.test)) == sizes
