"""Types of rules: which derivations yield legal targets, decided from rule to rule.

A *fragment* is a run of symbols in the right side of a production, most often a single category.
A *signature* of a rule is a way in which its target belongs to legal targets: the fragment that
derives it, and the fragment that stands for each of its non-terminals. The *type* of a derivation
is the set of all fragments that it can stand for, which follows from its first rule and its
children's types alone. So types are the states of a deterministic tree automaton: every derivation
has exactly one, and a derivation whose type holds the start symbol yields a legal target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from itertools import chain, count, product
from operator import or_
from typing import NamedTuple

import numpy as np

from nqg.grammar.encoding import NO_TYPE, TypeArrays
from nqg.grammar.grammar import NonTerminal, Rule, Symbol, Symbols, argument_indices
from nqg.types.legal_forest import ForestReducer
from nqg.types.target_grammar import (
    Category,
    Production,
    TargetGrammar,
    TargetSymbol,
    Wildcard,
    format_symbols,
    reachable,
)

Fragment = tuple[TargetSymbol, ...]
Arguments = tuple[Fragment, ...]
# A production that is read as far as a node of the trie, where in the target it began, and the
# fragments of the non-terminals in between. Millions are made: a plain tuple is made fastest.
FragmentItem = tuple[int, int, Arguments]
# How many readings of targets are cached. It trades memory for time, and changes no result.
CACHE_SIZE = 1 << 16
# The two roots of the trie: below them are right sides, and all their suffixes.
RIGHT_SIDES, SUFFIXES = range(2)


@dataclass(frozen=True, slots=True)
class Signature:
    """The fragment that derives a target, and those of its non-terminals, from left to right.

    >>> str(Signature((Category("city"),), ((Category("state"),), ("major",))))
    '<city> from <state> and major'
    """

    fragment: Fragment
    arguments: Arguments = ()

    def __str__(self) -> str:
        fragment = format_symbols(self.fragment)
        if not self.arguments:
            return fragment
        return f"{fragment} from {' and '.join(map(format_symbols, self.arguments))}"


class RightSideTrie:
    """The right sides of productions, and all their suffixes, as paths from two roots.

    `edges` has the children of each node; children have higher numbers than their parents. `lefts`
    has the left sides of the productions whose right side ends at a node. The nodes `absorbing` lie
    behind `<...>`: whatever comes next, they may read it, too. The nodes `open` can be left again.

    >>> trie = RightSideTrie(TargetGrammar.parse("<set> ::= all | major <set>"))
    >>> trie.lefts[trie.insert(RIGHT_SIDES, ("major", Category("set")))]
    [Category(name='set')]
    """

    def __init__(self, grammar: TargetGrammar) -> None:
        self.edges: list[dict[TargetSymbol, int]] = [{}, {}]
        self.lefts = defaultdict[int, list[Category]](list)
        self.insert(SUFFIXES, (grammar.start,))
        for production in with_associativity(grammar.productions):
            right = production.right
            self.lefts[self.insert(RIGHT_SIDES, right)].append(production.left)
            # Fragments may begin anywhere in a right side, so each suffix has a path.
            for begin in range(len(right)):
                self.insert(SUFFIXES, right[begin:])
        self.category_edges: list[list[tuple[Category, int]]] = []
        for edges in self.edges:
            self.category_edges.append(
                [(s, n) for s, n in edges.items() if isinstance(s, Category)]
            )
        # No edge leads to SUFFIXES, so it can stand for an edge that is absent.
        self.absorbing = {edges.get(Wildcard.TOKENS, SUFFIXES) for edges in self.edges}
        self.absorbing.discard(SUFFIXES)
        self.open = {
            node for node, edges in enumerate(self.edges) if edges
        } | self.absorbing
        self.beginnings = first_labels(grammar.productions)

    def insert(self, node: int, symbols: Fragment) -> int:
        """Add a path below a node, and return its end.

        >>> trie = RightSideTrie(TargetGrammar.parse("<set> ::= all"))
        >>> trie.insert(SUFFIXES, ("all",)) in trie.edges[SUFFIXES].values()
        True
        """
        for symbol in symbols:
            child = self.edges[node].setdefault(symbol, len(self.edges))
            if child == len(self.edges):
                self.edges.append({})
            node = child
        return node

    def fragments(self) -> list[list[tuple[Fragment, int]]]:
        """For each node what can be read from there on, and where it leads.

        >>> trie = RightSideTrie(TargetGrammar.parse("<set> ::= all | major <set>"))
        >>> [format_symbols(fragment) for fragment, _ in trie.fragments()[SUFFIXES]]
        ['<set>', 'all', 'major', 'major <set>']
        """
        below: list[list[tuple[Fragment, int]]] = [[] for _ in self.edges]
        # Children have higher numbers than their parents, so they are ready first.
        for node in reversed(range(len(self.edges))):
            for symbol, child in self.edges[node].items():
                longer = [((symbol, *fragment), end) for fragment, end in below[child]]
                below[node] += [((symbol,), child), *longer]
        for node in self.absorbing:
            longer = [
                ((Wildcard.TOKENS, *fragment), end) for fragment, end in below[node]
            ]
            below[node] += [((Wildcard.TOKENS,), node), *longer]
        return below


@dataclass(frozen=True)
class SequenceItems:
    """What sequences of a category `<a> ::= <a> <a>` are made of: tokens, and brackets around it.

    >>> grammar = TargetGrammar.parse("<a> ::= x | y | [ <a> ] | <a> <a>")
    >>> items = SequenceItems.of(grammar.productions)[grammar.start]
    >>> items.holds(("x", "[", NonTerminal(1), "]")), items.holds(("x", "[", "]"))
    (True, False)
    """

    tokens: frozenset[str]
    brackets: frozenset[tuple[str, str]]
    empty_brackets: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, productions: Iterable[Production]) -> dict[Category, SequenceItems]:
        """The items of all categories of such sequences."""
        rights = defaultdict[Category, set[Fragment]](set)
        for production in productions:
            rights[production.left].add(production.right)
        found: dict[Category, SequenceItems] = {}
        for category, alternatives in rights.items():
            if (category, category) not in alternatives:
                continue
            tokens, brackets, empty = (
                set[str](),
                set[tuple[str, str]](),
                set[tuple[str, str]](),
            )
            for right in alternatives:
                match right:
                    case (str(token),):
                        tokens.add(token)
                    case (str(opening), Category() as inside, str(closing)) if (
                        inside == category
                    ):
                        brackets.add((opening, closing))
                    case (str(opening), str(closing)):
                        empty.add((opening, closing))
            found[category] = cls(
                frozenset(tokens), frozenset(brackets), frozenset(empty)
            )
        return found

    def holds(self, target: Symbols) -> bool:
        """Whether a target is a sequence of these, which may be brackets around such a sequence."""
        # Each opened bracket, and whether something stands behind it yet.
        opened: list[tuple[str, bool]] = [("", False)]
        openings = {opening for opening, _ in self.brackets | self.empty_brackets}
        for symbol in target:
            last, has_content = opened[-1]
            if isinstance(symbol, NonTerminal) or symbol in self.tokens:
                opened[-1] = (last, True)
            elif symbol in openings:
                opened.append((symbol, False))
            else:
                closed = self.brackets if has_content else self.empty_brackets
                if (last, symbol) not in closed:
                    return False
                opened.pop()
                opened[-1] = (opened[-1][0], True)
        return len(opened) == 1 and opened[0][1]


class Signatures:
    """Finds the signatures of targets: a bottom-up chart over a trie of right sides.

    The target as a whole may begin and end in the midst of a right side, what is inside it may not.
    Readings are cached, because folds of the same examples ask for the same targets.
    """

    # Trials and folds induce again and again under one grammar, each with a new `Induction`. What
    # they share is a pure function of the grammar, so nobody can tell that it is shared.
    @classmethod
    @lru_cache(maxsize=1)
    def shared(cls, grammar: TargetGrammar) -> Signatures:
        """The same finder for all who look for signatures under equal grammars."""
        return cls(grammar)

    def __init__(self, grammar: TargetGrammar) -> None:
        trie = self._trie = RightSideTrie(grammar)
        labels = set().union(*trie.edges)
        used = [wildcard for wildcard in Wildcard if wildcard in labels]
        named = grammar.terminals
        self._wildcards = cache(
            lambda token: [
                wildcard for wildcard in used if wildcard.matches(token, named)
            ]
        )
        self._sequence_items = SequenceItems.of(grammar.productions)
        self._below = trie.fragments()
        self._fragments = {node: fragment for fragment, node in self._below[SUFFIXES]}
        self._allow(self._fragments.values())

    def _allow(self, fragments: Iterable[Fragment]) -> None:
        """Let non-terminals stand only for these fragments from now on."""
        allowed = frozenset(fragments)
        # For each node the fragments that a non-terminal may stand for there, and where they lead.
        # A non-terminal whose fragment does not matter has none.
        self._fillers: list[list[tuple[Arguments, int]]] = []
        self._anonymous: list[list[tuple[Arguments, int]]] = []
        for node, below in enumerate(self._below):
            fillers: list[tuple[Arguments, int]] = []
            for fragment, end in below:
                is_inside = node != RIGHT_SIDES or end in self._trie.open
                if is_inside and fragment in allowed:
                    fillers.append(((fragment,), end))
            ends = sorted({end for _, end in fillers})
            self._fillers.append(fillers)
            self._anonymous.append([((), end) for end in ends])
        self._cached_items = lru_cache(CACHE_SIZE)(self._items)
        self._leads_on = cache(self._find_leads_on)
        self._leading_fillers = cache(self._find_leading_fillers)

    def of(self, target: Symbols) -> set[Signature]:
        """All signatures of a target."""
        named = [symbol for symbol in target if isinstance(symbol, NonTerminal)]
        if len(target) == len(named) == 1:
            return {
                Signature(arguments[0], arguments)
                for arguments, _ in self._fillers[SUFFIXES]
            }
        items = self._items(target, named)
        return {
            Signature(self._fragments[node], arguments) for node, _, arguments in items
        }

    def sequences(self, target: Symbols) -> frozenset[Category]:
        """Categories of any sequences that certainly derive a target, of those that are found fast.

        A non-terminal of the target may stand for the category, too.
        """
        return frozenset(
            category
            for category, items in self._sequence_items.items()
            if items.holds(target)
        )

    def fits(self, target: Symbols) -> bool:
        """Whether a target has any signature: faster, because it does not matter which."""
        return bool(self._cached_items(target))

    def fragments(self, target: Symbols) -> frozenset[Fragment]:
        """The fragments that derive a target, whatever its non-terminals stand for."""
        return frozenset(
            self._fragments[node] for node, _, _ in self._cached_items(target)
        )

    def argument_fragments(
        self, hole: NonTerminal, target: Symbols
    ) -> frozenset[Arguments]:
        """What a non-terminal of a target can stand for, at each of its occurrences."""
        return frozenset(
            arguments for _, _, arguments in self._cached_items(target, (hole,))
        )

    def _items(
        self, target: Symbols, named: Sequence[NonTerminal] = ()
    ) -> list[FragmentItem]:
        """The items that have read the target, with the fragments of the `named` non-terminals.

        An item is dropped as soon as the next symbol of the target shows that nothing can come of
        it: most of what a non-terminal can stand for goes that way.
        """
        items: set[FragmentItem] = {(RIGHT_SIDES, 0, ()), (SUFFIXES, 0, ())}
        # For each position the items behind each category that the items there wait for.
        waiting: list[dict[Category, list[FragmentItem]]] = []
        for end, symbol in enumerate(target, start=1):
            following = target[end] if end < len(target) else None
            waiting.append(self._behind_categories(items))
            pending: list[FragmentItem] = []
            for item in items:
                pending += self._behind_symbol(
                    item, symbol, following, is_named=symbol in named
                )
            items = {(RIGHT_SIDES, end, ())}
            while pending:
                item = pending.pop()
                if item in items:
                    continue
                items.add(item)
                node, start, arguments = item
                # What derives a lone non-terminal is one of its own fragments.
                if start == end - 1 and isinstance(symbol, NonTerminal):
                    continue
                for left in self._trie.lefts.get(node, ()):
                    for host, host_start, earlier in waiting[start].get(left, ()):
                        if self._leads_on(host, following):
                            pending.append((host, host_start, earlier + arguments))
        return [item for item in items if item[1] == 0 and item[0] in self._fragments]

    def _behind_symbol(
        self,
        item: FragmentItem,
        symbol: Symbol,
        following: Symbol | None,
        *,
        is_named: bool,
    ) -> list[FragmentItem]:
        """Where an item leads over one symbol of the target, if another one follows."""
        node, start, arguments = item
        if isinstance(symbol, NonTerminal):
            fillers = self._leading_fillers(node, following, is_named=is_named)
            return [(end, start, arguments + filler) for filler, end in fillers]
        edges = self._trie.edges[node]
        items = []
        labels: list[TargetSymbol] = [symbol, *self._wildcards(symbol)]
        for label in labels:
            end = edges.get(label)
            if end is not None and self._leads_on(end, following):
                items.append((end, start, arguments))
        # Behind `<...>` a token may also leave the item where it is.
        if node in self._trie.absorbing:
            items.append(item)
        return items

    def _behind_categories(
        self, items: Iterable[FragmentItem]
    ) -> dict[Category, list[FragmentItem]]:
        """The items behind the categories that `items` wait for."""
        behind = defaultdict[Category, list[FragmentItem]](list)
        for node, start, arguments in items:
            for category, child in self._trie.category_edges[node]:
                behind[category].append((child, start, arguments))
        return behind

    def _find_leads_on(self, node: int, following: Symbol | None) -> bool:
        """Whether something can come of a node if this symbol, or the end, is next."""
        trie = self._trie
        # A right side that ends at the node completes a category.
        if node in trie.lefts or isinstance(following, NonTerminal):
            return True
        if following is None:
            return node in self._fragments
        if node in trie.absorbing:
            return True
        labels: set[TargetSymbol] = {following, *self._wildcards(following)}
        if not labels.isdisjoint(trie.edges[node]):
            return True
        return any(
            not labels.isdisjoint(trie.beginnings[category])
            for category, _ in trie.category_edges[node]
        )

    def _find_leading_fillers(
        self, node: int, following: Symbol | None, *, is_named: bool
    ) -> list[tuple[Arguments, int]]:
        """What a non-terminal can stand for at a node if this symbol, or the end, is next."""
        fillers = self._fillers if is_named else self._anonymous
        return [
            (filler, end)
            for filler, end in fillers[node]
            if self._leads_on(end, following)
        ]


def first_labels(
    productions: Iterable[Production],
) -> dict[Category, set[TargetSymbol]]:
    """The terminals and wildcards with which the targets of each category can begin.

    >>> grammar = TargetGrammar.parse("<set> ::= all | <city> <set>\\n<city> ::= austin")
    >>> sorted(first_labels(grammar.productions)[grammar.start])
    ['all', 'austin']
    """
    first = defaultdict[Category, set[TargetSymbol]](set)
    for production in productions:
        first[production.left].add(production.right[0])
    # A category begins with whatever its own first categories begin with.
    is_stable = False
    while not is_stable:
        is_stable = True
        for labels in first.values():
            more = set[TargetSymbol]()
            for label in labels:
                if isinstance(label, Category):
                    more |= first.get(label, set()) - labels
            labels |= more
            is_stable = is_stable and not more
    return {
        category: {label for label in labels if not isinstance(label, Category)}
        for category, labels in first.items()
    }


def with_associativity(productions: Sequence[Production]) -> list[Production]:
    """The same language, in which a list can be put together from lists.

    Where `<a> ::= <b>` and `<a> ::= <a> , <b>` (or `<b> , <a>`) for all that `<a>` can begin with
    (or end with), also `<a> ::= <a> , <a>`.

    >>> grammar = TargetGrammar.parse("<list> ::= <item> | <list> , <item>\\n<item> ::= a | b")
    >>> str(with_associativity(grammar.productions)[-1])
    '<list> ::= <list> , <list>'
    """
    rights = defaultdict[Category, list[Fragment]](list)
    for production in productions:
        rights[production.left].append(production.right)
    associative = dict.fromkeys(productions)
    for left, alternatives in rights.items():
        # Lists that grow to the right are, read backwards, lists that grow to the left.
        for step in (1, -1):
            read = dict.fromkeys(right[::step] for right in alternatives)
            bases = [right for right in read if right[0] != left]
            lengths = dict.fromkeys(map(len, bases))
            # What stands between a list and an item, as far as any of the lists shows.
            separators: dict[Fragment, None] = {}
            for right in read:
                if right[0] == left:
                    for length in lengths:
                        separators[right[1 : len(right) - length]] = None
            for separator in separators:
                begin = (left, *separator)
                if all((*begin, *base) in read for base in bases):
                    associative[Production(left, (*begin, left)[::step])] = None
    return list(associative)


@dataclass(frozen=True)
class Typing:
    """The types of the derivations of a grammar; those of type i stand for the fragments
    `types[i]`.

    `signatures` has those of each rule that legal targets can need.

    >>> from nqg.grammar.grammar import Grammar
    >>> rules = Grammar.parse('''
    ... lights ### light
    ... NT_1 in the hall ### hall ( NT_1 )
    ... turn on NT_1 ### on ( NT_1 )
    ... ''')
    >>> target_grammar = TargetGrammar.parse(
    ...     "<command> ::= on ( <thing> )\\n<thing> ::= light | hall ( light )")
    >>> typing = Typing.of(rules.rules, target_grammar)
    >>> [str(signature) for rule in typing.signatures for signature in rule]
    ['<thing>', 'light', '<thing> from light', '<command> from <thing>']
    >>> len(typing.types)
    3
    """

    signatures: tuple[tuple[Signature, ...], ...]
    types: tuple[frozenset[Fragment], ...]
    arrays: TypeArrays

    @cached_property
    def reducer(self) -> ForestReducer:
        """What reduces untyped forests to what legal derivations can use."""
        return ForestReducer(self.arrays)

    def type_of(self, rule: int, children: Sequence[int]) -> int:
        """The type of a rule over children of these types, or NO_TYPE."""
        arrays = self.arrays
        result = 0
        for argument, kind in enumerate(children, start=int(arrays.first_place[rule])):
            class_ = int(arrays.classes[argument, kind])
            if kind == NO_TYPE or class_ == NO_TYPE:
                return NO_TYPE
            result = result * int(arrays.sizes[argument]) + class_
        return int(arrays.results[arrays.first_result[rule] + result])

    @classmethod
    def of(cls, rules: Sequence[Rule], target_grammar: TargetGrammar) -> Typing:
        start = (target_grammar.start,)
        signatures = useful_signatures(
            derivable_signatures(rules, target_grammar), start
        )
        # A type is a set of fragments: a mask in which each fragment has a bit.
        fragments = sorted(fragments_of(signatures), key=format_symbols)
        bits = {fragment: 1 << number for number, fragment in enumerate(fragments)}
        # Many rules have one target, and so one result.
        by_target: dict[Symbols, TypedRule] = {}
        for rule, of_rule in zip(rules, signatures):
            if rule.target not in by_target:
                by_target[rule.target] = TypedRule.of(rule, of_rule, bits)
        masks, results_of_targets = closure(list(by_target.values()))
        results_by_target = dict(zip(by_target, results_of_targets))
        typed, results = [], []
        for rule in rules:
            typed.append(by_target[rule.target])
            results.append(results_by_target[rule.target])
        arrays = type_arrays(typed, masks, results, bits.get(start, 0))

        def fragments_in(mask: int) -> frozenset[Fragment]:
            return frozenset(fragment for fragment in bits if mask & bits[fragment])

        return cls(signatures, tuple(map(fragments_in, masks)), arrays)


def derivable_signatures(
    rules: Sequence[Rule], target_grammar: TargetGrammar
) -> list[set[Signature]]:
    """For each rule the signatures whose arguments have derivations, from the bottom up."""
    finder = Signatures(target_grammar)
    derivable: set[Fragment] = set()
    signatures = [set[Signature]() for _ in rules]
    while True:
        finder._allow(derivable)
        found: dict[Symbols, set[Signature]] = {}
        for number, rule in enumerate(rules):
            if rule.arity or not derivable:
                if rule.target not in found:
                    found[rule.target] = finder.of(rule.target)
                signatures[number] = found[rule.target]
        if fragments_of(signatures) == derivable:
            return signatures
        derivable = fragments_of(signatures)


def fragments_of(signatures: Iterable[Iterable[Signature]]) -> set[Fragment]:
    """The fragments that derive some rule's target."""
    return {signature.fragment for signature in chain.from_iterable(signatures)}


