"""A grammar as integer arrays, source sides in a trie: what the chart kernels read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.arrays import Int32Array, Int64Array
from nqg.grammar.compilation import inlined, kernel
from nqg.grammar.grammar import FreeTextRule, Rule
from nqg.grammar.ragged import Ragged, offsets_from_lengths

TRIE_ROOT = 0
NOWHERE = -1
EMPTY_BUCKET = -1
# A key of the trie's hash table is a node in its upper 32 bits and a label in its lower ones;
# labels may be negative, so they are raised before they are packed.
_LABEL_SHIFT = 1 << 31
# Fibonacci hashing multiplies by 2^64 / golden ratio. Without its last hexadecimal digit the factor
# stays a positive 64-bit integer, which Numba needs, and it is odd, so that no two keys share a
# product.
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
    first_edge = offsets_from_lengths(np.bincount(keys >> 32, minlength=nodes))
    labels = ((keys[order] & 0xFFFFFFFF) - _LABEL_SHIFT).astype(np.int32)
    first_item = offsets_from_lengths(np.bincount(ends, minlength=nodes))
    items = np.argsort(ends, kind="stable").astype(np.int32)
    return TrieArrays(first_edge, labels, order + np.int32(1), first_item, items)


@kernel
def _edges(sequences: Ragged) -> tuple[Int64Array, Int32Array]:
    """The edges in the order of their first use, and each sequence's node.

    Edge e leads to node e + 1. An edge is one integer: its node in the upper and its label in the
    lower half, so that sorting puts the edges of a node side by side in the order of their labels.
    """
    labels, offsets = sequences.values, sequences.offsets
    # A power of two, so that some buckets stay empty.
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
            key = (int(node) << 32) + int(label) + _LABEL_SHIFT
            # Open addressing: the bucket of the key's number, or the empty one where it belongs.
            bucket = (key * _FIBONACCI >> 20) & (size - 1)
            while buckets[bucket] != EMPTY_BUCKET and keys[buckets[bucket]] != key:
                bucket = (bucket + 1) & (size - 1)
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
    # Binary search: the edges of a node are sorted by label.
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


# The one non-terminal's label on source sides; terminals are 0, 1, 2, …
NT = -1
# A token that no rule mentions: it matches no label.
UNKNOWN_WORD = -2
# A token from here downwards is a leaf, which derives itself (see `induction`). Any number will do
# that is below NT and UNKNOWN_WORD and below -K, the label of the last non-terminal NT_K on target
# sides, where leaves stand too.
LEAF = -16


class FreeTextIds(NamedTuple):
    """How rules of free text are numbered: a rule for each that reads free text and each span.

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
    return (
        span // ids.max_length,
        span % ids.max_length + 1,
        (number - ids.first) % ids.rules,
    )


def free_text_row(
    ids: FreeTextIds, groups: int, token: int, length: int, group: int
) -> int:
    """The row of what a group of rules reads over a span, in a table of all spans and groups."""
    return (token * ids.max_length + length - 1) * groups + group


inlined_free_text_id = inlined(free_text_id)
inlined_free_text_span = inlined(free_text_span)
inlined_free_text_row = inlined(free_text_row)


class ValueArrays(NamedTuple):
    """The values of slots in some sentences: rules over one span, numbered after the grammar's.

    First come those that were found, sentence by sentence in the order of charts, then all that
    free text can be. What values mean, their `tokens`, is there where targets are asked for; the
    texts of a group mean the same.
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


MOST_RULES = (1 << 31) - 1
_NONE = np.zeros(0, dtype=np.int32)
NO_VALUES = ValueArrays(
    MOST_RULES,
    FreeTextIds(MOST_RULES, 0, 0),
    0,
    np.zeros(0, dtype=np.int64),
    *[_NONE] * 10,
)


class GrammarArrays(NamedTuple):
    """Rules as kernels see them. In `targets` terminals are >= 0 and NT_k is -k."""

    trie: TrieArrays  # source sides; items are rule numbers
    over_nt: Int32Array  # (trie nodes,) the node behind the edge NT, or NOWHERE
    active: NDArray[np.bool_]  # (R,) rules that may be applied; the others do not count
    arities: Int32Array  # (R,)
    targets: Ragged  # (R rows)
    values: ValueArrays = NO_VALUES

    @property
    def max_arity(self) -> int:
        return int(self.arities.max(initial=0))


NO_TYPE = -1
# Sets of types as masks: a type has a bit, which it may share with others.
TYPE_BITS = 62
ANY_TYPE = -1


class TypeArrays(NamedTuple):
    """The types of rules as kernels see them.

    Each child's type has a class for each argument that it may fill, and the classes together are a
    row of `results`: the type of the rule over its children, or NO_TYPE.
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
    group = values.text_groups[text]
    row = inlined_free_text_row(values.texts, values.groups, token, length, group)
    return len(values.rules) + int(row)


