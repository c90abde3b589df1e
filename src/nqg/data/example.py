"""The one training example of nqg: a sentence and its program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """A (source, target) pair of strings; `id` is its name in the dataset it came from, where it has one.

    >>> Example("jump twice", "I_JUMP I_JUMP").source_tokens
    ('jump', 'twice')
    """

    source: str
    target: str
    id: str | None = None

    @property
    def source_tokens(self) -> tuple[str, ...]:
        """The source, cut at white space."""
        return tuple(self.source.split())

    @property
    def target_tokens(self) -> tuple[str, ...]:
        """The target, cut at white space."""
        return tuple(self.target.split())
