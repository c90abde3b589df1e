from __future__ import annotations

from pathlib import Path

import pytest

from nqg.data.schema import JsonEntry, read_json_entries
from nqg.errors import FormatError, NqgError


def test_entries_come_in_order_with_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    path.write_text('[{"db_id": "a"},\n {"db_id": "b"}]')
    assert [(entry.number, entry.text("db_id")) for entry in read_json_entries(path)] == [(0, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[{"db_id": "a"},\n {"db_id" "b"}]', r"dev\.json:2: not valid JSON: Expecting ':' delimiter \(column 11\)"),
        ('{"db_id": "a"}', r"dev\.json: expected a list of objects, found an object"),
        ('[{"db_id": "a"}, "b"]', r"dev\.json: entry 1 \(counted from 0\): expected an object, found a string"),
        ('[{"db_id": "a", "db_id": "b"}]', r"dev\.json:1: the key 'db_id' stands twice"),
    ],
)
def test_files_that_are_no_list_of_objects_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "dev.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=complaint):
        read_json_entries(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match=r"dev\.json: no such file"):
        read_json_entries(tmp_path / "dev.json")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"query": "select a"}, "expected the key 'db_id', found 'query'"),
        ({}, "expected the key 'db_id', found no key at all"),
        ({"db_id": 7}, "expected a string as 'db_id', found the number 7"),
        ({"db_id": None}, "expected a string as 'db_id', found null"),
        ({"db_id": " "}, "expected some text as 'db_id', found an empty string"),
    ],
)
def test_a_text_that_is_none_is_refused_with_file_and_entry(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(FormatError) as caught:
        JsonEntry(Path("dev.json"), 3, fields).text("db_id")
    assert str(caught.value) == f"dev.json: entry 3 (counted from 0): {complaint}"


def test_a_list_that_is_none_is_refused() -> None:
    with pytest.raises(FormatError, match=r"entry 0 .* expected a list as 'tables', found an object"):
        JsonEntry(Path("tables.json"), 0, {"tables": {}}).items("tables")
