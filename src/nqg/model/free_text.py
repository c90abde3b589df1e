"""What training shows of free text: where it stands, how long it is, and which words it never holds.

Any words may be free text, so a grammar reads much as free text that is none: "do not put the
dentist on my calendar" has an event called "do not put the dentist". Training says what such a
reading lacks, and each of four signs makes confidence lower (`nqg.model.confidence`). Of the held-out
sentences of eight datasets, these programs with free text have a sign:

    programs  right  wrong
    in all      280    391
    misplaced     5    249
    other word    4    241
    too long      5    149
    mark          0      6

What follows a text tells less: training lacks it in 13 of the right programs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import SlotInstance
from nqg.text.sentences import PUNCTUATION, TokenizedSentence


class FreeText(NamedTuple):
    """A free text in a derivation; `before` is the word before it, or the slot of a value, and
    nothing at the beginning. `has_mark`: a comma or a dash, say, separates two of its words.
    """

    slot: str
    before: str
    words: tuple[str, ...]
    has_mark: bool = False


@dataclass(frozen=True, slots=True)
class TextUse:
    """The free texts of a derivation, and the words that stand in no value."""

    texts: tuple[FreeText, ...]
    other_words: tuple[str, ...]

    @classmethod
    def of(
        cls,
        derivation: Derivation,
        free_text: Container[str],
        sentence: TokenizedSentence | None = None,
    ) -> TextUse:
        """What a derivation makes of a sentence; without the sentence, no marks are known."""
        instances: dict[int, tuple[SlotInstance, int]] = {}
        for hyperedge in derivation.hyperedges:
            if isinstance(hyperedge.rule, SlotInstance):
                instances[hyperedge.span.start] = hyperedge.rule, hyperedge.span.end
        texts: list[FreeText] = []
        other_words: list[str] = []
        at, before, source = 0, "", derivation.source
        while at < len(source):
            if at not in instances:
                before = source[at]
                other_words.append(before)
                at += 1
                continue
            rule, end = instances[at]
            if rule.slot in free_text:
                has_mark = sentence is not None and _has_mark(sentence, at, end)
                texts.append(FreeText(rule.slot, before, source[at:end], has_mark))
            before, at = rule.terminal, end
        return cls(tuple(texts), tuple(other_words))


def _has_mark(sentence: TokenizedSentence, start: int, end: int) -> bool:
    """Whether a mark that structures sentences stands between two of these words."""
    for left, right in pairwise(sentence.tokens[start:end]):
        if not PUNCTUATION.isdisjoint(sentence.raw[left.end : right.start]):
            return True
    return False


@dataclass(frozen=True)
class KnownTexts:
    """What the free texts of training are like, in derivations that are right.

    >>> play = TextUse((FreeText("song", "play", ("hey", "jude")),), ("play",))
    >>> known = KnownTexts.of([play])
    >>> known.signs(play.texts)
    0
    >>> known.signs([FreeText("song", "", ("do", "not", "play", "africa"))])
    3
    """

    places: tuple[tuple[str, str], ...] = ()  # the word before a text, and its slot
    longest: tuple[tuple[str, int], ...] = ()  # the most words of each slot
    marked: tuple[str, ...] = ()  # the slots some of whose texts have marks
    never_in_text: tuple[str, ...] = ()  # words that training has, but in no free text

    @classmethod
    def of(cls, uses: Iterable[TextUse]) -> KnownTexts:
        places: set[tuple[str, str]] = set()
        longest: dict[str, int] = defaultdict(int)
        marked: set[str] = set()
        in_text: set[str] = set()
        outside: set[str] = set()
        for use in uses:
            outside.update(use.other_words)
            for text in use.texts:
                places.add((text.before, text.slot))
                longest[text.slot] = max(longest[text.slot], len(text.words))
                in_text.update(text.words)
                if text.has_mark:
                    marked.add(text.slot)
        return cls(
            tuple(sorted(places)),
            tuple(sorted(longest.items())),
            tuple(sorted(marked)),
            tuple(sorted(outside - in_text)),
        )

    @cached_property
    def _places(self) -> frozenset[tuple[str, str]]:
        return frozenset(self.places)

    @cached_property
    def _longest(self) -> dict[str, int]:
        return dict(self.longest)

    @cached_property
    def _never_in_text(self) -> frozenset[str]:
        return frozenset(self.never_in_text)

    def signs(self, texts: Iterable[FreeText]) -> int:
        """How many of the four signs free texts have: training has none behind the same word, none
        so long, none with a mark, or some of their words elsewhere only.
        """
        is_misplaced = is_long = has_mark = has_other_word = False
        for text in texts:
            is_misplaced |= (text.before, text.slot) not in self._places
            is_long |= len(text.words) > self._longest.get(text.slot, 0)
            has_mark |= text.has_mark and text.slot not in self.marked
            has_other_word |= not self._never_in_text.isdisjoint(text.words)
        return is_misplaced + is_long + has_mark + has_other_word
