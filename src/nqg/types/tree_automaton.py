"""Types of rules: which derivations yield legal targets, decided from rule to rule.

A *fragment* is a run of symbols in the right side of a production, most often a single category. A *signature* of a
rule is a way in which its target belongs to legal targets: the fragment that derives it, and the fragment that stands
for each of its non-terminals. The *type* of a derivation is the set of all fragments that it can stand for, which
follows from its first rule and its children's types alone. So types are the states of a deterministic tree automaton:
every derivation has exactly one, and a derivation whose type holds the start symbol yields a legal target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, product
from typing import NamedTuple

import numpy as np

from nqg.grammar.encoding import NO_TYPE, TypeArrays
from nqg.grammar.grammar import NonTerminal, Rule, Symbol, Symbols
from nqg.types.target_grammar import (
    Category,
    Production,
    TargetGrammar,
    TargetSymbol,
    Wildcard,
    format_symbols,
)

Fragment = tuple[TargetSymbol, ...]
Arguments = tuple[Fragment, ...]

ANYTHING: Fragment = (Wildcard.TOKENS,)  # what every target is
CACHE_SIZE = 1 << 16  # readings of targets
RIGHT_SIDES, SUFFIXES = range(2)  # nodes of the trie below which right sides, and their ends, are


@dataclass(frozen=True, slots=True)
class Signature:
    """The fragment that derives a target, and those that stand for the non-terminals in it, from left to right.

    >>> str(Signature((Category("city"),), ((Category("state"),), ("major",))))
    '<city> from <state> and major'
    """

    fragment: Fragment
    arguments: Arguments = ()

    def __str__(self) -> str:
        arguments = " and ".join(map(format_symbols, self.arguments))
        return (
            f"{format_symbols(self.fragment)} from {arguments}"
            if arguments
            else format_symbols(self.fragment)
        )


class FragmentItem(NamedTuple):
    """A production read as far as `node` since `start`, and what the non-terminals on the way stand for."""

    node: int
    start: int
    arguments: Arguments


Fillers = Sequence[tuple[Arguments, int]]  # what a non-terminal may stand for, and where that leads


class RightSideTrie:
    """The right sides of productions, and all their suffixes, as paths from two roots.

    >>> trie = RightSideTrie(TargetGrammar.parse("<set> ::= all | major <set>"))
    >>> [format_symbols(fragment) for fragment, _ in trie.fragments()[SUFFIXES]]
    ['<set>', 'all', 'major', 'major <set>']
    """

    def __init__(self, grammar: TargetGrammar) -> None:
        self.edges: list[dict[TargetSymbol, int]] = [
            {},
            {},
        ]  # of each node; the first two are the roots
        self.lefts: dict[int, list[Category]] = defaultdict(
            list
        )  # by the node where a right side ends
        self.insert(SUFFIXES, (grammar.start,))
        for production in with_associativity(grammar.productions):
            self.lefts[self.insert(RIGHT_SIDES, production.right)].append(production.left)
            for begin in range(len(production.right)):
                self.insert(SUFFIXES, production.right[begin:])
        # Nodes behind `<...>`: whatever comes next, they may read it, too.
        self.absorbing = {
            edges[Wildcard.TOKENS] for edges in self.edges if Wildcard.TOKENS in edges
        }

    def insert(self, node: int, symbols: Fragment) -> int:
        """Add a path below a node, and return its end."""
        for symbol in symbols:
            if symbol not in self.edges[node]:
                self.edges[node][symbol] = len(self.edges)
                self.edges.append({})
            node = self.edges[node][symbol]
        return node

    def fragments(self) -> list[list[tuple[Fragment, int]]]:
        """For each node what can be read from there on, and where it leads."""
        below: list[list[tuple[Fragment, int]]] = [[] for _ in self.edges]
        # Children have higher numbers than their parents.
        for node in reversed(range(len(self.edges))):
            for symbol, child in self.edges[node].items():
                below[node].append(((symbol,), child))
                below[node].extend(((symbol, *fragment), end) for fragment, end in below[child])
        for node in self.absorbing:
            longer = [((Wildcard.TOKENS, *fragment), end) for fragment, end in below[node]]
            below[node] += [(ANYTHING, node), *longer]
        return below


class Signatures:
    """Finds the signatures of targets: a bottom-up chart over a trie of the right sides of productions.

    The target as a whole may begin and end in the midst of a right side, what is inside it may not. What was found last
    is kept, for folds of the same examples ask for the same.
    """

    @classmethod
    @lru_cache(maxsize=1)
    def shared(cls, grammar: TargetGrammar) -> Signatures:
        """A finder that all share who look for signatures under one grammar, and who leave `allow` alone."""
        return cls(grammar)

    def __init__(self, grammar: TargetGrammar) -> None:
        trie = RightSideTrie(grammar)
        self._trie = trie
        self._awaited = [
            [(symbol, node) for symbol, node in edges.items() if isinstance(symbol, Category)]
            for edges in trie.edges
        ]
        used = [wildcard for wildcard in Wildcard if any(wildcard in edges for edges in trie.edges)]
        named = grammar.terminals
        self._wildcards = cache(
            lambda token: [wildcard for wildcard in used if wildcard.matches(token, named)]
        )
        self._open = trie.absorbing.union(node for node, edges in enumerate(trie.edges) if edges)
        self._below = trie.fragments()
        self._fragments = {node: fragment for fragment, node in self._below[SUFFIXES]}
        self.allow(self._fragments.values())

    def allow(self, fragments: Iterable[Fragment]) -> None:
        """From now on non-terminals stand only for these fragments."""
        allowed = frozenset(fragments)
        self._fillers = [
            [((fragment,), node) for fragment, node in below if fragment in allowed]
            for below in self._below
        ]
        self._fillers[RIGHT_SIDES] = [
            filler for filler in self._fillers[RIGHT_SIDES] if filler[1] in self._open
        ]
        self._anonymous = [
            [((), node) for node in sorted({node for _, node in below})] for below in self._fillers
        ]
        self._found = lru_cache(CACHE_SIZE)(self._read)

    def of(self, target: Symbols) -> set[Signature]:
        named = [symbol for symbol in target if isinstance(symbol, NonTerminal)]
        if len(target) == len(named) == 1:
            return {Signature(*arguments, arguments) for arguments, _ in self._fillers[SUFFIXES]}
        return {
            Signature(self._fragments[item.node], item.arguments)
            for item in self._read(target, named)
        }

    def fits(self, target: Symbols) -> bool:
        """Whether a target has any signature: faster, because it does not matter which."""
        return bool(self._found(target))

    def fragments(self, target: Symbols) -> frozenset[Fragment]:
        """The fragments that derive a target, whatever its non-terminals stand for."""
        return frozenset(self._fragments[item.node] for item in self._found(target))

    def argument_fragments(self, hole: NonTerminal, target: Symbols) -> frozenset[Arguments]:
        """What a non-terminal of a target can stand for, at each of its occurrences."""
        return frozenset(item.arguments for item in self._found(target, (hole,)))

    def _read(self, target: Symbols, named: Sequence[NonTerminal] = ()) -> list[FragmentItem]:
        """The items that have read the whole target, with the fragments that the `named` non-terminals stand for."""
        column = {FragmentItem(RIGHT_SIDES, 0, ()), FragmentItem(SUFFIXES, 0, ())}
        columns = [column]
        waiting = cache(lambda start: self._waiting(columns[start]))
        for end, symbol in enumerate(target, start=1):
            fillers = self._fillers if symbol in named else self._anonymous
            pending = [
                following for item in column for following in self._over(item, symbol, fillers)
            ]
            seen = {FragmentItem(RIGHT_SIDES, end, ())}
            while pending:
                item = pending.pop()
                if item in seen:
                    continue
                seen.add(item)
                if item.start == end - 1 and isinstance(symbol, NonTerminal):
                    continue  # what derives a lone non-terminal is one of its own fragments
                for left in self._trie.lefts.get(item.node, ()):
                    parents = waiting(item.start).get(left, ())
                    pending += [
                        FragmentItem(parent.node, parent.start, parent.arguments + item.arguments)
                        for parent in parents
                    ]
            column = {item for item in seen if item.node in self._open}
            columns.append(column)
        return [item for item in seen if item.start == 0 and item.node in self._fragments]

    def _over(
        self, item: FragmentItem, symbol: Symbol, fillers: Sequence[Fillers]
    ) -> list[FragmentItem]:
        """Where an item leads over one symbol of the target."""
        node, start, arguments = item
        if isinstance(symbol, NonTerminal):
            return [
                FragmentItem(behind, start, (*arguments, *filler))
                for filler, behind in fillers[node]
            ]
        edges = self._trie.edges[node]
        found = [
            FragmentItem(edges[label], start, arguments)
            for label in (symbol, *self._wildcards(symbol))
            if label in edges
        ]
        return [*found, item] if node in self._trie.absorbing else found

    def _waiting(self, items: Iterable[FragmentItem]) -> dict[Category, list[FragmentItem]]:
        """The items behind the categories that `items` wait for."""
        found: dict[Category, list[FragmentItem]] = defaultdict(list)
        for node, start, arguments in items:
            for symbol, behind in self._awaited[node]:
                found[symbol].append(FragmentItem(behind, start, arguments))
        return found


def with_associativity(productions: Sequence[Production]) -> list[Production]:
    """The same language, in which a list can be put together from lists.

    Where `<a> ::= <b>` and `<a> ::= <a> , <b>` (or `<b> , <a>`) for all that `<a>` can begin with (or end with), also
    `<a> ::= <a> , <a>`.

    >>> list_of_items = TargetGrammar.parse("<list> ::= <item> | <list> , <item>\\n<item> ::= a | b")
    >>> str(with_associativity(list_of_items.productions)[-1])
    '<list> ::= <list> , <list>'
    """
    rights: dict[Category, dict[Fragment, None]] = defaultdict(dict)
    for each in productions:
        rights[each.left][each.right] = None
    found = dict.fromkeys(productions)
    for left, own in rights.items():
        for step in (
            1,
            -1,
        ):  # lists that grow to the right are, read backwards, lists that grow to the left
            read = dict.fromkeys(right[::step] for right in own)
            bases = [right for right in read if right[0] != left]
            grown = [right for right in read if right[0] == left]
            for right, base in product(grown, bases):
                separator = right[1 : len(right) - len(base)]
                if all((left, *separator, *other) in read for other in bases):
                    found[Production(left, (left, *separator, left)[::step])] = None
    return list(found)


@dataclass(frozen=True)
class Typing:
    """The types of the derivations of a grammar; those of type i stand for the fragments `types[i]`.

    >>> from nqg.grammar.grammar import Grammar
    >>> rules = Grammar.parse('''
    ... lights ### light
    ... NT_1 in the hall ### hall ( NT_1 )
    ... turn on NT_1 ### on ( NT_1 )
    ... ''')
    >>> target_grammar = TargetGrammar.parse("<command> ::= on ( <thing> )\\n<thing> ::= light | hall ( light )")
    >>> typing = Typing.of(rules.rules, target_grammar)
    >>> [str(signature) for rule in typing.signatures for signature in rule]
    ['<thing>', 'light', '<thing> from light', '<command> from <thing>']
    >>> len(typing.types)
    3
    """

    signatures: tuple[tuple[Signature, ...], ...]  # of each rule, those that legal targets can need
    types: tuple[frozenset[Fragment], ...]
    arrays: TypeArrays

    def type_of(self, rule: int, children: Sequence[int]) -> int:
        """The type of a rule over children of these types, or NO_TYPE."""
        arrays, place, at = self.arrays, int(self.arrays.first_place[rule]), 0
        for child, kind in enumerate(children):
            if kind == NO_TYPE or arrays.classes[place + child, kind] == NO_TYPE:
                return NO_TYPE
            at = at * int(arrays.sizes[place + child]) + int(arrays.classes[place + child, kind])
        return int(arrays.results[arrays.first_result[rule] + at])

    @classmethod
    def of(cls, rules: Sequence[Rule], target_grammar: TargetGrammar) -> Typing:
        start = (target_grammar.start,)
        signatures = useful(derivable_signatures(rules, target_grammar), start)
        fragments = sorted(
            {each.fragment for rule in signatures for each in rule}, key=format_symbols
        )
        bits = {fragment: 1 << number for number, fragment in enumerate(fragments)}
        typed = [TypedRule.of(rule, own, bits) for rule, own in zip(rules, signatures, strict=True)]
        masks, results = closure(typed)
        types = tuple(
            frozenset(fragment for fragment in fragments if mask & bits[fragment]) for mask in masks
        )
        return cls(signatures, types, type_arrays(typed, masks, results, bits.get(start, 0)))


def derivable_signatures(
    rules: Sequence[Rule], target_grammar: TargetGrammar
) -> list[set[Signature]]:
    """For each rule the signatures whose argument fragments have derivations, found in rounds from the bottom up."""
    finder = Signatures(target_grammar)
    known, found = set[Fragment](), [set[Signature]() for _ in rules]
    while True:
        finder.allow(known)
        for number, rule in enumerate(rules):
            if rule.arity or not known:
                found[number] = finder.of(rule.target)
        fragments = {each.fragment for own in found for each in own}
        if fragments == known:
            return found
        known = fragments


def useful(
    signatures: Sequence[set[Signature]], start: Fragment
) -> tuple[tuple[Signature, ...], ...]:
    """The signatures that lead from the start symbol down, in a fixed order."""
    needed, pending = {start}, [start]
    under: dict[Fragment, set[Fragment]] = defaultdict(set)
    for each in chain.from_iterable(signatures):
        under[each.fragment].update(each.arguments)
    while pending:
        fresh = under[pending.pop()] - needed
        needed |= fresh
        pending.extend(fresh)
    return tuple(
        tuple(sorted((each for each in rule if each.fragment in needed), key=str))
        for rule in signatures
    )


@dataclass(frozen=True, slots=True)
class TypedRule:
    """A rule's signatures as sets of bits: the fragment's, and for each occurrence of a non-terminal its fragment's."""

    occurrences: tuple[int, ...]  # for each occurrence, which non-terminal it is, from 0
    signatures: tuple[tuple[int, tuple[int, ...]], ...]
    wanted: tuple[int, ...]  # for each non-terminal, all fragments that could be asked of it

    @classmethod
    def of(
        cls, rule: Rule, signatures: Iterable[Signature], bits: dict[Fragment, int]
    ) -> TypedRule:
        occurrences = tuple(
            symbol.index - 1 for symbol in rule.target if isinstance(symbol, NonTerminal)
        )
        derivable = [
            each for each in signatures if all(fragment in bits for fragment in each.arguments)
        ]
        own = tuple(
            (bits[each.fragment], tuple(bits[fragment] for fragment in each.arguments))
            for each in derivable
        )
        wanted = [0] * rule.arity
        for _, arguments in own:
            for place, fragment in zip(occurrences, arguments, strict=True):
                wanted[place] |= fragment
        return cls(occurrences, own, tuple(wanted))

    def classes(self, masks: Iterable[int]) -> list[list[int]]:
        """For each non-terminal what children of these types stand for of what is wanted, each once."""
        masks = list(masks)
        return [
            [*dict.fromkeys(mask & wanted for mask in masks if mask & wanted)]
            for wanted in self.wanted
        ]

    def result(self, children: Sequence[int]) -> int:
        """The fragments that the rule stands for over children that stand for those."""
        found = 0
        for fragment, arguments in self.signatures:
            if not found & fragment:
                fits = all(
                    children[place] & each
                    for place, each in zip(self.occurrences, arguments, strict=True)
                )
                if fits:
                    found |= fragment
        return found


