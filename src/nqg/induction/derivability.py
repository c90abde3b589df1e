"""Which examples a grammar does not derive, of a list or of a stream that is checked part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from nqg.data.example import Example
from nqg.engines import Engine, in_parts
from nqg.grammar.charts import charts, goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import NO_ROOT

PART = 4096  # examples that a worker checks at once


def underivable(grammar: Grammar, examples: Sequence[Example]) -> list[Example]:
    """The examples whose target no derivation of the source yields."""
    full = charts(grammar, [example.source_tokens for example in examples])
    goal = goal_charts(grammar, full, [example.target_tokens for example in examples])
    return [example for example, root in zip(examples, goal.roots(), strict=True) if root == NO_ROOT]


def streamed_underivable(grammar: Grammar, examples: Iterable[Example], engine: Engine) -> Iterator[Example]:
    """Those of a stream, in its order, as the engine's workers find them."""
    for found in engine.map(partial(_check, grammar), in_parts(examples, PART)):
        yield from found


def _check(grammar: Grammar) -> Callable[[Sequence[Example]], list[Example]]:
    return partial(underivable, grammar)
