"""Good-enough compositional data augmentation (GECA; Andreas, 2020): what occurs in the same place
may be exchanged.

A fragment is a span of words and a part of the program, an environment is what remains of the
example without it. Two fragments that share an environment are interchangeable in all others,
unless known sentences mostly contradict it. No grammar is induced, and none is needed. A part is an
argument; where a program is a mere sequence, one token and one word are taken out, wherever they
stand.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, permutations, product
from typing import NamedTuple

from nqg.data.example import Example, distinct_pairs
from nqg.types.program_trees import Term, read_term

# Words of a fragment of a tree, as in the paper.
LONGEST = 4

# What stands before, between and after the gaps of a text.
Gaps = tuple[str, ...]


class Template(NamedTuple):
    """A source or a target with gaps, and the text that was taken out of them."""

    gaps: Gaps
    text: str


class PairFragment(NamedTuple):
    source: str
    target: str


class Environment(NamedTuple):
    """An example with gaps in its source and in its target."""

    source: Gaps
    target: Gaps

    def filled(self, fragment: PairFragment) -> tuple[str, str]:
        source = _filled(self.source, fragment.source)
        return source, _filled(self.target, fragment.target)


def _filled(gaps: Gaps, text: str) -> str:
    return " ".join(f" {text} ".join(gaps).split())


def recombined(
    examples: Sequence[Example],
    count: int,
    is_legal: Callable[[Example], object] = bool,
    seed: int = 0,
) -> list[Example]:
    """At most so many new pairs, each an example with one fragment exchanged, drawn with `seed`
    where there are more.

    >>> walks = [("walk twice", "twice ( W )"), ("jump twice", "twice ( J )")]
    >>> walks += [("walk left", "left ( W )")]
    >>> [(pair.source, pair.target) for pair in recombined([Example(*pair) for pair in walks], 9)]
    [('jump left', 'left ( J )')]
    """
    # Index the fragments by their environments, and the other way round.
    fragments: dict[Environment, list[PairFragment]] = defaultdict(list)
    environments: dict[PairFragment, list[Environment]] = defaultdict(list)
    programs: dict[str, set[str]] = defaultdict(set)
    for example in distinct_pairs(examples):
        programs[example.source].add(example.target)
        for environment, fragment in divided(example):
            fragments[environment].append(fragment)
            environments[fragment].append(environment)
    # Fragments that share an environment are exchanged in all others, unless it is contradicted.
    alike: dict[tuple[PairFragment, ...], None] = {}
    for shared in fragments.values():
        alike.update(dict.fromkeys(permutations(shared, 2)))
    exchanges = []
    for fragment, instead in alike:
        pairs = [environment.filled(instead) for environment in environments[fragment]]
        if _is_confirmed(pairs, programs):
            exchanges += pairs
    random.Random(seed).shuffle(exchanges)
    # Another program of a known sentence would contradict it.
    new = (
        Example(*pair) for pair in dict.fromkeys(exchanges) if pair[0] not in programs
    )
    return list(islice(filter(is_legal, new), count))


def _is_confirmed(
    pairs: Iterable[tuple[str, str]], programs: Mapping[str, Collection[str]]
) -> bool:
    """Whether at least half of the pairs whose sentences are known have programs of theirs.

    `walk and walk` and `walk after walk` are the same, but that does not make `and` and `after`
    interchangeable.
    """
    annotated = [pair for pair in pairs if pair[0] in programs]
    right = sum(target in programs[source] for source, target in annotated)
    return 2 * right >= len(annotated)


def divided(example: Example) -> Iterator[tuple[Environment, PairFragment]]:
    """All ways to take a fragment out of an example; a program that is neither tree nor sequence
    has none.

    >>> environment, fragment = next(divided(Example("walk left", "L W")))
    >>> environment.target, fragment
    (('', 'W'), PairFragment(source='walk', target='L'))
    """
    words, tokens = example.source_tokens, example.target_tokens
    term = read_term(tokens)
    if term is None:
        return
    if term.is_sequence:
        # In a sequence, one word and one token go, wherever they stand.
        sources = [_without(words, word) for word in dict.fromkeys(words)]
        targets = [_without(tokens, token) for token in dict.fromkeys(tokens)]
    else:
        sources, targets = list(_spans(words)), list(_arguments(term))
    for source, target in product(sources, targets):
        yield (
            Environment(source.gaps, target.gaps),
            PairFragment(source.text, target.text),
        )


def _without(tokens: Sequence[str], removed: str) -> Template:
    """What remains of tokens without all occurrences of one."""
    # Every removed token begins a new gap.
    gaps: list[list[str]] = [[]]
    for token in tokens:
        if token == removed:
            gaps.append([])
        else:
            gaps[-1].append(token)
    return Template(tuple(map(" ".join, gaps)), removed)


def _span(tokens: Sequence[str], start: int, end: int) -> Template:
    gaps = (" ".join(tokens[:start]), " ".join(tokens[end:]))
    return Template(gaps, " ".join(tokens[start:end]))


def _spans(words: Sequence[str]) -> Iterator[Template]:
    """Each short span of some of the words."""
    for start in range(len(words)):
        for end in range(start + 1, min(start + LONGEST, len(words)) + 1):
            if end - start < len(words):
                yield _span(words, start, end)


def _arguments(term: Term) -> Iterator[Template]:
    """Each argument in a program, at any depth."""
    program = list(term.tokens())
    # A stack of subtrees, each with the number of its first token.
    waiting = [(term, 0)]
    while waiting:
        term, start = waiting.pop()
        form = term.form
        start += sum(map(bool, (*form.prefix, *term.word, *form.opening)))
        for argument in term.arguments:
            end = start + len(list(argument.tokens()))
            yield _span(program, start, end)
            waiting.append((argument, start))
            start = end + bool(form.separator)
