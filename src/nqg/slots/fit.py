"""Which slots and forms training pairs show: those that explain most of the shared values."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain, filterfalse, product
from operator import attrgetter
from typing import NamedTuple

from nqg.slots.delexicalize import (
    DelexicalizedPair,
    Pair,
    delexicalize_pairs,
    key_before,
    literals,
    quoted_texts,
)
from nqg.slots.matcher import (
    SlotMatcher,
    TokenizeValue,
    Tokens,
    as_tokenized,
    find_tokens,
    spans_like,
    split_on_spaces,
    words_of,
)
from nqg.slots.slot import BUILT_IN, WORD_FORMS, Slot, is_slot_name
from nqg.slots.values import LANGUAGES, Fields, format_value
from nqg.text.brackets import QUOTATION_MARKS, QUOTES
from nqg.text.sentences import TokenizedSentence
from nqg.text.sequences import likeliest_language

# The thresholds below were set by hand with SNIPS, the starter project and
# examples/home_assistant in view; docs/real-use.md has what they lead to, and
# benchmarks/constants.py varies them one at a time (docs/choices.md).
#
# A built-in kind is used without a declaration if programs have so many different values of it,
# and at least this share of its readings.
MIN_VALUES = 2
MIN_EXPLAINED = 1 / 2
# The weight of a value that is only some of a quoted text.
PARTIAL_WEIGHT = 0.25
# A key of programs has free text if it has so many different values, and its next value is new
# with this probability or this share of its values are names.
MIN_TEXTS = 3
MIN_UNSEEN_PROBABILITY = 0.5
MIN_SHARE_OF_NAMES = 0.5
# Capital letters tell names up to this share of capitals among other words.
MAX_SHARE_OF_CAPITALS = 0.1


def fit_slots(
    pairs: Sequence[Pair],
    declared: Sequence[Slot] = (),
    *,
    tokenize_value: TokenizeValue = split_on_spaces,
    today: date | None = None,
    finds_others: bool = True,
    finds_texts: bool = False,
    offered: Sequence[Slot] = (),
) -> SlotMatcher:
    """The declared slots and the built-in kinds that pairs show, in the forms of the programs.

    With `finds_texts`, the slots of free text that pairs show come behind the declared ones. Slots
    that are `offered` are used where pairs show them; a single value is enough.
    """
    slots = list(_possible_slots(declared, offered, finds_others=finds_others))
    words = chain.from_iterable(words_of(sentence) for sentence, _ in pairs)
    language = likeliest_language(map(str.casefold, words), LANGUAGES)
    draft = SlotMatcher(language, tuple(slots), tokenize_value, today)
    occurrences = _occurrences(draft, pairs)
    # The slots that explain programs, in the order of the draft.
    chosen = []
    for slot in slots:
        if slot.kind == "text":
            chosen.append(fit_text_form(slot, draft, pairs))
            continue
        variant = Variant.of(slot, filter(_is_longest, occurrences[slot.name]))
        least_values = 1 if slot in offered else MIN_VALUES
        if slot in declared or variant.is_supported(least_values):
            chosen.append(variant.slot)
            for occurrence, _ in variant.explained:
                occurrence.covered.append((occurrence.start, occurrence.end))
    chosen += list(_second_slots(chosen, occurrences))
    # Slots of free text, behind the declared ones.
    if finds_texts:
        matcher = replace(draft, slots=tuple(chosen))
        delexicalized = delexicalize_pairs(matcher, pairs)
        at = len(declared)
        for slot in infer_free_text_slots(pairs, delexicalized, matcher):
            chosen.insert(at, fit_text_form(slot, matcher, pairs))
            at += 1
    if not chosen:
        return SlotMatcher(tokenize_value=tokenize_value)
    return replace(draft, slots=tuple(chosen))


def _possible_slots(
    declared: Sequence[Slot], offered: Sequence[Slot], *, finds_others: bool
) -> Iterator[Slot]:
    """The declared slots, those of the offered ones that add to them, and the built-in kinds."""
    yield from declared
    names, kinds = set(), set()
    for slot in declared:
        names.add(slot.name)
        kinds.add(slot.kind)
    declared_kinds = frozenset(kinds)
    for slot in offered:
        if slot.name not in names and (
            slot.is_listed or slot.kind not in declared_kinds
        ):
            yield slot
            kinds.add(slot.kind)
    if finds_others:
        for kind in BUILT_IN:
            if kind not in kinds:
                yield Slot(kind, kind)


def _second_slots(
    chosen: Sequence[Slot], occurrences: Mapping[str, Sequence[Occurrence]]
) -> Iterator[Slot]:
    """Slots for what programs write in another form than that of their kind's slot."""
    for slot in chosen:
        if slot.kind == "text":
            continue
        second = replace(slot, name=f"{slot.name}-2", forms=())
        free = filterfalse(attrgetter("covering_length"), occurrences[slot.name])
        variant = Variant.of(second, free)
        if len(variant.values) >= MIN_VALUES:
            yield variant.slot


