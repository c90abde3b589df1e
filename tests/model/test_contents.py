"""What an index may name, and what a folder may hold."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from nqg.errors import FormatError, NqgError
from nqg.model_folder import check_contents, checksums, index_bytes


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def test_the_index_answers_for_all_files_but_the_hidden_the_card_and_those_with_an_index_of_their_own(
    tmp_path: Path,
) -> None:
    fill(
        tmp_path,
        "b.txt",
        "a/deep/c.json",
        ".hidden",
        "README.md",
        "nqg.json",
        "seq2seq/nqg.json",
        "seq2seq/x/w.txt",
    )
    assert checksums(tmp_path) == {
        name: hashlib.sha256(name.encode()).hexdigest()
        for name in ("a/deep/c.json", "b.txt")
    }


def test_a_whole_folder_passes(tmp_path: Path) -> None:
    fill(
        tmp_path,
        "grammar.txt",
        "a/b.json",
        "nqg.json",
        "README.md",
        ".hidden",
        "seq2seq/nqg.json",
    )
    check_contents(tmp_path, checksums(tmp_path), ("grammar.txt",))


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd.txt",
        "../secret.txt",
        "a/../b.txt",
        "./a.txt",
        "a//b.txt",
        "a\\b.txt",
        "c:a.txt",
        "",
    ],
)
def test_a_name_that_leads_out_of_the_folder_or_is_spelled_oddly_is_refused(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(
        FormatError,
        match=r"nqg\.json: '.*' is not the name of a file inside the model folder",
    ):
        check_contents(tmp_path, {name: "0"}, ())


@pytest.mark.parametrize(
    "name", ["code.py", "model.bin", "a/weights.pt", "README", "library.so"]
)
def test_a_file_of_a_kind_that_could_run_is_refused(tmp_path: Path, name: str) -> None:
    fill(tmp_path, name)
    with pytest.raises(
        FormatError,
        match=f"'{name}' is not a file that a model holds; expected .grammar",
    ):
        check_contents(tmp_path, checksums(tmp_path), ())


@pytest.mark.parametrize("files", [None, [], {}, {"b.txt": "0"}])
def test_an_index_without_what_is_needed_is_refused(
    tmp_path: Path, files: object
) -> None:
    with pytest.raises(
        FormatError, match=r"damaged: 'files' should name at least a\.txt"
    ):
        check_contents(tmp_path, files, ("a.txt",))


def test_a_missing_nested_file_is_named(tmp_path: Path) -> None:
    fill(tmp_path, "a/b.json")
    files = checksums(tmp_path)
    (tmp_path / "a" / "b.json").unlink()
    with pytest.raises(NqgError, match=r"a/b\.json is missing"):
        check_contents(tmp_path, files, ())


@pytest.mark.parametrize("checksum", ["0", 5, None])
def test_a_checksum_that_differs_is_damage(tmp_path: Path, checksum: object) -> None:
    fill(tmp_path, "a.txt")
    with pytest.raises(NqgError, match=r"a\.txt is damaged"):
        check_contents(tmp_path, {"a.txt": checksum}, ())


LEADS_OUT = (
    "is a link that leads out of the model folder; copy what it leads to into its place"
)


@pytest.mark.parametrize(
    "name", ["grammar.txt", "a/b.json", "a", "seq2seq", "README.md"]
)
def test_a_link_that_leads_out_of_the_folder_is_refused_though_its_checksum_is_right(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "model"
    fill(folder, "grammar.txt", "a/b.json", "nqg.json", "README.md", "seq2seq/nqg.json")
    files = checksums(folder)
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NqgError, match=f"{name}(/b.json)? {LEADS_OUT}"):
        check_contents(folder, files, ())


def test_links_inside_the_folder_and_a_link_to_the_whole_folder_are_followed(
    tmp_path: Path,
) -> None:
    fill(tmp_path / "model", "grammar.txt", "nqg.json")
    (tmp_path / "model" / "same.txt").symlink_to("grammar.txt")
    (tmp_path / "current").symlink_to(tmp_path / "model")
    check_contents(
        tmp_path / "current", checksums(tmp_path / "model"), ("grammar.txt", "same.txt")
    )
    assert index_bytes(tmp_path / "current") == b"nqg.json"


def test_an_index_that_is_a_link_to_elsewhere_a_loop_or_a_pipe_is_refused(
    tmp_path: Path,
) -> None:
    fill(tmp_path, "secret.json", "model/README.md")
    index = tmp_path / "model" / "nqg.json"
    index.symlink_to(tmp_path / "secret.json")
    with pytest.raises(NqgError, match=LEADS_OUT):
        index_bytes(index.parent)
    for is_loop in (True, False):
        index.unlink()
        index.symlink_to(index) if is_loop else os.mkfifo(index)
        with pytest.raises(
            NqgError, match=r"is not a model folder: it has no nqg\.json"
        ):
            index_bytes(index.parent)
