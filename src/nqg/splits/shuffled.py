"""The random split: the dataset shuffled, then cut."""

from __future__ import annotations

import random
from collections.abc import Sequence

from nqg.data.example import Example
from nqg.data.split import Provenance, Split
from nqg.splits.sizes import Sizes


def random_split(examples: Sequence[Example], sizes: Sizes, rng: random.Random) -> Split:
    """Train, dev and test drawn at random, without replacement."""
    sizes.check(len(examples))
    return cut(shuffled(range(len(examples)), rng), sizes, {"method": "random"})


def shuffled(positions: Sequence[int], rng: random.Random) -> list[int]:
    """`positions` in random order."""
    return rng.sample(positions, len(positions))


def cut(order: Sequence[int], sizes: Sizes, made_by: Provenance) -> Split:
    """The first positions of `order` as train, the next as dev, the last as test.

    >>> cut([4, 2, 0, 1, 3], Sizes(train=2, dev=1, test=2), {"method": "by hand"})
    Split(train=(4, 2), test=(1, 3), dev=(0,), made_by={'method': 'by hand'})
    """
    held_out = sizes.train + sizes.dev
    return Split(
        train=tuple(order[: sizes.train]),
        dev=tuple(order[sizes.train : held_out]),
        test=tuple(order[held_out:]),
        made_by=made_by,
    )
