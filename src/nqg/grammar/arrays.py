"""Types of arrays, and how hot loops over them are compiled: by Numba, once.

Kernels are plain functions over integer arrays. They release the GIL, so threads run them side by
side. Numba's disk cache notices a change in a kernel's own file but not in the file of a kernel
that it calls: after editing one, remove the `__pycache__` folders (`make clean`) if results look
stale. Only modules that define kernels load Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
FloatArray = NDArray[np.float64]

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """`function`, compiled to machine code on first use and cached on disk."""
    import numba

    return cast(Function, numba.njit(cache=True, nogil=True)(function))


def unmanaged_kernel(function: Function) -> Function:
    """Like `kernel`, for functions that allocate nothing: Numba counts no references.

    A function that does allocate is refused when it is compiled, so nothing can leak.
    """
    import numba

    # _nrt is not among the options that Numba documents; with the counting, forests take 10 to 25
    # times as long.
    options = {"cache": True, "nogil": True, "_nrt": False}
    return cast(Function, numba.njit(**options)(function))  # type: ignore[call-overload]


def inlined(function: Function) -> Function:
    """A function that is set into the kernels that call it.

    Handing over a dozen arrays costs more than most calls.
    """
    import numba

    return cast(Function, numba.njit(cache=True, nogil=True, inline="always")(function))
