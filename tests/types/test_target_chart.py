"""The chart of target grammars from inside: what its items mean, and what must not happen to them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nqg.types.earley import Chart, empty_chart, node_of, origin_of, read
from nqg.types.target_grammar import Category, TargetGrammar
from oracles import derives_target
from strategies import random_target, target_grammars

RANDOMS = st.randoms(use_true_random=False)


@settings(max_examples=60, deadline=None)
@given(target_grammars(), st.integers(1, 10), RANDOMS)
def test_a_completed_category_derives_the_tokens_since_its_origin(
    grammar: TargetGrammar, size: int, rng: random.Random
) -> None:
    target = random_target(grammar, size, rng)
    completed = list(_completed(grammar, _chart(grammar, target)))
    assert (grammar.start, 0) in completed
    for category, origin in completed:
        assert derives_target(grammar.productions, category, target[origin:])


@settings(max_examples=60, deadline=None)
@given(target_grammars(), st.integers(1, 30), RANDOMS)
def test_no_item_is_found_or_waits_twice(
    grammar: TargetGrammar, size: int, rng: random.Random
) -> None:
    target = random_target(grammar, size, rng)
    chart = _chart(grammar, target)
    items = chart.items.tolist()
    assert len(set(items)) == len(items)
    waiting = [
        (chain, item) for chain, items in enumerate(_chains(chart)) for item in items
    ]
    assert len(set(waiting)) == len(waiting) == len(chart.waiting.items)


def test_columns_of_an_ambiguous_grammar_grow_with_the_length_not_with_the_derivations() -> (
    None
):
    grammar = TargetGrammar.parse("<s> ::= <s> <s> | a")
    sizes = [len(_chart(grammar, ["a"] * length).items) for length in (10, 20, 40, 80)]
    assert np.diff(sizes).tolist() == [
        30,
        60,
        120,
    ]  # per position: <s> complete, after one <s>, after two


def test_reading_leaves_the_given_chart_as_it_was() -> None:
    grammar = TargetGrammar.parse("<s> ::= ( <s> ) | <s> <s> | x | <...> y")
    tables = grammar.recogniser.tables
    begun = _chart(grammar, ["(", "x", "x"])
    before = [array.copy() for array in _arrays(begun)]
    for token in range(len(grammar.recogniser.terminals) + 1):
        read(tables, begun, np.full(40, token, dtype=np.int32))
    assert all(map(np.array_equal, before, _arrays(begun)))


def test_an_illegal_token_stops_the_reading_before_it() -> None:
    grammar = TargetGrammar.parse("<s> ::= a b c")
    stopped = _chart(grammar, ["a", "b", "a", "c"])
    assert stopped.position == 2
    assert len(stopped.items) == len(_chart(grammar, ["a", "b"]).items) == 1


def test_the_empty_chart_predicts_every_category_that_may_come_first() -> None:
    grammar = TargetGrammar.parse(
        "<s> ::= <t> x\n<t> ::= <u> | y\n<u> ::= <t> z\n<v> ::= w"
    )
    chart = empty_chart(grammar.recogniser.tables)
    items = chart.items.tolist()
    assert [*map(node_of, items)] == grammar.recogniser.tables.entries[:3].tolist()
    assert not any(map(origin_of, items))


def _chart(grammar: TargetGrammar, tokens: list[str]) -> Chart:
    recogniser = grammar.recogniser
    labels = np.array([recogniser.label(token) for token in tokens], dtype=np.int32)
    return read(recogniser.tables, empty_chart(recogniser.tables), labels)


def _completed(grammar: TargetGrammar, chart: Chart) -> Iterator[tuple[Category, int]]:
    first = len(grammar.recogniser.tables.completes)
    for item in chart.items.tolist():
        if node_of(item) >= first:
            yield grammar.categories[node_of(item) - first], origin_of(item)


def _chains(chart: Chart) -> Iterator[list[int]]:
    """The items that wait for each category at each position."""
    waiting = chart.waiting
    for head in waiting.heads.flat:
        items = []
        while head >= 0:
            items.append(int(waiting.items[head]))
            head = waiting.next[head]
        yield items


def _arrays(chart: Chart) -> list[np.ndarray]:
    return [chart.items, *chart.waiting]
