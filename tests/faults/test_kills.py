"""A command that is killed and repeated ends with the files of one that was not; `benchmarks/kills.py` kills more."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import pytest

from faults.kills import (
    Moment,
    Work,
    killed_again_and_again,
    random_moments,
    run,
    undisturbed,
)
from faults.works import works

KILLS = 2


@pytest.fixture
def all_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Work]:
    monkeypatch.setenv("NQG_DATA_CACHE", "put back at the end")
    return works(tmp_path / "cache")


def check(name: str, works: Mapping[str, Work], folder: Path) -> None:
    reference, expected = undisturbed(works[name], folder / "undisturbed")
    moments = islice(random_moments(reference, random.Random(name)), KILLS)
    kills, found = killed_again_and_again(
        works[name], folder / "disturbed", list(moments)
    )
    assert kills
    assert found == expected


@pytest.mark.parametrize("name", ["induce", "split", "train"])
def test_a_command_that_is_killed_and_repeated_writes_what_an_undisturbed_one_does(
    name: str, all_works: Mapping[str, Work], tmp_path: Path
) -> None:
    check(name, all_works, tmp_path)


@pytest.mark.parametrize("name", ["prepare", "reproduce"])
def test_so_does_one_that_needs_published_data(
    name: str, all_works: Mapping[str, Work], tmp_path: Path, real_data: Path
) -> None:
    check(name, all_works, tmp_path)


def test_a_kill_before_every_single_change_of_a_file_costs_nothing(
    all_works: Mapping[str, Work], tmp_path: Path
) -> None:
    reference, expected = undisturbed(all_works["induce"], tmp_path / "undisturbed")
    moments = [Moment(change=number) for number in range(1, reference.changes + 1)]
    assert len(moments) > 1
    for number, moment in enumerate(moments):
        kills, found = killed_again_and_again(
            all_works["induce"], tmp_path / str(number), [moment]
        )
        assert (kills, found) == (1, expected), moment


def test_a_command_that_fails_is_not_taken_for_one_that_was_killed(
    tmp_path: Path,
) -> None:
    assert (
        ended := run(("induce", "nowhere.tsv", "-o", "grammar.txt"), tmp_path)
    ).code == 1
    assert ended.said == "error: nowhere.tsv: no such file\n"
    with pytest.raises(RuntimeError, match="failed after 0 kills: error: nowhere"):
        killed_again_and_again(
            Work(("induce", "nowhere.tsv", "-o", "g"), lambda folder: None),
            tmp_path / "x",
            [Moment(change=1)],
        )
