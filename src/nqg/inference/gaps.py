"""Why a grammar derives no whole sentence: words that it lacks, islands that it cannot join, types
that do not fit.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from nqg.answers import Answer
from nqg.grammar.derivation import Derivation, Tokens
from nqg.grammar.encoding import NO_TYPE
from nqg.grammar.grammar import (
    Grammar,
    NonTerminal,
    Rule,
    Symbol,
    argument_indices,
    format_symbol,
)
from nqg.grammar.hypergraph import Span
from nqg.grammar.semirings import k_best_derivations
from nqg.inference.charts import BatchCharts
from nqg.slots.instantiate import unknown_places
from nqg.slots.matcher import Sentence, words_of
from nqg.types.target_grammar import format_symbols
from nqg.types.tree_automaton import Fragment, Typing

# Derivations among which the one with the fewest misfits is looked for. They
# trade time for a message that names fewer misfits; no answer depends on them.
MISFIT_CANDIDATES = 32
MISFIT_HYPEREDGES = 512  # of all of them
SHOWN_TYPES = 3  # types that are named at once
# The names of types that inference makes: of heads, words, lists and arguments.
_MADE_UP = re.compile(r"_(?:head|word|list|argument)(?:_\d+)?>$|_argument_list")


@dataclass(frozen=True, slots=True)
class Misfit:
    """A span that does not stand for what its place asks for.

    `construction` has the words around that place, and `parts` are spans of which each would fit
    into it, but not all of them together.
    """

    span: Span
    # Categories and tokens, as target grammars write them; none if nothing would do.
    wanted: tuple[str, ...] = ()
    construction: str = ""
    parts: tuple[Span, ...] = ()

    @property
    def types(self) -> tuple[str, ...]:
        """What its place asks for, if that has a name; those that inference made up tell nothing."""
        telling = tuple(name for name in self.wanted if not _MADE_UP.search(name))
        has_name = any(name.startswith("<") for name in telling)
        return telling if has_name else ()

    @property
    def is_telling(self) -> bool:
        return bool(self.types or self.construction or len(self.parts) > 1)

    def describe(self, source: Tokens) -> str:
        """
        >>> words = ("wake", "me", "up", "at", "jazz")
        >>> Misfit(Span(4, 5), ("<time>", "<date>")).describe(words)
        "'jazz' is not a <time> or <date>"
        >>> Misfit(Span(4, 5), ("<wake_argument>",), "wake me up at …").describe(words)
        "'jazz' does not fit into 'wake me up at …'"
        """
        (words,) = _phrases(source, [self.span])
        if len(self.parts) > 1:
            return f"{listed(_phrases(source, self.parts))} do not go together"
        if self.types:
            types = list(self.types[:SHOWN_TYPES])
            if len(self.types) > SHOWN_TYPES:
                types.append("…")
            *firsts, last = types
            names = f"{', '.join(firsts)} or {last}" if firsts else last
            return f"'{words}' is not a {names}"
        if self.wanted:
            place = f"into '{self.construction}'" if self.construction else "there"
            return f"'{words}' does not fit {place}"
        return f"'{words}' is part of no legal program"


def _phrases(source: Tokens, spans: Iterable[Span]) -> Tokens:
    return tuple(" ".join(source[span.start : span.end]) for span in spans)


@dataclass(frozen=True, slots=True)
class Gaps:
    """What a grammar knows of a sentence, as far as it goes.

    `islands` are spans with a derivation, from left to right: they leave as few tokens uncovered as
    possible and, among such covers, are as few as possible, the earlier ones as long as possible.
    `unknown` are the places of tokens that stand in no rule's source. `misfits` are what is of
    another type than its place asks for, where the sentence would have a derivation but for its
    types.
    """

    source: Tokens
    islands: tuple[Span, ...]
    unknown: tuple[int, ...]
    misfits: tuple[Misfit, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self.islands == (Span(0, len(self.source)),)

    @property
    def unknown_tokens(self) -> Tokens:
        return tuple(dict.fromkeys(self.source[place] for place in self.unknown))

    @property
    def phrases(self) -> Tokens:
        """The islands, as phrases."""
        return _phrases(self.source, self.islands)

    @property
    def uncovered(self) -> tuple[int, ...]:
        """The places outside all islands, known tokens and unknown ones."""
        places = set(range(len(self.source)))
        for island in self.islands:
            places -= set(range(island.start, island.end))
        return tuple(sorted(places))

    @property
    def loose(self) -> Tokens:
        """The uncovered words, neighbours as one phrase."""
        phrases = []
        runs = groupby(
            enumerate(self.uncovered), key=lambda numbered: numbered[1] - numbered[0]
        )
        for _, run in runs:
            phrases.append(" ".join(self.source[place] for _, place in run))
        return tuple(phrases)

    @property
    def missing(self) -> Tokens:
        """What a new example should show: unknown words or, if there are none, known ones that no
        derivation covers; else the phrases that no rule joins.
        """
        return self.unknown_tokens or self.loose or self.phrases

    @property
    def pattern(self) -> str:
        """The sentence with its islands as non-terminals: the source of a rule that would close the
        gap.

        >>> Gaps(("jump", "and", "walk"), (Span(0, 1), Span(2, 3)), unknown=()).pattern
        'NT_1 and NT_2'
        """
        symbols: dict[int, Symbol] = {
            place: self.source[place] for place in self.uncovered
        }
        for number, island in enumerate(self.islands, start=1):
            symbols[island.start] = NonTerminal(number)
        return " ".join(format_symbol(symbols[place]) for place in sorted(symbols))

    def __str__(self) -> str:
        if self.is_whole:
            return "the whole sentence has a derivation"
        if not self.source:
            return "the sentence is empty"
        if self.unknown:
            return f"no rule knows {listed(self.unknown_tokens)}"
        islands, loose = self.phrases, self.loose
        misfits = [misfit for misfit in self.misfits if misfit.is_telling]
        if not islands:
            # Whatever is wrong with the words is better than nothing.
            misfits = misfits or list(self.misfits)
        if misfits:
            return " and ".join(misfit.describe(self.source) for misfit in misfits)
        if not islands:
            return f"every word is known, but no rule fits {listed(loose)}"
        are, them = ("is", "it") if len(islands) == 1 else ("are", "them")
        rest = f" with {listed(loose)}" if loose else ""
        return f"{listed(islands)} {are} known, but not how to join {them}{rest}"


def listed(phrases: Iterable[str]) -> str:
    """Phrases as a reader likes them.

    >>> listed(["jump", "walk twice", "run"])
    "'jump', 'walk twice' and 'run'"
    """
    *firsts, last = [f"'{phrase}'" for phrase in phrases]
    return f"{', '.join(firsts)} and {last}" if firsts else last


def gaps(grammar: Grammar, source: Sequence[str], limit: int | None = None) -> Gaps:
    """What `grammar` knows of a sentence, of whose chart `limit` bounds the entries.

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
    charts = BatchCharts.of(grammar, [tuple(source)], limit=limit)
    return gaps_in(charts, tuple(source))


