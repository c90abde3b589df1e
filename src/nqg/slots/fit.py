"""Which slots and forms training pairs show: those that explain most of the values that both sides have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property

from nqg.errors import UnknownName
from nqg.slots.delexicalize import DelexicalizedPair, Pair, key_before, literals, quoted_texts
from nqg.slots.matcher import SlotMatcher, TokenizeValue, as_tokenized, split_on_spaces
from nqg.slots.mention import Tokens, find_tokens, spans_like
from nqg.slots.slot import BUILT_IN, WORD_FORMS, Slot, is_slot_name
from nqg.slots.values import LANGUAGES, Fields, format_value
from nqg.text.brackets import QUOTATION_MARKS, QUOTES
from nqg.text.sentences import TokenizedSentence

# The thresholds below suit SNIPS, the starter project and examples/home_assistant.
MIN_VALUES = 2  # distinct values that pairs must show before a built-in kind is used unasked
PARTIAL_WEIGHT = 0.25  # what a form counts that writes only some of a quoted text
MIN_TEXTS = 3  # different values of a key, before it is taken for one of free text
MIN_UNSEEN_PROBABILITY = 0.5  # of the next value of a key, from which on any words may be its value
MIN_SHARE_OF_NAMES = 0.5  # of the values of a key, from which on it is a key of names
MAX_SHARE_OF_CAPITALS = 0.1  # of other words, up to which capital letters tell names


def fit_slots(
    pairs: Sequence[Pair],
    declared: Sequence[Slot] = (),
    *,
    language: str | None = None,
    tokenize_value: TokenizeValue = split_on_spaces,
    today: date | None = None,
    finds_others: bool = True,
) -> SlotMatcher:
    """The declared slots and the built-in kinds that both sides of pairs show, in the forms of the programs."""
    read = [(as_tokenized(sentence), tuple(target)) for sentence, target in pairs]
    return SlotFitting.of(
        read, declared, language, tokenize_value, today, finds_others=finds_others
    ).matcher()


def detected_language(sentences: Iterable[Sequence[str]]) -> str:
    """The language whose frequent words are most frequent; English if none are.

    >>> detected_language([("mach", "das", "licht", "in", "der", "küche", "an")])
    'de'
    """
    counts = Counter(word.casefold() for words in sentences for word in words)
    return max(
        LANGUAGES,
        key=lambda code: sum(counts[word] for word in LANGUAGES[code].frequent_words.split()),
    )


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A reading of words in a training pair."""

    pair: int
    start: int
    end: int
    fields: Fields


@dataclass(frozen=True, slots=True)
class ProgramOccurrence:
    """A value as a program has it, and the quotes around it."""

    value: Tokens
    quote: str
    weight: float  # 1, or less where the value is only some of the quoted text


@dataclass(frozen=True, slots=True)
class Variant:
    """A slot in certain forms, and the readings whose values programs have in these, and have not."""

    slot: Slot
    explained: tuple[tuple[Occurrence, ProgramOccurrence], ...]
    unexplained: tuple[Occurrence, ...]

    @property
    def weight(self) -> float:
        return sum(found.weight for _, found in self.explained)

    @property
    def values(self) -> set[Tokens]:
        return {found.value for _, found in self.explained if found.weight == 1}


