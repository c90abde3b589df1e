"""Finds the values that sentences mention, and writes them as programs do.

`SlotMatcher.mentions` finds all values in a sentence, overlapping ones included: which of them count is the parser's
choice. Any run of words may be free text, so that is not among them; `SlotMatcher.text_value` says what it then is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import regex

from nqg.errors import FormatError, LimitExceeded, UnknownName
from nqg.settings_reader import read_dataclass
from nqg.slots.gazetteer import read_gazetteer, write_gazetteer
from nqg.slots.languages import LANGUAGES
from nqg.slots.mention import Mention, Sentence, Tokens, words_of
from nqg.slots.slot import Kind, Slot
from nqg.slots.values import FORMS, Fields, ValueReader, ValueReading
from nqg.text.brackets import QUOTATION_MARKS, QUOTES
from nqg.text.programs import STRUCTURE
from nqg.text.sentences import TokenizedSentence

REGEX_SECONDS = 0.05  # the time that one expression has for one sentence
MAX_QUOTED_WORDS = 100
MAX_COMPARED_NAMES = 100_000  # a gazetteer with more has a name like any typo

TokenizeValue = Callable[[str, str], Sequence[str]]


def split_on_spaces(value: str, quote: str) -> Tokens:
    return tuple(value.split())


@dataclass(frozen=True)
class SlotMatcher:
    """The slots of a model; `tokenize_value` makes tokens of a value as programs write it, in quotes or (`""`) without.

    `today` is the day on which training sentences were said, if it is known; others are said on a day of their own.
    """

    language: str = "en"
    slots: tuple[Slot, ...] = ()
    tokenize_value: TokenizeValue = field(default=split_on_spaces, repr=False, compare=False)
    today: date | None = None
    known: Mapping[Tokens, Sequence[Mention]] = field(
        default_factory=dict, repr=False, compare=False
    )
    originals: Mapping[Tokens, TokenizedSentence] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __len__(self) -> int:
        return len(self.slots)

    @cached_property
    def free_text(self) -> dict[str, int]:
        """The slots of free text, and how many words they may have."""
        return {slot.name: slot.length or 1 for slot in self.slots if slot.kind == "text"}

    @cached_property
    def same_texts(self) -> dict[str, str]:
        """For every slot of free text the first whose values are the same: those of one form in the same quotes."""
        firsts: dict[tuple[tuple[str, ...], str], str] = {}
        texts = [slot for slot in self.slots if slot.kind == "text"]
        return {slot.name: firsts.setdefault((slot.forms, slot.quote), slot.name) for slot in texts}

    @property
    def quotes(self) -> dict[str, str]:
        """The quotes, if any, around the values of each slot."""
        return {slot.name: slot.quote for slot in self.slots}

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of names, unless a gazetteer has so many that a typo would be like any of them."""
        found: set[str] = set()
        for slot in self.slots:
            if slot.names and len(slot.names.values) <= MAX_COMPARED_NAMES:
                for name in slot.names.values:
                    found.update(name.split())
        return frozenset(found)

    def mentions(self, sentence: Sentence, today: date | None = None) -> Sequence[Mention]:
        """Every value that a sentence may mention, ordered by start, end and slot; free text is not among them.

        Of a known sentence it is what was found on the day of training, whatever day it is.
        """
        if not self.known:
            return self.find(sentence, today)
        words = words_of(sentence)
        return self.known[words] if words in self.known else self.find(sentence)

    def find(self, sentence: Sentence, today: date | None = None) -> tuple[Mention, ...]:
        """`mentions` of a sentence as if it was not known."""
        sentence = as_tokenized(sentence)
        found: dict[tuple[int, int, str], Mention] = {}
        for slot, start, end, fields in self.readings(sentence, today or self.today):
            key = (start, end, slot.name)
            if key not in found:
                text = slot.write(fields)
                if text is not None:
                    found[key] = Mention(*key, self._tokens(text, slot.quote))
        return tuple(found[key] for key in sorted(found))

    def text_value(self, sentence: Sentence, slot: str, start: int, end: int) -> Tokens:
        """Words of a sentence as a value of a slot of free text."""
        sentence = as_tokenized(
            self.originals.get(words_of(sentence), sentence) if self.originals else sentence
        )
        text_slot = self._by_name[slot]
        text = sentence.as_written(start, end)
        return self._tokens(
            text_slot.write({"verbatim": text, "lower": text.lower()}) or "", text_slot.quote
        )

    def with_known(
        self, sentences: Iterable[TokenizedSentence], found: Iterable[Sequence[Mention]]
    ) -> SlotMatcher:
        """The matcher that knows what was `found` in these sentences, for whoever has only their tokens.

        Where words were written in several ways, free text in all but the first way is among what was found.
        """
        originals: dict[Tokens, TokenizedSentence] = {}
        known: dict[Tokens, dict[Mention, None]] = {}
        for sentence, mentions in zip(sentences, found, strict=True):
            first = originals.setdefault(sentence.words, sentence)
            more = set(mentions)
            if sentence.raw != first.raw:
                more |= set(self.free_texts(sentence)).difference(self.free_texts(first))
            known.setdefault(sentence.words, {}).update(dict.fromkeys(sorted(more)))
        return replace(
            self, known={words: tuple(each) for words, each in known.items()}, originals=originals
        )

    def free_texts(self, sentence: TokenizedSentence) -> Iterator[Mention]:
        """Every run of words as all that it may be as free text."""
        count = len(sentence.tokens)
        for slot, length in self.free_text.items():
            for start in range(count):
                for end in range(start + 1, min(start + length, count) + 1):
                    yield Mention(start, end, slot, self.text_value(sentence, slot, start, end))

    def is_safely_quoted(self, slot: str, value: Sequence[str], quote: str) -> bool:
        """Whether a value stays where it is put: inside of a program's quotes or, without any, of its place there.

        >>> slots = SlotMatcher(slots=(Slot("who", "text"),))
        >>> [slots.is_safely_quoted("who", ["x'", "OR", "1"], quote) for quote in ('"', "'")]
        [True, False]
        >>> [slots.is_safely_quoted("who", words.split(), "") for words in ("living room", "attic ) ;")]
        [True, False]
        """
        text = " ".join(value)
        if quote:
            return regex.fullmatch(rf"(?:[^\\\{quote}]|\\.)*", text, regex.DOTALL) is not None
        is_open = slot in self._by_name and self._by_name[slot].kind in ("text", "quoted")
        return not is_open or STRUCTURE.isdisjoint(text)

    @cached_property
    def _by_name(self) -> dict[str, Slot]:
        return {slot.name: slot for slot in self.slots}

    @cached_property
    def _quotes_of_words(self) -> frozenset[str]:
        """The quotes inside of which words are split at single spaces."""
        return frozenset(
            quote for quote in QUOTES if tuple(self.tokenize_value("a b", quote)) == ("a", "b")
        )

    def _tokens(self, text: str, quote: str) -> Tokens:
        is_plain = text.isascii() and "  " not in text and text.replace(" ", "").isalnum()
        if (
            is_plain and quote in self._quotes_of_words
        ):  # a sentence has many runs of words that may be free text
            return tuple(text.split())
        return tuple(self.tokenize_value(text, quote))

    @cached_property
    def _reader(self) -> ValueReader:
        return ValueReader.of(self.language, {slot.kind for slot in self.slots} & set(FORMS))

    def readings(
        self, sentence: TokenizedSentence, today: date | None, *, is_strict: bool = False
    ) -> Iterator[tuple[Slot, int, int, Fields]]:
        """Which words may be read as a value of which slot, and the fields that forms write; none are free text.

        An expression that takes too long finds nothing or, if `is_strict`, is refused.
        """
        words = [token.text.casefold() for token in sentence.tokens]
        by_kind: dict[str, list[ValueReading]] = {}
        for reading in self._reader.readings(words, today):
            by_kind.setdefault(reading.kind, []).append(reading)
        for slot in self.slots:
            matches: Iterable[tuple[int, int, Fields]]
            if slot.names is not None:
                matches = _name_matches(slot, words)
            elif slot.kind == "regex":
                matches = _expression_matches(slot, sentence, is_strict=is_strict)
            elif slot.kind == "quoted":
                matches = _quoted_spans(sentence)
            else:
                matches = (
                    (each.start, each.end, each.fields) for each in by_kind.get(slot.kind, ())
                )
            for start, end, fields in matches:
                text = str(fields.get("verbatim") or sentence.as_written(start, end))
                yield slot, start, end, {**fields, "verbatim": text, "lower": text.lower()}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without the names of gazetteers: `write_names` has these."""
        slots = [
            {
                key: value
                for key, value in vars(slot).items()
                if key in _STORED and value not in (None, (), "")
            }
            for slot in self.slots
        ]
        values: dict[str, Any] = {"language": self.language, "slots": slots}
        if self.today:
            values["today"] = str(self.today)
        return values

    def write_names(self, folder: Path) -> None:
        for slot in self.slots:
            if slot.names is not None:
                write_gazetteer(folder / _file_of(slot.name), slot.names)

    @classmethod
    def from_dict(
        cls,
        values: Mapping[str, Any],
        folder: Path,
        tokenize_value: TokenizeValue = split_on_spaces,
    ) -> SlotMatcher:
        """The slots that `to_dict` and `write_names` wrote."""
        read = read_dataclass(_StoredSlots, values, "slots", folder)
        if read.language not in LANGUAGES:
            raise FormatError(str(UnknownName("language", read.language, LANGUAGES)), folder)
        slots = []
        for each in read.slots:
            is_listed = each.kind in ("gazetteer", "column")
            names = read_gazetteer(folder / _file_of(each.name)) if is_listed else None
            try:
                slots.append(
                    Slot(
                        each.name,
                        each.kind,
                        each.forms,
                        each.quote,
                        each.expression,
                        each.length,
                        names,
                    )
                )
            except FormatError as error:
                raise error.at(folder) from error
        try:
            today = date.fromisoformat(read.today) if read.today else None
        except ValueError as error:
            raise FormatError(
                f"slots: expected a day such as 2026-11-16 as today, found '{read.today}'", folder
            ) from error
        return cls(read.language, tuple(slots), tokenize_value, today)


_STORED = ("name", "kind", "forms", "quote", "expression", "length")


@dataclass(frozen=True, slots=True)
class _StoredSlot:
    name: str
    kind: Kind
    forms: tuple[str, ...] = ()
    quote: str = ""
    expression: str | None = None
    length: int | None = None


@dataclass(frozen=True, slots=True)
class _StoredSlots:
    language: str
    slots: tuple[_StoredSlot, ...]
    today: str | None = None


def _file_of(slot: str) -> str:
    return f"slot-{slot}.tsv.gz"


def as_tokenized(sentence: Sentence) -> TokenizedSentence:
    if isinstance(sentence, TokenizedSentence):
        return sentence
    return TokenizedSentence.of(sentence)


def _name_matches(slot: Slot, words: Sequence[str]) -> Iterator[tuple[int, int, Fields]]:
    assert slot.names is not None, "the slot has a gazetteer"
    for start, end, value in slot.names.matches(words):
        yield start, end, {"value": value, "lower_value": value.lower()}


def _expression_matches(
    slot: Slot, sentence: TokenizedSentence, *, is_strict: bool
) -> list[tuple[int, int, Fields]]:
    """Matches of whole words; the group `value`, else the first one, else the whole match is the value."""
    starts = {token.start: number for number, token in enumerate(sentence.tokens)}
    ends = {token.end: number for number, token in enumerate(sentence.tokens, start=1)}
    group = "value" if "value" in slot.pattern.groupindex else min(slot.pattern.groups, 1)
    found: list[tuple[int, int, Fields]] = []
    try:
        for match in slot.pattern.finditer(sentence.raw, overlapped=True, timeout=REGEX_SECONDS):
            start, end = starts.get(match.start()), ends.get(match.end())
            if start is not None and end is not None and start < end:
                found.append((start, end, {"verbatim": match[group] or match[0]}))
    except TimeoutError as error:
        if is_strict:
            reason = f"slot '{slot.name}': the expression {slot.expression!r:.80} was stopped after {REGEX_SECONDS} s"
            raise LimitExceeded(
                f"{reason} on '{sentence.raw:.80}'; avoid repetitions inside of repetitions"
            ) from error
        return []
    return found


def _quoted_spans(sentence: TokenizedSentence) -> Iterator[tuple[int, int, Fields]]:
    """What stands in quotes, the quotes included; the value is what is inside."""
    words = sentence.words
    for start, token in enumerate(words):
        close = QUOTATION_MARKS.get(token[:1])
        if close is None:
            continue
        # A quote that is a word by itself does not close itself.
        first_end = start + 1 if len(token) > 1 else start + 2
        for end in range(first_end, min(start + MAX_QUOTED_WORDS, len(words)) + 1):
            if words[end - 1].endswith(close):
                inside = sentence.as_written(start, end)[1:-1].strip()
                if inside:
                    yield start, end, {"verbatim": inside}
                break
