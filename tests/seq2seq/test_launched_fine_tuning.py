"""Two processes under `accelerate launch` make the steps of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PROJECT
from nqg.seq2seq.fitting import Seq2seqFitting
from seq2seq_examples import BRIEF, EXAMPLES, SMALL

pytest_plugins = ["seq2seq_fixtures"]
pytestmark = pytest.mark.usefixtures("one_thread")

PROGRAM = """
import json, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from nqg.seq2seq.fitting import Seq2seqFitting
from seq2seq_examples import BRIEF, EXAMPLES, SMALL
fitting = Seq2seqFitting(EXAMPLES, SMALL, BRIEF, device="cpu")
losses = [step.loss for step in fitting.steps()]
Path(sys.argv[1], f"{fitting.processes.rank}.json").write_text(json.dumps([fitting.processes.count, losses]))
fitting.processes.part()
"""


def test_two_processes_have_the_losses_of_one(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--multi_gpu",
        "--num_processes",
        "2",
        "--num_machines",
        "1",
    ]
    options = ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{PROJECT / 'src'}:{PROJECT / 'tests'}",
        "OMP_NUM_THREADS": "1",
    }
    result = subprocess.run(
        [*launch, *options, str(program), str(tmp_path)], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    expected = [step.loss for step in Seq2seqFitting(EXAMPLES, SMALL, BRIEF, device="cpu").steps()]
    for rank in (0, 1):
        count, losses = json.loads((tmp_path / f"{rank}.json").read_text())
        assert count == 2
        assert losses == pytest.approx(expected, rel=1e-4)
