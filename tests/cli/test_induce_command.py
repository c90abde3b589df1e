"""`nqg induce`, as a user types it, stops it, kills it and takes it up again."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from threading import Event

import pytest
from rich.console import Console
from typer.testing import Result

from nqg import load_dataset
from nqg.cli import induce as drawing
from nqg.cli.induce import SearchLine, search_line
from nqg.cli.settings import LIKE
from nqg.cli.terminal import STOPPED
from nqg.data.examples import Example, read_examples, write_examples
from nqg.errors import FormatError, NqgError, SettingsError, UnknownName
from nqg.grammar.grammar import Grammar
from nqg.induction.corpus import underivable
from nqg.induction.description_length import grammar_bits
from nqg.induction.induce import induce
from nqg.induction.inspection import coverage
from nqg.induction.settings import InductionSettings
from nqg.induction.trace import read_trace
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
SCAN = ("--like", "scan")
QUICK_SCAN = (*SCAN, "--shortest", "150")  # 29 steps


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
    assert result.stdout.splitlines()[0].startswith(f"{len(grammar)} rules from 7 examples, ")
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
    assert comments[4].endswith(f": {bits[0]:,.2f} for the grammar, {bits[1]:,.2f} for the data")


def test_every_setting_has_an_option_that_reaches_it() -> None:
    given = {
        "--terminal-bits": 16.0,
        "--non-terminal-bits": 2.0,
        "--data-weight": 0.5,
        "--minimum-gain": 3.0,
        "--shortest": 5,
        "--stages": 1,
        "--sample": 2,
        "--max-non-terminals": 3,
        "--seed": 7,
    }
    switches = {"--identity-rules": True, "--no-repeated-targets": False, "--no-balanced": False}
    more = {"--factoring": True, "--no-pruning": False, "--lexical": True, "--returning": True, "--fitted": True}
    more |= {"--no-bare-targets": False, "--frame": True}
    words = [str(word) for pair in given.items() for word in pair]
    facts = json.loads(nqg("train.tsv", "-o", "g.txt", *SCAN, *words, *switches, *more, "--json").stdout)
    expected = {
        name[2:].removeprefix("no-").replace("-", "_"): value for name, value in (given | switches | more).items()
    }
    assert facts["settings"] == expected
    assert set(expected) == {field.name for field in fields(InductionSettings)}


def test_like_chooses_settings_and_all_lifts_a_bound() -> None:
    facts = json.loads(nqg("train.tsv", "-o", "g.txt", *SCAN, "--shortest", "all", "--json").stdout)
    assert facts["settings"]["terminal_bits"] == 32.0
    assert facts["settings"]["shortest"] is None
    names = LIKE.help.removeprefix("Use the settings for: ").removesuffix(".").split(", ")
    assert all(InductionSettings.named(name) for name in names)


def test_json_says_what_was_found() -> None:
    facts = json.loads(nqg("train.tsv", "-o", "g.txt", *SCAN, "--trace", "steps.jsonl", "--json").stdout)
    grammar, trace = Grammar.read(Path("g.txt")), read_trace(Path("steps.jsonl"))
    assert (facts["rules"], facts["examples"], facts["steps"]) == (len(grammar), 7, len(trace.steps))
    assert facts["finished"] is True
    assert facts["grammar_bits"] == trace.length.grammar_bits
    assert facts["data_sha256"] == trace.header.sha256
    assert facts["seconds"] >= trace.seconds


def test_seed_rules_are_begun_with(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("# mine\nhop ### H\nNT_1 twice ### NT_1 NT_1\n")
    words = ("train.tsv", "-o", "g.txt", *SCAN, "--no-pruning", "--trace", "steps.jsonl", "--seed-rules", "seeds.txt")
    nqg(*words)
    assert "hop ### H" in Path("g.txt").read_text()
    assert "and 2 seed rules" in Path("g.txt").read_text()
    assert read_trace(Path("steps.jsonl")).header.rules == len(EXAMPLES) + 2


def test_a_finished_trace_can_be_resumed_and_changes_nothing() -> None:
    nqg("train.tsv", "-o", "first.txt", *SCAN, "--trace", "steps.jsonl")
    before = Path("steps.jsonl").read_bytes()
    result = nqg("train.tsv", "-o", "again.txt", *SCAN, "--resume", "steps.jsonl")
    assert Path("steps.jsonl").read_bytes() == before
    assert Path("first.txt").read_bytes() == Path("again.txt").read_bytes()
    steps = before.count(b"\n") - 2
    assert result.stderr == f"steps.jsonl: finished after step {steps}\nwrote again.txt\nwrote steps.jsonl\n"


def test_any_number_of_lines_of_a_trace_leads_to_the_same_grammar(scan_train: Path) -> None:
    nqg(str(scan_train), "-o", "whole.txt", *QUICK_SCAN, "--trace", "whole.jsonl")
    whole = Path("whole.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    for count in range(1, len(lines), 4):
        Path("part.jsonl").write_bytes(b"".join(lines[:count]) + lines[count][:9])
        result = nqg(str(scan_train), "-o", "part.txt", *QUICK_SCAN, "--resume", "part.jsonl")
        assert "part.jsonl: the last line was cut short and is dropped\n" in result.stderr
        assert Path("part.txt").read_bytes() == Path("whole.txt").read_bytes()
        resumed = read_trace(Path("part.jsonl"))
        assert [traced.step for traced in resumed.steps] == [t.step for t in read_trace(Path("whole.jsonl")).steps]
        times = [traced.seconds for traced in resumed.steps]
        assert times == sorted(times)


GATED = """
import sys
from nqg.induction.trace import TraceFile
from nqg.cli.main import main
lines, share, gates = int(sys.argv.pop(1)), float(sys.argv.pop(1)), int(sys.argv.pop(1))
add, added = TraceFile.add, []
def gated(self, line):
    if len(added) == lines:
        raw = line.line().encode()
        self.file.write(raw[: int(share * len(raw))])
        for _ in range(gates):
            print("here", flush=True)
            sys.stdin.readline()
    if len(added) != lines or not share:
        add(self, line)
    added.append(line)
