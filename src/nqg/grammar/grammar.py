"""Rules of the quasi-synchronous grammar, NT → ⟨source, target⟩, and sets of them as text.

Section 4.1.1 of the paper defines the rules. A file has one rule a line, `source ### target`. A
word that could be misread has a backslash before it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain, count
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
# The first character of the terminals that stand for slots, in rules and target grammars.
SLOT = "@"
# The paper's bound; later work uses up to four.
MAX_NON_TERMINALS = 2
_NON_TERMINAL = re.compile(r"NT_([1-9][0-9]{0,3})")
_RULE_SIGNS = signs("NT_[1-9][0-9]{0,3}|#.*")


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
    return escape(symbol, _RULE_SIGNS)


# Files repeat their tokens; the cache also makes equal tokens one object.
@lru_cache(maxsize=1 << 16)
def read_symbol(text: str) -> Symbol:
    r"""The symbol that `text` spells.

    >>> read_symbol("NT_2"), read_symbol(r"\NT_2"), read_symbol("NT_0"), read_symbol("\\")
    (NonTerminal(index=2), 'NT_2', 'NT_0', '\\')
    """
    match = _NON_TERMINAL.fullmatch(text)
    if match:
        return NonTerminal(int(match[1]))
    return unescape(text, _RULE_SIGNS)


@lru_cache(maxsize=1 << 16)
def is_token(text: str) -> bool:
    """Whether a sentence can hold `text` as one token: it is not empty and has no white space.

    >>> is_token("loc_2"), is_token("new york"), is_token("")
    (True, False, False)
    """
    return text.split() == [text]


def argument_indices(symbols: Iterable[Symbol]) -> list[int]:
    """The index of each occurrence of a non-terminal among symbols, in their order."""
    return [symbol.index for symbol in symbols if isinstance(symbol, NonTerminal)]


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
    """One rule: its source holds NT_1, NT_2, … in order, its target the same ones.

    >>> rule = Rule.parse("NT_1 twice ### NT_1 NT_1")
    >>> rule.arity, rule.target
    (1, (NonTerminal(index=1), NonTerminal(index=1)))
    >>> str(rule)
    'NT_1 twice ### NT_1 NT_1'
    """

    source: Symbols
    target: Symbols
    # How many non-terminals the source has.
    arity: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_terminals(self.source + self.target)
        if not self.source:
            raise FormatError("the source of the rule is empty")
        if not self.target:
            raise FormatError("the target of the rule is empty")
        # The source has NT_1, NT_2, … once each and in order, and something beside a lone one.
        indices = argument_indices(self.source)
        if len(self.source) == len(indices) == 1:
            raise FormatError(
                "the source is a lone non-terminal; expected at least one more symbol"
            )
        if indices != list(range(1, len(indices) + 1)):
            raise FormatError(
                f"the source has {_listed(indices)}; expected NT_1, NT_2, … once each and in order"
            )
        # The target has the same non-terminals, each at least once.
        used = sorted(set(argument_indices(self.target)))
        if used != indices:
            both = f"the source has {_listed(indices)} but the target {_listed(used)}"
            raise FormatError(f"{both}; expected the same")
        object.__setattr__(self, "arity", len(indices))

    @classmethod
    def parse(cls, text: str) -> Rule:
        """The rule that `text` spells as `source ### target`."""
        tokens = text.split()
        times = tokens.count(SEPARATOR)
        if times != 1:
            raise FormatError(
                f"expected 'source {SEPARATOR} target', found '{SEPARATOR}' {times} times"
            )
        middle = tokens.index(SEPARATOR)
        symbols = [read_symbol(token) for token in tokens]
        return cls(tuple(symbols[:middle]), tuple(symbols[middle + 1 :]))

    def __str__(self) -> str:
        source = " ".join(map(format_symbol, self.source))
        target = " ".join(map(format_symbol, self.target))
        return f"{source} {SEPARATOR} {target}"


def _listed(indices: list[int]) -> str:
    return ", ".join(f"NT_{index}" for index in indices) or "no non-terminal"


@dataclass(frozen=True, slots=True)
class SlotInstance(Rule):
    """A rule of a slot with a value found in a sentence.

    For `@time ### @time` that may be `half past six ### 6:30`.
    """

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

        >>> slot_rule = Rule(("@time",), ("at", "@time"))
        >>> half_past = SlotInstance(("half", "past"), ("at", "6:30", "pm"), slot_rule)
        >>> half_past.slot, half_past.value
        ('time', ('6:30', 'pm'))
        """
        around = self.slot_rule.target
        if self.terminal not in around:
            return ()
        # Every occurrence of the terminal makes the target longer by the same number of tokens.
        first, times = around.index(self.terminal), around.count(self.terminal)
        return self.target[
            first : first + (len(self.target) - len(around)) // times + 1
        ]


