"""Programs read as trees: every form, what all programs together say of words, and what has no tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.types.program_trees import ANY, BARE, Form, ProgramReader, Term, read_term
from strategies import programs, tokens


def outline(term: Term) -> str:
    """The words of a tree with the arguments behind them; what has no word is shown by its separator or bracket."""
    name = " ".join(term.word) or "".join(term.form.prefix) or term.form.separator
    return (
        f"{name}<{', '.join(map(outline, term.arguments))}>" if term.arguments else name
    )


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("exclude ( state , loc_1 ( m0 ) )", "exclude<state, loc_1<m0>>"),
        ("( and ( state x ) ( = x 3 ) )", "and<state<x>, =<x, 3>>"),
        (
            "eat ( agent = cat , nmod . in = * box )",
            "eat<agent<cat>, nmod . in<<*, box>>>",
        ),
        ("dim ( lamp , room = hall )", "dim<lamp, room<hall>>"),
        (
            "dim ( lamp , room = hall , percent = 40 )",
            "dim<lamp, room<hall>, percent<40>>",
        ),
        ("dim ( room = hall , lamp )", "dim<room<hall>, lamp>"),
        (
            "( event lunch :start noon :end later )",
            "event<lunch, :start<noon>, :end<later>>",
        ),
        ("{ ?x wrote m0 . f ( m1 ) a ?y }", "{<<?x, wrote, m0>, <f<m1>, a, ?y>>"),
        ("{ f ( m1 ) wrote m0 }", "{<<f<m1>, wrote, m0>>"),
        ("{ ?x a city ; ?x in m0 ; }", "{<<?x, a, city>, <?x, in, m0>>"),
        ("{ hall . lamp }", "{<.<hall, lamp>>"),
        ("f ( ) ; g ( a ) ; h", ";<f, g<a>, h>"),
        ('play ( " new york " )', "play<new york>"),
        ('{ " k " : [ 1 , 2 ] }', '{<" k "<[<1, 2>>>'),
        ("a . b AND c = d OR e", "OR<AND<.<a, b>, c<d>>, e>"),
        ("f ( x ) > 3 - 1 + 2", "><f<x>, +<-<3, 1>, 2>>"),
        ("( Yield :start ( f x ) :end later )", "Yield<:start<f<x>>, :end<later>>"),
        ("[IN:WEATHER in [SL:PLACE rome ] ]", "[IN:WEATHER<in, [SL:PLACE<rome>>"),
        ("( a OR b ) AND c", "AND<(<OR<a, b>>, c>"),
        ("( a , b )", "(<a, b>"),
        ("* cat", "<*, cat>"),
        ("and ( a , or ( b , c ) )", "and<a, or<b, c>>"),
        ("a and ( b or c )", "and<a, (<or<b, c>>>"),
        ("AND", "AND"),
        ("a AND", "<a, AND>"),
    ],
)
def test_forms(program: str, expected: str) -> None:
    term = read_term(program.split())
    assert term is not None
    assert outline(term) == expected


@pytest.mark.parametrize(
    "program", ["f ( a", "a )", "( a ]", '" a', "f ( , a )", "f ( a , )"]
)
def test_what_has_no_tree(program: str) -> None:
    assert read_term(program.split()) is None


@given(programs() | st.lists(tokens(), min_size=1, max_size=8))
def test_a_tree_spells_its_program(program: list[str]) -> None:
    term = read_term(program)
    assert term is None or list(term.tokens()) == program


@given(programs())
def test_programs_of_known_forms_have_trees(program: list[str]) -> None:
    assert read_term(program) is not None


def test_a_program_may_be_as_deep_as_it_likes() -> None:
    deep = [*["not", "("] * 20_000, "x", *[")"] * 20_000]
    term = read_term(deep)
    assert term is not None
    assert sum(1 for _ in term.tokens()) == len(deep)


def reader(*programs: str) -> ProgramReader:
    terms = [read_term(program.split()) for program in programs]
    return ProgramReader.of(list(filter(None, terms)), [1] * len(programs))


def test_words_that_begin_phrases_of_one_length_are_set_before_terms() -> None:
    assert reader("f ( * a )", "* b", "* c ( d )", "x _ 1 ; x _ 2").prefixes == {"*": 1}
    assert reader("x _ 1 ; x _ 2 ; x _ 3").prefixes == {"x": 2}
    assert reader("JUMP JUMP", "JUMP WALK WALK", "JUMP RUN", "JUMP LOOK").prefixes == {}


def test_words_take_any_number_of_arguments_if_these_are_alike_or_the_numbers_are_many() -> (
    None
):
    comma = Form(opening=("(",), arity=ANY, separator=",", closing=(")",))
    assert reader("and ( a , b )", "and ( b , a , a )").variadic == {(comma, ("and",))}
    assert reader("set ( a )", "set ( a , 5 )").variadic == frozenset()
    assert reader("set ( a )", "set ( a , 5 )", "set ( a , 5 , x )").variadic == {
        (comma, ("set",))
    }


def test_phrases_are_words_inside_brackets_only() -> None:
    phrase, plain = read_term(["new", "york"]), reader("a")
    assert phrase is not None
    assert plain.resolved(phrase) == Term(BARE, ("new", "york"))
    assert plain.resolved(phrase, is_inside=False) is None


def named(name: str, *keys: str) -> str:
    inside = " , ".join(f'" {key} " : 1' for key in keys)
    return f'{{ " tool " : " {name} " , " with " : {{ {inside} }} }}'


def test_an_object_that_names_a_function_is_a_call() -> None:
    calls = [named("on", "room"), named("dim", "room", "level")]
    terms = [read_term(call.split()) for call in calls]
    known = list(filter(None, terms))
    resolved = ProgramReader.of(known, [2, 2]).resolved(known[1])
    assert resolved is not None
    assert resolved.word == ("dim",)
    assert len(resolved.arguments) == 2
    assert " ".join(resolved.tokens()) == calls[1]
    # Names that are seen once are values.
    assert ProgramReader.of(known, [1, 1]).resolved(known[1]) == known[1]
