"""The rules of a grammar in the order in which people read them: by the function that they write.

Rules of functions come first, then those that write values and phrases. Rules that only leave words
out, and rules that only join others, are apart at the end: nobody would write these by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from nqg.grammar.grammar import NonTerminal, Rule, Symbol

PHRASES = "values and phrases"
LEFT_OUT = "words that are left out"
JOINING = "joining rules"
LAST_GROUPS = (PHRASES, LEFT_OUT, JOINING)
# The beginning of a call in JSON, up to the name of its function.
JSON_NAMES = (('"', "name", '"', ":", '"'), ('"', "function", '"', ":", '"'))


class RuleGroup(NamedTuple):
    """Rules that write the same function, or rules of another kind."""

    title: str
    rules: tuple[Rule, ...]


def rule_groups(rules: Iterable[Rule]) -> list[RuleGroup]:
    """The rules by function, functions with most rules first, then the other kinds.

    >>> grammar = ["NT_1 NT_2 ### NT_1 ( NT_2 )", "the NT_1 ### NT_1", "jazz ### jazz", "play NT_1 ### play ( NT_1 )"]
    >>> [group.title for group in rule_groups(map(Rule.parse, grammar))]
    ['play', 'values and phrases', 'words that are left out', 'joining rules']
    """
    groups: dict[str, list[Rule]] = {}
    for rule in rules:
        groups.setdefault(group_title(rule), []).append(rule)

    def rank(title: str) -> tuple[int, int, str]:
        if title in LAST_GROUPS:
            return LAST_GROUPS.index(title) + 1, 0, title
        return 0, -len(groups[title]), title

    return [
        RuleGroup(title, tuple(groups[title])) for title in sorted(groups, key=rank)
    ]


def group_title(rule: Rule) -> str:
    """The function that a rule writes first or, if it writes none, what kind of rule it is."""
    if all(isinstance(symbol, NonTerminal) for symbol in rule.source):
        return JOINING
    function = written_function(rule.target)
    if function:
        return function
    if all(isinstance(symbol, NonTerminal) for symbol in rule.target):
        return LEFT_OUT if len(rule.target) == 1 else JOINING
    return PHRASES


def written_function(target: Sequence[Symbol]) -> str:
    """The first function that a target calls, as far as its tokens show.

    >>> written_function(Rule.parse("stop ### repeat ( stop ( ) )").target)
    'repeat'
    >>> written_function(Rule.parse('weather ### { " name " : " get weather "').target)
    'get weather'
    """
    for place, symbol in enumerate(target):
        if symbol == "(" and place and _is_name(target[place - 1]):
            return str(target[place - 1])
        for beginning in JSON_NAMES:
            end = place + len(beginning)
            if tuple(target[place:end]) == beginning:
                name = takewhile(lambda symbol: symbol != '"', target[end:])
                words = [symbol for symbol in name if isinstance(symbol, str)]
                return " ".join(words)
    return ""


def _is_name(symbol: Symbol) -> bool:
    return isinstance(symbol, str) and symbol[:1].isalpha()
