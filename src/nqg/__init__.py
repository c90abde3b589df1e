"""Learns from pairs of strings to turn sentences into programs, also unseen combinations.

This module is the one public door. `__init__.pyi` lists its names, for type checkers and for
`lazy_loader` alike: they load on first use, so that `import nqg` costs nothing.
"""

import os

import lazy_loader

# OpenMP reads this when torch is loaded. Threads that spin while they wait for each other made
# fine-tuning six times as slow on two cores that other processes used, too (docs/seq2seq.md).
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
