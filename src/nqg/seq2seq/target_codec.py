"""Targets in the symbols that a tokenizer has: whatever it would lose is written with stand-ins,
and read back.

T5's vocabulary has no `<`, BERT's no capitals and no memory of spaces. Encoding and decoding each
character shows which ones a tokenizer loses. A stand-in is one character that survives and occurs
in no target, so decoding is never ambiguous. Where a tokenizer loses spaces, a mark is written for
every space.

A tokenizer may also split a token into many subwords: SCAN's `I_TURN_LEFT` is seven of T5's, and 48
actions are more than the model writes. Where targets consist of few different tokens, a word of one
subword can replace each of them. Words of the vocabulary are taken, and not new subwords
(`add_tokens`), because their embeddings are pre-trained.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nqg.errors import NqgError, SettingsError

# An error shows so many of the targets that are lost.
MAX_SHOWN = 3
# A bound of work: a stand-in is tried on so many words before all targets are.
PROBED = 64
# Tokens get words of one subword only if targets consist of at most so many different tokens, and
# if at most this share of all tokens are different ones: with more, unseen targets are likely to
# have new tokens. Tokens must be longer than `LONG` subwords on average. All three tell SCAN from
# GeoQuery (docs/seq2seq.md).
MAX_TOKENS = 256
TOKEN_SHARE = 0.01
LONG = 2.5


@dataclass(frozen=True, slots=True)
class TargetCodec:
    """Characters and their stand-ins; `space` is the mark of a space where the tokenizer loses
    spaces.

    >>> codec = TargetCodec({"<": "•"}, space="–")
    >>> codec.encode("x <  3")
    'x – • – 3'
    >>> codec.decode("x –• – 3")
    'x < 3'

    `words` are whole tokens and the words that replace them. Token and word change places, so that
    a target that contains such a word survives as well.

    >>> codec = TargetCodec(words={"I_JUMP": "jump"})
    >>> codec.encode("I_JUMP I_RUN jump"), codec.decode("jump I_RUN I_JUMP")
    ('jump I_RUN I_JUMP', 'I_JUMP I_RUN jump')
    """

    stand_ins: Mapping[str, str] = field(default_factory=dict)
    space: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        characters = (*self.stand_ins, *self.stand_ins.values())
        if any(len(character) != 1 for character in characters):
            raise SettingsError("a stand-in should be one character for one character")
        words = (*self.words, *self.words.values())
        if len({*words}) < len(words) or any(word.split() != [word] for word in words):
            raise SettingsError(
                "tokens and the words for them should all be different, and none have a space in it"
            )

    def encode(self, target: str) -> str:
        """The text that the model writes for a target."""
        stand_ins = str.maketrans(dict(zip(self.stand_ins, self.stand_ins.values())))
        text = " ".join(self._exchange(target.split())).translate(stand_ins)
        return text if self.space is None else text.replace(" ", f" {self.space} ")

    def decode(self, text: str) -> str:
        """The target that the model means by a text."""
        words = (
            text.split()
            if self.space is None
            else "".join(text.split()).split(self.space)
        )
        originals = str.maketrans(dict(zip(self.stand_ins.values(), self.stand_ins)))
        return " ".join(self._exchange(word.translate(originals) for word in words))

    def _exchange(self, tokens: Iterable[str]) -> list[str]:
        partners = {**self.words, **dict(zip(self.words.values(), self.words))}
        return [partners.get(token, token) for token in tokens]


def tokenize_targets(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The subwords of targets with the end of a text, which tokenizers of causal language models
    leave out.
    """
    subwords: list[list[int]] = tokenizer(text_target=list(texts), verbose=False)[
        "input_ids"
    ]
    end = getattr(tokenizer, "eos_token_id", None)
    if end is not None:
        for ids in subwords:
            if not ids or ids[-1] != end:
                ids.append(end)
    return subwords


def target_subwords(
    tokenizer: Any, codec: TargetCodec, targets: Sequence[str], longest: int
) -> list[list[int]]:
    """The subwords of targets, with their ends, as many as a model writes."""
    if not targets:
        return []
    subwords = tokenize_targets(tokenizer, [codec.encode(target) for target in targets])
    return [ids[:longest] for ids in subwords]


