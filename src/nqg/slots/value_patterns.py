"""The values of a slot as programs write them, for grammars of other decoders.

A gazetteer has its values, one by one. Numbers, times, dates and durations have a pattern for each
field of their forms: `{h24}:{m:02}` is an hour, a colon and two digits. Free text is words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nqg.slots.slot import Slot
from nqg.slots.values import LANGUAGES
from nqg.text.patterns import (
    APOSTROPHES,
    DIGIT,
    DIGIT_RUN,
    LETTER,
    NUMBER,
    WORD_CHARACTER,
    Characters,
    Literal,
    Pattern,
    alternatives,
    any_case,
    choice,
    concatenation,
    joined_words,
    optional,
    repeated,
)

_FIELD = re.compile(r"\{( ?\w+)(:02)?\}")
WORDS_AS_SAID = ("{verbatim}", "{lower}")


@dataclass(frozen=True)
class SlotValues:
    """Values of a slot: strings, or a pattern with one of the strings that it matches.

    `is_text` says that any words may stand there.
    """

    listed: tuple[str, ...] = ()
    pattern: Pattern | None = None
    sample: str = ""
    is_text: bool = False


def slot_values(slot: Slot) -> SlotValues:
    """What the slot writes into programs.

    >>> from nqg.text.patterns import regular_expression
    >>> time = slot_values(Slot("time", "time", ("{h24:02}:{m:02}",)))
    >>> time.pattern and regular_expression(time.pattern)
    '(?:[01][0-9]|2[0-3]):[0-5][0-9]'
    """
    forms = slot.forms or slot.possible_forms[:1]
    if slot.names is not None:
        return _listed_values(slot, forms[0])
    if slot.kind in ("text", "quoted", "regex"):
        return SlotValues(is_text=True)
    options, sample = [], ""
    for form in forms:
        if form in WORDS_AS_SAID:
            # What is said of a number or a date may be any words, or digits.
            return SlotValues(is_text=True)
        pattern, example = _formatted(form, slot.kind)
        options.append(pattern)
        sample = sample or example
    return SlotValues(pattern=choice(options), sample=sample)


def _listed_values(slot: Slot, form: str) -> SlotValues:
    """The values of a gazetteer; those that are written as they were said have any casing."""
    assert slot.names is not None, "the slot is a gazetteer"
    written = []
    for name, value in slot.names.values.items():
        if form == "{verbatim}":
            written.append(name)
        else:
            fields = {"value": value, "lower_value": value.lower(), "lower": name}
            written.append(slot.write({**fields, "verbatim": name}) or value)
    values = tuple(dict.fromkeys(written))
    if form == "{verbatim}":
        return SlotValues(pattern=choice(map(any_case, values)), sample=values[0])
    return SlotValues(listed=values)


def _formatted(form: str, kind: str) -> tuple[Pattern, str]:
    """The pattern of a form, and a string that it matches."""
    items: list[Pattern | str] = []
    sample, end = "", 0
    for field in _FIELD.finditer(form):
        name, is_padded = field[1], bool(field[2])
        literal = form[end : field.start()]
        pattern, example = _field(name, kind, is_padded=is_padded)
        items += [literal, pattern] if literal else [pattern]
        sample += literal + example
        end = field.end()
    if form[end:]:
        items.append(form[end:])
    return concatenation(*items), sample + form[end:]


def _field(name: str, kind: str, *, is_padded: bool) -> tuple[Pattern, str]:
    """The pattern of a field, and a value of it."""
    if name == "iso" and kind == "duration":
        return _iso_duration(), "PT5M"
    if name in ("iso", "resolved"):
        month, day = _TWO_DIGITS["month"], _TWO_DIGITS["d"]
        return concatenation(_YEAR, "-", month, "-", day), "2026-11-16"
    if is_padded:
        return _TWO_DIGITS.get(name, repeated(DIGIT, 2, 2)), "10"
    if name in _FIELDS:
        return _FIELDS[name]
    names = list(_names(name))
    if names:
        return alternatives(names), names[0]
    # Counts, seconds, ordinals and all else that is a number.
    return NUMBER, "5"


def _names(field: str) -> Iterator[str]:
    """The names of months, weekdays and days that a field of a language has."""
    kind, _, code = field.rpartition("_")
    if code not in LANGUAGES:
        return
    language = LANGUAGES[code]
    if kind == "day":
        yield from language.days
    listed = {"month": language.months, "weekday": language.weekdays}
    for spellings in listed.get(kind.lower(), ()):
        name = spellings.split("|")[0]
        yield name.title() if kind.istitle() else name


def _iso_duration() -> Pattern:
    amount = concatenation(DIGIT_RUN, _DECIMALS)
    day = concatenation(DIGIT_RUN, "D")
    units = [optional(amount, unit) for unit in "HM"]
    seconds = concatenation(amount, "S")
    # At least one unit stands behind the T.
    time = choice(
        [
            concatenation("T", amount, "H", units[1], optional(seconds)),
            concatenation("T", amount, "M", optional(seconds)),
            concatenation("T", seconds),
        ]
    )
    return concatenation("P", choice([concatenation(day, optional(time)), time]))


def _digits(*options: str) -> Pattern:
    """Numbers by the ranges of their digits; one with a question mark may be absent.

    >>> from nqg.text.patterns import regular_expression
    >>> regular_expression(_digits("0-1? 0-9", "2 0-3"))
    '[01]?[0-9]|2[0-3]'
    """
    numbers = []
    for option in options:
        digits = map(_digit, option.split())
        numbers.append(concatenation(*digits))
    return choice(numbers)


def _digit(text: str) -> Pattern:
    first, _, last = text.removesuffix("?").partition("-")
    digit: Pattern = Literal(first)
    if last:
        digit = Characters(((ord(first), ord(last)),))
    return optional(digit) if text.endswith("?") else digit


_TWO_DIGITS: dict[str, Pattern] = {
    "h24": _digits("0-1 0-9", "2 0-3"),
    "h12": _digits("0 1-9", "1 0-2"),
    "m": _digits("0-5 0-9"),
    "s": _digits("0-5 0-9"),
    "month": _digits("0 1-9", "1 0-2"),
    "d": _digits("0 1-9", "1-2 0-9", "3 0-1"),
}
_YEAR = repeated(DIGIT, 4, 4)
_HOUR = _digits("0-1? 0-9", "2 0-4")
_UP_TO_TWELVE = _digits("1 0-2", "1-9")
_UP_TO_FIFTY_NINE = _digits("1-5? 0-9")
_MINUTES = optional(":", _TWO_DIGITS["m"])
_TIME_UNITS = ("second", "minute", "hour", "day", "week")
_DECIMALS = optional(".", DIGIT_RUN)
_THOUSANDS = repeated(concatenation(",", repeated(DIGIT, 3, 3)))

# The pattern of each field that is not padded, and a value of it.
_FIELDS: dict[str, tuple[Pattern, str]] = {}
# Times.
_FIELDS["h"] = _FIELDS["h24"] = _HOUR, "7"
_FIELDS["h12"] = _UP_TO_TWELVE, "7"
_FIELDS["m"] = _FIELDS["s"] = _UP_TO_FIFTY_NINE, "5"
_FIELDS["short"] = concatenation(_HOUR, _MINUTES), "7"
_FIELDS["short12"] = concatenation(_UP_TO_TWELVE, _MINUTES), "7"
for _name, *_halves in (
    ("am", "am", "pm"),
    ("AM", "AM", "PM"),
    ("a_m", "a.m.", "p.m."),
):
    _spaced = [f" {half}" for half in _halves]
    _FIELDS[_name] = alternatives(_halves), _halves[0]
    _FIELDS[f" {_name}"] = alternatives(_spaced), _spaced[0]
# Dates.
_FIELDS["y"] = _YEAR, "2026"
_FIELDS["month"] = _UP_TO_TWELVE, "7"
_FIELDS["d"] = _digits("1-2 0-9", "3 0-1", "1-9"), "7"
_FIELDS["suffix"] = alternatives(("st", "nd", "rd", "th")), "th"
# Numbers.
_FIELDS["decimal"] = concatenation(optional("-"), DIGIT_RUN, ".", DIGIT_RUN), "5.0"
_FIELDS["grouped"] = (
    concatenation(optional("-"), repeated(DIGIT, 1, 3), _THOUSANDS, _DECIMALS),
    "5",
)
_FIELDS["index"] = DIGIT_RUN, "5"
# Durations.
_FIELDS["unit"] = concatenation(alternatives(_TIME_UNITS), optional("s")), "minutes"
_FIELDS["letter"] = Characters.of("smhdw"), "m"


# Tokens and texts of programs.

_TWO = repeated(DIGIT, 2, 2)
_YEAR_MONTH_DAY = concatenation(_YEAR, "-", _TWO, "-", _TWO)
_CLOCK = concatenation(repeated(DIGIT, 1, 2), repeated(concatenation(":", _TWO), 1, 2))
# Numbers with a sign or a fraction, dates and times are single tokens, too.
SIGNED = concatenation("-", DIGIT_RUN, _DECIMALS)
FRACTION = concatenation(DIGIT_RUN, ".", DIGIT_RUN)
NUMERIC_TOKENS: tuple[Pattern, ...] = (_YEAR_MONTH_DAY, _CLOCK, FRACTION, SIGNED)
# Words with an apostrophe inside: don't.
CONTRACTION = concatenation(
    repeated(WORD_CHARACTER, 1),
    repeated(
        concatenation(Characters.of(APOSTROPHES), LETTER, repeated(WORD_CHARACTER)), 1
    ),
)


def text_in_quotes(quote: str) -> Pattern:
    """Any text inside of such quotes: it has none of them, but for apostrophes inside of words."""
    plain = Characters.other_than("\"'\\")
    escaped = concatenation("\\", Characters.other_than("\n"))
    character = choice([plain, escaped])
    text = repeated(character, 1)
    if quote != '"':
        return text
    # Pieces between apostrophes: each but the first begins with a letter, each but the last ends
    # with a character of a word.
    anything = repeated(character)
    first = concatenation(anything, WORD_CHARACTER)
    middle = choice([concatenation(LETTER, anything, WORD_CHARACTER), LETTER])
    last = concatenation(LETTER, anything)
    apostrophe = Literal("'")
    inner = repeated(concatenation(apostrophe, middle))
    return choice([concatenation(first, inner, apostrophe, last), text])


def words_outside_quotes() -> Pattern:
    """One or more words or numbers with single spaces between them."""
    word = choice([*NUMERIC_TOKENS, CONTRACTION, repeated(WORD_CHARACTER, 1)])
    return joined_words(word)
