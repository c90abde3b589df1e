"""Slots in a grammar: `@time ### @time` reads whatever is a time in a sentence, and yields its value.

What a slot may read is known when there is a sentence. Each value that is found there is a rule of its own, such as
`half past six ### 6:30`, with the type and the score of the slot's rule; readings that overlap are alternatives like
any others. Charts know the spans of values and, of free text, how long it may be; what a value means is asked when a
derivation has it, or a target is to be derived. In all other rules a slot is a non-terminal.

Induction sees examples in which values are marked by placeholders, `@time_1` for the first time in the sentence. They
are terminals to it; afterwards they become non-terminals.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import ChainMap
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property, lru_cache
from itertools import accumulate, chain

import numpy as np

from nqg.errors import LimitExceeded
from nqg.grammar.arrays import Int32Array
from nqg.grammar.encoding import MOST_RULES, UNKNOWN, EncodedGrammar, firsts_of
from nqg.grammar.grammar import SLOT, Grammar, NonTerminal, Rule, Symbol, Symbols, ValueRule
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.target_grammar import QUOTES, Category, Production, TargetGrammar, TargetSymbol, Wildcard
from nqg.grammar.types import Typing
from nqg.text.mentions import Finder, Mention, Sentence, is_word, letters_of, longest_spans, spans_like, words_of

_PLACEHOLDER = re.compile(rf"({SLOT}.+)_[0-9]+")

Tokens = Sequence[str]


def slot_of(placeholder: Symbol) -> str | None:
    """The slot's terminal that a numbered placeholder stands for; None if the symbol is not a placeholder.

    >>> slot_of("@time_1"), slot_of("at"), slot_of(NonTerminal(1))
    ('@time', None, None)
    """
    found = _PLACEHOLDER.fullmatch(placeholder) if isinstance(placeholder, str) else None
    return found[1] if found else None


def unnumbered(tokens: Tokens) -> tuple[str, ...]:
    """Marked tokens with every placeholder as its slot's terminal: what a target grammar knows.

    >>> unnumbered(("wake", "(", "@time_1", ")"))
    ('wake', '(', '@time', ')')
    """
    return tuple(slot_of(token) or token for token in tokens)


def slot_seeds(pairs: Iterable[tuple[Tokens, Tokens]]) -> list[Rule]:
    """The rules that a search over marked examples begins with.

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


