"""Good-enough compositional data augmentation (GECA; Andreas, 2020): what occurs in the same place may be exchanged.

A fragment is a span of words and a part of the program, an environment is what remains of the example without it. Two
fragments that share an environment are interchangeable in all others, unless known sentences mostly contradict it. No
grammar is induced, and none is needed. A part is an argument; where a program is a mere sequence, one token and one
word are taken out, wherever they stand.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise, permutations, product
from typing import NamedTuple

from nqg.data.example import Example, distinct_pairs
from nqg.types.program_trees import Term, read_term

LONGEST = 4  # words of a fragment of a tree


class PairFragment(NamedTuple):
    source: str
    target: str


Gaps = tuple[str, ...]  # what stands before, between and after them


class Environment(NamedTuple):
    """An example with gaps in its source and in its target."""

    source: Gaps
    target: Gaps

    def filled(self, fragment: PairFragment) -> tuple[str, str]:
        return _filled(self.source, fragment.source), _filled(self.target, fragment.target)


def _filled(gaps: Gaps, text: str) -> str:
    first, *others = gaps
    return " ".join(filter(None, (first, *chain.from_iterable((text, each) for each in others))))


def recombined(
    examples: Sequence[Example],
    count: int,
    is_legal: Callable[[Example], object] = bool,
    seed: int = 0,
) -> list[Example]:
    """At most so many new pairs, each an example with one fragment exchanged, drawn with `seed` where there are more.

    >>> walks = [("walk twice", "twice ( W )"), ("jump twice", "twice ( J )"), ("walk left", "left ( W )")]
    >>> [(pair.source, pair.target) for pair in recombined([Example(*pair) for pair in walks], 9)]
    [('jump left', 'left ( J )')]
    """
    fragments: dict[Environment, list[PairFragment]] = defaultdict(list)
    environments: dict[PairFragment, list[Environment]] = defaultdict(list)
    programs: dict[str, set[str]] = defaultdict(set)
    for example in distinct_pairs(examples):
        programs[example.source].add(example.target)
        for environment, fragment in divided(example):
            fragments[environment].append(fragment)
            environments[fragment].append(environment)
    alike = dict.fromkeys(pair for each in fragments.values() for pair in permutations(each, 2))
    exchanges = [
        (environment, instead)
        for fragment, instead in alike
        if _is_confirmed([each.filled(instead) for each in environments[fragment]], programs)
        for environment in environments[fragment]
    ]
    random.Random(seed).shuffle(exchanges)
    new = unseen((environment.filled(instead) for environment, instead in exchanges), programs)
    return list(islice(filter(is_legal, new), count))


def _is_confirmed(
    pairs: Iterable[tuple[str, str]], programs: Mapping[str, Collection[str]]
) -> bool:
    """Whether at least half of the pairs whose sentences are known have programs of theirs.

    `walk and walk` and `walk after walk` are the same, but that does not make `and` and `after` interchangeable.
    """
    right = [target in programs[source] for source, target in pairs if source in programs]
    return 2 * sum(right) >= len(right)


def unseen(pairs: Iterable[tuple[str, str]], sentences: Collection[str]) -> Iterator[Example]:
    """Each pair once, without those of sentences whose program is known: another one would contradict it."""
    seen: set[tuple[str, str]] = set()
    for pair in pairs:
        if pair not in seen and pair[0] not in sentences:
            seen.add(pair)
            yield Example(*pair)


def divided(example: Example) -> Iterator[tuple[Environment, PairFragment]]:
    """All ways to take a fragment out of an example; a program that is neither tree nor sequence has none.

    >>> [(environment.target, fragment) for environment, fragment in divided(Example("walk left", "L W"))][:2]
    [(('', 'W'), PairFragment(source='walk', target='L')), (('L', ''), PairFragment(source='walk', target='W'))]
    """
    words, tokens = example.source_tokens, example.target_tokens
    term = read_term(tokens)
    if term and term.is_sequence:
        sources, targets = (
            [(_gaps(side, each), each) for each in dict.fromkeys(side)] for side in (words, tokens)
        )
    else:
        sources, targets = list(_spans(words)), list(_parts(term)) if term else []
    for (around, span), (gaps, part) in product(sources, targets):
        yield Environment(around, gaps), PairFragment(span, part)


def _gaps(tokens: Sequence[str], taken: str) -> Gaps:
    """What remains of tokens without one that is taken, wherever it stands."""
    places = [place for place, token in enumerate(tokens) if token == taken]
    return tuple(
        " ".join(tokens[before + 1 : place])
        for before, place in pairwise((-1, *places, len(tokens)))
    )


def _spans(words: Sequence[str]) -> Iterator[tuple[Gaps, str]]:
    """What stands before and after each short span of some of the words, and the span."""
    for start in range(len(words)):
        for end in range(start + 1, min(start + LONGEST, len(words)) + 1):
            if end - start < len(words):
                yield (" ".join(words[:start]), " ".join(words[end:])), " ".join(words[start:end])


def _parts(term: Term) -> Iterator[tuple[Gaps, str]]:
    """What stands before and after each argument in a program, at any depth, and the argument."""
    whole = list(term.tokens())
    waiting = [(term, 0)]
    while waiting:
        term, at = waiting.pop()
        form = term.form
        at += len([token for token in (*form.prefix, *term.word, *form.opening) if token])
        for argument in term.arguments:
            size = len(list(argument.tokens()))
            yield (
                (" ".join(whole[:at]), " ".join(whole[at + size :])),
                " ".join(whole[at : at + size]),
            )
            waiting.append((argument, at))
            at += size + bool(form.separator)
