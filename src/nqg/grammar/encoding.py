"""A grammar as integer arrays, source sides in a trie: the form in which the chart kernels read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.arrays import Int32Array, Int64Array, inlined, kernel
from nqg.grammar.grammar import Rule

ROOT = 0
NOWHERE = -1
_LABEL_SHIFT = 1 << 31  # labels may be negative
_SCRAMBLE = 0x9E3779B97F4A7C1  # odd: multiplying by it spreads keys over the hash table


class TrieArrays(NamedTuple):
    """Sequences by prefix: edges of node s are rows first_edge[s]:first_edge[s+1], sorted by label.

    Its items, likewise, are the numbers of the sequences that end there.
    """

    first_edge: Int32Array
    labels: Int32Array
    successors: Int32Array
    first_item: Int32Array
    items: Int32Array


def trie_of(firsts: Int32Array, labels: Int32Array) -> TrieArrays:
    """The trie of sequences that lie end to end: the i-th one, labels[firsts[i]:firsts[i + 1]], is item i of its node.

    >>> trie = trie_of(np.array([0, 2, 4, 5]), np.array([5, 7, 5, 7, 5]))
    >>> trie.first_item, trie.items, successor(trie, ROOT, 5), successor(trie, ROOT, 7)
    (array([0, 0, 1, 3], dtype=int32), array([2, 0, 1], dtype=int32), 1, -1)
    """
    keys, ends = _edges(firsts, labels)
    order = np.argsort(keys).astype(np.int32)

    def starts(owners: Int32Array | Int64Array) -> Int32Array:
        sizes = np.bincount(owners, minlength=len(keys) + 1)
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)

    return TrieArrays(
        first_edge=starts(keys >> 32),
        labels=((keys[order] & 0xFFFFFFFF) - _LABEL_SHIFT).astype(np.int32),
        successors=order + np.int32(1),
        first_item=starts(ends),
        items=np.argsort(ends, kind="stable").astype(np.int32),
    )


def firsts_of(sequences: Sequence[Sequence[object]]) -> Int32Array:
    """Where each sequence begins when they lie end to end, and where the last one ends.

    >>> firsts_of(["ab", "", "c"])
    array([0, 2, 2, 3], dtype=int32)
    """
    return np.fromiter(accumulate(map(len, sequences), initial=0), dtype=np.int32, count=len(sequences) + 1)


def flat(sequences: Iterable[Iterable[int]]) -> Int32Array:
    return np.fromiter(chain.from_iterable(sequences), dtype=np.int32)


@kernel
def _edges(firsts: Int32Array, labels: Int32Array) -> tuple[Int64Array, Int32Array]:
    """The edges in the order in which they are first needed, edge e leading to node e + 1, and each sequence's node.

    An edge is one integer: its node in the upper and its label in the lower half, so that sorting puts the edges of a
    node side by side in the order of their labels.
    """
    size = 8
    while size < 2 * len(labels):
        size *= 2
    table = np.full(size, NOWHERE, dtype=np.int32)  # a hash table of edges, probed one by one
    keys = np.empty(len(labels), dtype=np.int64)
    ends = np.empty(len(firsts) - 1, dtype=np.int32)
    count = 0
    for sequence in range(len(ends)):
        node = ROOT
        for label in labels[firsts[sequence] : firsts[sequence + 1]]:
            key = (np.int64(node) << 32) + np.int64(label) + _LABEL_SHIFT
            slot = (key * _SCRAMBLE >> 20) & (size - 1)
            while table[slot] != NOWHERE and keys[table[slot]] != key:
                slot = (slot + 1) & (size - 1)
            if table[slot] == NOWHERE:
                table[slot] = count
                keys[count] = key
                count += 1
            node = table[slot] + 1
        ends[sequence] = node
    return keys[:count].copy(), ends


@inlined
def successor(trie: TrieArrays, node: int, label: int) -> int:
    """Where the edge `label` leads from `node`, or NOWHERE."""
    low, high = trie.first_edge[node], trie.first_edge[node + 1]
    while low < high:
        middle = (low + high) // 2
        if trie.labels[middle] < label:
            low = middle + 1
        else:
            high = middle
    if low < trie.first_edge[node + 1] and trie.labels[low] == label:
        return int(trie.successors[low])
    return NOWHERE


LEAF = -16  # tokens from here downwards are leaves: they derive themselves (see `induction`)
NT = -1  # the one non-terminal's label on source sides; terminals are 0, 1, 2, …
UNKNOWN = -2  # a token that no rule mentions: it matches no label


class ValueArrays(NamedTuple):
    """The values of slots in some sentences, each a rule over one span, numbered behind those of a grammar.

    First come those that were found, sentence by sentence in the order of charts, then all that free text can be: the
    text of rule `text_rules[t]` over n tokens from token p of all sentences on is number (p * longest + n - 1) * T + t.
    What values mean, their `tokens`, is there where targets are asked for; the texts of a group mean the same.
    """

    first: int  # the number of the first value
    first_text: int
    longest: int  # text, in tokens
    groups: int  # of texts
    first_value: Int32Array  # (B + 1,) per sentence
    starts: Int32Array  # (V,)
    ends: Int32Array  # (V,)
    rules: Int32Array  # (V,) of the slots
    text_rules: Int32Array  # (T,)
    text_lengths: Int32Array  # (T,) in tokens, at most
    text_groups: Int32Array  # (T,)
    first_token: Int32Array  # of every value and, span by span, every group of texts
    sizes: Int32Array  # likewise, in tokens
    tokens: Int32Array
    slots: Int32Array  # (R,) the terminal of the slot that a rule reads

    def slot_rules(self, rules: Int32Array) -> Int32Array:
        """For rules that may be values the slots' rules in their place."""
        found = rules.copy()
        is_value, is_text = (rules >= self.first) & (rules < self.first_text), rules >= self.first_text
        found[is_value] = self.rules[rules[is_value] - self.first]
        found[is_text] = self.text_rules[(rules[is_text] - self.first_text) % max(len(self.text_rules), 1)]
        return found


