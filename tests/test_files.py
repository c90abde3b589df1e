"""Reading lines with their places, refusing bytes that are no text, and writing whole files or nothing."""

from __future__ import annotations

import gzip
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError, NqgError, Place
from nqg.files import decoded, numbered_lines, write_text, written_atomically

LINES = st.lists(
    st.text(
        st.characters(exclude_characters="\0\r\n\ufeff", exclude_categories=["Cs"])
    ),
    max_size=5,
)


def lines(path: Path) -> list[str]:
    return [text for _, text in numbered_lines(path)]


def test_every_line_comes_with_its_file_and_number(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\n\nfour")
    assert list(numbered_lines(path)) == [
        (Place(path, number), text)
        for number, text in enumerate(["one", "two", "", "four"], start=1)
    ]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@given(texts=LINES)
def test_lines_survive_writing_and_reading(
    tmp_path_factory: pytest.TempPathFactory, name: str, texts: list[str]
) -> None:
    path = tmp_path_factory.mktemp("lines") / name
    write_text(path, "".join(f"{text}\n" for text in texts))
    assert lines(path) == texts


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b"a\r\nb\r\n", ["a", "b"], id="windows line ends go"),
        pytest.param(
            b"a\r\r\nb",
            ["a\r", "b"],
            id="only one carriage return belongs to the line end",
        ),
        pytest.param(
            "a\u2028b\x0bc\x85d\n".encode(),
            ["a\u2028b\x0bc\x85d"],
            id="other separators stay",
        ),
        pytest.param(
            b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n",
            ["a", "\ufeffb"],
            id="a byte order mark goes from line 1",
        ),
        pytest.param(b"", [], id="an empty file has no lines"),
    ],
)
def test_line_ends_and_marks(tmp_path: Path, raw: bytes, expected: list[str]) -> None:
    (tmp_path / "a.txt").write_bytes(raw)
    assert lines(tmp_path / "a.txt") == expected


def test_invalid_utf_8_is_refused_with_the_line_and_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\nbad \xff\n")
    with pytest.raises(
        FormatError, match=r"a\.txt:2: byte 5 is 0xff, which is not valid UTF-8"
    ):
        lines(path)


def test_nul_is_refused_with_the_byte() -> None:
    with pytest.raises(FormatError, match=r"b\.tsv:3: byte 2 is NUL, expected text"):
        decoded(b"a\0", Place(Path("b.tsv"), 3))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda raw: b"no gzip at all", id="not gzip"),
        pytest.param(lambda raw: raw[:-9], id="cut off"),
        pytest.param(
            lambda raw: raw[:15] + bytes(byte ^ 0xFF for byte in raw[15:]),
            id="scrambled",
        ),
    ],
)
def test_a_damaged_gzip_file_is_refused_by_name(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(damage(gzip.compress(os.urandom(2000).hex().encode())))
    with pytest.raises(FormatError, match=r"a\.txt\.gz: damaged gzip file"):
        lines(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match=r"gone\.txt: no such file"):
        lines(tmp_path / "gone.txt")
    with pytest.raises(NqgError, match="expected a file, found a folder"):
        lines(tmp_path)


def test_a_file_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(
        NqgError, match=r"loop: cannot be read \(Too many levels of symbolic links\)"
    ):
        lines(tmp_path / "loop")


def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write_and_fail() -> None:
        with written_atomically(path) as file:
            file.write(b"half of the n")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_and_fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_text(tmp_path / "ours", "text")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "plain").stat().st_mode
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours", "plain"]


def test_writing_the_same_text_twice_gives_the_same_gzip_bytes(tmp_path: Path) -> None:
    write_text(tmp_path / "a.gz", "text")
    write_text(tmp_path / "b.gz", "text")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(NqgError, match=r"the folder .*nowhere does not exist"):
        write_text(tmp_path / "nowhere" / "a.txt", "")
    with pytest.raises(
        NqgError, match=r"a\.txt: cannot write there \(Not a directory\)"
    ):
        write_text(tmp_path / "file" / "a.txt", "")
    with pytest.raises(NqgError, match=r"folder: cannot be written \(Is a directory\)"):
        write_text(tmp_path / "folder", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
