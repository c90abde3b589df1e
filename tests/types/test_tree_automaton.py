"""Typed charts against the enumeration of all derivations and of all parses of their targets."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar, NonTerminal, read_symbol
from nqg.grammar.semirings import (
    best_derivations,
    derivation_counts,
    k_best_derivations,
    log_derivation_counts,
    marginals,
)
from nqg.paper.funql import funql_target_grammar
from nqg.types.target_grammar import Category, Production, TargetGrammar
from nqg.types.tree_automaton import Signatures, with_associativity
from oracles import all_derivations, check_graph, forest_derivations, is_well_typed
from strategies import grammars, sentences, sign_grammars, target_grammars

Tokens = tuple[str, ...]
FEW, SHORT = (
    40,
    7,
)  # derivations, and tokens of their targets, that brute force may look at


def well_typed(
    grammar: Grammar, target_grammar: TargetGrammar, source: Tokens
) -> list[Derivation]:
    """The derivations that enumeration finds well-typed; those that are not must be untyped ones."""
    assume(derivation_counts(charts(grammar, [source]))[0] <= FEW)
    everything = all_derivations(grammar, source)
    assume(all(each.target_length <= SHORT for each in everything))
    productions = with_associativity(target_grammar.productions)
    return [
        each
        for each in everything
        if is_well_typed(productions, target_grammar.start, each)
    ]


@given(grammars(max_arity=3), sign_grammars(), sentences)
def test_a_typed_chart_holds_exactly_the_well_typed_derivations(
    grammar: Grammar, target_grammar: TargetGrammar, source: Tokens
) -> None:
    expected = well_typed(grammar, target_grammar, source)
    typed = grammar.typed_by(target_grammar)
    graph = charts(typed, [source])
    check_graph(graph)
    assert Counter(forest_derivations(typed, graph)) == Counter(expected)
    assert all(target_grammar.accepts(each.target) for each in expected)
    assert derivation_counts(graph) == [len(expected)]
    logarithm = math.log(len(expected)) if expected else -math.inf
    assert log_derivation_counts(graph)[0] == pytest.approx(logarithm)


@given(grammars(max_arity=3), sign_grammars(), sentences, st.data())
def test_a_typed_goal_chart_holds_exactly_the_well_typed_derivations_of_the_target(
    grammar: Grammar, target_grammar: TargetGrammar, source: Tokens, data: st.DataObject
) -> None:
    expected = well_typed(grammar, target_grammar, source)
    reachable = {each.target for each in all_derivations(grammar, source)}
    target = data.draw(st.sampled_from(sorted(reachable | {("x",)})))
    typed = grammar.typed_by(target_grammar)
    goal = goal_charts(typed, charts(typed, [source]), [target])
    assert Counter(forest_derivations(typed, goal)) == Counter(
        each for each in expected if each.target == target
    )


@given(grammars(), sign_grammars(), sentences, st.integers(0, 99), st.integers(1, 5))
def test_the_best_the_k_best_and_marginals_are_those_of_the_well_typed_derivations(
    grammar: Grammar, target_grammar: TargetGrammar, source: Tokens, seed: int, k: int
) -> None:
    expected = well_typed(grammar, target_grammar, source)
    typed = grammar.typed_by(target_grammar)
    graph = charts(typed, [source])
    if not expected:
        assert graph.nodes == 0
        return
    rng = np.random.default_rng(seed)
    table = rng.normal(
        size=(len(source) + 1, len(source) + 1, len(grammar))
    )  # of span and rule, as the model's
    owners = graph.owners()
    scores = table[graph.starts[owners], graph.ends[owners], graph.rules]
    numbers = {rule: number for number, rule in enumerate(grammar)}

    def score(derivation: Derivation) -> float:
        return math.fsum(
            table[each.span.start, each.span.end, numbers[each.rule]]
            for each in derivation.hyperedges
        )

    ranked = sorted(map(score, expected), reverse=True)
    (found,), (best,) = (
        k_best_derivations(typed, graph, scores, k),
        best_derivations(typed, graph, scores),
    )
    assert [each.score for each in found] == pytest.approx(ranked[:k])
    assert {each.derivation for each in found} <= set(expected)
    assert best is not None
    assert best.score == pytest.approx(ranked[0])
    chances = np.exp(np.array(list(map(score, expected))))
    chances /= chances.sum()
    shares: Counter[tuple[object, int, int]] = Counter()
    for node, chance in zip(owners, marginals(graph, scores), strict=True):
        shares["span", int(graph.starts[node]), int(graph.ends[node])] += chance
    wanted: Counter[tuple[object, int, int]] = Counter()
    for derivation, chance in zip(expected, chances, strict=True):
        for each in derivation.hyperedges:
            wanted["span", each.span.start, each.span.end] += chance
    assert shares == pytest.approx(wanted)


@given(grammars(max_arity=3), sign_grammars(), sentences)
def test_an_unpruned_typed_chart_has_a_span_wherever_a_derivation_has_a_type(
    grammar: Grammar, target_grammar: TargetGrammar, source: Tokens
) -> None:
    typed = grammar.typed_by(target_grammar)
    pruned, unpruned = charts(typed, [source]), charts(typed, [source], prune=False)
    check_graph(unpruned)
    spans = [
        Counter(zip(graph.starts.tolist(), graph.ends.tolist(), strict=True))
        for graph in (pruned, unpruned)
    ]
    assert spans[0] <= spans[1]


@given(
    grammars(max_arity=3), sign_grammars(), st.lists(sentences, min_size=1, max_size=4)
)
def test_a_typed_batch_is_its_sentences_one_by_one(
    grammar: Grammar, target_grammar: TargetGrammar, sources: list[Tokens]
) -> None:
    typed = grammar.typed_by(target_grammar)
    batch = charts(typed, sources)
    for position, source in enumerate(sources):
        alone = charts(typed, [source])
        for name, array in batch.select([position])._asdict().items():
            np.testing.assert_array_equal(array, alone._asdict()[name])


@given(target_grammars())
def test_lists_of_lists_add_nothing_to_the_language(
    target_grammar: TargetGrammar,
) -> None:
    other = TargetGrammar(tuple(with_associativity(target_grammar.productions)))
    strings = [each for length in range(1, 6) for each in product("ab", repeat=length)]
    assert [other.accepts(each) for each in strings] == [
        target_grammar.accepts(each) for each in strings
    ]


def test_a_list_is_put_together_from_lists() -> None:
    target_grammar = TargetGrammar.parse(
        "<list> ::= <item> | <list> , <item>\n<item> ::= a | b"
    )
    left = target_grammar.start
    assert Production(left, (left, ",", left)) in with_associativity(
        target_grammar.productions
    )
    grammar = Grammar.parse("x ### a\nNT_1 and NT_2 ### NT_1 , NT_2").typed_by(
        target_grammar
    )
    assert derivation_counts(charts(grammar, [("x", "and", "x", "and", "x")])) == [2]


def test_a_word_of_another_type_does_not_fit() -> None:
    target_grammar = TargetGrammar.parse("""
    <command> ::= set_alarm ( time = " <time> " ) | play ( genre = " <genre> " )
    <time> ::= seven | <time> thirty
    <genre> ::= jazz
    """)
    grammar = Grammar.parse("""
    jazz ### jazz
    seven ### seven
    wake me up at NT_1 ### set_alarm ( time = " NT_1 " )
    play NT_1 ### play ( genre = " NT_1 " )
    """)
    sentences = [
        tuple(text.split())
        for text in ("wake me up at seven", "wake me up at jazz", "play jazz", "seven")
    ]
    assert derivation_counts(charts(grammar, sentences)) == [1, 1, 1, 1]
    assert derivation_counts(charts(grammar.typed_by(target_grammar), sentences)) == [
        1,
        0,
        1,
        0,
    ]


def test_signatures_of_a_rule_of_geoquery() -> None:
    finder = Signatures(funql_target_grammar())
    assert finder.of(Grammar.parse("NT_1 of it ### ( ( NT_1")[0].target) == set()
    found = finder.of(
        Grammar.parse("how big is NT_1 ### answer ( size ( NT_1 ) )")[0].target
    )
    whole = {
        str(each)
        for each in found
        if all(len(part) == 1 for part in (each.fragment, *each.arguments))
    }
    assert whole == {
        "<program> from <city>",
        "<program> from <country>",
        "<program> from <state>",
    }


@given(grammars(max_arity=3), sign_grammars())
def test_a_target_fits_if_it_has_a_signature(
    grammar: Grammar, target_grammar: TargetGrammar
) -> None:
    finder = Signatures(target_grammar)
    assert [finder.fits(rule.target) for rule in grammar] == [
        bool(finder.of(rule.target)) for rule in grammar
    ]


@given(grammars(max_arity=3), sign_grammars())
def test_the_parts_of_a_target_and_of_its_non_terminals_are_those_of_its_signatures(
    grammar: Grammar, target_grammar: TargetGrammar
) -> None:
    finder = Signatures(target_grammar)
    for rule in grammar:
        signatures, occurring = (
            finder.of(rule.target),
            [each for each in rule.target if isinstance(each, NonTerminal)],
        )
        assert finder.fragments(rule.target) == {each.fragment for each in signatures}
        for hole in occurring:
            places = [at for at, symbol in enumerate(occurring) if symbol == hole]
            assert finder.argument_fragments(hole, rule.target) == {
                tuple(each.arguments[at] for at in places) for each in signatures
            }


def test_a_sentence_of_200_words_with_as_many_readings_as_trees_still_parses() -> None:
    grammar = Grammar.parse("a ### x\nNT_1 NT_2 ### NT_1 NT_2")
    target_grammar = TargetGrammar.parse("<list> ::= x | <list> x")
    typed = charts(grammar.typed_by(target_grammar), [("a",) * 200])
    plain = charts(grammar, [("a",) * 200])
    assert log_derivation_counts(typed) == pytest.approx(log_derivation_counts(plain))


SEQUENCES = TargetGrammar.parse(
    "<p> ::= go <a> | <p> <a>\n<a> ::= go | x | y | [ <a> ] | { } | <a> <a>"
)


@given(
    st.lists(
        st.sampled_from(["go", "x", "y", "[", "]", "{", "}", "NT_1", "NT_2"]),
        min_size=1,
        max_size=7,
    )
)
def test_what_is_found_fast_of_sequences_is_what_signatures_say(
    words: list[str],
) -> None:
    target = tuple(map(read_symbol, words))
    finder, anything = Signatures(SEQUENCES), Category("a")
    is_derived = (anything,) in finder.fragments(target)
    non_terminals = {symbol for symbol in target if not isinstance(symbol, str)}
    if not non_terminals:
        assert finder.sequences(target) == ({anything} if is_derived else set())
    elif finder.sequences(target):
        assert is_derived
        for hole in non_terminals:
            each = ((anything,),) * target.count(hole)
            assert each in finder.argument_fragments(hole, target)
