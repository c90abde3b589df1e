"""Rows of a few sentences picked from those of many."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nqg.grammar.ragged import Ragged
from nqg.model.tensors import to_device

ROWS = st.lists(st.lists(st.integers(-9, 9), max_size=4), min_size=1, max_size=5)


@given(ROWS, st.data())
def test_a_batch_holds_the_rows_of_its_sentences_in_its_order(
    rows: list[list[int]], data: st.DataObject
) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6))
    batch, ragged = np.array(numbers, dtype=np.int64), Ragged.of(rows)
    shifts = 100 * np.arange(len(batch))
    assert ragged.lengths_of(batch).tolist() == [
        len(rows[number]) for number in numbers
    ]
    assert ragged.select(batch).values.tolist() == [
        value for number in numbers for value in rows[number]
    ]
    assert ragged.select(batch, shifts).values.tolist() == [
        value + 100 * row
        for row, number in enumerate(numbers)
        for value in rows[number]
    ]


def test_tables_keep_their_shapes_on_a_device() -> None:
    tables = [np.arange(6).reshape(2, 3), np.arange(0), np.arange(2)]
    for table, tensor in zip(tables, to_device(tables, "cpu"), strict=True):
        assert tensor.shape == table.shape
        assert tensor.tolist() == table.tolist()
