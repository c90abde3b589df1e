"""Rules of the quasi-synchronous grammar, NT → ⟨source, target⟩ (section 4.1.1 of the paper), and sets of them as text.

A file has one rule a line, `source ### target`. A word that could be misread has a backslash before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nqg.errors import FormatError, Place
from nqg.extensions import notebook_html
from nqg.files import numbered_lines, write_text
from nqg.text.escapes import escape, signs, unescape

if TYPE_CHECKING:
    from nqg.grammar.encoding import EncodedGrammar
    from nqg.grammar.hypergraph import Hypergraph
    from nqg.slots.matcher import SlotMatcher
    from nqg.types.target_grammar import TargetGrammar
    from nqg.types.tree_automaton import Typing

SEPARATOR = "###"
SLOT = (
    "@"  # the first character of the terminals that stand for slots, in rules and target grammars
)
MAX_NON_TERMINALS = 2  # the paper's bound; later work uses up to four
_NON_TERMINAL = re.compile(r"NT_([1-9][0-9]{0,3})")
_SIGNS = signs("NT_[1-9][0-9]{0,3}|#.*")


@dataclass(frozen=True, slots=True, order=True)
class NonTerminal:
    """The non-terminal NT with an index that links source and target.

    >>> str(NonTerminal(1))
    'NT_1'
    """

    index: int

    def __str__(self) -> str:
        return f"NT_{self.index}"


Symbol = str | NonTerminal


def format_symbol(symbol: Symbol) -> str:
    r"""`symbol` as it is written in a file.

    >>> [format_symbol(symbol) for symbol in (NonTerminal(1), "NT_1", "jump", "###")]
    ['NT_1', '\\NT_1', 'jump', '\\###']
    """
    if isinstance(symbol, NonTerminal):
        return str(symbol)
    return escape(symbol, _SIGNS)


@lru_cache(
    maxsize=1 << 16
)  # files repeat their tokens; the cache also makes equal tokens one object
def read_symbol(text: str) -> Symbol:
    r"""The symbol that `text` spells.

    >>> read_symbol("NT_2"), read_symbol(r"\NT_2"), read_symbol("NT_0"), read_symbol("\\")
    (NonTerminal(index=2), 'NT_2', 'NT_0', '\\')
    """
    match = _NON_TERMINAL.fullmatch(text)
    if match:
        return NonTerminal(int(match[1]))
    return unescape(text, _SIGNS)


@lru_cache(maxsize=1 << 16)
def is_token(text: str) -> bool:
    """Whether a sentence can hold `text` as one token: it is not empty and has no white space.

    >>> is_token("loc_2"), is_token("new york"), is_token("")
    (True, False, False)
    """
    return text.split() == [text]


def check_terminals(symbols: Iterable[Symbol]) -> None:
    """Refuse terminals that could not be told apart in a sentence."""
    for symbol in symbols:
        if isinstance(symbol, str) and not is_token(symbol):
            raise FormatError(
                f"terminal {symbol!r} is empty or holds white space; a token has neither"
            )


Symbols = tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its source holds NT_1, NT_2, … once each and in order, its target the same ones, each at least once.

    >>> rule = Rule.parse("NT_1 twice ### NT_1 NT_1")
    >>> rule.arity, rule.target
    (1, (NonTerminal(index=1), NonTerminal(index=1)))
    >>> str(rule)
    'NT_1 twice ### NT_1 NT_1'
    """

    source: Symbols
    target: Symbols
    arity: int = field(
        init=False, repr=False, compare=False
    )  # how many non-terminals the source has

    def __post_init__(self) -> None:
        check_terminals(self.source + self.target)
        if not self.source or not self.target:
            raise FormatError(
                f"the {'source' if not self.source else 'target'} of the rule is empty"
            )
        indices = [symbol.index for symbol in self.source if isinstance(symbol, NonTerminal)]
        if len(self.source) == len(indices) == 1:
            raise FormatError(
                "the source is a lone non-terminal; expected at least one more symbol"
            )
        if indices != list(range(1, len(indices) + 1)):
            raise FormatError(
                f"the source has {_listed(indices)}; expected NT_1, NT_2, … once each and in order"
            )
        used = sorted({symbol.index for symbol in self.target if isinstance(symbol, NonTerminal)})
        if used != indices:
            raise FormatError(
                f"the source has {_listed(indices)} but the target {_listed(used)}; expected the same"
            )
        object.__setattr__(self, "arity", len(indices))

    @classmethod
    def parse(cls, text: str) -> Rule:
        """The rule that `text` spells as `source ### target`."""
        tokens = text.split()
        count = tokens.count(SEPARATOR)
        if count != 1:
            raise FormatError(
                f"expected 'source {SEPARATOR} target', found '{SEPARATOR}' {count} times"
            )
        middle = tokens.index(SEPARATOR)
        symbols = [read_symbol(token) for token in tokens]
        return cls(tuple(symbols[:middle]), tuple(symbols[middle + 1 :]))

    def __str__(self) -> str:
        source, target = (" ".join(map(format_symbol, side)) for side in (self.source, self.target))
        return f"{source} {SEPARATOR} {target}"


