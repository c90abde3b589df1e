"""Rows of any lengths in one array: lists of lists for NumPy and the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from nqg.grammar.arrays import Int64Array

# Places of a table for each key that is looked up there; with more, sorting the keys is faster.
MOST_EMPTY_PLACES = 4


def offsets_from_lengths(lengths: ArrayLike) -> Int64Array:
    """Where each row begins when rows of these lengths lie end to end, and where the last one ends.

    >>> offsets_from_lengths([2, 0, 3])
    array([0, 2, 2, 5])
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def gather_ranges(starts: ArrayLike, lengths: ArrayLike) -> Int64Array:
    """The numbers starts[i], starts[i] + 1, … of every range i, one range after the other.

    >>> gather_ranges([5, 0], [2, 3])
    array([5, 6, 0, 1, 2])
    """
    offsets = offsets_from_lengths(lengths)
    shifts = np.asarray(starts, dtype=np.int64) - offsets[:-1]
    return np.repeat(shifts, np.diff(offsets)) + np.arange(offsets[-1])


def distinct(keys: Int64Array, bound: int) -> tuple[Int64Array, Int64Array]:
    """The distinct ones of keys from 0 to `bound`, sorted, and for every key the number of its own.

    >>> distinct(np.array([7, 3, 7]), 8)
    (array([3, 7]), array([1, 0, 1]))
    """
    # A table takes a third of the time of sorting, where it is not much larger than the keys.
    if bound > MOST_EMPTY_PLACES * len(keys):
        found, numbers = np.unique(keys, return_inverse=True)
        return found, numbers
    is_key = np.zeros(bound, dtype=bool)
    is_key[keys] = True
    return np.flatnonzero(is_key), (np.cumsum(is_key) - 1)[keys]


class Ragged(NamedTuple):
    """Rows of integers end to end: row i is values[offsets[i]:offsets[i + 1]].

    It is a named tuple, which Numba can unpack; `len` is therefore not the number of rows.
    """

    offsets: Int64Array  # (rows + 1,)
    values: NDArray[Any]

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]], dtype: DTypeLike = np.int32) -> Ragged:
        """Rows of any lengths.

        >>> Ragged.of([(7, 8), (), (9,)])
        Ragged(offsets=array([0, 2, 2, 3]), values=array([7, 8, 9], dtype=int32))
        """
        sequences = list(rows)
        offsets = offsets_from_lengths([len(row) for row in sequences])
        values = np.fromiter(
            chain.from_iterable(sequences), dtype=dtype, count=int(offsets[-1])
        )
        return cls(offsets, values)

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int64Array:
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def longest(self) -> int:
        """The length of the longest row, 0 if there is none."""
        return int(self.lengths.max(initial=0))

    def lengths_of(self, rows: Int64Array) -> Int64Array:
        """The lengths of some rows; the others are not looked at."""
        return self.offsets[rows + 1] - self.offsets[rows]

    def row(self, number: int) -> NDArray[Any]:
        return self.values[self.offsets[number] : self.offsets[number + 1]]

    def select(self, rows: Int64Array, shifts: Int64Array | None = None) -> Ragged:
        """Some rows in this order; a shift for each of them may raise what they hold.

        >>> Ragged.of([(7, 8), (), (9,)]).select(np.array([2, 0]), np.array([0, 10])).values
        array([ 9, 17, 18])
        """
        lengths = self.lengths_of(rows)
        values = self.values[gather_ranges(self.offsets[rows], lengths)]
        if shifts is not None:
            values = values + np.repeat(shifts, lengths)
        return Ragged(offsets_from_lengths(lengths), values)

    def slice(self, low: int, high: int) -> Ragged:
        """The rows from `low` to `high`, without a copy of their values."""
        offsets = self.offsets[low : high + 1]
        return Ragged(offsets - offsets[0], self.values[offsets[0] : offsets[-1]])
