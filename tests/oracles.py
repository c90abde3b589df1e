"""Obvious twins of the clever algorithms: brute force, for tests to compare with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise, product
from operator import mul
from typing import Any

import numpy as np

from nqg.grammar.derivation import Derivation, Hyperedge
from nqg.grammar.grammar import Grammar, NonTerminal, Rule, Symbol, Symbols
from nqg.grammar.hypergraph import Hypergraph, NodeId, Span
from nqg.paper.funql import Application, Entity, Name, Number, Placeholder, Term
from nqg.paper.gate import Gate, GateTrial
from nqg.paper.geobase import Geography
from nqg.types.target_grammar import (
    Category,
    Production,
    TargetGrammar,
    TargetSymbol,
    Wildcard,
)

# Target grammars: the twin of `nqg.types.earley` enumerates languages, string by string.

Tokens = tuple[str, ...]


def target_languages(
    productions: Iterable[Production], alphabet: Sequence[str], longest: int
) -> dict[Category, set[Tokens]]:
    """For each category every string over `alphabet` of at most `longest` tokens that it derives."""
    productions = list(productions)
    languages: dict[Category, set[Tokens]] = {
        production.left: set() for production in productions
    }
    symbols = {symbol for production in productions for symbol in production.right}
    named = {symbol for symbol in symbols if isinstance(symbol, str)}
    wild: dict[Wildcard, set[Tokens]] = {}
    for wildcard in Wildcard:
        if wildcard in symbols:
            matched = [token for token in alphabet if wildcard.matches(token, named)]
            lengths = range(1, longest + 1 if wildcard is Wildcard.TOKENS else 2)
            wild[wildcard] = {
                string
                for length in lengths
                for string in product(matched, repeat=length)
            }
    while True:
        size = sum(map(len, languages.values()))
        for production in productions:
            languages[production.left] |= _derived(
                production.right, languages, wild, longest
            )
        if sum(map(len, languages.values())) == size:
            return languages


def _derived(
    symbols: Sequence[TargetSymbol],
    languages: Mapping[Category, set[Tokens]],
    wild: Mapping[Wildcard, set[Tokens]],
    longest: int,
) -> set[Tokens]:
    strings: set[Tokens] = {()}
    for symbol in symbols:
        if isinstance(symbol, str):
            parts: set[Tokens] = {(symbol,)}
        else:
            parts = wild[symbol] if isinstance(symbol, Wildcard) else languages[symbol]
        strings = {
            left + right
            for left in strings
            for right in parts
            if len(left) + len(right) <= longest
        }
    return strings


def derives_target(
    productions: Iterable[Production], start: Category, tokens: Sequence[str]
) -> bool:
    """Whether `start` derives `tokens`: spans from short to long, each until nothing new is found; for long strings."""
    productions = list(productions)
    named = {
        symbol
        for each in productions
        for symbol in each.right
        if isinstance(symbol, str)
    }
    found: set[tuple[Category, int, int]] = set()

    def covers(symbols: Sequence[TargetSymbol], begin: int, end: int) -> bool:
        if len(symbols) == 1:
            return covers_one(symbols[0], begin, end)
        middles = range(begin + 1, end - len(symbols) + 2)
        return any(
            covers_one(symbols[0], begin, middle) and covers(symbols[1:], middle, end)
            for middle in middles
        )

    def covers_one(symbol: TargetSymbol, begin: int, end: int) -> bool:
        if isinstance(symbol, Category):
            return (symbol, begin, end) in found
        if symbol is Wildcard.TOKENS or end - begin != 1:
            return symbol is Wildcard.TOKENS
        return (
            symbol.matches(tokens[begin], named)
            if isinstance(symbol, Wildcard)
            else symbol == tokens[begin]
        )

    for length in range(1, len(tokens) + 1):
        for begin in range(len(tokens) - length + 1):
            end = begin + length
            for _ in productions:  # unary chains are no longer than that
                found |= {
                    (each.left, begin, end)
                    for each in productions
                    if covers(each.right, begin, end)
                }
    return (start, 0, len(tokens)) in found


def prefix_productions(productions: Iterable[Production]) -> list[Production]:
    """A grammar of all non-empty prefixes: `<a'>` derives the prefixes of `<a>`; its first category is the start."""
    productions = list(productions)
    cut = [
        Production(
            _prefix_of(each.left), (*each.right[:place], _prefix_of(each.right[place]))
        )
        for each in productions
        for place in range(len(each.right))
    ]
    return cut + productions


def _prefix_of(symbol: TargetSymbol) -> Any:
    return Category(f"{symbol.name}'") if isinstance(symbol, Category) else symbol


def is_well_typed(
    productions: Iterable[Production], start: Category, derivation: Derivation
) -> bool:
    """Whether the target has a parse in which all that a rule yields is a run of neighbours under one node.

    A `<...>` is a run of neighbours however it is cut.
    """
    tokens, runs = _target_and_runs(derivation)
    productions = list(productions)
    named = {
        symbol
        for each in productions
        for symbol in each.right
        if isinstance(symbol, str)
    }
    found: set[tuple[Category, int, int]] = set()

    def fits(symbols: Sequence[TargetSymbol], cuts: Sequence[int]) -> bool:
        places = list(zip(symbols, cuts, cuts[1:], strict=False))
        borders = {
            *cuts,
            *(
                at
                for symbol, low, high in places
                if symbol is Wildcard.TOKENS
                for at in range(low, high)
            ),
        }
        for begin, end in runs:
            is_inside = cuts[0] <= begin and end <= cuts[-1]
            is_run = {begin, end} <= borders or any(
                low <= begin and end <= high for _, low, high in places
            )
            if is_inside and not is_run:
                return False
        return all(map(covers, *zip(*places, strict=True)))

    def covers(symbol: TargetSymbol, low: int, high: int) -> bool:
        if isinstance(symbol, Category):
            return (symbol, low, high) in found
        if symbol is Wildcard.TOKENS or high - low != 1:
            return symbol is Wildcard.TOKENS
        return (
            symbol.matches(tokens[low], named)
            if isinstance(symbol, Wildcard)
            else symbol == tokens[low]
        )

    for length in range(1, len(tokens) + 1):
        for begin in range(len(tokens) - length + 1):
            end = begin + length
            for _ in productions:  # unary chains are no longer than that
                found |= {
                    (each.left, begin, end)
                    for each in productions
                    for cuts in combinations(range(begin + 1, end), len(each.right) - 1)
                    if fits(each.right, (begin, *cuts, end))
                }
    return (start, 0, len(tokens)) in found


def _target_and_runs(derivation: Derivation) -> tuple[Tokens, set[tuple[int, int]]]:
    """The target, and where in it what each rule yields stands, wherever it is repeated."""
    children = [_target_and_runs(child) for child in derivation.children]
    tokens: Tokens = ()
    runs: set[tuple[int, int]] = set()
    for symbol in derivation.root.rule.target:
        if isinstance(symbol, NonTerminal):
            inner, below = children[symbol.index - 1]
            runs |= {(begin + len(tokens), end + len(tokens)) for begin, end in below}
            tokens += inner
        else:
            tokens += (symbol,)
    return tokens, {*runs, (0, len(tokens))}


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
    "loc_1": {
        "city": {"state"},
        "river": {"state"},
        "place": {"state"},
        "state": {"country"},
    },
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
    "answer": {
        kind: {"program"}
        for kind in ("state", "city", "river", "place", "country", "number")
    },
}
FUNQL_COUNTED = {
    ("state", relation): {
        kind for kind in kinds if "state" in FUNQL_SIGNATURES[relation][kind]
    }
    for relation, kinds in FUNQL_SIGNATURES.items()
    if relation in ("loc_1", "next_to_1", "next_to_2", "traverse_1")
} | {("river", "traverse_2"): {"state", "city"}, ("river", "loc_2"): {"state"}}


def funql_types(term: Term) -> set[str]:
    """The types that a program in the converted form may have; none when it makes no sense."""
    match term:
        case Placeholder(index):
            return (
                {"state", "city", "river", "place", "country"} if index < 10 else set()
            )
        case Number(value):
            return {"height"} if value == 0 else set()
        case Name(name):
            return {FUNQL_CLASSES[name]} if name in FUNQL_CLASSES else set()
        case Application("intersection", (Name("major"), things)):
            return funql_types(things) & {"city", "river", "place"}
        case Application("intersection", (Name("capital"), things)):
            return {"city"} if funql_types(things) & {"city", "place"} else set()
        case Application("intersection" | "exclude", (left, right)):
            return (
                funql_types(left)
                & funql_types(right)
                & {"state", "city", "river", "place"}
            )
        case Application(
            "largest_one" | "smallest_one",
            (Name("area_1" | "density_1" | "population_1"), things),
        ):
            return funql_types(things) & {"state", "city"}
        case Application("most" | "fewest", (Name(counted), Name(relation), things)):
            return (
                {counted}
                if funql_types(things) & FUNQL_COUNTED.get((counted, relation), set())
                else set()
            )
        case Application(predicate, (argument,)):
            signature = FUNQL_SIGNATURES.get(predicate, {})
            return set[str]().union(
                *(signature.get(kind, set()) for kind in funql_types(argument))
            )
        case _:
            return set()


# Charts: the twin of `nqg.grammar.chart_kernels` and `goal_kernels` lists derivations one by one.


def all_derivations(grammar: Grammar, source: Sequence[str]) -> list[Derivation]:
    """Every derivation of `source`, by trying every rule on every span with every division among its non-terminals."""
    return [
        Derivation(hyperedges)
        for hyperedges in _span_derivations(grammar, tuple(source), 0, len(source))
    ]


def _span_derivations(
    grammar: Grammar, source: Tokens, start: int, end: int
) -> Iterator[tuple[Hyperedge, ...]]:
    for rule in grammar:
        for below in _covers(grammar, source, rule.source, start, end):
            yield (Hyperedge(rule, Span(start, end)), *below)


def _covers(
    grammar: Grammar, source: Tokens, symbols: Sequence[Symbol], start: int, end: int
) -> Iterator[tuple[Hyperedge, ...]]:
    """Every way in which `symbols` cover source[start:end], as the hyperedges below them."""
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


def fitted_bits_by_definition(
    grammar: Grammar,
    pairs: Sequence[tuple[Tokens, Tokens]],
    folds: Sequence[int],
    iterations: int,
    smoothing: float,
) -> list[float]:
    """The data term with probabilities of rules in slots, fitted by listing every derivation of the other folds."""
    bits = [0.0] * len(pairs)
    for fold in set(folds):
        own = [number for number, each in enumerate(folds) if each == fold]
        others = [pair for pair, each in zip(pairs, folds, strict=True) if each != fold]
        found = _bits_given(
            grammar, others, [pairs[number] for number in own], iterations, smoothing
        )
        for number, value in zip(own, found, strict=True):
            bits[number] = value
    return bits


def _bits_given(
    grammar: Grammar,
    known: Sequence[tuple[Tokens, Tokens]],
    pairs: Sequence[tuple[Tokens, Tokens]],
    iterations: int,
    smoothing: float,
) -> list[float]:
    """The bits of `pairs` by probabilities that are fitted to the pairs that are `known`."""
    seen = [
        [each for each in all_derivations(grammar, x) if each.target == y]
        for x, y in known
    ]
    slots = [None, *((rule, at) for rule in grammar for at in range(rule.arity))]
    probability = {(slot, rule): 1 / len(grammar) for slot in slots for rule in grammar}

    def choices(
        derivation: Derivation,
    ) -> Iterator[tuple[tuple[Rule, int] | None, Rule]]:
        yield None, derivation.root.rule
        for number, below in enumerate(derivation.child_numbers()):
            for at, child in enumerate(below):
                yield (
                    (derivation.hyperedges[number].rule, at),
                    derivation.hyperedges[child].rule,
                )

    def weight(derivation: Derivation) -> float:
        return math.prod(probability[choice] for choice in choices(derivation))

    for _ in range(iterations):
        counts = dict.fromkeys(probability, 0.0)
        for own in seen:
            total = sum(map(weight, own))
            for derivation in own:
                for choice in choices(derivation):
                    counts[choice] += weight(derivation) / total
        totals = {slot: sum(counts[slot, rule] for rule in grammar) for slot in slots}
        probability = {
            (slot, rule): (counts[slot, rule] + smoothing / len(grammar))
            / (totals[slot] + smoothing)
            for slot in slots
            for rule in grammar
        }
    bits = []
    for source, target in pairs:
        everything = all_derivations(grammar, source)
        right = sum(weight(each) for each in everything if each.target == target)
        bits.append(
            math.log2(sum(map(weight, everything)) / right) if right else math.inf
        )
    return bits


def check_graph(graph: Hypergraph) -> None:
    """Assert that the arrays make a graph, children before parents: kernels trust every number in them."""
    assert (graph.first_node[0], graph.first_node[-1]) == (0, graph.nodes)
    assert len(graph.first_hyperedge) == graph.nodes + 1
    assert (graph.first_hyperedge[0], graph.first_hyperedge[-1]) == (
        0,
        graph.hyperedges,
    )
    assert len(graph.starts) == len(graph.ends) == graph.nodes
    assert len(graph.children) == graph.hyperedges
    for sentence in range(graph.sentences):
        first = int(graph.first_node[sentence])
        for node in range(first, int(graph.first_node[sentence + 1])):
            for hyperedge in graph.hyperedges_of(NodeId(node)):
                assert graph.rules[hyperedge] >= 0
                assert all(
                    first <= child < node for child in graph.children_of(hyperedge)
                )


def forest_derivations(grammar: Grammar, graph: Hypergraph) -> list[Derivation]:
    """Every derivation in the graph of one sentence, by walking it from the root."""

    def below(node: NodeId) -> Iterator[tuple[Hyperedge, ...]]:
        for hyperedge in graph.hyperedges_of(node):
            here = Hyperedge(grammar[int(graph.rules[hyperedge])], graph.span(node))
            children = graph.children_of(hyperedge)
            for parts in product(*(list(below(child)) for child in children)):
                yield (here, *(each for part in parts for each in part))

    return (
        [Derivation(found) for found in below(NodeId(graph.nodes - 1))]
        if graph.nodes
        else []
    )


# Splits: divergences by their definition, and the best of all subsets and of all splits.


def defined_divergence(
    train: Sequence[Counter[str]], test: Sequence[Counter[str]], alpha: float
) -> float:
    """One minus the sum over all features of p ** alpha * q ** (1 - alpha), from the examples up."""
    counts = [sum(part, Counter[str]()) for part in (train, test)]
    totals = [count.total() for count in counts]
    if 0 in totals:
        return 0.0
    shares = (
        (counts[0][feature] / totals[0], counts[1][feature] / totals[1])
        for feature in counts[0] | counts[1]
    )
    return 1.0 - sum(float(p**alpha * q ** (1 - alpha)) for p, q in shares)


def nearest_sum(sizes: Sequence[int], wanted: int) -> int:
    """How near the sum of some of `sizes`, neither none nor all, can come to `wanted`."""
    choices = (
        chosen
        for count in range(1, len(sizes))
        for chosen in combinations(sizes, count)
    )
    return min(abs(sum(chosen) - wanted) for chosen in choices)


def largest_divergence(
    compounds: Sequence[Counter[str]], atoms: Sequence[Counter[str]], train_size: int
) -> float:
    """The largest compound divergence of any split with every atom in train."""
    everyone, every_atom = range(len(compounds)), set().union(*atoms)
    legal = (
        chosen
        for chosen in combinations(everyone, train_size)
        if set().union(*(atoms[at] for at in chosen)) == every_atom
    )
    return max(
        defined_divergence(
            [compounds[at] for at in chosen],
            [compounds[at] for at in everyone if at not in chosen],
            alpha=0.1,
        )
        for chosen in legal
    )


# Induction: d(R), SPLIT, NEW and ELIM by their definitions; a rule's own non-terminals are leaves that stay.

Brackets = tuple[tuple[str, str], ...]
FRESH = NonTerminal(99)  # takes the place of what is cut out of a rule


def derived_targets(
    rules: Iterable[Rule], longest: int
) -> Callable[[Symbols], frozenset[Symbols]]:
    """d(R), for a source side with leaves: the target sides of at most `longest` symbols that `rules` derive for it."""
    rules = list(rules)

    @cache
    def targets(source: Symbols) -> frozenset[Symbols]:
        if len(source) == 1 and isinstance(source[0], NonTerminal):
            return frozenset([source])
        return frozenset(
            side
            for rule in rules
            for side in sides(rule, source)
            if len(side) <= longest
        )

    def sides(rule: Rule, source: Symbols) -> Iterator[Symbols]:
        for children in _divisions(rule.source, source):
            for parts in product(*map(targets, children)):
                yield _with_parts(rule.target, parts)

    return targets


def _divisions(pattern: Symbols, source: Symbols) -> Iterator[tuple[Symbols, ...]]:
    """Every way to lay a rule's source over another one, as what its non-terminals cover."""
    if not pattern:
        if not source:
            yield ()
    elif isinstance(pattern[0], str):
        if source[:1] == pattern[:1]:
            yield from _divisions(pattern[1:], source[1:])
    else:
        for size in range(1, len(source) - len(pattern) + 2):
            yield from (
                (source[:size], *rest)
                for rest in _divisions(pattern[1:], source[size:])
            )


