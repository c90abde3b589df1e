"""The command line as a whole: mistakes are one line on stderr, and the exit code says whose they are."""

from __future__ import annotations

import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nqg.cli import main as command
from nqg.errors import (
    DataUnavailable,
    FormatError,
    MissingExtra,
    NqgError,
    SettingsError,
    UnknownName,
)


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
    error: NqgError,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(words: list[str]) -> None:
        raise error

    monkeypatch.setattr(command, "app", fails)
    with pytest.raises(SystemExit) as exited:
        command.main()
    assert exited.value.code == code
    assert capsys.readouterr().err == f"error: {error}\n"


def test_a_reader_that_went_away_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
        (
            ["data", "prepare", "geo"],
            2,
            "error: no dataset 'geo'; did you mean 'geoquery'?",
        ),
        (
            ["evaluate", "test.tsv", "--score", "p.tsv", "--metric", "spyder"],
            2,
            "did you mean 'spider'?",
        ),
        (
            ["evaluate", "none.tsv", "--score", "none.tsv"],
            1,
            "error: none.tsv: no such file",
        ),
        (["evaluate", "none.tsv"], 2, "expected MODEL and TEST, found 1 path"),
        (["--version"], 0, ""),
    ],
)
def test_the_exit_code_says_whose_mistake_it_is(
    words: list[str], code: int, said: str, tmp_path: Path
) -> None:
    run = shell(tmp_path, *words)
    assert run.returncode == code
    assert said in " ".join(run.stderr.split())


def test_the_shell_sees_the_code(tmp_path: Path) -> None:
    program = [
        sys.executable,
        "-c",
        "from nqg.cli.main import main; main()",
        "data",
        "prepare",
        "geo",
    ]
    run = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 2
    assert run.stderr.startswith("error: no dataset 'geo'; did you mean 'geoquery'?")


