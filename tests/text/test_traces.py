from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.preprocessing.preprocessor import Preprocessor
from nqg.text.programs import ProgramTokenizer
from nqg.text.traces import (
    DEEPEST,
    TRACE,
    Control,
    ProgramTerm,
    TermArgument,
    Traces,
    fit_traces,
    parse_term,
)

CONTROL = Control(("xcomp",), ("agent",), ("agent",))
TRACES = Traces((("nmod",),), (CONTROL,), ("?",), marks=("who",), binds_many=False)
NOUNS = [f"noun{number}" for number in range(12)]


def tokens(program: str) -> tuple[str, ...]:
    return tuple(program.split())


def terms() -> st.SearchStrategy[ProgramTerm]:
    """Terms of few words, so that copies are frequent."""
    heads = st.sampled_from([("cat",), ("*", "cat"), ("dog",), ("eat",), ("?",)])
    keywords = st.sampled_from([("agent",), ("theme",), ("nmod",), ("xcomp",)])

    def with_arguments(
        values: st.SearchStrategy[ProgramTerm],
    ) -> st.SearchStrategy[ProgramTerm]:
        argument = st.builds(TermArgument, keywords, values)
        return st.builds(ProgramTerm, heads, st.lists(argument, max_size=3).map(tuple))

    return st.recursive(st.builds(ProgramTerm, heads), with_arguments, max_leaves=8)


@given(terms())
def test_a_term_is_read_as_it_is_written(term: ProgramTerm) -> None:
    assert parse_term(term.tokens()) == term


@given(terms())
def test_a_program_survives_the_round_trip(term: ProgramTerm) -> None:
    program = term.tokens()
    assert TRACES.decode(TRACES.encode(program)) == program


@given(st.lists(st.sampled_from(["a", "(", ")", ",", "=", TRACE]), max_size=12))
def test_any_tokens_can_be_decoded(program: list[str]) -> None:
    term = parse_term(program)
    assert term is None or term.tokens() == tuple(program)
    TRACES.decode(tuple(program))


@pytest.mark.parametrize(
    ("program", "encoded"),
    [
        ("cat ( nmod = run ( agent = cat ) )", "cat ( nmod = run ( agent = ↑ ) )"),
        ("eat ( agent = ? )", "eat ( agent = ↑ )"),
        (
            "try ( agent = cat , xcomp = run ( agent = cat ) )",
            "try ( agent = cat , xcomp = run ( agent = ↑xcomp ) )",
        ),
        (
            "cat ( nmod = try ( agent = cat , xcomp = run ( agent = cat ) ) )",
            "cat ( nmod = try ( agent = ↑ , xcomp = run ( agent = ↑xcomp ) ) )",
        ),
        # Two copies, of which one is no trace, stay.
        (
            "cat ( nmod = see ( agent = cat , theme = cat ) )",
            "cat ( nmod = see ( agent = cat , theme = cat ) )",
        ),
        # The definite cat is another one.
        ("cat ( nmod = run ( agent = * cat ) )",) * 2,
        ("answer ( a , b )",) * 2,
    ],
)
def test_copies_become_traces(program: str, encoded: str) -> None:
    assert TRACES.encode(tokens(program)) == tokens(encoded)


def test_the_nearest_binder_binds() -> None:
    program = (
        "cat ( nmod = see ( agent = dog ( nmod = eat ( theme = ↑ ) ) , theme = ↑ ) )"
    )
    decoded = "cat ( nmod = see ( agent = dog ( nmod = eat ( theme = dog ) ) , theme = cat ) )"
    assert TRACES.decode(tokens(program)) == tokens(decoded)


