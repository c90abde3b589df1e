"""The pre-trained parsers of a release, here tiny ones: archives that unpack to folders for `from_pretrained`."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

import nqg
from conftest import PROJECT
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings

TINY = nqg.TrainSettings(
    model=ModelSettings(
        dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
    ),
    training=TrainingSettings(steps=30, batch_size=16, warm_up=5, learning_rate=3e-3),
    confidence=nqg.ConfidenceSettings(folds=0),
)


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    path = PROJECT / "deploy" / "release_models.py"
    spec = importlib.util.spec_from_file_location("release_models", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules["release_models"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["release_models"]


@pytest.fixture(scope="module")
def dist(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a release writes, of parsers that are hardly trained, of a few pairs."""
    folder = tmp_path_factory.mktemp("release")
    for name in ("walks", "jumps"):
        data = folder / name
        data.mkdir()
        pairs = [
            nqg.Example(f"{verb} {count}", f"{verb.upper()} {count}")
            for verb in (name, "run", "look")
            for count in ("once", "twice", "thrice")
        ]
        nqg.write_examples(data / "train.tsv", pairs)
        nqg.write_examples(data / "test.tsv", pairs[:4])
    releases = [
        script.Release(name, folder / name, TINY) for name in ("walks", "jumps")
    ]
    script.write_releases(releases, folder / "dist")
    return folder / "dist"


def test_the_archives_unpack_to_folders_for_from_pretrained(
    dist: Path, tmp_path: Path
) -> None:
    for name in ("walks", "jumps"):
        stem = f"nqg-{name}-{nqg.__version__}"
        with tarfile.open(dist / f"{stem}.tar.gz") as archive:
            archive.extractall(tmp_path, filter="data")
        parser = nqg.Parser.from_pretrained(tmp_path / stem, "cpu")
        assert parser.parse(f"{name} twice").target == f"{name.upper()} twice"
        # The card has the scores on the test sentences, and coverage beside precision.
        card = (tmp_path / stem / "README.md").read_text()
        assert "`coverage` `1`, `precision` `1`, on `test.tsv`, 4 examples" in card


def test_the_checksums_are_those_of_the_archives(dist: Path) -> None:
    lines = (dist / "nqg-models.sha256").read_text().splitlines()
    assert len(lines) == 2
    for line in lines:
        checksum, name = line.split("  ")
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == checksum


def test_the_same_folder_is_the_same_archive(
    script: ModuleType, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    (folder / "seq2seq").mkdir(parents=True)
    (folder / "nqg.json").write_text("{}")
    (folder / "seq2seq" / "nqg.json").write_text("[]")
    first = script.packed(folder)
    (folder / "nqg.json").touch()
    assert script.packed(folder) == first


def test_what_is_released_has_pairs_to_learn_from_and_to_test(
    script: ModuleType,
) -> None:
    assert len(script.RELEASES) == 2
    for release in script.RELEASES:
        train = nqg.read_examples(release.data / "train.tsv")
        test = nqg.read_examples(release.data / "test.tsv")
        assert not {each.source for each in train} & {each.source for each in test}
        assert replace(release, name="x").folder == f"nqg-x-{nqg.__version__}"
