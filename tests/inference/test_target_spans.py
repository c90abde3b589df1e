"""The part of the target that each application yields."""

from __future__ import annotations

import pytest

from nqg.grammar.derivation import Derivation, target_spans
from nqg.grammar.grammar import Grammar
from oracles import all_derivations

GRAMMAR = Grammar.parse("""
    walk ### W
    jump ### J J
    NT_1 twice ### NT_1 again NT_1
    NT_1 and NT_2 ### NT_2 then NT_1
    NT_1 or NT_2 ### NT_1 NT_2 NT_1
""")


def subtrees(derivation: Derivation) -> list[Derivation]:
    """The derivation under each application, in their order."""
    return [
        derivation,
        *(below for child in derivation.children for below in subtrees(child)),
    ]


@pytest.mark.parametrize(
    "source", ["walk", "walk and jump twice", "jump or walk and walk or jump twice"]
)
def test_a_span_of_the_target_holds_what_the_derivation_under_the_hyperedge_yields(
    source: str,
) -> None:
    for derivation in all_derivations(GRAMMAR, tuple(source.split())):
        target = derivation.target
        parts = [target[span.start : span.end] for span in target_spans(derivation)]
        assert parts == [each.target for each in subtrees(derivation)]


def test_of_several_places_the_first_is_named() -> None:
    (derivation,) = all_derivations(GRAMMAR, ("jump", "or", "walk"))
    assert [str(span) for span in target_spans(derivation)] == ["0:5", "0:2", "2:3"]


def test_a_very_deep_derivation_is_no_problem() -> None:
    deep = Derivation.parse(
        "\n".join(f"{'  ' * at}[{at}:3001] a NT_1 ### x NT_1" for at in range(3000))
        + f"\n{'  ' * 3000}[3000:3001] b ### y"
    )
    assert str(target_spans(deep)[-1]) == "3000:3001"
