"""Full and goal forests of real training sets: CPU seconds on one core, beside the published implementation's.

    python benchmarks/forests.py

Needs ../shared (grammars that the published implementation induced, and the data). Its own figures, from the same kind
of machine: 15.5 s for SCAN jump and 9.7 s for GeoQuery standard, about 4 s of start-up in each.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nqg import Example
from nqg.grammar.chart import charts
from nqg.grammar.grammar import Grammar
from nqg.model.forests import build_forests
from nqg.paper import load_dataset
from nqg.paper.funql import funql_target_grammar
from nqg.types.target_grammar import TargetGrammar
from timing import cpu_seconds

SHARED = Path(__file__).resolve().parents[2] / "shared"
PUBLISHED = {"scan jump": 15.5, "geoquery standard": 9.7}
START_UP = 4.0
FIRST_CHART = "from nqg.model.forests import build_forests as b; from nqg import Example; \
from nqg.grammar.grammar import Grammar; b(Grammar.parse('a ### x'), [Example('a', 'x')])"


@dataclass(frozen=True, slots=True)
class Case:
    """A grammar and the training pairs that it was induced from."""

    name: str
    grammar: Grammar
    examples: list[Example]


def cases() -> Iterator[Case]:
    for dataset, splits in (
        ("scan", ("jump", "length")),
        ("geoquery", ("standard", "template", "length", "tmcd")),
    ):
        loaded = load_dataset(dataset, mirror=SHARED / "data")
        for split in splits:
            grammar = Grammar.read(
                SHARED / "reference" / f"{dataset}-{split}.rules.txt"
            )
            yield Case(f"{dataset} {split}", grammar, loaded.split(split)[0])


def row(case: Case) -> str:
    gc.freeze()  # the examples are no garbage: without this the collector walks over them in the measured time
    seconds = cpu_seconds(lambda: build_forests(case.grammar, case.examples), runs=5)
    forests = build_forests(case.grammar, case.examples)
    assert not forests.underivable()
    published = PUBLISHED.get(case.name)
    ratio = (
        f"{published / seconds:6.0f} x ({(published - START_UP) / seconds:.0f} x)"
        if published
        else ""
    )
    megabytes = sum(graph.nbytes for graph in forests.graphs().values()) / 1e6
    size = f"{forests.full.hyperedges:9,} {forests.goal.hyperedges:9,} {megabytes:6.1f}"
    return f"{case.name:20} {len(case.examples):6} {len(case.grammar):6} {seconds:7.3f} {size} {ratio}"


def first_call_seconds() -> tuple[float, float]:
    """Wall-clock seconds of a new process that builds one forest: kernels compiled, then taken from the disk."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        return _process_seconds(environment), _process_seconds(environment)


def _process_seconds(environment: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", FIRST_CHART], check=True, env=environment)
    return time.perf_counter() - start


def typed_row(case: Case) -> str:
    """Charts of all sources under the written grammar of FunQL, beside the untyped ones."""
    typed, sources = (
        case.grammar.typed_by(funql_target_grammar()),
        [each.source_tokens for each in case.examples],
    )
    start = time.process_time()
    kinds = len(typed.typing.types) if typed.typing else 0
    made = time.process_time() - start
    columns = [f"{case.name:20} {kinds:6} {made:7.3f}"]
    for grammar in (case.grammar, typed):
        seconds = cpu_seconds(partial(charts, grammar, sources), runs=5)
        graph = charts(grammar, sources)
        columns.append(
            f"{1000 * seconds:9.1f} {graph.hyperedges:9,} {graph.nbytes / 1e6:6.2f}"
        )
    return " ".join(columns)


def ambiguous_sentence(target_grammar: TargetGrammar | None = None) -> str:
    grammar = Grammar.parse("a ### x\nNT_1 NT_2 ### NT_1 NT_2").typed_by(target_grammar)
    seconds = cpu_seconds(lambda: charts(grammar, [("a",) * 200]))
    graph = charts(grammar, [("a",) * 200])
    size = f"{graph.hyperedges:,} applications, {graph.nbytes / 1e6:.0f} MB"
    return f"200 tokens under NT_1 NT_2: {size}, {seconds:.2f} s"


def main() -> None:
    sizes = f"{'full':>9} {'goal':>9} {'MB':>6}"
    print(
        f"{'training set':20} {'pairs':>6} {'rules':>6} {'CPU s':>7} {sizes}   published / ours"
    )
    for case in cases():
        print(row(case))
    print(
        "(full, goal: applications in the forests; in brackets the ratio with the published start-up left out)\n"
    )
    header = f"{'charts, ms':>9} {'appl.':>9} {'MB':>6}"
    print(
        f"{'training set':20} {'types':>6} {'made, s':>7} {header}, and the same with types"
    )
    for case in cases():
        if case.name.startswith("geoquery"):
            print(typed_row(case))
    print()
    print(ambiguous_sentence())
    print(
        "with types,",
        ambiguous_sentence(TargetGrammar.parse("<list> ::= x | <list> x")),
    )
    cold, warm = first_call_seconds()
    print(
        f"first forest of a new process: {cold:.1f} s with kernels to compile, {warm:.1f} s with kernels on disk"
    )


if __name__ == "__main__":
    main()