def _with_parts(side: Symbols, parts: Sequence[Symbols]) -> Symbols:
    chunks = (
        parts[symbol.index - 1] if isinstance(symbol, NonTerminal) else (symbol,)
        for symbol in side
    )
    return tuple(symbol for chunk in chunks for symbol in chunk)


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to split a rule: a part of its source, a string of its target, and what may be left of either."""

    inner: Rule | None  # None where the two parts do not make a rule
    outer: Rule | None  # every occurrence of the string replaced, from left to right
    inner_sides: tuple[Symbols, Symbols]
    outer_source: Symbols
    outer_targets: list[
        Symbols
    ]  # any occurrences replaced that do not overlap, at least one


def cuts(rule: Rule, *, repeated_targets: bool) -> Iterator[Cut]:
    """Every way to cut out a part of the source that occurs once, and a string of the target."""
    source, target = rule.source, rule.target
    for start, end in combinations(range(len(source) + 1), 2):
        part, left = source[start:end], (*source[:start], FRESH, *source[end:])
        is_trivial = part == source or (
            len(part) == 1 and isinstance(part[0], NonTerminal)
        )
        if is_trivial or len(_places(part, source)) > 1:
            continue
        for string in dict.fromkeys(
            target[i:j] for i, j in combinations(range(len(target) + 1), 2)
        ):
            places = _places(string, target)
            if len(places) == 1 or repeated_targets:
                variants = list(_replacements(target, places, len(string)))
                outer = rule_of_sides(left, _all_replaced(target, string))
                yield Cut(
                    rule_of_sides(part, string), outer, (part, string), left, variants
                )


def _places(part: Symbols, whole: Symbols) -> list[int]:
    return [
        at
        for at in range(len(whole) - len(part) + 1)
        if whole[at : at + len(part)] == part
    ]


def _replacements(
    target: Symbols, places: Sequence[int], length: int
) -> Iterator[Symbols]:
    for count in range(1, len(places) + 1):
        for chosen in combinations(places, count):
            if all(second - first >= length for first, second in pairwise(chosen)):
                bounds = zip(
                    [0, *(place + length for place in chosen)],
                    [*chosen, len(target)],
                    strict=True,
                )
                pieces = [target[low:high] for low, high in bounds]
                yield tuple(symbol for piece in pieces for symbol in (FRESH, *piece))[
                    1:
                ]


def _all_replaced(target: Symbols, string: Symbols) -> Symbols:
    if not target:
        return ()
    if target[: len(string)] == string:
        return (FRESH, *_all_replaced(target[len(string) :], string))
    return (target[0], *_all_replaced(target[1:], string))


def rule_of_sides(source: Symbols, target: Symbols) -> Rule | None:
    """The rule with these sides, its non-terminals numbered from left to right; None where they do not make a rule."""
    leaves = [symbol for symbol in source if isinstance(symbol, NonTerminal)]
    if (
        set(leaves) != {symbol for symbol in target if isinstance(symbol, NonTerminal)}
        or len(source) == len(leaves) == 1
    ):
        return None
    renamed = {leaf: NonTerminal(number) for number, leaf in enumerate(leaves, start=1)}

    def side(symbols: Symbols) -> Symbols:
        return tuple(
            renamed[symbol] if isinstance(symbol, NonTerminal) else symbol
            for symbol in symbols
        )

    return Rule(side(source), side(target))


def candidates_by_definition(
    rule: Rule,
    others: Iterable[Rule],
    *,
    repeated_targets: bool,
    max_non_terminals: int,
    brackets: Brackets,
) -> set[Rule]:
    """Every allowed rule that derives `rule` together with `others`: one part of a cut whose other part they derive."""
    targets = derived_targets(others, len(rule.target))
    found: set[Rule | None] = set()
    for cut in cuts(rule, repeated_targets=repeated_targets):
        source, target = cut.inner_sides
        if target in targets(source):
            found.add(cut.outer)
        if targets(cut.outer_source).intersection(cut.outer_targets):
            found.add(cut.inner)
    return {
        each for each in found if each and is_allowed(each, max_non_terminals, brackets)
    }


def splits_by_definition(
    rule: Rule, *, repeated_targets: bool, max_non_terminals: int, brackets: Brackets
) -> set[tuple[Rule, Rule]]:
    """SPLIT: the outer and the inner rule of every cut that has two allowed ones."""
    return {
        (cut.outer, cut.inner)
        for cut in cuts(rule, repeated_targets=repeated_targets)
        if cut.outer and cut.inner
        if all(
            is_allowed(part, max_non_terminals, brackets)
            for part in (cut.outer, cut.inner)
        )
    }


def is_allowed(rule: Rule, max_non_terminals: int, brackets: Brackets) -> bool:
    """Whether a rule has few non-terminals, and balanced brackets on both sides."""
    sides = (rule.source, rule.target)
    return rule.arity <= max_non_terminals and all(
        is_balanced(side, *pair) for side in sides for pair in brackets
    )


def is_balanced(side: Symbols, opening: str, closing: str) -> bool:
    """Whether the brackets of a side vanish when innermost pairs are taken out again and again."""
    text = "".join({opening: "(", closing: ")"}.get(str(symbol), "") for symbol in side)
    while "()" in text:
        text = text.replace("()", "")
    return not text


def superfluous_by_definition(rules: Sequence[Rule]) -> set[Rule]:
    """The rules that the others derive."""
    return {
        rule
        for rule in rules
        if rule.target
        in derived_targets(
            [other for other in rules if other != rule], len(rule.target)
        )(rule.source)
    }


def could_use(rule: Rule, source: Sequence[str]) -> bool:
    """Whether the rule's source lies over some part of `source`, each non-terminal over at least one token."""
    bounds = combinations(range(len(source) + 1), 2)
    return any(
        any(True for _ in _divisions(rule.source, tuple(source[i:j])))
        for i, j in bounds
    )


