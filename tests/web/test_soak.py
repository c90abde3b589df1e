"""Short soaks: single sentences and batches, some clients hang up, models are replaced, workers are killed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from conftest import PROJECT

OPTIONS = "--clients 20 --minutes 0.25 --thinking 0.3 --reload-every 3 --log-every 5"


@pytest.mark.parametrize(
    ("workers", "kill_every", "least_kills"),
    [("2", "11", 1), ("1", "0", 0)],
    ids=["two workers, one is killed", "one worker that only loads models"],
)
def test_every_answer_is_that_of_its_own_sentence_and_none_is_lost(
    workers: str, kill_every: str, least_kills: int
) -> None:
    command = [
        sys.executable,
        str(PROJECT / "benchmarks" / "soak.py"),
        *OPTIONS.split(),
        *("--workers", workers, "--kill-every", kill_every),
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    failures = re.search(r"^failures +(.*)", found.stdout, re.MULTILINE)
    assert failures, found.stdout
    assert failures[1] == str(
        dict.fromkeys(("wrong", "mixed", "stale", "lost", "dropped", "not reloaded"), 0)
    )
    counts = re.search(
        r"mishaps +(\d+) reloads, (\d+) kills, (\d+) clients hung up", found.stdout
    )
    assert counts, found.stdout
    reloads, kills, hung_up = map(int, counts.groups())
    assert min(reloads, hung_up) > 0, found.stdout
    assert kills >= least_kills, found.stdout
