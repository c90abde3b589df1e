"""Several commands in one sentence: how programs write a sequence of calls, and where a sentence
may be divided.

    turn off the lights and close the blinds  →  turn_off(lights); close(blinds)

A sentence is divided into *clauses* at connectives ("and", "then", commas). A command is one clause
or several that are neighbours: "play rock and roll" has two clauses and is one command. Which
clauses belong together is decided by those who read the commands (`nqg.inference.sequences`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Literal, NamedTuple, Protocol

from nqg.errors import SettingsError
from nqg.text.programs import atoms

SequenceSetting = Literal["auto", "allow", "forbid"]

# A bound of work: every run of neighbouring clauses may be a command, and 7 clauses have 28 runs.
MAX_CLAUSES = 7
# Conditions of a query are written with commas, too, so that alone they show no sequence.
COMMA = ","
SHOWN_OF_PROGRAM = 80

_CALLED_NAME = r"\w[\w.:-]*(?:\s\.\s\w+)*"
# What stands before the bracket of a call: perhaps a separator, and the name.
_BEFORE_CALL = re.compile(rf"(\s*(?:;|&&|,|\n)\s*|)({_CALLED_NAME}\s*)")
_AFTER_CALLS = re.compile(r"\s*;?\s*")
_BEFORE_FIRST_CALL = re.compile(rf"{_CALLED_NAME}\s*\(")
# Marks that separate clauses without a connective.
_SEPARATING = re.compile(r";|[,.!?]\s")


@dataclass(frozen=True, slots=True)
class ConnectiveWords:
    """Words that divide sentences, words after which nothing is divided, and words that
    tell the language.
    """

    connectives: str
    # A clause that begins so says when, or that something is not meant.
    guards: str
    frequent_words: str


# Phrases are separated by "|".
CONNECTIVE_WORDS = {
    "en": ConnectiveWords(
        "and then|and also|and after that|and afterwards|and|then|also|after that|"
        "afterwards|as well as|plus",
        "not|don't|don’t|dont|do not|never|no|unless|if|when|whenever|while|until|till|"
        "before|after|except|without|only if",
        "the to is my of what turn set",
    ),
    "de": ConnectiveWords(
        "und dann|und danach|und auch|und anschließend|und außerdem|und|dann|danach|"
        "anschließend|außerdem|sowie",
        "nicht|nie|niemals|kein|keine|keinen|wenn|falls|sobald|solange|bevor|nachdem|bis|"
        "während|außer|ohne",
        "das der die den im ist ein mach",
    ),
    "fr": ConnectiveWords(
        "et puis|et ensuite|et après ça|et aussi|et|puis|ensuite|après ça|ainsi que",
        "pas|ne|n'|n’|non|jamais|si|s'il|s’il|quand|lorsque|avant|après|jusqu'à|jusqu’à|"
        "sauf|sans|à moins",
        "le les du dans est des une la",
    ),
    "es": ConnectiveWords(
        "y luego|y después|y también|y|luego|y entonces|entonces|además",
        "no|nunca|si|cuando|antes|después de|hasta|mientras|excepto|salvo|sin|a menos",
        "el los las del una es en la",
    ),
    "it": ConnectiveWords(
        "e poi|e dopo|e anche|e|ed|poi|dopodiché|inoltre",
        "non|mai|se|quando|prima|dopo|finché|mentre|eccetto|tranne|senza|a meno",
        "il gli della nel di che è la",
    ),
    "nl": ConnectiveWords(
        "en dan|en daarna|en ook|en|dan|daarna|vervolgens",
        "niet|nooit|geen|als|wanneer|zodra|voordat|nadat|voor|na|tot|tenzij|behalve|zonder",
        "de het een van zet op is doe",
    ),
    "pt": ConnectiveWords(
        "e depois|e então|e também|e|depois|então|em seguida",
        "não|nunca|se|quando|antes|depois de|até|enquanto|exceto|sem|a menos",
        "o os da do em uma na no",
    ),
}


# Negated verbs of English, with their apostrophe and without.
_NEGATED_VERB = re.compile(
    r"(?:ai|are|ca|could|did|do|does|had|has|have|is|might|must|need|should|was|were|wo|would)"
    r"n['’]?t|cannot"
)


@cache
def _single_guards() -> frozenset[str]:
    guards: set[str] = set()
    for language in CONNECTIVE_WORDS.values():
        guards.update(language.guards.split("|"))
    return frozenset(guard for guard in guards if " " not in guard)


def is_guard(word: str) -> bool:
    """Whether a word negates what is said, or makes it depend on something, in any of the languages.

    >>> [is_guard(word) for word in ("not", "cant", "nicht", "unless", "want")]
    [True, True, True, True, False]
    """
    return word in _single_guards() or _NEGATED_VERB.fullmatch(word) is not None


class CallSequence(NamedTuple):
    """The calls of a program, and what stands before, between and after them."""

    calls: tuple[str, ...]
    opening: str = ""
    separators: tuple[str, ...] = ()
    closing: str = ""


@dataclass(frozen=True, slots=True)
class SequenceFormat:
    """How programs write several commands, and the language whose connectives divide
    sentences.

    >>> SequenceFormat().join(["on(lamp)", "off(fan)"])
    'on(lamp); off(fan)'
    >>> SequenceFormat("[", ", ", "]").join(['{"name": "on"}', '[{"name": "off"}]'])
    '[{"name": "on"}, {"name": "off"}]'
    """

    opening: str = ""
    separator: str = "; "
    closing: str = ""
    language: str = "en"

    def __post_init__(self) -> None:
        if self.language not in CONNECTIVE_WORDS:
            expected = f"expected one of {', '.join(CONNECTIVE_WORDS)}"
            raise SettingsError(f"the language is '{self.language}'; {expected}")

    def __str__(self) -> str:
        """
        >>> str(SequenceFormat(separator=" && "))
        "'… && …', language = en"
        """
        shown = f"{self.opening}…{self.separator}…{self.closing}"
        return f"{shown!r}, language = {self.language}"

    def join(self, programs: Iterable[str]) -> str:
        """The program of several commands, of which each `is_command`."""
        calls = chain.from_iterable(self.commands(program) for program in programs)
        return f"{self.opening}{self.separator.join(calls)}{self.closing}"

    def is_command(self, program: str) -> bool:
        """Whether a program may be part of a sequence; a bare name may not.

        >>> [SequenceFormat().is_command(program) for program in ("on(lamp)", "lamp")]
        [True, False]
        """
        return bool(self.commands(program))

    def commands(self, program: str) -> tuple[str, ...]:
        """The commands of a program, in their order; none where it is not a sequence of calls."""
        if self.opening:
            return json_calls(program).calls
        return code_calls(program).calls

    def clauses(self, sentence: str) -> list[tuple[int, int]]:
        """Where the clauses of a sentence begin and end.

        There is only one, if the sentence has no connective or too many, or if a clause
        begins with a negation or a condition.

        >>> sentence = "Turn off the lights, then close the blinds and play rock and roll"
        >>> [sentence[start:end] for start, end in SequenceFormat().clauses(sentence)]
        ['Turn off the lights', 'close the blinds', 'play rock', 'roll']
        >>> len(SequenceFormat().clauses("turn on the light and not the fan"))
        1
        """
        boundary, guard = _patterns(self.language)
        spans, start = [], 0
        for match in boundary.finditer(sentence):
            # A quotation is never divided, and single spaces or marks inside of numbers
            # separate nothing.
            marks = match["marks"]
            if marks is None or not (match["connectives"] or _SEPARATING.search(marks)):
                continue
            spans.append((start, match.start()))
            start = match.end()
        whole = [(0, len(sentence))]
        if not spans:
            return whole
        spans.append((start, len(sentence)))
        clauses = []
        for start, end in spans:
            if sentence[start:end].strip(" \t\n,;.!?"):
                clauses.append((start, end))
                if guard.match(sentence, start):
                    return whole
        return clauses if 1 < len(clauses) <= MAX_CLAUSES else whole


@cache
def _patterns(code: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Quotations and what may stand between clauses; the guards at the beginning of a clause.

    No expression begins in the middle of a run of marks, so that long runs take linear time.
    """
    language = CONNECTIVE_WORDS[code]
    quotation = r'"[^"]*"|“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»'
    marks = r"(?<![\s,;.!?])(?P<marks>[\s,;.!?]+)"
    connectives = rf"(?P<connectives>(?:(?:{_phrases(language.connectives)}),?\s+)*)"
    guard = rf"\s*(?:{_phrases(language.guards)})(?!\w)"
    boundary = rf"{quotation}|{marks}{connectives}"
    return re.compile(boundary, re.IGNORECASE), re.compile(guard, re.IGNORECASE)


