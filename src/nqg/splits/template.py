"""The template split: programs that differ only in their names and numbers stay on one side.

A template is a target with its constants blanked out. Whole groups of equal templates go to one part, so a part can
miss its size by a little; the groups of train are chosen so that it comes as near as any choice of groups can, and
then those of dev among what is held out.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from nqg.data.example import Example
from nqg.data.split import Split
from nqg.errors import SettingsError
from nqg.splits.shuffled import shuffled
from nqg.splits.sizes import Sizes

Template = Callable[[str], str]
"""From a target to its template."""

Group = list[int]
"""The positions of all examples with one template."""


def template_split(examples: Sequence[Example], sizes: Sizes, template: Template, rng: random.Random) -> Split:
    """A random split in which no template stands in two parts, with sizes as near to `sizes` as that allows."""
    sizes.check(len(examples))
    groups: dict[str, Group] = defaultdict(list)
    for position, example in enumerate(examples):
        groups[template(example.target)].append(position)
    train, held_out = _parted(list(groups.values()), sizes.train, rng)
    dev, test = _parted(held_out, sizes.dev, rng) if sizes.dev else ([], held_out)
    return Split(_positions(train), _positions(test), _positions(dev), {"method": "template"})


def _positions(groups: Iterable[Group]) -> tuple[int, ...]:
    return tuple(sorted(chain.from_iterable(groups)))


def _parted(groups: list[Group], size: int, rng: random.Random) -> tuple[list[Group], list[Group]]:
    """Groups that hold as near to `size` examples as possible, and the others; neither is empty."""
    if len(groups) < 2:
        raise SettingsError(f"{len(groups)} template cannot fill two parts of a split; there must be at least 2")
    groups = [groups[at] for at in shuffled(range(len(groups)), rng)]
    chosen = nearest_subset([len(group) for group in groups], size)
    return [groups[at] for at in sorted(chosen)], [group for at, group in enumerate(groups) if at not in chosen]


def nearest_subset(sizes: Sequence[int], wanted: int) -> set[int]:
    """Positions in `sizes` whose sum is as near to `wanted` as any, neither none of them nor all.

    >>> sorted(nearest_subset([5, 3, 4], 8))
    [0, 1]
    """
    last_added: dict[int, int] = {}
    reachable = 1  # bit s is set where some of the sizes so far add up to s
    for at, size in enumerate(sizes):
        fresh = (reachable << size) & ~reachable
        reachable |= fresh
        last_added.update((height, at) for height in _set_bits(fresh))
    del last_added[sum(sizes)]
    nearest = min(last_added, key=lambda height: (abs(height - wanted), height))
    return set(_steps_down(nearest, sizes, last_added))


def _set_bits(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _steps_down(height: int, sizes: Sequence[int], last_added: Mapping[int, int]) -> Iterator[int]:
    """The members of the sum `height`; each was reached from a lower sum of earlier members only."""
    while height:
        yield last_added[height]
        height -= sizes[last_added[height]]


def regex_template(pattern: str, blank: str = "_") -> Template:
    """The template that replaces every match of `pattern`.

    >>> regex_template("[0-9]+")("limit 3 offset 20")
    'limit _ offset _'
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise SettingsError(f"'{pattern}' is not a regular expression: {error}") from error
    return lambda target: compiled.sub(lambda _: blank, target)


CONSTANTS = r"""(?<!\S)(?:-?[0-9]+(?:\.[0-9]+)?|"[^"]*"|'[^']*')(?!\S)"""
"""Numbers and quoted strings that stand alone between spaces."""

constants_template = regex_template(CONSTANTS)
funql_template = regex_template(rf"(?<!\S)m[0-9]+(?!\S)|{CONSTANTS}")
