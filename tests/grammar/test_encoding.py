"""The trie against a plain list of sequences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nqg.grammar.encoding import (
    NOWHERE,
    TRIE_ROOT,
    FreeTextIds,
    TrieArrays,
    free_text_id,
    free_text_span,
    inlined_free_text_id,
    inlined_free_text_span,
    successor,
    trie_of,
)
from nqg.grammar.ragged import Ragged

sequences = st.lists(st.lists(st.integers(-3, 3), max_size=4), max_size=8)


def trie_from(stored: list[list[int]]) -> TrieArrays:
    return trie_of(Ragged.of(stored))


def node_of(trie: TrieArrays, sequence: list[int]) -> int:
    """Where a sequence leads from the root, or NOWHERE."""
    node = TRIE_ROOT
    for label in sequence:
        node = successor(trie, node, label) if node != NOWHERE else NOWHERE
    return node


@given(sequences, st.lists(st.integers(-4, 4), max_size=4))
def test_a_sequence_leads_to_a_node_exactly_when_it_is_a_prefix(
    stored: list[list[int]], asked: list[int]
) -> None:
    is_prefix = not asked or any(sequence[: len(asked)] == asked for sequence in stored)
    assert (node_of(trie_from(stored), asked) != NOWHERE) == is_prefix


@given(sequences)
def test_every_sequence_is_an_item_of_the_node_where_it_ends_and_of_no_other(
    stored: list[list[int]],
) -> None:
    trie = trie_from(stored)
    first, items, nodes = trie.first_item, trie.items, len(trie.first_item) - 1
    found = {
        int(item): node
        for node in range(nodes)
        for item in items[first[node] : first[node + 1]]
    }
    assert found == {
        item: node_of(trie, sequence) for item, sequence in enumerate(stored)
    }
    assert nodes == 1 + len(
        {tuple(each[: at + 1]) for each in stored for at in range(len(each))}
    )


@given(st.integers(0, 100), st.integers(1, 9), st.integers(1, 5), st.data())
def test_a_number_of_free_text_tells_where_it_stands_and_which_rule_reads_it(
    first: int, max_length: int, rules: int, data: st.DataObject
) -> None:
    ids = FreeTextIds(first, max_length, rules)
    span = (
        data.draw(st.integers(0, 50)),
        data.draw(st.integers(1, max_length)),
        data.draw(st.integers(0, rules - 1)),
    )
    number = free_text_id(ids, *span)
    assert number >= first
    assert free_text_span(ids, number) == span
    assert inlined_free_text_id(ids, *span) == number
    assert tuple(inlined_free_text_span(ids, number)) == span
    last = free_text_id(ids, span[0], max_length, rules - 1)
    assert free_text_id(ids, span[0] + 1, 1, 0) == last + 1
