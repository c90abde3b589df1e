"""Target grammars inferred from programs: what they accept, what they reject, how they read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from importlib import resources
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqg.errors import FormatError
from nqg.grammar.encoding import NO_TYPE
from nqg.grammar.grammar import Rule
from nqg.text.programs import fit_programs
from nqg.types.inference import (
    Coarseness,
    Partition,
    coarsening_levels,
    head_overlaps,
    infer_target_grammar,
    infer_types,
)
from nqg.types.positions import Corpus, Filler, Head
from nqg.types.program_trees import BARE
from nqg.types.target_grammar import TargetGrammar
from nqg.types.tree_automaton import Typing
from strategies import applications, programs

TRAIN = resources.files("nqg.data") / "starter" / "train.tsv"
RAW = [line.split("\t")[1] for line in TRAIN.read_text().splitlines()]
STARTER = [list(fit_programs(RAW).tokenize(program)) for program in RAW]
ROOMS = ("", " , room = hall", " , room = attic")
SHOPS = ("", " , shop = corner", " , shop = market , day = friday")
STATEMENTS = [
    "ask { ?x likes m0 . ?x a person }",
    "ask { ?x knows m1 . ?x likes m1 . ?x a person }",
    "ask { wrote ( m1 ) likes m0 }",
    "ask { ?x knows wrote ( m0 ) }",
    "ask { m0 knows ?x }",
    "ask { m1 knows m0 . m0 likes ?x }",
]
CALLS = """
set_alarm ( time = " 7 am " )
set_alarm ( time = " noon " )
set_alarm ( time = " 8 am " , days = [ monday , friday ] )
set_alarm ( days = [ monday ] , time = " 9 am " )
play ( genre = " jazz " )
play ( genre = " rock " , artist = " the who " )
play ( artist = " the beatles " )
play ( genre = " jazz " , artist = " queen " )
stop ( )
""".strip().splitlines()


def grammar_of(lines: list[str]) -> TargetGrammar:
    return infer_target_grammar(line.split() for line in lines)


# Any programs


@given(
    st.lists(programs(), min_size=1, max_size=8), st.sampled_from([None, *Coarseness])
)
def test_all_programs_it_was_inferred_from_are_accepted(
    written: list[list[str]], coarseness: Coarseness | None
) -> None:
    grammar = infer_target_grammar(written, coarseness)
    assert all(map(grammar.accepts, written))
    assert grammar.unreachable == ()
    assert TargetGrammar.parse(str(grammar)) == grammar


@given(st.lists(programs(), min_size=1, max_size=6), st.lists(programs(), max_size=6))
def test_coarser_types_accept_what_finer_ones_do(
    written: list[list[str]], others: list[list[str]]
) -> None:
    finer: set[int] = set()
    for coarseness in Coarseness:
        grammar = infer_target_grammar(written, coarseness)
        accepted = {
            number for number, program in enumerate(others) if grammar.accepts(program)
        }
        assert finer <= accepted
        finer = accepted


@given(
    st.lists(applications(), min_size=1, max_size=6),
    st.lists(applications(), max_size=6),
    st.sampled_from(Coarseness),
)
def test_the_grammar_derives_what_a_walk_through_the_tree_accepts(
    written: list[list[str]], others: list[list[str]], coarseness: Coarseness
) -> None:
    """The naive recogniser: each term must be one that its position's type holds."""
    corpus = Corpus(Counter(map(tuple, [*written, *others])))
    known = Corpus(Counter(map(tuple, written)))
    places = {place: position for position, place in enumerate(corpus.arguments)}
    fillers = [
        Filler(places[known.arguments[filler.position]], filler.head)
        for filler in known.fillers
    ]
    types = dict(coarsening_levels(corpus, fillers))[coarseness]
    grammar = infer_target_grammar(written, coarseness)
    for program in others:
        if not grammar.terminals.issuperset(program):
            continue  # a new word, which open types take and no walk knows of
        alone = Corpus(Counter([tuple(program)]))
        walked = [
            Filler(places[alone.arguments[filler.position]], filler.head)
            for filler in alone.fillers
        ]
        assert grammar.accepts(program) == all(map(types.accept, walked)), program