def _listed(indices: list[int]) -> str:
    return ", ".join(f"NT_{index}" for index in indices) or "no non-terminal"


@dataclass(frozen=True, slots=True)
class SlotInstance(Rule):
    """A rule of a slot with a value found in a sentence: `half past six ### 6:30` for `@time ### @time`."""

    slot_rule: Rule

    @property
    def terminal(self) -> str:
        """The terminal that stands for the slot, `@time`."""
        return str(self.slot_rule.source[0])

    @property
    def slot(self) -> str:
        return self.terminal.removeprefix(SLOT)

    @property
    def value(self) -> Symbols:
        """What the target has in the place of the slot's terminal.

        >>> half_past = SlotInstance(("half", "past"), ("at", "6:30", "pm"), Rule(("@time",), ("at", "@time")))
        >>> half_past.slot, half_past.value
        ('time', ('6:30', 'pm'))
        """
        around = self.slot_rule.target
        if self.terminal not in around:
            return ()
        first, times = around.index(self.terminal), around.count(self.terminal)
        return self.target[first : first + (len(self.target) - len(around)) // times + 1]


class FreeTextRule(NamedTuple):
    """The number of a rule that reads free text, the most words that it reads, and its place among `text_slots`."""

    rule: int
    max_length: int
    group: int


class RuleNumbers(dict[Rule, int]):
    def __missing__(self, rule: Rule) -> int:
        if isinstance(rule, SlotInstance):
            return self[rule.slot_rule]
        raise KeyError(rule)


@dataclass(frozen=True)
class Grammar:
    """Rules in a fixed order; the position of a rule is its number in charts, forests and models.

    With a `target_grammar` it is typed: it has only derivations whose targets are legal. With `slots`, rules such as
    `@time ### @time` read whatever the slot finds in a sentence; `nqg.slots.instantiate` makes them rules of it.

    >>> grammar = Grammar.parse('''
    ... # SCAN
    ... jump ### I_JUMP
    ... NT_1 twice ### NT_1 NT_1
    ... ''')
    >>> len(grammar), str(grammar[1])
    (2, 'NT_1 twice ### NT_1 NT_1')
    """

    rules: tuple[Rule, ...]
    max_non_terminals: int = MAX_NON_TERMINALS
    target_grammar: TargetGrammar | None = None
    slots: SlotMatcher | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if len(set(self.rules)) < len(self.rules):
            repeated = next(rule for at, rule in enumerate(self.rules) if rule in self.rules[:at])
            raise FormatError(f"rule '{repeated}' is in the grammar twice")
        for rule in self.rules:
            check_arity(rule, self.max_non_terminals)

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __getitem__(self, number: int) -> Rule:
        return self.rules[number]

    @cached_property
    def numbers(self) -> Mapping[Rule, int]:
        """The number of each rule, and of what a slot's rule reads that of the slot's rule."""
        return RuleNumbers((rule, number) for number, rule in enumerate(self.rules))

    @cached_property
    def slot_rules(self) -> Mapping[int, str]:
        """The numbers of the rules that read a slot, and the slots' terminals; none where there are no slots."""
        first = (
            (number, rule.source[0])
            for number, rule in enumerate(self.rules)
            if len(rule.source) == 1
        )
        return {
            number: str(each) for number, each in first if self.slots and str(each).startswith(SLOT)
        }

    @cached_property
    def slot_readers(self) -> Mapping[str, Sequence[int]]:
        """The numbers of the rules that read each slot."""
        found: dict[str, list[int]] = {}
        for rule, terminal in self.slot_rules.items():
            found.setdefault(terminal.removeprefix(SLOT), []).append(rule)
        return found

    @cached_property
    def text_rules(self) -> Sequence[FreeTextRule]:
        """The rules that read free text."""
        if not self.slots:
            return []
        rules: list[FreeTextRule] = []
        for slot, length in self.slots.free_text.items():
            for rule in self.slot_readers.get(slot, ()):
                group = self.text_slots.index(self.slots.same_texts[slot])
                rules.append(FreeTextRule(rule, length, group))
        return rules

    @cached_property
    def text_slots(self) -> Sequence[str]:
        """The slots of free text, one of those that mean the same."""
        same = self.slots.same_texts if self.slots else {}
        return list(
            dict.fromkeys(first for slot, first in same.items() if slot in self.slot_readers)
        )

    @cached_property
    def words(self) -> frozenset[str]:
        """The words on the source sides of its rules."""
        return frozenset(
            symbol for rule in self.rules for symbol in rule.source if isinstance(symbol, str)
        )

    @cached_property
    def encoded(self) -> EncodedGrammar:
        """The rules as integer arrays; made on first use."""
        from nqg.grammar.encoding import EncodedGrammar

        return EncodedGrammar.of(self.rules, self.slot_rules, self.text_rules)

    def with_meanings(
        self, sources: Hypergraph, targets: Sequence[Sequence[str]]
    ) -> EncodedGrammar:
        """The encoded grammar, which knows what values in charts of sources mean that can be part of their targets."""
        return self.encoded

    @cached_property
    def typing(self) -> Typing | None:
        """The types of its derivations, if it is typed; made on first use."""
        return None if self.target_grammar is None else self.target_grammar.typing(self.rules)

    def typed_by(self, target_grammar: TargetGrammar | None) -> Grammar:
        """The same rules, typed by `target_grammar` or, with None, untyped."""
        return (
            self
            if target_grammar == self.target_grammar
            else replace(self, target_grammar=target_grammar)
        )

    @classmethod
    def of(cls, rules: Iterable[Rule], max_non_terminals: int = MAX_NON_TERMINALS) -> Grammar:
        """The grammar of `rules`, repetitions dropped, in the order of their text."""
        return cls(tuple(sorted(set(rules), key=str)), max_non_terminals)

    @classmethod
    def parse(cls, text: str, max_non_terminals: int = MAX_NON_TERMINALS) -> Grammar:
        """The grammar that `text` spells, one rule a line; blank lines and lines that start with `#` are skipped."""
        lines = (
            (Place(Path("<text>"), at), line) for at, line in enumerate(text.split("\n"), start=1)
        )
        return cls(tuple(rules_in(lines, max_non_terminals)), max_non_terminals)

    @classmethod
    def read(cls, path: Path | str, max_non_terminals: int = MAX_NON_TERMINALS) -> Grammar:
        """The grammar in a file (plain or `.gz`); a malformed line is refused with file, line and reason."""
        return cls(
            tuple(rules_in(numbered_lines(Path(path)), max_non_terminals)), max_non_terminals
        )

    def write(self, path: Path | str) -> None:
        """Write the rules to a file, one a line, atomically."""
        write_text(Path(path), f"{self}\n" if self.rules else "")

    def __str__(self) -> str:
        return "\n".join(map(str, self.rules))

    def _repr_html_(self) -> str:
        """The rules as a notebook shows them."""
        return notebook_html(self)


class ChartGrammar(Protocol):
    """What charts and their derivations ask of a grammar: a `Grammar`, or one with the values of certain sentences."""

    @property
    def encoded(self) -> EncodedGrammar: ...

    @property
    def typing(self) -> Typing | None: ...

    def with_meanings(
        self, graph: Hypergraph, targets: Sequence[Sequence[str]], /
    ) -> EncodedGrammar: ...

    def __getitem__(self, number: int, /) -> Rule: ...


def check_arity(rule: Rule, bound: int) -> None:
    """Refuse a rule with more than `bound` non-terminals."""
    if rule.arity > bound:
        raise FormatError(
            f"rule '{rule}' has {rule.arity} non-terminals, more than max_non_terminals={bound}"
        )


def rules_in(lines: Iterable[tuple[Place, str]], bound: int) -> dict[Rule, Place]:
    """The rules that lines spell, one each, with their places; blank lines and comments are skipped."""
    places: dict[Rule, Place] = {}
    for place, line in lines:
        if not line.strip() or (line.startswith("#") and line.split(maxsplit=1)[0] != SEPARATOR):
            continue  # a line that begins with ### is not a comment but a rule without a source, which is refused
        try:
            rule = Rule.parse(line)
            check_arity(rule, bound)
        except FormatError as error:
            raise error.at(place) from None
        if rule in places:
            raise FormatError(f"rule '{rule}' was already on line {places[rule].line}", place)
        places[rule] = place
    return places
