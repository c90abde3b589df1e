"""The call reader of training pairs: which words of each sentence stand for which argument."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from nqg.model.call_reader import (
    BEGIN,
    END,
    VALUE,
    ArgumentUse,
    CallForm,
    CallReader,
    FunctionUse,
    resembles,
)
from nqg.preprocessing.preprocessor import TokenizedPair
from nqg.text.brackets import BRACKETS, CLOSING_BRACKETS, IN_QUOTES, bracket_depths

# Longest words that are put together to make a value: `soil moisture` for `soil_moisture`.
LONGEST_COMPOUND = 3
# A word that only sentences with a value have stands for it, if so many have it.
FEWEST_USES = 2


@dataclass(frozen=True)
class FlatCall:
    """A program that is one call with named arguments, values as tokens."""

    function: str
    arguments: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Aligned:
    """Where a value stands in a sentence, and the slot that reads it there."""

    start: int
    end: int
    slot: str = ""


def flat_call(tokens: Sequence[str]) -> FlatCall | None:
    """The call that a program is; None if it is another program, or an argument has no name.

    >>> flat_call('dim ( room = " den " , percent = 20 )'.split())
    FlatCall(function='dim', arguments=(('room', ('"', 'den', '"')), ('percent', ('20',))))
    """
    opening = tokens.index("(") if "(" in tokens else 0
    name = "".join(tokens[:opening])
    if not name.replace(".", "").replace("_", "").isalnum() or tokens[-1] != ")":
        return None
    parts: list[list[str]] = [[]]
    inside = tokens[opening + 1 : -1]
    depth = 0
    for token, quoted in zip(inside, bracket_depths(inside)):
        if quoted != IN_QUOTES:
            depth += (token in BRACKETS) - (token in CLOSING_BRACKETS)
            if depth < 0 or token == "(":
                return None
            if token == "," and not depth:
                parts.append([])
                continue
        parts[-1].append(token)
    if parts == [[]]:
        return FlatCall(name, ())
    arguments: dict[str, tuple[str, ...]] = {}
    for part in parts:
        if len(part) < 3 or part[1] != "=" or part[0] in arguments:
            return None
        arguments[part[0]] = tuple(part[2:])
    return FlatCall(name, tuple(arguments.items()))


def fit_call_reader(
    pairs: Sequence[TokenizedPair], texts: Collection[str] = ()
) -> CallReader | None:
    """What pairs show, or None where most programs are no flat calls. `texts` are slots of free text.

    Pairs that are repeated count once.
    """
    calls: list[tuple[TokenizedPair, FlatCall]] = []
    distinct: dict[tuple[tuple[str, ...], tuple[str, ...]], TokenizedPair] = {}
    for pair in pairs:
        distinct.setdefault((tuple(pair.sentence.words), tuple(pair.program)), pair)
    for pair in distinct.values():
        call = flat_call(pair.program)
        if call:
            calls.append((pair, call))
    if 2 * len(calls) < len(distinct) or not any(call.arguments for _, call in calls):
        return None
    words = [_lower(pair) for pair, _ in calls]
    counts = _Counts(frozenset(texts), _Lexicon(words, [call for _, call in calls]))
    for (pair, call), sentence in zip(calls, words):
        counts.add(pair, call, sentence)
    return counts.reader()


def _lower(pair: TokenizedPair) -> list[str]:
    return [word.lower() for word in pair.sentence.words]


class _Lexicon:
    """Words that stand for values which they do not resemble: `tonight` for `today`."""

    def __init__(
        self, sentences: Sequence[Sequence[str]], calls: Sequence[FlatCall]
    ) -> None:
        self.size = len(sentences)
        self.words: dict[str, set[int]] = defaultdict(set)
        self.values: dict[tuple[str, tuple[str, ...]], set[int]] = defaultdict(set)
        for number, (sentence, call) in enumerate(zip(sentences, calls)):
            for word in sentence:
                self.words[word].add(number)
            for argument in call.arguments:
                self.values[argument].add(number)

    def place(
        self,
        words: Sequence[str],
        argument: tuple[str, tuple[str, ...]],
        taken: Collection[int],
    ) -> int | None:
        """The word that comes in several sentences with a value, and in no other one."""
        having = self.values[argument]
        # What most sentences have is no news.
        if 2 * len(having) >= self.size:
            return None
        best, most = None, FEWEST_USES - 1
        for place, word in enumerate(words):
            uses = self.words[word]
            if place not in taken and len(uses) > most and uses <= having:
                best, most = place, len(uses)
        return best


@dataclass
class _ArgumentCounts:
    slots: Counter[str] = field(default_factory=Counter)
    values: dict[str, Counter[str]] = field(default_factory=dict)
    before: Counter[str] = field(default_factory=Counter)
    behind: Counter[str] = field(default_factory=Counter)
    lengths: Counter[str] = field(default_factory=Counter)
    quotes: Counter[str] = field(default_factory=Counter)
    verbatim: int = 0
    lowered: int = 0

    def argument(self) -> ArgumentUse:
        return ArgumentUse(
            dict(self.slots),
            {text: dict(counts) for text, counts in self.values.items()},
            dict(self.before),
            dict(self.behind),
            dict(self.lengths),
            max(self.quotes, key=lambda quote: (self.quotes[quote], quote)),
            self.verbatim,
            self.lowered,
        )


class _Counts:
    """What is counted, sentence by sentence."""

    def __init__(self, texts: Collection[str], lexicon: _Lexicon) -> None:
        self.texts, self.lexicon = texts, lexicon
        self.forms: dict[tuple[str, tuple[tuple[str, str], ...]], Counter[str]] = {}
        self.form_counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self.calls: Counter[str] = Counter()
        self.uses: dict[str, Counter[str]] = defaultdict(Counter)
        self.names: dict[str, dict[str, None]] = defaultdict(dict)
        # How often one argument stands before another, in a function and (without a name) in all.
        self.precedence: Counter[tuple[str, str, str]] = Counter()
        self.arguments: dict[str, _ArgumentCounts] = {}
        # Functions, and their aligned arguments as a program writes them, with where each stands.
        self.written: list[tuple[str, list[tuple[str, int]]]] = []

    def add(self, pair: TokenizedPair, call: FlatCall, words: Sequence[str]) -> None:
        aligned = self.alignment(pair, call, words)
        inside: set[int] = set()
        for place in aligned.values():
            inside.update(range(place.start, place.end))
        constants = []
        self.calls[call.function] += 1
        names = [name for name, _ in call.arguments]
        self.names[call.function].update(dict.fromkeys(names))
        for pair_of_names in combinations(names, 2):
            self.precedence[call.function, *pair_of_names] += 1
            self.precedence["", *pair_of_names] += 1
        for name, value in call.arguments:
            if name in aligned:
                self.uses[call.function][name] += 1
                self._add_value(name, value, aligned[name], pair, words, inside)
            else:
                constants.append((name, " ".join(value)))
        places = [(name, aligned[name].start) for name in names if name in aligned]
        self.written.append((call.function, places))
        key = call.function, tuple(constants)
        self.form_counts[key] += 1
        outside = [word for place, word in enumerate(words) if place not in inside]
        self.forms.setdefault(key, Counter()).update(outside)

    def alignment(
        self, pair: TokenizedPair, call: FlatCall, words: Sequence[str]
    ) -> dict[str, Aligned]:
        """The words that stand for each argument, as far as there are any."""
        aligned: dict[str, Aligned] = {}
        taken: set[int] = set()
        for name, value in call.arguments:
            for place in self._places(pair, value, words):
                span = range(place.start, place.end)
                if taken.isdisjoint(span):
                    aligned[name] = place
                    taken.update(span)
                    break
        for argument in call.arguments:
            if argument[0] not in aligned:
                at = self.lexicon.place(words, argument, taken)
                if at is not None:
                    aligned[argument[0]] = Aligned(at, at + 1)
                    taken.add(at)
        return aligned

    def _places(
        self, pair: TokenizedPair, value: Sequence[str], words: Sequence[str]
    ) -> list[Aligned]:
        """Where a value may stand, the best place first: as a slot, as written, in another form."""
        bare = tuple(value)
        if len(bare) > 2 and bare[0] == bare[-1] and bare[0] in "\"'":
            bare = bare[1:-1]
        ranked: list[tuple[int, int, int, Aligned]] = []
        for mention in pair.mentions:
            if tuple(mention.value) == bare and mention.slot not in self.texts:
                length = mention.end - mention.start
                place = Aligned(mention.start, mention.end, mention.slot)
                ranked.append((0, -length, mention.start, place))
        lowered = [token.lower() for token in bare]
        joined = "".join(lowered).replace("_", "")
        for start in range(len(words)):
            end = start + len(bare)
            if list(words[start:end]) == lowered:
                ranked.append((1, -len(bare), start, Aligned(start, end)))
            for length in range(1, LONGEST_COMPOUND + 1):
                text = "".join(words[start : start + length])
                is_form = length == 1 == len(bare) and resembles(text, lowered[0])
                if is_form or (length > 1 and text == joined):
                    place = Aligned(start, min(start + length, len(words)))
                    ranked.append((2, -length, start, place))
        return [place for *_, place in sorted(ranked, key=lambda row: row[:3])]

    def _add_value(
        self,
        name: str,
        value: Sequence[str],
        place: Aligned,
        pair: TokenizedPair,
        words: Sequence[str],
        inside: Collection[int],
    ) -> None:
        counts = self.arguments.setdefault(name, _ArgumentCounts())
        quote = value[0] if value[0] == value[-1] and value[0] in "\"'" else ""
        counts.quotes[quote] += 1
        if place.slot:
            counts.slots[place.slot] += 1
        else:
            text = " ".join(words[place.start : place.end])
            counts.values.setdefault(text, Counter())[" ".join(value)] += 1
            counts.lengths[str(place.end - place.start)] += 1
            bare = list(value[1:-1] if quote else value)
            written = list(pair.sentence.words_as_written[place.start : place.end])
            counts.verbatim += bare == written
            counts.lowered += bare == text.split(" ")
        before, behind = BEGIN, END
        if place.start:
            before = VALUE if place.start - 1 in inside else words[place.start - 1]
        if place.end < len(words):
            behind = words[place.end]
        counts.before[before] += 1
        counts.behind[behind] += 1

    def ordered(self, function: str) -> tuple[str, ...]:
        """The arguments of a function in the order of most programs, in which not all need be together.

        One that no other has to precede is next. Of several, it is the one that, on average, has the
        smallest share of its neighbours before it.
        """
        left = list(self.names[function])
        shares = {name: self._share_before(function, name) for name in left}
        ordered = []
        while left:
            preceding = {}
            for name in left:
                preceding[name] = sum(
                    self._precedes(function, other, name) for other in left
                )
            first = min(left, key=lambda name: (preceding[name], shares[name]))
            ordered.append(first)
            left.remove(first)
        return tuple(ordered)

    def _precedes(self, function: str, name: str, other: str) -> bool:
        """Whether one argument mostly stands before another: in the function or, if it never has
        both, in all.
        """
        lead = 0
        for place in (function, ""):
            before = self.precedence[place, name, other]
            lead = lead or before - self.precedence[place, other, name]
        return lead > 0

    def _share_before(self, function: str, name: str) -> float:
        before = behind = 0
        for other in self.names[function]:
            before += self.precedence[function, other, name]
            behind += self.precedence[function, name, other]
        return before / (before + behind) if before + behind else 0.5

    def is_in_sentence_order(self, functions: Mapping[str, FunctionUse]) -> bool:
        """Whether more programs follow their sentence than an order of their function."""
        lead = 0
        for function, places in self.written:
            starts = [start for _, start in places]
            ranks = [functions[function].order.index(name) for name, _ in places]
            lead += (starts == sorted(starts)) - (ranks == sorted(ranks))
        return lead > 0

    def reader(self) -> CallReader:
        forms = []
        for key, words in self.forms.items():
            function, constants = key
            count = self.form_counts[key]
            forms.append(CallForm(function, dict(constants), count, dict(words)))
        functions = {}
        for name, count in self.calls.items():
            order = self.ordered(name)
            functions[name] = FunctionUse(count, order, dict(self.uses[name]))
        arguments = {name: each.argument() for name, each in self.arguments.items()}
        in_sentence_order = self.is_in_sentence_order(functions)
        return CallReader(tuple(forms), arguments, functions, in_sentence_order)
