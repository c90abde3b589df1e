"""Pairs and rules with placeholders in the place of values: `wake me at @time_1`, `alarm ( @time_1 )`.

Induction sees delexicalised examples, in which placeholders are terminals; afterwards they become non-terminals of
rules, below which rules such as `@time ### @time` read the slots.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from nqg.grammar.grammar import SLOT, NonTerminal, Rule, Symbol
from nqg.slots.matcher import SlotMatcher, as_tokenized
from nqg.slots.mention import (
    Mention,
    Sentence,
    Tokens,
    find_tokens,
    is_word,
    longest_spans,
    spans_like,
    words_of,
)
from nqg.text.brackets import QUOTATION_MARKS, QUOTES

_PLACEHOLDER = re.compile(rf"({SLOT}.+)_[0-9]+")

Pair = tuple[Sentence, Sequence[str]]


@dataclass(frozen=True, slots=True)
class DelexicalizedPair:
    """A pair with placeholders for the values that both sides have."""

    source: Tokens
    target: Tokens
    mentions: tuple[Mention, ...]  # that were replaced, in the order of the source
    placeholders: tuple[str, ...]  # one for each of them


def placeholders_of(mentions: Sequence[Mention]) -> list[str]:
    """A placeholder for each mention: values of a slot are numbered as they come, equal ones alike.

    >>> cities = [Mention(0, 1, "city", ("rome",)), Mention(2, 3, "city", ("oslo",)), Mention(4, 5, "city", ("rome",))]
    >>> placeholders_of(cities)
    ['@city_1', '@city_2', '@city_1']
    """
    numbers: dict[str, dict[Tokens, int]] = {}
    for mention in mentions:
        values = numbers.setdefault(mention.slot, {})
        values.setdefault(mention.value, len(values) + 1)
    return [f"{mention.token}_{numbers[mention.slot][mention.value]}" for mention in mentions]


def delexicalize(
    source: Sequence[str],
    target: Sequence[str],
    mentions: Iterable[Mention],
    names: Callable[[Sequence[Mention]], Sequence[str]] = placeholders_of,
) -> DelexicalizedPair:
    """Replace, in both, the longest mentions whose value the target has; all other words stay.

    Where words have several readings that the target has, each is used in turn, in the order of the target, then in
    that of `mentions`: "does the colorado cross colorado" has a river and a state.

    >>> pair = delexicalize("wake me at six".split(), "alarm ( 6:00 )".split(), [Mention(3, 4, "time", ("6:00",))])
    >>> " ".join(pair.source), " ".join(pair.target)
    ('wake me at @time_1', 'alarm ( @time_1 )')
    """
    target = tuple(target)
    # Mentions whose values the target has.
    first_places: dict[Tokens, int] = {}
    present: list[Mention] = []
    for mention in mentions:
        place = first_places.get(mention.value)
        if place is None:
            place = find_tokens(mention.value, target)
        if place is not None:
            first_places[mention.value] = place
            present.append(mention)
    # One reading of each of the longest spans.
    settled: list[Mention] = []
    used: set[tuple[str, Tokens]] = set()
    for readings in longest_spans(present):
        best = min(
            readings, key=lambda each: ((each.slot, each.value) in used, first_places[each.value])
        )
        used.add((best.slot, best.value))
        settled.append(best)
    # A value may stand nowhere but inside a longer one: then its mention stays as it is.
    while True:
        placeholders = tuple(names(settled))
        values = dict(zip(placeholders, (mention.value for mention in settled), strict=True))
        new_target = _with_placeholders(target, values)
        kept = [
            each for each, name in zip(settled, placeholders, strict=True) if name in new_target
        ]
        if len(kept) == len(settled):
            break
        settled = kept
    new_source = list(source)
    for mention, name in zip(reversed(settled), reversed(placeholders), strict=True):
        new_source[mention.start : mention.end] = [name]
    return DelexicalizedPair(tuple(new_source), new_target, tuple(settled), placeholders)


def _with_placeholders(target: Tokens, values: Mapping[str, Tokens]) -> Tokens:
    """`target` with a name in the place of each value, longer values first; names of equal values take turns."""
    names: dict[Tokens, list[str]] = {}
    for name, value in values.items():
        names.setdefault(value, []).append(name)
    replaced: list[str | None] = list(target)  # None: covered by a placeholder
    is_free = [True] * len(target)
    for value in sorted(names, key=len, reverse=True):
        waiting = names[value][::-1]
        for start in range(len(target) - len(value) + 1):
            end = start + len(value)
            if target[start:end] == value and all(is_free[start:end]):
                is_free[start:end] = [False] * len(value)
                replaced[start:end] = [waiting[-1], *[None] * (len(value) - 1)]
                waiting[1:] = waiting[1:-1]
    return tuple(token for token in replaced if token is not None)


def delexicalize_pairs(
    slots: SlotMatcher, pairs: Sequence[Pair], mentions: Sequence[Sequence[Mention]] | None = None
) -> list[DelexicalizedPair]:
    """Training pairs with placeholders, given the mentions if they are known.

    Of readings whose values are alike the one that the place in the program has elsewhere counts: `percent = 7` is a
    number where `percent = 35` is one.
    """
    if mentions is None:
        mentions = [slots.mentions(sentence) for sentence, _ in pairs]
    quoted = quoted_texts(slots, pairs)
    readings = [(*found, *texts) for found, texts in zip(mentions, quoted, strict=True)]
    # How often the values of each slot stand behind each key.
    counts: Counter[tuple[str, str | None]] = Counter()
    for found, (_, target) in zip(readings, pairs, strict=True):
        for mention in found:
            place = find_tokens(mention.value, tuple(target))
            if place is not None:
                counts[mention.slot, key_before(target, place)] += 1
    order = {slot.name: number for number, slot in enumerate(slots.slots)}

    def delexicalized(
        found: Sequence[Mention], sentence: Sentence, target: Sequence[str]
    ) -> DelexicalizedPair:
        def rank(mention: Mention) -> tuple[int, int]:
            place = find_tokens(mention.value, tuple(target))
            count = 0 if place is None else counts[mention.slot, key_before(target, place)]
            return -count, order[mention.slot]

        return delexicalize(words_of(sentence), target, sorted(found, key=rank))

    return [delexicalized(found, *pair) for found, pair in zip(readings, pairs, strict=True)]


def quoted_texts(slots: SlotMatcher, pairs: Sequence[Pair]) -> list[list[Mention]]:
    """Free text that programs have. A slot that is called like a key of the programs has that key's values."""
    text_slots = [slot for slot in slots.slots if slot.kind == "text"]
    if not text_slots:
        return [[] for _ in pairs]
    keys = {key.casefold() for _, target in pairs for key in target if is_word(key)}
    unnamed = [slot for slot in text_slots if slot.name.casefold() not in keys]
    found: list[list[Mention]] = []
    for sentence, target in pairs:
        tokenized = as_tokenized(sentence)
        mentions: list[Mention] = []
        for start, end in literals(target):
            key = (key_before(target, start) or "").casefold()
            named = [slot for slot in text_slots if slot.name.casefold() == key]
            value = tuple(target[start:end])
            for slot in (named or unnamed)[:1]:
                for first, last in spans_like(tokenized.words, value, slot.length or 1):
                    if slots.text_value(tokenized, slot.name, first, last) == value:
                        mentions.append(Mention(first, last, slot.name, value))
        found.append(mentions)
    return found


