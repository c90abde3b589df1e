"""Recognising targets: CPU time per target, after compilation.

python benchmarks/target_grammar.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from nqg.paper.funql import funql_target_grammar
from nqg.types.target_grammar import TargetGrammar
from timing import cpu_seconds

NESTED = "intersection ( state , loc_1 ( intersection ( city , loc_2 ( "
LONG_FUNQL = (
    f"answer ( count ( largest ( {NESTED} {NESTED} m0 ) ) ) ) ) ) ) ) ) ) )".split()
)
REPETITIONS = 200


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table: `work` reads `tokens` tokens."""

    name: str
    tokens: int
    work: Callable[[], object]


def cases() -> list[Case]:
    funql = funql_target_grammar()
    ambiguous = TargetGrammar.parse("<s> ::= <s> <s> | a")
    nested = TargetGrammar.parse("<s> ::= a <s> a | a")
    assert funql.accepts(LONG_FUNQL)
    return [
        Case("FunQL, accepts", len(LONG_FUNQL), lambda: funql.accepts(LONG_FUNQL)),
        Case(
            "FunQL, explain (last token illegal)",
            len(LONG_FUNQL),
            lambda: funql.explain([*LONG_FUNQL[:-1], "m0"]),
        ),
        Case(
            "FunQL, token by token, with what is expected",
            len(LONG_FUNQL),
            lambda: walked(funql, LONG_FUNQL),
        ),
        Case("<s> ::= <s> <s> | a", 200, lambda: ambiguous.accepts(["a"] * 200)),
        Case("<s> ::= a <s> a | a", 201, lambda: nested.accepts(["a"] * 201)),
    ]


def walked(grammar: TargetGrammar, tokens: list[str]) -> int:
    prefix = grammar.prefix()
    total = 0
    for token in tokens:
        assert prefix is not None
        total += len(prefix.expected.tokens)
        prefix = prefix.then(token)
    return total


def repeated(work: Callable[[], object]) -> None:
    for _ in range(REPETITIONS):
        work()


def main() -> None:
    start = time.perf_counter()
    table = cases()
    print(
        f"first call, kernels compiled or loaded from disk: {time.perf_counter() - start:.2f} s\n"
    )
    print(f"{'case':45} {'tokens':>6} {'ms per target':>14}")
    for case in table:
        seconds = cpu_seconds(lambda case=case: repeated(case.work)) / REPETITIONS  # type: ignore[misc]
        print(f"{case.name:45} {case.tokens:6} {1000 * seconds:14.3f}")


if __name__ == "__main__":
    main()
