"""How benchmarks measure: CPU seconds of this process, the best of several runs, because the machines are shared."""

from __future__ import annotations

import time
from collections.abc import Callable


def cpu_seconds(work: Callable[[], object], runs: int = 3) -> float:
    """The least CPU time that `work` took in `runs` runs, compilation left out by a warm-up call."""
    work()
    return min(_once(work) for _ in range(runs))


def _once(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