# The forest CRF: the twin of `nqg.model.forest_crf` lists the hyperedges of every derivation in a graph.


def derivations_as_hyperedges(graph: Hypergraph) -> list[list[tuple[int, ...]]]:
    """For each sentence of a pruned graph, every derivation as the numbers of its hyperedges."""

    def below(node: NodeId) -> Iterator[tuple[int, ...]]:
        for hyperedge in graph.hyperedges_of(node):
            for parts in product(
                *(list(below(child)) for child in graph.children_of(hyperedge))
            ):
                yield (hyperedge, *(each for part in parts for each in part))

    return [
        [] if root < 0 else list(below(NodeId(int(root)))) for root in graph.roots()
    ]


# Attention: the twin of `nqg.model.attention_kernels` takes one query of one head after the other.


def attention_by_definition(
    sentences: Iterable[tuple[Any, Any, Any]], kept: Sequence[float]
) -> list[list[float]]:
    """What each query of each head of each sentence sees, given arrays (heads, pieces, width) and dropout's factors."""
    factors, seen = iter(kept), []
    for queries, keys, values in sentences:
        for asking, asked, answers in zip(queries, keys, values, strict=True):
            for query in asking:
                weights = [
                    math.exp(float(query @ key) / math.sqrt(len(query)))
                    for key in asked
                ]
                parts = [next(factors) * weight / sum(weights) for weight in weights]
                seen.append(
                    [
                        float(each)
                        for each in sum(
                            part * answer
                            for part, answer in zip(parts, answers, strict=True)
                        )
                    ]
                )
    return seen