Results = dict[
    tuple[int, ...], int
]  # the fragments of a rule, by what its children stand for of what is wanted of them


def closure(rules: Sequence[TypedRule]) -> tuple[list[int], list[Results]]:
    """All types that derivations have, and the results of every rule over them.

    Types grow from those of rules without non-terminals until there are no new ones.
    """
    masks: dict[int, None] = {}
    results: list[Results] = [{} for _ in rules]
    count = -1
    while count < len(masks):
        count, known = len(masks), list(masks)
        for rule, own in zip(rules, results, strict=True):
            fresh = {
                each: rule.result(each) for each in product(*rule.classes(known)) if each not in own
            }
            own |= fresh
            masks |= dict.fromkeys(filter(None, fresh.values()))
    return list(masks), results


def type_arrays(
    rules: Sequence[TypedRule], masks: Sequence[int], results: Sequence[Results], start: int
) -> TypeArrays:
    numbers = {mask: number for number, mask in enumerate(masks)} | {0: NO_TYPE}
    classes: list[list[int]] = []
    sizes: list[int] = []
    first_place, first_result, table = [0], [0], list[int]()
    for rule, own in zip(rules, results, strict=True):
        of_rule = rule.classes(masks)
        for wanted, of_place in zip(rule.wanted, of_rule, strict=True):
            places = {key: place for place, key in enumerate(of_place)} | {0: NO_TYPE}
            classes.append([places[mask & wanted] for mask in masks])
            sizes.append(len(of_place))
        table.extend(numbers[own[children]] for children in product(*of_rule))
        first_place.append(len(classes))
        first_result.append(len(table))
    return TypeArrays(
        classes=np.array(classes, dtype=np.int32).reshape(len(classes), len(masks)),
        sizes=np.array(sizes, dtype=np.int32),
        first_place=np.array(first_place, dtype=np.int32),
        first_result=np.array(first_result, dtype=np.int32),
        results=np.array(table, dtype=np.int32),
        is_whole=np.array([bool(mask & start) for mask in masks], dtype=np.bool_),
    )
