"""Good-enough compositional data augmentation (GECA; Andreas, 2020): what occurs in the same place may be exchanged.

A fragment is a span of words and a part of the program, an environment is what remains of the example without it. Two
fragments that share an environment are interchangeable in all others. No grammar is induced, and none is needed.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice, permutations
from typing import NamedTuple

from nqg.data.examples import Example, distinct_pairs
from nqg.grammar.program_trees import Term, read_term

LONGEST = 4  # words of a fragment


class PairFragment(NamedTuple):
    source: str
    target: str


class Environment(NamedTuple):
    """An example with a gap in its source and one in its target."""

    source: tuple[str, str]  # before and after the gap
    target: tuple[str, str]

    def filled(self, fragment: PairFragment) -> tuple[str, str]:
        sides = zip((self.source, self.target), fragment, strict=True)
        source, target = (" ".join(filter(None, (before, text, after))) for (before, after), text in sides)
        return source, target


def recombined(
    examples: Sequence[Example], count: int, is_legal: Callable[[Example], object] = bool, seed: int = 0
) -> list[Example]:
    """At most so many new pairs, each an example with one fragment exchanged, drawn with `seed` where there are more.

    >>> walks = [("walk twice", "twice ( W )"), ("jump twice", "twice ( J )"), ("walk left", "left ( W )")]
    >>> [(pair.source, pair.target) for pair in recombined([Example(*pair) for pair in walks], 9)]
    [('jump left', 'left ( J )')]
    """
    fragments: dict[Environment, list[PairFragment]] = defaultdict(list)
    environments: dict[PairFragment, list[Environment]] = defaultdict(list)
    known = distinct_pairs(examples)
    for example in known:
        for environment, fragment in divided(example):
            fragments[environment].append(fragment)
            environments[fragment].append(environment)
    alike = dict.fromkeys(pair for each in fragments.values() for pair in permutations(each, 2))
    ends = list(accumulate(len(environments[fragment]) for fragment, _ in alike))
    exchanges = list(alike)

    def drawn() -> Iterator[tuple[str, str]]:
        for number in shuffled(ends[-1] if ends else 0, random.Random(seed)):
            at = bisect(ends, number)
            fragment, instead = exchanges[at]
            yield environments[fragment][number - ends[at]].filled(instead)  # counted from the end

    new = unseen(drawn(), {(example.source, example.target) for example in known})
    return list(islice(filter(is_legal, (Example(*pair) for pair in new)), count))


def shuffled(size: int, chance: random.Random) -> Iterator[int]:
    """The numbers below `size` in a random order, of which no more are made than are asked for."""
    moved: dict[int, int] = {}  # a number that stands in the place of another, as in a shuffled list
    for at in range(size):
        chosen = chance.randrange(at, size)
        yield moved.get(chosen, chosen)
        moved[chosen] = moved.pop(at, at)


def unseen(pairs: Iterable[tuple[str, str]], seen: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for pair in pairs:
        if pair not in seen:
            seen.add(pair)
            yield pair


def divided(example: Example) -> Iterator[tuple[Environment, PairFragment]]:
    """All ways to take a fragment out of an example; a program that is not a tree has none."""
    words, term = example.source_tokens, read_term(example.target_tokens)
    parts = list(_parts(term)) if term else []
    for start in range(len(words)):
        for end in range(start + 1, min(start + LONGEST, len(words)) + 1):
            if end - start < len(words):
                around = (" ".join(words[:start]), " ".join(words[end:]))
                taken = " ".join(words[start:end])
                yield from ((Environment(around, gap), PairFragment(taken, part)) for gap, part in parts)


def _parts(term: Term) -> Iterator[tuple[tuple[str, str], str]]:
    """What stands before and after each argument in a program, at any depth, and the argument."""
    whole = list(term.tokens())
    waiting = [(term, 0)]
    while waiting:
        term, at = waiting.pop()
        form = term.form
        at += len([token for token in (*form.prefix, *term.word, *form.opening) if token])
        for argument in term.arguments:
            size = len(list(argument.tokens()))
            yield (" ".join(whole[:at]), " ".join(whole[at + size :])), " ".join(whole[at : at + size])
            waiting.append((argument, at))
            at += size + bool(form.separator)
