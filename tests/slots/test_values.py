"""Numbers, times, dates and durations in English, German and Spanish."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.slots.values import (
    FORMS,
    LANGUAGES,
    format_value,
    pattern_matches,
    value_patterns,
    value_readings,
)

KINDS = frozenset(FORMS)
MONDAY = date(2026, 11, 16)


def found(code: str, kind: str, sentence: str, form: str) -> dict[str, str | None]:
    """Every reading of a kind in a form, by its words."""
    words = sentence.split()
    folded = [word.casefold() for word in words]
    readings = [
        each
        for each in value_readings(folded, code, KINDS, MONDAY)
        if each.kind == kind
    ]
    return {
        " ".join(words[each.start : each.end]): format_value(form, each.fields)
        for each in reversed(readings)
    }


@pytest.mark.parametrize(
    ("code", "sentence", "expected"),
    [
        ("en", "dim it to thirty five percent", {"thirty five": "35"}),
        (
            "en",
            "from 1,000.5 to 2 million",
            {"1,000.5": "1000.5", "2 million": "2000000"},
        ),
        ("en", "a hundred and one dalmatians", {"a hundred and one": "101"}),
        (
            "en",
            "minus twenty or -5 or - 5",
            {"twenty": "20", "minus twenty": "-20", "-5": "-5", "5": "5", "- 5": "-5"},
        ),
        ("en", "between 3 - 5", {"3": "3", "5": "5"}),
        ("en", "35% and $20", {"35%": "35", "$20": "20"}),
        ("en", "the second of one second", {"one": "1"}),
        ("en", "flight ab123 and 1.2.3", {}),
        (
            "de",
            "auf einundzwanzig Komma fünf oder 21,5 Grad",
            {"einundzwanzig Komma fünf": "21.5", "21,5": "21.5"},
        ),
        (
            "de",
            "dreihundertfünfundzwanzig und 1.000",
            {"dreihundertfünfundzwanzig": "325", "1.000": "1000"},
        ),
        ("es", "al treinta y cinco por ciento", {"treinta y cinco": "35"}),
        ("es", "menos veinte", {"veinte": "20", "menos veinte": "-20"}),
    ],
)
def test_numbers_are_read_in_digits_and_in_words(
    code: str, sentence: str, expected: dict[str, str]
) -> None:
    assert found(code, "number", sentence, "{number}") == expected


SMALL = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen",
    "de": "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis "
    "diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis "
    "veintisiete veintiocho veintinueve",
}
TENS = {
    "en": "twenty thirty forty fifty sixty seventy eighty ninety",
    "de": "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "es": "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
}
HUNDREDS = "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos"


def spelled(number: int, code: str) -> str:
    """A number in words, by the rules of the schoolbook."""
    small = SMALL[code].split()
    if number < len(small):
        return small[number]
    if number < 100:
        tens, ones = TENS[code].split()[number // 10 - 2], number % 10
        if not ones:
            return tens
        german = f"{'ein' if ones == 1 else small[ones]}und{tens}"
        return {
            "en": f"{tens} {small[ones]}",
            "de": german,
            "es": f"{tens} y {small[ones]}",
        }[code]
    if number < 1000:
        rest = number % 100
        hundreds = "hundert" if number < 200 else f"{small[number // 100]}hundert"
        after = spelled(rest, code) if rest else ""
        if code == "de":
            return hundreds + after
        if code == "es":
            return (
                "cien"
                if number == 100
                else f"{HUNDREDS.split()[number // 100 - 1]} {after}".strip()
            )
        return f"{small[number // 100]} hundred{' and ' if rest else ''}{after}"
    thousands, rest = divmod(number, 1000)
    after = spelled(rest, code) if rest else ""
    if code == "de":
        return f"{'ein' if thousands == 1 else spelled(thousands, code)}tausend{after}"
    if code == "es":
        return f"{'mil' if thousands == 1 else spelled(thousands, code) + ' mil'} {after}".strip()
    return f"{spelled(thousands, code)} thousand {after}".strip()


@given(st.integers(0, 9999), st.sampled_from(sorted(SMALL)))
def test_a_number_in_words_is_the_number_that_is_spelled_so(
    number: int, code: str
) -> None:
    words = spelled(number, code)
    assert found(code, "number", words, "{number}").get(words) == str(number)


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, min_value=0, max_value=10**9, places=2
    )
)
def test_digits_are_read_as_they_stand(number: Decimal) -> None:
    text = f"{number:f}"
    (value,) = found("en", "number", text, "{number}").values()
    assert value is not None
    assert Decimal(value) == number
    assert found("de", "number", text.replace(".", ","), "{number}") == {
        text.replace(".", ","): value
    }


@pytest.mark.parametrize(
    ("code", "sentence", "expected"),
    [
        ("en", "half past six", "06:30"),
        ("en", "quarter to nine", "08:45"),
        ("en", "a quarter past twelve", "12:15"),
        ("en", "twenty five to seven pm", "18:35"),
        ("en", "7:30 am", "07:30"),
        ("en", "7:30pm", "19:30"),
        ("en", "7 p.m.", "19:00"),
        ("en", "12 am", "00:00"),
        ("en", "seven thirty in the evening", "19:30"),
        ("en", "ten oh five", "10:05"),
        ("en", "eight o'clock", "08:00"),
        ("en", "noon", "12:00"),
        ("en", "midnight", "00:00"),
        ("en", "19:30", "19:30"),
        ("de", "19 uhr", "19:00"),
        ("de", "neunzehn uhr dreißig", "19:30"),
        ("de", "halb acht", "07:30"),
        ("de", "halb eins", "12:30"),
        ("de", "fünf vor halb sieben", "06:25"),
        ("de", "viertel vor sieben abends", "18:45"),
        ("de", "dreiviertel acht", "07:45"),
        ("de", "7.30 uhr", "07:30"),
        ("es", "siete y media", "07:30"),
        ("es", "7 y cuarto", "07:15"),
        ("es", "nueve menos veinte de la noche", "20:40"),
        ("es", "mediodía", "12:00"),
    ],
)
def test_times_are_read(code: str, sentence: str, expected: str) -> None:
    assert found(code, "time", sentence, "{h24:02}:{m:02}")[sentence] == expected


UNAMBIGUOUS = [
    form
    for form in FORMS["time"]
    if ":{m" in form and ("{h12" not in form or form.endswith(("m}", "M}")))
]


@given(st.integers(0, 23), st.integers(0, 59), st.sampled_from(UNAMBIGUOUS))
def test_a_time_that_a_form_wrote_is_read_as_itself(
    hour: int, minute: int, form: str
) -> None:
    half = "am" if hour < 12 else "pm"
    halves = {
        "am": half,
        "AM": half.upper(),
        " am": f" {half}",
        " AM": f" {half.upper()}",
        " a_m": f" {half[0]}.m.",
    }
    text = form.format(h=hour, h24=hour, h12=hour % 12 or 12, m=minute, s=0, **halves)
    assert (
        found("en", "time", text, "{h24:02}:{m:02}").get(text)
        == f"{hour:02}:{minute:02}"
    )


@pytest.mark.parametrize(
    ("code", "sentence", "expected"),
    [
        ("en", "2026-11-15", "2026-11-15"),
        ("en", "march 3rd", "2027-03-03"),
        ("en", "the third of march 2028", "2028-03-03"),
        ("en", "12/24", "2026-12-24"),
        ("en", "tomorrow", "2026-11-17"),
        ("en", "friday", "2026-11-20"),
        ("en", "in three days", "2026-11-19"),
        ("de", "3. märz", "2027-03-03"),
        ("de", "24.12.2026", "2026-12-24"),
        ("de", "übermorgen", "2026-11-18"),
        ("de", "nächsten freitag", "2026-11-20"),
        ("es", "24 de diciembre", "2026-12-24"),
        ("es", "mañana", "2026-11-17"),
    ],
)
def test_dates_are_resolved_where_a_day_is_given(
    code: str, sentence: str, expected: str
) -> None:
    assert found(code, "date", sentence, "{resolved}")[sentence] == expected


def test_without_a_day_nothing_is_resolved() -> None:
    assert all(
        "resolved" not in each.fields
        for each in value_readings(["tomorrow", "or", "friday"], "en", KINDS)
    )


def test_a_date_that_the_calendar_lacks_is_none() -> None:
    assert found("en", "date", "february 31", "{month}") == {}


def test_names_of_days_are_known_in_the_languages_of_programs() -> None:
    assert found("de", "date", "am samstag", "{weekday_en}") == {"samstag": "saturday"}
    assert found("de", "date", "morgen", "{day_en}") == {"morgen": "tomorrow"}


@pytest.mark.parametrize(
    ("code", "sentence", "expected"),
    [
        ("en", "20 minutes", "PT20M"),
        ("en", "an hour and a half", "PT1H30M"),
        ("en", "two and a half hours", "PT2H30M"),
        ("en", "half an hour", "PT30M"),
        ("en", "1 hour and 20 minutes", "PT1H20M"),
        ("en", "2h", "PT2H"),
        ("en", "three days", "P3D"),
        ("de", "anderthalb stunden", "PT1H30M"),
        ("de", "zweieinhalb stunden", "PT2H30M"),
        ("de", "einer halben stunde", "PT30M"),
        ("de", "3 minuten und 30 sekunden", "PT3M30S"),
        ("es", "una hora y media", "PT1H30M"),
        ("es", "veinte minutos", "PT20M"),
    ],
)
def test_durations_are_read(code: str, sentence: str, expected: str) -> None:
    assert found(code, "duration", sentence, "{iso}")[sentence] == expected


def test_an_article_is_a_word_of_its_own() -> None:
    assert found("en", "duration", "fast as a shark", "{iso}") == {}


def test_ordinals_are_numbers_with_a_place() -> None:
    assert found("en", "ordinal", "the twenty first and 3rd", "{number}{suffix}") == {
        "twenty first": "21st",
        "3rd": "3rd",
    }
    assert found("de", "ordinal", "der dritte", "{index}") == {"dritte": "2"}


@given(
    st.lists(
        st.text(st.characters(blacklist_categories=("Z", "C")), min_size=1), max_size=8
    )
)
def test_any_words_can_be_read(words: list[str]) -> None:
    for code in LANGUAGES:
        for reading in value_readings([word.casefold() for word in words], code, KINDS):
            assert 0 <= reading.start < reading.end <= len(words)


SAID = (
    "at 7 6 7:30 20 half past quarter to pm in the morning on 3th march 2027 - 03 12 monday next tomorrow for a an and "
    "minutes hour noon um halb viertel nach uhr übermorgen stunden . / a las y media de la tarde mañana horas ahead"
)


@given(
    st.lists(st.sampled_from(SAID.split()), max_size=9), st.sampled_from([*LANGUAGES])
)
def test_one_search_finds_what_each_pattern_finds_alone(
    words: list[str], code: str
) -> None:
    text = " ".join(words)
    patterns, _ = value_patterns(code, KINDS)
    expected = [
        (kind, match.span())
        for kind, pattern in patterns
        for match in pattern.finditer(text)
    ]
    assert [
        (kind, match.span()) for kind, match in pattern_matches(text, code, KINDS)
    ] == expected