def decode(tokenizer: Any, ids: Sequence[Sequence[int]]) -> list[str]:
    """The texts of subwords without special tokens; cleaning up would remove spaces."""
    texts: list[str] = tokenizer.batch_decode(
        ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    return texts


def round_trips(tokenizer: Any, codec: TargetCodec, texts: Sequence[str]) -> list[str]:
    """What is left of texts after codec and tokenizer have encoded and decoded them."""
    if not texts:
        return []
    ids = tokenize_targets(tokenizer, [codec.encode(text) for text in texts])
    return [codec.decode(text) for text in decode(tokenizer, ids)]


def unrecoverable(
    tokenizer: Any, codec: TargetCodec, targets: Sequence[str]
) -> list[tuple[str, str]]:
    """The targets that do not survive, each with what becomes of it."""
    pairs = zip(targets, round_trips(tokenizer, codec, targets))
    return [(target, decoded) for target, decoded in pairs if target != decoded]


def fit_codec(
    tokenizer: Any,
    targets: Sequence[str],
    longest: float = math.inf,
    *,
    one_subword: bool | None = None,
) -> TargetCodec:
    """A codec with which every target survives `tokenizer`; if there is none, the error shows what
    is lost.

    With `one_subword`, each token is written as a word of one subword, where that is possible. With
    None, the targets decide: they must consist of few different tokens, and be long otherwise, or
    longer than `longest`.
    """
    distinct = sorted({" ".join(target.split()) for target in targets})
    plain = _character_codec(tokenizer, distinct)
    if one_subword is None:
        one_subword = is_long(tokenizer, plain, targets, longest)
    if not one_subword or plain.space is not None:
        return plain
    tokens = sorted({*" ".join(distinct).split()})
    words = one_subword_words(tokenizer, tokens, plain.stand_ins.values())
    short = replace(plain, words=words)
    return plain if unrecoverable(tokenizer, short, distinct) else short


def is_long(
    tokenizer: Any, codec: TargetCodec, targets: Sequence[str], longest: float
) -> bool:
    """Whether targets of few different tokens have many subwords a token, or one more subwords than
    `longest`.
    """
    tokens = " ".join(targets).split()
    distinct = sorted({*tokens})
    if not distinct or len(distinct) > min(MAX_TOKENS, TOKEN_SHARE * len(tokens)):
        return False
    counts = subword_counts(tokenizer, [codec.encode(token) for token in distinct])
    sizes = dict(zip(distinct, counts))
    lengths = [sum(map(sizes.__getitem__, target.split())) for target in targets]
    return sum(lengths) > LONG * len(tokens) or max(lengths) >= longest


def one_subword_words(
    tokenizer: Any, tokens: Sequence[str], avoided: Iterable[str]
) -> dict[str, str]:
    """A word that the tokenizer takes for one subword for each token of several, as far as there
    are such words.
    """
    unavailable = {*tokens, *avoided}
    owners: dict[str, set[str]] = defaultdict(set)
    for token in tokens:
        for letters in re.findall("[^\\W\\d_]+", token):
            owners[letters.lower()].add(token)
    single = single_subwords(tokenizer, [*tokens, *owners])

    # 1. The longest run of letters in the token itself that no other token has: `left` for
    # `I_TURN_LEFT`.
    words: dict[str, str] = {}
    for letters, (owner, *more) in owners.items():
        if more or owner in single or letters not in single or letters in unavailable:
            continue
        if len(letters) > len(words.get(owner, "")):
            words[owner] = letters

    # 2. Any other word of the vocabulary.
    unavailable.update(words.values())
    waiting = [token for token in tokens if token not in single and token not in words]
    texts = filter(str.isalpha, vocabulary_texts(tokenizer, "▁Ġ"))
    free = [text for text in texts if len(text) > 2 and text not in unavailable]
    single = single_subwords(tokenizer, free[: PROBED * len(waiting)])
    return words | dict(zip(waiting, (text for text in free if text in single)))


def single_subwords(tokenizer: Any, words: Sequence[str]) -> set[str]:
    """Those words that are one subword each, also among others, and that survive."""
    once = subword_counts(tokenizer, words)
    twice = subword_counts(tokenizer, [f"{word} {word}" for word in words])
    outcomes = zip(words, once, twice, round_trips(tokenizer, TargetCodec(), words))
    return {word for word, *outcome in outcomes if outcome == [1, 2, word]}


def subword_counts(tokenizer: Any, texts: Sequence[str]) -> list[int]:
    """How many subwords each text has, without those that the tokenizer puts around every text."""
    around, *counts = map(len, tokenize_targets(tokenizer, ["", *texts]))
    return [count - around for count in counts]


def vocabulary_texts(tokenizer: Any, signs: str) -> Iterable[str]:
    """The different subwords by their ids, the frequent first, without the tokenizer's own signs
    around them.
    """
    vocabulary = tokenizer.get_vocab()
    ordered = sorted(vocabulary, key=lambda subword: (vocabulary[subword], subword))
    return dict.fromkeys(subword.strip(signs) for subword in ordered)


def _character_codec(tokenizer: Any, targets: Sequence[str]) -> TargetCodec:
    search = SubstituteSearch(tokenizer, targets)
    plain = codec = TargetCodec(search.stand_ins())
    if not unrecoverable(tokenizer, plain, targets):
        return plain

    # With stand-ins all characters survive, as far as can be. What else is lost are spaces.
    for mark in search.free:
        marked = replace(plain, space=mark)
        is_used = mark in plain.stand_ins.values()
        if not is_used and not unrecoverable(tokenizer, marked, targets[:PROBED]):
            codec = marked
            break
    losses = unrecoverable(tokenizer, codec, targets)
    if not losses:
        return codec
    shortest = sorted(losses, key=lambda pair: (len(pair[0]), pair))[:MAX_SHOWN]
    examples = "; ".join(
        f"{target!r} comes back as {decoded!r}" for target, decoded in shortest
    )
    name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
    raise NqgError(
        f"the tokenizer '{name}' cannot represent {len(losses)} of {len(targets)} different "
        f"targets, even with stand-ins: {examples}; choose a model with another tokenizer "
        "(google/byt5-small has every symbol)"
    )


class SubstituteSearch:
    """The search for stand-ins, one character after the other, until every word of the targets
    survives.

    Spaces are ignored. `free` are the characters that survive alone and occur in no target: signs
    before letters, and those of other alphabets before ASCII's, which unseen targets might contain.
    """

    def __init__(self, tokenizer: Any, targets: Sequence[str]) -> None:
        self.tokenizer = tokenizer
        self.words = sorted(
            {*" ".join(targets).split()}, key=lambda word: (len(word), word)
        )
        self.characters = {*"".join(self.words)}
        unused = []
        for sign in dict.fromkeys(
            (*vocabulary_texts(tokenizer, "▁Ġ#"), *map(chr, range(33, 0x250)))
        ):
            is_character = len(sign) == 1 and unicodedata.category(sign)[0] in "LNPS"
            if is_character and sign not in self.characters:
                unused.append(sign)
        damaged = {*self.damaged({}, unused)}
        survivors = [sign for sign in unused if sign not in damaged]
        self.free = sorted(survivors, key=lambda sign: (sign.isalnum(), sign.isascii()))

    def stand_ins(self) -> dict[str, str]:
        """Stand-ins for all characters that are lost alone, then for those that are lost beside
        others.
        """
        stand_ins: dict[str, str] = {}
        suspects = {*"".join(self.damaged(stand_ins, self.words))}
        alone = self.damaged(stand_ins, sorted(suspects))
        for number, character in enumerate(alone):
            # Words are tried without the characters whose turn comes later.
            later = str.maketrans(dict.fromkeys(alone[number + 1 :]))
            probes = [word.translate(later) for word in self.words if character in word]
            self.substitute(character, stand_ins, probes[:PROBED])

        for _ in self.characters:
            damaged = self.damaged(stand_ins, self.words)
            if not damaged:
                break
            # The first word that is lost becomes shorter while it is lost.
            while damaged:
                fragment = damaged[0]
                damaged = self.damaged(stand_ins, [fragment[1:], fragment[:-1]])
            lost = [character for character in fragment if character not in stand_ins]
            if not any(
                self.substitute(character, stand_ins, [fragment]) for character in lost
            ):
                break
        return stand_ins

    def damaged(self, stand_ins: Mapping[str, str], texts: Sequence[str]) -> list[str]:
        """The texts without spaces that do not survive with these stand-ins."""
        pairs = zip(texts, round_trips(self.tokenizer, TargetCodec(stand_ins), texts))
        return [text for text, decoded in pairs if "".join(decoded.split()) != text]

    def substitute(
        self, character: str, stand_ins: dict[str, str], probes: Sequence[str]
    ) -> bool:
        """Add a stand-in for one more character with which the probes survive, if there is one."""
        for candidate in self.free:
            is_used = candidate in stand_ins.values()
            if not is_used and not self.damaged(
                {**stand_ins, character: candidate}, probes
            ):
                stand_ins[character] = candidate
                return True
        return False
