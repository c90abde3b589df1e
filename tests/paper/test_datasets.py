"""Every dataset by name: loaded from the mirror, with the published sizes, splits and contents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import nqg.paper
from nqg.errors import DataUnavailable, FormatError, UnknownName
from nqg.paper.datasets import (
    CATALOGUE,
    entry_named,
    load_cogs,
    load_dataset,
    load_spider_schemas,
)
from nqg.paper.download import Cache, Mirror, RemoteFile


def every_file() -> Iterator[RemoteFile]:
    for entry in CATALOGUE.values():
        for file in (
            *entry.files,
            *(file for split in entry.splits.values() for file in split.files),
        ):
            yield file
            if file.archive:
                yield file.archive


def test_the_public_door_gives_scan_in_one_line_and_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NQG_DATA_MIRROR", raising=False)
    monkeypatch.setenv("NQG_DATA_CACHE", str(tmp_path))
    train, test = nqg.paper.load_dataset("scan").split("length")
    assert (len(train), len(test)) == (16_990, 3_920)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", list(CATALOGUE))
def test_a_dataset_from_the_mirror_has_the_published_examples(
    real_data: Path, name: str
) -> None:
    dataset = load_dataset(name, mirror=real_data)
    assert len(dataset.examples) == CATALOGUE[name].size
    assert dataset.fingerprint == CATALOGUE[name].fingerprint
    assert dataset.licence == CATALOGUE[name].licence


@pytest.mark.parametrize(
    ("name", "folder"), [("geoquery", "geoquery"), ("spider-ssp", "spider")]
)
def test_the_converted_examples_are_those_of_the_authors(
    real_data: Path, name: str, folder: str
) -> None:
    lines = (real_data / folder / "expected_dataset.tsv").read_text().splitlines()
    assert [
        f"{example.source}\t{example.target}"
        for example in load_dataset(name, real_data).examples
    ] == lines


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        (
            "geoquery",
            {
                "standard": (600, 280),
                "template": (441, 439),
                "length": (440, 440),
                "tmcd": (440, 440),
                "csl-length": (440, 330),
                "csl-template-1": (438, 332),
                "csl-template-2": (439, 331),
                "csl-template-3": (440, 330),
                "csl-tmcd-1": (440, 330),
                "csl-tmcd-2": (440, 330),
                "csl-tmcd-3": (440, 330),
            },
        ),
        (
            "spider-ssp",
            {
                "random": (3282, 1094),
                "template": (3280, 1096),
                "length": (3282, 1094),
                "tmcd": (3282, 1094),
            },
        ),
        ("spider-xsp", {"standard": (7000, 1034)}),
        ("cogs", {"test": (24155, 3000), "gen": (24155, 21000)}),
    ],
)
def test_the_published_splits_have_their_sizes_and_record_their_origin(
    real_data: Path, name: str, sizes: dict[str, tuple[int, int]]
) -> None:
    dataset = load_dataset(name, mirror=str(real_data))
    assert dataset.splits == tuple(sizes)
    for split, size in sizes.items():
        train, test = dataset.split(split)
        assert (len(train), len(test)) == size
        assert len({example.id for example in train + test}) == len(train) + len(test)
        assert dataset.positions(split).made_by["split"] == split
        assert dataset.positions(split).made_by["dataset"] == name


def test_the_test_part_of_xsp_asks_about_databases_that_training_never_saw(
    real_data: Path,
) -> None:
    train, test = load_dataset("spider-xsp", real_data).split("standard")
    databases = [
        {example.source.split(":")[0] for example in part} for part in (train, test)
    ]
    assert len(databases[1]) == 20
    assert not databases[0] & databases[1]


def test_the_mirror_named_by_the_variable_works_as_it_is(
    real_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NQG_DATA_MIRROR", str(real_data))
    scan = load_dataset("scan")
    parts = scan.parts("mcd1")
    assert (len(parts.train), len(parts.dev), len(parts.test)) == (8_365, 1_046, 1_045)


def test_a_split_whose_file_the_mirror_lacks_is_refused_alone(tmp_path: Path) -> None:
    scan = load_dataset("scan", mirror=tmp_path)
    assert {"length", "mcd1", "mcd2", "mcd3"} < set(scan.splits)
    with pytest.raises(DataUnavailable, match=r"has no scan/mcd2\.json; put it there"):
        scan.split("mcd2")


def test_either_published_form_of_geobase_gives_the_same_dataset(
    real_data: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "geoquery"
    folder.mkdir()
    (folder / "corpus.xml").symlink_to(real_data / "geoquery/corpus.xml")
    (folder / "geobase").symlink_to(real_data / "geoquery/geobase_with_header")
    assert (
        load_dataset("geoquery", tmp_path).fingerprint
        == CATALOGUE["geoquery"].fingerprint
    )


def test_a_corpus_with_an_example_too_few_is_refused(
    real_data: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "geoquery"
    folder.mkdir()
    corpus = (real_data / "geoquery/corpus.xml").read_text()
    (folder / "corpus.xml").write_text(
        re.sub(r'<example id="879">.*</example>', "", corpus, flags=re.DOTALL)
    )
    (folder / "geobase").symlink_to(real_data / "geoquery/geobase")
    with pytest.raises(
        FormatError,
        match=r"expected 880 examples of geoquery, found 879 in .*corpus\.xml, .*geobase",
    ):
        load_dataset("geoquery", tmp_path)


def test_spider_comes_by_hand_and_the_error_says_where_to_put_it(
    tmp_path: Path,
) -> None:
    with pytest.raises(DataUnavailable) as caught:
        entry_named("spider-ssp").load(Cache(tmp_path))
    assert (
        "cannot be downloaded by a program: get the archive that holds it from https://yale-lily"
        in str(caught.value)
    )
    assert f"Put it at {tmp_path / 'spider/train_spider.json'}" in str(caught.value)


def test_an_unknown_dataset_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="no dataset 'geo'; did you mean 'geoquery'"):
        load_dataset("geo")


def test_files_that_are_downloaded_can_be_checked() -> None:
    for file in every_file():
        assert file.by_hand or file.sha256 or file.marks or file.archive, file.path
        assert re.match("(https?|ftp)://", file.address)


def test_the_checks_pass_on_the_published_files(real_data: Path) -> None:
    there = [file for file in every_file() if Mirror(real_data).has(file)]
    assert len(there) > 10
    assert all(file.is_whole_at(real_data / file.path) for file in there)
    assert all(
        file.size in (None, (real_data / file.path).stat().st_size) for file in there
    )


def test_what_is_missing_is_listed_without_downloading(tmp_path: Path) -> None:
    assert [
        file.path for file in CATALOGUE["spider-xsp"].missing(Mirror(tmp_path))
    ] == [
        "spider/train_spider.json",
        "spider/dev.json",
    ]
    assert CATALOGUE["scan"].addresses() == ()
    assert len(CATALOGUE["scan"].addresses("mcd3")) == 2


def test_spiders_schemas_come_from_the_mirror(real_data: Path) -> None:
    assert len(load_spider_schemas(real_data)) == 166


def test_a_line_of_cogs_without_its_three_fields_is_named(tmp_path: Path) -> None:
    path = tmp_path / "gen.tsv"
    path.write_text("A dog ran .\trun ( agent = dog )\tin_distribution\nA dog .\tdog\n")
    with pytest.raises(
        FormatError,
        match=r"gen\.tsv:2: expected a sentence, a program and a kind .* found 2",
    ):
        load_cogs(path)
