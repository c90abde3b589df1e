"""Rows that threads share: each once, and errors come out."""

from __future__ import annotations

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nqg.model.threads import in_threads


@given(st.integers(0, 50), st.integers(1, 9), st.integers(1, 7))
def test_every_row_is_worked_on_once(rows: int, fewest: int, threads: int) -> None:
    seen: list[int] = []
    parts: list[slice] = []

    def work(part: slice) -> None:
        parts.append(part)
        seen.extend(range(rows)[part])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: threads)
        in_threads(work, rows, fewest)
    assert sorted(seen) == list(range(rows))
    assert len(parts) <= threads
    assert len(parts) == 1 or all(part.stop - part.start >= fewest for part in parts)


def test_what_is_not_worth_a_thread_stays_in_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    names: list[str] = []
    in_threads(lambda part: names.append(threading.current_thread().name), 15, fewest=8)
    assert names == [threading.current_thread().name]


def test_an_error_in_a_thread_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)

    def work(part: slice) -> None:
        if part.start:
            raise KeyError(part.start)

    with pytest.raises(KeyError, match="5"):
        in_threads(work, 10, fewest=1)