def pair(sentence: str, program: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tokens(sentence), tokens(program)


def pairs_with_relative_clauses() -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    pairs = []
    for noun in NOUNS:
        clause = f"eat ( agent = {noun} , theme = cake )"
        program = f"see ( theme = {noun} ( nmod = {clause} ) )"
        pairs.append(pair(f"see {noun} that ate", program))
        program = f"try ( agent = {noun} , xcomp = eat ( agent = {noun} ) )"
        pairs.append(pair(f"{noun} tried to eat", program))
    pairs += [pair("who ate", "eat ( agent = ? )")] * 40
    return pairs


def test_binders_control_filler_and_marks_are_found_in_pairs() -> None:
    assert fit_traces(pairs_with_relative_clauses()) == TRACES


def test_a_word_of_statements_is_no_mark() -> None:
    statement = pair("see who ate", "see ( theme = eater )")
    traces = fit_traces([*pairs_with_relative_clauses(), statement])
    assert traces == replace(TRACES, marks=())


def test_a_binder_may_bind_two_traces_where_training_has_two() -> None:
    twice = pair("cat saw itself", "cat ( nmod = see ( agent = cat , theme = cat ) )")
    traces = fit_traces([*pairs_with_relative_clauses(), twice])
    assert traces == replace(TRACES, binds_many=True)


@pytest.mark.parametrize(
    ("sentence", "program", "problem"),
    [
        ("who slept", "sleep ( agent = ? )", ""),
        ("who tried", "try ( agent = ? , xcomp = run ( agent = ? ) )", ""),
        ("", "sleep ( agent = ? )", ""),
        ("who slept", "sleep", "'?' is there 0 times; 'who' asks for one"),
        (
            "who saw who",
            "see ( agent = ? , theme = ? )",
            "'?' is there 2 times; 'who' asks for one",
        ),
        ("saw", "see ( agent = ? )", "'?' is there, but the sentence is no question"),
        (
            "cat that saw",
            "cat ( nmod = see ( agent = cat , theme = cat ) )",
            "'nmod' refers to 'cat' 2 times",
        ),
        (
            "cat that tried to run",
            "cat ( nmod = try ( agent = cat , xcomp = run ( agent = cat ) ) )",
            "",
        ),
        (
            "cat that slept",
            "cat ( nmod = sleep ( agent = dog ) )",
            "'nmod' does not refer to 'cat'",
        ),
    ],
)
def test_a_clause_lacks_an_argument_just_where_something_binds_its_trace(
    sentence: str, program: str, problem: str
) -> None:
    assert TRACES.problem(tokens(program), tokens(sentence)) == problem


@pytest.mark.parametrize(
    "other",
    [
        "see ( theme = cat ( nmod = eat ( agent = dog ) ) )",
        "see ( theme = cat ( nmod = red ) )",
        "see ( theme = ↑ )",
    ],
)
def test_one_exception_is_enough_for_no_traces(other: str) -> None:
    assert fit_traces([*pairs_with_relative_clauses(), pair("", other)]) is None


def test_a_word_that_a_binder_is_above_is_no_filler() -> None:
    program = "cat ( nmod = see ( agent = cat , theme = ? ) )"
    traces = fit_traces([*pairs_with_relative_clauses(), pair("", program)])
    assert traces is not None
    assert traces.filler is None
    assert not traces.marks


def test_programs_of_other_forms_have_no_traces() -> None:
    programs = ("I_JUMP I_WALK", "answer ( loc ( a ) )")
    assert fit_traces([pair("", program) for program in programs]) is None


def test_what_is_too_deep_is_left_as_it_is() -> None:
    program = "a ( b = " * (DEEPEST + 1) + "c" + " )" * (DEEPEST + 1)
    assert parse_term(program.split()) is None


def test_a_tokenizer_writes_copies_and_knows_what_refers_to_nothing() -> None:
    tokenizer = ProgramTokenizer(traces=replace(TRACES, filler=None))
    program = "cat ( nmod = run ( agent = cat ) )"
    assert tokenizer.render(tokenizer.normalized(program)) == program
    assert tokenizer.problem(tokenizer.render(tokens("run ( agent = ↑ )")))
    assert not tokenizer.problem(program)


def test_traces_are_kept_with_the_text_of_a_model(tmp_path: Path) -> None:
    path = tmp_path / "text.json"
    text = Preprocessor(programs=ProgramTokenizer(traces=TRACES))
    text.write(path)
    assert Preprocessor.read(path) == text
    Preprocessor().write(path)
    assert "traces" not in json.loads(path.read_text())["programs"]
    assert "traces" in asdict(text.programs)