def key_before(target: Sequence[str], place: int) -> str | None:
    """The word before a value: `percent` in `dim ( percent = 35 )`."""
    return next((token for token in reversed(target[:place]) if is_word(token)), None)


def literals(target: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where a program has text: inside of quotes; without any, between other marks, but not before `(`, `=` or `:`."""
    has_quotes = any(token in QUOTATION_MARKS for token in target)
    place = 0
    while place < len(target):
        end = place
        if has_quotes:
            closing = QUOTATION_MARKS.get(target[place])
            if closing is not None and closing in target[place + 1 :]:
                end = place + 1 + list(target[place + 1 :]).index(closing)
            if end > place + 1:
                yield place + 1, end
        else:
            while end < len(target) and is_word(target[end]):
                end += 1
            if end > place and (end == len(target) or target[end] not in ("(", "=", ":")):
                yield place, end
        place = end + 1


def slot_of(placeholder: Symbol) -> str | None:
    """The slot's terminal that a numbered placeholder stands for; None if the symbol is not a placeholder.

    >>> slot_of("@time_1"), slot_of("at"), slot_of(NonTerminal(1))
    ('@time', None, None)
    """
    found = _PLACEHOLDER.fullmatch(placeholder) if isinstance(placeholder, str) else None
    return found[1] if found else None


def strip_indices(tokens: Sequence[str]) -> tuple[str, ...]:
    """Delexicalised tokens with every placeholder as its slot's terminal: what a target grammar knows.

    >>> strip_indices(("wake", "(", "@time_1", ")"))
    ('wake', '(', '@time', ')')
    """
    return tuple(slot_of(token) or token for token in tokens)


def slot_seeds(pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> list[Rule]:
    """The rules that a search over delexicalised examples begins with.

    Every placeholder yields itself, and the keyword argument whose value it is. So do words that are the value of one:
    what a search is left with then is how arguments are joined.

    >>> for rule in slot_seeds([("wake bob at @time_1".split(), "wake ( who = bob , at = ' @time_1 ' )".split())]):
    ...     print(rule)
    @time_1 ### @time_1
    @time_1 ### at = ' @time_1 '
    bob ### who = bob
    """
    found: set[Rule] = set()
    for source, target in pairs:
        found |= {Rule((token,), (token,)) for token in source if slot_of(token)}
        for argument, value in _keyword_arguments(tuple(target)):
            if not any(map(slot_of, value)):
                spans = spans_like(source, value, len(source))
                found |= {Rule(tuple(source[start:end]), argument) for start, end in spans}
            elif len(value) == 1 and value[0] in source:
                found.add(Rule(value, argument))
    return sorted(found, key=lambda rule: (not slot_of(rule.source[0]), str(rule)))


def _keyword_arguments(
    target: tuple[str, ...],
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The arguments `key = value` and `"key" : "value"` of a program, each whole and its value alone.

    `city . name = ' @name_1 '` is none: a comparison, of which `name = ' @name_1 '` is not a part.
    """
    for at in range(1, len(target) - 1):
        first = at - 3 if target[at - 1] in QUOTES and at >= 3 else at - 1
        if target[at] not in ("=", ":") or target[max(first - 1, 0)] == ".":
            continue
        last = at + 1
        if target[last] in QUOTES:
            last = next(
                (end for end in range(last + 1, len(target)) if target[end] == target[at + 1]), last
            )
        value = target[at + 2 : last] if last > at + 1 else target[last : last + 1]
        if any(map(is_word, value)):
            yield target[first : last + 1], value


def relexicalize_rules(rules: Iterable[Rule], free_text: Collection[str] = ()) -> list[Rule]:
    """Rules over placeholders as rules that read slots: placeholders become non-terminals.

    A rule that reads nothing but a placeholder becomes one of the slot. The plainest one is there for every slot, but
    for those of free text, of which every run of words is one more alternative, only where a rule needs it. Where a
    placeholder stands on one side only, or twice in the source, there is no such rule.

    >>> for rule in relexicalize_rules(map(Rule.parse, ["wake NT_1 at @time_1 ### wake ( NT_1 , @time_1 )"])):
    ...     print(rule)
    @time ### @time
    wake NT_1 at NT_2 ### wake ( NT_1 , NT_2 )
    """
    found: dict[Rule, None] = {}
    slots: set[str] = set()
    for rule in rules:
        own = {slot for slot in map(slot_of, (*rule.source, *rule.target)) if slot}
        is_optional = len(rule.source) == 1 and {slot.removeprefix(SLOT) for slot in own} <= {
            *free_text
        }
        slots |= set() if is_optional else own
        found |= dict.fromkeys(_relexicalized(rule))
    return [
        *(Rule((slot,), (slot,)) for slot in sorted(slots) if Rule((slot,), (slot,)) not in found),
        *found,
    ]


def _relexicalized(rule: Rule) -> Iterator[Rule]:
    if len(rule.source) == 1 and (slot := slot_of(rule.source[0])):
        others = [each for each in rule.target if slot_of(each) and each != rule.source[0]]
        if rule.source[0] in rule.target and not others:
            yield Rule((slot,), strip_indices([str(each) for each in rule.target]))
        return
    open_places = [each for each in rule.source if isinstance(each, NonTerminal) or slot_of(each)]
    numbers: dict[Symbol, Symbol] = {
        each: NonTerminal(at) for at, each in enumerate(open_places, start=1)
    }
    needed = {each for each in rule.target if isinstance(each, NonTerminal) or slot_of(each)}
    if len(numbers) == len(open_places) and set(numbers) == needed:
        sides = (
            tuple(numbers.get(each, each) for each in side) for side in (rule.source, rule.target)
        )
        yield Rule(*sides)


def index_placeholders(rules: Iterable[Rule], sources: Iterable[Sequence[str]]) -> Iterator[Rule]:
    """Rules that read slots as a search in delexicalised sentences begins with them: one for each placeholder.

    >>> print(*index_placeholders([Rule.parse("@time ### at = @time")], [["wake", "me", "@time_2"]]))
    @time_2 ### at = @time_2
    """
    placeholders = {
        token: slot for token in sorted({*chain.from_iterable(sources)}) if (slot := slot_of(token))
    }
    for rule in rules:
        if not str(rule.source[0]).startswith(SLOT):
            yield rule
        for placeholder, slot in placeholders.items():
            if rule.source == (slot,):
                yield Rule(
                    (placeholder,),
                    tuple(placeholder if each == slot else each for each in rule.target),
                )
