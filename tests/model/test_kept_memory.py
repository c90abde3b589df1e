"""Memory that is kept within a block: on systems without glibc too."""

from __future__ import annotations

import ctypes
from typing import Any
from unittest.mock import MagicMock

import pytest

from nqg.memory import M_MMAP_THRESHOLD
from nqg.model.kept_memory import LARGEST_IN_HEAP, M_TRIM_THRESHOLD, MOST_FREE, kept_memory


def test_limits_are_raised_and_lowered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    libc = MagicMock()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: libc)
    with kept_memory():
        limits = dict(call.args for call in libc.mallopt.mock_calls)
        assert limits == {M_MMAP_THRESHOLD: LARGEST_IN_HEAP, M_TRIM_THRESHOLD: MOST_FREE}
        libc.malloc_trim.assert_not_called()
    assert dict(call.args for call in libc.mallopt.mock_calls)[M_TRIM_THRESHOLD] < MOST_FREE
    libc.malloc_trim.assert_called_once_with(0)


def test_a_system_without_glibc_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with kept_memory():
        pass
