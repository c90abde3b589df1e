"""Slots: values that a sentence mentions and a program writes.

A slot has a kind (number, time, the names of a gazetteer, …) and the forms in which programs write its values; forms
are learned: those that explain most training pairs. `Slots.mentions` finds all values in a sentence, overlapping ones
included: which of them count is the parser's choice. Free text in a pair is what its program shows; in a sentence alone
any run of words may be free text, and `Slots.text_value` says what it then is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Literal

import regex

from nqg.errors import FormatError, LimitExceeded, Place, UnknownName
from nqg.files import is_url
from nqg.settings_reader import read_dataclass
from nqg.text.gazetteer import Gazetteer, Tokenize, column_values, read_gazetteer, write_gazetteer
from nqg.text.languages import LANGUAGES
from nqg.text.mentions import MarkedPair, Mention, Sentence, Tokens, is_word, mark, place_of, spans_like
from nqg.text.programs import STRUCTURE
from nqg.text.sentences import TokenizedSentence
from nqg.text.values import FORMS, Fields, ValueReader, ValueReading, is_form, written

Kind = Literal["number", "ordinal", "time", "date", "duration", "quoted", "regex", "gazetteer", "column", "text"]
# What holds others comes first.
BUILT_IN: tuple[Kind, ...] = ("quoted", "time", "date", "duration", "ordinal", "number")
LISTED_FORMS = ("{value}", "{lower_value}", "{lower}", "{verbatim}")
WORD_FORMS = ("{verbatim}", "{lower}")
QUOTES = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»", "‘": "’"}
REGEX_SECONDS = 0.05  # for one expression and one sentence
MOST_QUOTED = 100  # words between quotes
MOST_REPEATS = 10_000  # that counted repetitions of an expression may ask for
PART_OF_LONGER = 0.25  # what a form counts that writes a part of a quoted text
MOST_NAMES = 100_000  # of a gazetteer with whose words unknown ones are compared
FEWEST = 2  # distinct values that pairs must show before a built-in kind is used unasked


@dataclass(frozen=True, slots=True)
class SlotTable:
    """A slot in a settings file: exactly one of `kind`, `regex`, `gazetteer`, `column` (and `database`), `text`."""

    kind: str | None = None
    regex: str | None = None
    gazetteer: str | None = None  # path of a file
    column: str | None = None  # table.column
    database: str | None = None  # path of an SQLite file, or a URL
    text: int | None = None  # words that free text may have
    form: str | None = None  # how programs write a value, if it is not to be learned


@dataclass(frozen=True)
class Slot:
    """What a slot reads, and how programs write it: the first form that a value has the fields for."""

    name: str
    kind: Kind
    forms: tuple[str, ...] = ()
    quote: str = ""  # inside of which programs write the values
    expression: str | None = None
    length: int | None = None
    names: Gazetteer | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if wrong := [form for form in self.forms if not is_form(form)]:
            expected = f"one like '{self.possible_forms[0]}'"
            raise FormatError(f"slot '{self.name}': {wrong[0]!r:.80} is not a form, expected {expected}")

    @cached_property
    def pattern(self) -> regex.Pattern[str]:
        repeats = prod(int(count) for count in regex.findall(r"(\d{1,9})\d*\}", self.expression or "") if int(count))
        if repeats > MOST_REPEATS:  # compiled, each would be written out
            reason = f"slot '{self.name}': {self.expression!r:.80} repeats up to {repeats:,} times"
            raise FormatError(f"{reason}, expected at most {MOST_REPEATS:,}")
        try:
            return regex.compile(self.expression or "")
        except (regex.error, RecursionError, OverflowError) as error:
            reason = f"slot '{self.name}': {self.expression!r:.80} is not a regular expression: {error}"
            raise FormatError(reason) from error

    @property
    def possible_forms(self) -> tuple[str, ...]:
        if self.kind in ("gazetteer", "column"):
            return LISTED_FORMS
        return FORMS.get(self.kind, WORD_FORMS)

    def write(self, fields: Fields) -> str | None:
        for form in self.forms:
            if (text := written(form, fields)) is not None:
                return text
        return None


def read_slots(
    values: Mapping[str, Any], place: Place | Path | None = None, tokenize: Tokenize = str.split
) -> list[Slot]:
    """The `[slots]` of a settings file; paths are relative to its folder, names are cut into words by `tokenize`."""
    folder = place.parent if isinstance(place, Path) else place.path.parent if place else Path()
    return [_read_slot(name, value, place, folder, tokenize) for name, value in values.items()]


def is_slot_name(name: str) -> bool:
    return regex.fullmatch(r"[^\W\d_][\w-]*(?<!_\d+)", name) is not None


def _read_slot(name: str, value: object, place: Place | Path | None, folder: Path, tokenize: Tokenize) -> Slot:
    if not is_slot_name(name):
        raise FormatError(f"expected letters, digits and '-' as the name of a slot, found '{name}'", place)
    values = {"kind": value} if isinstance(value, str) else value
    table = read_dataclass(SlotTable, values, f"slot '{name}'", place)
    given = [each for each in ("kind", "regex", "gazetteer", "column", "text") if getattr(table, each) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "neither"
        raise FormatError(
            f"slot '{name}': expected one of kind, regex, gazetteer, column or text, found {found}", place
        )
    if table.kind is not None and table.kind not in BUILT_IN:
        raise FormatError(f"slot '{name}': {UnknownName('kind of slot', table.kind, BUILT_IN)}", place)
    if (table.column is None) != (table.database is None):
        raise FormatError(f"slot '{name}': expected column and database together", place)
    if table.text is not None and table.text < 1:
        raise FormatError(f"slot '{name}': expected a number of words, at least 1, as text, found {table.text}", place)
    kind: Kind = table.kind or given[0]  # type: ignore[assignment]  # both were checked
    names = None
    if table.gazetteer is not None:
        names = read_gazetteer(folder / table.gazetteer, tokenize)
    elif table.column is not None and table.database is not None:
        database = table.database if is_url(table.database) else folder / table.database
        names = column_values(database, table.column, tokenize)
    try:
        slot = Slot(name, kind, (table.form,) if table.form else (), "", table.regex, table.text, names)
        _ = slot.pattern  # refused here rather than at the first sentence
    except FormatError as error:
        raise FormatError(error.reason, place) from error
    return slot


Cut = Callable[[str, str], Sequence[str]]


def cut_at_spaces(value: str, quote: str) -> Tokens:
    return tuple(value.split())


@dataclass(frozen=True)
class Slots:
    """The slots of a model; `cut` makes tokens of a value as programs write it, in quotes or (`""`) without.

    `today` is the day on which training sentences were said, if it is known; others are said on a day of their own.
    """

    language: str = "en"
    slots: tuple[Slot, ...] = ()
    cut: Cut = field(default=cut_at_spaces, repr=False, compare=False)
    today: date | None = None

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
        names = [slot.names.values for slot in self.slots if slot.names and len(slot.names.values) <= MOST_NAMES]
        return frozenset(word for values in names for name in values for word in name.split())

    @cached_property
    def _reader(self) -> ValueReader:
        return ValueReader.of(self.language, {slot.kind for slot in self.slots} & set(FORMS))

    def mentions(self, sentence: Sentence, today: date | None = None) -> tuple[Mention, ...]:
        """Every value that a sentence may mention, ordered by start, end and slot; free text is not among them."""
        sentence = _tokenized(sentence)
        found: dict[tuple[int, int, str], Mention] = {}
        for slot, start, end, fields in self._found(sentence, today or self.today):
            key = (start, end, slot.name)
            if key not in found and (text := slot.write(_with_words(fields, sentence, start, end))) is not None:
                found[key] = Mention(*key, self._tokens(text, slot.quote))
        return tuple(found[key] for key in sorted(found))

    def text_value(self, sentence: Sentence, slot: str, start: int, end: int) -> Tokens:
        """Words of a sentence as a value of a slot of free text."""
        sentence = _tokenized(sentence)
        found = self._by_name[slot]
        typed = sentence.typed(start, end)
        return self._tokens(found.write({"verbatim": typed, "lower": typed.lower()}) or "", found.quote)

    def is_contained(self, slot: str, value: Sequence[str], quote: str) -> bool:
        """Whether a value stays where it is put: inside of a program's quotes or, without any, of its place there.

        >>> slots = Slots(slots=(Slot("who", "text"),))
        >>> [slots.is_contained("who", ["x'", "OR", "1"], quote) for quote in ('"', "'")]
        [True, False]
        >>> [slots.is_contained("who", words.split(), "") for words in ("living room", "attic ) ;")]
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
        """The quotes inside of which words are cut at single spaces."""
        return frozenset(quote for quote in ('"', "'") if tuple(self.cut("a b", quote)) == ("a", "b"))

    def _tokens(self, text: str, quote: str) -> Tokens:
        is_plain = text.isascii() and "  " not in text and text.replace(" ", "").isalnum()
        if is_plain and quote in self._quotes_of_words:  # a sentence has many runs of words that may be free text
            return tuple(text.split())
        return tuple(self.cut(text, quote))

    def marked(self, pairs: Sequence[Pair]) -> list[MarkedPair]:
        """Training pairs with placeholders; of readings whose values are alike the one that the place in the program
        has elsewhere counts: `percent = 7` is a number where `percent = 35` is one.
        """
        keys = {key.casefold() for _, target in pairs for key in target if is_word(key)}
        found = [(*self.mentions(sentence), *self._texts(sentence, target, keys)) for sentence, target in pairs]
        order = {slot.name: at for at, slot in enumerate(self.slots)}
        usual: Counter[tuple[str, str | None]] = Counter()
        for mentions, (_, target) in zip(found, pairs, strict=True):
            for mention in mentions:
                if (at := place_of(mention.value, tuple(target))) is not None:
                    usual[mention.slot, _key_before(target, at)] += 1

        def marked(mentions: Sequence[Mention], sentence: Sentence, target: Sequence[str]) -> MarkedPair:
            def rank(mention: Mention) -> tuple[int, int]:
                at = place_of(mention.value, tuple(target))
                return 0 if at is None else -usual[mention.slot, _key_before(target, at)], order[mention.slot]

            return mark(_tokenized(sentence).words, target, sorted(mentions, key=rank))

        return [marked(mentions, *pair) for mentions, pair in zip(found, pairs, strict=True)]

    def _found(
        self, sentence: TokenizedSentence, today: date | None, *, is_strict: bool = False
    ) -> Iterator[tuple[Slot, int, int, Fields]]:
        words = [token.text.casefold() for token in sentence.tokens]
        readings: dict[str, list[ValueReading]] = {}
        for each in self._reader.readings(words, today):
            readings.setdefault(each.kind, []).append(each)
        for slot in self.slots:  # of which those of free text have no readings
            if slot.names is not None:
                for start, end, value in slot.names.matches(words):
                    yield slot, start, end, {"value": value, "lower_value": value.lower()}
            elif slot.kind == "regex":
                yield from ((slot, *each) for each in _expression_matches(slot, sentence, is_strict=is_strict))
            elif slot.kind == "quoted":
                yield from ((slot, *each) for each in _quoted_spans(sentence))
            else:
                for each in readings.get(slot.kind, ()):
                    yield slot, each.start, each.end, each.fields

    def _texts(self, sentence: Sentence, target: Sequence[str], keys: set[str]) -> Iterator[Mention]:
        """Free text that a program quotes. A slot that is called like a key of the programs has that key's values."""
        slots = [slot for slot in self.slots if slot.kind == "text"]
        if not slots:
            return
        sentence = _tokenized(sentence)
        for start, end in _literals(target):
            key = (_key_before(target, start) or "").casefold()
            named = [slot for slot in slots if slot.name.casefold() == key]
            others = [slot for slot in slots if slot.name.casefold() not in keys]
            for slot in (named or others)[:1]:
                for first, last in spans_like(sentence.words, target[start:end], slot.length or 1):
                    if self.text_value(sentence, slot.name, first, last) == tuple(target[start:end]):
                        yield Mention(first, last, slot.name, tuple(target[start:end]))

    @classmethod
    def fit(
        cls,
        pairs: Sequence[Pair],
        declared: Sequence[Slot] = (),
        *,
        language: str | None = None,
        cut: Cut = cut_at_spaces,
        today: date | None = None,
        finds_others: bool = True,
    ) -> Slots:
        """The declared slots and the built-in kinds that both sides of pairs show, in the forms of the programs."""
        read = [(_tokenized(each), tuple(target)) for each, target in pairs]
        if language is not None and language not in LANGUAGES:
            raise UnknownName("language", language, LANGUAGES)
        language = language or detected_language(sentence.words for sentence, _ in read)
        kinds = {slot.kind for slot in declared}
        unasked = [Slot(kind, kind) for kind in BUILT_IN if kind not in kinds] if finds_others else []
        return _Fitting(cls(language, (*declared, *unasked), cut, today), read).fitted(len(declared))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without the names of gazetteers: `write_names` has these."""
        slots = [
            {key: value for key, value in vars(slot).items() if key in _STORED and value not in (None, (), "")}
            for slot in self.slots
        ]
        return {"language": self.language, "slots": slots} | ({"today": str(self.today)} if self.today else {})

    def write_names(self, folder: Path) -> None:
        for slot in self.slots:
            if slot.names is not None:
                write_gazetteer(folder / _file_of(slot.name), slot.names)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], folder: Path, cut: Cut = cut_at_spaces) -> Slots:
        """The slots that `to_dict` and `write_names` wrote."""
        read = read_dataclass(_StoredSlots, values, "slots", folder)
        if read.language not in LANGUAGES:
            raise FormatError(str(UnknownName("language", read.language, LANGUAGES)), folder)
        slots = []
        for each in read.slots:
            is_listed = each.kind in ("gazetteer", "column")
            names = read_gazetteer(folder / _file_of(each.name)) if is_listed else None
            try:
                slots.append(Slot(each.name, each.kind, each.forms, each.quote, each.expression, each.length, names))
            except FormatError as error:
                raise error.at(folder) from error
        try:
            today = date.fromisoformat(read.today) if read.today else None
        except ValueError as error:
            raise FormatError(
                f"slots: expected a day such as 2026-11-16 as today, found '{read.today}'", folder
            ) from error
        return cls(read.language, tuple(slots), cut, today)


Pair = tuple[Sentence, Sequence[str]]
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


def detected_language(sentences: Iterable[Sequence[str]]) -> str:
    """The language whose frequent words are most frequent; English if none are.

    >>> detected_language([("mach", "das", "licht", "in", "der", "küche", "an")])
    'de'
    """
    counts = Counter(word.casefold() for words in sentences for word in words)
    return max(LANGUAGES, key=lambda code: sum(counts[word] for word in LANGUAGES[code].frequent_words.split()))


def _tokenized(sentence: Sentence) -> TokenizedSentence:
    return sentence if isinstance(sentence, TokenizedSentence) else TokenizedSentence.of(sentence)


def _with_words(fields: Fields, sentence: TokenizedSentence, start: int, end: int) -> Fields:
    typed = str(fields.get("verbatim") or sentence.typed(start, end))
    return {**fields, "verbatim": typed, "lower": typed.lower()}


def _expression_matches(slot: Slot, sentence: TokenizedSentence, *, is_strict: bool) -> list[tuple[int, int, Fields]]:
    """Matches of whole words; the group `value`, else the first one, else the whole match is the value."""
    starts = {token.start: number for number, token in enumerate(sentence.tokens)}
    ends = {token.end: number for number, token in enumerate(sentence.tokens, start=1)}
    found = []
    try:
        for match in slot.pattern.finditer(sentence.raw, overlapped=True, timeout=REGEX_SECONDS):
            if match.start() in starts and match.end() in ends and match.start() < match.end():
                group = "value" if "value" in slot.pattern.groupindex else min(slot.pattern.groups, 1)
                found.append((starts[match.start()], ends[match.end()], {"verbatim": match[group] or match[0]}))
    except TimeoutError as error:
        if is_strict:
            reason = f"slot '{slot.name}': the expression {slot.expression!r:.80} was stopped after {REGEX_SECONDS} s"
            raise LimitExceeded(f"{reason} on '{sentence.raw:.80}'; avoid repetitions inside of repetitions") from error
        return []
    return found


def _quoted_spans(sentence: TokenizedSentence) -> Iterator[tuple[int, int, Fields]]:
    """What stands in quotes, the quotes included; the value is what is inside."""
    words = sentence.words
    for start, token in enumerate(words):
        close = QUOTES.get(token[:1])
        if close is None:
            continue
        longest = min(start + MOST_QUOTED, len(words))
        for end in range(start + (1 if len(token) > 1 else 2), longest + 1):
            if words[end - 1].endswith(close):
                inside = sentence.typed(start, end)[1:-1].strip()
                if inside:
                    yield start, end, {"verbatim": inside}
                break


def _key_before(target: Sequence[str], at: int) -> str | None:
    """The word before a value: `percent` in `dim ( percent = 35 )`."""
    return next((token for token in reversed(target[:at]) if is_word(token)), None)


def _literals(target: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where a program has text: inside of quotes; without any, between other marks, but not before `(`, `=` or `:`."""
    has_quotes = any(token in QUOTES for token in target)
    at = 0
    while at < len(target):
        token = target[at]
        if has_quotes:
            end = next(
                (end for end in range(at + 1, len(target)) if token in QUOTES and target[end] == QUOTES[token]), at
            )
            if end > at + 1:
                yield at + 1, end
        else:
            end = next((end for end in range(at, len(target)) if not is_word(target[end])), len(target))
            if end > at and (end == len(target) or target[end] not in ("(", "=", ":")):
                yield at, end
        at = max(end, at) + 1


