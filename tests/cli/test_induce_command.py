"""`nqg induce`, as a user types it, stops it, kills it and takes it up again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import Result

from nqg.cli.terminal import STOPPED
from nqg.data.example import Example
from nqg.data.example_files import read_examples, write_examples
from nqg.errors import FormatError, NqgError, SettingsError, UnknownName
from nqg.grammar.grammar import Grammar
from nqg.induction.corpus import underivable
from nqg.induction.description_length import grammar_bits
from nqg.induction.induce import induce
from nqg.induction.inspection import coverage
from nqg.induction.search_log import read_search_log
from nqg.induction.settings import InductionSettings
from nqg.paper import load_dataset
from typed_commands import typed

EXAMPLES = [
    Example("jump", "J"),
    Example("walk", "W"),
    Example("jump twice", "J J"),
    Example("walk twice", "W W"),
    Example("run twice", "R R"),
    Example("walk after jump twice", "J J W"),
    Example("run after jump", "J R"),
]
SCAN = ("--preset", "scan")
QUICK_SCAN = (*SCAN, "--set", "induction.shortest=150")  # 29 steps


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    write_examples(tmp_path / "train.tsv", EXAMPLES)


@pytest.fixture(scope="session")
def scan_train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scan") / "scan.tsv"
    write_examples(path, load_dataset("scan").split("length")[0][::20])
    return path


def nqg(*words: str) -> Result:
    return typed("induce", *words)


def test_the_grammar_is_the_one_that_induce_finds() -> None:
    result = nqg("train.tsv", "-o", "grammar.txt", *SCAN)
    grammar = Grammar.read(Path("grammar.txt"))
    assert grammar == induce(EXAMPLES, InductionSettings.named("scan"))
    assert "NT_1 twice ### NT_1 NT_1" in str(grammar)
    assert not underivable(grammar, EXAMPLES)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].startswith(
        f"{len(grammar)} rules from 7 examples, "
    )
    assert result.stderr == "wrote grammar.txt\n"


def test_the_file_says_how_it_was_made_and_nothing_that_changes() -> None:
    for name in ("first.txt", "again.txt"):
        nqg("train.tsv", "-o", name, *SCAN)
    text = Path("first.txt").read_text()
    assert text == Path("again.txt").read_text()
    comments = [line for line in text.splitlines() if line.startswith("#")]
    grammar = Grammar.read(Path("first.txt"))
    settings = InductionSettings.named("scan")
    bits = grammar_bits(grammar, settings), coverage(grammar, EXAMPLES).data_bits
    assert comments[0].startswith("# induced by nqg ")
    assert comments[0].endswith(" from 7 examples")
    assert comments[1].startswith("# sha256 of the examples: ")
    assert '"terminal_bits": 32.0' in comments[2]
    assert comments[3].startswith(f"# {len(grammar)} rules after ")
    assert comments[4].endswith(
        f": {bits[0]:,.2f} for the grammar, {bits[1]:,.2f} for the data"
    )


def test_a_preset_chooses_settings_and_none_lifts_a_bound() -> None:
    facts = json.loads(
        nqg(
            "train.tsv",
            "-o",
            "g.txt",
            *SCAN,
            "--set",
            "induction.shortest=none",
            "--json",
        ).stdout
    )
    assert facts["settings"]["terminal_bits"] == 32.0
    assert facts["settings"]["shortest"] is None


def test_json_says_what_was_found() -> None:
    facts = json.loads(
        nqg("train.tsv", "-o", "g.txt", *SCAN, "--log", "steps.jsonl", "--json").stdout
    )
    grammar, log = Grammar.read(Path("g.txt")), read_search_log(Path("steps.jsonl"))
    assert (facts["rules"], facts["examples"], facts["steps"]) == (
        len(grammar),
        7,
        log[-1].step,
    )
    assert facts["finished"] is True
    assert facts["grammar_bits"] == log[-1].grammar_bits
    assert facts["seconds"] >= log[-1].seconds


def test_seed_rules_are_begun_with(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("# mine\nhop ### H\nNT_1 twice ### NT_1 NT_1\n")
    words = (
        "--set",
        "induction.pruning=false",
        "--log",
        "steps.jsonl",
        "--seed-rules",
        "seeds.txt",
    )
    nqg("train.tsv", "-o", "g.txt", *SCAN, *words)
    assert "hop ### H" in Path("g.txt").read_text()
    assert "and 2 seed rules" in Path("g.txt").read_text()
    assert read_search_log(Path("steps.jsonl"))[0].rules == len(EXAMPLES) + 2


GATED = """
import sys
from nqg.induction.search_log import StepRecord
from nqg.cli.main import main
lines, gates = int(sys.argv.pop(1)), int(sys.argv.pop(1))
line, written = StepRecord.line, []
def gated(self):
    if len(written) == lines:
        for _ in range(gates):
            print("here", flush=True)
            sys.stdin.readline()
    written.append(self)
    return line(self)
