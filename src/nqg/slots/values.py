"""Numbers, ordinals, times, dates and durations in a sentence, and the forms of these in programs.

text2num reads number words. Everything else is a few patterns of `languages.toml` over the
sentence with its numbers as digits. A form is a template over the fields of a reading:
`{h24:02}:{m:02}` writes half past six as 06:30. A value that is relative to today is resolved
where the caller gives a date and the form asks for one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from text_to_num import Token, find_numbers

from nqg.settings_reader import read_toml

Fields = dict[str, object]


class ValueReading(NamedTuple):
    """Words `start` to `end` read as a value; forms write its fields."""

    start: int
    end: int
    kind: str
    fields: Fields


@dataclass(frozen=True)
class LanguagePatterns:
    """A table of `languages.toml`, which says what the patterns and the words are."""

    patterns: Mapping[str, Sequence[str]]
    named: Mapping[str, str]
    parts: Mapping[str, int]
    months: Sequence[str]
    weekdays: Sequence[str]
    days: Mapping[str, int]
    before: Mapping[str, int]
    counts: Mapping[str, int]
    units: Mapping[str, str]
    minus: Sequence[str]
    kept_words: Sequence[str]
    not_numbers: Sequence[str]
    frequent_words: str
    decimal_mark: str


_TABLES = read_toml(Path(__file__).with_name("languages.toml"))
_SHARED_PATTERNS: Mapping[str, str] = _TABLES.pop("shared")
_FORMS: Mapping[str, Sequence[str]] = _TABLES.pop("forms")
LANGUAGES = {code: LanguagePatterns(**table) for code, table in _TABLES.items()}

# Forms from the likeliest to the rarest: of those that explain as many programs the first is used.
FORMS = {kind: tuple(forms) for kind, forms in _FORMS.items()}

_FORM = re.compile(r"(?:[^{}]|\{ ?[A-Za-z]\w*(?::02)?\})+")


def is_form(text: str) -> bool:
    """Whether a text is a template of fields and nothing else.

    >>> is_form("{h24:02}:{m:02}"), is_form("{h.real}"), is_form("{m:1000000}")
    (True, False, False)
    """
    return _FORM.fullmatch(text) is not None


def format_value(form: str, fields: Fields) -> str | None:
    """A value in a form; None if the value lacks what the form needs.

    >>> format_value("{h24:02}:{m:02}", {"h24": 6, "m": 30})
    '06:30'
    >>> format_value("{h12}:{m:02}{ am}", {"h12": 6, "m": 30}) is None
    True
    """
    try:
        return form.format_map(fields)
    except (KeyError, ValueError):
        # The field is missing, or is not a number.
        return None


def value_readings(
    words: Sequence[str], code: str, kinds: frozenset[str], today: date | None = None
) -> Iterator[ValueReading]:
    """All values of some kinds among words in lower case, overlapping ones included."""
    if not kinds:
        return
    language = LANGUAGES[code]
    numbers = _numbers(words, code)
    for reading in _number_readings(words, numbers, language.minus):
        if reading.kind in kinds:
            yield reading
    # Patterns read a text in which numbers are digits.
    text, word_at = _in_digits(words, numbers, language.kept_words)
    for kind, match in pattern_matches(text, code, kinds):
        start = word_at.get(match.start())
        # A space stands before the next word.
        end = word_at.get(match.end() + 1)
        if start is not None and end is not None:
            groups = defaultdict(str, match.groupdict(""))
            fields = _READERS[kind](groups, language, today)
            if fields is not None:
                yield ValueReading(start, end, kind, fields)


def pattern_matches(
    text: str, code: str, kinds: frozenset[str]
) -> list[tuple[str, re.Match[str]]]:
    """What each pattern matches, from left to right; one search tells where any of them does."""
    patterns, beginning = value_patterns(code, kinds)
    starts = [match.start() for match in beginning.finditer(text)]
    # Sentences without values are done after this one search.
    if not starts:
        return []
    matches = []
    for kind, pattern in patterns:
        # Matches of one pattern do not overlap; those of several may.
        end = 0
        for start in starts:
            match = pattern.match(text, start) if start >= end else None
            if match:
                end = match.end()
                matches.append((kind, match))
    return matches


_NAMED_PATTERN = re.compile(r"(?<!\(\?P)<(\w+)>")


@cache
def value_patterns(
    code: str, kinds: frozenset[str]
) -> tuple[list[tuple[str, re.Pattern[str]]], re.Pattern[str]]:
    """A language's patterns with their kinds, and an expression for where any of them begins."""
    language = LANGUAGES[code]
    named = {
        **_SHARED_PATTERNS,
        **language.named,
        "part": "|".join(language.parts),
        "unit": "|".join(language.units.values()),
        "month": "|".join(language.months),
        "weekday": "|".join(language.weekdays),
        # Longer names come first, since an alternation takes the first that fits.
        "day": "|".join(sorted(language.days, key=len, reverse=True)),
    }

    def expand(pattern: str) -> str:
        return _NAMED_PATTERN.sub(lambda match: expand(named[match[1]]), pattern)

    patterns = []
    beginnings = []
    for kind, expressions in language.patterns.items():
        if kind in kinds:
            for expression in expressions:
                expanded = rf"(?:{expand(expression)})(?!\w)"
                patterns.append((kind, re.compile(rf"(?<!\w){expanded}")))
                # A group's name may not occur twice in one expression: the joined one
                # has none.
                beginnings.append(re.sub(r"\(\?P<\w+>", "(?:", expanded))
    # An empty expression would match everywhere, where nothing should match.
    any_of = "|".join(beginnings) or "(?!)"
    return patterns, re.compile(rf"(?<!\w)(?={any_of})")


