"""Rows that threads share, for kernels, which let go of the interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np
import torch


def in_threads(work: Callable[[slice], None], rows: int, fewest: int) -> None:
    """Do `work` on all rows, in as many threads as torch would use, if each has so many rows at least.

    No row may touch what others write: then the result does not depend on the number of threads.
    """
    bounds = np.linspace(0, rows, max(1, min(torch.get_num_threads(), rows // fewest)) + 1).astype(int)
    first, *others = (slice(low, high) for low, high in pairwise(bounds.tolist()))
    begun = [_threads(os.getpid()).submit(work, part) for part in others]
    work(first)
    for each in begun:
        each.result()


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Threads that wait for work; those of a process are not there in a copy that was forked from it."""
    return ThreadPoolExecutor(thread_name_prefix=f"rows of {process}")
