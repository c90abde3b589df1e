"""Obvious twins of the clever algorithms: brute force, for tests to compare with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import Any

from nqg.data.funql import Call, Name, Number, Placeholder, Term
from nqg.grammar.derivation import Application, Derivation
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import ChoiceId, Graph, Span
from nqg.grammar.production import Category, Production, TargetSymbol, Wildcard
from nqg.grammar.symbols import Symbol

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


def derives_target(productions: Iterable[Production], start: Category, tokens: Sequence[str]) -> bool:
    """Whether `start` derives `tokens`: spans from short to long, each until nothing new is found; for long strings."""
    productions = list(productions)
    found: set[tuple[Category, int, int]] = set()

    def covers(symbols: Sequence[TargetSymbol], begin: int, end: int) -> bool:
        if len(symbols) == 1:
            return covers_one(symbols[0], begin, end)
        middles = range(begin + 1, end - len(symbols) + 2)
        return any(covers_one(symbols[0], begin, middle) and covers(symbols[1:], middle, end) for middle in middles)

    def covers_one(symbol: TargetSymbol, begin: int, end: int) -> bool:
        if isinstance(symbol, Category):
            return (symbol, begin, end) in found
        return symbol is Wildcard.TOKENS or (end - begin == 1 and symbol in (Wildcard.ONE_TOKEN, tokens[begin]))

    for length in range(1, len(tokens) + 1):
        for begin in range(len(tokens) - length + 1):
            end = begin + length
            for _ in productions:  # unary chains are no longer than that
                found |= {(each.left, begin, end) for each in productions if covers(each.right, begin, end)}
    return (start, 0, len(tokens)) in found


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


# FunQL: the twin of `funql.grammar` infers types bottom-up from a table of signatures.

FUNQL_CLASSES = {
    "state": "state",
    "city": "city",
    "capital": "city",
    "river": "river",
    "place": "place",
    "mountain": "place",
    "lake": "place",
}
FUNQL_SIGNATURES: dict[str, dict[str, set[str]]] = {
    "loc_1": {"city": {"state"}, "river": {"state"}, "place": {"state"}, "state": {"country"}},
    "loc_2": {
        "city": {"place"},
        "state": {"city", "river", "place"},
        "country": {"city", "river", "place", "state"},
    },
    "next_to_1": {"state": {"state"}},
    "next_to_2": {"state": {"state"}, "river": {"state"}},
    "traverse_1": {"river": {"state"}},
    "traverse_2": {"state": {"river"}, "city": {"river"}, "country": {"river"}},
    "capital_1": {"state": {"city"}},
    "capital_2": {"city": {"state"}},
    "high_point_1": {"state": {"place"}},
    "low_point_1": {"state": {"place"}},
    "high_point_2": {"place": {"state"}},
    "low_point_2": {"place": {"state"}},
    "higher_2": {"place": {"place"}},
    "lower_2": {"place": {"place"}},
    "elevation_2": {"height": {"place"}},
    "highest": {"place": {"place"}},
    "lowest": {"place": {"place"}},
    "longest": {"river": {"river"}},
    "shortest": {"river": {"river"}},
    "longer": {"river": {"river"}},
    "largest": {"state": {"state"}, "city": {"city"}, "amount": {"number"}},
    "smallest": {"state": {"state"}, "city": {"city"}, "amount": {"number"}},
    "sum": {"amount": {"number"}},
    "count": {kind: {"number"} for kind in ("state", "city", "river", "place")},
    "len": {"river": {"amount", "number"}},
    "elevation_1": {"place": {"amount", "number"}},
    **{
        measure: {kind: {"amount", "number"} for kind in ("state", "city", "country")}
        for measure in ("area_1", "density_1", "population_1", "size")
    },
    "answer": {kind: {"program"} for kind in ("state", "city", "river", "place", "country", "number")},
}
FUNQL_COUNTED = {
    ("state", relation): {kind for kind in kinds if "state" in FUNQL_SIGNATURES[relation][kind]}
    for relation, kinds in FUNQL_SIGNATURES.items()
    if relation in ("loc_1", "next_to_1", "next_to_2", "traverse_1")
} | {("river", "traverse_2"): {"state", "city"}, ("river", "loc_2"): {"state"}}


def funql_types(term: Term) -> set[str]:
    """The types that a program in the converted form may have; none when it makes no sense."""
    match term:
        case Placeholder(index):
            return {"state", "city", "river", "place", "country"} if index < 10 else set()
        case Number(value):
            return {"height"} if value == 0 else set()
        case Name(name):
            return {FUNQL_CLASSES[name]} if name in FUNQL_CLASSES else set()
        case Call("intersection", (Name("major"), things)):
            return funql_types(things) & {"city", "river", "place"}
        case Call("intersection", (Name("capital"), things)):
            return {"city"} if funql_types(things) & {"city", "place"} else set()
        case Call("intersection" | "exclude", (left, right)):
            return funql_types(left) & funql_types(right) & {"state", "city", "river", "place"}
        case Call("largest_one" | "smallest_one", (Name("area_1" | "density_1" | "population_1"), things)):
            return funql_types(things) & {"state", "city"}
        case Call("most" | "fewest", (Name(counted), Name(relation), things)):
            return {counted} if funql_types(things) & FUNQL_COUNTED.get((counted, relation), set()) else set()
        case Call(predicate, (argument,)):
            signature = FUNQL_SIGNATURES.get(predicate, {})
            return set[str]().union(*(signature.get(kind, set()) for kind in funql_types(argument)))
        case _:
            return set()


# Charts: the twin of `nqg.grammar.chart_kernels` and `goal_kernels` lists derivations one by one.


def all_derivations(grammar: Grammar, source: Sequence[str]) -> list[Derivation]:
    """Every derivation of `source`, by trying every rule on every span with every division among its non-terminals."""
    return [Derivation(applications) for applications in _span_derivations(grammar, tuple(source), 0, len(source))]


def _span_derivations(grammar: Grammar, source: Tokens, start: int, end: int) -> Iterator[tuple[Application, ...]]:
    for rule in grammar:
        for below in _covers(grammar, source, rule.source, start, end):
            yield (Application(rule, Span(start, end)), *below)


def _covers(
    grammar: Grammar, source: Tokens, symbols: Sequence[Symbol], start: int, end: int
) -> Iterator[tuple[Application, ...]]:
    """Every way in which `symbols` cover source[start:end], as the applications below them."""
    if not symbols:
        if start == end:
            yield ()
    elif isinstance(symbols[0], str):
        if start < end and source[start] == symbols[0]:
            yield from _covers(grammar, source, symbols[1:], start + 1, end)
    else:
        for middle in range(start + 1, end - len(symbols) + 2):
            for first in _span_derivations(grammar, source, start, middle):
                for rest in _covers(grammar, source, symbols[1:], middle, end):
                    yield (*first, *rest)


def forest_derivations(grammar: Grammar, graph: Graph) -> list[Derivation]:
    """Every derivation in the graph of one sentence, by walking it from the root."""

    def below(choice: ChoiceId) -> Iterator[tuple[Application, ...]]:
        for application in graph.applications_of(choice):
            here = Application(grammar[int(graph.rules[application])], graph.span(choice))
            children = graph.children_of(application)
            for parts in product(*(list(below(child)) for child in children)):
                yield (here, *(each for part in parts for each in part))

    return [Derivation(found) for found in below(ChoiceId(graph.choices - 1))] if graph.choices else []


# Splits: divergences by their definition, and the best of all subsets and of all splits.


def defined_divergence(train: Sequence[Counter[str]], test: Sequence[Counter[str]], alpha: float) -> float:
    """One minus the sum over all features of p ** alpha * q ** (1 - alpha), from the examples up."""
    counts = [sum(part, Counter[str]()) for part in (train, test)]
    totals = [count.total() for count in counts]
    if 0 in totals:
        return 0.0
    shares = ((counts[0][feature] / totals[0], counts[1][feature] / totals[1]) for feature in counts[0] | counts[1])
    return 1.0 - sum(float(p**alpha * q ** (1 - alpha)) for p, q in shares)


def nearest_sum(sizes: Sequence[int], wanted: int) -> int:
    """How near the sum of some of `sizes`, neither none nor all, can come to `wanted`."""
    choices = (chosen for count in range(1, len(sizes)) for chosen in combinations(sizes, count))
    return min(abs(sum(chosen) - wanted) for chosen in choices)


def largest_divergence(compounds: Sequence[Counter[str]], atoms: Sequence[Counter[str]], train_size: int) -> float:
    """The largest compound divergence of any split with every atom in train."""
    everyone, every_atom = range(len(compounds)), set().union(*atoms)
    legal = (
        chosen
        for chosen in combinations(everyone, train_size)
        if set().union(*(atoms[at] for at in chosen)) == every_atom
    )
    return max(
        defined_divergence(
            [compounds[at] for at in chosen], [compounds[at] for at in everyone if at not in chosen], alpha=0.1
        )
        for chosen in legal
    )
