r"""How English, German and Spanish say times, dates and durations: patterns over words in lower case.

Numbers are digits by then (`half past 6`), ordinals digits with `th` (`march 3th`). Groups are named after what they
hold: `h` hour, `m` minute, `s` second, a `part` of an hour `past` it or `to` it, `am` and `pm`; `y` year, `month`, `d`
day of the month, `weekday`, `day` (today and its neighbours), `ahead` (days from now); `count`, `unit` of a duration.
`<part>`, `<unit>`, `<month>`, `<weekday>` and `<day>` stand for any of the language's words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HOUR = r"(?P<h>[01]?\d|2[0-4])"
MINUTE = r"(?P<m>[0-5]\d)"
CLOCK = rf"{HOUR} ?[:h] ?{MINUTE}(?: ?: ?(?P<s>[0-5]\d))?"
YEAR, DAY, MONTH = r"(?P<y>\d{4})", r"(?P<d>0?[1-9]|[12]\d|3[01])", r"(?P<month>0?[1-9]|1[0-2])"
ISO_DATE = rf"{YEAR} ?- ?{MONTH} ?- ?{DAY}"
COUNT = r"(?P<count>\d{1,9}(?:\.\d{1,9})?"
AM, PM = r" ?a ?\.? ?m\b\.?", r" ?p ?\.? ?m\b\.?"


def _more_units(join: str) -> str:
    """Up to two further parts of a duration: `and 20 minutes`."""
    return "".join(
        rf"(?:(?: ?,)?(?: {join})? (?P<count{i}>\d{{1,9}}) ?(?P<unit{i}><unit>)\b)?" for i in (2, 3)
    )


@dataclass(frozen=True)
class LanguagePatterns:
    """Patterns of each kind, better readings first, and words; `|` separates the spellings of one word."""

    code: str
    times: tuple[str, ...]
    dates: tuple[str, ...]
    durations: tuple[str, ...]
    parts: Mapping[str, int]  # of an hour, in minutes
    months: str
    weekdays: str  # from Monday
    days: Mapping[str, int]  # today is 0
    units: Mapping[str, str]  # spellings of s, min, h, d, w
    minus: tuple[str, ...]
    kept_words: frozenset[str]  # that are words of patterns, though numbers too
    frequent_words: str  # by which the language is told from the others
    not_numbers: frozenset[str] = frozenset()  # though the library takes them for some
    decimal_mark: str = "."


_HALF = rf"(?:(?P<am>{AM}| in the morning)|(?P<pm>{PM}| in the (?:afternoon|evening)| at night))"
ENGLISH = LanguagePatterns(
    code="en",
    times=(
        rf"(?:a )?(?P<part><part>|\d\d?)(?: minutes?)? (?:(?P<past>past|after)|(?P<to>to|before|till)) {HOUR}{_HALF}?",
        rf"(?P<part>half) {HOUR}{_HALF}?",
        rf"{CLOCK}{_HALF}?",
        rf"{HOUR}(?: ?\. ?{MINUTE})?{_HALF}",
        rf"{HOUR} o ?'? ?clock{_HALF}?",
        rf"{HOUR} (?:(?:o|oh|0) )?(?P<m>[0-5]?\d){_HALF}?",
        r"(?P<noon>noon|midday)",
        r"(?P<midnight>midnight)",
        rf"(?:(?<=\bat )|(?<=\bby )|(?<=\buntil )|(?<=\bafter )|(?<=\bbefore )){HOUR}",
    ),
    dates=(
        ISO_DATE,
        rf"{MONTH} ?/ ?{DAY}(?: ?/ ?{YEAR})?",
        rf"(?P<month><month>) (?:the )?{DAY}(?:th)?\b(?! ?[:h])(?: ?,? {YEAR})?",
        rf"(?:the )?{DAY}(?:th)? (?:of )?(?P<month><month>)(?: ?,? {YEAR})?",
        rf"(?P<month><month>) {YEAR}",
        r"(?:(?:next|this|last|coming) )?(?P<weekday><weekday>)",
        r"(?P<day><day>)",
        r"in (?P<ahead>\d+) days?",
        r"(?:next|this|last) (?:week|weekend|month|year)",
    ),
    durations=(
        rf"{COUNT}|an?(?= )) (?P<unit><unit>) and a (?P<half>half)",
        rf"{COUNT}) and a (?P<half>half) (?P<unit><unit>)",
        r"(?P<half>half) an? (?P<unit><unit>)",
        r"(?:an? )?(?P<quarter>quarter) (?:of )?an (?P<unit>hour)",
        rf"{COUNT}|an?(?= )) ?-? ?(?P<unit><unit>)\b{_more_units('and')}",
    ),
    parts={"half": 30, "quarter": 15},
    months=(
        "january|jan february|feb march|mar april|apr may june|jun july|jul august|aug september|sept|sep "
        "october|oct november|nov december|dec"
    ),
    weekdays=(
        "monday|mon tuesday|tues|tue wednesday|wed thursday|thurs|thu friday|fri saturday|sat sunday|sun"
    ),
    days={"today": 0, "tonight": 0, "tomorrow": 1, "the day after tomorrow": 2, "yesterday": -1},
    units={
        "s": "seconds|second|secs|sec|s",
        "min": "minutes|minute|mins|min",
        "h": "hours|hour|hrs|hr|h",
        "d": "days|day",
        "w": "weeks|week",
    },
    minus=("minus", "negative"),
    kept_words=frozenset({"second"}),
    not_numbers=frozenset({"o", "oh"}),
    frequent_words="the of to in is what a and on me for my how which are that",
)

_HALF = r"(?:(?P<am> morgens| vormittags| früh| in der früh| am morgen)|(?P<pm> nachmittags| abends| am abend))?"
GERMAN = LanguagePatterns(
    code="de",
    times=(
        rf"(?P<part><part>|\d\d?)(?: minuten)? (?:(?P<past>nach)|(?P<to>vor)) (?P<before>halb )?{HOUR}(?: uhr)?{_HALF}",
        rf"(?P<before>halb|dreiviertel|viertel) {HOUR}{_HALF}",
        rf"{HOUR} ?[:.] ?{MINUTE}(?: ?: ?(?P<s>[0-5]\d))? ?uhr\b{_HALF}",
        rf"{HOUR} ?uhr(?: (?P<m>[0-5]?\d)(?! ?[:.]))?{_HALF}",
        CLOCK + _HALF,
        r"(?P<noon>mittags?)",
        r"(?P<midnight>mitternacht)",
        rf"(?:(?<=\bum )|(?<=\bab )|(?<=\bbis )|(?<=\bvor )|(?<=\bnach )){HOUR}",
    ),
    dates=(
        ISO_DATE,
        rf"{DAY} ?\. ?{MONTH}(?: ?\.(?: ?{YEAR})?)?",
        rf"{DAY}(?: ?\.|th)? (?P<month><month>)(?: {YEAR})?",
        rf"(?P<month><month>) {YEAR}",
        r"(?:(?:nächste|diese|kommende|letzte)[nrm]? )?(?P<weekday><weekday>)",
        r"(?P<day><day>)",
        r"in (?P<ahead>\d+) tage?n?",
        r"(?:nächste|diese|letzte|kommende)[nrsm]? (?:woche|wochenende|monat|jahr)",
    ),
    durations=(
        r"(?P<one_and_half>anderthalb|eineinhalb) (?P<unit><unit>)",
        r"(?P<count>zwei|drei|vier|fünf|sechs)(?P<half>einhalb) (?P<unit><unit>)",
        r"(?:einer? )?(?P<half>halben?) (?P<unit><unit>)",
        r"(?:einer? )?(?P<three_quarters>dreiviertel) ?(?P<unit>stunde)",
        r"(?:einer? )?(?P<quarter>viertel) ?(?P<unit>stunde)",
        rf"{COUNT}|eine[rn]?(?= )) ?(?P<unit><unit>)\b{_more_units('und')}",
    ),
    parts={"viertel": 15},
    months=(
        "januar|jänner|jan februar|feb märz april mai juni juli august september oktober november dezember"
    ),
    weekdays=(
        "montag|montags dienstag|dienstags mittwoch|mittwochs donnerstag|donnerstags freitag|freitags "
        "samstag|samstags|sonnabend sonntag|sonntags"
    ),
    days={
        "heute": 0,
        "heute abend": 0,
        "morgen": 1,
        "übermorgen": 2,
        "gestern": -1,
        "vorgestern": -2,
    },
    units={
        "s": "sekunden|sekunde|sek|s",
        "min": "minuten|minute|min",
        "h": "stunden|stunde|std|h",
        "d": "tagen|tage|tag",
        "w": "wochen|woche",
    },
    minus=("minus",),
    kept_words=frozenset({"viertel", "halb", "halbe", "dreiviertel"}),
    frequent_words="der die das und ist in den auf im mit ein eine von zu für wie was",
    decimal_mark=",",
)

_HALF = rf"(?:(?P<am>{AM}| de la mañana| de la madrugada)|(?P<pm>{PM}| de la tarde| de la noche))"
SPANISH = LanguagePatterns(
    code="es",
    times=(
        rf"{HOUR} (?:(?P<past>y)|(?P<to>menos)) (?P<part><part>|\d\d?)(?: minutos)?{_HALF}?",
        rf"{CLOCK}{_HALF}?",
        rf"{HOUR} ?\. ?{MINUTE}{_HALF}?",
        rf"{HOUR}(?:{_HALF}| en punto| horas)",
        r"(?P<noon>mediodía|mediodia)",
        r"(?P<midnight>medianoche)",
        rf"(?:(?<=\blas )|(?<=\bla )){HOUR}",
    ),
    dates=(
        ISO_DATE,
        rf"{DAY} ?/ ?{MONTH}(?: ?/ ?{YEAR})?",
        rf"{DAY}(?:th)? de (?P<month><month>)(?: del? {YEAR})?",
        rf"(?P<month><month>) del? {YEAR}",
        r"(?:(?:próximo|este|pasado) )?(?P<weekday><weekday>)(?: (?:próximo|que viene))?",
        r"(?P<day><day>)",
        r"(?:en|dentro de) (?P<ahead>\d+) días?",
        r"(?:la próxima|esta) semana|la semana que viene",
    ),
    durations=(
        rf"{COUNT}|una?(?= )) (?P<unit><unit>) y (?P<half>media|medio)",
        r"(?P<half>media|medio) (?P<unit><unit>)",
        r"(?:un )?(?P<quarter>cuarto) de (?P<unit>hora)",
        rf"{COUNT}|una?(?= )) ?(?P<unit><unit>)\b{_more_units('y')}",
    ),
    parts={"media": 30, "cuarto": 15},
    months=(
        "enero febrero marzo abril mayo junio julio agosto septiembre|setiembre octubre noviembre diciembre"
    ),
    weekdays=("lunes martes miércoles|miercoles jueves viernes sábado|sabado domingo"),
    days={"hoy": 0, "esta noche": 0, "mañana": 1, "pasado mañana": 2, "ayer": -1, "anteayer": -2},
    units={
        "s": "segundos|segundo|s",
        "min": "minutos|minuto|min",
        "h": "horas|hora|h",
        "d": "días|día",
        "w": "semanas|semana",
    },
    minus=("menos",),
    kept_words=frozenset({"segundo", "cuarto", "media", "medio"}),
    not_numbers=frozenset({"por ciento"}),
    frequent_words="el la de los las que y en un una es por del a con para",
    decimal_mark=",",
)
LANGUAGES = {language.code: language for language in (ENGLISH, GERMAN, SPANISH)}
