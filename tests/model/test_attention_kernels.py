"""Attention within sentences against its definition, query by query, and its gradient against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nqg.grammar.arrays import Int64Array
from nqg.grammar.hypergraph import starts_of
from nqg.model.attention_kernels import attend
from nqg.model.layers import Looks
from nqg.model.vectorised import Reals
from oracles import attention_by_definition

Sizes = list[tuple[int, int]]  # of each sentence: queries and keys
DROPOUT = torch.nn.Dropout(0.5)
SIZES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=4)


def firsts(sizes: Sizes) -> list[Int64Array]:
    return [starts_of(np.array(column)) for column in zip(*sizes, strict=True)]


def factors(sizes: Sizes, heads: int, rng: np.random.Generator) -> Reals:
    """Dropout that takes every other weight or so."""
    return 2.0 * rng.integers(0, 2, heads * sum(queries * keys for queries, keys in sizes))


@given(SIZES, st.integers(1, 3), st.integers(1, 5), st.integers(0, 99))
def test_every_query_sees_what_the_definition_says(sizes: Sizes, heads: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    asked, everything = firsts(sizes)
    queries, keys, values = (rng.normal(size=(int(rows[-1]), heads, width)) for rows in (asked, everything, everything))
    kept, out = factors(sizes, heads, rng), np.empty_like(queries)
    attend(asked, everything, queries, np.stack([keys, values], axis=1), kept, np.empty_like(kept), out)
    alone = [
        tuple(
            table[rows[sentence] : rows[sentence + 1]].swapaxes(0, 1)
            for table, rows in ((queries, asked), (keys, everything), (values, everything))
        )
        for sentence in range(len(sizes))
    ]
    found = [
        row.tolist()
        for sentence in range(len(sizes))
        for head in range(heads)
        for row in out[asked[sentence] : asked[sentence + 1], head]
    ]
    expected = attention_by_definition(alone, kept.tolist())  # type: ignore[arg-type]
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, abs=1e-12)


class Seen(torch.autograd.Function):
    """What queries see, for autograd."""

    @staticmethod
    def forward(ctx: Any, looks: Looks, queries: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        out, weights = looks.seen(queries, pairs)
        ctx.save_for_backward(queries, pairs, weights)
        ctx.looks = looks
        return out

    @staticmethod
    def backward(ctx: Any, *flow: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return None, *ctx.looks.backwards(flow[0].contiguous(), *ctx.saved_tensors)


@pytest.mark.parametrize("sizes", [[(2, 2), (1, 3)], [(3, 4), (0, 2), (1, 1)]])
def test_the_gradient_passes_a_numerical_check(sizes: Sizes) -> None:
    rng = np.random.default_rng(0)
    asked, everything = firsts(sizes)
    looks = Looks.of(asked, everything, 2, DROPOUT, torch.float64)
    tables = tuple(
        torch.from_numpy(rng.normal(size=shape)).requires_grad_()
        for shape in ((int(asked[-1]), 2, 3), (int(everything[-1]), 2, 2, 3))
    )
    assert torch.autograd.gradcheck(lambda *each: Seen.apply(looks, *each), tables)  # type: ignore[no-untyped-call]


def test_threads_share_the_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    asked, everything = firsts([(each % 3, each % 5 + 1) for each in range(200)])
    looks = Looks.of(asked, everything, 2, DROPOUT, torch.float64)
    queries, flow = (torch.from_numpy(rng.normal(size=(int(asked[-1]), 2, 3))) for _ in range(2))
    pairs = torch.from_numpy(rng.normal(size=(int(everything[-1]), 2, 2, 3)))
    found = []
    for threads in (1, 4):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        out, weights = looks.seen(queries, pairs)
        found.append([out, weights, *looks.backwards(flow, queries, pairs, weights)])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_large_products_do_not_overflow() -> None:
    one = np.full((3, 1, 2), 1e3, dtype=np.float32)
    first, weights, out = np.array([0, 3]), np.empty(9, dtype=np.float32), np.empty_like(one)
    attend(first, first, one, np.stack([one, one], axis=1), np.ones_like(weights), weights, out)
    assert weights == pytest.approx(np.full(9, 1 / 3))
    assert out == pytest.approx(one)
