"""Folders that are written whole or not at all, by processes that are killed or get in each other's way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from nqg.errors import NqgError
from nqg.model_folder import exclusive, folder_written_atomically, index_bytes

HEAD = "import os, signal, sys\nfrom pathlib import Path\nfrom nqg import model_folder as folders\n"
WRITE = """
def write(text):
    with folders.folder_written_atomically(Path(sys.argv[1])) as new:
        for name in ("first", "second"):
            (new / name).write_text(text)
"""


def write(folder: Path, text: str) -> None:
    with folder_written_atomically(folder) as new:
        for name in ("first", "second"):
            (new / name).write_text(text)


def texts(folder: Path) -> set[str]:
    return {path.read_text() for path in folder.iterdir()}


def started(program: str, folder: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + WRITE + program, str(folder), *words]
    )


def killed(program: str, folder: Path) -> None:
    assert started(program, folder).wait() == -signal.SIGKILL


def test_a_new_folder_takes_the_place_of_an_old_one(tmp_path: Path) -> None:
    for text in ("one", "two", "three"):
        write(tmp_path / "model", text)
        assert texts(tmp_path / "model") == {text}
        assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002], ids=oct)
def test_files_have_the_modes_that_the_umask_gives_them_whoever_wrote_them(
    tmp_path: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        with folder_written_atomically(tmp_path / "model") as new:
            (new / "part").mkdir()
            for name in ("first", "part/second"):
                (new / name).touch(mode=0o600)
    finally:
        os.umask(before)
    modes = {
        path.stat().st_mode & 0o777
        for path in (tmp_path / "model").rglob("*")
        if path.is_file()
    }
    assert modes == {0o666 & ~umask}
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o777 & ~umask


def test_when_writing_fails_nothing_changes(tmp_path: Path) -> None:
    write(tmp_path / "model", "one")

    def fail() -> None:
        with folder_written_atomically(tmp_path / "model") as new:
            (new / "first").write_text("two")
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        fail()
    assert texts(tmp_path / "model") == {"one"}
    assert os.listdir(tmp_path) == ["model"]


def test_a_kill_while_writing_leaves_the_old_folder_and_the_next_writer_tidies_up(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "model"
    write(folder, "one")
    killed(
        "with folders.folder_written_atomically(Path(sys.argv[1])) as new:\n    os.kill(os.getpid(), 9)",
        folder,
    )
    assert texts(folder) == {"one"}
    assert len(os.listdir(tmp_path)) == 2
    write(folder, "two")
    assert texts(folder) == {"two"}
    assert os.listdir(tmp_path) == ["model"]


BETWEEN = """
rename = os.rename
def rename_once(old, new):
    rename(old, new)
    os.kill(os.getpid(), 9)
os.rename = rename_once
write("two")
"""


def test_after_a_kill_between_the_two_renames_the_loader_names_the_old_folder(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "model"
    write(folder, "one")
    killed(BETWEEN, folder)
    assert not folder.exists()
    with pytest.raises(
        NqgError, match="killed while it replaced it; put it back: mv "
    ) as error:
        index_bytes(folder)
    old, place = str(error.value).split()[-2:]
    assert (texts(Path(old)), place) == ({"one"}, str(folder))


def test_when_a_save_fails_after_such_a_kill_the_old_folder_is_back(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "model"
    write(folder, "one")
    killed(BETWEEN, folder)
    with pytest.raises(RuntimeError), folder_written_atomically(folder):
        raise RuntimeError
    assert texts(folder) == {"one"}
    assert os.listdir(tmp_path) == ["model"]


def test_after_a_kill_between_the_two_renames_the_next_writer_goes_on(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "model"
    write(folder, "one")
    killed(BETWEEN, folder)
    write(folder, "three")
    assert texts(folder) == {"three"}
    assert os.listdir(tmp_path) == ["model"]


def test_processes_that_write_one_folder_at_once_leave_one_whole_folder(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "model"
    program = "for turn in range(40):\n    write(sys.argv[2] + str(turn))"
    writers = [started(program, folder, name) for name in ("a", "b", "c")]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(texts(folder)) == 1
    assert texts(folder) <= {"a39", "b39", "c39"}
    assert os.listdir(tmp_path) == ["model"]


def test_a_folder_that_is_held_is_refused_to_others_until_it_is_let_go(
    tmp_path: Path,
) -> None:
    words = "work: another process is at work here; wait until it has ended"
    with (
        exclusive(tmp_path / "work", wait=False),
        pytest.raises(NqgError, match=words),
        exclusive(tmp_path / "work", wait=False),
    ):
        pass
    with exclusive(tmp_path / "work", wait=False):
        (tmp_path / "work" / "state").touch()
    with exclusive(tmp_path / "work", wait=False):
        (tmp_path / "work" / "state").unlink()
    assert not list(tmp_path.iterdir())


def test_whoever_waits_for_a_folder_that_is_removed_gets_a_new_one(
    tmp_path: Path,
) -> None:
    folder, found = tmp_path / "work", []

    def wait() -> None:
        with exclusive(folder, wait=True):
            found.append(folder.exists())

    with exclusive(folder, wait=False):
        waiting = threading.Thread(target=wait)
        waiting.start()
        folder.rmdir()
    waiting.join(20)
    assert found == [True]


def test_a_folder_that_is_removed_while_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir, calls = Path.mkdir, []

    def removed_in_between(path: Path, *words: Any, **options: Any) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise FileExistsError(path)
        mkdir(path, *words, **options)

    monkeypatch.setattr(Path, "mkdir", removed_in_between)
    with exclusive(tmp_path / "work", wait=False):
        assert (tmp_path / "work").is_dir()
    assert calls == [tmp_path / "work"] * 2


def test_a_file_in_the_place_of_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "work").touch()
    with pytest.raises(FileExistsError), exclusive(tmp_path / "work", wait=True):
        pass


def test_a_kill_lets_go_of_a_folder(tmp_path: Path) -> None:
    killed(
        "\nwith folders.exclusive(Path(sys.argv[1]), wait=False):\n    os.kill(os.getpid(), signal.SIGKILL)\n",
        tmp_path / "work",
    )
    with exclusive(tmp_path / "work", wait=False):
        pass
