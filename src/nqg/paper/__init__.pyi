"""The public names of `nqg.paper`, and where they live."""

from .datasets import load_dataset as load_dataset

__all__: list[str]
