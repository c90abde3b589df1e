"""Items made one ahead: in order, on time, and with their errors where they belong."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from nqg.training.trainer import prefetch


def test_items_come_in_order_and_none_is_lost() -> None:
    assert list(prefetch(lambda number: number * number, range(5))) == [0, 1, 4, 9, 16]
    assert list(prefetch(str, [])) == []


def test_the_next_item_is_made_elsewhere_while_the_caller_has_the_one_before() -> None:
    is_begun = threading.Event()

    def name_of_thread(number: int) -> str:
        if number == 1:
            is_begun.set()
        return threading.current_thread().name

    first = next(items := prefetch(name_of_thread, range(3)))
    assert is_begun.wait(timeout=60)
    assert {first, *items} != {threading.current_thread().name}


def test_no_more_is_asked_for_than_the_next_item() -> None:
    asked = []

    def items() -> Iterator[int]:
        for number in range(9):
            asked.append(number)
            yield number

    made = prefetch(str, items())
    assert (next(made), next(made)) == ("0", "1")
    assert asked == [0, 1, 2]


def test_an_error_comes_where_its_item_would_have() -> None:
    made = prefetch(lambda number: 1 // number, [1, 1, 0, 1])
    assert (next(made), next(made)) == (1, 1)
    with pytest.raises(ZeroDivisionError):
        next(made)
