"""What the catalogue knows of a dataset, and how that becomes examples and splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from nqg.data.dataset import Dataset
from nqg.data.download import FileStore, RemoteFile
from nqg.data.example import Example
from nqg.data.split import Split
from nqg.errors import FormatError


@dataclass(frozen=True, slots=True)
class NamedSplit:
    """A split of a known dataset; `make` takes the examples and the paths of `files`."""

    make: Callable[..., Split]
    files: tuple[RemoteFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A dataset that can be loaded by name; `convert` takes the paths of `files` and gives `size` examples.

    `fingerprint` is that of the examples which the published files give, so that another release can be told apart.
    """

    name: str
    about: str
    size: int
    licence: str
    citation: str
    fingerprint: str
    convert: Callable[..., Sequence[Example]]
    files: tuple[RemoteFile, ...] = ()
    splits: Mapping[str, NamedSplit] = field(default_factory=dict)

    def addresses(self, split: str | None = None) -> tuple[str, ...]:
        """Where the examples come from, and where the positions of a split do."""
        files = [*self.files, *(self.splits[split].files if split else ())]
        return tuple(dict.fromkeys(file.address for file in files))

    def missing(self, store: FileStore) -> tuple[RemoteFile, ...]:
        """The files, of the examples and of every split, that are not yet in `store`."""
        needed = [*self.files, *(file for split in self.splits.values() for file in split.files)]
        return tuple(file for file in dict.fromkeys(needed) if not store.has(file))

    def load(self, store: FileStore) -> Dataset:
        """The dataset, with its files from `store`; files of splits wait until a split is asked for."""
        paths = [store.path_of(file) for file in self.files]
        examples = tuple(self.convert(*paths))
        if len(examples) != self.size:
            places = ", ".join(map(str, paths))
            raise FormatError(f"expected {self.size} examples of {self.name}, found {len(examples)} in {places}")
        makers = {name: partial(_made, split, examples, store) for name, split in self.splits.items()}
        return Dataset(self.name, examples, makers, self.licence, self.addresses())


def _made(split: NamedSplit, examples: Sequence[Example], store: FileStore) -> Split:
    return split.make(examples, *(store.path_of(file) for file in split.files))
