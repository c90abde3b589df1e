"""Commands with damaged input: done, or one of our errors and nothing written."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fuzz import seeds
from fuzz.mutations import damaged
from fuzz.test_readers import randoms, time_limit
from nqg.cli.main import app
from nqg.errors import FAILED, MISUSED, NqgError


@dataclass(frozen=True)
class Command:
    """A command that reads a file `name`; what it writes goes to the folder `out`."""

    name: str
    seed: str
    words: tuple[str, ...]


COMMANDS: Mapping[str, Command] = {
    "induce": Command(
        "a.tsv",
        seeds.TSV,
        ("induce", "a.tsv", "-o", "out/grammar.txt", "--log", "out/steps.jsonl"),
    ),
    "split": Command(
        "a.tsv", seeds.TSV, ("split", "random", "a.tsv", "-o", "out/parts")
    ),
    "template split": Command(
        "a.jsonl", seeds.JSONL, ("split", "template", "a.jsonl", "-o", "out/parts")
    ),
    "audit": Command(
        "split.json",
        seeds.SPLITS[0],
        ("check-split", "--data", "whole.tsv", "--split", "split.json"),
    ),
    "inspect": Command(
        "grammar.txt",
        seeds.GRAMMAR,
        ("show-grammar", "grammar.txt", "--data", "whole.tsv", "--json"),
    ),
    "evaluate": Command(
        "said.tsv",
        seeds.TSV,
        (
            "evaluate",
            "whole.tsv",
            "--score",
            "said.tsv",
            "--write-predictions",
            "out/predictions.jsonl",
        ),
    ),
    "report": Command(
        "results/a/b.json", seeds.RECORD, ("report", "results", "--json")
    ),
    "reproduce": Command(
        "mine.toml", 'dataset = "nowhere"\nsplit = "x"\n', ("reproduce", "mine.toml")
    ),
    "train": Command(
        "rules.grammar",
        "a ### ###\n",
        ("train", "whole.tsv", "-o", "out/m", "--grammar", "rules.grammar"),
    ),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "whole.tsv").write_text(seeds.TSV * 2)
    (tmp_path / "rules.txt").write_text(seeds.GRAMMAR)
    (tmp_path / "results" / "a").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_with_damaged_input_is_done_or_fails_with_our_error_and_writes_nothing(
    name: str, here: Path
) -> None:
    command = COMMANDS[name]
    seed = command.seed.encode()

    @settings(max_examples=15, database=None, suppress_health_check=list(HealthCheck))
    @given(st.builds(damaged, st.just(seed), st.just(seed), randoms))
    def check(case: bytes) -> None:
        shutil.rmtree(here / "out", ignore_errors=True)
        (here / "out").mkdir()
        (here / command.name).write_bytes(case)
        with time_limit():
            ended = CliRunner().invoke(app, list(command.words))
        if ended.exit_code:
            assert isinstance(ended.exception, NqgError | SystemExit), ended.exc_info
            assert isinstance(ended.exception, NqgError) or ended.exit_code in (
                FAILED,
                MISUSED,
            )
            assert not list((here / "out").iterdir())

    check()