@dataclass(frozen=True)
class SlotFitting:
    """The choice of slots and forms for training pairs; the first `declared` slots of the draft are kept."""

    draft: SlotMatcher
    pairs: Sequence[tuple[TokenizedSentence, Tokens]]
    declared: int
    covered: dict[int, list[tuple[int, int]]] = field(
        default_factory=dict
    )  # by values of chosen slots, in each pair

    @classmethod
    def of(
        cls,
        pairs: Sequence[tuple[TokenizedSentence, Tokens]],
        declared: Sequence[Slot],
        language: str | None,
        tokenize_value: TokenizeValue,
        today: date | None,
        *,
        finds_others: bool,
    ) -> SlotFitting:
        if language is not None and language not in LANGUAGES:
            raise UnknownName("language", language, LANGUAGES)
        if language is None:
            language = detected_language(sentence.words for sentence, _ in pairs)
        slots = list(declared)
        if finds_others:
            kinds = {slot.kind for slot in declared}
            slots += [Slot(kind, kind) for kind in BUILT_IN if kind not in kinds]
        return cls(SlotMatcher(language, tuple(slots), tokenize_value, today), pairs, len(declared))

    def matcher(self, texts: Sequence[Slot] = ()) -> SlotMatcher:
        """The chosen slots and, behind the declared ones, `texts` in the forms of the programs."""
        chosen, secondary = self._chosen
        fitted_texts = [self.text_form(slot) for slot in texts]
        slots = (*chosen[: self.declared], *fitted_texts, *chosen[self.declared :], *secondary)
        if not slots:
            return SlotMatcher(tokenize_value=self.draft.tokenize_value)
        return replace(self.draft, slots=slots)

    @cached_property
    def _occurrences(self) -> dict[str, list[Occurrence]]:
        """All readings, by slot."""
        found: dict[str, list[Occurrence]] = {slot.name: [] for slot in self.draft.slots}
        for number, (sentence, _) in enumerate(self.pairs):
            for slot, start, end, fields in self.draft.readings(
                sentence, self.draft.today, is_strict=True
            ):
                found[slot.name].append(Occurrence(number, start, end, fields))
        return found

    @cached_property
    def _chosen(self) -> tuple[list[Slot], list[Slot]]:
        """The slots that explain programs, in the order of the draft, and those of secondary formats."""
        chosen: list[Slot] = []
        for number, slot in enumerate(self.draft.slots):
            if slot.kind == "text":
                chosen.append(self.text_form(slot))
                continue
            free = [each for each in self._occurrences[slot.name] if not self.is_covered(each)]
            variant = self.variant(slot, free)
            if number < self.declared or self.is_supported(slot, variant, free):
                self.mark_covered(variant)
                chosen.append(variant.slot)
        return chosen, list(self.secondary_formats(chosen))

    def is_supported(self, slot: Slot, variant: Variant, occurrences: Sequence[Occurrence]) -> bool:
        """Whether programs have at least half of a built-in kind's readings, and several values."""
        others = self.variant(slot, variant.unexplained)
        has_values = max(len(variant.values), len(others.values)) >= MIN_VALUES
        return has_values and variant.weight + others.weight >= len(occurrences) / 2

    def secondary_formats(self, chosen: Sequence[Slot]) -> Iterator[Slot]:
        """Slots for what programs write in another form than that of their kind's slot."""
        for slot in chosen:
            if slot.kind == "text":
                continue
            occurrences = self._occurrences[slot.name]
            free = [each for each in occurrences if not self.is_covered(each, has_equal=True)]
            variant = self.variant(replace(slot, name=f"{slot.name}-2", forms=()), free)
            if len(variant.values) >= MIN_VALUES and variant.weight >= len(occurrences) / 10:
                yield variant.slot

    def variant(self, slot: Slot, occurrences: Sequence[Occurrence]) -> Variant:
        """The slot in the forms of the programs, and what it explains."""
        forms = slot.forms or self.forms(slot, occurrences) or _completed(slot.possible_forms[:1])
        slot = replace(slot, forms=forms)
        explained: list[tuple[Occurrence, ProgramOccurrence]] = []
        unexplained: list[Occurrence] = []
        for occurrence in occurrences:
            found = self.find_value(slot.write(occurrence.fields), occurrence)
            if found:
                explained.append((occurrence, found))
            else:
                unexplained.append(occurrence)
        quotes = Counter(found.quote for _, found in explained) or {"": 0}
        most_common = max(quotes, key=quotes.__getitem__)
        return Variant(replace(slot, quote=most_common), tuple(explained), tuple(unexplained))

    def forms(self, slot: Slot, occurrences: Sequence[Occurrence]) -> tuple[str, ...]:
        """The form that explains most tokens, then the one that explains most of what the first cannot write, …"""
        forms: list[str] = []
        while occurrences:
            explained = dict.fromkeys(slot.possible_forms, 0.0)
            for form in explained:
                for occurrence in occurrences:
                    found = self.find_value(format_value(form, occurrence.fields), occurrence)
                    if found:
                        explained[form] += found.weight * len(found.value)
            best = max(explained, key=explained.__getitem__)
            if not explained[best]:
                break
            forms.append(best)
            occurrences = [each for each in occurrences if format_value(best, each.fields) is None]
        return _completed(forms)

    def text_form(self, slot: Slot) -> Slot:
        """The slot of free text as most programs write it."""
        trials = [
            replace(slot, forms=(form,), quote=quote)
            for form in WORD_FORMS
            for quote in (*QUOTES, "")
        ]
        counts = []
        for trial in trials:
            texts = quoted_texts(replace(self.draft, slots=(trial,)), self.pairs)
            counts.append(sum(map(len, texts)))
        return trials[counts.index(max(counts))]

    def find_value(self, text: str | None, occurrence: Occurrence) -> ProgramOccurrence | None:
        """A value in the program of the pair in which it was read."""
        if text is None:
            return None
        target = self.pairs[occurrence.pair][1]
        for quote in QUOTES:
            if quote in target:
                value = tuple(self.draft.tokenize_value(text, quote))
                place = find_tokens(value, target)
                if place is not None and target[:place].count(quote) % 2:
                    fills = target[place - 1] == quote == (*target, "")[place + len(value)]
                    return ProgramOccurrence(value, quote, 1 if fills else PARTIAL_WEIGHT)
        value = tuple(self.draft.tokenize_value(text, ""))
        if find_tokens(value, target) is None:
            return None
        return ProgramOccurrence(value, "", 1)

    def is_covered(self, occurrence: Occurrence, *, has_equal: bool = False) -> bool:
        """Whether its words are some of a longer value, or those of one as long."""
        length = occurrence.end - occurrence.start
        for start, end in self.covered.get(occurrence.pair, ()):
            if (
                start <= occurrence.start
                and occurrence.end <= end
                and (has_equal or end - start > length)
            ):
                return True
        return False

    def mark_covered(self, variant: Variant) -> None:
        for occurrence, _ in variant.explained:
            self.covered.setdefault(occurrence.pair, []).append((occurrence.start, occurrence.end))


