"""Where a search begins: a random split, then swaps until every atom occurs in train (section 3 of the paper)."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from itertools import chain

import numpy as np

from nqg.errors import SettingsError
from nqg.splits.arrangement import Arrangement, arrangement
from nqg.splits.bags import Bags, Decomposed, Integers
from nqg.splits.shuffled import shuffled
from nqg.splits.tally import swap, would_starve


def random_start(data: Decomposed, train_size: int, rng: random.Random) -> Arrangement:
    """A random arrangement in which every atom occurs in train; a train set too small for that is refused."""
    order = np.array(shuffled(range(len(data.atoms.sizes)), rng), dtype=np.int64)
    train, test = order[:train_size].copy(), order[train_size:].copy()
    start = arrangement(data, train, test)
    if not _feed_train(start, rng):
        cover = greedy_cover(data.atoms, order)
        _check_fits(cover, train_size, data.atoms)
        order = np.concatenate([cover, order[~np.isin(order, cover)]])
        train, test = order[:train_size].copy(), order[train_size:].copy()
    return arrangement(data, train, test)


def _feed_train(start: Arrangement, rng: random.Random) -> bool:
    """Bring every missing atom into train by a swap that takes no other out; false where no such swap is left."""
    bags = start.atoms.bags
    holders: dict[int, list[int]] = defaultdict(list)
    for place, example in enumerate(start.test):
        for atom in bags.row(example):
            if start.atoms.train[atom] == 0:
                holders[atom].append(place)
    return all(start.atoms.train[atom] or _feed(start, rng.choice(holders[atom]), rng) for atom in sorted(holders))


def _feed(start: Arrangement, place: int, rng: random.Random) -> bool:
    """Swap `test[place]` into train, for the first example after a random one that train can spare."""
    entering = start.test[place]
    first = rng.randrange(start.train.size)
    for at in chain(range(first, start.train.size), range(first)):
        leaving = start.train[at]
        if not would_starve(start.atoms, leaving, entering):
            swap(start.atoms, leaving, entering, 0.0)
            start.train[at], start.test[place] = entering, leaving
            return True
    return False


def greedy_cover(atoms: Bags, order: Integers) -> Integers:
    """Examples that hold all atoms between them, always the one that adds most; ties go by `order`."""
    missing = set(range(atoms.width))
    waiting = [(-len(atoms.row(example)), rank) for rank, example in enumerate(order)]
    heapq.heapify(waiting)
    cover = []
    while missing:
        _, rank = heapq.heappop(waiting)
        added = missing.intersection(atoms.row(order[rank]))
        if waiting and (-len(added), rank) > waiting[0]:
            heapq.heappush(waiting, (-len(added), rank))
        else:
            cover.append(order[rank])
            missing -= added
    return np.array(cover, dtype=np.int64)


def _check_fits(cover: Integers, train_size: int, atoms: Bags) -> None:
    if len(cover) > train_size:
        raise SettingsError(
            f"train is to have {train_size} examples, but {len(cover)} were needed to hold each of the "
            f"{atoms.width} atoms at least once; make train larger, or the atoms fewer (blank out rare names)"
        )