def _keyword_arguments(target: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The arguments `key = value` and `"key" : "value"` of a program, each whole and its value alone.

    `city . name = ' @name_1 '` is none: a comparison, of which `name = ' @name_1 '` is not a part.
    """
    for at in range(1, len(target) - 1):
        first = at - 3 if target[at - 1] in QUOTES and at >= 3 else at - 1
        if target[at] not in ("=", ":") or target[max(first - 1, 0)] == ".":
            continue
        last = at + 1
        if target[last] in QUOTES:
            last = next((end for end in range(last + 1, len(target)) if target[end] == target[at + 1]), last)
        value = target[at + 2 : last] if last > at + 1 else target[last : last + 1]
        if any(map(is_word, value)):
            yield target[first : last + 1], value


def with_slots(rules: Iterable[Rule], free_text: Collection[str] = ()) -> list[Rule]:
    """Rules over placeholders as rules that read slots: placeholders become non-terminals.

    A rule that reads nothing but a placeholder becomes one of the slot. The plainest one is there for every slot, but
    for those of free text, of which every run of words is one more alternative, only where a rule needs it. Where a
    placeholder stands on one side only, or twice in the source, there is no such rule.

    >>> for rule in with_slots(map(Rule.parse, ["wake NT_1 at @time_1 ### wake ( NT_1 , @time_1 )"])):
    ...     print(rule)
    @time ### @time
    wake NT_1 at NT_2 ### wake ( NT_1 , NT_2 )
    """
    found: dict[Rule, None] = {}
    slots: set[str] = set()
    for rule in rules:
        own = {slot for slot in map(slot_of, (*rule.source, *rule.target)) if slot}
        is_optional = len(rule.source) == 1 and {slot.removeprefix(SLOT) for slot in own} <= {*free_text}
        slots |= set() if is_optional else own
        found |= dict.fromkeys(_with_slots(rule))
    return [*(Rule((slot,), (slot,)) for slot in sorted(slots) if Rule((slot,), (slot,)) not in found), *found]


def _with_slots(rule: Rule) -> Iterator[Rule]:
    if len(rule.source) == 1 and (slot := slot_of(rule.source[0])):
        others = [each for each in rule.target if slot_of(each) and each != rule.source[0]]
        if rule.source[0] in rule.target and not others:
            yield Rule((slot,), unnumbered([str(each) for each in rule.target]))
        return
    open_places = [each for each in rule.source if isinstance(each, NonTerminal) or slot_of(each)]
    numbers: dict[Symbol, Symbol] = {each: NonTerminal(at) for at, each in enumerate(open_places, start=1)}
    needed = {each for each in rule.target if isinstance(each, NonTerminal) or slot_of(each)}
    if len(numbers) == len(open_places) and set(numbers) == needed:
        sides = (tuple(numbers.get(each, each) for each in side) for side in (rule.source, rule.target))
        yield Rule(*sides)


def with_numbers(rules: Iterable[Rule], sources: Iterable[Tokens]) -> Iterator[Rule]:
    """Rules that read slots as a search in marked sentences begins with them: one for each placeholder of a slot.

    >>> print(*with_numbers([Rule.parse("@time ### at = @time")], [["wake", "me", "@time_2"]]))
    @time_2 ### at = @time_2
    """
    placeholders = {token: slot for token in sorted({*chain.from_iterable(sources)}) if (slot := slot_of(token))}
    for rule in rules:
        if not str(rule.source[0]).startswith(SLOT):
            yield rule
        for placeholder, slot in placeholders.items():
            if rule.source == (slot,):
                yield Rule((placeholder,), tuple(placeholder if each == slot else each for each in rule.target))


def with_placeholders(target_grammar: TargetGrammar, programs: Iterable[Tokens]) -> TargetGrammar:
    """The grammar of marked programs, in which the placeholders of these stand for their slots.

    >>> alarms = TargetGrammar.parse("<program> ::= wake ( @time )")
    >>> print(with_placeholders(alarms, [("wake", "(", "@time_1", ")"), ("wake", "(", "@time_2", ")")]), end="")
    <program> ::= wake ( <@time> )
    <@time> ::= @time_1 | @time_2
    """
    used = {token: slot for token in sorted(chain.from_iterable(programs)) if (slot := slot_of(token))}
    productions = _with_categories(target_grammar, used.values())
    return TargetGrammar((*productions, *(Production(Category(slot), (token,)) for token, slot in used.items())))


def with_number_slots(target_grammar: TargetGrammar, slots: Iterable[str]) -> TargetGrammar:
    """The grammar in which slots, whose values are numbers, stand wherever a number may.

    >>> grammar = TargetGrammar.parse("<query> ::= limit <number>\\n<number> ::= <#>")
    >>> print(with_number_slots(grammar, ["amount"]), end="")
    <query> ::= limit <number>
    <number> ::= <#> | @amount
    """
    tokens = [f"{SLOT}{slot}" for slot in slots]
    more = [
        Production(each.left, tuple(token if symbol is Wildcard.NUMBER else symbol for symbol in each.right))
        for each in target_grammar.productions
        if Wildcard.NUMBER in each.right
        for token in tokens
    ]
    return TargetGrammar((*target_grammar.productions, *more)) if more else target_grammar


MOST_LITERAL = 16  # tokens of a value in a rule by hand


def with_literals(target_grammar: TargetGrammar, targets: Iterable[Symbols], slots: Finder) -> TargetGrammar:
    """The grammar in which values that targets write down stand where their slots may.

    So a rule by hand may have a value that no training program has: what would be read as that value of a slot, or
    any words in quotes where there is free text.
    """
    found: dict[tuple[str, tuple[str, ...]], None] = {}
    for target in targets:
        for start in range(len(target)):
            for end in range(start + 1, min(start + MOST_LITERAL, len(target)) + 1):
                run = tuple(each for each in target[start:end] if isinstance(each, str))
                if len(run) < end - start:
                    break
                read = {each.slot for each in slots.mentions(run) if (each.end, each.value) == (len(run), run)}
                before, after = target[max(start - 1, 0)], target[min(end, len(target) - 1)]
                is_quoted = before == after and before in QUOTES and before not in run
                texts = {*slots.free_text} if is_quoted else set()
                found |= dict.fromkeys((f"{SLOT}{slot}", run) for slot in sorted(read | texts))
    more = {
        Production(each.left, tuple(token for symbol in each.right for token in (run if symbol == slot else (symbol,))))
        for slot, run in found
        for each in target_grammar.productions
        if slot in each.right
    }
    new = sorted(more.difference(target_grammar.productions), key=str)
    return TargetGrammar((*target_grammar.productions, *new)) if new else target_grammar


def with_values(target_grammar: TargetGrammar, quotes: Mapping[str, str]) -> TargetGrammar:
    """The grammar of programs with values in the place of slots, given the quotes around those of each slot.

    >>> alarms = TargetGrammar.parse("<program> ::= wake ( @time , ' @name ' )")
    >>> print(with_values(alarms, {"time": "", "name": "'"}), end="")
    <program> ::= wake ( <@time> , ' <@name> ' )
    <@time> ::= <...>
    <@name> ::= <'> | <@name> <'>
    """
    productions = _with_categories(target_grammar, [f"{SLOT}{slot}" for slot in quotes])
    for slot, quote in quotes.items():
        category = Category(f"{SLOT}{slot}")
        rights = [(Wildcard.UNQUOTED,), (category, Wildcard.UNQUOTED)] if quote else [(Wildcard.TOKENS,)]
        if any(category in each.right for each in productions):
            productions += [Production(category, right) for right in rights]
    return TargetGrammar(tuple(productions))


def _with_categories(target_grammar: TargetGrammar, slots: Iterable[str]) -> list[Production]:
    """The productions with a category in the place of each slot."""
    categories: dict[TargetSymbol, TargetSymbol] = {slot: Category(slot) for slot in slots}
    return [
        Production(each.left, tuple(categories.get(symbol, symbol) for symbol in each.right))
        for each in target_grammar.productions
    ]


@dataclass(frozen=True)
class SentenceGrammar(Grammar):
    """A grammar that reads certain sentences: the values in them are rules, whose numbers come behind its own."""

    whole: Grammar = field(kw_only=True)
    sentences: Sequence[Sentence] = field(kw_only=True)
    mentions: Sequence[Sequence[Mention]] = field(kw_only=True)

    def __post_init__(self) -> None:
        """The rules were checked when the grammar was made."""

    def __getitem__(self, number: int) -> Rule:
        if number < len(self.rules):
            return self.rules[number]
        sentence, mention = self._value(number)
        known = int(self.columns(np.array([number], dtype=np.int32))[0])
        slot, rule = self.whole.slot_rules[known], self.rules[known]
        target = [token for each in rule.target for token in (mention.value if each == slot else (each,))]
        return ValueRule(self.sources[sentence][mention.start : mention.end], tuple(target), rule)

    @cached_property
    def numbers(self) -> Mapping[Rule, int]:
        return self.whole.numbers

    @cached_property
    def typing(self) -> Typing | None:
        return self.whole.typing

    def typed_by(self, target_grammar: TargetGrammar | None) -> Grammar:
        return replace(self, whole=self.whole.typed_by(target_grammar), target_grammar=target_grammar)

    def columns(self, rules: Int32Array) -> Int32Array:
        """For every rule the one whose score it has: the slot's of a value's, else itself."""
        return self.encoded.arrays.values.slot_rules(rules)

    @cached_property
    def encoded(self) -> EncodedGrammar:
        known = self.whole.encoded
        rows = [(each.start, each.end, rule) for found in self._values for each, rule in found]
        starts, ends, rules = np.array(rows, dtype=np.int32).reshape(-1, 3).T.copy()
        longest = max((length for _, length, _ in self.whole.text_rules), default=0)
        values = known.arrays.values._replace(
            first=len(self.rules),
            first_text=len(self.rules) + len(rows),
            longest=min(longest, max(map(len, self.sources), default=0)),
            first_value=firsts_of(self._values),
            starts=starts,
            ends=ends,
            rules=rules,
        )
        words = int(self._first_words[-1])
        if values.first_text + words * values.longest * len(values.text_rules) > MOST_RULES:
            reason = f"there are too many ways to read {words:,} words as free text of up to {values.longest} words"
            raise LimitExceeded(f"{reason}; give a smaller length in [slots], or fewer or shorter sentences")
        return EncodedGrammar(known.vocabulary, known.arrays._replace(values=values))

    @cached_property
    def sources(self) -> list[tuple[str, ...]]:
        return list(map(words_of, self.sentences))

    @cached_property
    def _first_words(self) -> Int32Array:
        return firsts_of(self.sources)

    @cached_property
    def _values(self) -> list[list[tuple[Mention, int]]]:
        """For every sentence what was found there, in the order of charts, with each rule that reads it."""
        readers = self.whole.slot_readers
        ordered = (sorted(found, key=lambda each: (-each.start, each.end)) for found in self.mentions)
        return [[(each, rule) for each in found for rule in readers.get(each.slot, ())] for found in ordered]

    def _value(self, number: int) -> tuple[int, Mention]:
        """What the rule of a value reads, and the sentence in which it does."""
        values = self.encoded.arrays.values
        if number < values.first_text:
            value = number - values.first
            sentence = int(np.searchsorted(values.first_value, value, side="right")) - 1
            return sentence, self._values[sentence][value - int(values.first_value[sentence])][0]
        span, text = divmod(number - values.first_text, len(values.text_rules))
        slot = self.whole.slot_rules[int(values.text_rules[text])].removeprefix(SLOT)
        place, size = divmod(span, values.longest)
        sentence = bisect_right(self._first_words, place) - 1
        start = place - self._first_words.item(sentence)
        end = start + size + 1
        return sentence, Mention(start, end, slot, self._text_value(sentence, slot, start, end))

    def _text_value(self, sentence: int, slot: str, start: int, end: int) -> tuple[str, ...]:
        assert self.slots is not None, "there is free text"
        return self.slots.text_value(self.sentences[sentence], slot, start, end)

    def with_meanings(self, graph: Hypergraph, targets: Sequence[Tokens]) -> EncodedGrammar:
        """The encoded grammar, which knows what the values in a graph mean that can be part of its targets."""
        known, more = self.encoded, dict[str, int]()
        vocabulary, values, slots = known.vocabulary, known.arrays.values, self.whole.text_slots
        for token in chain.from_iterable(targets):
            if token not in vocabulary:
                more.setdefault(token, len(vocabulary) + len(more))
        meant = [mention.value for mention, _ in chain.from_iterable(self._values)]
        places = list(range(len(meant)))
        for sentence, start, end in self._texts_in(graph, targets):
            span = (self._first_words.item(sentence) + start) * values.longest + end - start - 1
            first = len(values.rules) + span * len(slots)
            places += range(first, first + len(slots))
            meant += [self._text_value(sentence, slot, start, end) for slot in slots]
        spans, lengths = self._first_words.item(-1) * values.longest, list(map(len, meant))
        table = np.zeros((2, len(values.rules) + spans * len(slots)), dtype=np.int32)
        table[:, places] = [0, *accumulate(lengths)][:-1], lengths
        tokens = [vocabulary.get(token, more.get(token, UNKNOWN)) for token in chain.from_iterable(meant)]
        values = values._replace(first_token=table[0], sizes=table[1], tokens=np.array(tokens, dtype=np.int32))
        arrays = known.arrays._replace(values=values)
        return EncodedGrammar(ChainMap(more, vocabulary) if more else vocabulary, arrays)  # type: ignore[arg-type]

    def _texts_in(self, graph: Hypergraph, targets: Sequence[Tokens]) -> Iterator[tuple[int, int, int]]:
        """The sentence, start and end of what may be free text in a graph's sentences and is in their targets."""
        values = self.encoded.arrays.values
        if not len(values.text_rules) or not len(graph.rules):
            return
        asked = [(0, target) for target in targets]
        if len(self.sources) > 1:
            bounds = graph.first_hyperedge[graph.first_node]
            (charted,) = (bounds[1:] > bounds[:-1]).nonzero()
            last = np.maximum.reduceat(graph.rules, bounds[charted]) - values.first_text  # a text, if there is one
            sentences = self._first_words.searchsorted(last // (len(values.text_rules) * values.longest), "right") - 1
            found = zip(charted.tolist(), last.tolist(), sentences.tolist(), strict=True)
            asked = [(sentence, targets[number]) for number, text, sentence in found if text >= 0]
        for sentence, target in asked:
            yield from ((sentence, *run) for run in alike_runs(self.sources[sentence], target, values.longest))


def alike_runs(words: Tokens, target: Tokens, longest: int) -> Iterator[tuple[int, int]]:
    """Where at most so many words have the letters of some tokens of a target, one after the other.

    >>> list(alike_runs(("play", "hip-hop", "now"), ("song", "=", "Hip", "-", "Hop"), 2))
    [(1, 2)]
    """
    own, letters = list(map(_letters, words)), list(map(_letters, target))
    wanted, edges = "".join(letters), {*accumulate(map(len, letters), initial=0)}
    for start in range(len(own)):
        read = ""
        for end in range(start + 1, min(start + longest, len(own)) + 1):
            read += own[end - 1]
            at = wanted.find(read)
            if at < 0:
                break
            while at >= 0 and not (at in edges and at + len(read) in edges):
                at = wanted.find(read, at + 1)
            if at >= 0:
                yield start, end


@lru_cache(1 << 16)
def _letters(word: str) -> str:
    return letters_of([word])


def mentions_of(grammar: Grammar, sources: Iterable[Sentence], today: date | None = None) -> list[Sequence[Mention]]:
    """What the grammar's slots find in each source, free text aside; how it was typed matters to names."""
    return [() if grammar.slots is None else grammar.slots.mentions(source, today=today) for source in sources]


def unknown_places(grammar: Grammar, words: Tokens) -> list[int]:
    """Where the words stand that are in no rule and in no value of a slot; that words may be any text, says nothing."""
    (mentions,) = mentions_of(grammar, [words])
    free_text = grammar.slots.free_text if grammar.slots else ()
    values = {place for each in mentions if each.slot not in free_text for place in range(each.start, each.end)}
    return [place for place, word in enumerate(words) if word not in grammar.words and place not in values]


def of_sentences(
    grammar: Grammar, sources: Sequence[Sentence], mentions: Sequence[Sequence[Mention]] | None = None
) -> Grammar:
    """The grammar with which these sources are read: what its slots find in them become rules."""
    if grammar.slots is None:
        return grammar
    found = mentions_of(grammar, sources) if mentions is None else mentions
    own = (grammar.rules, grammar.max_non_terminals, grammar.target_grammar, grammar.slots)
    return SentenceGrammar(*own, whole=grammar, sentences=sources, mentions=found)


def columns(grammar: Grammar, rules: Int32Array) -> Int32Array:
    """For rules of a grammar of sentences the rules of the model whose scores they have."""
    return grammar.columns(rules) if isinstance(grammar, SentenceGrammar) else rules


def views(
    grammar: Grammar,
    sources: Sequence[Sentence],
    mentions: Sequence[Sequence[Mention]] | None = None,
    known: Container[str] | None = None,
) -> list[tuple[str, ...]]:
    """Sentences as a model sees them: of values it sees their slots, for what matters is seldom which value it is.

    Where mentions overlap, the longest counts, then the first. What slots of free text read is seen as it is, but of
    words that are not `known` only how they are typed.
    """
    slots = grammar.slots
    if slots is None:
        return list(map(words_of, sources))
    shown: list[tuple[str, ...]] = []
    for sentence, found in zip(sources, mentions_of(grammar, sources) if mentions is None else mentions, strict=True):
        seen = list(words_of(sentence))
        words = dict(enumerate(seen))
        for readings in longest_spans(each for each in found if each.slot not in slots.free_text):
            first = min(readings)
            for place in range(first.start, first.end):
                seen[place] = first.token
                del words[place]
        if slots.free_text and known is not None:
            *_, slot = slots.free_text
            for place, word in words.items():
                if word not in known:
                    seen[place] = shape("".join(slots.text_value(sentence, slot, place, place + 1)))
        shown.append(tuple(seen))
    return shown


SHAPES = ("@x", "@X", "@Xx", "@0")


def shape(word: str) -> str:
    """How a word is typed.

    >>> [shape(word) for word in ("jude", "Jude", "USA", "X", "U2")]
    ['@x', '@Xx', '@X', '@Xx', '@0']
    """
    if any(map(str.isdigit, word)):
        return "@0"
    return "@x" if word == word.lower() else "@X" if len(word) > 1 and word == word.upper() else "@Xx"
