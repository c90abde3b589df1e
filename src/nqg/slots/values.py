"""Numbers, ordinals, times, dates and durations in a sentence, and the forms in which programs write them.

Number words are text2num's business; everything else is a few patterns over the sentence with its numbers as digits
(`languages.py`). A form is a template over the fields of a reading: `{h24:02}:{m:02}` writes half past six as 06:30.
What is said relative to today is resolved where the caller gives a date and the form asks for one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import cache, lru_cache
from itertools import accumulate
from typing import NamedTuple

from text_to_num import find_numbers

from nqg.slots.languages import LANGUAGES, LanguagePatterns

Fields = dict[str, object]


class ValueReading(NamedTuple):
    """Words `start` to `end` read as a value; forms write its fields."""

    start: int
    end: int
    kind: str
    fields: Fields


# Forms from the likeliest to the rarest: of those that explain as many programs the first is taken.
FORMS: Mapping[str, tuple[str, ...]] = {
    "number": ("{number}", "{decimal}", "{fraction}", "{grouped}", "{lower}", "{verbatim}"),
    "ordinal": ("{number}", "{number}{suffix}", "{index}", "{lower}", "{verbatim}"),
    "time": tuple(
        time.replace("{AM}", half)
        for time in (
            "{h12}:{m:02}{AM}",
            "{short12}{AM}",
            "{h12:02}:{m:02}{AM}",
            "{h24}:{m:02}",
            "{h24:02}:{m:02}",
            "{h24:02}:{m:02}:{s:02}",
            "{h24:02}{m:02}",
            "{h24}.{m:02}",
            "{h24}",
            "{h}:{m:02}",
            "{h:02}:{m:02}",
            "{short}",
            "{lower}",
            "{verbatim}",
        )
        for half in (("{ am}", "{am}", "{ AM}", "{AM}", "{ a_m}") if "{AM}" in time else ("",))
    ),
    "date": (
        "{iso}",
        "{month:02}-{d:02}",
        "{month}/{d}",
        "{month}/{d}/{y}",
        "{d:02}.{month:02}.{y}",
        "{d}.{month}.",
        "{d}.{month}.{y}",
        *(
            form.replace("_en", f"_{code}")
            for code in LANGUAGES
            for form in (
                "{weekday_en}",
                "{Weekday_en}",
                "{day_en}",
                "{month_en} {d}",
                "{Month_en} {d}",
                "{d} {month_en}",
            )
        ),
        "{month_en} {d}{suffix}",
        "{resolved}",
        "{lower}",
        "{verbatim}",
    ),
    "duration": (
        "{iso}",
        "{seconds}",
        "{minutes}",
        "{hours}",
        "{count} {unit}",
        "{count}{letter}",
        "{lower}",
        "{verbatim}",
    ),
}


_FORM = re.compile(r"(?:[^{}]|\{ ?[A-Za-z]\w*(?::02)?\})+")


def is_form(text: str) -> bool:
    """Whether a text is a template of fields and nothing else.

    >>> is_form("{h24:02}:{m:02}"), is_form("{h.real}"), is_form("{m:1000000}")
    (True, False, False)
    """
    return _FORM.fullmatch(text) is not None


def written(form: str, fields: Fields) -> str | None:
    """A value in a form; None if the value lacks what the form needs.

    >>> written("{h24:02}:{m:02}", {"h24": 6, "m": 30}), written("{h12}:{m:02}{ am}", {"h12": 6, "m": 30})
    ('06:30', None)
    """
    try:
        return form.format_map(fields)
    except (KeyError, ValueError):  # a field that is missing, or no number
        return None


class _Number(NamedTuple):
    start: int
    end: int
    value: Decimal
    is_ordinal: bool = False


@dataclass(slots=True)
class _Word:
    """A word as text2num asks for it."""

    word: str
    is_blocked: bool = False

    def text(self) -> str:
        return self.word

    def nt_separated(self, previous: _Word) -> bool:
        return False

    def not_a_number_part(self) -> bool:
        return self.is_blocked


@lru_cache(1 << 16)
def _is_number_word(word: str, language: str) -> bool:
    return bool(find_numbers([_Word(word)], language, 0.0))


_DIGITS = re.compile(
    r"[$€£#]?([+-]?)(\d{1,3}(?:[.,]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?)(st|nd|rd|th|º|ª)?[%€°]?"
)
_SCALES = {Decimal(10**power) for power in (2, 3, 6, 9, 12)}
_SCALE_WORDS = ("hundred", "thousand", "million", "billion", "milliarde")


def _numbers(words: Sequence[str], language: LanguagePatterns) -> list[_Number]:
    """Numbers in digits and in words from left to right, none overlapping another; then ordinals that are words too."""
    found: dict[int, _Number] = {}
    for at, word in enumerate(words):
        if word[-1:].isdigit() or word[:1].isdigit() or word[1:2].isdigit():
            match = _DIGITS.fullmatch(word)
            if match and (value := _decimal(match[2], language.decimal_mark)) is not None:
                found[at] = _Number(
                    at, at + 1, -value if match[1] == "-" else value, match[3] is not None
                )
    if any(_is_number_word(word, language.code) for word in words):
        _add_number_words(found, words, language)
    ordinals = []
    if not language.kept_words.isdisjoint(words):
        spelled = find_numbers([_Word(word) for word in words], language.code, 0.0)
        ordinals = [
            each
            for each in spelled
            if each.is_ordinal and words[each.end - 1] in language.kept_words
        ]
    return [
        *(found[start] for start in sorted(found)),
        *(_Number(each.start, each.end, Decimal(int(each.value)), True) for each in ordinals),
    ]


def _add_number_words(
    found: dict[int, _Number], words: Sequence[str], language: LanguagePatterns
) -> None:
    blocked = language.kept_words | language.not_numbers
    pairs = zip(("", *words), words, strict=False)
    asked = [_Word(word, word in blocked or f"{left} {word}" in blocked) for left, word in pairs]
    for each in find_numbers(asked, language.code, 0.0):
        value = (
            Decimal(each.text.replace(",", "."))
            if not each.is_ordinal
            else Decimal(int(each.value))
        )
        number = _Number(each.start, each.end, value, each.is_ordinal)
        before = found.get(each.start - 1)
        if (
            before and not before.is_ordinal and value in _SCALES and each.end == each.start + 1
        ):  # 2 million
            number = _Number(before.start, each.end, before.value * value)
        elif (
            each.start
            and words[each.start] in _SCALE_WORDS
            and words[each.start - 1] in ("a", "eine")
        ):  # a hundred
            number = _Number(each.start - 1, each.end, value)
        found[number.start] = number


def _decimal(digits: str, mark: str) -> Decimal | None:
    """The value of digits; a mark before exactly three digits separates thousands unless the language says otherwise.

    >>> _decimal("1,000", "."), _decimal("3,5", ","), _decimal("1.000,5", ",")
    (Decimal('1000'), Decimal('3.5'), Decimal('1000.5'))
    """
    other = "," if mark == "." else "."
    if re.fullmatch(rf"\d{{1,3}}(?:[{other}]\d{{3}})+(?:[{mark}]\d+)?", digits):
        return Decimal(digits.replace(other, "").replace(mark, "."))
    return Decimal(digits.replace(",", ".")) if len(re.findall("[.,]", digits)) < 2 else None


def _plain(value: Decimal) -> str:
    """
    >>> _plain(Decimal("35.0")), _plain(Decimal("1E+3")), _plain(Decimal("0.50"))
    ('35', '1000', '0.5')
    """
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def number_fields(value: Decimal) -> Fields:
    plain = _plain(value)
    fields: Fields = {"number": plain, "decimal": plain if "." in plain else f"{plain}.0"}
    return fields | {"fraction": _plain(value / 100), "grouped": f"{value:,f}"}


def _suffix(number: int) -> str:
    return (
        "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    )


def _in_digits(
    words: Sequence[str], numbers: Iterable[_Number]
) -> tuple[Sequence[str], Sequence[int]]:
    """Words with numbers as digits; and for each of these pieces its first word, with one more for the end.

    >>> _in_digits(("half", "past", "twenty", "one"), [_Number(2, 4, Decimal(21))])
    (['half', 'past', '21'], [0, 1, 2, 4])
    """
    spelled = {each.start: each for each in numbers if each.value >= 0}
    if not spelled:
        return words, range(len(words) + 1)
    pieces, places, at = list[str](), [0], 0
    while at < len(words):
        piece, after = words[at], at + 1
        if (number := spelled.get(at)) and (
            number.end > after or piece.isalpha() or number.is_ordinal
        ):
            piece, after = _plain(number.value) + ("th" if number.is_ordinal else ""), number.end
        pieces.append(piece)
        places.append(at := after)
    return pieces, places


@dataclass(frozen=True)
class ValueReader:
    """Finds values of the given kinds in sentences of one language."""

    language: LanguagePatterns
    kinds: frozenset[str]

    @classmethod
    def of(cls, language: str, kinds: Iterable[str]) -> ValueReader:
        return cls(LANGUAGES[language], frozenset(kinds))

    def readings(self, words: Sequence[str], today: date | None = None) -> Iterator[ValueReading]:
        """All readings of words in lower case, overlapping ones included."""
        if not self.kinds:
            return
        numbers = _numbers(words, self.language)
        if "number" in self.kinds or "ordinal" in self.kinds:
            yield from self._number_readings(words, numbers)
        kept = self.language.kept_words
        pieces, places = _in_digits(
            words, [each for each in numbers if words[each.end - 1] not in kept]
        )
        if found := self.matches(" ".join(pieces)):
            starts = dict(
                zip(
                    accumulate((len(piece) + 1 for piece in pieces), initial=0), places, strict=True
                )
            )
            for pattern, match in found:
                start, end = (
                    starts.get(match.start()),
                    starts.get(match.end() + 1),
                )  # a space before the next piece
                if start is not None and end is not None:
                    fields = pattern.read(match.groupdict(), self.language, today)
                    if fields is not None:
                        yield ValueReading(start, end, pattern.kind, fields)

    def matches(self, text: str) -> list[tuple[_Pattern, re.Match[str]]]:
        """What each pattern finds, from left to right; one search tells where any of them matches."""
        patterns, beginning = value_patterns(self.language.code, self.kinds)
        places, found = (
            [match.start() for match in beginning.finditer(text)],
            list[tuple[_Pattern, re.Match[str]]](),
        )
        for pattern in patterns if places else ():
            end = 0
            for place in places:
                if place >= end and (match := pattern.expression.match(text, place)):
                    end = match.end()
                    found.append((pattern, match))
        return found

    def _number_readings(
        self, words: Sequence[str], numbers: Sequence[_Number]
    ) -> Iterator[ValueReading]:
        ends = {number.end for number in numbers}
        for number in numbers:
            if number.is_ordinal:
                if "ordinal" in self.kinds:
                    value = int(number.value)
                    fields: Fields = {
                        "number": str(value),
                        "suffix": _suffix(value),
                        "index": str(value - 1),
                    }
                    yield ValueReading(number.start, number.end, "ordinal", fields)
                continue
            if "number" not in self.kinds:
                continue
            yield ValueReading(number.start, number.end, "number", number_fields(number.value))
            before = number.start - 1
            if (
                before >= 0
                and words[before] in ("-", "−", *self.language.minus)
                and before not in ends
            ):
                yield ValueReading(before, number.end, "number", number_fields(-number.value))


Groups = dict[str, str | None]


def _time(groups: Groups, language: LanguagePatterns, today: date | None) -> Fields | None:
    if groups.get("noon") or groups.get("midnight"):
        hour, minute = (12 if groups.get("noon") else 0), 0
        return _clock(hour, minute, 0, "pm" if hour else "am")
    hour, minute, second = (
        int(groups["h"] or 0),
        int(groups.get("m") or 0),
        int(groups.get("s") or 0),
    )
    part = groups.get("part")
    minutes = 0 if part is None else language.parts[part] if part in language.parts else int(part)
    total = hour * 60 + minute + (-minutes if groups.get("to") else minutes)
    before = (groups.get("before") or "").strip()
    total -= {"halb": 30, "viertel": 45, "dreiviertel": 15}.get(before, 0)
    if minutes >= 60 or (part is not None and hour > 12 and not part.isdigit()):
        return None
    if total < 60 and hour <= 12 and (before or part):  # quarter to one
        total += 12 * 60
    half = "am" if groups.get("am") else "pm" if groups.get("pm") else None
    if half and total >= 13 * 60:
        return None
    return _clock(total // 60, total % 60, second, half)


def _clock(hour: int, minute: int, second: int, half: str | None) -> Fields:
    """The fields of a time as it was said: 7 in the evening is 19 of 24 hours, 7 without a half of the day stays 7."""
    hour24 = hour % 12 + (12 if half == "pm" else 0) if half else hour % 24
    hour12 = hour % 12 or 12
    if half is None and (hour > 12 or hour == 0):
        half = "pm" if hour24 >= 12 else "am"
    fields: Fields = {"h": hour, "h24": hour24, "h12": hour12, "m": minute, "s": second}
    fields["short"] = f"{hour}:{minute:02}" if minute else str(hour)
    fields["short12"] = f"{hour12}:{minute:02}" if minute else str(hour12)
    if half:
        fields |= {
            "am": half,
            "AM": half.upper(),
            " am": f" {half}",
            " AM": f" {half.upper()}",
            " a_m": f" {half[0]}.m.",
        }
    return fields


def _date(groups: Groups, language: LanguagePatterns, today: date | None) -> Fields | None:
    fields: Fields = {}
    resolved: date | None = None
    if month := groups.get("month"):
        number = int(month) if month.isdigit() else _position(month, language.months) + 1
        fields |= {"month": number, **_names("month", number - 1, "months")}
        day, year = groups.get("d"), groups.get("y")
        fields |= {"d": int(day), "suffix": _suffix(int(day))} if day else {}
        fields |= {"y": int(year)} if year else {}
        try:
            if day and year:
                resolved = date(int(year), number, int(day))
                fields["iso"] = resolved.isoformat()
            elif day and today:  # the next one
                resolved = date(today.year, number, int(day))
                resolved = resolved if resolved >= today else date(today.year + 1, number, int(day))
        except ValueError:  # 31 february
            return None
    elif weekday := groups.get("weekday"):
        number = _position(weekday, language.weekdays)
        fields |= _names("weekday", number, "weekdays")
        if today:
            resolved = today + timedelta((number - today.weekday() - 1) % 7 + 1)
    elif day_name := groups.get("day"):
        ahead = language.days[day_name]
        names = {
            code: next(name for name, days in each.days.items() if days == ahead)
            for code, each in LANGUAGES.items()
            if ahead in each.days.values()
        }
        fields |= {f"day_{code}": name for code, name in names.items()}
        resolved = today + timedelta(ahead) if today else None
    elif ahead_count := groups.get("ahead"):
        resolved = today + timedelta(int(ahead_count)) if today and len(ahead_count) < 6 else None
    if resolved:
        fields["resolved"] = resolved.isoformat()
    return fields


def _position(word: str, names: str) -> int:
    return next(at for at, spellings in enumerate(names.split()) if word in spellings.split("|"))


def _names(field: str, position: int, table: str) -> Fields:
    """The name in every language: a German sentence may have an English program."""
    names = {
        code: getattr(each, table).split()[position].split("|")[0]
        for code, each in LANGUAGES.items()
    }
    return {f"{field}_{code}": name for code, name in names.items()} | {
        f"{field.title()}_{code}": name.title() for code, name in names.items()
    }


_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_COUNTS = {
    "zwei": 2,
    "drei": 3,
    "vier": 4,
    "fünf": 5,
    "sechs": 6,
}  # in front of `einhalb`; articles count 1
_ENGLISH_UNITS = {"s": "second", "min": "minute", "h": "hour", "d": "day", "w": "week"}


def _duration(groups: Groups, language: LanguagePatterns, today: date | None) -> Fields | None:
    parts: list[tuple[Decimal, str]] = []
    for number in ("", "2", "3"):
        if word := groups.get(f"unit{number}"):
            unit = next(
                unit for unit, spellings in language.units.items() if word in spellings.split("|")
            )
            said = groups.get(f"count{number}") or "0"
            parts.append(
                (Decimal(said) if said[0].isdigit() else Decimal(_COUNTS.get(said, 1)), unit)
            )
    shares = {"half": "0.5", "quarter": "0.25", "three_quarters": "0.75", "one_and_half": "1.5"}
    count, unit = parts[0]
    count += sum((Decimal(share) for name, share in shares.items() if groups.get(name)), Decimal(0))
    parts[0] = count, unit
    seconds = sum((each * _SECONDS[unit] for each, unit in parts), Decimal(0))
    fields: Fields = {"seconds": _plain(seconds), "iso": _iso_duration(seconds)}
    fields |= {
        name: _plain(seconds / of)
        for name, of in (("minutes", 60), ("hours", 3600))
        if seconds % of == 0
    }
    if len(parts) == 1:
        word = _ENGLISH_UNITS[unit] + ("s" if count != 1 else "")
        fields |= {"count": _plain(count), "unit": word, "letter": unit[0]}
    return fields


def _iso_duration(seconds: Decimal) -> str:
    """
    >>> _iso_duration(Decimal(5400)), _iso_duration(Decimal(86400)), _iso_duration(Decimal("0.5"))
    ('PT1H30M', 'P1D', 'PT0.5S')
    """
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    time = "".join(
        f"{_plain(count)}{unit}"
        for count, unit in ((hours, "H"), (minutes, "M"), (rest, "S"))
        if count
    )
    return (
        f"P{f'{_plain(days)}D' if days else ''}{f'T{time}' if time else ''}" if seconds else "PT0S"
    )


@dataclass(frozen=True, slots=True)
class _Pattern:
    kind: str
    expression: re.Pattern[str]
    read: Callable[[Groups, LanguagePatterns, date | None], Fields | None]


@cache
def value_patterns(
    code: str, kinds: frozenset[str]
) -> tuple[tuple[_Pattern, ...], re.Pattern[str]]:
    """A language's patterns of some kinds, its words in them, and an expression for where any of them begins.

    Of one kind, those that come first have the better reading.
    """
    language = LANGUAGES[code]
    words = {
        "part": language.parts,
        "unit": language.units.values(),
        "month": language.months.split(),
        "weekday": language.weekdays.split(),
        "day": sorted(language.days, key=len, reverse=True),
    }

    def completed(pattern: str) -> str:
        for name, options in words.items():
            pattern = re.sub(rf"(?<!\(\?P)<{name}>", "|".join(options), pattern)
        return rf"(?:{pattern})(?!\w)"

    tables = (
        ("time", language.times, _time),
        ("date", language.dates, _date),
        ("duration", language.durations, _duration),
    )
    found = [
        (kind, completed(pattern), read)
        for kind, patterns, read in tables
        if kind in kinds
        for pattern in patterns
    ]
    any_of = "|".join(re.sub(r"\(\?P<\w+>", "(?:", pattern) for _, pattern, _ in found) or "(?!)"
    patterns = tuple(
        _Pattern(kind, re.compile(rf"(?<!\w){pattern}"), read) for kind, pattern, read in found
    )
    return patterns, re.compile(rf"(?<!\w)(?={any_of})")
