"""Types of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
FloatArray = NDArray[np.float64]
