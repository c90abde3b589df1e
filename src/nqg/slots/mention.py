"""Mentions, words of a sentence that may be read as a value of a slot, and how words are compared with values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple
from unicodedata import normalize

from nqg.text.sentences import TokenizedSentence

Tokens = tuple[str, ...]
Sentence = Sequence[str] | TokenizedSentence


class Mention(NamedTuple):
    """Words `start` to `end` (not included) of a sentence that may be read as a value of a slot."""

    start: int
    end: int
    slot: str
    value: Tokens  # as a program writes it

    @property
    def token(self) -> str:
        """The terminal that stands for the slot."""
        return f"@{self.slot}"


def words_of(sentence: Sentence) -> Tokens:
    if isinstance(sentence, TokenizedSentence):
        return sentence.words
    return tuple(sentence)


def longest_spans(mentions: Iterable[Mention]) -> list[tuple[Mention, ...]]:
    """The mentions of the longest spans, none overlapping another, in the order of the sentence, grouped by span."""
    spans: dict[tuple[int, int], list[Mention]] = {}
    for mention in mentions:
        spans.setdefault((mention.start, mention.end), []).append(mention)
    taken: set[int] = set()
    chosen = []
    for start, end in sorted(spans, key=lambda span: (span[0] - span[1], span[0])):
        if taken.isdisjoint(range(start, end)):
            taken.update(range(start, end))
            chosen.append((start, end))
    return [tuple(spans[span]) for span in sorted(chosen)]


def find_tokens(value: Tokens, target: Tokens) -> int | None:
    """Where `value` first stands in `target`."""
    if not value:
        return None
    for at, token in enumerate(target):
        if token == value[0] and target[at : at + len(value)] == value:
            return at
    return None


def is_word(token: str) -> bool:
    return any(map(str.isalnum, token))


def letters_of(words: Iterable[str]) -> str:
    """The letters and digits of words, whatever their casing, without accents.

    >>> letters_of(("Café", "n°", "2"))
    'cafen2'
    """
    text = "".join(words).casefold()
    if text.isascii():
        return text if text.isalnum() else "".join(filter(str.isalnum, text))
    return "".join(filter(str.isalnum, normalize("NFKD", text)))


@lru_cache(1 << 16)
def _letters(word: str) -> str:
    return letters_of([word])


def spans_like(
    words: Sequence[str], value: Sequence[str], max_length: int
) -> Iterator[tuple[int, int]]:
    """Where words have the letters and digits of a value.

    >>> list(spans_like(("a", "hip-hop", "song"), ("Hip", "-", "Hop"), 2))
    [(1, 2)]
    """
    wanted = letters_of(value)
    if not wanted:
        return
    letters = list(map(_letters, words))
    for start in range(len(letters)):
        for end in range(start + 1, min(start + max_length, len(letters)) + 1):
            if "".join(letters[start:end]) == wanted:
                yield start, end


def spans_matching_target(
    words: Sequence[str], target: Sequence[str], max_length: int
) -> Iterator[tuple[int, int]]:
    """Where at most so many words have the letters of some tokens of a target, one after the other.

    >>> list(spans_matching_target(("play", "hip-hop", "now"), ("song", "=", "Hip", "-", "Hop"), 2))
    [(1, 2)]
    """
    letters = list(map(_letters, words))
    letters_of_target = list(map(_letters, target))
    wanted = "".join(letters_of_target)
    token_ends = {*accumulate(map(len, letters_of_target), initial=0)}
    for start in range(len(letters)):
        read = ""
        for end in range(start + 1, min(start + max_length, len(letters)) + 1):
            read += letters[end - 1]
            at = wanted.find(read)
            if at < 0:
                break
            while at >= 0 and not (at in token_ends and at + len(read) in token_ends):
                at = wanted.find(read, at + 1)
            if at >= 0:
                yield start, end
