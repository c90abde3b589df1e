"""The rules of a grammar in the order in which people read them: by the function that they write.

Rules of functions come first, then those that write values and phrases. Rules that only leave words
out, and rules that only join others, are apart at the end: nobody would write these by hand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from nqg.grammar.grammar import NonTerminal, Rule, Symbol
from nqg.types.target_grammar import Category, TargetGrammar

PHRASES = "values and phrases"
LEFT_OUT_WORDS = "words that are left out"
JOINING = "joining rules"
LAST_GROUPS = (PHRASES, LEFT_OUT_WORDS, JOINING)
# The beginning of a call in JSON, up to the name of its function.
JSON_NAMES = (('"', "name", '"', ":", '"'), ('"', "function", '"', ":", '"'))


class RuleGroup(NamedTuple):
    """Rules that write the same function, or rules of another kind."""

    title: str
    rules: tuple[Rule, ...]


def rule_groups(
    rules: Iterable[Rule], functions: Collection[str] = ()
) -> list[RuleGroup]:
    """The rules by function, functions with most rules first, then the other kinds.

    A rule may write the name of one of the `functions` without a bracket behind it.

    >>> grammar = ["NT_1 NT_2 ### NT_1 ( NT_2 )", "the NT_1 ### NT_1", "jazz ### jazz", "play NT_1 ### play ( NT_1 )"]
    >>> [group.title for group in rule_groups(map(Rule.parse, grammar))]
    ['play', 'values and phrases', 'words that are left out', 'joining rules']
    """
    groups: dict[str, list[Rule]] = {}
    for rule in rules:
        groups.setdefault(group_title(rule, functions), []).append(rule)

    def rank(title: str) -> tuple[int, int, str]:
        if title in LAST_GROUPS:
            return LAST_GROUPS.index(title) + 1, 0, title
        return 0, -len(groups[title]), title

    return [
        RuleGroup(title, tuple(groups[title])) for title in sorted(groups, key=rank)
    ]


def group_title(rule: Rule, functions: Collection[str] = ()) -> str:
    """The function that a rule writes first or, if it writes none, what kind of rule it is."""
    if all(isinstance(symbol, NonTerminal) for symbol in rule.source):
        return JOINING
    function = written_function(rule.target, functions)
    if function:
        return function
    if all(isinstance(symbol, NonTerminal) for symbol in rule.target):
        return LEFT_OUT_WORDS if len(rule.target) == 1 else JOINING
    return PHRASES


def written_function(target: Sequence[Symbol], functions: Collection[str] = ()) -> str:
    """The first function that a target calls, as far as its tokens show.

    >>> written_function(Rule.parse("stop ### repeat ( stop ( ) )").target)
    'repeat'
    >>> written_function(Rule.parse('weather ### { " name " : " get weather "').target)
    'get weather'
    """
    for place, symbol in enumerate(target):
        if isinstance(symbol, str) and symbol in functions:
            return symbol
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


def function_names(target_grammar: TargetGrammar | None) -> frozenset[str]:
    """The names that legal programs have before a bracket.

    >>> sorted(function_names(TargetGrammar.parse(
    ...     "<program> ::= <act> ( <lamp> )\\n<act> ::= on | off\\n<lamp> ::= lamp ( desk ) | all")))
    ['lamp', 'off', 'on']
    """
    names: set[str] = set()
    heads: set[Category] = set()
    productions = target_grammar.productions if target_grammar else ()
    for production in productions:
        for name, bracket in pairwise(production.right):
            if bracket == "(" and isinstance(name, Category):
                heads.add(name)
            elif bracket == "(" and isinstance(name, str):
                names.add(name)
    for production in productions:
        if production.left in heads and len(production.right) == 1:
            names.update(name for name in production.right if isinstance(name, str))
    return frozenset(name for name in names if _is_name(name))
