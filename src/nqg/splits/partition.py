"""Datasets divided into train, dev and test: how many examples each gets, and which.

`split` is one function for every method: at random, by length or by template, and by compounds
(`nqg.splits.tmcd`).
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Literal

from nqg.data.dataset import Provenance, Split
from nqg.data.example import Example
from nqg.errors import SettingsError, UnknownName, counted
from nqg.progress import Progress, silent
from nqg.splits.compounds import Language, Template, language_of

if TYPE_CHECKING:
    from nqg.splits.tmcd import TmcdSettings

# A number of examples (`440`) or a share of the dataset (`0.25`).
Amount = int | float
USUAL_TEST_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Sizes:
    """Examples in train, test and dev; train and test are never empty."""

    train: int
    test: int
    dev: int = 0

    def __post_init__(self) -> None:
        if self.train < 1 or self.test < 1 or self.dev < 0:
            raise SettingsError(
                f"the split would get {self}; train and test need at least 1 example each"
            )

    @property
    def total(self) -> int:
        return self.train + self.test + self.dev

    def __str__(self) -> str:
        return f"train {self.train}, dev {self.dev}, test {self.test}"

    def check(self, total: int) -> None:
        """Refuse a dataset of another size."""
        if self.total != total:
            raise SettingsError(
                f"{self} add up to {self.total}, the dataset has {total} examples; "
                "leave out the size of train or of test, and it takes what remains"
            )


def sizes_for(
    total: int,
    *,
    train: Amount | None = None,
    test: Amount | None = None,
    dev: Amount = 0,
) -> Sizes:
    """The sizes for a dataset of `total` examples; a side that is not given takes what remains.

    >>> sizes_for(880, test=440)
    Sizes(train=440, test=440, dev=0)
    >>> sizes_for(4376)
    Sizes(train=3282, test=1094, dev=0)
    >>> sizes_for(880, test=0.2, dev=0.1)
    Sizes(train=616, test=176, dev=88)
    """
    if total < 2:
        raise SettingsError(
            f"the dataset has {counted(total, 'example')}; a split needs at least 2"
        )
    if train is None and test is None:
        test = USUAL_TEST_SHARE
    counts: dict[str, int] = {}
    for subset, amount in {"dev": dev, "train": train, "test": test}.items():
        if amount is None:
            continue
        # Amounts are checked before they are rounded, so errors show what was given.
        is_share = isinstance(amount, float)
        if is_share and not 0 <= amount < 1:
            raise SettingsError(
                f"{subset} size {amount}: expected a share between 0 and 1, or a whole number"
            )
        if not 0 <= amount <= total:
            raise SettingsError(
                f"{subset} size {amount}: expected between 0 and {total}, the number of examples"
            )
        if is_share:
            # A share above 0 is at least one example.
            amount = max(round(amount * total), math.ceil(amount))
        counts[subset] = int(amount)
    # At most one of train and test is missing here, and takes the rest.
    rest = total - sum(counts.values())
    sizes = Sizes(counts.get("train", rest), counts.get("test", rest), counts["dev"])
    sizes.check(total)
    return sizes


def partition(order: Sequence[int], sizes: Sizes, made_by: Provenance) -> Split:
    """The first positions of `order` as train, the next as dev, the last as test.

    >>> partition([4, 2, 0, 1, 3], Sizes(train=2, dev=1, test=2), {"method": "by hand"})
    Split(train=(4, 2), test=(1, 3), dev=(0,), made_by={'method': 'by hand'})
    """
    train, held_out = tuple(order[: sizes.train]), tuple(order[sizes.train :])
    return Split(train, held_out[sizes.dev :], held_out[: sizes.dev], made_by)


def random_split(
    examples: Sequence[Example], sizes: Sizes, rng: random.Random
) -> Split:
    """Train, dev and test drawn at random, without replacement."""
    sizes.check(len(examples))
    return partition(
        rng.sample(range(len(examples)), len(examples)), sizes, {"method": "random"}
    )


class Side(StrEnum):
    SOURCE = "source"
    TARGET = "target"


def length_split(
    examples: Sequence[Example], sizes: Sizes, *, by: Side = Side.SOURCE
) -> Split:
    """The examples in order of length, ties in the order of the dataset, then divided.

    A double space counts as one more token: the published Spider split counts so. Of examples that
    are equal, the last one stands first. Nobody can tell them apart by their text, but split files
    name positions: this order is that of the published ones.
    """
    sizes.check(len(examples))
    equal = defaultdict[tuple[str, str], list[int]](list)
    for position, example in enumerate(examples):
        equal[example.source, example.target].append(position)
    by_length = sorted(examples, key=lambda example: spaced_length(example, by))
    order = [equal[example.source, example.target].pop() for example in by_length]
    return partition(order, sizes, {"method": "length", "by": str(by)})


def spaced_length(example: Example, side: Side) -> int:
    """How many tokens single spaces divide a side of `example` into.

    >>> spaced_length(Example("give me  the rivers", "river"), Side.SOURCE)
    5
    """
    text = example.source if side is Side.SOURCE else example.target
    return text.count(" ") + 1


# The positions of all examples with one template.
Group = list[int]


def template_split(
    examples: Sequence[Example], sizes: Sizes, template: Template, rng: random.Random
) -> Split:
    """A random split in which no template stands in two subsets, with the nearest sizes."""
    sizes.check(len(examples))
    groups = defaultdict[str, Group](list)
    for position, example in enumerate(examples):
        groups[template(example.target)].append(position)
    train, held_out = _divide(list(groups.values()), sizes.train, rng)
    dev, test = _divide(held_out, sizes.dev, rng) if sizes.dev else ([], held_out)
    return Split(
        _positions(train), _positions(test), _positions(dev), {"method": "template"}
    )


def _positions(groups: Iterable[Group]) -> tuple[int, ...]:
    return tuple(sorted(chain.from_iterable(groups)))


def _divide(
    groups: list[Group], size: int, rng: random.Random
) -> tuple[list[Group], list[Group]]:
    """Groups that hold as near to `size` examples as possible, and the others; neither is empty."""
    if len(groups) < 2:
        raise SettingsError(
            f"{len(groups)} template cannot fill two parts of a split; there must be at least 2"
        )
    groups = rng.sample(groups, len(groups))
    chosen = nearest_subset([len(group) for group in groups], size)
    others = set(range(len(groups))) - chosen
    return [groups[number] for number in sorted(chosen)], [
        groups[number] for number in sorted(others)
    ]


def nearest_subset(sizes: Sequence[int], wanted: int) -> set[int]:
    """Positions in `sizes` whose sum is as near to `wanted` as any, neither none of them nor all.

    >>> sorted(nearest_subset([5, 3, 4], 8))
    [0, 1]
    """
    # The last member of each sum; the others add up to a lower sum of earlier members.
    last_added: dict[int, int] = {}
    # Bit s is set where some of the sizes so far add up to s.
    reachable = 1
    for number, size in enumerate(sizes):
        fresh = (reachable << size) & ~reachable
        reachable |= fresh
        while fresh:
            lowest = fresh & -fresh
            last_added[lowest.bit_length() - 1] = number
            fresh ^= lowest
    # All of the sizes together would leave nothing for the other part.
    del last_added[sum(sizes)]
    total = min(last_added, key=lambda height: (abs(height - wanted), height))
    members = set()
    while total:
        members.add(last_added[total])
        total -= sizes[last_added[total]]
    return members


METHODS = ("random", "length", "template", "tmcd")


def split(
    examples: Sequence[Example],
    method: str = "random",
    *,
    train: Amount | None = None,
    test: Amount | None = None,
    dev: Amount = 0,
    seed: int = 0,
    by: Literal["source", "target"] | Side = "source",
    language: Language | str | None = None,
    blank: str | None = None,
    settings: TmcdSettings | None = None,
    progress: Progress = silent,
) -> Split:
    """Divide a dataset into train, test and perhaps dev: random, length, template or tmcd.

    A size is a number of examples or a share of them. Train or test, where it is not given, takes
    what remains. A length split compares the length `by` one side. Template and TMCD splits read
    targets in `language` (funql, sql, brackets, tokens; by default what they look like), templates
    may `blank` what a regular expression matches, and `settings` are those of the TMCD search.

    >>> examples = [Example("jump", "J"), Example("jump twice", "J J"), Example("walk", "W")]
    >>> split(examples, "length", test=1)
    Split(train=(0, 2), test=(1,), dev=(), made_by={'method': 'length', 'by': 'source'})
    """
    sizes = sizes_for(len(examples), train=train, test=test, dev=dev)
    rng = random.Random(seed)
    if method == "length":
        return length_split(examples, sizes, by=Side(by))
    # A length split draws nothing, so only the other methods record the seed.
    made_by: dict[str, str | int] = {"seed": seed}
    if method == "random":
        divided = random_split(examples, sizes, rng)
    elif method in METHODS:
        language = language_of(examples, language, blank)
        made_by["language"] = language.name
        if method == "template":
            divided = template_split(examples, sizes, language.template, rng)
            if blank is not None:
                made_by["blank"] = blank
        else:
            # This module needs the sizes defined here.
            from nqg.splits.tmcd import DEFAULT_SETTINGS, tmcd_split

            settings = settings or DEFAULT_SETTINGS
            divided = tmcd_split(
                examples, sizes, language.decomposition, rng, settings, progress
            )
    else:
        raise UnknownName("way to split a dataset", method, METHODS)
    return replace(divided, made_by={**divided.made_by, **made_by})
