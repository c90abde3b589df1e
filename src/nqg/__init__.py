"""Learns from pairs of strings to turn sentences into programs, also unseen combinations.

This module is the one public door. `__init__.pyi` lists its names, for type checkers and for
`lazy_loader` alike: they load on first use, so that `import nqg` costs nothing.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
