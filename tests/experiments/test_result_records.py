import json
from dataclasses import replace
from pathlib import Path

import pytest

from nqg.errors import FormatError, NqgError
from nqg.experiments.recipe import read_recipe
from nqg.experiments.records import Cell, Record, read_record, records

RECIPE = read_recipe("geoquery-tmcd")
RECORD = Record(
    Cell("geoquery-tmcd", "nqg", "mpnet-base", 2),
    {"accuracy": 43.6, "precision": None},
    asked="bert-base-uncased",
    fingerprint=RECIPE.fingerprint("nqg", "mpnet-base"),
    data="abc",
    seconds={"training": 1.5},
)


def test_a_record_survives_a_round_trip(tmp_path: Path) -> None:
    path = RECORD.write(tmp_path)
    assert path == tmp_path / "geoquery-tmcd" / "nqg-mpnet-base-2.json"
    assert read_record(path) == RECORD


def test_all_records_of_a_folder_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    cells = [RECORD.cell, replace(RECORD.cell, seed=0), replace(RECORD.cell, recipe="a")]
    for cell in cells:
        replace(RECORD, cell=cell).write(tmp_path)
    assert [record.cell for record in records(tmp_path)] == [cells[2], cells[1], cells[0]]


def test_weights_with_a_slash_make_no_folder(tmp_path: Path) -> None:
    path = replace(RECORD, cell=replace(RECORD.cell, weights="google/t5")).write(tmp_path)
    assert path.parent.parent == tmp_path
    assert read_record(path).cell.weights == "google/t5"


def test_weights_that_the_recipe_does_not_name_are_a_stand_in() -> None:
    assert RECORD.is_stand_in
    assert not replace(RECORD, cell=replace(RECORD.cell, weights="bert-base-uncased")).is_stand_in


def test_a_record_is_no_longer_of_a_recipe_that_changed() -> None:
    assert RECORD.is_of(RECIPE)
    assert not RECORD.is_of(replace(RECIPE, nqg=replace(RECIPE.nqg, training={"steps": 1})))


def test_a_folder_that_is_not_there_is_named_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match="no such folder; `nqg reproduce NAME --results"):
        list(records(tmp_path / "none"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match=r"none\.json: cannot be read"):
        read_record(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"kind": "cake"}, "expected a record of kind 'nqg result'"),
        ({"version": 9}, "expected version 1, found 9"),
        ({"cell": {"recipe": "x"}}, r"the key 'system' of \[cell\] is missing"),
        ({"cell": 3}, "as 'cell'"),
        ({"figures": []}, "expected an object as 'figures'"),
        ({"colour": "red"}, "no key of the record 'colour'"),
    ],
)
def test_a_damaged_record_is_refused_with_the_reason(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    path = RECORD.write(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FormatError, match=complaint):
        read_record(path)


def test_a_record_without_a_key_is_refused(tmp_path: Path) -> None:
    path = RECORD.write(tmp_path)
    values = json.loads(path.read_text())
    del values["seconds"]
    path.write_text(json.dumps(values))
    with pytest.raises(FormatError, match="the key 'seconds' of the record is missing"):
        read_record(path)


@pytest.mark.parametrize("raw", [b"{", b"[1]", b"\xff"], ids=["cut short", "a list", "no text"])
def test_what_is_no_record_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(raw)
    with pytest.raises(FormatError, match=r"x\.json"):
        read_record(path)
