"""Programs that fine-tune in two processes, as `accelerate launch` starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import PROJECT

LAUNCH = "--multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no --main_process_port 0"


def launched(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What became of a program that two processes run, each on one thread."""
    command = [sys.executable, "-m", "accelerate.commands.launch", *LAUNCH.split(), str(program), *words]
    paths = f"{PROJECT / 'src'}:{PROJECT / 'tests'}"
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