# Gaps: the twin of `nqg.inference.gaps` tries every way of cutting a sentence into islands and lone tokens.


def best_islands(grammar: Grammar, source: Sequence[str]) -> tuple[Span, ...]:
    """The islands that leave the fewest tokens uncovered; then the fewest, then the longest ones first."""
    return min(
        _all_islands(grammar, tuple(source), 0),
        key=lambda islands: _island_costs(islands, len(source)),
    )


def _all_islands(
    grammar: Grammar, source: Tokens, start: int
) -> Iterator[tuple[Span, ...]]:
    if start == len(source):
        yield ()
        return
    yield from _all_islands(grammar, source, start + 1)
    for end in range(start + 1, len(source) + 1):
        if any(True for _ in _span_derivations(grammar, source, start, end)):
            yield from (
                (Span(start, end), *rest) for rest in _all_islands(grammar, source, end)
            )


def _island_costs(islands: tuple[Span, ...], length: int) -> tuple[int, int, list[int]]:
    lengths = [island.end - island.start for island in islands]
    steps = sorted([*(span.start for span in islands), *_outside(islands, length)])
    ends = {island.start: island.end for island in islands}
    return (
        length - sum(lengths),
        len(islands),
        [-ends.get(place, place + 1) for place in steps],
    )


def _outside(islands: tuple[Span, ...], length: int) -> list[int]:
    return [
        place
        for place in range(length)
        if not any(span.start <= place < span.end for span in islands)
    ]


