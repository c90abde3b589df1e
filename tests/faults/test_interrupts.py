"""Ctrl-C ends a command while it works, whatever the data is like, and even inside of compiled code."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer

from conftest import PROJECT
from nqg.cli.terminal import interruptible

# Generous, as other processes may take the cores: before, some of these went on for minutes.
PATIENCE = 30
COMMAND = "from nqg.cli.main import main; main()"
# SQLite counts for ever, and looks at no signal meanwhile.
STUCK = """
import sqlite3
from nqg.cli.terminal import end_at_interrupts, interruptible

end_at_interrupts()
with interruptible("the advice"):
    print("counting", flush=True)
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n)"
    sqlite3.connect(":memory:").execute(f"{endless} select count(*) from n").fetchone()
"""


def contradictory(rng: random.Random) -> Iterator[str]:
    for number in range(300):
        yield f"turn on the lamp\tprogram{number} ( lamp{number} )"


def unrelated(rng: random.Random) -> Iterator[str]:
    words = [f"w{number}" for number in range(60)]
    for _ in range(2_000):
        sides = [" ".join(rng.choices(words, k=rng.randint(3, 10))) for _ in range(2)]
        yield "\t".join(sides)


def distinct(rng: random.Random) -> Iterator[str]:
    for line in range(2_000):
        numbers = range(10 * line, 10 * line + 10)
        source = " ".join(f"word{number}" for number in numbers)
        yield f"{source}\t" + " ".join(f"symbol{number}" for number in numbers)


def ambiguous(rng: random.Random) -> Iterator[str]:
    for _ in range(200):
        yield "a " * rng.randint(2, 40) + "\t" + "b " * rng.randint(2, 40)


def identical(rng: random.Random) -> Iterator[str]:
    for _ in range(1_000_000):
        yield "turn on the lamp\ton ( lamp )"


FILES = {
    make.__name__: make for make in (contradictory, unrelated, distinct, ambiguous)
}


# Where the tests run in the background of a shell, SIGINT is ignored, also by their processes.
HEEDS_INTERRUPTS = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
)


@contextmanager
def begun(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "src")}
    process = subprocess.Popen(
        [sys.executable, "-c", HEEDS_INTERRUPTS + code, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def work(process: subprocess.Popen[str], seconds: float) -> None:
    """Wait until a process has taken so much CPU time, however busy the machine is."""
    while cpu_seconds(process) < seconds:
        assert process.poll() is None
        time.sleep(0.05)


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code and the last line of a process that is told to end."""
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    return process.returncode, said.splitlines()[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("name", FILES)
def test_ctrl_c_ends_a_training_on_data_that_fits_no_grammar(
    name: str, tmp_path: Path
) -> None:
    train = tmp_path / "train.tsv"
    lines = FILES[name](random.Random(1))
    train.write_text("".join(f"{line}\n" for line in lines))
    with begun(COMMAND, "train", str(train), "-o", str(tmp_path / "model")) as process:
        work(process, 6)
        code, said = interrupted(process)
    assert (code, said.startswith("error: interrupted")) == (130, True), said
    assert not (tmp_path / "model").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ctrl_c_ends_a_check_of_a_million_pairs(tmp_path: Path) -> None:
    train = tmp_path / "train.tsv"
    train.write_text("".join(f"{line}\n" for line in identical(random.Random(1))))
    with begun(COMMAND, "check-data", str(train)) as process:
        work(process, 1.5)
        assert interrupted(process) == (130, "error: interrupted")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ctrl_c_ends_compiled_code_that_looks_at_no_signal() -> None:
    with begun(STUCK) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "counting\n"
        work(process, cpu_seconds(process) + 0.3)
        assert interrupted(process) == (130, "error: interrupted; the advice")


def test_an_interrupt_that_compiled_code_reports_ends_the_command() -> None:
    with pytest.raises(typer.Exit) as ended, interruptible():
        raise SystemError("returned a result with an exception set") from (
            KeyboardInterrupt()
        )
    assert ended.value.exit_code == 130
    with pytest.raises(SystemError), interruptible():
        raise SystemError("a fault of the interpreter")
