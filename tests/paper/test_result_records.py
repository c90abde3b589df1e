import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nqg.errors import FormatError, NqgError
from nqg.paper.recipe import read_recipe
from nqg.paper.records import (
    RESULTS_FILE,
    Cell,
    Record,
    find_record,
    is_stale,
    records,
    write_record,
)

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
    write_record(tmp_path, RECORD)
    assert list(records(tmp_path)) == [RECORD]
    assert find_record(tmp_path, RECORD.cell) == RECORD
    assert find_record(tmp_path, replace(RECORD.cell, seed=0)) is None
    assert find_record(tmp_path / "none", RECORD.cell) is None


def test_records_stand_in_the_order_of_their_keys_and_a_later_one_takes_the_place_of_an_earlier(
    tmp_path: Path,
) -> None:
    cells = [
        RECORD.cell,
        replace(RECORD.cell, seed=0),
        replace(RECORD.cell, recipe="a"),
    ]
    for cell in cells:
        write_record(tmp_path, replace(RECORD, cell=cell))
    write_record(tmp_path, replace(RECORD, data="other"))
    assert [record.cell for record in records(tmp_path)] == [
        cells[2],
        cells[1],
        cells[0],
    ]
    assert [record.data for record in records(tmp_path)] == ["abc", "abc", "other"]


def test_records_that_are_written_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    made = [replace(RECORD, cell=replace(RECORD.cell, seed=seed)) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(partial(write_record, tmp_path), made))
    assert list(records(tmp_path)) == made


def test_weights_that_the_recipe_does_not_name_are_a_stand_in() -> None:
    assert RECORD.is_stand_in
    assert not replace(
        RECORD, cell=replace(RECORD.cell, weights="bert-base-uncased")
    ).is_stand_in


def test_a_record_is_no_longer_of_a_recipe_that_changed() -> None:
    assert RECORD.is_of(RECIPE)
    assert not RECORD.is_of(
        replace(RECIPE, nqg=replace(RECIPE.nqg, training={"steps": 1}))
    )


def test_a_file_that_is_not_there_is_named_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match="no such file; `nqg reproduce NAME --results"):
        list(records(tmp_path / "none"))


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
def test_a_damaged_record_is_refused_with_the_reason(
    tmp_path: Path, change: dict[str, object], complaint: str
) -> None:
    (tmp_path / RESULTS_FILE).write_text(json.dumps(json.loads(RECORD.line()) | change))
    with pytest.raises(FormatError, match=rf"records\.jsonl:1: .*{complaint}"):
        list(records(tmp_path))


def test_a_record_without_a_key_is_refused(tmp_path: Path) -> None:
    values = json.loads(RECORD.line())
    del values["seconds"]
    (tmp_path / RESULTS_FILE).write_text(json.dumps(values))
    with pytest.raises(FormatError, match="the key 'seconds' of the record is missing"):
        list(records(tmp_path))


@pytest.mark.parametrize(
    "raw", [b"{", b"[1]", b"\xff"], ids=["cut short", "a list", "no text"]
)
def test_what_is_no_record_is_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / RESULTS_FILE).write_bytes(raw)
    with pytest.raises(FormatError, match=r"records\.jsonl:1"):
        list(records(tmp_path))


def test_every_published_record_is_of_its_recipe_as_it_is_today() -> None:
    results = Path(__file__).parents[2] / "results"
    stale = []
    for record in records(results):
        name, *changes = record.cell.recipe.split(",")
        if not record.is_of(read_recipe(name, changes)):
            stale.append(record.cell)
    # Its recipe was changed after this one run, which no table shows.
    assert stale == [
        Cell("scan-around-right,trials=false", "augmented", "flan-t5-small", 0)
    ]


RESULTS = Path(__file__).parents[2] / "results"
# Records that name a commit outside the history, or none: until these runs are made again.
UNTRACED = {"164a7ce2ad89", "baefabd18214", "unknown"}


def test_a_hybrid_is_stale_when_a_record_that_it_joins_is_newer() -> None:
    cell = Cell("geoquery-tmcd", "hybrid", "minilm+flan-t5-small", 0)
    hybrid = replace(RECORD, cell=cell, date="2026-11-15")
    part = replace(cell, system="seq2seq", weights="flan-t5-small")
    newer = replace(RECORD, cell=part, date="2026-11-16")
    assert is_stale(hybrid, [newer])
    assert not is_stale(hybrid, [replace(newer, date="2026-11-15")])
    assert not is_stale(hybrid, [replace(newer, cell=replace(part, seed=1))])
    assert not is_stale(hybrid, [replace(newer, cell=replace(part, weights="other"))])
    assert not is_stale(newer, [hybrid])
    # A hybrid that was also joined with the fallback of seed 0 depends on that, too.
    other = replace(newer, cell=replace(part, seed=0))
    third = replace(hybrid, cell=replace(cell, seed=2))
    assert not is_stale(third, [other])
    figures = {"one_fallback_accuracy": 0.5}
    assert is_stale(replace(third, figures=figures), [other])


def test_no_hybrid_in_the_results_is_stale() -> None:
    everything = list(records(RESULTS))
    stale = [str(each.cell) for each in everything if is_stale(each, everything)]
    assert not stale


def test_a_record_names_a_commit_that_exists() -> None:
    root = RESULTS.parent

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *words], cwd=root, capture_output=True, text=True, check=False
        )

    shallow = git("rev-parse", "--is-shallow-repository")
    if shallow.stdout.strip() != "false":
        pytest.skip("the history is not here")
    commits = {record.commit.rstrip("+") for record in records(RESULTS)}
    missing = set()
    for commit in sorted(commits):
        if git("cat-file", "-e", f"{commit}^{{commit}}").returncode:
            missing.add(commit[:12])
    assert missing <= UNTRACED