# The hybrid: the twin of `nqg.paper.gate` tries every threshold, that of `nqg.seq2seq.legal_decoding` every text.


def best_gate(trials: Sequence[GateTrial]) -> Gate:
    """Of the gates with which most trials are right, the one that lets most pass."""
    asked = [trial.probability for trial in trials if trial.probability is not None]
    gates = [
        Gate(threshold, trusts)
        for threshold in (0.0, 2.0, *asked)
        for trusts in (True, False)
    ]
    return max(
        gates,
        key=lambda gate: (
            sum(trial.is_right(gate) for trial in trials),
            sum(map(gate.accepts, asked)),
        ),
    )


def is_legal_beginning(grammar: TargetGrammar, text: str) -> bool:
    """Whether some legal target, written with single spaces and perhaps one before it, begins with `text`."""
    *whole, begun = text.removeprefix(" ").split(" ")
    named = {
        symbol
        for each in grammar.productions
        for symbol in each.right
        if isinstance(symbol, str)
    }
    last = {token for token in named if token.startswith(begun)} | {
        begun or "unknown",
        f"{begun}7",
    }
    cut = prefix_productions(grammar.productions)
    return all(whole) and any(
        derives_target(cut, cut[0].left, [*whole, token]) for token in sorted(last)
    )


# Evaluation: intervals by their definitions.


