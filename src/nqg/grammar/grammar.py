"""A set of rules, its text form and files, and its compiled form for the chart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nqg.errors import FormatError, Place
from nqg.files import numbered_lines, write_text
from nqg.grammar.rule import SEPARATOR, Rule

if TYPE_CHECKING:
    from nqg.grammar.encoding import EncodedGrammar

MAX_NON_TERMINALS = 2  # the paper's bound; later work uses up to four


@dataclass(frozen=True)
class Grammar:
    """Rules in a fixed order; the position of a rule is its number in charts, forests and models.

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
    def encoded(self) -> EncodedGrammar:
        """The rules as integer arrays; made on first use."""
        from nqg.grammar.encoding import EncodedGrammar

        return EncodedGrammar.of(self.rules)

    @classmethod
    def of(cls, rules: Iterable[Rule], max_non_terminals: int = MAX_NON_TERMINALS) -> Grammar:
        """The grammar of `rules`, repetitions dropped, in the order of their text."""
        return cls(tuple(sorted(set(rules), key=str)), max_non_terminals)

    @classmethod
    def parse(cls, text: str, max_non_terminals: int = MAX_NON_TERMINALS) -> Grammar:
        """The grammar that `text` spells, one rule a line; blank lines and lines that start with `#` are skipped."""
        lines = ((Place(Path("<text>"), at), line) for at, line in enumerate(text.split("\n"), start=1))
        return cls(_checked_rules(lines, max_non_terminals), max_non_terminals)

    @classmethod
    def read(cls, path: Path | str, max_non_terminals: int = MAX_NON_TERMINALS) -> Grammar:
        """The grammar in a file (plain or `.gz`); a malformed line is refused with file, line and reason."""
        return cls(_checked_rules(numbered_lines(Path(path)), max_non_terminals), max_non_terminals)

    def write(self, path: Path | str) -> None:
        """Write the rules to a file, one a line, atomically."""
        write_text(Path(path), f"{self}\n" if self.rules else "")

    def __str__(self) -> str:
        return "\n".join(map(str, self.rules))

    def _repr_html_(self) -> str:
        """The rules as a notebook shows them."""
        from nqg.grammar.pictures import grammar_picture, in_notebook

        return in_notebook(grammar_picture(self))


def check_arity(rule: Rule, bound: int) -> None:
    """Refuse a rule with more than `bound` non-terminals."""
    if rule.arity > bound:
        raise FormatError(f"rule '{rule}' has {rule.arity} non-terminals, more than max_non_terminals={bound}")


def _checked_rules(lines: Iterable[tuple[Place, str]], bound: int) -> tuple[Rule, ...]:
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
    return tuple(places)