def _phrases(listed: str) -> str:
    """An expression for phrases, of which the longest counts."""
    phrases = sorted(listed.split("|"), key=len, reverse=True)
    return "|".join(r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases)


def code_calls(program: str) -> CallSequence:
    """The calls of a program that is nothing but calls; none of another program.

    >>> code_calls("on(lamp); dim(room='a; b')")
    CallSequence(calls=('on(lamp)', "dim(room='a; b')"), opening='', separators=('; ',), closing='')
    >>> code_calls("1 + f(x)").calls
    ()
    """
    program = program.strip()
    # Most programs that are no calls need not be split into atoms.
    if not _BEFORE_FIRST_CALL.match(program) or not program.endswith((")", ";")):
        return CallSequence(())
    calls: list[str] = []
    separators: list[str] = []
    before, call, depth = "", "", 0
    for atom in atoms(program):
        text = atom.gap + atom.text
        if depth == 0 and atom.kind != "(":
            before += text
            continue
        if depth == 0:
            name = _BEFORE_CALL.fullmatch(before + atom.gap)
            if name is None or bool(name[1]) != bool(calls):
                return CallSequence(())
            separators.append(name[1])
            call, text, before = name[2], atom.text, ""
        call += text
        if atom.kind in ("(", "[", "{"):
            depth += 1
        elif atom.kind in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                calls.append(call)
    if depth or not _AFTER_CALLS.fullmatch(before):
        return CallSequence(())
    return CallSequence(tuple(calls), separators=tuple(separators[1:]))


