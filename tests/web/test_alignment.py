"""Who wrote what, against a derivation whose every token carries its hyperedge's number."""

from __future__ import annotations

from hypothesis import given

from nqg.grammar.derivation import Derivation, Hyperedge
from nqg.grammar.grammar import NonTerminal, Rule
from nqg.grammar.hypergraph import Span
from nqg.web.render import alignment
from strategies import derivations


def numbered(derivation: Derivation) -> tuple[list[int], list[int]]:
    """The twin: words and tokens of the derivation by recursion, each as the number of its hyperedge."""

    def walk(number: int) -> tuple[list[int], list[int], int]:
        rule, after = derivation.hyperedges[number].rule, number + 1
        parts: list[tuple[list[int], list[int]]] = []
        for _ in range(rule.arity):
            words, tokens, after = walk(after)
            parts.append((words, tokens))
        sides = (
            [
                at
                for each in side
                for at in (
                    parts[each.index - 1][which]
                    if isinstance(each, NonTerminal)
                    else [number]
                )
            ]
            for which, side in enumerate((rule.source, rule.target))
        )
        words, tokens = sides
        return words, tokens, after

    words, tokens, _ = walk(0)
    return words, tokens


@given(derivations())
def test_every_word_and_token_is_traced_to_its_hyperedge(
    derivation: Derivation,
) -> None:
    found = alignment(derivation)
    assert (list(found.words), list(found.tokens)) == numbered(derivation)
    assert len(found.words) == len(derivation.source)
    assert len(found.tokens) == len(derivation.target)


@given(derivations())
def test_a_subtree_is_a_run_of_numbers_that_reads_the_hyperedges_span(
    derivation: Derivation,
) -> None:
    found = alignment(derivation)
    for number, hyperedge in enumerate(derivation.hyperedges):
        inside = range(number, found.lasts[number] + 1)
        words = [at for at, who in enumerate(found.words) if who in inside]
        assert words == list(range(hyperedge.span.start, hyperedge.span.end))


@given(derivations())
def test_a_parent_stands_one_above_its_highest_child(derivation: Derivation) -> None:
    found, depths = alignment(derivation), list(derivation.depths())
    for number, last in enumerate(found.lasts):
        below = [
            found.heights[at]
            for at in range(number + 1, last + 1)
            if depths[at] == depths[number] + 1
        ]
        assert found.heights[number] == max(below, default=-1) + 1


def test_depth_has_no_limit() -> None:
    levels = 3000
    rule = Rule.parse("NT_1 x ### NT_1 y")
    over = [Hyperedge(rule, Span(0, levels - at)) for at in range(levels - 1)]
    derivation = Derivation((*over, Hyperedge(Rule.parse("x ### y"), Span(0, 1))))
    assert alignment(derivation).heights[0] == levels - 1