def shell(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What a process would do, in this one."""
    code: Any = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
    ):
        patch.chdir(folder)
        patch.setenv("TERMINAL_WIDTH", "100")
        patch.setattr(sys, "argv", ["nqg", *words])
        try:
            command.main()
        except SystemExit as exited:
            code = exited.code
    return subprocess.CompletedProcess(words, code or 0, out.getvalue(), err.getvalue())


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    (tmp_path / "pairs.tsv").write_text(
        "walk\tW\nwalk twice\tW W\nrun\tR\nrun twice\tR R\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("-q", "split", "random", "pairs.tsv"),
        ("split", "random", "pairs.tsv", "--quiet"),
    ],
)
def test_quiet_leaves_results_and_takes_notes_away(
    words: tuple[str, ...], pairs: Path
) -> None:
    run = shell(pairs, *words)
    assert (run.stdout, run.stderr) == ("3 train, 1 test\n", "")


def test_quiet_still_tells_errors(pairs: Path) -> None:
    assert (
        shell(pairs, "-q", "split", "random", "none.tsv").stderr
        == "error: none.tsv: no such file\n"
    )


def test_verbose_tells_settings_and_time(pairs: Path) -> None:
    run = shell(pairs, "induce", "pairs.tsv", "-o", "rules.txt", "-v")
    assert "[induction] terminal_bits = 8.0, " in run.stderr
    assert "wrote rules.txt\ninduce took " in run.stderr


def test_verbose_shows_where_an_error_arose(pairs: Path) -> None:
    lines = shell(pairs, "split", "random", "none.tsv", "-v").stderr.splitlines()
    assert "Traceback (most recent call last):" in lines
    assert lines[-1] == "error: none.tsv: no such file"


def test_one_call_is_no_quieter_because_the_last_one_was(tmp_path: Path) -> None:
    runner = CliRunner()
    path = tmp_path / "pairs.tsv"
    path.write_text("walk\tW\nrun\tR\n")
    words = ["split", "random", str(path), "-o", str(tmp_path / "out")]
    assert runner.invoke(command.app, ["-q", *words]).stderr == ""
    assert "wrote" in runner.invoke(command.app, words).stderr


def test_the_words_behind_two_dashes_are_left_where_they_are() -> None:
    assert command.hoisted(["parse", "-v", "--", "m", "-q"]) == [
        "-v",
        "parse",
        "--",
        "m",
        "-q",
    ]


@pytest.mark.parametrize(
    ("words", "hint"),
    [(["pars"], "'parse'"), (["evalute"], "'evaluate'"), (["data", "lst"], "'list'")],
)
def test_a_mistyped_command_is_met_with_the_likely_one(
    words: list[str], hint: str
) -> None:
    result = CliRunner().invoke(command.app, words)
    assert result.exit_code == 2
    assert f"Did you mean {hint}?" in result.stderr


def test_a_command_without_results_has_none_as_json() -> None:
    result = CliRunner().invoke(command.app, ["demo", "--json"])
    assert result.exit_code == 2
    assert "`nqg demo` has no results to print as JSON; omit --json" in result.stderr


INTERRUPTED = """
import os, signal
import nqg.data.example_files as files
from nqg.cli import split
from nqg.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background ignores it
def interrupted(path):
    os.kill(os.getpid(), signal.SIGINT)
split.required_examples = interrupted
main()
"""


def test_ctrl_c_is_one_line_and_exit_code_130(tmp_path: Path) -> None:
    program = [sys.executable, "-c", INTERRUPTED, "split", "random", "pairs.tsv"]
    run = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "error: interrupted\n")


def test_a_failure_of_the_system_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(words: list[str]) -> None:
        raise OSError(28, "No space left on device", "models/mine")

    monkeypatch.setattr(command, "app", fails)
    with pytest.raises(SystemExit) as exited:
        command.main()
    assert exited.value.code == 1
    assert capsys.readouterr().err == "error: models/mine: No space left on device\n"


@pytest.mark.parametrize(
    "verb",
    [
        "check-split",
        "evaluate",
        "induce",
        "init",
        "show-grammar",
        "parse",
        "serve",
        "train",
    ],
)
def test_a_verb_without_its_arguments_is_misused_and_no_traceback(
    verb: str, tmp_path: Path
) -> None:
    run = shell(tmp_path, verb)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["induce", "folder.tsv", "-o", "rules.txt"],
            "folder.tsv: expected a file, found a folder",
        ),
        (
            ["induce", "pairs.tsv", "-o", "folder.tsv"],
            "folder.tsv: expected a file to write the grammar to",
        ),
        (
            ["induce", "pairs.tsv", "-o", "rules.txt", "--settings", "folder.tsv"],
            "cannot be read (Is a directory)",
        ),
        (["show-grammar", "folder.tsv"], "folder.tsv/grammar.txt: no such file"),
        (["parse", "folder.tsv", "walk"], "is not a model folder"),
        (
            ["parse", "project", "walk"],
            "project/model?",
        ),
        (
            ["split", "random", "project"],
            "project: expected a file of examples, found a folder",
        ),
        (["init", "pairs.tsv"], "already exists"),
        (
            ["split", "random", "pairs.tsv", "-o", "pairs.tsv"],
            "cannot be created (File exists)",
        ),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_a_folder_for_a_file_and_the_other_way_round_are_named(
    words: list[str], said: str, pairs: Path
) -> None:
    (pairs / "folder.tsv").mkdir()
    (pairs / "project" / "model").mkdir(parents=True)
    (pairs / "project" / "model" / "nqg.json").write_text("{}")
    run = shell(pairs, *words)
    assert run.returncode == 1
    assert said in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["audit", "train.tsv", "test.tsv"], "`nqg audit` is now `nqg check-split`"),
        (["verify", "model"], "`nqg verify` is now `nqg check-model`"),
        (["check-split", "--dataset=pairs.tsv"], "--dataset is now --data"),
        (
            ["split", "tmcd", "p.tsv", "--moves", "9"],
            "--moves is now --set moves=VALUE",
        ),
        (["parse", "model", "walk", "--exact"], "--exact is now --no-spell-correction"),
        (["train", "p.tsv", "--learned", "9"], "is now --set training.learned=VALUE"),
        (["induce", "pairs.tsv", "--like", "scan"], "--like is now --preset"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_an_old_name_is_refused_with_the_new_one(
    words: list[str], message: str
) -> None:
    result = CliRunner().invoke(command.app, words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_every_new_name_of_a_command_is_a_command() -> None:
    assert set(command.RENAMED_COMMANDS.values()) <= set(command.COMMANDS)
    assert not set(command.RENAMED_COMMANDS) & set(command.COMMANDS)


def test_a_sentence_that_looks_like_an_old_option_is_read_behind_two_dashes() -> None:
    result = CliRunner().invoke(command.app, ["parse", "nowhere", "--", "--exact"])
    assert "is now" not in result.stderr
