"""Full disks, folders that nobody may write to, and several processes at the same work: earlier results stay whole."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from faults.kills import (
    Work,
    jumping_clock,
    no_space_at_change,
    run,
    small_files_alone,
    started,
    undisturbed,
)
from faults.works import works
from nqg.model_folder import exclusive

DISK = 64 << 20  # bytes
PRINTED = 600  # bytes that a command prints at most


@pytest.fixture
def all_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Work]:
    monkeypatch.setenv("NQG_DATA_CACHE", "put back at the end")
    return works(tmp_path / "cache")


@pytest.fixture(params=["induce", "split", "train"])
def done(
    request: pytest.FixtureRequest, all_works: Mapping[str, Work], tmp_path: Path
) -> tuple[Work, Path]:
    """A command whose results are there already, and its folder."""
    work, folder = all_works[request.param], tmp_path / "work"
    folder.mkdir()
    work.prepare(folder)
    assert run(work.words, folder).code == 0
    return work, folder


def test_a_write_that_fails_is_one_line_and_the_earlier_result_stays(
    done: tuple[Work, Path],
) -> None:
    work, folder = done
    before = work.results(folder)
    ended = run(work.words, folder, plight=small_files_alone)
    assert ended.code == 1
    *_, last = ended.said.splitlines()
    assert last.startswith("error: ")
    assert "File too large" in last
    assert "Traceback" not in ended.said
    assert work.results(folder) == before


def check_failed_run(work: Work, folder: Path, plight: Callable[[], object]) -> str:
    """Run a command whose disk is full at some time: one line, no harm, and the next run succeeds."""
    ended = run(work.words, folder, plight=plight)
    assert "Traceback" not in ended.said
    if ended.code:
        assert ended.code == 1
        assert ended.said.splitlines()[-1].startswith("error: ")
    return ended.said


def test_a_short_write_of_each_file_of_a_training_costs_nothing(
    all_works: Mapping[str, Work], tmp_path: Path
) -> None:
    work, folder = all_works["train"], tmp_path / "work"
    folder.mkdir()
    work.prepare(folder)
    assert run(work.words, folder).code == 0
    expected = work.results(folder)
    sizes = {path.stat().st_size for path in (folder / "model").rglob("*")}
    # A file ends before its last byte, and so do all that are larger. What the command prints goes
    # to a file, too, which has to hold it.
    for size in sorted(size for size in sizes if size > PRINTED)[::3]:
        limit = partial(small_files_alone, size - 1)
        assert "File too large" in check_failed_run(work, folder, limit)
        # What was computed is kept for the next run, beside the earlier result.
        results = work.results(folder)
        assert {name: results[name] for name in expected} == expected
    assert run(work.words, folder).code == 0
    assert work.results(folder) == expected


def test_a_disk_that_is_full_from_any_change_of_a_training_on_costs_nothing(
    all_works: Mapping[str, Work], tmp_path: Path
) -> None:
    work, folder = all_works["train"], tmp_path / "work"
    reference, expected = undisturbed(work, tmp_path / "undisturbed")
    folder.mkdir()
    work.prepare(folder)
    # Each run goes on from what the one before it could store.
    for number in range(1, reference.changes, max(1, reference.changes // 4)):
        check_failed_run(work, folder, partial(no_space_at_change, number))
    assert run(work.words, folder).code == 0
    assert work.results(folder) == expected


def test_a_clock_that_jumps_changes_nothing(
    all_works: Mapping[str, Work], tmp_path: Path
) -> None:
    work, folder = all_works["train"], tmp_path / "work"
    _, expected = undisturbed(work, tmp_path / "undisturbed")
    folder.mkdir()
    work.prepare(folder)
    assert run(work.words, folder, plight=jumping_clock).code == 0
    assert work.results(folder) == expected


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[Path, str], None]]:
    """What mounts a file system of memory on a folder; skipped where that is not allowed, as it is to root alone."""
    places: list[Path] = []

    def mount(place: Path, options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if os.getuid() or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("no right to mount a file system")
        places.append(place)

    yield mount
    for place in places:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("name", ["split", "train"])
def test_a_full_disk_is_one_line_and_the_earlier_result_stays(
    name: str,
    all_works: Mapping[str, Work],
    tmp_path: Path,
    mounted: Callable[[Path, str], None],
) -> None:
    work, folder = all_works[name], tmp_path / "disk"
    folder.mkdir()
    mounted(folder, f"size={DISK}")
    work.prepare(folder)
    assert run(work.words, folder).code == 0
    before = work.results(folder)
    filler = folder / ".filler"
    with suppress(OSError):
        filler.write_bytes(bytes(DISK))
    ended = run(work.words, folder)
    assert (ended.code, "Traceback" in ended.said) == (1, False)
    assert "No space left on device" in ended.said.splitlines()[-1]
    assert work.results(folder) == before
    filler.unlink()
    assert run(work.words, folder).code == 0
    assert work.results(folder) == before


@pytest.mark.parametrize("name", ["induce", "train"])
def test_a_folder_that_cannot_be_written_is_named(
    name: str,
    all_works: Mapping[str, Work],
    tmp_path: Path,
    mounted: Callable[[Path, str], None],
) -> None:
    work, folder = all_works[name], tmp_path / "disk"
    folder.mkdir()
    mounted(folder, f"size={DISK}")
    work.prepare(folder)
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    ended = run(work.words, folder)
    assert (ended.code, "Traceback" in ended.said) == (1, False)
    assert "Read-only file system" in ended.said.splitlines()[-1]
    assert sorted(path.name for path in folder.iterdir()) == ["train.tsv"]


def together(
    words: tuple[str, ...], folder: Path, notes: Path, count: int
) -> list[int | None]:
    """Run a command several times at once; the exit codes."""
    processes = [started(words, folder, notes) for _ in range(count)]
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def test_processes_that_write_one_grammar_at_once_leave_one_whole_grammar(
    all_works: Mapping[str, Work], tmp_path: Path
) -> None:
    work, alone, folder = all_works["induce"], tmp_path / "alone", tmp_path / "together"
    for place in (alone, folder):
        place.mkdir()
        work.prepare(place)
    assert run(work.words, alone).code == 0
    assert together(work.words, folder, tmp_path, 3) == [0, 0, 0]
    assert work.results(folder) == work.results(alone)
    assert not [
        path for path in folder.rglob("*") if path.name.endswith((".part", ".staging"))
    ]


def test_of_two_trainings_of_one_model_at_once_the_second_is_refused_and_the_first_is_not_harmed(
    all_works: Mapping[str, Work], tmp_path: Path
) -> None:
    work, folder = all_works["train"], tmp_path / "work"
    folder.mkdir()
    work.prepare(folder)
    with exclusive(folder / "model.training", wait=False):  # as a training does
        ended = run(work.words, folder)
    assert ended.code == 1
    assert (
        ended.said
        == "error: model.training: another process is at work here; wait until it has ended\n"
    )
    assert run(work.words, folder).code == 0
    assert not (folder / "model.training").exists()


def test_of_two_reproductions_at_once_one_does_the_work_and_the_other_waits_for_it(
    all_works: Mapping[str, Work], tmp_path: Path, real_data: Path
) -> None:
    work, folder = all_works["reproduce"], tmp_path / "work"
    folder.mkdir()
    work.prepare(folder)
    assert together(work.words, folder, tmp_path, 2) == [0, 0]
    (unfinished,) = (folder / "results" / ".unfinished").iterdir()
    assert not list(unfinished.iterdir())
    assert sorted(work.results(folder)) == ["mine.toml", "results/records.jsonl"]
