"""Mentions, words of a sentence that may be read as a value of a slot, and words like values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeVar
from unicodedata import normalize

from nqg.text.sentences import TokenizedSentence

Tokens = tuple[str, ...]
Sentence = Sequence[str] | TokenizedSentence
S = TypeVar("S")


class Mention(NamedTuple):
    """Words `start` to `end` (exclusive) that may be read as a value of a slot.

    `value` is what a program writes for them.
    """

    start: int
    end: int
    slot: str
    value: Tokens

    @property
    def token(self) -> str:
        """The terminal that stands for the slot."""
        return f"@{self.slot}"


def words_of(sentence: Sentence) -> Tokens:
    if isinstance(sentence, TokenizedSentence):
        return sentence.words
    return tuple(sentence)


def longest_spans(mentions: Iterable[Mention]) -> list[tuple[Mention, ...]]:
    """The mentions of the longest spans, grouped by span, in the order of the sentence.

    No span overlaps another.
    """
    spans = defaultdict(list)
    for mention in mentions:
        spans[mention.start, mention.end].append(mention)
    covered: set[int] = set()
    chosen = []
    for start, end in sorted(spans, key=lambda span: (span[0] - span[1], span[0])):
        if covered.isdisjoint(range(start, end)):
            covered.update(range(start, end))
            chosen.append((start, end))
    return [tuple(spans[span]) for span in sorted(chosen)]


def find_tokens(value: Tokens, target: Tokens, start: int = 0) -> int | None:
    """Where `value` first stands in `target`, from `start` on."""
    if value:
        for at in range(start, len(target)):
            if target[at] == value[0] and target[at : at + len(value)] == value:
                return at
    return None


def fill_slot(symbols: Iterable[S], slot: str, value: Tokens) -> tuple[S | str, ...]:
    """Symbols with a value in the place of a slot's terminal."""
    filled: list[S | str] = []
    for symbol in symbols:
        if symbol == slot:
            filled += value
        else:
            filled.append(symbol)
    return tuple(filled)


def is_word(token: str) -> bool:
    return any(map(str.isalnum, token))


@lru_cache(1 << 16)
def letters_of(text: str) -> str:
    """The letters and digits of a text, whatever their casing, without accents.

    >>> letters_of("Café n° 2")
    'cafen2'
    """
    return "".join(filter(str.isalnum, normalize("NFKD", text.casefold())))


def spans_like(
    words: Sequence[str], value: Sequence[str], max_length: int
) -> Iterator[tuple[int, int]]:
    """Where words have the letters and digits of a value.

    >>> list(spans_like(("a", "hip-hop", "song"), ("Hip", "-", "Hop"), 2))
    [(1, 2)]
    """
    for start, end in spans_matching_target(words, ["".join(value)], max_length):
        if any(map(letters_of, words[start:end])):
            yield start, end


def spans_matching_target(
    words: Sequence[str], target: Sequence[str], max_length: int
) -> Iterator[tuple[int, int]]:
    """Where at most so many words have the letters of some consecutive tokens of a target.

    >>> list(spans_matching_target(("play", "hip-hop", "now"), ("song", "=", "Hip", "-", "Hop"), 2))
    [(1, 2)]
    """
    letters = list(map(letters_of, words))
    target_letters = list(map(letters_of, target))
    text = "".join(target_letters)
    token_ends = {*accumulate(map(len, target_letters), initial=0)}
    for start in range(len(letters)):
        run = ""
        for end in range(start + 1, min(start + max_length, len(letters)) + 1):
            run += letters[end - 1]
            at = text.find(run)
            if at < 0:
                # Longer runs are not in the target, either.
                break
            while at >= 0 and not (at in token_ends and at + len(run) in token_ends):
                at = text.find(run, at + 1)
            if at >= 0:
                yield start, end
