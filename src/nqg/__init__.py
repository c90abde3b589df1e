"""Learns from pairs of strings to turn sentences into programs, also unseen combinations.

This module is the one public door. `__init__.pyi` lists its names, for type checkers and for
`lazy_loader` alike: they load on first use, so that `import nqg` costs nothing.
"""

import os
from typing import Any

import lazy_loader

# OpenMP reads this when torch is loaded. Threads that spin while they wait for each other made
# fine-tuning six times as slow on two cores that other processes used, too (docs/seq2seq.md).
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# OpenBLAS reads this when NumPy is loaded. The matrices of an embedded model are so small that a
# second thread only waits: it doubled the CPU time of a sentence (docs/performance.md).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.3.0"
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        # The base install only answers; training needs more packages.
        from nqg.extensions import missing_extra

        missing = missing_extra(error, f"nqg.{name}")
        if missing is None:
            raise
        raise missing from error
