"""The trie against a plain list of sequences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nqg.grammar.encoding import NOWHERE, Trie

sequences = st.lists(st.lists(st.integers(-3, 3), max_size=4), max_size=8)


@given(sequences, st.lists(st.integers(-4, 4), max_size=4))
def test_a_sequence_leads_to_a_node_exactly_when_it_is_a_prefix(stored: list[list[int]], asked: list[int]) -> None:
    is_prefix = not asked or any(sequence[: len(asked)] == asked for sequence in stored)
    assert (Trie.of(stored).node(asked) != NOWHERE) == is_prefix


@given(sequences)
def test_every_sequence_is_an_item_of_the_node_where_it_ends_and_of_no_other(stored: list[list[int]]) -> None:
    trie = Trie.of(stored)
    first, items = trie.arrays.first_item, trie.arrays.items
    found = {int(item): node for node in range(len(trie)) for item in items[first[node] : first[node + 1]]}
    assert found == {item: trie.node(sequence) for item, sequence in enumerate(stored)}
    assert len(trie) == 1 + len({tuple(each[: at + 1]) for each in stored for at in range(len(each))})
