"""Targets in the symbols that a tokenizer has: what it would lose is written with stand-ins, and read back.

T5's vocabulary has no `<`, BERT's no capitals and no memory of spaces. Which characters a tokenizer loses is found by
trying: each is encoded and decoded. A stand-in is one character that survives and occurs in no target, so reading back
is never ambiguous. Where a tokenizer loses spaces, every space is written as a mark of its own.

A tokenizer may also cut a token into many subwords: SCAN's `I_TURN_LEFT` is seven of T5's, and 48 actions are more than
the model writes. Where targets are made of few different tokens, each can be written as a word that is one subword.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nqg.errors import NqgError, SettingsError

SHOWN_TOKENS = 3  # examples in an error
PROBED = 64  # words in which a stand-in is tried before all targets are
MAX_TOKENS = 256  # different tokens that targets may be made of if each is to get a word of its own
TOKEN_SHARE = 0.01  # of all tokens that are different ones: above it, tests are likely to bring tokens never seen
LONG = 2.5  # subwords in a token, on average, from which on targets are long


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

    `words` are whole tokens and the words that are written for them. Token and word change places, so that a target
    in which such a word stands already comes back too.

    >>> spelling = Spelling(words={"I_JUMP": "jump"})
    >>> spelling.spelled("I_JUMP I_RUN jump"), spelling.read("jump I_RUN I_JUMP")
    ('jump I_RUN I_JUMP', 'I_JUMP I_RUN jump')
    """

    stand_ins: Mapping[str, str] = field(default_factory=dict)
    space: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(len(character) != 1 for pair in self.stand_ins.items() for character in pair):
            raise SettingsError("a stand-in should be one character for one character")
        all_words = [word for pair in self.words.items() for word in pair]
        if len({*all_words}) < len(all_words) or any(word.split() != [word] for word in all_words):
            raise SettingsError(
                "tokens and the words for them should all be different, and none have a space in it"
            )

    def spelled(self, target: str) -> str:
        stand_ins = {ord(old): new for old, new in self.stand_ins.items()}
        tokens = [token.translate(stand_ins) for token in self._exchanged(target.split())]
        return (" " if self.space is None else f" {self.space} ").join(tokens)

    def read(self, text: str) -> str:
        stand_ins = {ord(new): old for old, new in self.stand_ins.items()}
        words = text.split() if self.space is None else "".join(text.split()).split(self.space)
        return " ".join(self._exchanged(word.translate(stand_ins) for word in words))

    def _exchanged(self, tokens: Iterable[str]) -> Iterator[str]:
        places = {**self.words, **{word: token for token, word in self.words.items()}}
        return (places.get(token, token) for token in tokens)