TraceFile.add = gated
main()
"""


def gated(lines: int, *words: str, share: float = 0.0, gates: int = 1) -> subprocess.Popen[str]:
    """`nqg induce` in a process of its own, waiting at a gate where it has written so many lines of its trace."""
    program = [sys.executable, "-c", GATED, str(lines), str(share), str(gates), "induce", *words]
    process = subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["between two lines", "in the middle of a line"])
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_grammar(scan_train: Path, share: float) -> None:
    nqg(str(scan_train), "-o", "whole.txt", *QUICK_SCAN, "--trace", "whole.jsonl")
    words = (str(scan_train), "-o", "killed.txt", *QUICK_SCAN)
    done, way = 0, ("--trace", "killed.jsonl")
    for lines in (1, 9, 13):
        process = gated(lines, *words, *way, share=share)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        done, way = done + lines, ("--resume", "killed.jsonl")
        trace = read_trace(Path("killed.jsonl"))
        assert (1 + len(trace.steps), trace.is_cut) == (done, share > 0)
        assert not Path("killed.txt").exists()
    result = nqg(*words, *way)
    assert ("cut short" in result.stderr) is (share > 0)
    assert Path("killed.txt").read_bytes() == Path("whole.txt").read_bytes()
    assert len(read_trace(Path("killed.jsonl")).steps) == len(read_trace(Path("whole.jsonl")).steps) > done


def test_a_run_that_is_killed_in_its_first_line_can_be_begun_again() -> None:
    process = gated(0, "train.tsv", "-o", "g.txt", *SCAN, "--trace", "steps.jsonl", share=0.5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with pytest.raises(FormatError, match=r"steps\.jsonl: .* found no whole line; begin one with --trace"):
        nqg("train.tsv", "-o", "g.txt", *SCAN, "--resume", "steps.jsonl")
    assert nqg("train.tsv", "-o", "g.txt", *SCAN, "--trace", "steps.jsonl").exit_code == 0


def test_ctrl_c_stops_after_the_step_and_writes_a_valid_grammar(scan_train: Path) -> None:
    words = (str(scan_train), "-o", "g.txt", *QUICK_SCAN)
    process = gated(6, *words, "--trace", "steps.jsonl")
    interrupt(process)
    out, err = process.communicate()
    assert process.returncode == STOPPED == 130
    assert "stopped after step 6: the grammar is valid, but not yet as small as it can be" in err
    assert "wrote g.txt" in err
    assert ", 6 steps" in out
    assert "after 6 steps, where the search was stopped" in Path("g.txt").read_text()
    assert not underivable(Grammar.read(Path("g.txt")), read_examples(scan_train))
    nqg(*words, "--resume", "steps.jsonl")
    resumed = Path("g.txt").read_bytes()
    nqg(*words)
    assert Path("g.txt").read_bytes() == resumed


def test_a_second_ctrl_c_ends_the_command_at_once_and_keeps_the_trace(scan_train: Path) -> None:
    process = gated(6, str(scan_train), "-o", "g.txt", *QUICK_SCAN, "--trace", "steps.jsonl", gates=2)
    interrupt(process)
    wait_at_gate(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == STOPPED
    assert "error: interrupted; g.txt was not written" in err
    assert not Path("g.txt").exists()
    assert len(read_trace(Path("steps.jsonl")).steps) == 5


def test_the_hash_seed_of_python_does_not_matter(tmp_path: Path, scan_train: Path) -> None:
    program = [sys.executable, "-c", "from nqg.cli.main import main; main()", "induce", str(scan_train)]
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        words = ["-o", f"{seed}.txt", *QUICK_SCAN, "--sample", "3"]
        subprocess.run([*program, *words], env=environment, cwd=tmp_path, check=True, capture_output=True)
    assert Path("1.txt").read_bytes() == Path("2.txt").read_bytes()


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("none.tsv", "-o", "g.txt"), NqgError, "none.tsv: no such file"),
        (("train.tsv", "-o", "none/g.txt"), NqgError, "none/g.txt: the folder none does not exist"),
        (("train.tsv", "-o", "."), NqgError, "expected a file to write the grammar to, found a folder"),
        (("train.tsv", "-o", "train.tsv"), NqgError, "train.tsv: the grammar would overwrite a file that is in"),
        (("train.tsv", "-o", "g", "--trace", "g"), NqgError, "g: the grammar would overwrite a file that is in"),
        (
            ("train.tsv", "-o", "g", "--like", "scam"),
            UnknownName,
            "no settings for induction 'scam'; did you mean 'scan'?",
        ),
        (("train.tsv", "-o", "g", "--sample", "0"), SettingsError, "sample is 0; expected 1 or more"),
        (("train.tsv", "-o", "g", "--trace", "train.tsv"), NqgError, "train.tsv: the file exists already; continue"),
        (("train.tsv", "-o", "g", "--resume", "none.jsonl"), NqgError, "none.jsonl: no such file"),
        (("train.tsv", "-o", "g", "--resume", "train.tsv"), FormatError, "train.tsv:1: not valid JSON"),
        (
            ("train.tsv", "-o", "g", "--seed-rules", "train.tsv"),
            FormatError,
            "train.tsv:1: expected 'source ### target'",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_said_in_words(words: tuple[str, ...], error: type[NqgError], message: str) -> None:
    with pytest.raises(error) as caught:
        nqg(*words)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train.tsv",), "Missing option"),
        (("train.tsv", "-o", "g", "--shortest", "few"), "'few' is neither a number nor 'all'"),
        (("train.tsv", "-o", "g", "--trace", "a", "--resume", "b"), "--resume continues its own trace"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_misuse_has_exit_code_2(words: tuple[str, ...], message: str) -> None:
    result = nqg(*words)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--like", "scan", "--terminal-bits", "8"), "terminal_bits was 32.0 there and is 8.0 here"),
        (("--like", "scan", "--seed-rules", "seeds.txt"), "the seed rules differ: 0 there, 1 here"),
    ],
)
def test_a_trace_with_other_settings_is_not_resumed(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    (tmp_path / "seeds.txt").write_text("hop ### H\n")
    nqg("train.tsv", "-o", "g.txt", *SCAN, "--trace", "steps.jsonl")
    before = Path("steps.jsonl").read_bytes()
    with pytest.raises(NqgError) as caught:
        nqg("train.tsv", "-o", "other.txt", *words, "--resume", "steps.jsonl")
    assert str(caught.value) == f"steps.jsonl: cannot be resumed, {reason}"
    assert Path("steps.jsonl").read_bytes() == before


def test_a_trace_of_other_examples_is_not_resumed() -> None:
    nqg("train.tsv", "-o", "g.txt", *SCAN, "--trace", "steps.jsonl")
    write_examples(Path("other.tsv"), EXAMPLES[:-1])
    with pytest.raises(NqgError, match=r"steps\.jsonl: cannot be resumed, the examples differ: 7 with SHA-256 .*, 6"):
        nqg("other.tsv", "-o", "g.txt", *SCAN, "--resume", "steps.jsonl")


def test_a_trace_whose_steps_do_not_lead_where_it_says_is_not_resumed() -> None:
    nqg("train.tsv", "-o", "g.txt", *SCAN, "--trace", "steps.jsonl")
    lines = Path("steps.jsonl").read_text().splitlines(keepends=True)
    lines[-2] = json.dumps(json.loads(lines[-2]) | {"rules": 99}) + "\n"
    Path("steps.jsonl").write_text("".join(lines))
    with pytest.raises(NqgError, match=r"the trace is damaged: its steps lead to \d rules .* its last line says 99"):
        nqg("train.tsv", "-o", "g.txt", *SCAN, "--resume", "steps.jsonl")


def test_the_line_says_where_the_search_is_and_how_fast_it_goes() -> None:
    stop = Event()
    line = SearchLine(stop)
    assert str(line).startswith("looking at the examples")
    line.show("splitting", 1000, 5000.0, 1.0)
    assert str(line) == "splitting · 1,000 rules · 5,000 bits"
    line.show("splitting", 900, 4000.0, 1.5)
    assert str(line) == "splitting · 900 rules · 4,000 bits · 2 steps/s · 0 bits in ~2 s"
    line.show("pruning", 899, 4000.0, 1.5)
    assert str(line) == "pruning · 899 rules · 4,000 bits · 4 steps/s · 0 bits in ~2 s"
    stop.set()
    assert str(line) == "pruning · 899 rules · 4,000 bits · stopping after this step"


def test_speed_is_that_of_the_last_steps_and_nothing_is_promised_without_savings() -> None:
    line = SearchLine()
    for number in range(100):
        line.show("splitting", 10, 1000.0, float(number if number < 50 else 50 + (number - 50) / 10))
    assert str(line) == "splitting · 10 rules · 1,000 bits · 10 steps/s"


def test_the_line_is_drawn_on_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_terminal in (True, False):
        screen = io.StringIO()
        monkeypatch.setattr(drawing, "err", Console(file=screen, force_terminal=is_terminal, width=100))
        with search_line(Event()) as line:
            line.show("splitting", 1000, 5000.0, 1.0)
        assert ("1,000 rules" in screen.getvalue()) is is_terminal


def test_the_help_shows_an_example_and_every_default() -> None:
    text = nqg("--help").stdout
    assert "Example: nqg induce train.tsv -o grammar.txt --trace steps.jsonl" in text
    assert "Cost of a terminal in a rule. [default: (8)]" in text
    assert "Search only the N shortest examples. [default: (500)]" in text
    assert "Allow only rules with balanced parentheses. [default: (yes)]" in text