class FreeTextRule(NamedTuple):
    """A rule that reads free text: its number, its longest text, its row in `text_slots`."""

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
    """Rules in a fixed order. The position of a rule is its number in charts, forests and models.

    With a `target_grammar` it is typed: it has only derivations whose targets are legal. With
    `slots`, rules such as `@time ### @time` match whatever the slot finds in a sentence.

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
        seen = set()
        for rule in self.rules:
            if rule in seen:
                raise FormatError(f"rule '{rule}' is in the grammar twice")
            seen.add(rule)
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
        """The terminals of the slots that rules read, by the numbers of the rules."""
        terminals = {}
        for number, rule in enumerate(self.rules):
            terminal = str(rule.source[0])
            if self.slots and len(rule.source) == 1 and terminal.startswith(SLOT):
                terminals[number] = terminal
        return terminals

    @cached_property
    def slot_readers(self) -> Mapping[str, Sequence[int]]:
        """The numbers of the rules that read each slot."""
        readers = defaultdict(list)
        for rule, terminal in self.slot_rules.items():
            readers[terminal.removeprefix(SLOT)].append(rule)
        return dict(readers)

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
        if not self.slots:
            return []
        same = self.slots.same_texts
        return list(
            dict.fromkeys(same[slot] for slot in same if slot in self.slot_readers)
        )

    @cached_property
    def words(self) -> frozenset[str]:
        """The words on the source sides of its rules."""
        symbols = chain.from_iterable(rule.source for rule in self.rules)
        return frozenset(symbol for symbol in symbols if isinstance(symbol, str))

    @cached_property
    def encoded(self) -> EncodedGrammar:
        """The rules as integer arrays; made on first use."""
        from nqg.grammar.encoding import EncodedGrammar

        return EncodedGrammar.of(self.rules, self.slot_rules, self.text_rules)

    def with_meanings(
        self, sources: Hypergraph, targets: Sequence[Sequence[str]]
    ) -> EncodedGrammar:
        """The encoded grammar with the meanings of values in charts. A grammar itself has none."""
        return self.encoded

    @cached_property
    def typing(self) -> Typing | None:
        """The types of its derivations, if it is typed; made on first use."""
        if self.target_grammar is None:
            return None
        return self.target_grammar.typing(self.rules)

    def typed_by(self, target_grammar: TargetGrammar | None) -> Grammar:
        """The same rules, typed by `target_grammar` or, with None, untyped."""
        if target_grammar == self.target_grammar:
            return self
        return replace(self, target_grammar=target_grammar)

    @classmethod
    def of(
        cls, rules: Iterable[Rule], max_non_terminals: int = MAX_NON_TERMINALS
    ) -> Grammar:
        """The grammar of `rules`, repetitions dropped, in the order of their text."""
        return cls(tuple(sorted(set(rules), key=str)), max_non_terminals)

    @classmethod
    def parse(cls, text: str, max_non_terminals: int = MAX_NON_TERMINALS) -> Grammar:
        """The grammar that `text` spells, one rule a line. Blank and `#` lines are skipped."""
        places = (Place(Path("<text>"), number) for number in count(1))
        rules = rules_in(zip(places, text.split("\n")), max_non_terminals)
        return cls(tuple(rules), max_non_terminals)

    @classmethod
    def read(
        cls, path: Path | str, max_non_terminals: int = MAX_NON_TERMINALS
    ) -> Grammar:
        """The grammar in a file, plain or `.gz`. A malformed line is refused with its place."""
        rules = rules_in(numbered_lines(Path(path)), max_non_terminals)
        return cls(tuple(rules), max_non_terminals)

    def write(self, path: Path | str) -> None:
        """Write the rules to a file, one a line, atomically."""
        write_text(Path(path), f"{self}\n" if self.rules else "")

    def __str__(self) -> str:
        return "\n".join(map(str, self.rules))

    def _repr_html_(self) -> str:
        """The rules as a notebook shows them."""
        return notebook_html(self)


class ChartGrammar(Protocol):
    """What charts need of a grammar: a `Grammar`, or one with the values of sentences."""

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
    """The rules that lines spell, with their places; blank lines and comments are skipped."""
    places: dict[Rule, Place] = {}
    for place, line in lines:
        # A line that begins with ### is not a comment but a rule without a source.
        if not line.strip() or (
            line.startswith("#") and line.split(maxsplit=1)[0] != SEPARATOR
        ):
            continue
        try:
            rule = Rule.parse(line)
            check_arity(rule, bound)
        except FormatError as error:
            raise error.at(place) from None
        if rule in places:
            raise FormatError(
                f"rule '{rule}' was already on line {places[rule].line}", place
            )
        places[rule] = place
    return places
