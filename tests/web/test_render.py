"""Pictures of derivations and grammars: complete, aligned, and safe."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from nqg.grammar.derivation import Derivation, Hyperedge
from nqg.grammar.grammar import Grammar, Rule, SlotInstance
from nqg.grammar.hypergraph import Span
from nqg.web.render import (
    BOX_HEIGHT,
    GAP,
    LEVEL_HEIGHT,
    MAX_DRAWN_HYPEREDGES,
    MAX_DRAWN_TOKENS,
    alignment,
    derivation_outline,
    derivation_picture,
    grammar_picture,
    in_notebook,
    program_pieces,
    shortened,
    tree_layout,
)
from strategies import derivations

TWICE = Derivation.parse("""
[0:4] NT_1 and NT_2 ### NT_2 NT_1
  [0:2] NT_1 twice ### NT_1 NT_1
    [0:1] jump ### I_JUMP
  [3:4] walk ### I_WALK
""")
SVG = "{http://www.w3.org/2000/svg}"


def parts(picture: str, kind: str) -> list[ElementTree.Element]:
    tree = ElementTree.fromstring(picture)
    return [each for each in tree.iter() if kind in each.get("class", "").split()]


def test_every_word_token_and_hyperedge_is_drawn_with_its_number() -> None:
    picture = derivation_picture(TWICE)
    assert [(each.text, each.get("data-node")) for each in parts(picture, "word")] == [
        ("jump", "2"),
        ("twice", "1"),
        ("and", "0"),
        ("walk", "3"),
    ]
    assert [(each.text, each.get("data-node")) for each in parts(picture, "token")] == [
        ("I_WALK", "3"),
        ("I_JUMP", "2"),
        ("I_JUMP", "2"),
    ]
    nodes = parts(picture, "node")
    assert [(each.get("data-node"), each.get("data-last")) for each in nodes] == [
        ("0", "3"),
        ("1", "2"),
        ("2", "2"),
        ("3", "3"),
    ]
    assert nodes[1].get("aria-label") == "① twice → ① ①, where ① is “jump”"
    assert all(each.get("tabindex") == "0" for each in nodes)


def test_a_box_shows_both_sides_of_its_rule() -> None:
    first = parts(derivation_picture(TWICE), "node")[0]
    assert [each.text for each in first.iter(f"{SVG}text")] == ["① and ②", "② ①"]


def test_the_value_of_a_slot_is_marked_and_named_once_in_the_program_and_in_its_box() -> (
    None
):
    value = SlotInstance(
        ("half", "past", "six"),
        ("at", "=", "6:30"),
        Rule(("@time",), ("at", "=", "@time")),
    )
    wake = Rule.parse("wake me NT_1 ### wake ( NT_1 )")
    derivation = Derivation((Hyperedge(wake, Span(0, 5)), Hyperedge(value, Span(2, 5))))
    picture = derivation_picture(derivation, program="wake(at=6:30)")
    assert "".join(ElementTree.fromstring(picture)[1].itertext()) == "wake(at=6:30)"
    slots = [
        (each.text, each.get("data-slot"))
        for each in parts(picture, "slot")
        if each.text
    ]
    assert slots == [("at", None), ("=", None), ("6:30", "time")]
    box = parts(picture, "node")[1]
    assert [each.text for each in box.iter(f"{SVG}text")] == [
        "time: half past six",
        "at = 6:30",
    ]
    assert box.get("aria-label") == "time: half past six → at = 6:30"


@given(
    st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1)),
    st.data(),
)
def test_pieces_put_together_are_the_program(
    tokens: list[str], data: st.DataObject
) -> None:
    program = "".join(
        data.draw(st.sampled_from(["", " ", "\n  "])) + token for token in tokens
    )
    pieces = program_pieces(program, tuple(tokens))
    assert "".join(gap + token for gap, token, _ in pieces) == program
    assert [(token, number) for _, token, number in pieces] == [
        (each, at) for at, each in enumerate(tokens)
    ]


def test_a_program_that_is_not_made_of_its_tokens_is_shown_as_tokens() -> None:
    assert program_pieces("ON(lamp)", ("on", "(", "lamp", ")"))[0] == ("", "on", 0)


@given(derivations())
def test_boxes_never_overlap_and_are_centred_over_their_words(
    derivation: Derivation,
) -> None:
    layout = tree_layout(derivation, alignment(derivation))
    for box, hyperedge in zip(layout.boxes, derivation.hyperedges, strict=True):
        covered = layout.words[hyperedge.span.start : hyperedge.span.end]
        assert covered[0] - 1e-6 <= box.x <= covered[-1] + 1e-6
        assert box.x - box.width / 2 >= 0
        assert box.x + box.width / 2 <= layout.width
    rows: dict[float, list[tuple[float, float]]] = {}
    for box in layout.boxes:
        rows.setdefault(box.y, []).append(
            (box.x - box.width / 2, box.x + box.width / 2)
        )
    for row in rows.values():
        ends = sorted(row)
        assert all(left[1] + GAP / 2 <= right[0] for left, right in pairwise(ends))


@given(derivations())
def test_words_keep_their_order_and_do_not_touch(derivation: Derivation) -> None:
    words, layout = derivation.source, tree_layout(derivation, alignment(derivation))
    for at in range(len(words) - 1):
        needed = (cell_len(words[at]) + cell_len(words[at + 1])) * 8 / 2
        assert layout.words[at + 1] - layout.words[at] >= needed
    assert LEVEL_HEIGHT > BOX_HEIGHT


def test_the_outline_nests_as_the_derivation_does() -> None:
    tree = ElementTree.fromstring(derivation_outline(TWICE))
    assert [each.text for each in tree.iter("q")] == [
        "jump twice and walk",
        "jump twice",
        "jump",
        "walk",
    ]
    [root] = tree.findall("li")
    assert len(root.findall("ul")) == 1
    assert len(tree.findall("li/ul/li")) == 2
    assert len(tree.findall("li/ul/li/ul/li")) == 1


@given(derivations())
def test_an_outline_has_one_item_for_every_hyperedge(derivation: Derivation) -> None:
    tree = ElementTree.fromstring(derivation_outline(derivation))
    assert len(list(tree.iter("li"))) == len(derivation.hyperedges)


def test_hostile_tokens_stay_text() -> None:
    hostile = "<script>alert(1)</script>"
    rule = Rule((hostile,), ("</text><img/src=x/onerror=alert(1)>",))
    derivation = Derivation((Hyperedge(rule, Span(0, 1)),))
    for picture in (
        derivation_picture(derivation),
        derivation_outline(derivation),
        grammar_picture(Grammar((rule,))),
    ):
        assert "<script" not in picture
        assert "<img" not in picture
        ElementTree.fromstring(picture)


def test_a_long_target_is_cut_with_a_word_about_it() -> None:
    rule = Rule(("x",), ("y",) * (MAX_DRAWN_TOKENS + 5))
    picture = derivation_picture(Derivation((Hyperedge(rule, Span(0, 1)),)))
    assert len(parts(picture, "token")) == MAX_DRAWN_TOKENS
    assert "and 5 more tokens" in picture


def test_a_tree_that_is_too_large_is_not_drawn() -> None:
    size = MAX_DRAWN_HYPEREDGES + 1
    over = [
        Hyperedge(Rule.parse("NT_1 x ### NT_1"), Span(0, size - at))
        for at in range(size - 1)
    ]
    picture = derivation_picture(
        Derivation((*over, Hyperedge(Rule.parse("x ### y"), Span(0, 1))))
    )
    assert "401 applications: too many to draw." in picture
    assert "<svg" not in picture


def test_a_grammar_lists_its_rules_by_how_many_parts_they_have() -> None:
    grammar = Grammar.parse(
        "jump ### I_JUMP\nNT_1 and NT_2 ### NT_1 NT_2\nNT_1 twice ### NT_1 NT_1"
    )
    tree = ElementTree.fromstring(grammar_picture(grammar))
    assert [each.text for each in tree.iter("th")] == ["2 parts", "one part", "words"]
    assert ["".join(each.itertext()) for each in tree.iter("td")] == [
        "① and ② → ① ②",
        "① twice → ① ①",
        "jump → I_JUMP",
    ]


def test_of_a_large_grammar_the_first_rules_are_shown() -> None:
    grammar = Grammar.parse(
        "\n".join(f"w{number} ### T{number}" for number in range(7))
    )
    picture = grammar_picture(grammar, most=5)
    assert "7 rules" in picture
    assert "… and 2 more rules" in picture
    assert "w4" in picture
    assert "w5" not in picture


@pytest.mark.parametrize(("length", "shown"), [(30, "a" * 30), (31, "a" * 29 + "…")])
def test_a_side_is_shortened_to_what_a_box_holds(length: int, shown: str) -> None:
    assert shortened("a" * length) == shown


def test_in_a_notebook_the_style_comes_along() -> None:
    cell = in_notebook(derivation_picture(TWICE))
    assert cell.startswith('<div class="nqg"><style>')
    assert ".nqg-tree" in cell
    assert "http" not in cell.replace("http://www.w3.org/2000/svg", "")
