"""`nqg demo`."""

from __future__ import annotations


def demo() -> None:
    """Parse a sentence with the SCAN grammar of the paper and draw its derivation."""
