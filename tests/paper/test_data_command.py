"""`nqg data list` and `nqg data prepare`, as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import Result

from nqg.cli import terminal
from nqg.data.dataset import read_split
from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.errors import DataUnavailable, NqgError, UnknownName
from nqg.paper.datasets import CATALOGUE
from nqg.settings_reader import read_toml
from nqg.slots.slot import read_slots
from typed_commands import typed


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NQG_DATA_MIRROR", raising=False)
    monkeypatch.setenv("NQG_DATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def nqg(*words: str) -> Result:
    return typed("data", *words)


def test_the_list_shows_sizes_splits_licences_and_readiness(tmp_path: Path) -> None:
    lines = nqg("list").stdout.splitlines()
    assert lines[0].split() == ["name", "examples", "splits", "licence", "ready"]
    rows = {
        line.split()[0]: " ".join(line.split()) for line in lines[1:] if line.strip()
    }
    geoquery = rows["geoquery"]
    assert geoquery.startswith("geoquery 880 standard, template, length, tmcd, csl-")
    assert geoquery.endswith("GPLv2 (splits: Apache-2.0) no")
    assert rows["spider-xsp"] == "spider-xsp 8,034 standard CC BY-SA 4.0 no"
    assert rows["scan"].startswith("scan 20,910 simple, length, jump, turn-left,")
    assert "yes, but mcd1, mcd2, mcd3" in rows["scan"]
    assert not (tmp_path / "cache").exists()


def test_with_a_mirror_the_list_says_what_is_there(real_data: Path) -> None:
    result = nqg("list", "--mirror", str(real_data))
    ready = [
        line.split()[-1]
        for line in result.stdout.splitlines()[1:]
        if line.startswith(("scan", "geo", "sp", "sn"))
    ]
    assert ready == ["yes"] * 7
    assert "downloads what is missing" not in result.stderr


def test_the_list_as_json_names_the_missing_files() -> None:
    entries = {
        entry["name"]: entry for entry in json.loads(nqg("list", "--json").stdout)
    }
    assert list(entries) == list(CATALOGUE)
    assert entries["spider-xsp"]["missing"] == [
        {
            "path": f"spider/{name}",
            "address": "https://yale-lily.github.io/spider",
            "bytes": None,
        }
        for name in ("train_spider.json", "dev.json")
    ]
    assert entries["geoquery"]["missing"][0]["bytes"] == 919_140


def test_a_whole_dataset_is_written_here_with_its_licence_shown(tmp_path: Path) -> None:
    result = nqg("prepare", "scan")
    assert result.stdout.splitlines() == [
        "scan: commands to sequences of actions, generated from the grammar of the paper",
        "examples  20,910",
        "contents  as published",
        "licence   BSD (MCD splits: CC BY 4.0)",
        "cite      Lake and Baroni 2018, Generalization without Systematicity; Loula et al. 2018, Rearranging the "
        "Familiar (template splits); Keysers et al. 2020, Measuring Compositional Generalization (MCD splits)",
        "from      generated",
    ]
    assert result.stderr == "wrote scan.tsv\n"
    assert len(read_examples(tmp_path / "scan.tsv")) == 20_910


def test_a_split_is_written_part_by_part_with_its_record(
    real_data: Path, tmp_path: Path
) -> None:
    result = nqg("prepare", "scan", "--split", "mcd1", "--mirror", str(real_data))
    folder = tmp_path / "scan-mcd1"
    assert result.stderr.split() == [
        word
        for name in ("train.tsv", "dev.tsv", "test.tsv", "split.json")
        for word in ("wrote", f"scan-mcd1/{name}")
    ]
    sizes = [
        len(read_examples(folder / name))
        for name in ("train.tsv", "dev.tsv", "test.tsv")
    ]
    assert sizes == [8_365, 1_046, 1_045]
    assert read_split(folder / "split.json", size=20_910).made_by["split"] == "mcd1"
    assert "examples  20,910: 8,365 train, 1,046 dev, 1,045 test" in result.stdout
    assert (
        "from      https://storage.googleapis.com/cfq_dataset/scan-splits.tar.gz\n          https://raw."
        in result.stdout
    )


def test_jsonl_keeps_ids_and_json_goes_to_stdout_alone(
    real_data: Path, tmp_path: Path
) -> None:
    words = [
        "--mirror",
        str(real_data),
        "--split",
        "tmcd",
        "-o",
        "deep/folder",
        "--format",
        "jsonl",
        "--json",
    ]
    result = nqg("prepare", "geoquery", *words)
    facts = json.loads(result.stdout)
    assert facts["parts"] == {"train": 440, "test": 440}
    assert facts["as_published"]
    assert facts["files"] == [
        f"deep/folder/{name}" for name in ("train.jsonl", "test.jsonl", "split.json")
    ]
    written = [read_examples(tmp_path / name) for name in facts["files"][:2]]
    assert {example.id for part in written for example in part} == {
        str(number) for number in range(880)
    }


def test_lists_of_names_and_their_settings_are_written_beside_the_examples(
    real_data: Path, tmp_path: Path
) -> None:
    nqg(
        "prepare",
        "geoquery-raw",
        "--split",
        "standard",
        "-o",
        "geo",
        "--mirror",
        str(real_data),
    )
    settings = read_toml(tmp_path / "geo/nqg.toml")
    declared = read_slots(settings["slots"], tmp_path / "geo/nqg.toml")
    found = {
        slot.name: list(slot.names.matches(("colorado",)))
        for slot in declared
        if slot.names
    }
    assert {
        name: [value for *_, value in matches] for name, matches in found.items()
    } == {
        "state": ["stateid('colorado')"],
        "city": [],
        "river": ["riverid('colorado')"],
        "place": [],
        "country": [],
    }
    assert read_examples(tmp_path / "geo/train.tsv")[0] == Example(
        "Give me the cities in Virginia.",
        "answer(intersection(city, loc_2(stateid('virginia'))))",
    )


def test_another_release_is_said_to_be_one(real_data: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror/geoquery"
    mirror.mkdir(parents=True)
    corpus = (real_data / "geoquery/corpus.xml").read_text()
    (mirror / "corpus.xml").write_text(
        corpus.replace("Give me the cities", "Show me the cities", 1)
    )
    (mirror / "geobase").symlink_to(real_data / "geoquery/geobase")
    result = nqg("prepare", "geoquery", "--mirror", str(mirror.parent))
    assert "contents  not as published: another release of the files" in result.stdout


def test_an_unknown_split_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'length'"):
        nqg("prepare", "scan", "--split", "lenght")
    assert not list(tmp_path.iterdir())


def test_a_missing_file_says_what_to_put_where(tmp_path: Path) -> None:
    with pytest.raises(
        DataUnavailable, match=r"Put it at .*cache/spider/train_spider\.json"
    ):
        nqg("prepare", "spider-ssp")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(
        NqgError,
        match=r"taken: cannot be created \(File exists\); choose another folder",
    ):
        nqg("prepare", "scan", "-o", "taken")


def test_a_mistake_is_one_line_on_stderr_and_exit_code_2() -> None:
    command = [
        sys.executable,
        "-c",
        "from nqg.cli.main import main; main()",
        "data",
        "prepare",
        "geo",
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.splitlines() == [
        "error: no dataset 'geo'; did you mean 'geoquery'? Known: cogs, geoquery, geoquery-raw, scan, "
        "snips-getweather, snips-playmusic, spider-ssp, spider-xsp"
    ]


def test_progress_is_drawn_for_each_file_on_a_terminal_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def download_two_files() -> str:
        with terminal.progress_bar() as progress:
            for name in ("corpus.xml", "geobase"):
                progress(f"downloading {name}", 50, 100)
                progress(f"downloading {name}", 100, 100)
        captured = capsys.readouterr()
        assert captured.out == ""
        return captured.err

    assert download_two_files() == ""
    monkeypatch.setattr(
        terminal, "err", Console(stderr=True, force_terminal=True, width=100)
    )
    drawn = download_two_files()
    assert "downloading corpus.xml" in drawn
    assert "downloading geobase" in drawn