def _completed(forms: Sequence[str]) -> tuple[str, ...]:
    """Forms, and behind them what they would be for values that lack a field: a time without its half of the day."""
    halves = ("{ am}", "{am}", "{ AM}", "{AM}", "{ a_m}")
    completed = dict.fromkeys(forms)
    for form in forms:
        for half in halves:
            if half in form:
                completed[form.replace(half, "")] = None
        code = form[-3:-1]
        if code in LANGUAGES and form.startswith(("{weekday", "{day")):
            completed |= {f"{{weekday_{code}}}": None, f"{{day_{code}}}": None}
    return tuple(completed)


@dataclass(frozen=True, slots=True)
class QuotedValue:
    """What a program quotes behind a key, and where the words of the sentence are that are like it."""

    key: str
    text: Tokens
    places: frozenset[int]


def quoted_values(sentence: TokenizedSentence, pair: DelexicalizedPair) -> Iterator[QuotedValue]:
    """The quoted values of a program that are words of the sentence and no values of other slots."""
    for start, end in literals(pair.target):
        if pair.target[start - 1] not in QUOTATION_MARKS or not start:
            continue
        key = key_before(pair.target, start)
        text = pair.target[start:end]
        if key is None or not set(pair.placeholders).isdisjoint(text):
            continue
        spans = list(spans_like(sentence.words, text, len(sentence.words)))
        if spans:
            yield QuotedValue(
                key, text, frozenset(place for span in spans for place in range(*span))
            )


def infer_free_text_slots(
    sentences: Sequence[TokenizedSentence], pairs: Sequence[DelexicalizedPair], slots: SlotMatcher
) -> list[Slot]:
    """Slots of free text for the keys of programs whose values are words of the sentence, and names or mostly new.

    How probable a new value is, the share of values seen once tells (Good and Turing): of songs nearly all are seen
    once, of rooms hardly any. Names of people are an open class however often the same few are seen: they are what is
    written with a capital letter, where not all nouns are as in German. Values of other slots do not count.
    """
    texts: dict[str, Counter[Tokens]] = {}
    names: Counter[str] = Counter()
    other_words, other_capitals = 0, 0
    for sentence, pair in zip(sentences, pairs, strict=True):
        # The first word of a sentence has a capital letter whatever it is.
        capitals = {
            place
            for place, word in enumerate(sentence.words_as_written)
            if place and word[:1].isupper()
        }
        others = {place for place, word in enumerate(sentence.words) if place and len(word) > 1}
        for value in quoted_values(sentence, pair):
            texts.setdefault(value.key, Counter())[value.text] += 1
            if not capitals.isdisjoint(value.places):
                names[value.key] += 1
            others -= value.places
        other_words += len(others)
        other_capitals += len(others & capitals)
    capitals_tell_names = other_capitals <= MAX_SHARE_OF_CAPITALS * other_words
    taken = {slot.name for slot in slots.slots}
    found = []
    for key, counts in texts.items():
        unseen_rate = sum(count == 1 for count in counts.values()) / counts.total()
        are_names = capitals_tell_names and names[key] >= MIN_SHARE_OF_NAMES * counts.total()
        is_open_class = len(counts) >= MIN_TEXTS and (
            unseen_rate >= MIN_UNSEEN_PROBABILITY or are_names
        )
        if is_open_class and key not in taken and is_slot_name(key):
            found.append(Slot(key, "text", length=2 * max(map(len, counts))))
    return found
