"""How loops over real numbers are compiled, so that vector instructions take several steps of a sum at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., object])
Reals = NDArray[np.floating[Any]]


def vectorised(function: Function) -> Function:
    """`function`, compiled with leave to add up in another order; the order is the same in every run.

    Divisions are not checked: a check would be a way out of the loop, which is then not taken several steps at once.
    """
    options = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}
    return cast(Function, numba.njit(**options)(function))  # type: ignore[call-overload]
