"""The command line as a whole: mistakes are one line on stderr, and the exit code says whose they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nqg.cli import main as command
from nqg.errors import DataUnavailable, FormatError, MissingExtra, NqgError, SettingsError, UnknownName


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NqgError("the disk is full"), 1),
        (FormatError("expected a rule"), 1),
        (DataUnavailable("no such file"), 1),
        (MissingExtra("drawing", "plots"), 1),
        (SettingsError("steps is 0; expected 1 or more"), 2),
        (UnknownName("dataset", "geo", ["geoquery"]), 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_failures_exit_with_1_and_misuse_with_2(
    error: NqgError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(words: list[str]) -> None:
        raise error

    monkeypatch.setattr(command, "app", fails)
    with pytest.raises(SystemExit) as exited:
        command.main()
    assert exited.value.code == code
    assert capsys.readouterr().err == f"error: {error}\n"


def test_a_reader_that_went_away_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def close(self) -> None:
            """As stderr's."""

    def fails(words: list[str]) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(command, "app", fails)
    monkeypatch.setattr(sys, "stderr", Closed())
    with pytest.raises(SystemExit) as exited:
        command.main()
    assert exited.value.code == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["data", "prepare", "geo"], 2, "error: no dataset 'geo'; did you mean 'geoquery'?"),
        (["evaluate", "test.tsv", "--predictions-from", "p.tsv", "--metric", "spyder"], 2, "did you mean 'spider'?"),
        (["evaluate", "none.tsv", "--predictions-from", "none.tsv"], 1, "error: none.tsv: no such file"),
        (["evaluate", "none.tsv"], 2, "expected MODEL and TEST, found 1 paths"),
        (["--version"], 0, ""),
    ],
)
def test_the_shell_sees_the_code(words: list[str], code: int, said: str, tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from nqg.cli.main import main; main()", *words]
    run = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == code
    assert said in " ".join(run.stderr.split())
