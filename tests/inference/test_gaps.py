"""Gaps: which words a grammar lacks, and which parts of a sentence it knows but cannot join."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

import nqg
from nqg.errors import LimitExceeded
from nqg.grammar.chart import charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Span
from nqg.inference.gaps import Gaps, gaps
from nqg.paper.datasets import load_dataset
from nqg.slots.matcher import SlotMatcher
from nqg.slots.slot import Slot
from nqg.types.target_grammar import TargetGrammar
from oracles import all_derivations, best_islands
from strategies import grammars, sentences

SCAN = Grammar.parse("""
jump ### I_JUMP
walk ### I_WALK
NT_1 twice ### NT_1 NT_1
look around NT_1 ### I_LOOK NT_1
""")


def scan_gaps(sentence: str) -> Gaps:
    return gaps(SCAN, sentence.split())


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("jump twice twice", "the whole sentence has a derivation"),
        ("swim", "no rule knows 'swim'"),
        ("swim twice or fly or swim", "no rule knows 'swim', 'or' and 'fly'"),
        (
            "jump twice walk",
            "'jump twice' and 'walk' are known, but not how to join them",
        ),
        (
            "jump around walk",
            "'jump' and 'walk' are known, but not how to join them with 'around'",
        ),
        (
            "look look walk around",
            "'walk' is known, but not how to join it with 'look look' and 'around'",
        ),
        ("twice look", "every word is known, but no rule fits 'twice look'"),
        ("", "the sentence is empty"),
    ],
)
def test_a_gap_is_said_in_a_sentence(sentence: str, said: str) -> None:
    assert str(scan_gaps(sentence)) == said


def test_islands_leave_few_tokens_uncovered_before_they_are_few() -> None:
    grammar = Grammar.parse("a b c ### x\na b ### x\nc d ### x")
    assert gaps(grammar, ["a", "b", "c", "d"]).islands == (Span(0, 2), Span(2, 4))


def test_among_equally_good_covers_the_first_island_is_the_longest() -> None:
    grammar = Grammar.parse("a ### x\na b ### x\nb c ### x\nc ### x")
    assert gaps(grammar, ["a", "b", "c"]).islands == (Span(0, 2), Span(2, 3))


def test_a_word_that_only_targets_hold_is_unknown() -> None:
    assert scan_gaps("jump I_JUMP jump").unknown == (1,)


def test_unknown_places_are_all_there_and_unknown_tokens_once() -> None:
    found = scan_gaps("swim jump swim")
    assert (found.unknown, found.unknown_tokens) == ((0, 2), ("swim",))


def test_uncovered_tokens_may_be_known() -> None:
    found = scan_gaps("jump and look walk")
    assert (found.uncovered, found.unknown) == ((1, 2), (1,))


def test_the_pattern_is_the_source_of_the_rule_that_is_missing() -> None:
    found = scan_gaps("jump twice and walk")
    assert found.pattern == "NT_1 and NT_2"
    mended = Grammar.parse(f"{SCAN}\n{found.pattern} ### NT_1 NT_2")
    assert gaps(mended, found.source).is_whole


def test_a_terminal_that_spells_a_non_terminal_is_a_word_like_any_other() -> None:
    grammar = Grammar.parse(r"\NT_1 ### x")
    assert str(gaps(grammar, ["NT_1", "a"])) == "no rule knows 'a'"
    assert gaps(SCAN, ["NT_1", "jump"]).pattern == r"\NT_1 NT_1"


def test_a_chart_that_grows_past_the_limit_is_refused() -> None:
    grammar = Grammar.parse("a ### x\nNT_1 NT_2 ### NT_1 NT_2")
    with pytest.raises(LimitExceeded, match="give a higher limit"):
        gaps(grammar, ["a"] * 60, limit=100)


@given(grammars(), sentences)
def test_the_cover_is_the_best_of_all(
    grammar: Grammar, sentence: tuple[str, ...]
) -> None:
    assert gaps(grammar, sentence).islands == best_islands(grammar, sentence)


@given(grammars(), sentences)
def test_a_sentence_is_whole_exactly_if_it_has_a_derivation(
    grammar: Grammar, sentence: tuple[str, ...]
) -> None:
    assert gaps(grammar, sentence).is_whole == bool(all_derivations(grammar, sentence))


@given(grammars(), sentences)
def test_islands_and_uncovered_places_tile_the_sentence(
    grammar: Grammar, sentence: tuple[str, ...]
) -> None:
    found = gaps(grammar, sentence)
    covered = [
        place for island in found.islands for place in range(island.start, island.end)
    ]
    assert sorted([*covered, *found.uncovered]) == list(range(len(sentence)))
    assert set(found.unknown) <= set(found.uncovered)
    assert str(found)


def test_the_gaps_of_geoquery_are_where_the_published_grammar_abstains(
    real_data: Path, reference_grammars: Path
) -> None:
    grammar = Grammar.read(reference_grammars / "geoquery-standard.rules.txt")
    _, test = load_dataset("geoquery", real_data).split("standard")
    graph = charts(grammar, [example.source_tokens for example in test])
    found = [gaps(grammar, example.source_tokens) for example in test]
    assert [each.is_whole for each in found] == [root >= 0 for root in graph.roots()]
    said = {" ".join(each.source): str(each) for each in found}
    assert said["how tall is m0"] == "no rule knows 'tall'"
    assert said["which is the highest peak not in m0"] == (
        "'which is the highest' and 'in m0' are known, but not how to join them with 'peak not'"
    )


TYPES = TargetGrammar.parse("""
<command> ::= wake ( <time> ) | play ( <song> ) | both ( <command> , <command> )
<time> ::= 7
<song> ::= jazz | rock
""")
ASSISTANT = Grammar.parse("""
jazz ### jazz
rock ### rock
seven ### 7
wake me up at NT_1 ### wake ( NT_1 )
play NT_1 ### play ( NT_1 )
NT_1 and NT_2 ### both ( NT_1 , NT_2 )
hello ### hello
""").typed_by(TYPES)


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("wake me up at jazz", "'jazz' is not a <time>"),
        ("jazz", "'jazz' is not a <command>"),
        ("hello", "'hello' is part of no legal program"),
        ("play jazz and rock", "'rock' is not a <command>"),
        ("play jazz", "the whole sentence has a derivation"),
        ("wake me up at noon", "no rule knows 'noon'"),
    ],
)
def test_what_does_not_fit_is_named_with_the_type_that_its_place_asks_for(
    sentence: str, said: str
) -> None:
    assert str(gaps(ASSISTANT, sentence.split())) == said
    assert gaps(ASSISTANT.typed_by(None), sentence.split()).misfits == ()


FREE_TEXT = SlotMatcher(slots=(Slot("item", "text", ("{verbatim}",), length=5),))
LOST = replace(
    Grammar.parse("""
