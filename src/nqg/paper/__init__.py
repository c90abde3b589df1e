"""What reproduces the paper: its datasets, metrics, baselines, recipes and tables. The core never
imports it.

`__init__.pyi` lists the public names, which load on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
