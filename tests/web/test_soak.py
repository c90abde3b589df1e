"""A short soak: single sentences and batches, some clients hang up, models are replaced, workers are killed."""

from __future__ import annotations

import re
import subprocess
import sys

from conftest import PROJECT

OPTIONS = "--clients 20 --minutes 0.25 --thinking 0.3 --reload-every 3 --kill-every 11 --log-every 5"


def test_every_answer_is_that_of_its_own_sentence_and_none_is_lost() -> None:
    command = [
        sys.executable,
        str(PROJECT / "benchmarks" / "soak.py"),
        *OPTIONS.split(),
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "failures   {'wrong': 0, 'mixed': 0, 'stale': 0, 'lost': 0}" in found.stdout
    counts = re.search(
        r"mishaps +(\d+) reloads, (\d+) kills, (\d+) clients hung up", found.stdout
    )
    assert counts, found.stdout
    assert min(map(int, counts.groups())) > 0, found.stdout
