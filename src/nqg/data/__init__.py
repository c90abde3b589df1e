"""Examples, the files that hold them, and the datasets of the paper."""
