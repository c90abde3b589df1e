"""Two processes under `accelerate launch` make the steps of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launched_processes import launched
from nqg.seq2seq.fine_tuning import FineTuning
from seq2seq_examples import BRIEF, EXAMPLES, SMALL

pytest_plugins = ["seq2seq_fixtures"]
pytestmark = pytest.mark.usefixtures("one_thread")

PROGRAM = """
import json, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from nqg.seq2seq.fine_tuning import FineTuning
from seq2seq_examples import BRIEF, EXAMPLES, SMALL
fitting = FineTuning(EXAMPLES, SMALL, BRIEF, device="cpu")
losses = [step.loss for step in fitting.steps()]
Path(sys.argv[1], f"{fitting.processes.rank}.json").write_text(json.dumps([fitting.processes.count, losses]))
fitting.processes.close()
"""


def test_two_processes_have_the_losses_of_one(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    result = launched(program, str(tmp_path))
    assert result.returncode == 0, result.stderr
    expected = [step.loss for step in FineTuning(EXAMPLES, SMALL, BRIEF, device="cpu").steps()]
    for rank in (0, 1):
        count, losses = json.loads((tmp_path / f"{rank}.json").read_text())
        assert count == 2
        assert losses == pytest.approx(expected, rel=1e-4)
