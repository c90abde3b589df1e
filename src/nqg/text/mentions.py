"""Values that a sentence mentions, and pairs in which placeholders stand for those that both sides have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from hashlib import sha256
from typing import NamedTuple, Protocol
from unicodedata import normalize

from nqg.text.sentences import TokenizedSentence

Tokens = tuple[str, ...]


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


@dataclass(frozen=True, slots=True)
class MarkedPair:
    """A pair with placeholders for the values that both sides have."""

    source: Tokens
    target: Tokens
    mentions: tuple[Mention, ...]  # that were replaced, in the order of the source
    placeholders: tuple[str, ...]  # one for each of them


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


def numbered(mentions: Sequence[Mention]) -> list[str]:
    """A placeholder for each mention: values of a slot are numbered as they come, equal ones alike.

    >>> numbered([Mention(0, 1, "city", ("rome",)), Mention(2, 3, "city", ("oslo",)), Mention(4, 5, "city", ("rome",))])
    ['@city_1', '@city_2', '@city_1']
    """
    numbers: dict[str, dict[Tokens, int]] = {}
    for mention in mentions:
        values = numbers.setdefault(mention.slot, {})
        values.setdefault(mention.value, len(values) + 1)
    return [f"{mention.token}_{numbers[mention.slot][mention.value]}" for mention in mentions]


def mark(
    source: Sequence[str],
    target: Sequence[str],
    mentions: Iterable[Mention],
    names: Callable[[Sequence[Mention]], Sequence[str]] = numbered,
) -> MarkedPair:
    """Replace, in both, the longest mentions whose value the target has; all other words stay.

    Where words have several readings that the target has, each is used in turn, in the order of the target, then in
    that of `mentions`: "does the colorado cross colorado" has a river and a state.

    >>> pair = mark("wake me at six".split(), "alarm ( 6:00 )".split(), [Mention(3, 4, "time", ("6:00",))])
    >>> " ".join(pair.source), " ".join(pair.target)
    ('wake me at @time_1', 'alarm ( @time_1 )')
    """
    target = tuple(target)
    places: dict[Tokens, int | None] = {}
    present: list[Mention] = []
    for mention in mentions:
        if mention.value not in places:
            places[mention.value] = place_of(mention.value, target)
        if places[mention.value] is not None:
            present.append(mention)
    settled: list[Mention] = []
    used: set[tuple[str, Tokens]] = set()
    for readings in longest_spans(present):
        best = min(readings, key=lambda each: ((each.slot, each.value) in used, places[each.value]))
        used.add((best.slot, best.value))
        settled.append(best)
    while True:  # a value may stand nowhere but inside a longer one
        placeholders = tuple(names(settled))
        by_name = dict(zip(placeholders, (mention.value for mention in settled), strict=True))
        marked_target = _replaced(target, by_name)
        kept = [each for each, name in zip(settled, placeholders, strict=True) if name in marked_target]
        if len(kept) == len(settled):
            break
        settled = kept
    marked_source = list(source)
    for mention, name in zip(reversed(settled), reversed(placeholders), strict=True):
        marked_source[mention.start : mention.end] = [name]
    return MarkedPair(tuple(marked_source), marked_target, tuple(settled), placeholders)


def place_of(value: Tokens, target: Tokens) -> int | None:
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


def spans_like(words: Sequence[str], value: Sequence[str], longest: int) -> Iterator[tuple[int, int]]:
    """Where words have the letters and digits of a value.

    >>> list(spans_like(("a", "hip-hop", "song"), ("Hip", "-", "Hop"), 2))
    [(1, 2)]
    """
    wanted, letters = letters_of(value), [letters_of([word]) for word in words]
    for start in range(len(letters)):
        for end in range(start + 1, min(start + longest, len(letters)) + 1):
            if wanted and "".join(letters[start:end]) == wanted:
                yield start, end


def _replaced(target: Tokens, values: Mapping[str, Tokens]) -> Tokens:
    """`target` with a name in the place of each value, longer values first; names of equal values take turns."""
    names: dict[Tokens, list[str]] = {}
    for name, value in values.items():
        names.setdefault(value, []).append(name)
    replaced: list[str | None] = list(target)  # None: covered by a placeholder
    free = [True] * len(target)
    for value in sorted(names, key=len, reverse=True):
        waiting = names[value][::-1]
        for at in range(len(target) - len(value) + 1):
            if target[at : at + len(value)] == value and all(free[at : at + len(value)]):
                free[at : at + len(value)] = [False] * len(value)
                replaced[at : at + len(value)] = [waiting[-1], *[None] * (len(value) - 1)]
                waiting[1:] = waiting[1:-1]
    return tuple(token for token in replaced if token is not None)


Sentence = Sequence[str] | TokenizedSentence


def words_of(sentence: Sentence) -> Tokens:
    return sentence.words if isinstance(sentence, TokenizedSentence) else tuple(sentence)


class Finder(Protocol):
    """Finds what the words of a sentence may mean: `nqg.text.slots.Slots`."""

    @property
    def free_text(self) -> Mapping[str, int]: ...  # how many words text of each slot may have

    @property
    def same_texts(self) -> Mapping[str, str]: ...  # for each such slot the first whose text means the same

    def mentions(self, sentence: Sentence, /, today: date | None = None) -> Sequence[Mention]: ...  # but free text

    def text_value(self, sentence: Sentence, slot: str, start: int, end: int, /) -> Tokens: ...


def free_texts(slots: Finder, sentence: TokenizedSentence) -> Iterator[Mention]:
    """Every run of words as all that it may be as free text."""
    count = len(sentence.tokens)
    for slot, longest in slots.free_text.items():
        for start in range(count):
            for end in range(start + 1, min(start + longest, count) + 1):
                yield Mention(start, end, slot, slots.text_value(sentence, slot, start, end))


@dataclass(frozen=True)
class KnownMentions:
    """What slots found in sentences as they were typed, for those who have only the tokens: training, mostly.

    Where words were typed in several ways, free text in all but the first way is among what was found.
    """

    slots: Finder = field(repr=False)
    found: Mapping[Tokens, Sequence[Mention]] = field(repr=False)
    typed: Mapping[Tokens, TokenizedSentence] = field(repr=False)
    digest: str  # of what was found

    @classmethod
    def of(cls, slots: Finder, sentences: Iterable[TokenizedSentence]) -> KnownMentions:
        typed: dict[Tokens, TokenizedSentence] = {}
        found: dict[Tokens, dict[Mention, None]] = {}
        for sentence in sentences:
            first = typed.setdefault(sentence.words, sentence)
            mentions = [*slots.mentions(sentence)]
            if sentence.raw != first.raw:
                mentions += set(free_texts(slots, sentence)).difference(free_texts(slots, first))
            found.setdefault(sentence.words, {}).update(dict.fromkeys(sorted(mentions)))
        digest = sha256(repr((slots, found, [each.raw for each in typed.values()])).encode()).hexdigest()
        return cls(slots, {words: tuple(mentions) for words, mentions in found.items()}, typed, digest)

    @property
    def free_text(self) -> Mapping[str, int]:
        return self.slots.free_text

    @property
    def same_texts(self) -> Mapping[str, str]:
        return self.slots.same_texts

    def mentions(self, sentence: Sentence, /, today: date | None = None) -> Sequence[Mention]:
        """What was found on the day of training, whatever day it is."""
        words = words_of(sentence)
        return self.found[words] if words in self.found else self.slots.mentions(sentence)

    def text_value(self, sentence: Sentence, slot: str, start: int, end: int, /) -> Tokens:
        return self.slots.text_value(self.typed.get(words_of(sentence), sentence), slot, start, end)