def useful_signatures(
    signatures: Sequence[set[Signature]], start: Fragment
) -> tuple[tuple[Signature, ...], ...]:
    """The signatures that lead from the start symbol down, in a fixed order."""
    below = defaultdict[Fragment, set[Fragment]](set)
    for signature in chain.from_iterable(signatures):
        below[signature.fragment].update(signature.arguments)
    reached = reachable(start, below)
    useful = []
    for of_rule in signatures:
        of_rule = {signature for signature in of_rule if signature.fragment in reached}
        useful.append(tuple(sorted(of_rule, key=str)))
    return tuple(useful)


class TypedRule(NamedTuple):
    """A rule's signatures as masks of fragments.

    A signature is its fragment and, for each non-terminal, all that its child has to stand for.
    `wanted` has, for each non-terminal, all fragments that any signature needs.
    """

    signatures: list[tuple[int, list[int]]]
    wanted: list[int]

    @classmethod
    def of(
        cls, rule: Rule, signatures: Iterable[Signature], bits: dict[Fragment, int]
    ) -> TypedRule:
        indices = argument_indices(rule.target)
        masks = []
        wanted = [0] * rule.arity
        for signature in signatures:
            needed = [0] * rule.arity
            for index, fragment in zip(indices, signature.arguments):
                needed[index - 1] |= bits[fragment]
            masks.append((bits[signature.fragment], needed))
            wanted = list(map(or_, wanted, needed))
        return cls(masks, wanted)

    def classes(self, masks: Sequence[int]) -> list[list[int]]:
        """For each non-terminal what children of these types stand for of what is wanted."""
        classes = []
        for wanted in self.wanted:
            of_masks = dict.fromkeys(mask & wanted for mask in masks)
            classes.append([class_ for class_ in of_masks if class_])
        return classes

    def result(self, children: Sequence[int]) -> int:
        """The fragments that the rule stands for over children that stand for those."""
        result = 0
        for fragment, needed in self.signatures:
            for child, need in zip(children, needed):
                if child & need != need:
                    break
            else:
                result |= fragment
        return result