@given(
    st.dictionaries(st.integers(0, 6), st.sets(st.sampled_from("abcde"))),
    st.sampled_from([0.5, 1e-9]),
)
def test_positions_are_joined_where_they_share_heads(
    sets: dict[int, set[str]], share: float
) -> None:
    heads: dict[int, set[Head]] = {
        position: {Head(BARE, (word,)) for word in own}
        for position, own in sets.items()
    }
    joined = Partition()
    for found, one, other in head_overlaps(heads):
        if found >= share:
            joined.join(one, other)
    components = {position: {position} for position in sets}
    for _ in sets:
        for one, other in combinations(sets, 2):
            common = len(sets[one] & sets[other])
            if common and common >= share * min(len(sets[one]), len(sets[other])):
                union = components[one] | components[other]
                for position in union:
                    components[position] = union
    assert all(joined.find(position) == min(components[position]) for position in sets)


@given(
    st.lists(
        st.sampled_from(
            ["f ( a )", "f ( b )", "g ( a )", "x y z", "( (", "f ( g ( b ) )"]
        ),
        min_size=1,
    )
)
@settings(max_examples=30)
def test_the_order_of_programs_decides_nothing_but_the_order_of_lines(
    lines: list[str],
) -> None:
    one, other = grammar_of(lines), grammar_of(lines[::-1])
    tried = [
        "f ( a )",
        "g ( g ( b ) )",
        "x",
        "x y z",
        "f ( a b )",
        "a",
        "f ( f ( f ( a ) ) )",
        "( (",
    ]
    assert [one.accepts(text.split()) for text in tried] == [
        other.accepts(text.split()) for text in tried
    ]


# Readable and deterministic


def test_the_starter_project_has_a_grammar_that_a_person_can_read() -> None:
    assert (
        str(infer_target_grammar(STARTER))
        == """\
<program> ::= <program_head> ( <turn_on_argument> )
<program> ::= on_motion ( <set_degrees_argument_1> , <program> )
<program> ::= <set_degrees_argument_1> . <turn_on_argument_part_2> | <program> ; <program>
<program> ::= set_degrees ( <set_degrees_argument_1> , <set_degrees_argument_2> )
<program> ::= schedule ( <schedule_argument_1> , <program> ) | degrees ( <set_degrees_argument_1> )
<program> ::= set_level ( <turn_on_argument> , <set_level_argument_2> )
<turn_on_argument> ::= <set_degrees_argument_1> . <turn_on_argument_part_2>
<program_head> ::= is_on | turn_off | turn_on
<set_degrees_argument_1> ::= office | kitchen | bedroom | attic | hallway | living_room | bathroom
<set_degrees_argument_1> ::= garage
<turn_on_argument_part_2> ::= heater | lights | fan | lamp | radio | coffee_machine | tv | speakers
<set_degrees_argument_2> ::= 21 | 19 | 23 | 18 | 20
<schedule_argument_1> ::= 7:00 | 6:30 | 0:00 | 12:00 | 19:00 | 8:00
<set_level_argument_2> ::= 40 | 75 | 50 | 20 | 10
"""
    )


