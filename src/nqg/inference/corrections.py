"""Typos: words that no rule knows, read as known words that they resemble.

Who types `tunr` most likely means `turn`. But a word that no rule knows may as well be a new one,
and `smallest` is not a misspelt `tallest`. So a word is read as another only where the sentence has
no derivation otherwise, and if the other is one edit away (a letter more, less or changed, or two
neighbours swapped), of long words two. Where several are as close, the parser has to make the same
of all that have a derivation. An answer says what was read differently, and its confidence is
lower. A typo that is a known word is not corrected: `WordPairs` suspects it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice, product
from typing import TYPE_CHECKING

from rapidfuzz import process
from rapidfuzz.distance import OSA

from nqg.answers import Answer, Correction
from nqg.grammar.grammar import SLOT, Grammar
from nqg.slots.instantiate import unknown_places
from nqg.text.sentences import TokenizedSentence
from nqg.text.sequences import is_guard

if TYPE_CHECKING:
    from nqg.inference.parser import Parser

Corrected = tuple[TokenizedSentence, tuple[Correction, ...]]

# Chosen on single examples ("sonntag" is two edits from "montag"); docs/parsing.md has a table of
# what becomes of typos. If a word has no more than the fewest letters, a correction keeps both.
MIN_LETTERS = 2
MIN_LETTERS_FOR_TWO_EDITS = 9
# Bounds of work: typos of a sentence, and corrections of it that are tried.
MAX_TYPOS = 3
MAX_CORRECTIONS = 8


def corrected_answers(
    parser: Parser, sentences: Mapping[int, Sequence[TokenizedSentence]]
) -> dict[int, Answer]:
    """The answers to sentences with unknown words, where it is clear what is meant.

    Of the tokenizations of a sentence that one is read that has the fewest unknown words.
    """
    grammar, candidates = parser.grammar, {}
    for number, tokenizations in sentences.items():
        # Count the unknown words of each tokenization; the first of equals is taken.
        unknown = [unknown_places(grammar, sentence) for sentence in tokenizations]
        fewest = min(range(len(unknown)), key=lambda at: len(unknown[at]))
        candidates[number] = corrector_of(grammar).readings(
            tokenizations[fewest], unknown[fewest]
        )
    answers = clear_answers(parser, candidates)
    # The answer names the sentence as it was written, not as it was corrected.
    for number, answer in answers.items():
        answers[number] = replace(answer, source=sentences[number][0].raw)
    return answers


def clear_answers(
    parser: Parser, candidates: Mapping[int, Sequence[Corrected]]
) -> dict[int, Answer]:
    """For sentences with several corrections the answers, if all corrections that have
    one agree.
    """
    # Flatten the candidates, so that one batch answers them all.
    flat = []
    for number, corrected in candidates.items():
        flat += [(number, sentence, corrections) for sentence, corrections in corrected]
    answers: dict[int, list[Answer]] = defaultdict(list)
    for row, answer in zip(flat, parser.tokenized_answers([row[1] for row in flat])):
        number, _, corrections = row
        if answer:
            answers[number].append(replace(answer, corrections=corrections))
    # Corrections that lead to different programs leave open what was meant.
    clear = {}
    for number, same in answers.items():
        if len({answer.target for answer in same}) == 1:
            clear[number] = max(same, key=lambda answer: answer.probability or 0.0)
    return clear


def corrector_of(grammar: Grammar) -> Corrector:
    """The corrector to the words of a grammar's rules, and to those of the names that its slots
    read.
    """
    return _corrector(
        grammar.words, grammar.slots.words if grammar.slots else frozenset()
    )


@lru_cache(maxsize=8)
def _corrector(words: frozenset[str], names: frozenset[str]) -> Corrector:
    return Corrector(
        frozenset(word for word in words if not word.startswith(SLOT)) | names
    )


@dataclass(frozen=True)
class Corrector:
    """The vocabulary to whose words unknown words are corrected."""

    vocabulary: frozenset[str]

    @cached_property
    def _words(self) -> list[str]:
        return sorted(filter(_is_word, self.vocabulary))

    def neighbours(self, word: str) -> tuple[str, ...]:
        """The words that an unknown word may be meant for: the closest ones, if they are close.

        >>> corrector = Corrector(frozenset(["turn", "of", "off", "river", "rivers", "7:00"]))
        >>> [corrector.neighbours(word) for word in ("tunr", "rivrs", "riverz", "fo", "in", "8:00")]
        [('turn',), ('rivers',), ('river', 'rivers'), ('of',), (), ()]
        """
        # A word that turns the meaning round is not a typo of one that does not.
        if len(word) < MIN_LETTERS or not _is_word(word) or is_guard(word):
            return ()
        # Short words bear one edit alone, for two would turn them into many others.
        close = _distances(
            word, self._words, 1 if len(word) < MIN_LETTERS_FOR_TWO_EDITS else 2
        )
        nearest = min(close.values(), default=0)
        closest = sorted(
            candidate for candidate, distance in close.items() if distance == nearest
        )
        # The shortest words are typos only if some close word has all of their letters:
        # `fo` may be `of`, but `in` may not.
        if len(word) == MIN_LETTERS and all(
            Counter(word) - Counter(candidate) for candidate in closest
        ):
            return ()
        return tuple(closest)

    def readings(
        self, sentence: TokenizedSentence, places: Sequence[int]
    ) -> list[Corrected]:
        """What a sentence with unknown words at some places may be meant for.

        Nothing, if one of them resembles no word, or if there are too many corrections.
        """
        if not 0 < len(places) <= MAX_TYPOS:
            return []
        tokens, readings = sentence.tokens, []
        choices = product(*(self.neighbours(tokens[at].text) for at in places))
        # One more than is allowed tells that there are too many, without listing them
        # all.
        for words in islice(choices, MAX_CORRECTIONS + 1):
            corrections = [
                Correction(at, tokens[at].text, word) for at, word in zip(places, words)
            ]
            corrected = sentence.with_words(dict(zip(places, words)))
            readings.append((corrected, tuple(corrections)))
        return readings if len(readings) <= MAX_CORRECTIONS else []


@lru_cache(1 << 14)
def similar_words(word: str, vocabulary: frozenset[str]) -> list[str]:
    """The words of a vocabulary that are one edit away from another one of it.

    >>> similar_words("us", frozenset(["is", "use", "us", "as", "a"]))
    ['as', 'is', 'use']
    """
    if len(word) < 2:
        return []
    return sorted(_distances(word, filter(_is_word, vocabulary), 1))


def _distances(word: str, words: Iterable[str], edits: int) -> dict[str, int]:
    """The other words that are at most so many edits away, and how many."""
    matches = process.extract(
        word, list(words), scorer=OSA.distance, score_cutoff=edits, limit=None
    )
    return {match: distance for match, distance, _ in matches if distance}


def _is_word(token: str) -> bool:
    return not any(map(str.isdigit, token))
