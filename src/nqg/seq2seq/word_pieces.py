"""What word pieces add to a text: the ends of tokens, and the beginning of another.

Found by asking the tokenizer to write each piece after another one, so any tokenizer will do: those that begin words
with a mark, those that mark what is inside words, whole words, bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from nqg.seq2seq.spelling import Spelling, encoded_targets, written

Ended = tuple[str, ...]

_DAMAGED = "\N{REPLACEMENT CHARACTER}"  # what tokenizers write for a part of a character


class Piece(NamedTuple):
    """What a word piece adds to a text: the ends of tokens (the first may have begun before), and a beginning."""

    ended: Ended
    begun: str


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The word pieces of a tokenizer by what they add to a text; those that no target can contain are left out."""

    pieces: Mapping[int, Piece]
    by_ended: Mapping[Ended, Mapping[str, list[int]]]
    opening: int | None  # the piece that a text opens with and that writes nothing, as BART's <s>
    end: int  # the piece that ends a text
    may_lead: bool  # whether a text may begin with the sign between tokens, as T5's do

    @classmethod
    def of(cls, tokenizer: Any, spelling: Spelling) -> Vocabulary:
        """The vocabulary of a tokenizer whose texts are read with `spelling`."""
        texts = ((number, _without_spaces(text, spelling.space)) for number, text in _added_texts(tokenizer))
        pieces = {number: piece for number, text in texts if (piece := _piece(text, spelling.space or " "))}
        by_ended: dict[Ended, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, piece in pieces.items():
            by_ended[piece.ended][piece.begun].append(number)
        plain = {ended: dict(numbers) for ended, numbers in by_ended.items()}
        return cls(pieces, plain, _opening(tokenizer), tokenizer.eos_token_id, spelling.space is None)

    def can_finish(self, text: str) -> list[bool]:
        """For each position of a token whether pieces that end nothing can write the rest."""
        inside = self.by_ended.get((), {})
        finishes = [False] * len(text) + [True]
        for start in reversed(range(len(text))):
            ends = (end for end in range(start + 1, len(text) + 1) if finishes[end])
            finishes[start] = any(text[start:end] in inside for end in ends)
        return finishes


def _opening(tokenizer: Any) -> int | None:
    first = next(iter(encoded_targets(tokenizer, ["a"])[0]), None)
    return first if first in (tokenizer.bos_token_id, tokenizer.cls_token_id) else None


def _added_texts(tokenizer: Any) -> Iterator[tuple[int, str]]:
    """What each piece adds to a text that has begun; nothing is said of pieces that add nothing."""
    numbers = range(len(tokenizer))
    alone = written(tokenizer, [[number] for number in numbers])
    first = next(number for number in numbers if alone[number].strip() and _DAMAGED not in alone[number])
    for number, text in zip(numbers, written(tokenizer, [[first, number] for number in numbers]), strict=True):
        added = text.removeprefix(alone[first])
        if added and added != text and _DAMAGED not in added:
            yield number, added


def _without_spaces(text: str, mark: str | None) -> str:
    """`text` as it is, or less its spaces where they mean nothing because a mark stands between tokens."""
    return text if mark is None else "".join(text.split())


def _piece(text: str, separator: str) -> Piece | None:
    """The piece of a text; None where it holds other white space, or an empty token."""
    *ended, begun = text.split(separator)
    if not text or not all(ended[1:]) or any(character.isspace() for part in (*ended, begun) for character in part):
        return None
    return Piece(tuple(ended), begun)
