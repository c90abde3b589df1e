"""Examples, pairs of a sentence and its program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# The program of a sentence that is out of scope; in files, an empty one means the same.
OUT_OF_SCOPE = "OUT_OF_SCOPE"


@dataclass(frozen=True, slots=True)
class Example:
    """A (source, target) pair of strings. `id` is its name in the dataset it came from, where it has one.

    A sentence with the target `OUT_OF_SCOPE` has no program: the right answer is to abstain.

    >>> Example("jump twice", "I_JUMP I_JUMP").source_tokens
    ('jump', 'twice')
    """

    source: str
    target: str
    id: str | None = None

    @property
    def is_out_of_scope(self) -> bool:
        """Whether the sentence has no program.

        >>> Example("tell me a joke", OUT_OF_SCOPE).is_out_of_scope
        True
        """
        return self.target == OUT_OF_SCOPE

    @property
    def source_tokens(self) -> tuple[str, ...]:
        """The source, split at white space."""
        return tuple(self.source.split())

    @property
    def target_tokens(self) -> tuple[str, ...]:
        """The target, split at white space."""
        return tuple(self.target.split())


def in_scope(examples: Iterable[Example]) -> list[Example]:
    """The examples that have a program."""
    return [example for example in examples if not example.is_out_of_scope]


def out_of_scope(examples: Iterable[Example]) -> list[Example]:
    """The examples whose sentences are out of scope."""
    return [example for example in examples if example.is_out_of_scope]


def distinct_pairs(examples: Iterable[Example]) -> list[Example]:
    """The examples without those whose source and target came before, whatever their ids.

    >>> distinct_pairs([Example("jump", "J", "1"), Example("walk", "W", "2"), Example("jump", "J", "3")])
    [Example(source='jump', target='J', id='1'), Example(source='walk', target='W', id='2')]
    """
    first: dict[tuple[str, str], Example] = {}
    for example in examples:
        first.setdefault((example.source, example.target), example)
    return list(first.values())
