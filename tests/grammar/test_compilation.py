"""Kernels give the same bytes as plain Python and as machine code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import PROJECT
from nqg.grammar import compilation
from nqg.grammar.arrays import Int32Array
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.compilation import (
    compile_kernels,
    inlined,
    kernel,
    kernels_in_one_form,
)
from nqg.grammar.encoding import trie_of
from nqg.grammar.grammar import Grammar
from nqg.grammar.ragged import Ragged
from nqg.grammar.semirings import (
    log_derivation_counts,
    log_inside,
    marginals,
    max_inside,
)
from nqg.inference.hybrid import load_with_grammar
from nqg.types.target_grammar import TargetGrammar
from oracles import assert_same_arrays
from strategies import WORDS, perhaps_typed, sentences, target_grammars

Tokens = tuple[str, ...]
MODELS = PROJECT / "tests" / "models"


def in_both_forms(compute: Callable[[], Sequence[Any]]) -> None:
    """Compute twice, with plain and with compiled kernels, and compare every array."""
    with kernels_in_one_form(compiled=False):
        plain = compute()
    with kernels_in_one_form(compiled=True):
        compiled = compute()
    assert_same_arrays(plain, compiled)


@given(
    perhaps_typed(max_arity=3),
    st.lists(sentences, min_size=1, max_size=4),
    st.booleans(),
    st.integers(0, 9),
)
def test_charts_and_passes_over_them(
    grammar: Grammar, sources: list[Tokens], prune: bool, seed: int
) -> None:
    def compute() -> list[Any]:
        full = charts(grammar, sources, prune=prune)
        scores = np.random.default_rng(seed).normal(size=full.hyperedges)
        best, first = max_inside(full, scores)
        return [
            *full,
            log_inside(full, scores),
            best,
            first,
            marginals(full, scores),
            log_derivation_counts(full),
        ]

    in_both_forms(compute)


@given(perhaps_typed(max_arity=3), st.lists(sentences, min_size=1, max_size=3))
def test_goal_charts(grammar: Grammar, sources: list[Tokens]) -> None:
    def compute() -> list[Any]:
        targets = [("A", "B")[: len(source)] for source in sources]
        return [*goal_charts(grammar, charts(grammar, sources), targets)]

    in_both_forms(compute)


@given(st.lists(st.lists(st.integers(-5, 5), max_size=4), max_size=6))
def test_tries(sequences: list[list[int]]) -> None:
    in_both_forms(lambda: [*trie_of(Ragged.of(sequences))])


@given(target_grammars(), st.lists(st.sampled_from(WORDS), max_size=4))
def test_legal_prefixes(grammar: TargetGrammar, tokens: list[str]) -> None:
    text = str(grammar)

    def compute() -> list[Any]:
        # A grammar keeps what it has computed.
        verdict = TargetGrammar.parse(text).explain(tokens)
        return [verdict.legal_tokens, str(verdict)]

    in_both_forms(compute)


@pytest.mark.parametrize("name", ["v4", "v4-whole", "v4-sql"])
def test_answers_of_stored_models(name: str) -> None:
    said = ["Please turn on the fan in the garden!", "run twice", "names of all dogs"]
    with kernels_in_one_form(compiled=False):
        plain = list(load_with_grammar(MODELS / name, "cpu").answers(said))
    with kernels_in_one_form(compiled=True):
        compiled = list(load_with_grammar(MODELS / name, "cpu").answers(said))
    assert plain == compiled


@kernel
def doubled(number: int) -> int:
    return 2 * number


@kernel
def quadrupled(number: int) -> int:
    return doubled(doubled(number))


def test_a_kernel_calls_kernels_in_its_own_form() -> None:
    with kernels_in_one_form(compiled=False):
        assert quadrupled(3) == 12
    with kernels_in_one_form(compiled=True):
        assert quadrupled(3) == 12


@pytest.fixture
def fresh_state(monkeypatch: pytest.MonkeyPatch) -> Callable[[], compilation._State]:
    def made() -> compilation._State:
        state = compilation._State()
        monkeypatch.setattr(compilation, "_state", state)
        return state

    return made


def test_much_work_is_compiled(
    monkeypatch: pytest.MonkeyPatch, fresh_state: Callable[[], compilation._State]
) -> None:
    monkeypatch.setattr(compilation, "UNCACHED_SECONDS", 0.0)
    state = fresh_state()
    assert doubled(2) == 4
    assert not state.is_compiled
    state.plain_seconds = 2 * compilation.PLAIN_SECONDS
    assert doubled(2) == 4
    assert state.is_compiled


def test_without_numba_kernels_stay_plain(
    monkeypatch: pytest.MonkeyPatch, fresh_state: Callable[[], compilation._State]
) -> None:
    monkeypatch.setattr(compilation, "find_spec", lambda name: None)
    state = fresh_state()
    compile_kernels()
    assert doubled(2) == 4
    assert not state.is_compiled


TRIPLED = """
from nqg.grammar.compilation import kernel

@kernel
def tripled(number):
    return 3 * number
"""


def test_few_examples_are_worth_cached_machine_code_but_no_compilation(
    tmp_path: Path,
) -> None:
    (tmp_path / "tripling.py").write_text(TRIPLED, encoding="utf-8")

    def is_compiled(examples: int) -> str:
        program = f"""
from nqg.grammar.compilation import are_compiled, compile_kernels
from tripling import tripled
compile_kernels({examples})
assert tripled(2) == 6
print(are_compiled())
"""
        run = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout.strip()

    assert is_compiled(10) == "False"
    assert is_compiled(compilation.MANY_EXAMPLES) == "True"
    # By now the cache holds it.
    assert is_compiled(10) == "True"


@inlined
def grown(number: int, factor: int) -> int:
    return number * factor


def grown_twice(numbers: Int32Array) -> int:
    return grown(numbers[0], 3) + grown(len(numbers), numbers[1])


def test_a_kernel_that_others_call_is_compiled_once_for_all_integers() -> None:
    numbers = np.array([5, 7], dtype=np.int32)
    # Without a cache, which would hold the machine code of an earlier run.
    uncached = compilation.Kernel(grown_twice, {"nogil": True})
    with kernels_in_one_form(compiled=True):
        assert uncached(numbers) == 5 * 3 + 2 * 7
    assert len(cast(Any, grown).compiled.signatures) == 1


def test_little_work_does_not_load_numba() -> None:
    program = """
import sys
from nqg.grammar.chart import charts
from nqg.grammar.grammar import Grammar
charts(Grammar.parse("jump ### J"), [("jump",)])
print("numba" in sys.modules)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "False\n"
