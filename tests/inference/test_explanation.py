"""What `answer.explain()` and `nqg parse --explain` say: the derivation, drawn, and all else that is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from nqg.answers import Answer, Correction, Reading
from nqg.grammar.derivation import Derivation, Hyperedge
from nqg.grammar.grammar import Rule
from nqg.grammar.hypergraph import Span
from nqg.inference.explanation import drawn, tree_guides

DERIVATION = Derivation.parse("""
[0:6] NT_1 and NT_2 ### NT_2 NT_1
  [0:2] NT_1 twice ### NT_1 NT_1
    [0:1] walk ### W
  [3:6] NT_1 a NT_2 ### NT_1 NT_2 NT_1
    [3:4] jump ### J
    [5:6] left ### L
""")


def reading(derivation: Derivation = DERIVATION, *, figures: bool = True) -> Reading:
    count = len(derivation.hyperedges)
    scores = tuple(number - 1.5 for number in range(count)) if figures else ()
    marginals = tuple(1 - number / 10 for number in range(count)) if figures else ()
    return Reading(
        " ".join(derivation.target), 0.5, derivation, scores=scores, marginals=marginals
    )


def chain(depth: int) -> Derivation:
    """A derivation whose every rule but the last has one child."""
    above = [
        Hyperedge(Rule.parse("very NT_1 ### so NT_1"), Span(at, depth + 1))
        for at in range(depth)
    ]
    return Derivation(
        (*above, Hyperedge(Rule.parse("good ### well"), Span(depth, depth + 1)))
    )


def test_spans_are_brackets_under_the_words_with_score_marginal_rule_and_yield() -> (
    None
):
    assert drawn(reading()).plain.split("\n") == [
        "walk twice and jump a left    score     p  rule",
        "╰────────────────────────╯    -1.50  1.00  NT_1 and NT_2 → NT_2 NT_1  ⇒ J L J W W",
        "╰────────╯                    -0.50  0.90  NT_1 twice → NT_1 NT_1  ⇒ W W",
        "╰──╯                           0.50  0.80  walk → W",
        "               ╰─────────╯     1.50  0.70  NT_1 a NT_2 → NT_1 NT_2 NT_1  ⇒ J L J",
        "               ╰──╯            2.50  0.60  jump → J",
        "                      ╰──╯     3.50  0.50  left → L",
    ]


def test_a_reading_without_figures_is_drawn_without_them() -> None:
    lines = drawn(reading(figures=False)).plain.split("\n")
    assert lines[0] == "walk twice and jump a left    rule"
    assert lines[3] == "╰──╯                          walk → W"


def test_where_brackets_leave_no_room_rules_stand_in_a_tree() -> None:
    assert drawn(reading(), width=60).plain.split("\n") == [
        "walk twice and jump a left",
        "  score     p  rule",
        "  -1.50  1.00  NT_1 and NT_2 → NT_2 NT_1  ⇒ J L J W W",
        "  -0.50  0.90  ├─ NT_1 twice → NT_1 NT_1  ⇒ W W",
        "   0.50  0.80  │  └─ walk → W",
        "   1.50  0.70  └─ NT_1 a NT_2 → NT_1 NT_2 NT_1  ⇒ J L J",
        "   2.50  0.60     ├─ jump → J",
        "   3.50  0.50     └─ left → L",
    ]


def test_wide_characters_take_two_columns() -> None:
    derivation = Derivation.parse("[0:2] NT_1 二 ### NT_1 NT_1\n  [0:1] 歩く ### W")
    assert drawn(reading(derivation, figures=False)).plain.split("\n") == [
        "歩く 二    rule",
        "╰─────╯    NT_1 二 → NT_1 NT_1  ⇒ W W",
        "╰──╯       歩く → W",
    ]


@given(st.integers(1, 60), st.integers(30, 140))
def test_no_line_of_a_deep_tree_but_the_sentence_is_wider_than_the_terminal(
    depth: int, width: int
) -> None:
    sentence, *lines = drawn(reading(chain(depth)), width).plain.split("\n")
    assert max(map(cell_len, lines)) <= width
    assert sentence.startswith("very")
    assert len([line for line in lines if not line.endswith("rule")]) == depth + 1 - (
        len(lines) == depth
    )


def test_the_levels_of_a_deep_tree_are_numbered_where_they_are_no_longer_indented() -> (
    None
):
    lines = drawn(reading(chain(30)), 80).plain.split("\n")
    assert lines[-1].endswith("└─ [30] good → well")
    assert lines[-1].index("└") == lines[-2].index("└")


def test_nothing_in_a_word_moves_the_cursor() -> None:
    rule = Rule(("walk\x1b[2J",), ("W\x07",))
    text = drawn(reading(Derivation((Hyperedge(rule, Span(0, 1)),)))).plain
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "walk�[2J → W�" in text


@pytest.mark.parametrize(
    ("depths", "guides"),
    [
        ([0], [""]),
        ([0, 1, 1], ["", "├─ ", "└─ "]),
        ([0, 1, 2, 2, 1, 2], ["", "├─ ", "│  ├─ ", "│  └─ ", "└─ ", "   └─ "]),
    ],
)
def test_guides_lead_to_the_next_sister(depths: list[int], guides: list[str]) -> None:
    assert tree_guides(depths) == guides


def test_an_answer_is_its_drawing_its_program_and_how_sure_it_is() -> None:
    best = reading(Derivation.parse("[0:1] walk ### W"))
    other = Reading("STROLL", 0.25, best.derivation, is_legal=False)
    corrections = (Correction(0, "wlak", "walk"),)
    answer = Answer(
        "wlak",
        "W",
        0.5,
        "grammar",
        "",
        0.91,
        best,
        (best, other),
        corrections=corrections,
    )
    assert answer.explain().split("\n") == [
        "walk    score     p  rule",
        "╰──╯    -1.50  1.00  walk → W",
        "",
        "W",
        "read `wlak` as `walk`",
        "confidence 91 %",
        "probability within the grammar 0.5",
        "0.5\tW",
        "0.25\tSTROLL\tillegal",
    ]


def test_an_abstention_says_what_is_missing() -> None:
    assert (
        Answer("fly", reason="no rule knows 'fly'").explain()
        == "abstained: no rule knows 'fly'"
    )


def test_an_answer_of_a_hybrid_says_who_gave_it_and_why() -> None:
    own = Answer("fly", system="grammar", reason="no derivation")
    fallback = Answer(
        "fly", "FLY", system="fallback", reason="no derivation", parts=(own,)
    )
    assert fallback.explain() == "FLY\nby the fallback: no derivation"
    assert (
        Answer("walk", "WALK", system="grammar", parts=(own,)).explain()
        == "WALK\nby the grammar"
    )