MOST_RULES = (1 << 31) - 1
NO_VALUES = ValueArrays(MOST_RULES, MOST_RULES, 0, 0, *[np.zeros(0, dtype=np.int32)] * 11)


class GrammarArrays(NamedTuple):
    """Rules as kernels see them. In `targets` terminals are >= 0 and NT_k is -k."""

    trie: TrieArrays  # source sides; items are rule numbers
    over_nt: Int32Array  # (trie nodes,) the node behind the edge NT, or NOWHERE
    active: NDArray[np.bool_]  # (R,) rules that may be applied; the others are as if they were not there
    arities: Int32Array  # (R,)
    first_target: Int32Array  # (R + 1,) target of rule r is targets[first_target[r]:first_target[r + 1]]
    targets: Int32Array
    values: ValueArrays = NO_VALUES

    @property
    def max_arity(self) -> int:
        return int(self.arities.max(initial=0))


@inlined
def slot_rule(rule: int, values: ValueArrays) -> int:
    """The rule of the slot for that of a value; any other rule itself."""
    if rule < values.first:
        return rule
    if rule < values.first_text:
        return int(values.rules[rule - values.first])
    return int(values.text_rules[(rule - values.first_text) % len(values.text_rules)])


@inlined
def meaning_of(rule: int, values: ValueArrays) -> int:
    """The place of what the rule of a value means in `first_token` and `sizes`."""
    if rule < values.first_text:
        return rule - values.first
    texts = len(values.text_rules)
    span, text = (rule - values.first_text) // texts, (rule - values.first_text) % texts
    return len(values.rules) + span * values.groups + int(values.text_groups[text])


@dataclass(frozen=True, slots=True)
class EncodedGrammar:
    """The arrays of a grammar and the numbers of its terminals."""

    vocabulary: Mapping[str, int]
    arrays: GrammarArrays

    @classmethod
    def of(
        cls,
        rules: Sequence[Rule],
        slot_rules: Mapping[int, str] | None = None,
        text_rules: Sequence[tuple[int, int, int]] = (),
    ) -> EncodedGrammar:
        """The encoding of rules, given the terminals of slots by the numbers of those that read nothing but values.

        See `Grammar.text_rules` for those that read free text.
        """
        symbols = chain.from_iterable((*rule.source, *rule.target) for rule in rules)
        terminals = dict.fromkeys(symbol for symbol in symbols if isinstance(symbol, str))
        vocabulary = {terminal: number for number, terminal in enumerate(terminals)}
        sources = [[vocabulary[each] if isinstance(each, str) else NT for each in rule.source] for rule in rules]
        targets = [
            [vocabulary[each] if isinstance(each, str) else -each.index for each in rule.target] for rule in rules
        ]
        arrays = grammar_arrays(sources, targets)
        slots, read = np.full(len(rules), UNKNOWN, dtype=np.int32), slot_rules or {}
        slots[list(read)] = [vocabulary[terminal] for terminal in read.values()]
        arrays.active[list(read)] = False
        texts = np.array(text_rules, dtype=np.int32).reshape(-1, 3).T.copy()
        groups = max((group for *_, group in text_rules), default=-1) + 1
        values = NO_VALUES._replace(
            groups=groups, text_rules=texts[0], text_lengths=texts[1], text_groups=texts[2], slots=slots
        )
        return cls(vocabulary, arrays._replace(values=values))

    def collate(self, sentences: Sequence[Sequence[str]]) -> tuple[Int32Array, Int32Array]:
        """Where each sentence begins when all lie end to end, and their tokens' numbers, UNKNOWN where unknown."""
        firsts = firsts_of(sentences)
        tokens = map(self.vocabulary.get, chain.from_iterable(sentences), repeat(UNKNOWN))
        return firsts, np.fromiter(tokens, dtype=np.int32, count=firsts[-1])


def grammar_arrays(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> GrammarArrays:
    """The arrays of rules given by their labels: NT on source sides, -k for NT_k on target sides."""
    return encoded_arrays(firsts_of(sources), flat(sources), firsts_of(targets), flat(targets))


def encoded_arrays(
    firsts: Int32Array, labels: Int32Array, first_target: Int32Array, targets: Int32Array
) -> GrammarArrays:
    """The arrays of rules whose sides lie end to end."""
    trie = trie_of(firsts, labels)
    over_nt = np.full(len(trie.first_edge) - 1, NOWHERE, dtype=np.int32)
    inner = np.flatnonzero(np.diff(trie.first_edge))
    first_edges = trie.first_edge[inner]
    starts_with_nt = trie.labels[first_edges] == NT  # edges are sorted and NT is the smallest label
    over_nt[inner[starts_with_nt]] = trie.successors[first_edges[starts_with_nt]]
    arities = np.diff(np.concatenate([[0], np.cumsum(labels == NT)])[firsts]).astype(np.int32)
    return GrammarArrays(trie, over_nt, np.ones(len(arities), np.bool_), arities, first_target, targets)