class ProgramOccurrence(NamedTuple):
    """A value in a program, and the quotes around it.

    Its weight is 1, or less where the value is only some of the quoted text.
    """

    value: Tokens
    quote: str
    weight: float


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Words of a training pair read as a value.

    `covered` has the spans of the values of chosen slots; all readings of a pair share it.
    """

    start: int
    end: int
    fields: Fields
    target: Tokens
    covered: list[tuple[int, int]]
    tokenize_value: TokenizeValue

    @property
    def covering_length(self) -> int:
        """How many words the longest covered span has that has all of these words."""
        lengths = [0]
        for start, end in self.covered:
            if start <= self.start and self.end <= end:
                lengths.append(end - start)
        return max(lengths)

    def find(self, text: str | None) -> ProgramOccurrence | None:
        """A value in the program of the pair, if possible in quotes."""
        if text is None:
            return None
        # The quote decides how a value is split into tokens, so each is tried in turn.
        for quote in QUOTES:
            if quote in self.target:
                value = tuple(self.tokenize_value(text, quote))
                start = find_tokens(value, self.target)
                # An odd number of quotes before a value means that it stands inside of
                # them.
                if start is not None and self.target[:start].count(quote) % 2:
                    around = (
                        self.target[start - 1],
                        (*self.target, "")[start + len(value)],
                    )
                    weight = 1 if around == (quote, quote) else PARTIAL_WEIGHT
                    return ProgramOccurrence(value, quote, weight)
        value = tuple(self.tokenize_value(text, ""))
        if find_tokens(value, self.target) is None:
            return None
        return ProgramOccurrence(value, "", 1)


def _is_longest(occurrence: Occurrence) -> bool:
    return occurrence.covering_length <= occurrence.end - occurrence.start


def _occurrences(
    draft: SlotMatcher, pairs: Sequence[Pair]
) -> dict[str, list[Occurrence]]:
    """All readings, by slot."""
    occurrences = defaultdict(list)
    for sentence, target in pairs:
        covered: list[tuple[int, int]] = []
        readings = draft.readings(as_tokenized(sentence), draft.today, is_strict=True)
        for slot, start, end, fields in readings:
            occurrence = Occurrence(
                start, end, fields, tuple(target), covered, draft.tokenize_value
            )
            occurrences[slot.name].append(occurrence)
    return occurrences


@dataclass(frozen=True, slots=True)
class Variant:
    """A slot in certain forms, and the readings whose values programs have in these,
    or have not.
    """

    slot: Slot
    explained: list[tuple[Occurrence, ProgramOccurrence]]
    unexplained: list[Occurrence]

    @classmethod
    def of(cls, slot: Slot, occurrences: Iterable[Occurrence]) -> Variant:
        """The slot in the forms of the programs, and what it explains."""
        occurrences = list(occurrences)
        forms = slot.forms or _forms(slot, occurrences)
        slot = replace(slot, forms=forms)
        variant = cls(slot, [], [])
        for occurrence in occurrences:
            written = occurrence.find(slot.write(occurrence.fields))
            if written:
                variant.explained.append((occurrence, written))
            else:
                variant.unexplained.append(occurrence)
        quotes = Counter(written.quote for _, written in variant.explained)
        quote = max(quotes, key=quotes.__getitem__, default="")
        return replace(variant, slot=replace(slot, quote=quote))

    @property
    def weight(self) -> float:
        return sum(written.weight for _, written in self.explained)

    @property
    def values(self) -> set[Tokens]:
        return {written.value for _, written in self.explained if written.weight == 1}

    def is_supported(self, least_values: int) -> bool:
        """Whether programs have enough readings of a built-in kind, and enough values.

        Values in a secondary form count.
        """
        kind = replace(self.slot, forms=())
        second = Variant.of(kind, self.unexplained)
        count = len(self.explained) + len(self.unexplained)
        has_values = max(len(self.values), len(second.values)) >= least_values
        return has_values and self.weight + second.weight >= MIN_EXPLAINED * count


def _forms(slot: Slot, occurrences: Sequence[Occurrence]) -> tuple[str, ...]:
    """The forms that explain programs.

    The first explains most tokens, the second most of what the first cannot write, and so on.
    """
    forms = []
    while occurrences:
        explained = dict.fromkeys(slot.possible_forms, 0.0)
        for form, occurrence in product(explained, occurrences):
            written = occurrence.find(format_value(form, occurrence.fields))
            if written:
                explained[form] += written.weight * len(written.value)
        best = max(explained, key=explained.__getitem__)
        if not explained[best]:
            break
        forms.append(best)
        occurrences = [
            occurrence
            for occurrence in occurrences
            if format_value(best, occurrence.fields) is None
        ]
    # Behind a form comes what it is for values that lack a field: a time without its half of the
    # day, a day of the week without a date.
    completed = dict.fromkeys(forms or slot.possible_forms[:1])
    for form in list(completed):
        completed.setdefault(re.sub(r"\{ ?(am|AM|a_m)\}", "", form))
        code = form[-3:-1]
        if code in LANGUAGES and form.startswith(("{weekday", "{day")):
            completed |= {f"{{weekday_{code}}}": None, f"{{day_{code}}}": None}
    return tuple(completed)


def fit_text_form(slot: Slot, draft: SlotMatcher, pairs: Sequence[Pair]) -> Slot:
    """The slot of free text as most programs write it."""

    def count(trial: Slot) -> int:
        texts = quoted_texts(replace(draft, slots=(trial,)), pairs)
        return sum(map(len, texts))

    trials = []
    for form, quote in product(WORD_FORMS, (*QUOTES, "")):
        trials.append(replace(slot, forms=(form,), quote=quote))
    return max(trials, key=count)


class QuotedValue(NamedTuple):
    """The value of a key in a program, and the positions of the words of the sentence like it.

    There are no positions where the sentence says it in other words.
    """

    key: str
    text: Tokens
    positions: set[int]


def quoted_values(
    sentence: TokenizedSentence, pair: DelexicalizedPair
) -> Iterator[QuotedValue]:
    """The quoted values of a program that are not values of slots."""
    for start, end in literals(pair.target):
        if not start or pair.target[start - 1] not in QUOTATION_MARKS:
            continue
        key = key_before(pair.target, start)
        text = pair.target[start:end]
        # Texts with a placeholder are values of slots already.
        if key is None or not set(pair.placeholders).isdisjoint(text):
            continue
        positions: set[int] = set()
        for span in spans_like(sentence.words, text, len(sentence.words)):
            positions.update(range(*span))
        yield QuotedValue(key, text, positions)


def infer_free_text_slots(
    pairs: Sequence[Pair],
    delexicalized: Sequence[DelexicalizedPair],
    slots: SlotMatcher,
) -> list[Slot]:
    """Slots of free text for the keys of programs whose values are an open class.

    The values are mostly words of the sentence, and names or new. The share of values seen once is
    the probability of a new one (Good and Turing): nearly all songs are seen once, hardly any room
    is. Names of people are an open class however often the same few are seen. They are written
    with a capital letter, which tells nothing where all nouns are, as in German.
    """
    # Pass 1: the values of each key, and how words are written.
    texts = defaultdict[str, Counter[Tokens]](Counter)
    names = Counter[str]()
    in_other_words = Counter[str]()
    other_words, other_capitals = 0, 0
    for (sentence, _), pair in zip(pairs, delexicalized):
        sentence = as_tokenized(sentence)
        words = sentence.words_as_written
        # The first word of a sentence has a capital letter whatever it is.
        later = range(1, len(words))
        capitals = {position for position in later if words[position][:1].isupper()}
        unquoted = {position for position in later if len(sentence.words[position]) > 1}
        for value in quoted_values(sentence, pair):
            if not value.positions:
                in_other_words[value.key] += 1
                continue
            texts[value.key][value.text] += 1
            if not capitals.isdisjoint(value.positions):
                names[value.key] += 1
            unquoted -= value.positions
        other_words += len(unquoted)
        other_capitals += len(unquoted & capitals)
    # Pass 2: the keys whose values are an open class.
    capitals_tell_names = other_capitals <= MAX_SHARE_OF_CAPITALS * other_words
    inferred = []
    for key, counts in texts.items():
        total = counts.total()
        unseen_rate = list(counts.values()).count(1) / total
        are_names = capitals_tell_names and names[key] >= MIN_SHARE_OF_NAMES * total
        is_open = unseen_rate >= MIN_UNSEEN_PROBABILITY or are_names
        # The values of other keys are the program's own words, which a sentence has by chance.
        is_copied = total >= in_other_words[key]
        is_new = key not in slots.quotes and is_slot_name(key)
        if len(counts) >= MIN_TEXTS and is_open and is_copied and is_new:
            inferred.append(Slot(key, "text", length=2 * max(map(len, counts))))
    return inferred