def gaps_in(charts: BatchCharts, sentence: Sentence) -> Gaps:
    """What the grammar knows of the one sentence of a chart that is not pruned."""
    source = words_of(sentence)
    if Span(0, len(source)) not in charts.typed_spans:
        charts = charts.without_free_text()
    islands = fewest_islands(charts.typed_spans, len(source))
    unknown = unknown_places(charts.grammar.grammar, sentence)
    return Gaps(source, islands, tuple(unknown), misfits(charts))


def words_lacking(grammar: Grammar, source: Sequence[str]) -> Gaps:
    """What a grammar lacks for a sentence that is too costly to chart: its unknown words."""
    return Gaps(tuple(source), (), tuple(unknown_places(grammar, tuple(source))))


def explained(answer: Answer) -> Answer:
    """The answer, its reason followed by what the grammar lacks where that is why it did not
    answer.
    """
    missing = answer.first.gaps
    return (
        answer
        if missing is None
        else replace(answer, reason=f"{answer.reason}: {missing}")
    )


def misfits(charts: BatchCharts) -> tuple[Misfit, ...]:
    """What keeps a sentence that has a derivation from having a well-typed one: of some derivations
    the fewest.

    >>> from nqg.types.target_grammar import TargetGrammar
    >>> target_grammar = TargetGrammar.parse("<command> ::= wake ( <time> ) | <song>\\n<time> ::= 7\\n<song> ::= jazz")
    >>> grammar = Grammar.parse("jazz ### jazz\\nseven ### 7\\nwake me up at NT_1 ### wake ( NT_1 )")
    >>> print(gaps(grammar.typed_by(target_grammar), "wake me up at jazz".split()))
    'jazz' is not a <time>
    """
    grammar, typing = charts.grammar, charts.grammar.typing
    (source,) = charts.sources
    if typing is None or Span(0, len(source)) in charts.typed_spans:
        return ()
    # Without scores all derivations are equal: these are just some of them.
    forest = charts.forests
    (ranked,) = k_best_derivations(
        grammar,
        forest,
        np.zeros(forest.hyperedges),
        MISFIT_CANDIDATES,
        MISFIT_HYPEREDGES,
    )
    candidates = [_misfits(grammar.grammar, typing, each.derivation) for each in ranked]
    return min(candidates, key=len, default=())


