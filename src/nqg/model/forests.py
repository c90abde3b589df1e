"""Full and goal forests: what the parsing model sums over (section 4.1.2 of the paper).

The full forest of a source holds every derivation of it with any target; the goal forest of a pair
holds those that yield the target. With a typed grammar there is a third, that of the derivations of
legal targets. All are hypergraphs in topological order, and hold only what their root leads to.
Forests are built in less time than their loss is computed, so they are kept in memory while there
are few, and never in files.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np

from nqg.data.example import Example
from nqg.grammar.arrays import Int64Array
from nqg.grammar.chart import goal_charts, typed_charts, untyped_charts
from nqg.grammar.compilation import compile_kernels
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph, extend
from nqg.slots.instantiate import instantiate_slots

# Pairs that a thread works on at once: milliseconds of work, so that progress moves.
# It changes no result.
CHUNK_SIZE = 512
# Hyperedges that training keeps in memory, about 24 bytes each. Where there are more, the forests of
# a batch are built when it is learned from. Either way training takes the same steps.
MOST_KEPT = 1 << 22


@dataclass(frozen=True, slots=True)
class Forests:
    """The forests of a list of pairs, in its order."""

    full: Hypergraph
    goal: Hypergraph
    legal: Hypergraph | None = None  # of typed grammars

    def graphs(self) -> dict[str, Hypergraph]:
        """Those that are there, by name."""
        graphs = {"full": self.full, "goal": self.goal}
        if self.legal is not None:
            graphs["legal"] = self.legal
        return graphs

    def __len__(self) -> int:
        return self.full.sentences

    def select(self, pairs: Sequence[int]) -> Forests:
        """The forests of some pairs as one batch, in the order asked for."""
        return Forests(
            **{name: graph.select(pairs) for name, graph in self.graphs().items()}
        )

    @property
    def hyperedges(self) -> int:
        return sum(graph.hyperedges for graph in self.graphs().values())

    @property
    def nbytes(self) -> int:
        return sum(graph.nbytes for graph in self.graphs().values())

    def copy(self) -> Forests:
        return self.select(range(len(self)))

    def extend(self, more: Forests) -> None:
        """Append the forests of more pairs; these must share their arrays with nobody."""
        graphs = more.graphs()
        for name, graph in self.graphs().items():
            extend(graph, graphs[name])

    def underivable(self) -> list[int]:
        """The pairs whose target no derivation yields: training cannot use them."""
        return np.flatnonzero(np.diff(self.goal.first_node) == 0).tolist()


def forest_chunks(grammar: Grammar, examples: Sequence[Example]) -> Iterator[Forests]:
    """The forests of consecutive examples, as threads finish them."""
    compile_kernels(len(examples))
    # These are computed once, before the threads read them.
    _ = grammar.encoded, grammar.typing

    def chunk(start: int) -> Forests:
        return _forests(grammar, examples[start : start + CHUNK_SIZE])

    # No examples are one empty chunk.
    starts = iter(range(0, max(len(examples), 1), CHUNK_SIZE))
    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        # Few chunks are built ahead, so that those that wait take little memory.
        waiting = deque(pool.submit(chunk, start) for start in islice(starts, threads))
        while waiting:
            built = waiting.popleft().result()
            waiting.extend(pool.submit(chunk, start) for start in islice(starts, 1))
            yield built


def build_forests(grammar: Grammar, examples: Sequence[Example]) -> Forests:
    chunks = forest_chunks(grammar, examples)
    forests = next(chunks).copy()
    for chunk in chunks:
        forests.extend(chunk)
    return forests


@dataclass(frozen=True, slots=True)
class TrainingForests:
    """The forests of training examples: all `kept`, or built again for each batch that needs them.

    `derivable` has the numbers of the examples whose target some derivation yields.
    """

    grammar: Grammar
    examples: Sequence[Example]
    derivable: Int64Array
    kept: Forests | None

    @classmethod
    def of(
        cls,
        grammar: Grammar,
        examples: Sequence[Example],
        report: Callable[[int, int], None] = lambda done, total: None,
    ) -> TrainingForests:
        """Build the forests once; `report` is told how many chunks of how many are done."""
        total = math.ceil(len(examples) / CHUNK_SIZE)
        derivable: list[int] = []
        kept: Forests | None = None
        for number, chunk in enumerate(forest_chunks(grammar, examples)):
            rows = np.delete(np.arange(len(chunk)), chunk.underivable())
            derivable += (number * CHUNK_SIZE + rows).tolist()
            if number == 0:
                kept = chunk.copy()
            elif kept is not None:
                kept.extend(chunk)
            if kept is not None and kept.hyperedges > MOST_KEPT:
                kept = None
            report(number + 1, total)
        return cls(grammar, examples, np.array(derivable, dtype=np.int64), kept)

    def __len__(self) -> int:
        return len(self.examples)

    def built(self, numbers: Int64Array) -> Forests:
        """The forests of some examples, built again."""
        return _forests(self.grammar, [self.examples[at] for at in numbers.tolist()])


def _forests(grammar: Grammar, examples: Sequence[Example]) -> Forests:
    sources = [example.source_tokens for example in examples]
    targets = [example.target_tokens for example in examples]
    instances = instantiate_slots(grammar, sources)
    full, legal = untyped_charts(instances, sources), None
    if grammar.typing is not None:
        legal = typed_charts(instances, grammar.typing, sources, full)
    goal = goal_charts(instances, legal or full, targets)
    # Without types, any words can be free text: there are a hundred times as many derivations.
    if legal is not None and grammar.slots is not None and grammar.slots.free_text:
        full, legal = legal, None
    graphs = Forests(full, goal, legal).graphs()
    for name, graph in graphs.items():
        graphs[name] = graph._replace(rules=instances.model_rule_ids(graph.rules))
    return Forests(**graphs)
