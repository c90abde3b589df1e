"""A dataset: its examples, its named splits, and where it comes from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nqg.data.example import Example
from nqg.data.split import Parts, Split
from nqg.errors import UnknownName


@dataclass(frozen=True, slots=True)
class Dataset:
    """Examples with named splits; a split is made, or its file fetched, when it is asked for.

    >>> jump, run = Example("jump", "I_JUMP"), Example("run", "I_RUN")
    >>> dataset = Dataset("tiny", (jump, run), {"halves": lambda: Split(train=(0,), test=(1,))})
    >>> train, test = dataset.split("halves")
    >>> test
    [Example(source='run', target='I_RUN', id=None)]
    """

    name: str
    examples: Sequence[Example]
    split_makers: Mapping[str, Callable[[], Split]] = field(default_factory=dict, repr=False)
    licence: str = ""
    addresses: tuple[str, ...] = ()

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits."""
        return tuple(self.split_makers)

    def split(self, name: str) -> tuple[list[Example], list[Example]]:
        """The train and the test examples of a split; `parts` gives its dev examples too."""
        parts = self.parts(name)
        return parts.train, parts.test

    def parts(self, name: str) -> Parts:
        """The train, dev and test examples of a split."""
        return self.positions(name).parts(self.examples)

    def positions(self, name: str) -> Split:
        """The split itself: positions in `examples`, and how they were chosen."""
        if name not in self.split_makers:
            raise UnknownName(f"split of {self.name}", name, self.splits)
        return self.split_makers[name]()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the examples written as a `.tsv` file."""
        digest = hashlib.sha256()
        for example in self.examples:
            digest.update(f"{example.source}\t{example.target}\n".encode())
        return digest.hexdigest()
