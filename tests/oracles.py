"""Obvious twins of the clever algorithms: brute force, for tests to compare with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from nqg.grammar.production import Category, Production, TargetSymbol, Wildcard

# Target grammars: the twin of `nqg.grammar.target_chart` enumerates languages, string by string.

Tokens = tuple[str, ...]


def target_languages(
    productions: Iterable[Production], alphabet: Sequence[str], longest: int
) -> dict[Category, set[Tokens]]:
    """For each category every string over `alphabet` of at most `longest` tokens that it derives."""
    productions = list(productions)
    languages: dict[Category, set[Tokens]] = {production.left: set() for production in productions}
    while True:
        size = sum(map(len, languages.values()))
        for production in productions:
            languages[production.left] |= _derived(production.right, languages, alphabet, longest)
        if sum(map(len, languages.values())) == size:
            return languages


def _derived(
    symbols: Sequence[TargetSymbol], languages: dict[Category, set[Tokens]], alphabet: Sequence[str], longest: int
) -> set[Tokens]:
    strings: set[Tokens] = {()}
    for symbol in symbols:
        parts = _matched(symbol, languages, alphabet, longest)
        strings = {left + right for left in strings for right in parts if len(left) + len(right) <= longest}
    return strings


def _matched(
    symbol: TargetSymbol, languages: dict[Category, set[Tokens]], alphabet: Sequence[str], longest: int
) -> set[Tokens]:
    if isinstance(symbol, Category):
        return languages[symbol]
    if isinstance(symbol, str):
        return {(symbol,)}
    lengths = range(1, 2 if symbol is Wildcard.ONE_TOKEN else longest + 1)
    return {string for length in lengths for string in product(alphabet, repeat=length)}


def prefix_productions(productions: Iterable[Production]) -> list[Production]:
    """A grammar of all non-empty prefixes: `<a'>` derives the prefixes of `<a>`; its first category is the start."""
    productions = list(productions)
    cut = [
        Production(_prefix_of(each.left), (*each.right[:place], _prefix_of(each.right[place])))
        for each in productions
        for place in range(len(each.right))
    ]
    return cut + productions


def _prefix_of(symbol: TargetSymbol) -> Any:
    return Category(f"{symbol.name}'") if isinstance(symbol, Category) else symbol