def wilson_bounds(
    successes: int, trials: int, z: float = 1.959963984540054
) -> list[float]:
    """The shares p at which the observed one is just `z` standard errors away, found by halving."""
    share = successes / trials

    def is_near(p: float) -> bool:
        return (share - p) ** 2 <= z * z * p * (1 - p) / trials + 1e-15

    def edge(outside: float) -> float:
        inside = share
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if is_near(middle) else (inside, middle)
        return inside

    return [edge(0.0), edge(1.0)]


def bootstrap_means(values: Sequence[float], rng: Any, resamples: int) -> list[float]:
    """The means of samples that are drawn value by value."""
    samples = (rng.integers(len(values), size=len(values)) for _ in range(resamples))
    return [
        sum(values[place] for place in sample.tolist()) / len(values)
        for sample in samples
    ]


# FunQL: the twin of `nqg.paper.denotations` asks of every thing in the world whether a program denotes it.

MEASURED_BY = {
    "largest": "size",
    "smallest": "size",
    "longest": "len",
    "shortest": "len",
} | dict.fromkeys(("highest", "lowest", "higher_2", "lower_2"), "elevation_1")
DOWNWARDS = {"smallest", "shortest", "lowest", "lower_2", "smallest_one", "fewest"}


def denoted(
    term: Term, geography: Geography, world: Sequence[Entity]
) -> frozenset[Entity]:
    """The things in `world` that a program, without `answer`, denotes."""
    return frozenset(
        thing for thing in world if _denotes(term, thing, geography, world)
    )


