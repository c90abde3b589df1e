"""Work that is done one item ahead, in a thread of its own, while the caller is busy with the item before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def made_ahead(make: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """`make` of every item, in order; what goes wrong with one is raised where it would have come.

    >>> list(made_ahead(str.upper, ["a", "b"]))
    ['A', 'B']
    """
    left = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as thread:
        ready = [thread.submit(make, item) for item in islice(left, 1)]
        while ready:
            (made,), ready = ready, [thread.submit(make, item) for item in islice(left, 1)]
            yield made.result()
