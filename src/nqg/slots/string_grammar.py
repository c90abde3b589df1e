"""The grammar of programs as strings, from a target grammar of their tokens.

A target grammar speaks of tokens, and slots stand for values. Other decoders write strings. Between
two tokens stands the white space that training programs have there, which depends on both tokens
and on whether a quotation is open. So a category has one rule for each pair of what stands before
it and what stands after it, as the product of a grammar with a finite-state transducer has. States
that no token tells apart are one, and few are left.

Values of slots are listed or described (`nqg.slots.value_patterns`). A wildcard takes what is
sensible in its place: `<...>` inside of quotes is any text without quotes; outside of quotes it is
words, strings and whatever stands in matching brackets.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import NamedTuple, TypeAlias

from nqg.grammar.grammar import SLOT
from nqg.slots.slot import Slot
from nqg.slots.value_patterns import (
    CONTRACTION,
    NUMERIC_TOKENS,
    slot_values,
    text_in_quotes,
    words_outside_quotes,
)
from nqg.text.brackets import BRACKETS, QUOTES
from nqg.text.patterns import (
    NUMBER,
    WORD_CHARACTER,
    Characters,
    Pattern,
    choice,
    concatenation,
    joined_words,
    other_words,
    repeated,
)
from nqg.text.programs import ProgramTokenizer
from nqg.text.spelling import Spelling, SpellingState
from nqg.types.target_grammar import Category, TargetGrammar, TargetSymbol, Wildcard

# The rules of `<...>` outside of quotes.
ANYTHING, ITEM, LIST = "any_tokens", "any_item", "any_list"


@dataclass(frozen=True)
class Reference:
    """The name of a rule."""

    rule: str


@dataclass(frozen=True)
class Terminal:
    """A pattern with a name."""

    name: str
    pattern: Pattern


StringSymbol: TypeAlias = str | Reference | Terminal
Alternative: TypeAlias = tuple[StringSymbol, ...]


@dataclass(frozen=True)
class StringGrammar:
    """Rules over strings, patterns and other rules; the first rule is the start."""

    rules: Mapping[str, Sequence[Alternative]]

    @property
    def start(self) -> str:
        return next(iter(self.rules))

    @cached_property
    def terminals(self) -> dict[str, Pattern]:
        """The patterns by name, in the order of their use."""
        terminals = {}
        for alternatives in self.rules.values():
            for alternative in alternatives:
                for symbol in alternative:
                    if isinstance(symbol, Terminal):
                        terminals[symbol.name] = symbol.pattern
        return terminals


def string_grammar(
    target_grammar: TargetGrammar, programs: ProgramTokenizer, slots: Iterable[Slot]
) -> StringGrammar:
    """The grammar of the programs that users see.

    >>> from nqg.text.programs import fit_programs
    >>> grammar = TargetGrammar.parse("<program> ::= set ( <name> , <#> )\\n<name> ::= fan | tv")
    >>> programs = fit_programs(["set(fan, 20)"])
    >>> for name, alternatives in string_grammar(grammar, programs, ()).rules.items():
    ...     print(name, *alternatives, sep=" | ")
    start | (Reference(rule='program'),)
    program | ('set(', Reference(rule='name'), ', ', Terminal(name='NUMBER', pattern=...), ')')
    name | ('fan',) | ('tv',)
    """
    return _Product(target_grammar, programs, tuple(slots)).grammar()


@dataclass(frozen=True)
class _Span:
    """A category, or a slot, with what stands before it and behind it."""

    name: str
    before: SpellingState
    after: SpellingState


class _SpelledSymbols(NamedTuple):
    """What symbols write, the state behind it, and the categories used, each between its states."""

    symbols: list[StringSymbol]
    state: SpellingState
    used: list[tuple[Category, SpellingState, SpellingState]]


@dataclass
class _Product:
    """The product of a target grammar with the spelling of programs."""

    target_grammar: TargetGrammar
    programs: ProgramTokenizer
    slots: tuple[Slot, ...]
    names: dict[_Span, str] = field(default_factory=dict)
    marks: dict[Characters, str] = field(default_factory=dict)
    words: dict[tuple[str, str], Pattern] = field(default_factory=dict)
    has_new_keys: bool = False
    has_anything: bool = False
    taken: set[str] = field(default_factory=lambda: {ANYTHING, ITEM, LIST})

    def __post_init__(self) -> None:
        self.spelling = Spelling(self.programs)
        self.slot_of = {f"{SLOT}{slot.name}": slot for slot in self.slots}
        self.rights: dict[Category, list[tuple[TargetSymbol, ...]]] = {}
        for production in self.target_grammar.productions:
            self.rights.setdefault(production.left, []).append(production.right)
        # The states behind a category, by the state before it.
        self.ends: dict[tuple[Category, SpellingState], dict[SpellingState, None]] = {}

    def grammar(self) -> StringGrammar:
        # The first pass shows which tokens follow which state.
        self._find_ends()
        self.spelling.merge_states()
        self.ends.clear()
        self.names.clear()
        self.marks.clear()
        self.taken = {ANYTHING, ITEM, LIST}
        self._find_ends()
        start, begin = self.target_grammar.start, self.spelling.begin
        rules: dict[str, list[Alternative]] = {}
        first = self._unused("start")
        rules[first] = []
        waiting = []
        for end in self.ends[start, begin]:
            span = _Span(start.name, begin, end)
            reference = Reference(self._name(span))
            rules[first].append(_without_empty([reference, self.spelling.end(end)]))
            waiting.append((start, begin, end))
        # Rules in the order of their first use.
        done = set()
        while waiting:
            key = waiting.pop(0)
            if key in done:
                continue
            done.add(key)
            category, before, after = key
            name = self._name(_Span(category.name, before, after))
            rules[name] = []
            for right in self.rights[category]:
                for symbols, state, used in self._spelled(right, before):
                    if state == after:
                        rules[name].append(_without_empty(symbols))
                        waiting += used
            rules[name] = list(dict.fromkeys(rules[name]))
        if self.has_anything:
            rules.update(self._anything())
        return StringGrammar(_joined_tokens(self._lists_from_left(rules)))

    def _lists_from_left(
        self, rules: Mapping[str, Sequence[Alternative]]
    ) -> dict[str, list[Alternative]]:
        """Rules in which a list is joined of its first items and one more, and not of lists.

        A target grammar joins lists, `list ::= item | list , list`, as derivations do. The strings
        are the same, and there is one way to read each.
        """
        joins = {name: _list_join(name, rules[name]) for name in rules}
        lists: dict[str, list[Alternative]] = {}
        items: dict[str, list[Alternative]] = {}
        item_of: dict[str, str] = {}
        for name, alternatives in rules.items():
            lists[name] = list(alternatives)
            join = joins[name]
            # The lists behind the marks must be lists of the same kind.
            if join is None or not all(join.marks) or joins.get(join.last) != join:
                continue
            last = join.last
            if last not in item_of:
                item_of[last] = self._unused(f"{last}_item")
            item = Reference(item_of[last])
            singles = [right for right in rules[last] if right[0] != Reference(last)]
            items[item.rule] = singles
            lists[name] = []
            for right in alternatives:
                if right[0] == Reference(name):
                    lists[name].append((*right[:-1], item))
                elif name != last:
                    lists[name].append(right)
            if name == last:
                lists[name].append((item,))
        return {**lists, **items}

    def _find_ends(self) -> None:
        """Find the states in which each category may end, until no more are found."""
        self.ends[self.target_grammar.start, self.spelling.begin] = {}
        is_changed = True
        while is_changed:
            is_changed = False
            for category, before in list(self.ends):
                ends = self.ends[category, before]
                count = len(ends)
                for right in self.rights[category]:
                    for _, state, _ in self._spelled(right, before):
                        ends[state] = None
                is_changed |= len(ends) > count
            is_changed |= self.has_new_keys
            self.has_new_keys = False
        for end in self.ends[self.target_grammar.start, self.spelling.begin]:
            self.spelling.end(end)

    def _spelled(
        self, right: Sequence[TargetSymbol], before: SpellingState
    ) -> Iterator[_SpelledSymbols]:
        """The ways to spell the symbols of a production."""
        if not right:
            yield _SpelledSymbols([], before, [])
            return
        *others, last = right
        for symbols, state, used in self._spelled(others, before):
            if isinstance(last, Category):
                key = (last, state)
                if key not in self.ends:
                    self.ends[key] = {}
                    self.has_new_keys = True
                for after in list(self.ends[key]):
                    reference = Reference(self._name(_Span(last.name, state, after)))
                    now_used = [*used, (last, state, after)]
                    yield _SpelledSymbols([*symbols, reference], after, now_used)
            else:
                for written, after in self._written(last, state):
                    yield _SpelledSymbols([*symbols, *written], after, used)

    def _written(
        self, symbol: str | Wildcard, state: SpellingState
    ) -> Iterator[tuple[list[StringSymbol], SpellingState]]:
        """A token, the values of a slot, or what a wildcard takes."""
        if isinstance(symbol, Wildcard):
            yield from self._wildcard(symbol, state)
        elif symbol in self.slot_of:
            yield from self._slot(self.slot_of[symbol], state)
        else:
            spelled = self.spelling.write(state, [symbol])
            yield [str(spelled)], spelled.state

    def _slot(
        self, slot: Slot, state: SpellingState
    ) -> Iterator[tuple[list[StringSymbol], SpellingState]]:
        values = slot_values(slot)
        for value in values.listed:
            tokens = self.programs.tokenize(value, state.quote)
            spelled = self.spelling.write(state, tokens)
            yield [str(spelled)], spelled.state
        if values.is_text:
            yield self._matching("TEXT", self._text(state.quote), "x", state)
        elif values.pattern is not None:
            name = re.sub(r"\W", "_", slot.name).upper()
            yield self._matching(f"SLOT_{name}", values.pattern, values.sample, state)

    def _matching(
        self, name: str, pattern: Pattern, sample: str, state: SpellingState
    ) -> tuple[list[StringSymbol], SpellingState]:
        """A pattern with the white space before it, given a string that it matches."""
        tokens = self.programs.tokenize(sample, state.quote)
        gap, _, gap_behind, after = self.spelling.write(state, tokens)
        terminal = Terminal(_named(name, state.quote), pattern)
        return [gap, terminal, gap_behind], after

    # Wildcards.

    def _wildcard(
        self, wildcard: Wildcard, state: SpellingState
    ) -> Iterator[tuple[list[StringSymbol], SpellingState]]:
        if wildcard is Wildcard.NUMBER:
            yield self._matching("NUMBER", NUMBER, "5", state)
        elif wildcard is Wildcard.TOKENS and state.quote:
            yield self._matching("TEXT", self._text(state.quote), "x", state)
        elif wildcard is Wildcard.TOKENS:
            self.has_anything = True
            gap, _, gap_behind, after = self.spelling.write(state, ["x"])
            yield [gap, Reference(ANYTHING), gap_behind], after
        else:
            excluded: frozenset[str] = frozenset()
            if wildcard is Wildcard.NEW_TOKEN:
                excluded = self.target_grammar.terminals
            name = "NEW_WORD" if excluded else "WORD"
            if (name, state.quote) not in self.words:
                pattern = word_pattern(self.programs, excluded, state.quote)
                self.words[name, state.quote] = pattern
            yield self._matching(name, self.words[name, state.quote], "x", state)
            if state.quote and self.programs.scheme == "code":
                yield from self._marks(excluded, state)

    def _marks(
        self, known: frozenset[str], state: SpellingState
    ) -> Iterator[tuple[list[StringSymbol], SpellingState]]:
        """Single marks inside of quotes, those together that are spaced alike."""
        alike: dict[tuple[str, str, SpellingState], list[str]] = {}
        for mark in string.punctuation:
            if mark not in "\"'\\_" and mark not in known:
                gap, _, gap_behind, after = self.spelling.write(state, [mark])
                alike.setdefault((gap, gap_behind, after), []).append(mark)
        for (gap, gap_behind, after), marks in alike.items():
            pattern = Characters.of(marks)
            name = self.marks.setdefault(pattern, f"MARK_{len(self.marks) + 1}")
            yield [gap, Terminal(name, pattern), gap_behind], after

    def _text(self, quote: str) -> Pattern:
        """Any text in a place where such a quotation is open, or none."""
        if self.programs.scheme == "spaces":
            return joined_words(UNQUOTED_RUN)
        if quote:
            return text_in_quotes(quote)
        return words_outside_quotes()

    def _anything(self) -> dict[str, list[Alternative]]:
        """Rules for `<...>` outside of quotes: words, strings, and lists in brackets."""
        before, between = "", ""
        if self.programs.scheme == "spaces":
            before, between = " ", " "
        marks = "".join((*BRACKETS, *BRACKETS.values(), *QUOTES))
        chunk = Terminal("CHUNK", repeated(Characters.other_than(marks + ",;\n "), 1))
        separated = Terminal("SEPARATOR", Characters.of(",; "))
        items: list[Alternative] = [(chunk,)]
        for quote in QUOTES:
            text = Terminal(_named("TEXT", quote), self._text(quote))
            items.append((f"{quote}{before}", text, f"{before}{quote}"))
        for opening, closing in BRACKETS.items():
            inner = Reference(LIST)
            items.append((f"{opening}{before}", inner, f"{before}{closing}"))
            items.append((f"{opening}{before}{closing}",))
        item, anything = Reference(ITEM), Reference(ANYTHING)
        rules = {
            ANYTHING: [(item,), _without_empty([anything, between, item])],
            ITEM: items,
            LIST: [(item,), _without_empty([Reference(LIST), between, item])],
        }
        rules[LIST].append(_without_empty([Reference(LIST), between, separated]))
        if not between:
            rules[ANYTHING].append((anything, " ", item))
        return rules

    # Names.

    def _name(self, span: _Span) -> str:
        if span not in self.names:
            self.names[span] = self._unused(span.name)
        return self.names[span]

    def _unused(self, name: str) -> str:
        """A name of letters, digits and underscores that no other rule has."""
        plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "category"
        if plain[0].isdigit():
            plain = f"category_{plain}"
        unused, number = plain, 1
        while unused in self.taken:
            number += 1
            unused = f"{plain}_{number}"
        self.taken.add(unused)
        return unused


NO_SPACE = Characters(((0x21, 0xD7FF), (0xE000, 0x10FFFF)))
_QUOTE_MARKS = "".join(QUOTES)
ANY_RUN = repeated(NO_SPACE, 1)
# What stands between spaces, but for a single quotation mark.
UNQUOTED_RUN = choice(
    [
        concatenation(NO_SPACE.without(_QUOTE_MARKS), repeated(NO_SPACE)),
        concatenation(Characters.of(_QUOTE_MARKS), repeated(NO_SPACE, 1)),
    ]
)


def word_pattern(
    programs: ProgramTokenizer, known: frozenset[str], quote: str
) -> Pattern:
    """One word or number, other than the words that are known, where a quotation is open or none."""
    if programs.scheme == "spaces":
        if known:
            return other_words(known | set(QUOTES), NO_SPACE)
        return ANY_RUN
    options = [*NUMERIC_TOKENS]
    if quote != "'":
        options.append(CONTRACTION)
    if not quote:
        variable = concatenation(Characters.of("@$?#"), repeated(WORD_CHARACTER, 1))
        options.append(variable)
    return choice([*options, other_words(known)])


class _ListJoin(NamedTuple):
    """The marks between the lists that a rule joins, and the rule of the lists behind them."""

    marks: frozenset[Alternative]
    last: str


def _list_join(name: str, alternatives: Sequence[Alternative]) -> _ListJoin | None:
    """How a rule joins itself with lists of one kind; None if it does not.

    >>> _list_join("list", [("x",), (Reference("list"), ",", Reference("list"))])
    _ListJoin(marks=frozenset({(',',)}), last='list')
    """
    marks, last = set(), set()
    for alternative in alternatives:
        if alternative[0] == Reference(name):
            marks.add(alternative[1:-1])
            last.add(alternative[-1])
    kinds = [symbol.rule for symbol in last if isinstance(symbol, Reference)]
    if len(last) == len(kinds) == 1:
        return _ListJoin(frozenset(marks), kinds[0])
    return None


def _named(name: str, quote: str) -> str:
    """The name of a terminal, which may differ between quotes of both kinds and without them."""
    return name + {"": "", '"': "_IN_DOUBLE", "'": "_IN_SINGLE"}.get(quote, "_IN_BACK")


def _without_empty(symbols: Iterable[StringSymbol]) -> Alternative:
    return tuple(symbol for symbol in symbols if symbol != "")


def _joined_tokens(
    rules: Mapping[str, Sequence[Alternative]],
) -> dict[str, list[Alternative]]:
    """Rules in which tokens are one string if they always stand together: `set_level(`.

    Decoders split text into the longest strings that they know, and do not go back. So `set` must
    not begin a longer string in one place and stand alone in another.
    """
    runs: dict[str, set[Alternative]] = {}
    for alternatives in rules.values():
        for alternative in alternatives:
            for run in _runs(alternative):
                if isinstance(run[0], str):
                    runs.setdefault(run[0], set()).add(run)
    joined: dict[str, list[Alternative]] = {}
    for name, alternatives in rules.items():
        joined[name] = []
        for alternative in alternatives:
            symbols: list[StringSymbol] = []
            for run in _runs(alternative):
                if isinstance(run[0], str) and len(runs[run[0]]) == 1:
                    symbols.append("".join(map(str, run)))
                else:
                    symbols += run
            joined[name].append(tuple(symbols))
    return joined


def _runs(alternative: Alternative) -> Iterator[Alternative]:
    """The strings of an alternative that stand together, and all others alone."""
    for is_text, run in groupby(alternative, lambda symbol: isinstance(symbol, str)):
        if is_text:
            yield tuple(run)
        else:
            for symbol in run:
                yield (symbol,)