def tokenize_targets(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The subwords of targets, with the end that the tokenizer gives them."""
    ids: list[list[int]] = tokenizer(text_target=list(texts), verbose=False)["input_ids"]
    return ids


def decode(tokenizer: Any, ids: Sequence[Sequence[int]]) -> list[str]:
    """The texts of subwords, less special tokens; nothing is tidied up, because tidying eats spaces."""
    texts: list[str] = tokenizer.batch_decode(
        ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
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


def spelling_for(
    tokenizer: Any,
    targets: Iterable[str],
    longest: int | None = None,
    *,
    one_subword: bool | None = None,
) -> Spelling:
    """A spelling in which every target survives `tokenizer`; if there is none, the error shows what is lost.

    With `one_subword`, each token is written as a word that is one subword, where that can be done; None leaves it to
    the targets: they must be made of few different tokens, and be long otherwise, or longer than `longest`.
    """
    every = list(targets)
    wanted = sorted({normalised(target) for target in every})
    plain = _surviving(tokenizer, wanted)
    if plain.space is None and (
        is_long(tokenizer, plain, every, longest) if one_subword is None else one_subword
    ):
        counts = Counter(token for target in wanted for token in target.split())
        words = one_subword_words(tokenizer, sorted(counts), {*plain.stand_ins.values()})
        short = Spelling(plain.stand_ins, words=words)
        return short if not lost(tokenizer, short, wanted) else plain
    return plain


def is_long(
    tokenizer: Any, spelling: Spelling, targets: Sequence[str], longest: int | None
) -> bool:
    """Whether targets of few different tokens are long for a tokenizer: many subwords a token, or more than `longest`.

    Few means that unseen targets will hardly bring new ones.
    """
    tokens = [token for target in targets for token in target.split()]
    kinds = sorted({*tokens})
    if not kinds or len(kinds) > MAX_TOKENS or len(kinds) > TOKEN_SHARE * len(tokens):
        return False
    alone = tokenize_targets(tokenizer, [spelling.spelled(token) for token in kinds])
    ends = len(tokenize_targets(tokenizer, [""])[0])
    sizes = {token: len(ids) - ends for token, ids in zip(kinds, alone, strict=True)}
    lengths = [sum(sizes[token] for token in target.split()) for target in targets]
    return sum(lengths) > LONG * len(tokens) or (longest is not None and max(lengths) >= longest)


def one_subword_words(
    tokenizer: Any, tokens: Sequence[str], avoided: Collection[str] = ()
) -> dict[str, str]:
    """A word for each token that the tokenizer takes for one subword, as far as there are such words.

    A token that is one subword stays as it is. Others get a part of theirs that no other token has (`left` of
    `I_TURN_LEFT`), the longest that is one subword; else any word that no token is.
    """
    parts = {
        token: dict.fromkeys(part.lower() for part in re.findall("[^\\W\\d_]+", token))
        for token in tokens
    }
    owners = Counter(part for own in parts.values() for part in own)
    single = single_subwords(tokenizer, [*tokens, *owners])
    taken, words = {token for token in tokens if token in single} | {*avoided}, dict[str, str]()
    left = [token for token in tokens if token not in single]
    for token in left:
        own = (
            part
            for part in parts[token]
            if part in single and owners[part] == 1 and part not in {*taken, *tokens}
        )
        if part := max(own, key=len, default=None):
            words[token] = part
            taken.add(part)
    vocabulary = sorted(
        tokenizer.get_vocab().items(), key=lambda item: (item[1], item[0])
    )  # the frequent first
    texts = dict.fromkeys(subword.strip("▁Ġ") for subword, _ in vocabulary)
    free = [
        text for text in texts if text.isalpha() and len(text) > 2 and text not in {*taken, *tokens}
    ]
    needing = [token for token in left if token not in words]
    singles = single_subwords(tokenizer, free[: PROBED * len(needing)])
    return words | dict(zip(needing, (text for text in free if text in singles), strict=False))


def single_subwords(tokenizer: Any, words: Sequence[str]) -> set[str]:
    """Those words that are one subword each, also among others, and come back as they are."""
    if not words:
        return set()
    once, twice = (
        tokenize_targets(tokenizer, [" ".join([word] * count) for word in words])
        for count in (1, 2)
    )
    survive = zip(words, once, twice, round_trips(tokenizer, Spelling(), words), strict=True)
    ends = len(tokenize_targets(tokenizer, [""])[0])
    return {
        word
        for word, one, two, back in survive
        if (len(one), len(two)) == (1 + ends, 2 + ends) and back == word
    }


def _surviving(tokenizer: Any, wanted: Sequence[str]) -> Spelling:
    search = StandInSearch(tokenizer, wanted)
    plain = Spelling(search.stand_ins())
    if not lost(tokenizer, plain, wanted[:PROBED]) and not lost(tokenizer, plain, wanted):
        return plain
    marked = (
        replace(plain, space=mark) for mark in search.free if mark not in plain.stand_ins.values()
    )
    chosen = next(
        (spelling for spelling in marked if not lost(tokenizer, spelling, wanted[:PROBED])), plain
    )
    if losses := lost(tokenizer, chosen, wanted):
        shortest = sorted(losses, key=lambda pair: (len(pair[0]), pair))[:SHOWN_TOKENS]
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
        vocabulary = sorted(
            tokenizer.get_vocab().items(), key=lambda item: (item[1], item[0])
        )  # the frequent first
        texts = [*(subword.strip("▁Ġ#") for subword, _ in vocabulary), *map(chr, range(33, 0x250))]
        signs = [
            text for text in texts if len(text) == 1 and unicodedata.category(text)[0] in "LNPS"
        ]
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
            mends = (
                self.stand_in(character, found, [part])
                for character in part
                if character not in found
            )
            found |= next((mend for mend in mends if mend), {})
        return found

    def damaged(self, stand_ins: Mapping[str, str], texts: Sequence[str]) -> list[str]:
        """The texts without spaces that do not survive with these stand-ins."""
        pairs = zip(texts, round_trips(self.tokenizer, Spelling(stand_ins), texts), strict=True)
        return [text for text, found in pairs if "".join(found.split()) != text]

    def stand_in(
        self, character: str, found: Mapping[str, str], probes: Sequence[str]
    ) -> dict[str, str]:
        """A stand-in for one more character with which the probes survive, or none."""
        for candidate in self.free:
            if candidate not in found.values() and not self.damaged(
                {**found, character: candidate}, probes
            ):
                return {character: candidate}
        return {}