StepRecord.line = gated
main()
"""


def gated(lines: int, *words: str, gates: int = 1) -> subprocess.Popen[str]:
    """`nqg induce` in a process of its own, waiting at a gate where it has written so many lines of its log."""
    program = [sys.executable, "-c", GATED, str(lines), str(gates), "induce", *words]
    process = subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_at_gate(process)
    return process


def wait_at_gate(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n", process.communicate()


def interrupt(process: subprocess.Popen[str]) -> None:
    """Press Ctrl-C, then open the gate."""
    assert process.stdin is not None
    process.send_signal(signal.SIGINT)
    process.stdin.write("\n")
    process.stdin.flush()


def test_ctrl_c_stops_after_the_step_and_writes_a_valid_grammar(
    scan_train: Path,
) -> None:
    words = (str(scan_train), "-o", "g.txt", *QUICK_SCAN)
    process = gated(6, *words, "--log", "steps.jsonl")
    interrupt(process)
    out, err = process.communicate()
    assert process.returncode == STOPPED == 130
    assert (
        "stopped after step 6: the grammar is valid, but not yet as small as it can be"
        in err
    )
    assert "wrote g.txt" in err
    assert ", 6 steps" in out
    assert "after 6 steps, where the search was stopped" in Path("g.txt").read_text()
    assert not underivable(Grammar.read(Path("g.txt")), read_examples(scan_train))


def test_a_second_ctrl_c_ends_the_command_at_once_and_keeps_the_log(
    scan_train: Path,
) -> None:
    process = gated(
        6, str(scan_train), "-o", "g.txt", *QUICK_SCAN, "--log", "steps.jsonl", gates=2
    )
    interrupt(process)
    wait_at_gate(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == STOPPED
    assert "error: interrupted; g.txt was not written" in err
    assert not Path("g.txt").exists()
    assert len(read_search_log(Path("steps.jsonl"))) == 6


def test_the_hash_seed_of_python_does_not_matter(
    tmp_path: Path, scan_train: Path
) -> None:
    program = [
        sys.executable,
        "-c",
        "from nqg.cli.main import main; main()",
        "induce",
        str(scan_train),
    ]
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        words = ["-o", f"{seed}.txt", *QUICK_SCAN, "--set", "induction.sample=3"]
        subprocess.run(
            [*program, *words],
            env=environment,
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )
    assert Path("1.txt").read_bytes() == Path("2.txt").read_bytes()


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("none.tsv", "-o", "g.txt"), NqgError, "none.tsv: no such file"),
        (
            ("train.tsv", "-o", "none/g.txt"),
            NqgError,
            "none/g.txt: the folder none does not exist",
        ),
        (
            ("train.tsv", "-o", "."),
            NqgError,
            "expected a file to write the grammar to, found a folder",
        ),
        (
            ("train.tsv", "-o", "train.tsv"),
            NqgError,
            "train.tsv: the grammar would overwrite a file that is in",
        ),
        (
            ("train.tsv", "-o", "g", "--log", "g"),
            NqgError,
            "g: the grammar would overwrite a file that is in",
        ),
        (
            ("train.tsv", "-o", "g", "--preset", "scam"),
            UnknownName,
            "no settings for induction 'scam'; did you mean 'scan'?",
        ),
        (
            ("train.tsv", "-o", "g", "--set", "induction.sample=0"),
            SettingsError,
            "sample is 0; expected 1 or more",
        ),
        (
            ("train.tsv", "-o", "g", "--log", "train.tsv"),
            NqgError,
            "train.tsv: the log would overwrite the examples",
        ),
        (
            ("train.tsv", "-o", "g", "--seed-rules", "train.tsv"),
            FormatError,
            "train.tsv:1: expected 'source ### target'",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_said_in_words(
    words: tuple[str, ...], error: type[NqgError], message: str
) -> None:
    with pytest.raises(error) as caught:
        nqg(*words)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train.tsv",), "Missing option"),
        (
            ("train.tsv", "-o", "g", "--set", "training.steps=3"),
            "is not a setting of induction",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_misuse_has_exit_code_2(words: tuple[str, ...], message: str) -> None:
    result = nqg(*words)
    assert result.exit_code == 2
    assert message in result.stderr
