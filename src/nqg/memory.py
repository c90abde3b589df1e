"""Memory that was freed goes back to the operating system, so that long streams take no more of it than short ones."""

from __future__ import annotations

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD = -3  # of <malloc.h>
LARGE = 2 * 2**20  # bytes


def keep_large_blocks_apart() -> None:
    """Let glibc map every large block on its own; other systems are left as they are.

    By itself it moves the limit up to 32 MB when blocks are freed, and batches of ever other sizes then leave holes in
    the heap: after 100,000 sentences a parser had taken twice the memory that it needed.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(M_MMAP_THRESHOLD, LARGE)


def release_holes() -> None:
    """Give holes in glibc's heap back to the operating system; other systems are left as they are."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
