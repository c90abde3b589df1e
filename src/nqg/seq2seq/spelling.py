"""Targets in the symbols that a tokenizer has: what it would lose is written with stand-ins, and read back.

T5's vocabulary has no `<`, BERT's no capitals and no memory of spaces. Which characters a tokenizer loses is found by
trying: each is encoded and decoded. A stand-in is one character that survives and occurs in no target, so reading back
is never ambiguous. Where a tokenizer loses spaces, every space is written as a mark of its own.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nqg.errors import NqgError

SHOWN = 3  # examples in an error
PROBED = 64  # words in which a stand-in is tried before all targets are


def normalised(target: str) -> str:
    """The tokens of a target with one space between them: targets are compared in this form."""
    return " ".join(target.split())


@dataclass(frozen=True, slots=True)
class Spelling:
    """Characters and their stand-ins; `space` is the mark of a space where the tokenizer forgets spaces.

    >>> spelling = Spelling({"<": "•"}, space="–")
    >>> spelling.spelled("x <  3")
    'x – • – 3'
    >>> spelling.read("x –• – 3")
    'x < 3'
    """

    stand_ins: Mapping[str, str] = field(default_factory=dict)
    space: str | None = None

    def spelled(self, target: str) -> str:
        """A target as the model writes it."""
        words = target.translate(_table(self.stand_ins)).split()
        return (" " if self.space is None else f" {self.space} ").join(words)

    def read(self, text: str) -> str:
        """A target that the model wrote."""
        words = text.split() if self.space is None else "".join(text.split()).split(self.space)
        back = {stand_in: character for character, stand_in in self.stand_ins.items()}
        return " ".join(words).translate(_table(back))


def _table(characters: Mapping[str, str]) -> dict[int, str]:
    return {ord(character): other for character, other in characters.items()}


def round_trips(tokenizer: Any, texts: Sequence[str]) -> list[str]:
    """What is left of texts after they were encoded and decoded."""
    return written(tokenizer, tokenize_targets(tokenizer, texts)) if texts else []


def tokenize_targets(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The pieces of targets, with the end that the tokenizer gives them."""
    ids: list[list[int]] = tokenizer(text_target=list(texts), verbose=False)["input_ids"]
    return ids


def written(tokenizer: Any, ids: Sequence[Sequence[int]]) -> list[str]:
    """The texts of pieces, less special tokens; nothing is tidied up, because tidying eats spaces."""
    texts: list[str] = tokenizer.batch_decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return texts


def spelling_for(tokenizer: Any, targets: Iterable[str]) -> Spelling:
    """A spelling in which every target survives `tokenizer`; if there is none, the error shows what is lost."""
    wanted = sorted({normalised(target) for target in targets})
    search = _Search(tokenizer, wanted)
    plain = Spelling(search.stand_ins())
    if not lost(tokenizer, plain, wanted[:PROBED]) and not lost(tokenizer, plain, wanted):
        return plain
    marked = search.with_mark(plain)
    if losses := lost(tokenizer, marked, wanted):
        raise NqgError(_complaint(tokenizer, losses, len(wanted)))
    return marked


def lost(tokenizer: Any, spelling: Spelling, targets: Sequence[str]) -> list[tuple[str, str]]:
    """The targets that do not survive, each with what becomes of it."""
    read = map(spelling.read, round_trips(tokenizer, [spelling.spelled(target) for target in targets]))
    return [(target, found) for target, found in zip(targets, read, strict=True) if normalised(target) != found]


def _complaint(tokenizer: Any, losses: list[tuple[str, str]], of: int) -> str:
    shortest = sorted(losses, key=lambda pair: (len(pair[0]), pair))[:SHOWN]
    shown = "; ".join(f"{target!r} comes back as {found!r}" for target, found in shortest)
    name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
    return (
        f"the tokenizer '{name}' cannot represent {len(losses)} of {of} different targets, even with stand-ins: "
        f"{shown}; choose a model with another tokenizer (google/byt5-small has every symbol)"
    )


class _Search:
    """The search for stand-ins, one character after the other, until every word of the targets survives.

    Spaces are left out of account: if characters survive and spaces do not, the spaces get marks.
    """

    def __init__(self, tokenizer: Any, targets: Sequence[str]) -> None:
        self.tokenizer, self.targets = tokenizer, targets
        words = {word for target in targets for word in target.split()}
        self.words = sorted(words, key=lambda word: (len(word), word))
        self.characters = sorted({character for word in words for character in word})
        self.free = self._free_characters()

    def stand_ins(self) -> dict[str, str]:
        """Stand-ins for all characters that are lost alone, then for those that are lost beside others."""
        found: dict[str, str] = {}
        suspects = {character for word in self._damaged(found, self.words) for character in word}
        alone = self._damaged(found, sorted(suspects))
        for number, character in enumerate(alone):
            others = str.maketrans(dict.fromkeys(alone[number + 1 :]))
            probes = [word.translate(others) for word in self.words if character in word]
            found |= self._stand_in(character, found, probes[:PROBED])
        for _ in self.characters:
            damaged = self._damaged(found, self.words)
            if not damaged:
                break
            found |= self._mended(self._smallest_damaged_part(damaged[0], found), found)
        return found

    def with_mark(self, spelling: Spelling) -> Spelling:
        """The spelling with the first mark of a space that survives, or as it was if none does."""
        probes = self.targets[:PROBED]
        taken = spelling.stand_ins.values()
        marked = (replace(spelling, space=mark) for mark in self.free if mark not in taken)
        return next((each for each in marked if not lost(self.tokenizer, each, probes)), spelling)

    def _damaged(self, stand_ins: Mapping[str, str], texts: Sequence[str]) -> list[str]:
        spelling = Spelling(stand_ins)
        read = map(spelling.read, round_trips(self.tokenizer, [spelling.spelled(text) for text in texts]))
        return [text for text, found in zip(texts, read, strict=True) if "".join(found.split()) != text]

    def _stand_in(self, character: str, found: Mapping[str, str], probes: Sequence[str]) -> dict[str, str]:
        for candidate in self.free:
            if candidate not in found.values() and not self._damaged({**found, character: candidate}, probes):
                return {character: candidate}
        return {}

    def _mended(self, part: str, found: Mapping[str, str]) -> dict[str, str]:
        mends = (self._stand_in(character, found, [part]) for character in part if character not in found)
        return next((mend for mend in mends if mend), {})

    def _smallest_damaged_part(self, word: str, found: Mapping[str, str]) -> str:
        while len(word) > 1 and (damaged := self._damaged(found, [word[1:], word[:-1]])):
            word = damaged[0]
        return word

    def _free_characters(self) -> list[str]:
        """Characters that survive alone and occur in no target, the frequent ones first.

        Signs come before letters, and those of other alphabets before ASCII's, which unseen targets might hold.
        """
        pieces = sorted(self.tokenizer.get_vocab().items(), key=lambda item: (item[1], item[0]))
        alone = [piece.strip("▁Ġ#") for piece, _ in pieces]
        candidates = dict.fromkeys(text for text in [*alone, *map(chr, range(33, 0x250))] if _is_plain(text))
        unused = [character for character in candidates if character not in set(self.characters)]
        lost = set(self._damaged({}, unused))
        return sorted((each for each in unused if each not in lost), key=lambda each: (each.isalnum(), each.isascii()))


def _is_plain(text: str) -> bool:
    """Whether a text is one character that is a letter, a digit, a punctuation mark or a symbol."""
    return len(text) == 1 and unicodedata.category(text)[0] in "LNPS"