# The fragments of a rule, by what its children stand for of what is wanted of them.
Results = dict[tuple[int, ...], int]


def closure(rules: Sequence[TypedRule]) -> tuple[list[int], list[Results]]:
    """All types that derivations have, and the results of every rule over them.

    Types grow from those of rules without non-terminals until there are no new ones.
    """
    masks: dict[int, None] = {}
    results: list[Results] = [{} for _ in rules]
    count = -1
    while count < len(masks):
        count = len(masks)
        known_masks = list(masks)
        for rule, of_rule in zip(rules, results):
            for children in product(*rule.classes(known_masks)):
                if children not in of_rule:
                    of_rule[children] = rule.result(children)
                    masks[of_rule[children]] = None
            masks.pop(0, None)
    return list(masks), results


def type_arrays(
    rules: Sequence[TypedRule],
    masks: Sequence[int],
    results: Sequence[Results],
    start: int,
) -> TypeArrays:
    """The automaton as arrays: a table of results for each rule, over the classes of children."""
    # Types and classes are numbered from 0; the empty set comes before them, as NO_TYPE (-1).
    types = dict(zip((0, *masks), count(NO_TYPE)))
    class_rows: list[list[int]] = []
    sizes: list[int] = []
    table: list[int] = []
    first_row, first_result = [0], [0]
    for rule, of_rule in zip(rules, results):
        classes = rule.classes(masks)
        for wanted, of_argument in zip(rule.wanted, classes):
            numbers = dict(zip((0, *of_argument), count(NO_TYPE)))
            class_rows.append([numbers[mask & wanted] for mask in masks])
            sizes.append(len(of_argument))
        table.extend(types[of_rule[children]] for children in product(*classes))
        first_row.append(len(class_rows))
        first_result.append(len(table))
    int_array = partial(np.array, dtype=np.int32)
    return TypeArrays(
        classes=int_array(class_rows).reshape(len(class_rows), len(masks)),
        sizes=int_array(sizes),
        first_place=int_array(first_row),
        first_result=int_array(first_result),
        results=int_array(table),
        is_whole=np.array([bool(mask & start) for mask in masks], dtype=np.bool_),
    )
