"""Files that were made to do harm: text that expands without end, archives that lead out, arrays that fill memory."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nqg.data.example_files import read_examples
from nqg.errors import FormatError, NqgError, Place
from nqg.files import LONGEST_LINE, strict_json
from nqg.induction.search_log import SETTINGS_MARK, settings_in_comments
from nqg.paper.download import Cache, RemoteFile
from nqg.paper.geoquery import read_corpus
from nqg.slots.slot import column_values, read_gazetteer
from nqg.sql.reader import DatabaseReader

NO_NAMES = {"NUL": "geo\0.sqlite", "too long": "x" * 300}


def read_schema(path: Path) -> object:
    return DatabaseReader(path).schema


@pytest.mark.parametrize("name", NO_NAMES.values(), ids=NO_NAMES)
@pytest.mark.parametrize(
    "read",
    [read_gazetteer, read_schema, lambda path: column_values(path, "city.name")],
)
def test_a_name_that_no_file_can_have_is_refused(
    tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    with pytest.raises(NqgError, match=r"no such file|cannot be read"):
        read(tmp_path / name)


LAUGHS = "".join(
    f'<!ENTITY a{n} "{f"&a{n - 1};" * 10 if n else "ha"}">' for n in range(12)
)


@pytest.mark.parametrize(
    ("declarations", "entity"),
    [
        (LAUGHS, "a11"),
        ('<!ENTITY outside SYSTEM "file:///etc/passwd">', "outside"),
        ('<!ENTITY % outside SYSTEM "http://127.0.0.1:9/evil.dtd"> %outside;', "x"),
    ],
    ids=["a billion laughs", "a file", "an address"],
)
def test_entities_of_a_corpus_are_neither_expanded_nor_opened(
    tmp_path: Path, declarations: str, entity: str
) -> None:
    path = tmp_path / "corpus.xml"
    path.write_text(
        f"<!DOCTYPE examples [{declarations}]>\n"
        f'<examples><example id="0"><nl lang="en">&{entity};</nl><mrl lang="geo-funql">x</mrl></example></examples>'
    )
    with pytest.raises(
        FormatError, match=r"corpus\.xml:1: found an entity declaration"
    ):
        read_corpus(path)


def test_a_line_that_unpacks_to_gigabytes_is_refused_as_soon_as_it_is_too_long(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bomb.tsv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(LONGEST_LINE // (1 << 20) + 2):
            file.write(b"a" * (1 << 20))
    assert path.stat().st_size < LONGEST_LINE // 100
    with pytest.raises(
        FormatError, match=r"bomb\.tsv\.gz:1: the line has more than 67,108,864 bytes"
    ):
        read_examples(path)


def member(
    name: str, kind: bytes = tarfile.REGTYPE, size: int = 2, link: str = ""
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, link
    return info


def archive(path: Path, *members: tarfile.TarInfo) -> RemoteFile:
    """A file in an archive that is taken as it lies there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for each in members:
            tar.addfile(each, io.BytesIO(b"{}") if each.isfile() else None)
    whole = RemoteFile(path.name, "https://example.org/", by_hand=True)
    return RemoteFile("split.json", "https://example.org/", archive=whole)


def test_paths_links_and_devices_of_an_archive_are_never_made(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "deep" / "cache")
    file = archive(
        cache.folder / "evil.tar.gz",
        member("../../evil"),
        member("/tmp/nqg-evil"),
        member("split.json", tarfile.SYMTYPE, 0, "/etc/passwd"),
        member("a/split.json", tarfile.LNKTYPE, 0, "../../evil"),
        member("b/split.json", tarfile.CHRTYPE, 0),
        member("c/split.json", tarfile.FIFOTYPE, 0),
        member("../../../split.json"),
    )
    assert cache.path_of(file).read_bytes() == b"{}"
    assert sorted(
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")
    ) == [
        "deep",
        "deep/cache",
        "deep/cache/evil.tar.gz",
        "deep/cache/split.json",
    ]
    assert not (cache.folder / "split.json").is_symlink()
    assert not Path("/tmp/nqg-evil").exists()


def test_a_member_of_an_archive_that_is_too_large_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nqg.paper.download.LARGEST_MEMBER", 1)
    monkeypatch.setattr(
        tarfile.TarFile, "extractfile", lambda *_: pytest.fail("it was opened")
    )
    with pytest.raises(
        FormatError, match=r"evil\.tar\.gz: split\.json claims 2 bytes, more than 1"
    ):
        Cache(tmp_path).path_of(archive(tmp_path / "evil.tar.gz", member("split.json")))
    assert not (tmp_path / "split.json").exists()


def test_a_member_that_claims_more_than_there_is_is_refused(tmp_path: Path) -> None:
    file = archive(tmp_path / "evil.tar.gz", member("split.json"))
    (tmp_path / "evil.tar.gz").write_bytes(
        gzip.compress(member("split.json", size=1 << 32).tobuf() + b"{}")
    )
    with pytest.raises(
        FormatError, match=r"evil\.tar\.gz: damaged archive \(unexpected end of data\)"
    ):
        Cache(tmp_path).path_of(file)


def test_an_archive_in_another_compression_is_refused(tmp_path: Path) -> None:
    file = archive(tmp_path / "evil.tar.gz", member("split.json"))
    (tmp_path / "evil.tar.gz").write_bytes(lzma.compress(member("split.json").tobuf()))
    with pytest.raises(
        FormatError, match=r"evil\.tar\.gz: damaged archive \(not a gzip file\)"
    ):
        Cache(tmp_path).path_of(file)


def test_a_json_object_with_many_keys_and_one_twice_is_refused_soon() -> None:
    keys = ", ".join(f'"{number}": 0' for number in range(100_000))
    with pytest.raises(FormatError, match="the key 'x' stands twice"):
        strict_json(f'{{{keys}, "x": 0, "x": 1}}', Place(Path("many.json"), 1))


def test_a_bottomless_comment_on_a_grammar_is_no_settings(tmp_path: Path) -> None:
    path = tmp_path / "grammar.txt"
    path.write_text(f"{SETTINGS_MARK}{'[' * 100_000}\njump ### J\n")
    assert settings_in_comments(path) == {}