def slot_rules(rules: Int32Array, values: ValueArrays) -> Int32Array:
    """`slot_rule` of each."""
    slots = rules.copy()
    (mentions,) = ((rules >= values.first) & (rules < values.texts.first)).nonzero()
    slots[mentions] = values.rules[rules[mentions] - values.first]
    (texts,) = (rules >= values.texts.first).nonzero()
    if len(texts):
        numbers = rules[texts] - values.texts.first
        slots[texts] = values.text_rules[numbers % values.texts.rules]
    return slots


def value_rows(rules: Int32Array, values: ValueArrays) -> Int64Array:
    """`value_row` of each."""
    rows = rules.astype(np.int64) - values.first
    (texts,) = (rules >= values.texts.first).nonzero()
    if len(texts):
        spans, text = np.divmod(
            rows[texts] + values.first - values.texts.first, values.texts.rules
        )
        rows[texts] = (
            len(values.rules) + spans * values.groups + values.text_groups[text]
        )
    return rows


@dataclass(frozen=True, slots=True)
class EncodedGrammar:
    """The arrays of a grammar and the numbers of its terminals."""

    vocabulary: Mapping[str, int]
    arrays: GrammarArrays

    @classmethod
    def of(
        cls,
        rules: Sequence[Rule],
        slot_rules: Mapping[int, str],
        text_rules: Sequence[FreeTextRule],
    ) -> EncodedGrammar:
        """The encoding of rules; see `Grammar.slot_rules` and `Grammar.text_rules`."""
        vocabulary: dict[str, int] = {}
        sources, targets = list[list[int]](), list[list[int]]()
        for rule in rules:
            labels = []
            for symbol in rule.source + rule.target:
                if isinstance(symbol, str):
                    labels.append(vocabulary.setdefault(symbol, len(vocabulary)))
                else:
                    labels.append(-symbol.index)
            # On the source side all non-terminals have one label.
            middle = len(rule.source)
            sources.append([max(label, NT) for label in labels[:middle]])
            targets.append(labels[middle:])
        arrays = grammar_arrays(sources, targets)
        # The rules of slots apply to nothing themselves; their values do.
        slots = np.full(len(rules), UNKNOWN_WORD, dtype=np.int32)
        for number, terminal in slot_rules.items():
            slots[number] = vocabulary[terminal]
            arrays.active[number] = False
        text_rule, text_lengths, groups = (
            np.array(text_rules, np.int32).reshape(-1, 3).T.copy()
        )
        values = NO_VALUES._replace(
            groups=int(groups.max(initial=-1)) + 1,
            text_rules=text_rule,
            text_lengths=text_lengths,
            text_groups=groups,
            slots=slots,
        )
        return cls(vocabulary, arrays._replace(values=values))

    def encode(self, sentences: Sequence[Sequence[str]]) -> Ragged:
        """The sentences' tokens by number, UNKNOWN_WORD where no rule mentions one."""
        offsets = offsets_from_lengths([len(sentence) for sentence in sentences])
        tokens = map(
            self.vocabulary.get, chain.from_iterable(sentences), repeat(UNKNOWN_WORD)
        )
        return Ragged(
            offsets, np.fromiter(tokens, dtype=np.int32, count=int(offsets[-1]))
        )


def grammar_arrays(
    sources: Iterable[Sequence[int]], targets: Iterable[Sequence[int]]
) -> GrammarArrays:
    """The arrays of rules with these labels: NT on source sides, -k for NT_k on target sides."""
    labels = Ragged.of(sources)
    trie = trie_of(labels)
    # Where the edge NT of each trie node leads.
    nodes = len(trie.first_edge) - 1
    over_nt = np.full(nodes, NOWHERE, dtype=np.int32)
    is_nt = trie.labels == NT
    origins = np.repeat(np.arange(nodes), np.diff(trie.first_edge))
    over_nt[origins[is_nt]] = trie.successors[is_nt]
    arities = np.diff(offsets_from_lengths(labels.values == NT)[labels.offsets]).astype(
        np.int32
    )
    active = np.ones(len(arities), np.bool_)
    return GrammarArrays(trie, over_nt, active, arities, Ragged.of(targets))
