"""The call reader: what a sentence means if it is one call, however it is worded.

A grammar reads sentences as training words them. The call reader knows less of language: which
words go with which function, and before, behind and inside of which words its arguments stand. All
other words may be missing, new, or in another order. It is a generative model of a few counts (naive
Bayes over words, a semi-Markov model over values), which a hundred sentences suffice for:

    p(function, constants) · p(arguments | function) · Π p(word | function) · Π p(value | argument) · context

Constants are values that no words of the sentence stand for. Its readings are proposals:
confidence, which folds of the training data teach, weighs them beside those of the grammar.

`benchmarks/call_reader.py` tries other values of the numbers on a fold of the training pairs of each
of fifteen datasets. Of 544 held-out sentences the likeliest reading of 339 is right. With half and
twice of each number it is that of 335 to 343; no number matters much.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import NamedTuple

from nqg.errors import SettingsError
from nqg.files import read_json, write_text
from nqg.settings_reader import read_dataclass
from nqg.slots.matcher import Mention
from nqg.text.sequences import is_guard

CALLS_FILE = "calls.json"  # in a model folder
# What is assumed of words that no sentence has: so many there may be.
VOCABULARY = 2000
# The words of a form are those of its function, until it has so many times as many of its own.
FORM_WEIGHT = 2.0
# What stands around a value: counts of the usual are worth so many, and odds are cut at so much.
CONTEXT_SMOOTHING = 2.0
MOST_CONTEXT = 3.0
BEHIND_WEIGHT = 0.7
# An argument is as often there as not, before so many calls of its function were seen twice.
USE_SMOOTHING = 0.3
# A value of a slot is one of so many; a word that resembles a known value means it so often.
SLOT_VALUES = 20.0
RESEMBLANCE = 0.3
# Below this share, values that occur once do not make it likely that the next one is new, unless
# it stands behind a word that training has before such values.
LEAST_NEW = 0.15
# What so many calls of a function have, all calls of it must have.
ENOUGH_CALLS = 3
# An unknown word is a new value rather than any other word.
NEW_WORD_ODDS = 4.0
# And a value is rather known than new, by so much more than training shows.
NEW_VALUE = 0.37
# Bounds of work, and what is not worth more of it: readings of log odds below.
BEAM = 30
READINGS = 3
MOST_COUNT = 1 << 40
LONGEST_REMEMBERED = 64
MOST_WORDS = 60
NEGLIGIBLE = 9.0
# Ends of a sentence and neighbouring values, as contexts, and how common they are.
BEGIN, END, VALUE = "<s>", "</s>", "<value>"
EDGE_SHARE = 0.15


def resembles(first: str, second: str) -> bool:
    """Whether two words are likely forms of one.

    >>> resembles("swim", "swimming"), resembles("squats", "squat"), resembles("on", "off")
    (True, True, False)
    """
    common = 0
    for left, right in zip(first, second):
        if left != right:
            break
        common += 1
    longer, shorter = max(len(first), len(second)), min(len(first), len(second))
    return (common >= 3 and common >= 0.6 * longer) or (
        common >= 4 and common >= shorter - 1
    )


@dataclass(frozen=True, slots=True)
class CallForm:
    """A function with constants, how often training has it, and the words outside of values."""

    function: str
    constants: Mapping[str, str]
    count: int
    words: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FunctionUse:
    """How often a function is called, and with each argument from the sentence; `order` has all."""

    count: int
    order: tuple[str, ...]
    uses: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ArgumentUse:
    """What training shows of an argument: slots of its values, values by the words that stand for
    them, what stands around these, and how long they are.

    So many values are words of the sentence as written (`verbatim`), or in lower case (`lowered`).
    """

    slots: Mapping[str, int]
    values: Mapping[str, Mapping[str, int]]
    before: Mapping[str, int]
    behind: Mapping[str, int]
    lengths: Mapping[str, int]
    quote: str = ""
    verbatim: int = 0
    lowered: int = 0


class Segment(NamedTuple):
    """Words that are read as the value of an argument."""

    start: int
    end: int
    name: str
    value: str
    score: float
    is_new: bool = False
    # An unknown word that is read as a known value which it resembles.
    is_form: bool = False


class CallReading(NamedTuple):
    """A program, its probability among the readings, and what speaks against it.

    `fit` compares how well it explains the words with how common these are, `new_values` are those
    that training lacks, at `new_spans`, and `unread` the known values that it leaves out. It does
    not account for `unread_words`, given by their places: they belong to no value, and training
    has none of them, nor a word that they resemble, with the function.
    """

    tokens: tuple[str, ...]
    probability: float
    fit: float
    new_values: int
    unread: int
    new_spans: tuple[tuple[int, int], ...] = ()
    unread_words: tuple[int, ...] = ()


# A function and the values of its arguments.
_Call = tuple[str, tuple[tuple[str, str], ...]]


class _Found(NamedTuple):
    score: float
    function: str
    arguments: tuple[tuple[str, str], ...]
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class CallReader:
    """The counts of all training sentences.

    Programs may write arguments `in_sentence_order`, and not in an order of their function.

    >>> form = CallForm("feed", {}, 2, {"feed": 2, "the": 2})
    >>> animals = ArgumentUse({}, {"cows": {"cows": 1}, "pigs": {"pigs": 1}}, {"the": 2}, {"</s>": 2}, {"1": 2})
    >>> reader = CallReader((form,), {"animals": animals}, {"feed": FunctionUse(2, ("animals",), {"animals": 2})})
    >>> words = "please feed all cows".split()
    >>> " ".join(reader.readings(words, words, [], ())[0].tokens)
    'feed ( animals = cows )'
    """

    forms: tuple[CallForm, ...]
    arguments: Mapping[str, ArgumentUse]
    functions: Mapping[str, FunctionUse]
    in_sentence_order: bool = False

    def __post_init__(self) -> None:
        for form in self.forms:
            _check_counts({"": form.count}, form.words)
            if form.function not in self.functions:
                raise SettingsError(f"the function '{form.function}' is not counted")
            order = self.functions[form.function].order
            if not form.constants.keys() <= set(order):
                raise SettingsError(f"a constant of '{form.function}' has no place")
            if not all(form.constants.values()):
                raise SettingsError(f"a constant of '{form.function}' is empty")
        for name, function in self.functions.items():
            _check_counts({"": function.count}, function.uses)
            if not function.uses.keys() <= self.arguments.keys():
                raise SettingsError(f"an argument of '{name}' is not described")
            order = function.order
            if not all(order) or len(set(order)) < len(order):
                raise SettingsError(f"expected different arguments of '{name}'")
            if not function.uses.keys() <= set(order):
                raise SettingsError(f"an argument of '{name}' has no place")
        for argument in self.arguments.values():
            _check_counts(argument.slots, argument.before, argument.behind)
            _check_counts(argument.lengths, *argument.values.values())
            for count in (argument.verbatim, argument.lowered):
                if not 0 <= count < MOST_COUNT:
                    raise SettingsError(f"expected a count of values, found {count}")
            if not all(map(argument.values.get, argument.values)):
                raise SettingsError("expected a value for the words of an argument")
            for length in argument.lengths:
                if not (length.isascii() and length.isdigit() and len(length) < 4):
                    raise SettingsError(f"expected a number of words, found '{length}'")

    # What training has.

    @cached_property
    def _words(self) -> Counter[str]:
        """How often each word stands outside of values. The parts of names are words."""
        counts: Counter[str] = Counter()
        for words in self._words_of.values():
            counts.update(words)
        return counts

    @cached_property
    def _words_of(self) -> Mapping[str, Counter[str]]:
        counts: dict[str, Counter[str]] = {}
        for name in self.functions:
            counts[name] = Counter(name_words(name))
        for form in self.forms:
            counts[form.function].update(form.words)
        return counts

    @cached_property
    def _value_words(self) -> frozenset[str]:
        words: set[str] = set()
        for argument in self.arguments.values():
            for text in argument.values:
                words.update(text.split())
        return frozenset(words)

    @cached_property
    def _known(self) -> dict[str, str]:
        """For each word that was asked for, the known word that it is taken for."""
        return {}

    def _taken_for(self, word: str) -> str:
        """A word outside of values or, if it is unknown, a known word that resembles it."""
        if word in self._words:
            return word
        nearest = self._known.get(word)
        if nearest is None:
            alike = [known for known in self._words if resembles(word, known)]
            nearest = max(
                alike, key=lambda known: (self._words[known], known), default=word
            )
            # Strangers may ask for any words: few and short ones are remembered.
            if len(self._known) > 10 * VOCABULARY:
                self._known.clear()
            if len(word) <= LONGEST_REMEMBERED:
                self._known[word] = nearest
        return nearest

    @cached_property
    def _total(self) -> int:
        return max(self._words.total(), 1)

    def _share(self, word: str) -> float:
        """How common a word is (Witten-Bell: as many are new as there are different ones)."""
        different = max(len(self._words), 1)
        new = different / VOCABULARY
        return (self._words[word] + new) / (self._total + different)

    def _word_scores(self, form: CallForm, words: Sequence[str]) -> list[float]:
        of_function = self._words_of[form.function]
        different, total = max(len(of_function), 1), of_function.total()
        own, own_total = FORM_WEIGHT * len(form.words), sum(form.words.values())
        has_sisters = self._sisters[form.function] > 1
        scores = []
        for word in words:
            share = (of_function[word] + different * self._share(word)) / (
                total + different
            )
            if has_sisters and own:
                share = (form.words.get(word, 0) + own * share) / (own_total + own)
            scores.append(math.log(share))
        return scores

    @cached_property
    def _sisters(self) -> Counter[str]:
        return Counter(form.function for form in self.forms)

    # Values.

    def _segments(
        self,
        words: Sequence[str],
        written: Sequence[str],
        mentions: Sequence[Mention],
        texts: Container[str],
    ) -> list[Segment]:
        """Everything that may be the value of an argument, with the score of its words."""
        segments = []
        for name, argument in self.arguments.items():
            total = sum(argument.slots.values())
            for mention in mentions:
                uses = argument.slots.get(mention.slot, 0)
                if uses and mention.slot not in texts:
                    value = _quoted(mention.value, argument.quote)
                    score = math.log(uses / (total + 0.5) / SLOT_VALUES)
                    span = mention.start, mention.end
                    segments.append(Segment(*span, name, value, score))
            if argument.values:
                segments += self._text_segments(name, argument, words, written)
        return segments

    def _text_segments(
        self,
        name: str,
        argument: ArgumentUse,
        words: Sequence[str],
        written: Sequence[str],
    ) -> Iterator[Segment]:
        counts = {text: sum(of.values()) for text, of in argument.values.items()}
        total = sum(counts.values())
        slots = sum(argument.slots.values())
        share = total / (total + slots)
        # Values that occur once tell how likely a new one is (Good-Turing).
        once = sum(count == 1 for count in counts.values())
        new = min((once + 0.5) / (total + 1), 0.9)
        copied = min(max(argument.verbatim, argument.lowered) / total, 1.0)
        is_open = once >= LEAST_NEW * total
        source = written if 2 * argument.verbatim >= total else words
        longest = max(map(int, argument.lengths), default=1)
        for start, length in product(range(len(words)), range(1, longest + 1)):
            end = start + length
            if end > len(words):
                continue
            text = " ".join(words[start:end])
            known, factor = text, share * (1 - new)
            if text not in counts:
                known, factor = self._resembled(text, counts), share * RESEMBLANCE
            if known:
                score = math.log(factor * counts[known] / total)
                value = _most_common(argument.values[known])
                yield Segment(start, end, name, value, score, is_form=known != text)
                continue
            if not is_open and not (start and words[start - 1] in argument.before):
                continue
            if copied >= 0.5 and _is_safe(source[start:end], argument.quote):
                of_length = (argument.lengths.get(str(length), 0) + 0.2) / (total + 1)
                score = math.log(NEW_VALUE * share * new * of_length * copied)
                score += sum(map(self._new_word_score, words[start:end]))
                value = _quoted(source[start:end], argument.quote)
                yield Segment(start, end, name, value, score, True)

    def _resembled(self, text: str, counts: Mapping[str, int]) -> str:
        """The known value that an unknown word is a form of."""
        if " " in text or len(text) < 4:
            return ""
        if text in self._words or text in self._value_words:
            return ""
        alike = [
            known for known in counts if " " not in known and resembles(text, known)
        ]
        return max(alike, key=lambda known: (counts[known], known), default="")

    def _new_word_score(self, word: str) -> float:
        """A word of a new value: words that stand outside of values are unlikely ones."""
        if word in self._words or word in self._value_words:
            size = self._total + len(self._words)
            return -math.log(size) - math.log(1 + self._words[word])
        return math.log(NEW_WORD_ODDS * self._share(word))

    def _context(self, counts: Mapping[str, int], word: str) -> float:
        """How much more often a word stands beside the values of an argument than elsewhere."""
        share = EDGE_SHARE if word in (BEGIN, END, VALUE) else self._share(word)
        total = sum(counts.values())
        there = (counts.get(word, 0) + CONTEXT_SMOOTHING * share) / (
            total + CONTEXT_SMOOTHING
        )
        return min(max(math.log(there / share), -MOST_CONTEXT), MOST_CONTEXT)

    # Readings.

    def readings(
        self,
        words: Sequence[str],
        written: Sequence[str],
        mentions: Sequence[Mention],
        texts: Container[str],
    ) -> list[CallReading]:
        """The calls that a sentence may be, the likeliest first.

        `words` are normalised, `written` as somebody typed them; `texts` are slots of free text.
        """
        if not 0 < len(words) <= MOST_WORDS:
            return []
        words = [word.lower() for word in words]
        segments = self._segments(words, written, mentions, texts)
        taken_for = [self._taken_for(word) for word in words]
        lattice = _Lattice(self, taken_for, segments)
        derived = lattice.readings()
        if not derived:
            return []
        likeliest = max(derived, key=lambda reading: reading.score)
        if self._is_guarded(words, likeliest):
            return []
        # A call has the chances of all its readings, and is shown as the likeliest of them.
        chances: dict[_Call, float] = defaultdict(float)
        readings: dict[_Call, _Found] = {}
        for reading in sorted(derived, key=lambda reading: -reading.score):
            call = reading.function, reading.arguments
            chances[call] += math.exp(reading.score - likeliest.score)
            readings.setdefault(call, reading)
        total = sum(chances.values())
        spans = self._value_spans(words, segments)
        background = 0.0
        for word in taken_for:
            background += math.log(self._share(word))
        answers = []
        for call in sorted(chances, key=lambda call: (-chances[call], call)):
            reading = readings[call]
            if not self._is_complete(reading):
                continue
            new = tuple(segment[:2] for segment in reading.segments if segment.is_new)
            answers.append(
                CallReading(
                    self._tokens(reading),
                    chances[call] / total,
                    (reading.score - background) / len(words),
                    sum(value.is_new or value.is_form for value in reading.segments),
                    _unread(spans, reading.segments),
                    new,
                    self._unread_words(taken_for, reading),
                )
            )
        return answers[:READINGS]

    def _is_complete(self, reading: _Found) -> bool:
        """Whether a call has all arguments that every call of its function has."""
        names = {name for name, _ in reading.arguments}
        return self._required[reading.function] <= names

    @cached_property
    def _required(self) -> Mapping[str, frozenset[str]]:
        having: dict[str, Counter[str]] = {}
        for name, function in self.functions.items():
            having[name] = Counter(function.uses)
        for form in self.forms:
            for argument in form.constants:
                having[form.function][argument] += form.count
        required = {}
        for name, function in self.functions.items():
            least = max(function.count, ENOUGH_CALLS)
            counts = having[name].items()
            required[name] = frozenset(use for use, count in counts if count >= least)
        return required

    def _unread_words(
        self, taken_for: Sequence[str], reading: _Found
    ) -> tuple[int, ...]:
        inside = _places(reading.segments)
        of_function = self._words_of[reading.function]
        unread = []
        for position, word in enumerate(taken_for):
            if position not in inside and word not in of_function:
                unread.append(position)
        return tuple(unread)

    def _tokens(self, reading: _Found) -> tuple[str, ...]:
        """The tokens of a call, its arguments in the usual order, or in that of the sentence."""
        arguments = dict(reading.arguments)
        tokens = [reading.function, "("]
        order = self.functions[reading.function].order
        if self.in_sentence_order:
            starts = {segment.name: segment.start for segment in reading.segments}
            order = tuple(sorted(order, key=lambda name: starts.get(name, MOST_WORDS)))
        for name in order:
            if name in arguments:
                tokens += [",", name, "=", *arguments[name].split(" ")]
        if arguments:
            del tokens[2]
        return (*" ".join(tokens[:1]).split(), *tokens[1:], ")")

    def _value_spans(
        self, words: Sequence[str], segments: Sequence[Segment]
    ) -> list[tuple[int, int]]:
        """Where a sentence has what training has as values and never as other words."""
        spans = set()
        for segment in segments:
            inside = words[segment.start : segment.end]
            if not segment.is_new and not any(word in self._words for word in inside):
                spans.add((segment.start, segment.end))
        return sorted(spans, key=lambda span: (span[0] - span[1], span))

    def _is_guarded(self, words: Sequence[str], reading: _Found) -> bool:
        """Whether a negation or a condition stands there that the function never had."""
        inside = _places(reading.segments)
        outside = {word for at, word in enumerate(words) if at not in inside}
        return any(map(is_guard, outside - self._words_of[reading.function].keys()))

    def write(self, path: Path) -> None:
        """Write it as JSON; `read` gives it back."""
        write_text(path, json.dumps(asdict(self), ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> CallReader:
        """What `write` wrote; anything else is refused with the reason."""
        return read_dataclass(cls, read_json(path), "the call reader", path)


class _Lattice:
    """The segments of a sentence, and the best ways through them for each form."""

    def __init__(
        self, reader: CallReader, words: Sequence[str], segments: Sequence[Segment]
    ) -> None:
        self.reader, self.words = reader, words
        self.starting: list[list[tuple[Segment, float, float]]] = [[] for _ in words]
        for segment in segments:
            argument = reader.arguments[segment.name]
            before, behind = BEGIN, END
            if segment.start:
                before = words[segment.start - 1]
            if segment.end < len(words):
                behind = words[segment.end]
            score = segment.score
            score += BEHIND_WEIGHT * reader._context(argument.behind, behind)
            after_word = score + reader._context(argument.before, before)
            after_value = score + reader._context(argument.before, VALUE)
            self.starting[segment.start].append((segment, after_word, after_value))

    def readings(self) -> list[_Found]:
        """The likeliest readings with each form that may have one that is not negligible."""
        reader = self.reader
        bounds = []
        for number, form in enumerate(reader.forms):
            scores = reader._word_scores(form, self.words)
            base, odds = self._base(form)
            bound = base + self._bound(scores, odds)
            bounds.append((bound, number, scores, base, odds))
        found: list[_Found] = []
        best = -math.inf
        for bound, number, scores, base, odds in sorted(bounds, reverse=True):
            if bound < best - NEGLIGIBLE:
                break
            form = reader.forms[number]
            for score, segments in self._ways(scores, base, odds):
                arguments = dict(form.constants)
                arguments.update((each.name, each.value) for each in segments)
                ordered = tuple(sorted(arguments.items()))
                found.append(_Found(score, form.function, ordered, segments))
                best = max(best, score)
        return found

    def _base(self, form: CallForm) -> tuple[float, dict[str, float]]:
        """The score of a form without arguments, and what each argument adds."""
        total = sum(each.count for each in self.reader.forms)
        function = self.reader.functions[form.function]
        base, odds = math.log(form.count / (total + 1)), {}
        for name, uses in function.uses.items():
            if name in form.constants:
                continue
            there = min(max(uses, 0), function.count) + USE_SMOOTHING
            absent = function.count + 2 * USE_SMOOTHING - there
            base += math.log(absent / (function.count + 2 * USE_SMOOTHING))
            odds[name] = math.log(there / absent)
        return base, odds

    def _bound(self, scores: Sequence[float], odds: Mapping[str, float]) -> float:
        """The best score if arguments could repeat."""
        best = [0.0] * (len(scores) + 1)
        for start in reversed(range(len(scores))):
            best[start] = scores[start] + best[start + 1]
            for segment, after_word, after_value in self.starting[start]:
                if segment.name in odds:
                    score = max(after_word, after_value) + odds[segment.name]
                    best[start] = max(best[start], score + best[segment.end])
        return best[0]

    def _ways(
        self, scores: Sequence[float], base: float, odds: Mapping[str, float]
    ) -> list[tuple[float, tuple[Segment, ...]]]:
        """The best ways through the sentence in which no argument repeats."""
        waiting: list[list[tuple[float, tuple[Segment, ...]]]] = [[] for _ in scores]
        waiting.append([])
        waiting[0].append((base, ()))
        for start in range(len(scores)):
            ranked = sorted(waiting[start], key=lambda way: -way[0])[:BEAM]
            for score, segments in ranked:
                waiting[start + 1].append((score + scores[start], segments))
                used = {segment.name for segment in segments}
                is_after_value = bool(segments) and segments[-1].end == start
                for segment, after_word, after_value in self.starting[start]:
                    if segment.name in used or segment.name not in odds:
                        continue
                    more = after_value if is_after_value else after_word
                    way = score + more + odds[segment.name], (*segments, segment)
                    waiting[segment.end].append(way)
        return sorted(waiting[-1], key=lambda way: -way[0])[:READINGS]


def _check_counts(*tables: Mapping[str, int]) -> None:
    for table in tables:
        for key, count in table.items():
            if not 0 < count < MOST_COUNT:
                raise SettingsError(
                    f"expected how often '{key}' was seen, found {count}"
                )


def name_words(name: str) -> list[str]:
    """The words of a name.

    >>> name_words("book_class"), name_words("HassTurnOn")
    (['book', 'class'], ['hass', 'turn', 'on'])
    """
    words, word = [], ""
    for character in name:
        if character.isupper() and word and not word[-1].isupper():
            words.append(word)
            word = ""
        if character.isalpha():
            word += character
        else:
            words.append(word)
            word = ""
    return [each.lower() for each in (*words, word) if each]


def _is_safe(words: Sequence[str], quote: str) -> bool:
    """Whether words can be a value: none ends its quotes, and without quotes there is one name."""
    text = " ".join(words)
    if not quote:
        return text.isidentifier()
    return quote not in text and "\\" not in text


def _quoted(tokens: Sequence[str], quote: str) -> str:
    return " ".join((quote, *tokens, quote)) if quote else " ".join(tokens)


def _most_common(counts: Mapping[str, int]) -> str:
    return max(counts, key=lambda value: (counts[value], value))


def _places(segments: Iterable[Segment]) -> set[int]:
    """The places of the words in segments."""
    places: set[int] = set()
    for segment in segments:
        places.update(range(segment.start, segment.end))
    return places


def _unread(spans: Sequence[tuple[int, int]], segments: Sequence[Segment]) -> int:
    """How many spans, long ones first, share no word with a segment or with an earlier span."""
    taken = _places(segments)
    unread = 0
    for start, end in spans:
        places = set(range(start, end))
        if not places & taken:
            unread += 1
            taken |= places
    return unread
