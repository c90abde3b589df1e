from __future__ import annotations

import json
from pathlib import Path

import pytest

from nqg.errors import FormatError, NqgError
from nqg.paper.spider import SpiderEntry, read_entries

ENTRY = {"db_id": "a", "question": "how many?", "query": "select 1"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dev.json"


def test_entries_come_in_order_and_other_keys_are_passed_over(path: Path) -> None:
    path.write_text(json.dumps([ENTRY, ENTRY | {"db_id": "b", "sql": {}}]))
    assert [entry.db_id for entry in read_entries(SpiderEntry, path)] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            '[{"db_id": "a"},\n {"db_id" "b"}]',
            r"dev\.json:2: not valid JSON: Expecting ':' delimiter \(column 11\)",
        ),
        (
            '{"db_id": "a"}',
            r"dev\.json: expected a list as the contents, found \{'db_id': 'a'\}",
        ),
        (
            '["b"]',
            r"dev\.json: expected an object as entry 0 \(counted from 0\), found 'b'",
        ),
        (
            '[{"db_id": "a", "db_id": "b"}]',
            r"dev\.json:1: the key 'db_id' stands twice",
        ),
    ],
)
def test_files_that_are_not_a_list_of_objects_are_refused(
    path: Path, text: str, complaint: str
) -> None:
    path.write_text(text)
    with pytest.raises(FormatError, match=complaint):
        read_entries(SpiderEntry, path)


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(NqgError, match=r"dev\.json: no such file"):
        read_entries(SpiderEntry, path)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (
            {"question": "how?", "query": "select a"},
            "the key 'db_id' of entry 1 (counted from 0) is missing",
        ),
        (
            {},
            "the key 'db_id' of entry 1 (counted from 0) is missing; expected a string",
        ),
        (
            ENTRY | {"db_id": 7},
            "expected a string as 'db_id' of entry 1 (counted from 0), found 7",
        ),
        (
            ENTRY | {"db_id": None},
            "expected a string as 'db_id' of entry 1 (counted from 0), found None",
        ),
        (
            ENTRY | {"db_id": " "},
            "entry 1 (counted from 0): expected some text as 'db_id', found an empty string",
        ),
    ],
)
def test_a_bad_entry_is_refused_with_file_and_number(
    path: Path, entry: dict[str, object], complaint: str
) -> None:
    path.write_text(json.dumps([ENTRY, entry]))
    with pytest.raises(FormatError) as caught:
        read_entries(SpiderEntry, path)
    assert str(caught.value).startswith(f"{path}: {complaint}")
