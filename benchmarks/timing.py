"""How benchmarks measure: CPU seconds, the best of several runs because machines are shared, and the peak of memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def cpu_seconds(work: Callable[[], object], runs: int = 3) -> float:
    """The least CPU time that `work` took in `runs` runs, compilation left out by a warm-up call."""
    work()
    return min(_once(work) for _ in range(runs))


def _once(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def peak_megabytes() -> float:
    """The peak of this program alone: `resource.getrusage` would count the process that started it too (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