# Numbers and ordinals


class _Number(NamedTuple):
    start: int
    end: int
    value: Decimal
    is_ordinal: bool = False


@dataclass
class _Word(Token):  # type: ignore[misc]  # text2num has no types
    """A word as text2num asks for it."""

    word: str

    def text(self) -> str:
        return self.word


def _number_words(
    words: Sequence[str], code: str, blocked: Collection[str] = ()
) -> Iterator[_Number]:
    """The numbers that are written in words, of which the blocked ones are none."""
    tokens = []
    before = ""
    for word in words:
        is_blocked = word in blocked or f"{before} {word}" in blocked
        tokens.append(_Word("-" if is_blocked else word))
        before = word
    for match in find_numbers(tokens, code, 0.0):
        value = Decimal(int(match.value))
        if not match.is_ordinal:
            value = Decimal(match.text.replace(",", "."))
        yield _Number(match.start, match.end, value, match.is_ordinal)


@lru_cache(1 << 16)
def _is_number_word(word: str, code: str) -> bool:
    return any(_number_words([word], code))


_DIGITS = re.compile(
    r"[$€£#]?([+-]?)(\d{1,3}(?:[.,]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?)(st|nd|rd|th|º|ª)?[%€°]?"
)
_SCALES = {Decimal(10**power) for power in (2, 3, 6, 9, 12)}
_SCALE_WORDS = ("hundred", "thousand", "million", "billion", "milliarde")


def _numbers(words: Sequence[str], code: str) -> list[_Number]:
    """Numbers from left to right, none overlapping another; then ordinals that are words, too."""
    language = LANGUAGES[code]
    numbers = {}
    # Numbers in digits.
    for at, word in enumerate(words):
        match = _DIGITS.fullmatch(word)
        value = _decimal(match[2], language.decimal_mark) if match else None
        if match and value is not None:
            if match[1] == "-":
                value = -value
            numbers[at] = _Number(at, at + 1, value, match[3] is not None)
    # Numbers in words.
    if any(_is_number_word(word, code) for word in words):
        for number in _number_words(
            words, code, [*language.kept_words, *language.not_numbers]
        ):
            start, end, value, _ = number
            before = numbers.get(start - 1)
            if (
                before
                and not before.is_ordinal
                and value in _SCALES
                and end == start + 1
            ):
                # "2 million" is one number.
                number = _Number(before.start, end, before.value * value)
            elif words[start] in _SCALE_WORDS and words[max(start - 1, 0)] in (
                "a",
                "eine",
            ):
                # "A hundred" is one, too.
                number = _Number(start - 1, end, value)
            numbers[number.start] = number
    ordered = [numbers[start] for start in sorted(numbers)]
    # "Second" is an ordinal, and a word of patterns.
    if not set(words).isdisjoint(language.kept_words):
        ordered += [
            number
            for number in _number_words(words, code)
            if number.is_ordinal and words[number.end - 1] in language.kept_words
        ]
    return ordered


def _decimal(digits: str, mark: str) -> Decimal | None:
    """The value of digits, in which the language's other mark separates groups of three.

    >>> _decimal("1,000", "."), _decimal("3,5", ","), _decimal("1.000,5", ",")
    (Decimal('1000'), Decimal('3.5'), Decimal('1000.5'))
    """
    separator = "," if mark == "." else "."
    if re.fullmatch(rf"\d{{1,3}}(?:[{separator}]\d{{3}})+(?:[{mark}]\d+)?", digits):
        return Decimal(digits.replace(separator, "").replace(mark, "."))
    if len(re.findall("[.,]", digits)) > 1:
        return None
    return Decimal(digits.replace(",", "."))