def _denotes(
    term: Term, thing: Entity, geography: Geography, world: Sequence[Entity]
) -> bool:
    match term:
        case Entity(kind, name, state):
            return (thing.kind, thing.name) == (kind, name) and state in (
                None,
                thing.state,
            )
        case Name(name):
            return thing in geography.classes[name]
        case Application("intersection", (left, right)):
            return thing in denoted(left, geography, world) and thing in denoted(
                right, geography, world
            )
        case Application("exclude", (left, right)):
            return thing in denoted(left, geography, world) and thing not in denoted(
                right, geography, world
            )
        case Application(
            "largest_one" | "smallest_one" as name, (Name(measure), things)
        ):
            return _is_first(
                thing,
                name,
                _measured(measure, denoted(things, geography, world), geography),
            )
        case Application(
            "most" | "fewest" as name, (Name(members), Name(relation), things)
        ):
            found = denoted(things, geography, world)
            pairs = [
                (
                    one,
                    sum(
                        one in geography.relations[relation].get(each, ())
                        for each in found
                    ),
                )
                for one in world
            ]
            counts = [
                (one, count)
                for one, count in pairs
                if one in geography.classes[members] and count
            ]
            return _is_first(thing, name, counts)
        case Application("higher_2" | "lower_2" as name, (things,)):
            sign = -1 if name in DOWNWARDS else 1
            bounds = _measured(
                "elevation_1", denoted(things, geography, world), geography
            )
            own = _measured(
                "elevation_1", {thing} & geography.classes["place"], geography
            )
            return any(
                sign * value > sign * bound for _, value in own for _, bound in bounds
            )
        case Application(name, (things,)) if name in MEASURED_BY:
            return _is_first(
                thing,
                name,
                _measured(
                    MEASURED_BY[name], denoted(things, geography, world), geography
                ),
            )
        case Application(relation, (things,)):
            others = denoted(things, geography, world)
            return any(
                thing in geography.relations[relation].get(other, ())
                for other in others
            )
        case _:
            raise AssertionError(f"no program of things: {term}")