FEWEST_TEXTS = 3  # different values of a key, before it is taken for one of free text
NEW_TEXTS = 0.5  # the chance that the next value of a key is a new one, from which on any words may be its value
NAMES = 0.5  # the share of its values that are typed as names, from which on it is a key of names
MOST_CAPITALS = 0.1  # the share of other words with a capital letter, up to which capital letters tell names


def open_texts(pairs: Sequence[Pair], slots: Slots) -> list[Slot]:
    """Slots of free text for the keys of programs whose values are words of the sentence, and names or mostly new.

    How probable a new value is, the share of values seen once tells (Good and Turing): of songs nearly all are seen
    once, of rooms hardly any. Names of people are an open class however often the same few are seen: they are what is
    typed with a capital letter, where not all nouns are as in German. Values that other slots explain do not count.
    """
    values: dict[str, Counter[Tokens]] = {}
    names: Counter[str] = Counter()
    words, capitals = 0, 0  # that are no values
    for (sentence, _), marked in zip(pairs, slots.marked(pairs), strict=True):
        tokenized = _tokenized(sentence)
        typed = [word[:1].isupper() and place > 0 for place, word in enumerate(tokenized.typed_words)]
        others = {place for place, word in enumerate(tokenized.words) if place > 0 and len(word) > 1}
        for start, end in _literals(marked.target):
            if marked.target[start - 1 : start] not in map(tuple, QUOTES):
                continue
            text, key = marked.target[start:end], _key_before(marked.target, start)
            spans = list(spans_like(tokenized.words, text, len(typed)))
            if key and spans and not set(marked.placeholders) & set(text):
                values.setdefault(key, Counter())[text] += 1
                names[key] += any(typed[place] for span in spans for place in range(*span))
                others.difference_update(place for span in spans for place in range(*span))
        words += len(others)
        capitals += sum(typed[place] for place in others)
    tells_names = capitals <= MOST_CAPITALS * words
    taken = {slot.name for slot in slots.slots}
    found = []
    for key, texts in values.items():
        new = sum(count == 1 for count in texts.values()) / texts.total()
        is_open = new >= NEW_TEXTS or (tells_names and names[key] >= NAMES * texts.total())
        if key not in taken and len(texts) >= FEWEST_TEXTS and is_open and is_slot_name(key):
            found.append(Slot(key, "text", length=2 * max(map(len, texts))))
    return found


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """A reading of words in a training pair."""

    pair: int
    start: int
    end: int
    fields: Fields


