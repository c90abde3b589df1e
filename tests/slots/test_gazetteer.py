"""Names in a sentence: found wherever a search of all of them finds them; files and columns of names."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import NqgError
from nqg.slots.slot import Gazetteer, column_values, read_gazetteer, write_gazetteer

WORDS = st.sampled_from(["new", "York", "city", "of", "Ångström", "straße"])
NAMES = st.lists(st.lists(WORDS, min_size=1, max_size=4).map(" ".join), max_size=8)


@given(NAMES, st.lists(WORDS, max_size=8))
def test_names_are_found_wherever_a_naive_search_finds_them(
    names: list[str], sentence: list[str]
) -> None:
    words = [word.casefold() for word in sentence]
    gazetteer = Gazetteer.of((name, str(number)) for number, name in enumerate(names))
    naive = {
        (
            start,
            end,
            str(
                min(
                    at
                    for at, name in enumerate(names)
                    if name.casefold().split() == words[start:end]
                )
            ),
        )
        for start in range(len(words))
        for end in range(start + 1, len(words) + 1)
        if words[start:end] in [name.casefold().split() for name in names]
    }
    found = list(gazetteer.matches(words))
    assert set(found) == naive
    assert len(found) == len(naive)


def test_a_file_has_names_or_aliases_with_values(tmp_path: Path) -> None:
    file = tmp_path / "cities.tsv"
    file.write_text("New York\tnyc\n\nBig Apple\tnyc\nOslo\n", encoding="utf-8")
    assert read_gazetteer(file).values == {
        "new york": "nyc",
        "big apple": "nyc",
        "oslo": "Oslo",
    }


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1))
def test_what_was_written_is_read_again(pairs: list[tuple[str, str]]) -> None:
    gazetteer = Gazetteer.of(pairs)
    with tempfile.TemporaryDirectory() as folder:
        write_gazetteer(Path(folder) / "names.tsv.gz", gazetteer)
        assert read_gazetteer(Path(folder) / "names.tsv.gz") == gazetteer


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"oslo\nrome\troma\tlazio\n",
            "names.tsv:2: expected 'name' or 'alias<TAB>value', found 3 columns",
        ),
        (
            b"oslo\n\troma\n",
            "names.tsv:2: expected 'name' or 'alias<TAB>value', found '\\troma'",
        ),
        (
            b"rome\t \n",
            "names.tsv:1: expected 'name' or 'alias<TAB>value', found 'rome\\t '",
        ),
        (
            b"oslo\nr\xf6ma\n",
            "names.tsv:2: byte 2 is 0xf6, which is not valid UTF-8; expected UTF-8 text",
        ),
        (
            b"\n\n",
            "names.tsv: found no name, expected 'name' or 'alias<TAB>value' on every line",
        ),
        (None, "names.tsv: no such file"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "names.tsv"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(NqgError) as caught:
        read_gazetteer(file)
    assert str(caught.value).removeprefix(f"{tmp_path}/") == message


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "geo.sqlite") as connection:
        connection.execute('CREATE TABLE city (name TEXT, "area code" INTEGER)')
        connection.executemany(
            "INSERT INTO city VALUES (?, ?)",
            [("Oslo", 47), ("Rome", 39), ("Oslo", 47), (None, None)],
        )
    connection.close()
    return tmp_path / "geo.sqlite"


def test_the_values_of_a_column_are_names(database: Path) -> None:
    assert column_values(database, "city.name").values == {
        "oslo": "Oslo",
        "rome": "Rome",
    }
    assert column_values(database, "city.area code").values == {"39": "39", "47": "47"}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("city", "expected 'table.column' as the column of a slot, found 'city'"),
        ("town.name", "no table of geo.sqlite 'town'. Known: city"),
        (
            "city.nam",
            "no column of city in geo.sqlite 'nam'; did you mean 'name'? Known: area code, name",
        ),
    ],
)
def test_an_unknown_column_is_refused(
    database: Path, column: str, message: str
) -> None:
    with pytest.raises(NqgError) as caught:
        column_values(database, column)
    assert str(caught.value).replace(f"{database.parent}/", "") == message


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        NqgError, match=r"geo.sqlite: expected a SQLite database, found no such"
    ):
        column_values(tmp_path / "geo.sqlite", "city.name")
    (tmp_path / "geo.sqlite").write_text("no database at all")
    with pytest.raises(NqgError, match=r"geo.sqlite: .*: file is not a database"):
        column_values(tmp_path / "geo.sqlite", "city.name")


def test_a_name_is_cut_into_words_like_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "names.tsv").write_text("St. Paul\n")
    names = read_gazetteer(
        tmp_path / "names.tsv", lambda text: text.replace(".", "").split()
    )
    assert list(names.matches(("in", "st", "paul"))) == [(1, 3, "St. Paul")]
