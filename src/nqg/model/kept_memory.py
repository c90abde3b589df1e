"""Memory that a step frees stays with the process, because the next step takes as much again."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from nqg.memory import M_MMAP_THRESHOLD, release_holes

M_TRIM_THRESHOLD = -1  # of <malloc.h>
LARGEST_IN_HEAP = 32 * 2**20  # bytes; glibc takes no more for a limit
MOST_FREE = 2**30


@contextmanager
def kept_memory() -> Iterator[None]:
    """A block in which glibc gives nothing back to the operating system; other systems are left as they are.

    By itself it does so at the end of every step, and in the next one thousands of pages are fetched and cleared anew:
    up to a tenth of the time that a small encoder takes.
    """
    _set_limits(MOST_FREE)
    try:
        yield
    finally:
        _set_limits(LARGEST_IN_HEAP)
        release_holes()


def _set_limits(most_free: int) -> None:
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_THRESHOLD, LARGEST_IN_HEAP)
        libc.mallopt(M_TRIM_THRESHOLD, most_free)