@dataclass(frozen=True, slots=True)
class _Found:
    """A value as a program has it, and the quotes around it."""

    value: Tokens
    quote: str
    weight: float  # 1, or less where the value is a part of the quoted text


@dataclass(frozen=True, slots=True)
class _Variant:
    """A slot in certain forms, and the readings whose values programs have in these."""

    slot: Slot
    explained: tuple[tuple[_Occurrence, _Found], ...]

    @property
    def weight(self) -> float:
        return sum(found.weight for _, found in self.explained)

    @property
    def values(self) -> set[Tokens]:
        return {found.value for _, found in self.explained if found.weight == 1}

    def left_of(self, occurrences: Sequence[_Occurrence]) -> list[_Occurrence]:
        done = {id(each) for each, _ in self.explained}
        return [each for each in occurrences if id(each) not in done]


class _Fitting:
    """The choice of slots and forms for training pairs."""

    def __init__(self, draft: Slots, pairs: Sequence[tuple[TokenizedSentence, Tokens]]) -> None:
        self.draft, self.pairs = draft, pairs
        self.occurrences: dict[str, list[_Occurrence]] = {slot.name: [] for slot in draft.slots}
        for number, (sentence, _) in enumerate(pairs):
            for slot, start, end, fields in draft._found(sentence, draft.today, is_strict=True):
                fields = _with_words(fields, sentence, start, end)
                self.occurrences[slot.name].append(_Occurrence(number, start, end, fields))
        self.covered: dict[int, list[tuple[int, int]]] = {}  # by values of slots that were chosen, in each pair

    def fitted(self, declared: int) -> Slots:
        chosen: list[Slot] = []
        for number, slot in enumerate(self.draft.slots):
            if slot.kind == "text":
                chosen.append(self.text_form(slot))
                continue
            free = [each for each in self.occurrences[slot.name] if not self.is_covered(each)]
            variant = self.variant(slot, free)
            if number < declared or self.is_shown(slot, variant, free):
                self.cover(variant)
                chosen.append(variant.slot)
        slots = (*chosen, *self.second_variants(chosen))
        return replace(self.draft, slots=slots) if slots else Slots(cut=self.draft.cut)

    def is_shown(self, slot: Slot, variant: _Variant, occurrences: Sequence[_Occurrence]) -> bool:
        """Whether programs have at least half of a built-in kind's readings, and several values."""
        others = self.variant(slot, variant.left_of(occurrences))
        has_values = max(len(each.values) for each in (variant, others)) >= FEWEST
        return has_values and variant.weight + others.weight >= len(occurrences) / 2

    def second_variants(self, chosen: Sequence[Slot]) -> Iterator[Slot]:
        """Slots for what programs write in another form than that of their kind's slot."""
        for slot in chosen:
            if slot.kind != "text":
                free = [each for each in self.occurrences[slot.name] if not self.is_covered(each, has_equal=True)]
                variant = self.variant(replace(slot, name=f"{slot.name}-2", forms=()), free)
                if len(variant.values) >= FEWEST and variant.weight >= len(self.occurrences[slot.name]) / 10:
                    yield variant.slot

    def variant(self, slot: Slot, occurrences: Sequence[_Occurrence]) -> _Variant:
        """The slot in the forms of the programs, and what it explains."""
        forms = slot.forms or self.forms(slot, occurrences)
        slot = replace(slot, forms=forms or _completed(slot.possible_forms[:1]))
        found = [(each, self.found(slot.write(each.fields), each)) for each in occurrences]
        explained = tuple((each, place) for each, place in found if place)
        quotes = Counter(place.quote for _, place in explained) or {"": 0}
        return _Variant(replace(slot, quote=max(quotes, key=quotes.__getitem__)), explained)

    def forms(self, slot: Slot, occurrences: Sequence[_Occurrence]) -> tuple[str, ...]:
        """The form that explains most tokens, then the one that explains most of what the first cannot write, …"""
        forms: list[str] = []
        while occurrences:
            explained = dict.fromkeys(slot.possible_forms, 0.0)
            for form in explained:
                found = (self.found(written(form, each.fields), each) for each in occurrences)
                explained[form] = sum(each.weight * len(each.value) for each in found if each)
            best = max(explained, key=explained.__getitem__)
            if not explained[best]:
                break
            forms.append(best)
            occurrences = [each for each in occurrences if written(best, each.fields) is None]
        return _completed(forms)

    def text_form(self, slot: Slot) -> Slot:
        """The slot of free text as most programs write it."""
        keys = {key.casefold() for _, target in self.pairs for key in target if is_word(key)}
        trials = [replace(slot, forms=(form,), quote=quote) for form in WORD_FORMS for quote in ('"', "'", "")]
        counts = [
            sum(1 for pair in self.pairs for _ in replace(self.draft, slots=(trial,))._texts(*pair, keys))
            for trial in trials
        ]
        return trials[counts.index(max(counts))]

    def found(self, text: str | None, each: _Occurrence) -> _Found | None:
        """A value in the program of the pair in which it was read."""
        if text is None:
            return None
        target = self.pairs[each.pair][1]
        for quote in ('"', "'"):
            if quote in target:
                value = tuple(self.draft.cut(text, quote))
                at = place_of(value, target)
                if at is not None and target[:at].count(quote) % 2:
                    fills = target[at - 1] == quote == (*target, "")[at + len(value)]
                    return _Found(value, quote, 1 if fills else PART_OF_LONGER)
        value = tuple(self.draft.cut(text, ""))
        return None if place_of(value, target) is None else _Found(value, "", 1)

    def is_covered(self, each: _Occurrence, *, has_equal: bool = False) -> bool:
        """Whether its words are part of a longer value, or of one as long."""
        longer = self.covered.get(each.pair, ())
        return any(
            start <= each.start and each.end <= end and (has_equal or end - start > each.end - each.start)
            for start, end in longer
        )

    def cover(self, variant: _Variant) -> None:
        for each, _ in variant.explained:
            self.covered.setdefault(each.pair, []).append((each.start, each.end))


def _completed(forms: Sequence[str]) -> tuple[str, ...]:
    """Forms, and behind them what they would be for values that lack a field: a time without its half of the day."""
    halves = ("{ am}", "{am}", "{ AM}", "{AM}", "{ a_m}")
    found = dict.fromkeys(forms)
    for form in forms:
        for half in halves:
            if half in form:
                found[form.replace(half, "")] = None
        if (code := form[-3:-1]) in LANGUAGES and form.startswith(("{weekday", "{day")):
            found |= {f"{{weekday_{code}}}": None, f"{{day_{code}}}": None}
    return tuple(found)
