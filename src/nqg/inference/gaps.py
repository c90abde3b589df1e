"""Why a grammar derives no whole sentence: the words that it lacks, and the islands that it knows but cannot join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from nqg.grammar.chart import charts
from nqg.grammar.derivation import Tokens
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Span
from nqg.grammar.rule import NonTerminal, spelled


@dataclass(frozen=True, slots=True)
class Gaps:
    """What a grammar knows of a sentence, as far as it goes.

    `islands` are spans with a derivation, from left to right: they leave as few tokens uncovered as possible and,
    among such covers, are as few as possible, the earlier ones as long as possible. `unknown` are the places of tokens
    that stand in no rule's source.
    """

    source: Tokens
    islands: tuple[Span, ...]
    unknown: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether the grammar derives the sentence, so that there is no gap."""
        return self.islands == (Span(0, len(self.source)),)

    @property
    def unknown_tokens(self) -> Tokens:
        """The tokens that no rule knows, each once."""
        return tuple(dict.fromkeys(self.source[place] for place in self.unknown))

    @property
    def uncovered(self) -> tuple[int, ...]:
        """The places outside all islands, known tokens and unknown ones."""
        covered = {place for island in self.islands for place in range(island.start, island.end)}
        return tuple(place for place in range(len(self.source)) if place not in covered)

    @property
    def pattern(self) -> str:
        """The sentence with its islands as non-terminals: the source of a rule that would close the gap.

        >>> Gaps(("jump", "and", "walk"), (Span(0, 1), Span(2, 3)), unknown=()).pattern
        'NT_1 and NT_2'
        """
        starts = {island.start: NonTerminal(number) for number, island in enumerate(self.islands, start=1)}
        shown = sorted([*starts, *self.uncovered])
        return " ".join(spelled(starts.get(place, self.source[place])) for place in shown)

    def __str__(self) -> str:
        if self.is_whole:
            return "the whole sentence has a derivation"
        if not self.source:
            return "the sentence is empty"
        if self.unknown:
            return f"no rule knows {_listed(self.unknown_tokens)}"
        islands = [" ".join(self.source[island.start : island.end]) for island in self.islands]
        if not islands:
            return f"every word is known, but no rule fits {_listed(self._loose())}"
        are, them = ("is", "it") if len(islands) == 1 else ("are", "them")
        beside = f" with {_listed(self._loose())}" if self.uncovered else ""
        return f"{_listed(islands)} {are} known, but not how to join {them}{beside}"

    def _loose(self) -> list[str]:
        """The uncovered tokens, neighbours together."""
        runs = groupby(enumerate(self.uncovered), key=lambda numbered: numbered[1] - numbered[0])
        return [" ".join(self.source[place] for _, place in run) for _, run in runs]


def _listed(phrases: Sequence[str]) -> str:
    """Phrases as a reader likes them.

    >>> _listed(["jump", "walk twice", "run"])
    "'jump', 'walk twice' and 'run'"
    """
    *firsts, last = [f"'{phrase}'" for phrase in phrases]
    return f"{', '.join(firsts)} and {last}" if firsts else last


def gaps(grammar: Grammar, source: Sequence[str], *, limit: int | None = None) -> Gaps:
    """What `grammar` knows of a sentence; `limit` bounds the chart, as in `charts`.

    >>> grammar = Grammar.parse('''
    ... jump ### I_JUMP
    ... walk ### I_WALK
    ... NT_1 twice ### NT_1 NT_1
    ... ''')
    >>> print(gaps(grammar, "jump twice walk".split()))
    'jump twice' and 'walk' are known, but not how to join them
    >>> print(gaps(grammar, "swim twice".split()))
    no rule knows 'swim'
    """
    tokens = tuple(source)
    known = {symbol for rule in grammar for symbol in rule.source if isinstance(symbol, str)}
    unknown = tuple(place for place, token in enumerate(tokens) if token not in known)
    return Gaps(tokens, tuple(_fewest(_derivable_ends(grammar, tokens, limit))), unknown)


def _derivable_ends(grammar: Grammar, source: Tokens, limit: int | None) -> list[list[int]]:
    """For each place the ends of the spans from there that have a derivation, the longest first."""
    graph = charts(grammar, [source], prune=False, limit=limit)
    ends: list[list[int]] = [[] for _ in source]
    for node in graph.node_ids():
        span = graph.span(node)
        ends[span.start].append(span.end)
    return [sorted(each, reverse=True) for each in ends]


@dataclass(frozen=True, slots=True)
class _Cover:
    """How the tokens from some place on are best covered: the number of gaps, of islands, and where to go next."""

    uncovered: int
    islands: int
    next: int
    is_island: bool


def _fewest(ends: Sequence[Sequence[int]]) -> Iterator[Span]:
    """The islands of the best cover; from right to left each place's best way on is settled once."""
    best = [_Cover(0, 0, len(ends), False)] * (len(ends) + 1)
    for start in reversed(range(len(ends))):
        behind = best[start + 1]
        skipped = _Cover(behind.uncovered + 1, behind.islands, start + 1, False)
        landed = [_Cover(best[end].uncovered, best[end].islands + 1, end, True) for end in ends[start]]
        best[start] = min([*landed, skipped], key=lambda cover: (cover.uncovered, cover.islands, -cover.next))
    place = 0
    while place < len(ends):
        if best[place].is_island:
            yield Span(place, best[place].next)
        place = best[place].next
