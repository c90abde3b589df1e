"""A grammar as integer arrays, source sides in a trie: the form in which the chart kernels read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.arrays import Int32Array, Int64Array, inlined, kernel
from nqg.grammar.grammar import FreeTextRule, Rule
from nqg.grammar.ragged import Ragged, offsets_from_lengths

TRIE_ROOT = 0
NOWHERE = -1
EMPTY_BUCKET = -1
# A key of the trie's hash table is a node in its upper 32 bits and a label in its lower ones; labels may be negative,
# so they are raised before they are packed.
_LABEL_SHIFT = 1 << 31
# Fibonacci hashing multiplies by 2^64 / golden ratio. Without its last hexadecimal digit the factor stays a positive
# 64-bit integer, which Numba needs, and it is odd, so that no two keys share a product.
_FIBONACCI = 0x9E3779B97F4A7C1


class TrieArrays(NamedTuple):
    """Sequences by prefix: edges of node s are rows first_edge[s]:first_edge[s+1], sorted by label.

    Its items, likewise, are the numbers of the sequences that end there.
    """

    first_edge: Int64Array
    labels: Int32Array
    successors: Int32Array
    first_item: Int64Array
    items: Int32Array


def trie_of(sequences: Ragged) -> TrieArrays:
    """The trie of some sequences, of which the i-th one is item i of its node.

    >>> trie = trie_of(Ragged.of([(5, 7), (5, 7), (5,)]))
    >>> trie.first_item, trie.items, successor(trie, TRIE_ROOT, 5), successor(trie, TRIE_ROOT, 7)
    (array([0, 0, 1, 3]), array([2, 0, 1], dtype=int32), 1, -1)
    """
    keys, ends = _edges(sequences)
    order = np.argsort(keys).astype(np.int32)
    nodes = len(keys) + 1
    return TrieArrays(
        first_edge=offsets_from_lengths(np.bincount(keys >> 32, minlength=nodes)),
        labels=((keys[order] & 0xFFFFFFFF) - _LABEL_SHIFT).astype(np.int32),
        successors=order + np.int32(1),
        first_item=offsets_from_lengths(np.bincount(ends, minlength=nodes)),
        items=np.argsort(ends, kind="stable").astype(np.int32),
    )


@inlined
def find_bucket(key: int | np.int64, keys: Int64Array, buckets: Int32Array) -> int:
    """The bucket that holds the number of `key` among `keys`, or the empty one where it belongs (open addressing).

    The number of buckets is a power of two, and some are empty.
    """
    last = len(buckets) - 1
    bucket = (key * _FIBONACCI >> 20) & last
    while buckets[bucket] != EMPTY_BUCKET and keys[buckets[bucket]] != key:
        bucket = (bucket + 1) & last
    return int(bucket)


@kernel
def _edges(sequences: Ragged) -> tuple[Int64Array, Int32Array]:
    """The edges in the order in which they are first needed, edge e leading to node e + 1, and each sequence's node.

    An edge is one integer: its node in the upper and its label in the lower half, so that sorting puts the edges of a
    node side by side in the order of their labels.
    """
    labels, offsets = sequences.values, sequences.offsets
    size = 8
    while size < 2 * len(labels):
        size *= 2
    buckets = np.full(size, EMPTY_BUCKET, dtype=np.int32)
    keys = np.empty(len(labels), dtype=np.int64)
    ends = np.empty(len(offsets) - 1, dtype=np.int32)
    count = 0
    for sequence in range(len(ends)):
        node = TRIE_ROOT
        for label in labels[offsets[sequence] : offsets[sequence + 1]]:
            key = (np.int64(node) << 32) + np.int64(label) + _LABEL_SHIFT
            bucket = find_bucket(key, keys, buckets)
            if buckets[bucket] == EMPTY_BUCKET:
                buckets[bucket] = count
                keys[count] = key
                count += 1
            node = buckets[bucket] + 1
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


# Labels below zero: any number will do for LEAF that is below NT and UNKNOWN and below -K, the label of the last
# non-terminal NT_K on target sides, where leaves stand too.
LEAF = -16  # a token from here downwards is a leaf, which derives itself (see `induction`)
NT = -1  # the one non-terminal's label on source sides; terminals are 0, 1, 2, …
UNKNOWN_WORD = -2  # a token that no rule mentions: it matches no label


class FreeTextIds(NamedTuple):
    """How rules of free text are numbered: each rule that reads free text is one over every span that it may read.

    >>> ids = FreeTextIds(first=10, max_length=3, rules=2)
    >>> free_text_id(ids, 4, 2, 1), free_text_span(ids, 37)
    (37, (4, 2, 1))
    """

    first: int  # the number of the first
    max_length: int  # of a text, in tokens
    rules: int  # that read free text


def free_text_id(ids: FreeTextIds, token: int, length: int, rule: int) -> int:
    """The number of what a rule reads that begins with a token, counted through all sentences."""
    return ids.first + (token * ids.max_length + length - 1) * ids.rules + rule


def free_text_span(ids: FreeTextIds, number: int) -> tuple[int, int, int]:
    """The first token, the length and the rule of a number."""
    span = (number - ids.first) // ids.rules
    return span // ids.max_length, span % ids.max_length + 1, (number - ids.first) % ids.rules


def free_text_row(ids: FreeTextIds, groups: int, token: int, length: int, group: int) -> int:
    """The row of what a group of rules reads over a span, in a table of all spans and groups."""
    return (token * ids.max_length + length - 1) * groups + group


inlined_free_text_id = inlined(free_text_id)
inlined_free_text_span = inlined(free_text_span)
inlined_free_text_row = inlined(free_text_row)


class ValueArrays(NamedTuple):
    """The values of slots in some sentences, each a rule over one span, numbered behind those of a grammar.

    First come those that were found, sentence by sentence in the order of charts, then all that free text can be. What
    values mean, their `tokens`, is there where targets are asked for; the texts of a group mean the same.
    """

    first: int  # the number of the first value
    texts: FreeTextIds
    groups: int  # of texts
    first_value: Int64Array  # (B + 1,) per sentence
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
        is_text = rules >= self.texts.first
        is_value = (rules >= self.first) & ~is_text
        found[is_value] = self.rules[rules[is_value] - self.first]
        if is_text.any():
            *_, numbers = free_text_span(self.texts, rules[is_text])  # type: ignore[arg-type]  # of an array
            found[is_text] = self.text_rules[numbers]
        return found


MOST_RULES = (1 << 31) - 1
_NONE = np.zeros(0, dtype=np.int32)
NO_VALUES = ValueArrays(
    MOST_RULES, FreeTextIds(MOST_RULES, 0, 0), 0, np.zeros(0, dtype=np.int64), *[_NONE] * 10
)


class GrammarArrays(NamedTuple):
    """Rules as kernels see them. In `targets` terminals are >= 0 and NT_k is -k."""

    trie: TrieArrays  # source sides; items are rule numbers
    over_nt: Int32Array  # (trie nodes,) the node behind the edge NT, or NOWHERE
    active: NDArray[
        np.bool_
    ]  # (R,) rules that may be applied; the others are as if they were not there
    arities: Int32Array  # (R,)
    targets: Ragged  # (R rows)
    values: ValueArrays = NO_VALUES

    @property
    def max_arity(self) -> int:
        return int(self.arities.max(initial=0))


NO_TYPE = -1


class TypeArrays(NamedTuple):
    """The types of rules as kernels see them.

    The type of a rule over typed children: each child's type has a class for each place that it may take, and the
    classes together are a place in `results`. NO_TYPE is in the place of what has none.
    """

    classes: Int32Array  # (places of all rules, types)
    sizes: Int32Array  # (places of all rules,) how many classes there are
    first_place: Int32Array  # (R + 1,)
    first_result: Int32Array  # (R + 1,)
    results: Int32Array
    is_whole: NDArray[np.bool_]  # (types,) whether targets of the type are legal


@inlined
def slot_rule(rule: int, values: ValueArrays) -> int:
    """The rule of the slot for that of a value; any other rule itself."""
    if rule < values.first:
        return rule
    if rule < values.texts.first:
        return int(values.rules[rule - values.first])
    _, _, text = inlined_free_text_span(values.texts, rule)
    return int(values.text_rules[text])


@inlined
def value_row(rule: int, values: ValueArrays) -> int:
    """The row of a value's rule in `first_token` and `sizes`."""
    if rule < values.texts.first:
        return rule - values.first
    token, length, text = inlined_free_text_span(values.texts, rule)
    row = inlined_free_text_row(
        values.texts, values.groups, token, length, values.text_groups[text]
    )
    return len(values.rules) + int(row)


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
        text_rules: Sequence[FreeTextRule] = (),
    ) -> EncodedGrammar:
        """The encoding of rules, given the terminals of slots by the numbers of those that read nothing but values.

        See `Grammar.text_rules` for those that read free text.
        """
        symbols = chain.from_iterable((*rule.source, *rule.target) for rule in rules)
        terminals = dict.fromkeys(symbol for symbol in symbols if isinstance(symbol, str))
        vocabulary = {terminal: number for number, terminal in enumerate(terminals)}
        sources: list[list[int]] = []
        targets: list[list[int]] = []
        for rule in rules:
            sources.append(
                [vocabulary[symbol] if isinstance(symbol, str) else NT for symbol in rule.source]
            )
            targets.append(
                [
                    vocabulary[symbol] if isinstance(symbol, str) else -symbol.index
                    for symbol in rule.target
                ]
            )
        arrays = grammar_arrays(sources, targets)
        slots, read = np.full(len(rules), UNKNOWN_WORD, dtype=np.int32), slot_rules or {}
        slots[list(read)] = [vocabulary[terminal] for terminal in read.values()]
        arrays.active[list(read)] = False
        texts = np.array(text_rules, dtype=np.int32).reshape(-1, 3).T.copy()
        groups = max((group for *_, group in text_rules), default=-1) + 1
        values = NO_VALUES._replace(
            groups=groups,
            text_rules=texts[0],
            text_lengths=texts[1],
            text_groups=texts[2],
            slots=slots,
        )
        return cls(vocabulary, arrays._replace(values=values))

    def encode(self, sentences: Sequence[Sequence[str]]) -> Ragged:
        """The sentences' tokens by number, UNKNOWN where no rule mentions one."""
        offsets = offsets_from_lengths([len(sentence) for sentence in sentences])
        tokens = map(self.vocabulary.get, chain.from_iterable(sentences), repeat(UNKNOWN_WORD))
        return Ragged(offsets, np.fromiter(tokens, dtype=np.int32, count=int(offsets[-1])))


def grammar_arrays(
    sources: Iterable[Sequence[int]], targets: Iterable[Sequence[int]]
) -> GrammarArrays:
    """The arrays of rules given by their labels: NT on source sides, -k for NT_k on target sides."""
    labels = Ragged.of(sources)
    trie = trie_of(labels)
    # The edges of a node are sorted, and NT is the smallest label of a source side: its edge is the first one.
    over_nt = np.full(len(trie.first_edge) - 1, NOWHERE, dtype=np.int32)
    inner = np.flatnonzero(np.diff(trie.first_edge))
    first_edges = trie.first_edge[inner]
    starts_with_nt = trie.labels[first_edges] == NT
    over_nt[inner[starts_with_nt]] = trie.successors[first_edges[starts_with_nt]]
    arities = np.diff(offsets_from_lengths(labels.values == NT)[labels.offsets]).astype(np.int32)
    return GrammarArrays(
        trie, over_nt, np.ones(len(arities), np.bool_), arities, Ragged.of(targets)
    )
