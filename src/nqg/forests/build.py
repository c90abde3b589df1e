"""The forests of a whole dataset, part by part and on several cores.

The chart kernels release the GIL, so threads do what processes would, without starting interpreters, compiling or
loading kernels again, or copying results; the parts come back in order, so the result does not depend on how many
workers there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from nqg.data.example import Example
from nqg.errors import SettingsError
from nqg.forests.forest import Forests, joined
from nqg.grammar.charts import charts, goal_charts
from nqg.grammar.grammar import Grammar

PART_SIZE = 512  # pairs in a part: milliseconds of work, so that progress moves and workers stay busy


def forest_parts(
    grammar: Grammar, examples: Sequence[Example], *, workers: int | None = None, limit: int | None = None
) -> Iterator[Forests]:
    """The forests of `examples` in consecutive parts, as they are done; `workers` defaults to the machine's cores."""
    workers = os.cpu_count() or 1 if workers is None else workers
    if workers < 1:
        raise SettingsError(f"workers is {workers}; expected 1 or more")
    _ = grammar.encoded  # made once, before threads ask for it
    starts = range(0, len(examples), PART_SIZE)
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda start: _part(grammar, examples[start : start + PART_SIZE], limit), starts)


def build_forests(
    grammar: Grammar, examples: Sequence[Example], *, workers: int | None = None, limit: int | None = None
) -> Forests:
    """The forests of `examples`, all at once."""
    parts = list(forest_parts(grammar, examples, workers=workers, limit=limit))
    return joined(parts) if parts else _part(grammar, (), limit)


def _part(grammar: Grammar, examples: Sequence[Example], limit: int | None) -> Forests:
    full = charts(grammar, [example.source_tokens for example in examples], limit=limit)
    goal = goal_charts(grammar, full, [example.target_tokens for example in examples], limit=limit)
    return Forests(full, goal)
