"""The search for the likeliest targets of a source, with beams, as `generate` of transformers does it.

Scores are the free model's log probabilities, also where subwords are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from nqg.grammar.arrays import FloatArray, Int64Array
from nqg.seq2seq.numpy_t5 import DecoderCache, EncodedSource, NumpyT5, log_softmax

# The rows and the subwords that may follow them, for rows that begin with the start of a target.
AllowedSubwords = Callable[[Sequence[Sequence[int]]], tuple[Int64Array, Int64Array]]


class Hypothesis(NamedTuple):
    """Subwords, with the start of a target before them, and their log probability."""

    subwords: tuple[int, ...]
    score: float


def beam_search(
    model: NumpyT5,
    source: EncodedSource,
    *,
    beams: int,
    longest: int,
    allowed: AllowedSubwords | None = None,
    suppressed: int | None = None,
) -> list[Hypothesis]:
    """Up to `beams` targets, the likeliest first; those of `longest` subwords may lack their end."""
    end = model.config.eos_token_id
    running = [Hypothesis((model.config.decoder_start_token_id,), 0.0)]
    finished: list[Hypothesis] = []
    state = DecoderCache()
    for length in range(1, longest + 1):
        # 1. The scores of all continuations.
        last = np.array([[hypothesis.subwords[-1]] for hypothesis in running])
        logits, state = model.decode(last, source, state)
        scores = log_softmax(logits[:, -1]).astype(np.float64)
        if suppressed is not None:
            scores[:, suppressed] = -np.inf
        if allowed is not None:
            index = allowed([hypothesis.subwords for hypothesis in running])
            masked = np.full_like(scores, -np.inf)
            masked[index] = scores[index]
            scores = masked
        scores += np.array([[hypothesis.score] for hypothesis in running])

        # 2. Those that end are finished if they are among the best; the others run on. There are
        # twice as many continuations as beams, because each hypothesis may end.
        rows: list[int] = []
        continued: list[Hypothesis] = []
        for rank, (row, subword) in enumerate(best_cells(scores, 2 * beams)):
            subwords = (*running[row].subwords, subword)
            hypothesis = Hypothesis(subwords, float(scores[row, subword]))
            if subword == end or length == longest:
                if rank < beams:
                    finished.append(hypothesis)
            elif len(continued) < beams:
                rows.append(row)
                continued.append(hypothesis)
        finished.sort(key=lambda hypothesis: -hypothesis.score)
        del finished[beams:]

        # 3. Scores only fall, so that the search ends where no hypothesis can become better.
        is_full = len(finished) == beams
        if not continued or (is_full and continued[0].score <= finished[-1].score):
            break
        running, state = continued, state.rows(rows)
    return finished


def best_cells(scores: FloatArray, count: int) -> list[tuple[int, int]]:
    """The row and column of the highest finite scores, the highest first; of equal ones the first.

    >>> best_cells(np.array([[0.5, -np.inf], [0.7, 0.5]]), 3)
    [(1, 0), (0, 0), (1, 1)]
    """
    flat = scores.reshape(-1)
    if count < len(flat):
        least = np.partition(flat, len(flat) - count)[len(flat) - count]
        numbers = np.flatnonzero(flat >= least)
    else:
        numbers = np.arange(len(flat))
    order = numbers[np.argsort(-flat[numbers], kind="stable")][:count]
    finite = order[flat[order] > -np.inf].tolist()
    return [divmod(number, scores.shape[1]) for number in finite]