def _number_readings(
    words: Sequence[str], numbers: Sequence[_Number], minus: Sequence[str]
) -> Iterator[ValueReading]:
    ends = {number.end for number in numbers}
    for start, end, value, is_ordinal in numbers:
        if is_ordinal:
            rank = int(value)
            fields: Fields = {
                "number": str(rank),
                "suffix": _suffix(rank),
                "index": str(rank - 1),
            }
            yield ValueReading(start, end, "ordinal", fields)
            continue
        yield ValueReading(start, end, "number", number_fields(value))
        # Between two numbers the sign is a dash.
        if start and words[start - 1] in ("-", "−", *minus) and start - 1 not in ends:
            yield ValueReading(start - 1, end, "number", number_fields(-value))


def number_fields(value: Decimal) -> Fields:
    plain = _plain(value)
    return {
        "number": plain,
        "decimal": plain if "." in plain else f"{plain}.0",
        "fraction": _plain(value / 100),
        "grouped": f"{value:,f}",
    }


def _plain(value: Decimal) -> str:
    """
    >>> _plain(Decimal("35.0")), _plain(Decimal("1E+3")), _plain(Decimal("0.50"))
    ('35', '1000', '0.5')
    """
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _suffix(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _in_digits(
    words: Sequence[str], numbers: Sequence[_Number], kept_words: Collection[str] = ()
) -> tuple[str, dict[int, int]]:
    """Words with numbers as digits and a space behind each, and which word begins at an offset.

    >>> _in_digits(("half", "past", "twenty", "one"), [_Number(2, 4, Decimal(21))])
    ('half past 21 ', {0: 0, 5: 1, 10: 2, 13: 4})
    """
    starting = {}
    # Negative numbers, and those that end in a kept word, stay as they are.
    for number in numbers:
        if number.value >= 0 and words[number.end - 1] not in kept_words:
            starting[number.start] = number
    text = ""
    at = 0
    word_at = {0: 0}
    while at < len(words):
        word, end = words[at], at + 1
        spoken = starting.get(at)
        # A single word of digits stays as it was written, unless it is an ordinal.
        if spoken and (spoken.end > end or word.isalpha() or spoken.is_ordinal):
            word, end = _plain(spoken.value), spoken.end
            if spoken.is_ordinal:
                word += "th"
        text += f"{word} "
        at = end
        word_at[len(text)] = at
    return text, word_at


# Times, dates and durations: from the groups of a match ("" for those without one) to fields

Groups = Mapping[str, str]


def _time(
    groups: Groups, language: LanguagePatterns, today: date | None
) -> Fields | None:
    if groups["noon"]:
        return _clock(12, 0, 0, "pm")
    if groups["midnight"]:
        return _clock(0, 0, 0, "am")
    hour = int(groups["h"])
    part = groups["part"]
    minutes = int(part) if part.isdigit() else language.parts.get(part, 0)
    if minutes >= 60 or (part in language.parts and hour > 12):
        return None
    # Minutes since midnight.
    before = groups["before"].strip()
    total = hour * 60 + int(groups["m"] or 0)
    total += -minutes if groups["to"] else minutes
    total -= language.before.get(before, 0)
    if total < 60 and hour <= 12 and (before or part):
        # "Quarter to one" is after noon.
        total += 12 * 60
    half = next((half for half in ("am", "pm") if groups[half]), "")
    if half and total >= 13 * 60:
        return None
    return _clock(total // 60, total % 60, int(groups["s"] or 0), half)


def _clock(hour: int, minute: int, second: int, half: str) -> Fields:
    """The fields of a time: 7 in the evening is 19 of 24 hours, 7 without a half of
    the day is 7.
    """
    hour24, hour12 = hour % 24, hour % 12 or 12
    if half:
        hour24 = hour % 12 + (12 if half == "pm" else 0)
    elif hour > 12 or hour == 0:
        # Hour 0 and hours after 12 tell the half of the day by themselves.
        half = "pm" if hour24 >= 12 else "am"
    minutes = f":{minute:02}" if minute else ""
    fields: Fields = {"h": hour, "h24": hour24, "h12": hour12, "m": minute, "s": second}
    fields |= {"short": f"{hour}{minutes}", "short12": f"{hour12}{minutes}"}
    if half:
        fields |= {
            "am": half,
            "AM": half.upper(),
            " am": f" {half}",
            " AM": f" {half.upper()}",
        }
        fields[" a_m"] = f" {half[0]}.m."
    return fields


def _date(
    groups: Groups, language: LanguagePatterns, today: date | None
) -> Fields | None:
    fields: Fields = {}
    resolved: date | None = None
    if groups["month"]:
        name = groups["month"]
        month = int(name) if name.isdigit() else _position(name, language.months) + 1
        fields |= {"month": month, **_names("month", month - 1)}
        day, year = int(groups["d"] or 0), int(groups["y"] or 0)
        if day:
            fields |= {"d": day, "suffix": _suffix(day)}
        if groups["y"]:
            fields["y"] = year
        try:
            if day and groups["y"]:
                resolved = date(year, month, day)
                fields["iso"] = resolved.isoformat()
            elif day and today:
                # The next such day.
                resolved = date(today.year, month, day)
                if resolved < today:
                    resolved = date(today.year + 1, month, day)
        except ValueError:
            # There is no 31st of February.
            return None
    elif groups["weekday"]:
        weekday = _position(groups["weekday"], language.weekdays)
        fields |= _names("weekday", weekday)
        if today:
            resolved = today + timedelta((weekday - today.weekday() - 1) % 7 + 1)
    elif groups["day"]:
        ahead = language.days[groups["day"]]
        for code, patterns in LANGUAGES.items():
            for name, days in patterns.days.items():
                if days == ahead:
                    fields.setdefault(f"day_{code}", name)
        if today:
            resolved = today + timedelta(ahead)
    elif today and 0 < len(groups["ahead"]) < 6:
        resolved = today + timedelta(int(groups["ahead"]))
    if resolved:
        fields["resolved"] = resolved.isoformat()
    return fields


def _position(word: str, names: Sequence[str]) -> int:
    return next(
        at for at, spellings in enumerate(names) if word in spellings.split("|")
    )


def _names(field: str, position: int) -> Fields:
    """The name in every language: a German sentence may have an English program."""
    fields: Fields = {}
    for code, language in LANGUAGES.items():
        name = getattr(language, f"{field}s")[position].split("|")[0]
        fields[f"{field}_{code}"] = name
        fields[f"{field.title()}_{code}"] = name.title()
    return fields


_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_ENGLISH_UNITS = {"s": "second", "min": "minute", "h": "hour", "d": "day", "w": "week"}
_FRACTIONS = {
    "half": "0.5",
    "quarter": "0.25",
    "three_quarters": "0.75",
    "one_and_half": "1.5",
}


def _duration(
    groups: Groups, language: LanguagePatterns, today: date | None
) -> Fields | None:
    amounts = []
    for number in ("", "2", "3"):
        word, said = groups[f"unit{number}"], groups[f"count{number}"]
        for unit, spellings in language.units.items():
            if word in spellings.split("|"):
                # A word that is not a number is an article.
                spoken = language.counts.get(said, 1 if said else 0)
                amounts.append((Decimal(said if said[:1].isdigit() else spoken), unit))
    count, unit = amounts[0]
    for name, fraction in _FRACTIONS.items():
        if groups[name]:
            count += Decimal(fraction)
    seconds = count * _SECONDS[unit]
    for more, smaller_unit in amounts[1:]:
        seconds += more * _SECONDS[smaller_unit]
    fields: Fields = {"seconds": _plain(seconds), "iso": _iso_duration(seconds)}
    if seconds % 60 == 0:
        fields["minutes"] = _plain(seconds / 60)
    if seconds % 3600 == 0:
        fields["hours"] = _plain(seconds / 3600)
    if len(amounts) == 1:
        name = _ENGLISH_UNITS[unit] + ("s" if count != 1 else "")
        fields |= {"count": _plain(count), "unit": name, "letter": unit[0]}
    return fields


def _iso_duration(seconds: Decimal) -> str:
    """
    >>> _iso_duration(Decimal(5400)), _iso_duration(Decimal(86400)), _iso_duration(Decimal("0.5"))
    ('PT1H30M', 'P1D', 'PT0.5S')
    """
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    # Units without a count are left out, and a duration of nothing is PT0S.
    time = ""
    for count, unit in ((hours, "H"), (minutes, "M"), (rest, "S")):
        if count:
            time += _plain(count) + unit
    text = f"P{_plain(days)}D" if days else "P"
    if time or not days:
        text += f"T{time or '0S'}"
    return text


_READERS = {"time": _time, "date": _date, "duration": _duration}