car ### car
park NT_1 ### park ( NT_1 )
i lost my NT_1 ### lost ( NT_1 )
@item ### @item
NT_1 in NT_2 ### NT_1 ; NT_2
"""),
    slots=FREE_TEXT,
).typed_by(
    TargetGrammar.parse("<call> ::= park ( car ) | lost ( <item> )\n<item> ::= @item")
)


@pytest.mark.parametrize(
    ("sentence", "said", "missing"),
    [
        ("i lost my keys", "the whole sentence has a derivation", ("keys",)),
        (
            "can i park car",
            "no rule knows 'can'",
            ("can",),
        ),
        (
            "my park car",
            "'park car' is known, but not how to join it with 'my'",
            ("my",),
        ),
    ],
)
def test_free_text_does_not_make_words_known(
    sentence: str, said: str, missing: tuple[str, ...]
) -> None:
    found = gaps(LOST, sentence.split())
    assert (str(found), found.missing) == (said, missing)


def test_a_misfit_names_the_construction_that_does_not_take_it() -> None:
    types = TargetGrammar.parse(
        "<program_head> ::= on ( <program_head_argument> ) | jazz\n<program_head_argument> ::= lamp"
    )
    rules = Grammar.parse("lamp ### lamp\njazz ### jazz\nturn on NT_1 ### on ( NT_1 )")
    found = gaps(rules.typed_by(types), ["turn", "on", "jazz"])
    assert str(found) == "'jazz' does not fit into 'turn on …'"


def test_parts_of_which_each_would_fit_alone_do_not_go_together() -> None:
    types = TargetGrammar.parse("<p> ::= set ( lamp , low ) | set ( oven , 200 )")
    rules = Grammar.parse(
        "lamp ### lamp\noven ### oven\nlow ### low\nhot ### 200\nNT_1 to NT_2 ### set ( NT_1 , NT_2 )"
    )
    found = gaps(rules.typed_by(types), ["lamp", "to", "hot"])
    assert str(found) == "'lamp' and 'hot' do not go together"


def test_a_value_that_an_expression_reads_is_not_unknown() -> None:
    pairs = [
        (f"{flight} is {minutes} minutes late", f'late(flight="{flight}", n={minutes})')
        for flight in ("EI609", "BA12", "DL74", "EZ903")
        for minutes in (5, 10, 20)
    ]
    settings = nqg.TrainSettings(
        slots={"flight": {"regex": r"[A-Z]{2}\d{2,4}"}},
        confidence=nqg.ConfidenceSettings(folds=0),
    )
    parser = nqg.train(pairs, settings=settings, device="cpu")
    assert parser.parse("AF118 is 5 minutes late").target == 'late(flight="AF118", n=5)'
    answer = parser.parse("AF118 is 5 minutes early")
    assert answer.missing == ("early",)