def json_calls(program: str) -> CallSequence:
    """The objects of a program that is a JSON object or an array of them; none of another program.

    >>> json_calls('[{"a": 1}, {"b": 2}]')
    CallSequence(calls=('{"a": 1}', '{"b": 2}'), opening='[', separators=(', ',), closing=']')
    """
    program = program.strip()
    if not program.startswith(("{", "[")):
        return CallSequence(())
    try:
        parsed = json.loads(program)
    except (ValueError, RecursionError):
        return CallSequence(())
    if isinstance(parsed, dict):
        return CallSequence((program,))
    if not parsed or not all(isinstance(element, dict) for element in parsed):
        return CallSequence(())
    # The objects as they are written, and what stands around them.
    decoder, calls, around, end = json.JSONDecoder(), [], [], 0
    for _ in parsed:
        start = program.index("{", end)
        around.append(program[end:start])
        _, end = decoder.raw_decode(program, start)
        calls.append(program[start:end])
    return CallSequence(tuple(calls), around[0], tuple(around[1:]), program[end:])


def fit_sequences(
    sentences: Sequence[str],
    programs: Sequence[str],
    setting: SequenceSetting = "auto",
    *,
    is_spaced: bool = False,
) -> SequenceFormat | None:
    """How programs like these write sequences; None where a sentence holds one command.

    "auto" finds sequences only if programs show some. `is_spaced` says that spaces stand between
    all tokens of programs.

    >>> fit_sequences(["lamp on and fan off"], ["on(lamp) && off(fan)"]).separator
    ' && '
    >>> fit_sequences(["lamp on"], ["on(lamp)"]) is None
    True
    """
    if setting == "forbid":
        return None
    # The format of the sequences, if there are any.
    formats: Counter[tuple[str, str, str]] = Counter()
    kinds: Counter[str] = Counter()
    for program in programs:
        for kind, read in (("json", json_calls), ("code", code_calls)):
            sequence = read(program)
            kinds[kind] += bool(sequence.calls)
            if len(sequence.calls) > 1:
                formats[sequence.opening, sequence.separators[0], sequence.closing] += 1
    shown = min(formats, key=lambda written: (-formats[written], written), default=None)
    language = detected_language(sentences)
    if shown and (setting == "allow" or shown[0] or shown[1].strip() != COMMA):
        return SequenceFormat(*shown, language)
    if setting == "auto":
        return None
    # Without any, the format that suits single calls.
    if programs and not kinds.total():
        raise SettingsError(
            "sequence is 'allow', but no program of the training data is a call such as "
            f"on(lamp) or a JSON object; the first is '{programs[0]:.{SHOWN_OF_PROGRAM}}'; "
            'set it to "auto", or write programs as calls'
        )
    space = " " if is_spaced else ""
    if kinds["json"] > kinds["code"]:
        return SequenceFormat(f"[{space}", f"{space}, ", f"{space}]", language)
    return SequenceFormat("", f"{space}; ", "", language)


def detected_language(sentences: Iterable[str]) -> str:
    """The language whose frequent words are most frequent; English if none are.

    >>> detected_language(["Mach das Licht im Flur an"]), detected_language(["allume les lampes"])
    ('de', 'fr')
    """
    words = chain.from_iterable(sentence.lower().split() for sentence in sentences)
    return likeliest_language(words, CONNECTIVE_WORDS)


class _Language(Protocol):
    @property
    def frequent_words(self) -> str: ...


def likeliest_language(words: Iterable[str], languages: Mapping[str, _Language]) -> str:
    """The language whose frequent words are most frequent; the first if none are."""
    counts = Counter(words)

    def frequency(code: str) -> int:
        return sum(counts[word] for word in languages[code].frequent_words.split())

    return max(languages, key=frequency)