def _measured(
    measure: str, things: Iterable[Entity], geography: Geography
) -> list[tuple[Entity, float]]:
    return [
        (thing, value)
        for thing in things
        for value in geography.measures[measure].get(thing, ())
    ]


def _is_first(thing: Entity, name: str, ranked: Sequence[tuple[Entity, float]]) -> bool:
    """Whether nothing in `ranked` is ahead of `thing` by value or, where that is the same, by name."""
    sign = 1 if name in DOWNWARDS else -1
    places = [
        (each, (sign * value, each.name, each.state or "")) for each, value in ranked
    ]
    return any(
        each == thing and all(place <= other for _, other in places)
        for each, place in places
    )


def logistic_by_descent(
    rows: Sequence[tuple[Sequence[float], bool, float]],
    prior: Sequence[float],
    precision: float,
) -> list[float]:
    """The weights of a logistic regression with a Gaussian prior, by plain gradient descent.

    A row has features, all between -1 and 1, whether it is right, and how often it counts.
    """
    # A step of this size never overshoots: it is one over the most curvature that there can be.
    most_curvature = precision + sum(len(prior) * count / 4 for _, _, count in rows)
    weights = list(prior)
    for _ in range(20_000):
        slopes = [precision * (now - old) for now, old in zip(weights, prior)]
        for features, is_right, count in rows:
            logit = sum(map(mul, weights, features))
            error = 1 / (1 + math.exp(-logit)) - is_right
            for at, feature in enumerate(features):
                slopes[at] += count * error * feature
        if max(map(abs, slopes)) < 1e-9:
            break
        for at, slope in enumerate(slopes):
            weights[at] -= slope / most_curvature
    return weights


def threshold_by_trying(
    answers: Sequence[tuple[float, bool]], precision: float
) -> float | None:
    """The smallest confidence from which on the right answers are no fewer than are wanted, less half
    a standard deviation; at least one half, or what is wanted.
    """
    good = []
    for least, _ in answers:
        verdicts = [is_right for confidence, is_right in answers if confidence >= least]
        wanted = precision * len(verdicts)
        deviation = math.sqrt(wanted * (1 - precision))
        is_likely = least >= max(min(precision, 0.5), 1e-9)
        is_enough = len(verdicts) * (1 - precision) >= 1 - 1e-9
        if is_likely and is_enough and sum(verdicts) >= wanted - 0.5 * deviation:
            good.append(least)
    return min(good, default=None)


def calibration_error_by_definition(
    confidences: Sequence[float], verdicts: Sequence[bool], bins: int
) -> float:
    """The expected calibration error with bins of equal width, answer by answer."""
    total = 0.0
    for low, high in pairwise([*(number / bins for number in range(bins)), 2.0]):
        inside = [
            at for at, confidence in enumerate(confidences) if low <= confidence < high
        ]
        total += abs(sum(confidences[at] - verdicts[at] for at in inside))
    return total / len(confidences)


def edit_distance(one: str, other: str) -> int:
    """How many letters have to be added, dropped or changed, or neighbours swapped, no part being edited twice."""
    if not one or not other:
        return len(one) + len(other)
    ways = [
        edit_distance(one[1:], other) + 1,
        edit_distance(one, other[1:]) + 1,
        edit_distance(one[1:], other[1:]) + (one[0] != other[0]),
    ]
    if len(one) > 1 and len(other) > 1 and one[:2] == other[1::-1]:
        ways.append(edit_distance(one[2:], other[2:]) + 1)
    return min(ways)


# Sequences: the twin of `nqg.inference.sequences` takes the best of all ways to join clauses.


def best_commands(
    clauses: Sequence[str], connective: str, confidences: Mapping[str, float]
) -> list[str] | None:
    """The commands whose confidences have the highest product; of equals the fewest, then those
    whose first commands are shortest. None where no way has an answer to every command.
    """

    def ways(rest: Sequence[str]) -> Iterator[list[str]]:
        if not rest:
            yield []
        for size in range(1, len(rest) + 1):
            for others in ways(rest[size:]):
                yield [connective.join(rest[:size]), *others]

    legal = [way for way in ways(clauses) if all(text in confidences for text in way)]

    def rank(way: list[str]) -> tuple[float, int, list[int]]:
        product = math.prod(confidences[text] for text in way)
        return -product, len(way), [len(text) for text in way]

    return min(legal, key=rank, default=None)


def assert_same_arrays(first: Iterable[Any], second: Iterable[Any]) -> None:
    """Two ways to compute the same arrays give the same values of the same types."""
    for one, other in zip(first, second, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)
