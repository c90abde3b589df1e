"""The pre-trained parsers of a release: `python deploy/release_models.py` trains them and writes an archive of each.

    dist/nqg-starter-0.3.0.tar.gz              a model folder, with its model card
    dist/nqg-home-assistant-en-0.3.0.tar.gz
    dist/nqg-models.sha256                     for `sha256sum --check`

An unpacked folder is what `nqg.Parser.from_pretrained` takes. The same folder makes the same archive, byte for byte.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import nqg
from nqg.inference.parser import Parser
from nqg.model.checkpoint import Measurement
from nqg.run_config import DataFingerprint

PROJECT = Path(__file__).resolve().parent.parent
STARTER = PROJECT / "src" / "nqg" / "data" / "starter"
HOME = PROJECT / "examples" / "home_assistant" / "en"
CHECKSUMS = "nqg-models.sha256"


@dataclass(frozen=True)
class Release:
    """A parser to release: its name, and the folder with `train.tsv` and `test.tsv`."""

    name: str
    data: Path
    settings: nqg.TrainSettings = nqg.TrainSettings()  # noqa: RUF009 (frozen)

    @property
    def folder(self) -> str:
        """The name of its model folder, with the version of nqg that reads it."""
        return f"nqg-{self.name}-{nqg.__version__}"


RELEASES = (Release("starter", STARTER), Release("home-assistant-en", HOME))


def trained(release: Release, folder: Path) -> Path:
    """The model folder of a release, whose card has the scores on test sentences."""
    parser = nqg.train(
        release.data / "train.tsv", settings=release.settings, device="cpu"
    )
    assert isinstance(parser, Parser), "a release has no second reader"
    test = nqg.read_examples(release.data / "test.tsv")
    answers = list(parser.answers(example.source for example in test))
    scores = nqg.score(
        [answer.target for answer in answers], [example.target for example in test]
    )
    shares = {name: getattr(scores, name) for name in scores.intervals()}
    measurement = Measurement(DataFingerprint.of(test, "test.tsv"), shares)
    provenance = replace(parser.model.provenance, measurements=(measurement,))
    path = folder / release.folder
    parser.save(path, provenance=provenance)
    print(f"{release.name}: {scores}", file=sys.stderr)
    return path


def packed(folder: Path) -> bytes:
    """A folder as an archive, without times and owners, which would make each one different."""
    unpacked = io.BytesIO()
    with tarfile.open(fileobj=unpacked, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            if not path.is_file():
                continue
            name = path.relative_to(folder.parent).as_posix()
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            with path.open("rb") as file:
                archive.addfile(entry, file)
    return gzip.compress(unpacked.getvalue(), mtime=0)


def write_releases(releases: Iterable[Release], folder: Path) -> list[Path]:
    """Train and write the archives and their checksums; gives the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files, lines = [], []
    for release in releases:
        with tempfile.TemporaryDirectory() as scratch:
            raw = packed(trained(release, Path(scratch)))
        path = folder / f"{release.folder}.tar.gz"
        path.write_bytes(raw)
        files.append(path)
        lines.append(f"{hashlib.sha256(raw).hexdigest()}  {path.name}\n")
    checksums = folder / CHECKSUMS
    checksums.write_text("".join(lines))
    return [*files, checksums]


if __name__ == "__main__":
    for written in write_releases(RELEASES, PROJECT / "dist"):
        print(written)
