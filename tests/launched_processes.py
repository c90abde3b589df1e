"""Programs that two processes run together, as `accelerate launch` starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import PROJECT

LAUNCH = "--multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no --main_process_port 0"
PATIENCE = 600  # seconds; processes that wait for each other would wait forever


def launched(program: Path | str, *words: str) -> subprocess.CompletedProcess[str]:
    """What became of a program, or with `--no_python` before it of a command; every process has one thread."""
    command = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        *LAUNCH.split(),
        str(program),
        *words,
    ]
    paths = f"{PROJECT / 'src'}:{PROJECT / 'tests'}"
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
