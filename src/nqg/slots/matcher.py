"""Finds the values that sentences mention, and writes them as programs do.

`SlotMatcher.mentions` finds all values in a sentence, overlapping ones included: the parser chooses
among them. Any run of words may be free text, so free text is not among the mentions;
`SlotMatcher.text_value` tells what a run of words is as free text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property, lru_cache
from itertools import accumulate, chain, groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unicodedata import normalize

import regex

from nqg.errors import FormatError, LimitExceeded, UnknownName
from nqg.settings_reader import read_dataclass
from nqg.slots.slot import Slot, read_gazetteer, write_gazetteer
from nqg.slots.values import FORMS, LANGUAGES, Fields, value_readings
from nqg.text.brackets import QUOTATION_MARKS, QUOTES
from nqg.text.programs import STRUCTURE
from nqg.text.sentences import TokenizedSentence

# Three limits on what one sentence or one typo may cost in time. What is beyond them is not read
# as a slot, or not corrected; training refuses an expression that is too slow.
REGEX_SECONDS = 0.05
MAX_QUOTED_WORDS = 100
MAX_COMPARED_NAMES = 100_000

Tokens = tuple[str, ...]
Sentence = Sequence[str] | TokenizedSentence
TokenizeValue = Callable[[str, str], Sequence[str]]
AnySymbol = TypeVar("AnySymbol")


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


def split_on_spaces(value: str, quote: str) -> Tokens:
    return tuple(value.split())


@dataclass(frozen=True)
class SlotMatcher:
    """The slots of a model.

    `tokenize_value` makes tokens of a value as programs write it, in quotes or (`""`) without.
    `today` is the day to which training sentences refer, if any. `known` has the mentions of
    training sentences and `originals` these sentences as they were written, both by words.
    """

    language: str = "en"
    slots: tuple[Slot, ...] = ()
    tokenize_value: TokenizeValue = field(
        default=split_on_spaces, repr=False, compare=False
    )
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
    def _by_name(self) -> dict[str, Slot]:
        return {slot.name: slot for slot in self.slots}

    @property
    def text_slots(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.kind == "text"]

    @cached_property
    def free_text(self) -> dict[str, int]:
        """The slots of free text, and how many words they may have."""
        return {slot.name: slot.length or 1 for slot in self.text_slots}

    @cached_property
    def same_texts(self) -> dict[str, str]:
        """For every slot of free text the first that has the same forms in the same quotes."""
        same = {}
        for slot in reversed(self.text_slots):
            for later in self.text_slots:
                if (later.forms, later.quote) == (slot.forms, slot.quote):
                    same[later.name] = slot.name
        return {name: same[name] for name in self.free_text}

    @property
    def quotes(self) -> dict[str, str]:
        """The quotes, if any, around the values of each slot."""
        return {slot.name: slot.quote for slot in self.slots}

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of names, unless a gazetteer has so many that a typo is like any of them."""
        words = set()
        for slot in self.slots:
            if slot.names and len(slot.names.values) <= MAX_COMPARED_NAMES:
                words.update(" ".join(slot.names.values).split())
        return frozenset(words)

    def mentions(
        self, sentence: Sentence, today: date | None = None
    ) -> Sequence[Mention]:
        """Every value that a sentence may mention, by start, end and slot, without free text.

        While a model is trained, sentences refer to the day of the training sentences.
        """
        # In training the day is that of the data, whatever the caller says.
        if self.known:
            today = None
            words = words_of(sentence)
            if words in self.known:
                return self.known[words]
        sentence = as_tokenized(sentence)
        mentions = {}
        for slot, start, end, fields in self.readings(sentence, today or self.today):
            # The first reading of a span that the slot can write down wins.
            key = (start, end, slot.name)
            text = None if key in mentions else slot.write(fields)
            if text is not None:
                mentions[key] = Mention(*key, self._tokens(text, slot.quote))
        return tuple(mentions[key] for key in sorted(mentions))

    def readings(
        self,
        sentence: TokenizedSentence,
        today: date | None,
        *,
        is_strict: bool = False,
    ) -> Iterator[tuple[Slot, int, int, Fields]]:
        """Which words may be read as a value of which slot, and the fields that forms write.

        An expression that takes too long matches nothing or, if `is_strict`, is refused.
        """
        words = [token.text.casefold() for token in sentence.tokens]
        # The built-in kinds are matched together, once for all slots.
        kinds = frozenset(FORMS).intersection(slot.kind for slot in self.slots)
        built_in = list(value_readings(words, self.language, kinds, today))
        for slot in self.slots:
            matches: list[tuple[int, int, Fields]] = []
            if slot.names is not None:
                for start, end, value in slot.names.matches(words):
                    matches.append(
                        (start, end, {"value": value, "lower_value": value.lower()})
                    )
            elif slot.kind == "regex":
                matches = _expression_matches(slot, sentence, is_strict=is_strict)
            elif slot.kind == "quoted":
                matches = list(_quoted_spans(sentence))
            else:
                for start, end, kind, fields in built_in:
                    if kind == slot.kind:
                        matches.append((start, end, fields))
            for start, end, fields in matches:
                text = str(fields.get("verbatim") or sentence.as_written(start, end))
                yield (
                    slot,
                    start,
                    end,
                    {**fields, "verbatim": text, "lower": text.lower()},
                )

    def text_value(self, sentence: Sentence, slot: str, start: int, end: int) -> Tokens:
        """Words of a sentence as a value of a slot of free text."""
        if self.originals:
            sentence = self.originals.get(words_of(sentence), sentence)
        text = as_tokenized(sentence).as_written(start, end)
        text_slot = self._by_name[slot]
        value = text_slot.write({"verbatim": text, "lower": text.lower()})
        return self._tokens(value or "", text_slot.quote)

    def _tokens(self, text: str, quote: str) -> Tokens:
        # A sentence has many runs of words that may be free text; most of them are plain.
        is_plain = (
            text.isascii() and "  " not in text and text.replace(" ", "").isalnum()
        )
        if is_plain and quote in self._quotes_of_words:
            return tuple(text.split())
        return tuple(self.tokenize_value(text, quote))

    @cached_property
    def _quotes_of_words(self) -> list[str]:
        """The quotes inside of which words are split at single spaces."""
        return [
            quote
            for quote in QUOTES
            if tuple(self.tokenize_value("a b", quote)) == ("a", "b")
        ]

    def with_known(
        self, sentences: Iterable[TokenizedSentence], found: Iterable[Sequence[Mention]]
    ) -> SlotMatcher:
        """The matcher that knows the mentions of these sentences by their words alone.

        Where words were written in several ways, free text is what the first of these has.
        """
        by_words = defaultdict[Tokens, set[Mention]](set)
        originals: dict[Tokens, TokenizedSentence] = {}
        for sentence, mentions in zip(sentences, found):
            by_words[sentence.words].update(mentions)
            originals.setdefault(sentence.words, sentence)
        cached = {
            words: tuple(sorted(mentions)) for words, mentions in by_words.items()
        }
        return replace(self, known=cached, originals=originals)

    def is_safely_quoted(self, slot: str, value: Sequence[str], quote: str) -> bool:
        """Whether a value cannot end the quotes around it or, without any, the argument that it is.

        >>> slots = SlotMatcher(slots=(Slot("who", "text"),))
        >>> [slots.is_safely_quoted("who", ["x'", "OR", "1"], quote) for quote in ('"', "'")]
        [True, False]
        >>> slots.is_safely_quoted("who", ["living", "room"], "")
        True
        >>> slots.is_safely_quoted("who", ["attic", ")", ";"], "")
        False
        """
        text = " ".join(value)
        # Inside of quotes, a quote must be escaped, and no lone backslash may end the
        # text.
        if quote:
            return (
                regex.fullmatch(rf"(?:[^\\\{quote}]|\\.)*", text, regex.DOTALL)
                is not None
            )
        # Bare values are checked only for slots that hold whatever a user writes.
        is_open = slot in self._by_name and self._by_name[slot].kind in (
            "text",
            "quoted",
        )
        return not is_open or STRUCTURE.isdisjoint(text)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without the names of gazetteers: `write_names` has these."""
        slots = []
        for slot in self.slots:
            values = {name: getattr(slot, name) for name in _STORED}
            slots.append({name: value for name, value in values.items() if value})
        today = {"today": str(self.today)} if self.today else {}
        return {"language": self.language, "slots": slots, **today}

    def write_names(self, folder: Path) -> None:
        for slot in self.slots:
            if slot.names is not None:
                write_gazetteer(_names_file(folder, slot), slot.names)

    @classmethod
    def from_dict(
        cls,
        values: Mapping[str, Any],
        folder: Path,
        tokenize_value: TokenizeValue = split_on_spaces,
    ) -> SlotMatcher:
        """The slots that `to_dict` and `write_names` wrote."""
        stored = read_dataclass(_StoredSlots, values, "slots", folder)
        if stored.language not in LANGUAGES:
            raise FormatError(
                str(UnknownName("language", stored.language, LANGUAGES)), folder
            )
        slots = []
        for slot in stored.slots:
            names = (
                read_gazetteer(_names_file(folder, slot)) if slot.is_listed else None
            )
            slots.append(replace(slot, names=names))
        try:
            today = date.fromisoformat(stored.today) if stored.today else None
        except ValueError as error:
            expected = "expected a day such as 2026-11-16 as today"
            raise FormatError(
                f"slots: {expected}, found '{stored.today}'", folder
            ) from error
        return cls(stored.language, tuple(slots), tokenize_value, today)


_STORED = ("name", "kind", "forms", "quote", "expression", "length")


@dataclass(frozen=True, slots=True)
class _StoredSlots:
    language: str
    slots: tuple[Slot, ...]
    today: str | None = None


def _names_file(folder: Path, slot: Slot) -> Path:
    return folder / f"slot-{slot.name}.tsv.gz"


def as_tokenized(sentence: Sentence) -> TokenizedSentence:
    if isinstance(sentence, TokenizedSentence):
        return sentence
    return TokenizedSentence.of(sentence)


def _expression_matches(
    slot: Slot, sentence: TokenizedSentence, *, is_strict: bool
) -> list[tuple[int, int, Fields]]:
    """Matches of whole words: the value is the group `value`, else the first, else the match."""
    # Only matches that begin and end where tokens do are whole words.
    starts = {token.start: at for at, token in enumerate(sentence.tokens)}
    ends = {token.end: at for at, token in enumerate(sentence.tokens, start=1)}
    group = (
        "value" if "value" in slot.pattern.groupindex else min(slot.pattern.groups, 1)
    )
    matches = []
    try:
        for match in slot.pattern.finditer(
            sentence.raw, overlapped=True, timeout=REGEX_SECONDS
        ):
            start, end = starts.get(match.start()), ends.get(match.end())
            if start is not None and end is not None and start < end:
                matches.append((start, end, {"verbatim": match[group] or match[0]}))
    except TimeoutError as error:
        # While a sentence is parsed, a slow expression is no reason to fail.
        if not is_strict:
            return []
        stopped = f"{slot.expression!r:.80} was stopped after {REGEX_SECONDS} s"
        raise LimitExceeded(
            f"slot '{slot.name}': the expression {stopped} on '{sentence.raw:.80}'; "
            "avoid repetitions inside of repetitions"
        ) from error
    return matches


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


# Spans of words, and words like values


def longest_spans(mentions: Iterable[Mention]) -> list[tuple[Mention, ...]]:
    """The mentions of the longest spans, grouped by span, in the order of the sentence.

    No span overlaps another.
    """

    def longest_first(mention: Mention) -> tuple[int, int]:
        return mention.start - mention.end, mention.start

    # Take spans greedily, the longest first and of equal ones the leftmost.
    groups = []
    covered: set[int] = set()
    for _, group in groupby(sorted(mentions, key=longest_first), longest_first):
        readings = tuple(group)
        span = range(readings[0].start, readings[0].end)
        if covered.isdisjoint(span):
            covered.update(span)
            groups.append(readings)
    return sorted(groups, key=lambda readings: readings[0].start)


def find_tokens(value: Tokens, target: Tokens, start: int = 0) -> int | None:
    """Where `value` first stands in `target`, from `start` on."""
    if value:
        for at in range(start, len(target)):
            if target[at] == value[0] and target[at : at + len(value)] == value:
                return at
    return None


def fill_slot(
    symbols: Iterable[AnySymbol], slot: str, value: Tokens
) -> tuple[AnySymbol | str, ...]:
    """Symbols with a value in the place of a slot's terminal."""
    runs = (value if symbol == slot else (symbol,) for symbol in symbols)
    return tuple(chain.from_iterable(runs))


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
