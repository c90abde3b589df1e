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

from nqg.errors import NqgError, SettingsError

SHOWN = 3  # examples in an error
PROBED = 64  # words in which a stand-in is tried before all targets are


def normalised(target: str) -> str:
    """The tokens of a target with one space between them: what must survive a tokenizer."""
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

    def __post_init__(self) -> None:
        if any(len(character) != 1 for pair in self.stand_ins.items() for character in pair):
            raise SettingsError("a stand-in should be one character for one character")

    def spelled(self, target: str) -> str:
        words = target.translate({ord(old): new for old, new in self.stand_ins.items()}).split()
        return (" " if self.space is None else f" {self.space} ").join(words)

    def read(self, text: str) -> str:
        words = text.split() if self.space is None else "".join(text.split()).split(self.space)
        return " ".join(words).translate({ord(new): old for old, new in self.stand_ins.items()})


def tokenize_targets(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The subwords of targets, with the end that the tokenizer gives them."""
    ids: list[list[int]] = tokenizer(text_target=list(texts), verbose=False)["input_ids"]
    return ids


def decode(tokenizer: Any, ids: Sequence[Sequence[int]]) -> list[str]:
    """The texts of subwords, less special tokens; nothing is tidied up, because tidying eats spaces."""
    texts: list[str] = tokenizer.batch_decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return texts


def round_trips(tokenizer: Any, spelling: Spelling, texts: Sequence[str]) -> list[str]:
    """What is left of texts after they were spelled, encoded, decoded and read."""
    if not texts:
        return []
    ids = tokenize_targets(tokenizer, [spelling.spelled(text) for text in texts])
    return [spelling.read(text) for text in decode(tokenizer, ids)]


def lost(tokenizer: Any, spelling: Spelling, targets: Sequence[str]) -> list[tuple[str, str]]:
    """The targets that do not survive, each with what becomes of it."""
    pairs = zip(targets, round_trips(tokenizer, spelling, targets), strict=True)
    return [(target, found) for target, found in pairs if normalised(target) != found]


def spelling_for(tokenizer: Any, targets: Iterable[str]) -> Spelling:
    """A spelling in which every target survives `tokenizer`; if there is none, the error shows what is lost."""
    wanted = sorted({normalised(target) for target in targets})
    search = StandInSearch(tokenizer, wanted)
    plain = Spelling(search.stand_ins())
    if not lost(tokenizer, plain, wanted[:PROBED]) and not lost(tokenizer, plain, wanted):
        return plain
    marked = (replace(plain, space=mark) for mark in search.free if mark not in plain.stand_ins.values())
    chosen = next((spelling for spelling in marked if not lost(tokenizer, spelling, wanted[:PROBED])), plain)
    if losses := lost(tokenizer, chosen, wanted):
        shortest = sorted(losses, key=lambda pair: (len(pair[0]), pair))[:SHOWN]
        shown = "; ".join(f"{target!r} comes back as {found!r}" for target, found in shortest)
        name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
        raise NqgError(
            f"the tokenizer '{name}' cannot represent {len(losses)} of {len(wanted)} different targets, even with "
            f"stand-ins: {shown}; choose a model with another tokenizer (google/byt5-small has every symbol)"
        )
    return chosen


class StandInSearch:
    """The search for stand-ins, one character after the other, until every word of the targets survives.

    Spaces are left out of account: if characters survive and spaces do not, the spaces get marks. `free` are the
    characters that survive alone and occur in no target: signs before letters, and those of other alphabets before
    ASCII's, which unseen targets might hold.
    """

    def __init__(self, tokenizer: Any, targets: Sequence[str]) -> None:
        self.tokenizer = tokenizer
        words = {word for target in targets for word in target.split()}
        self.words = sorted(words, key=lambda word: (len(word), word))
        used = {character for word in words for character in word}
        vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: (item[1], item[0]))  # the frequent first
        texts = [*(subword.strip("▁Ġ#") for subword, _ in vocabulary), *map(chr, range(33, 0x250))]
        signs = [text for text in texts if len(text) == 1 and unicodedata.category(text)[0] in "LNPS"]
        unused = [sign for sign in dict.fromkeys(signs) if sign not in used]
        damaged = set(self.damaged({}, unused))
        survivors = (sign for sign in unused if sign not in damaged)
        self.free = sorted(survivors, key=lambda sign: (sign.isalnum(), sign.isascii()))

    def stand_ins(self) -> dict[str, str]:
        """Stand-ins for all characters that are lost alone, then for those that are lost beside others."""
        found: dict[str, str] = {}
        suspects = {character for word in self.damaged(found, self.words) for character in word}
        alone = self.damaged(found, sorted(suspects))
        for number, character in enumerate(alone):
            others = str.maketrans(dict.fromkeys(alone[number + 1 :]))
            probes = [word.translate(others) for word in self.words if character in word]
            found |= self.stand_in(character, found, probes[:PROBED])
        for _ in {character for word in self.words for character in word}:
            damaged = self.damaged(found, self.words)
            if not damaged:
                break
            part = damaged[0]
            while len(part) > 1 and (smaller := self.damaged(found, [part[1:], part[:-1]])):
                part = smaller[0]
            mends = (self.stand_in(character, found, [part]) for character in part if character not in found)
            found |= next((mend for mend in mends if mend), {})
        return found

    def damaged(self, stand_ins: Mapping[str, str], texts: Sequence[str]) -> list[str]:
        """The texts without spaces that do not survive with these stand-ins."""
        pairs = zip(texts, round_trips(self.tokenizer, Spelling(stand_ins), texts), strict=True)
        return [text for text, found in pairs if "".join(found.split()) != text]

    def stand_in(self, character: str, found: Mapping[str, str], probes: Sequence[str]) -> dict[str, str]:
        """A stand-in for one more character with which the probes survive, or none."""
        for candidate in self.free:
            if candidate not in found.values() and not self.damaged({**found, character: candidate}, probes):
                return {character: candidate}
        return {}
