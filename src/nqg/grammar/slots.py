"""Slots in a grammar: `@time ### @time` reads whatever is a time in a sentence, and yields its value.

What a slot may read is known when there is a sentence. Each value that is found there becomes a rule of its own, such
as `half past six ### 6:30`, with the type and the score of the slot's rule; so charts, types and forests need not know
of slots, and readings that overlap are alternatives like any others. In all other rules a slot is a non-terminal.

Induction sees examples in which values are marked by placeholders, `@time_1` for the first time in the sentence. They
are terminals to it; afterwards they become non-terminals.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from nqg.grammar.arrays import Int32Array
from nqg.grammar.encoding import EncodedGrammar
from nqg.grammar.grammar import SLOT, Grammar, NonTerminal, Rule, RuleNumbers, Symbol, Symbols, ValueRule
from nqg.grammar.target_grammar import QUOTES, Category, Production, TargetGrammar, TargetSymbol, Wildcard
from nqg.grammar.types import Typing
from nqg.text.mentions import Mention, is_word, longest_spans, spans_like

if TYPE_CHECKING:
    from nqg.text.sentences import TokenizedSentence

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
    """The arguments `key = value` and `"key" : "value"` of a program, each whole and its value alone."""
    for at in range(1, len(target) - 1):
        if target[at] not in ("=", ":"):
            continue
        first = at - 3 if target[at - 1] in QUOTES and at >= 3 else at - 1
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


Value = tuple[tuple[str, ...], Symbols, int]  # words, what they mean, and the number of the slot's rule


class ValueNumbers(RuleNumbers):
    """The numbers of a grammar's rules and of its values' rules, few of which are ever made."""

    of_values: Mapping[Value, int]

    def __missing__(self, rule: Rule) -> int:
        slot_rule = super().__missing__(rule)
        return self.of_values.get((rule.source, rule.target, slot_rule), slot_rule)  # type: ignore[arg-type]


@dataclass(frozen=True)
class SentenceGrammar(Grammar):
    """A grammar with the rules of the values in some sentences behind its own, `rules`."""

    whole: Grammar = field(kw_only=True)
    values: tuple[Value, ...] = field(kw_only=True)

    def __post_init__(self) -> None:
        """The rules were checked when the grammar was made, and values are different from each other."""

    def __len__(self) -> int:
        return len(self.rules) + len(self.values)

    def __iter__(self) -> Iterator[Rule]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> Rule:
        if number < len(self.rules):
            return self.rules[number]
        source, target, slot_rule = self.values[number - len(self.rules)]
        return ValueRule(source, target, self.rules[slot_rule])

    @cached_property
    def numbers(self) -> ValueNumbers:
        numbers = ValueNumbers(self.whole.numbers)
        numbers.of_values = {value: number for number, value in enumerate(self.values, start=len(self.rules))}
        return numbers

    @cached_property
    def _slot_rules(self) -> list[int]:
        return [slot_rule for _, _, slot_rule in self.values]

    @cached_property
    def encoded(self) -> EncodedGrammar:
        sources, targets = [value[0] for value in self.values], [value[1] for value in self.values]
        return self.whole.encoded.extended(sources, targets, self.whole.slot_rules)

    @cached_property
    def typing(self) -> Typing | None:
        return None if self.whole.typing is None else self.whole.typing.extended(self._slot_rules)

    def typed_by(self, target_grammar: TargetGrammar | None) -> Grammar:
        return replace(self, whole=self.whole.typed_by(target_grammar), target_grammar=target_grammar)

    @cached_property
    def columns(self) -> Int32Array:
        """For every rule the one whose score it has: the slot's of a value's, else itself."""
        return np.array([*range(len(self.whole)), *self._slot_rules], dtype=np.int32)


def mentions_of(grammar: Grammar, sources: Iterable[Tokens | TokenizedSentence]) -> list[Sequence[Mention]]:
    """What the grammar's slots find in each source; how it was typed matters to values that are names or text."""
    return [() if grammar.slots is None else grammar.slots.alternatives(source) for source in sources]


def unknown_places(grammar: Grammar, words: Tokens) -> list[int]:
    """Where the words stand that are in no rule and in no value of a slot; that words may be any text, says nothing."""
    (mentions,) = mentions_of(grammar, [words])
    free_text = grammar.slots.free_text if grammar.slots else ()
    values = {place for each in mentions if each.slot not in free_text for place in range(each.start, each.end)}
    return [place for place, word in enumerate(words) if word not in grammar.words and place not in values]


def of_sentences(
    grammar: Grammar, sources: Sequence[Tokens], mentions: Sequence[Sequence[Mention]] | None = None
) -> Grammar:
    """The grammar with which these sources are read: what its slots find in them become rules."""
    if grammar.slots is None:
        return grammar
    reading: dict[str, list[tuple[int, Symbols, list[Symbols]]]] = {}  # what stands before a value, and after it
    for number, slot in grammar.slot_rules.items():
        before, *after = _parts(grammar[number].target, slot)
        reading.setdefault(slot.removeprefix(SLOT), []).append((number, before, after))
    values: dict[Value, None] = {}
    for source, found in zip(sources, mentions_of(grammar, sources) if mentions is None else mentions, strict=True):
        source = tuple(source)
        for start, end, slot, value in found:
            for number, before, after in reading.get(slot, ()):
                target = before
                for part in after:
                    target = target + value + part
                values[source[start:end], target, number] = None
    return SentenceGrammar(
        grammar.rules,
        grammar.max_non_terminals,
        grammar.target_grammar,
        grammar.slots,
        whole=grammar,
        values=tuple(values),
    )


def _parts(target: Symbols, slot: str) -> list[Symbols]:
    """What stands around the slot's terminals."""
    places = [-1, *(place for place, each in enumerate(target) if each == slot), len(target)]
    return [target[left + 1 : right] for left, right in pairwise(places)]


def columns(grammar: Grammar, rules: Int32Array) -> Int32Array:
    """For rules of a grammar of sentences the rules of the model whose scores they have."""
    return grammar.columns[rules] if isinstance(grammar, SentenceGrammar) else rules


def views(
    grammar: Grammar,
    sources: Sequence[Tokens],
    mentions: Sequence[Sequence[Mention]] | None = None,
    known: Container[str] | None = None,
) -> list[tuple[str, ...]]:
    """Sentences as a model sees them: of values it sees their slots, for what matters is seldom which value it is.

    Where mentions overlap, the longest counts, then the first. What slots of free text read is seen as it is, but of
    words that are not `known` only how they are typed.
    """
    if grammar.slots is None:
        return [tuple(source) for source in sources]
    free_text = grammar.slots.free_text
    shown: list[tuple[str, ...]] = []
    for tokens, found in zip(sources, mentions_of(grammar, sources) if mentions is None else mentions, strict=True):
        seen, is_value = list(tokens), [False] * len(tokens)
        for readings in longest_spans(each for each in found if each.slot not in free_text):
            first = min(readings)
            seen[first.start : first.end] = [first.token] * (first.end - first.start)
            is_value[first.start : first.end] = [True] * (first.end - first.start)
        if free_text and known is not None:
            typed = {each.start: each.value for each in found if each.slot in free_text and each.end == each.start + 1}
            for place, word in enumerate(seen):
                if not is_value[place] and word not in known:
                    seen[place] = shape("".join(typed.get(place, (word,))))
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
