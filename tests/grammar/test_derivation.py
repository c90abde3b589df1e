"""Derivations: their text, their yields, and what they refuse to be."""

from __future__ import annotations

import pytest

from nqg.errors import FormatError
from nqg.grammar.derivation import Derivation
from nqg.grammar.hypergraph import Span

TEXT = """\
[0:8] how many NT_1 pass through NT_2 ### answer ( count ( intersection ( NT_1 , loc_1 ( NT_2 ) ) ) )
  [2:3] rivers ### river
  [5:8] the largest NT_1 ### largest ( NT_1 )
    [7:8] state ### state"""


def test_the_text_survives_a_round_trip() -> None:
    assert str(Derivation.parse(TEXT)) == TEXT


def test_source_target_depths_and_children_follow_from_the_hyperedges() -> None:
    derivation = Derivation.parse(TEXT)
    assert (
        " ".join(derivation.source) == "how many rivers pass through the largest state"
    )
    assert (
        " ".join(derivation.target)
        == "answer ( count ( intersection ( river , loc_1 ( largest ( state ) ) ) ) )"
    )
    assert derivation.target_length == len(derivation.target)
    assert list(derivation.depths()) == [0, 1, 1, 2]
    assert [child.root.span for child in derivation.children] == [
        Span(2, 3),
        Span(5, 8),
    ]
    assert derivation.children[1].target == ("largest", "(", "state", ")")


def test_a_part_of_a_target_is_repeated_as_often_as_its_non_terminal() -> None:
    derivation = Derivation.parse(
        "[0:2] NT_1 thrice ### NT_1 NT_1 NT_1\n  [0:1] jump ### I_JUMP"
    )
    assert derivation.target == ("I_JUMP",) * 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("jump ### I_JUMP", r"expected '\[start:end\] source ### target', found 'jump"),
        ("[0:1] jump I_JUMP", "found '###' 0 times"),
        ("[0:2] NT_1 twice ### NT_1 NT_1", "has 0 children, its rule asks for 1"),
        ("[0:1] jump ### I_JUMP\n[1:2] walk ### I_WALK", "expected one root, found 2"),
        ("[0:3] jump ### I_JUMP", "covers tokens up to 1, not 3"),
        (
            "[0:2] NT_1 twice ### NT_1 NT_1\n  [1:2] jump ### I_JUMP",
            "expects NT_1 at 0, found it at 1:2",
        ),
        (
            "[0:2] NT_1 twice ### NT_1 NT_1\n[0:1] jump ### I_JUMP",
            "is indented by 0 spaces, expected 2",
        ),
        ("", "expected one root, found 0"),
    ],
)
def test_what_is_no_derivation_is_refused_with_the_reason(
    text: str, reason: str
) -> None:
    with pytest.raises(FormatError, match=reason):
        Derivation.parse(text)
