"""Examples, pairs of a sentence and its program."""

from __future__ import annotations

from collections.abc import Iterable
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
        """The source, split at white space."""
        return tuple(self.source.split())

    @property
    def target_tokens(self) -> tuple[str, ...]:
        """The target, split at white space."""
        return tuple(self.target.split())


def distinct_pairs(examples: Iterable[Example]) -> list[Example]:
    """The examples without those whose source and target came before, whatever their ids.

    >>> distinct_pairs([Example("jump", "J", "1"), Example("walk", "W", "2"), Example("jump", "J", "3")])
    [Example(source='jump', target='J', id='1'), Example(source='walk', target='W', id='2')]
    """
    first: dict[tuple[str, str], Example] = {}
    for example in examples:
        first.setdefault((example.source, example.target), example)
    return list(first.values())