def test_the_hash_seed_changes_nothing() -> None:
    program = (
        "import sys; from nqg.types.inference import *;"
        "print(infer_types(line.split() for line in sys.stdin.read().splitlines()))"
    )
    text = "\n".join([*CALLS, *map(" ".join, STARTER)])
    shown = {
        subprocess.run(
            [sys.executable, "-c", program],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(shown) == 1


# What is rejected


@pytest.mark.parametrize(
    "illegal",
    [
        "lights",
        "kitchen",
        "turn_on ( kitchen )",
        "turn_on ( lights . kitchen )",
        "set_level ( attic . lights , kitchen )",
        "set_degrees ( attic . lights , 20 )",
        "is_on ( 7:00 )",
        "schedule ( kitchen , turn_on ( attic . fan ) )",
        "turn_on ( turn_on ( attic . fan ) )",
        "turn_on ( attic . fan",
    ],
)
def test_the_starter_project_rejects_fragments_and_what_does_not_fit(
    illegal: str,
) -> None:
    assert not infer_target_grammar(STARTER).accepts(illegal.split())


@pytest.mark.parametrize(
    ("program", "legal"),
    [
        ('set_alarm ( time = " 6 am " )', True),
        ('set_alarm ( time = " jazz " )', False),
        ('set_alarm ( genre = " jazz " )', False),
        ('set_alarm ( time = " noon " , days = [ friday , monday , friday ] )', True),
        ("set_alarm ( days = [ ] )", False),
        ('play ( artist = " the kinks " )', True),
        ('play ( genre = " 7 am " )', False),
        ("stop ( stop ( ) )", False),
        ('" jazz "', False),
        ("time", False),
    ],
)
def test_values_belong_to_their_keywords_and_new_ones_to_open_types(
    program: str, legal: bool
) -> None:
    assert grammar_of(CALLS).accepts(program.split()) == legal


def test_calls_do_not_share_their_keywords() -> None:
    grammar = grammar_of(
        [
            "wake ( time = noon )",
            "wake ( time = dawn )",
            "play ( genre = jazz )",
            "play ( genre = rock )",
        ]
    )
    assert not grammar.accepts(["wake", "(", "genre", "=", "jazz", ")"])


@pytest.mark.parametrize(
    ("program", "legal"),
    [
        ("off ( fan )", True),
        ("off ( fan , room = attic )", True),
        ("set ( lamp , 20 , room = hall )", True),
        ("off ( room = hall )", False),
        ("off ( room = hall , lamp )", False),
        ("off ( lamp , fan )", False),
        ("set ( room = hall , 20 )", False),
        ("set ( 20 , lamp )", False),
    ],
)
def test_keywords_behind_arguments_do_not_take_their_places(
    program: str, legal: bool
) -> None:
    calls = [
        f"{word} ( {what}{where} )"
        for word in ("on", "off")
        for what in ("lamp", "fan")
        for where in ROOMS
    ]
    levels = [
        f"set ( {what} , {level}{where} )"
        for what in ("lamp", "fan")
        for level in (10, 20)
        for where in ROOMS
    ]
    assert grammar_of([*calls, *levels]).accepts(program.split()) == legal


def test_a_slot_is_not_a_single_word_that_goes_with_others() -> None:
    lines = [
        "volume ( @number )",
        "play ( africa )",
        "play ( rosanna )",
        "skip ( africa )",
        "stop ( it )",
    ]
    grammar = grammar_of(lines)
    assert not grammar.accepts(["volume", "(", "africa", ")"])
    assert grammar.accepts(["stop", "(", "africa", ")"])


def test_a_rule_may_hold_arguments_and_some_of_the_keywords_behind_them() -> None:
    calls = [
        "on ( lamp , room = hall )",
        "on ( fan , room = attic , at = noon )",
        "on ( fan , at = dusk )",
    ]
    lines = [
        "lamp ### lamp",
        "hall ### room = hall",
        "NT_1 in NT_2 ### NT_1 , NT_2",
        "NT_1 at dusk ### on ( NT_1 , at = dusk )",
    ]
    typing = Typing.of([Rule.parse(line) for line in lines], grammar_of(calls))
    lamp, hall = typing.type_of(0, []), typing.type_of(1, [])
    lamp_in_hall = typing.type_of(2, [lamp, hall])
    assert typing.type_of(3, [lamp_in_hall]) != NO_TYPE
    assert typing.type_of(3, [hall]) == NO_TYPE


def test_many_numbers_of_arguments_and_keywords_behind_them_are_one_list() -> None:
    items = ["tea", "milk", "rice", "soap"]
    lines = [
        f"buy ( {' , '.join(items[:number])}{where} )"
        for number in (1, 2, 3)
        for where in SHOPS
    ]
    grammar = grammar_of([*lines, "buy ( milk , soap , shop = corner , day = monday )"])
    longer, other = (
        "buy ( rice , milk , soap , tea , shop = market , day = monday )",
        "buy ( shop = shop )",
    )
    assert [grammar.accepts(program.split()) for program in (longer, other)] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("program", "legal"),
    [
        ("ask { wrote ( m0 ) likes m1 }", True),
        (
            "ask { wrote ( wrote ( m1 ) ) likes wrote ( m0 ) . ?x knows m0 . ?x a person }",
            True,
        ),
        ("ask { m1 likes m0 }", True),
        ("ask { m1 likes }", False),
        ("ask { likes m1 m0 }", False),
        ("ask { m1 likes m0 . m1 }", False),
        ("ask { m1 wrote ( m0 ) m0 }", False),
    ],
)
def test_statements_have_types_at_each_place_and_may_be_many(
    program: str, legal: bool
) -> None:
    assert grammar_of(STATEMENTS).accepts(program.split()) == legal


def test_a_rule_may_hold_the_end_of_a_statement_and_the_beginning_of_the_next() -> None:
    lines = [
        "person ### person",
        "likes ### likes",
        "m0 ### m0",
        "NT_1 who NT_2 NT_3 ### NT_1 . ?x NT_2 NT_3",
    ]
    typing = Typing.of(
        [*map(Rule.parse, lines), Rule.parse("any NT_1 ### ask { ?x a NT_1 }")],
        grammar_of(STATEMENTS),
    )
    person_who_likes = typing.type_of(
        3, [typing.type_of(number, []) for number in range(3)]
    )
    assert typing.type_of(4, [person_who_likes]) != NO_TYPE
    assert typing.type_of(4, [typing.type_of(1, [])]) == NO_TYPE


def test_a_word_that_is_only_named_may_be_used_like_the_others() -> None:
    lines = [
        "most ( near )",
        "most ( through )",
        "in ( near ( b ) )",
        "in ( through ( b ) )",
        "most ( over )",
        "in ( b )",
    ]
    assert grammar_of(lines).accepts(["in", "(", "over", "(", "b", ")", ")"])


def test_an_unreadable_program_among_readable_ones_is_kept_as_it_is() -> None:
    grammar = grammar_of(["f ( a )", "f ( b )", "f ( ( a"])
    assert grammar.accepts(["f", "(", "(", "a"])
    assert not grammar.accepts(["f", "(", "(", "b"])


def test_parentheses_around_a_term_do_not_change_its_type() -> None:
    grammar = grammar_of(["( a or b ) and c", "a and c", "( b )"])
    assert grammar.accepts(
        ["(", "(", "a", ")", "or", "b", ")", "and", "(", "(", "c", ")", "and", "b", ")"]
    )
    assert not grammar.accepts(["(", "a", "and", "c"])


def test_an_open_type_of_numbers_holds_all_numbers() -> None:
    grammar = grammar_of([f"dim ( lamp , {number} )" for number in range(10, 20)])
    assert "<dim_argument_2> ::= <#>\n" in str(grammar)
    assert not grammar.accepts(["dim", "(", "lamp", ",", "much", ")"])


# Programs that are not trees


def test_flat_programs_have_one_type() -> None:
    grammar = grammar_of(["JUMP", "WALK JUMP", "JUMP WALK WALK"])
    assert str(grammar) == "<program> ::= JUMP | WALK | <program> <program>\n"


def test_a_flat_program_may_be_shorter_than_any_seen() -> None:
    grammar = grammar_of(["WALK JUMP", "JUMP WALK WALK"] * 100)
    assert grammar.accepts(["JUMP"])


def test_flat_programs_begin_as_seen_and_their_brackets_match() -> None:
    grammar = grammar_of(
        [
            "select a from b",
            "select max ( a ) from c",
            "select b from ( select a from c )",
        ]
        * 40
    )
    assert str(grammar) == (
        "<program> ::= select <tokens> | <program> <tokens>\n"
        "<tokens> ::= select | a | from | b | max | c | ( <tokens> ) | <tokens> <tokens>\n"
    )
    assert not grammar.accepts(["select"])
    assert not grammar.accepts(["a"])
    assert not grammar.accepts(["select", "(", "a"])


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ([], "expected at least one program to infer types from, found none"),
        (
            [["a"], []],
            "expected at least one token in each program, found a program without any",
        ),
        (
            ["a b"],
            "expected a sequence of tokens, found the string 'a b'; split it first",
        ),
    ],
)
def test_what_is_not_a_list_of_programs_is_refused(
    written: list[list[str]], reason: str
) -> None:
    with pytest.raises(FormatError) as refusal:
        infer_types(written)
    assert str(refusal.value) == reason


def test_deep_programs_are_read() -> None:
    deep = [*["not", "("] * 3_000, "x", *[")"] * 3_000]
    nested = [*["("] * 3_000, "f", "x", *[")"] * 3_000]
    for program in (deep, nested):
        assert infer_target_grammar([program, ["not", "(", "x", ")"]]).accepts(program)