def _misfits(
    grammar: Grammar, typing: Typing, derivation: Derivation
) -> tuple[Misfit, ...]:
    """The hyperedges of a derivation whose types do not fit, from right to left."""
    hyperedges = derivation.hyperedges
    types = [NO_TYPE] * len(hyperedges)
    misfits: list[Misfit] = []
    for at, below in reversed(list(enumerate(derivation.child_numbers()))):
        rule = hyperedges[at].rule
        number, children = grammar.numbers[rule], [types[child] for child in below]
        types[at] = typing.type_of(number, children)
        # It fits, or the fault is further down.
        if types[at] != NO_TYPE or NO_TYPE in children:
            continue
        # Which arguments are of a type that no signature of the rule has in their place?
        wanted: dict[int, set[Fragment]] = defaultdict(set)
        indices = argument_indices(rule.target)
        for signature in typing.signatures[number]:
            for index, fragment in zip(indices, signature.arguments):
                wanted[index].add(fragment)
        before = len(misfits)
        for index, child in enumerate(below, start=1):
            if not wanted[index] & typing.types[types[child]]:
                texts = map(format_symbols, wanted[index])
                in_order = sorted(
                    texts, key=lambda text: (not text.startswith("<"), text)
                )
                span, wants = hyperedges[child].span, tuple(in_order)
                misfits.append(Misfit(span, wants, _construction(rule)))
        # Each argument alone would fit, but not all of them together.
        if len(misfits) == before:
            parts = tuple(hyperedges[child].span for child in below)
            misfits.append(Misfit(hyperedges[at].span, parts=parts))
    if not misfits and grammar.target_grammar is not None:
        misfits.append(
            Misfit(derivation.root.span, (str(grammar.target_grammar.start),))
        )
    return tuple(misfits)


def _construction(rule: Rule) -> str:
    """The words of a rule, with a mark where others stand; empty if it has none."""
    if not any(isinstance(symbol, str) for symbol in rule.source):
        return ""
    words = ["…" if isinstance(each, NonTerminal) else each for each in rule.source]
    return " ".join(words)


class Cover(NamedTuple):
    """How the words from a position on are covered: what matters most comes first."""

    uncovered: int
    islands: int
    next: int  # the end of the first span, negative so that a longer one is better
    is_island: bool


def fewest_islands(spans: Iterable[Span], length: int) -> tuple[Span, ...]:
    """The best cover of a sentence by derivable spans, found once for each suffix, from right to
    left.
    """
    ends: list[list[int]] = [[] for _ in range(length)]
    for span in spans:
        ends[span.start].append(span.end)
    best = [Cover(0, 0, -length, False)] * (length + 1)
    for start in reversed(range(length)):
        # Either skip a word or take a span: the order of the fields of `Cover` decides.
        skipped = best[start + 1]
        covers = [Cover(skipped.uncovered + 1, skipped.islands, -start - 1, False)]
        covers += [
            Cover(best[end].uncovered, best[end].islands + 1, -end, True)
            for end in ends[start]
        ]
        best[start] = min(covers)
    islands, start = [], 0
    while start < length:
        end = -best[start].next
        if best[start].is_island:
            islands.append(Span(start, end))
        start = end
    return tuple(islands)
