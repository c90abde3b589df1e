from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import NqgError
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.text.positions import AtomReader, Positions, fit_positions
from nqg.text.programs import ProgramTokenizer
from nqg.text.traces import Control, ProgramTerm, TermArgument, Tokens

NOUNS = ("cat", "dog", "cake", "frog")
NAMED = (("agent",), ("nmod", ".", "on"), ("theme",))
CONTROL = Control(("xcomp",), ("agent",), ("agent",))
POSITIONS = Positions(
    prefix=("x", "_"),
    forms={"see": ("saw", "seen"), "want": ("wanted",), "sleep": ("slept",)},
    constants=("Emma", "Liam"),
    named=NAMED,
    controls=(CONTROL,),
)


def tokens(text: str) -> Tokens:
    return tuple(text.split())


def nouns() -> st.SearchStrategy[ProgramTerm]:
    """Nouns with and without articles, which stand on other nouns, and names."""
    heads = st.sampled_from([(noun,) for noun in NOUNS] + [("*", "cat"), ("*", "dog")])
    leaves = st.builds(ProgramTerm, heads)

    def on_others(values: st.SearchStrategy[ProgramTerm]) -> st.SearchStrategy:
        argument = st.builds(TermArgument, st.just(("nmod", ".", "on")), values)
        return st.builds(ProgramTerm, heads, st.tuples(argument))

    return st.recursive(leaves, on_others, max_leaves=4)


NAMES = st.sampled_from([ProgramTerm(("Emma",)), ProgramTerm(("Liam",))])
ARGUMENTS = st.one_of(nouns(), NAMES)


@st.composite
def clauses(draw: st.DrawFn) -> ProgramTerm:
    agent = TermArgument(("agent",), draw(ARGUMENTS))
    match draw(st.sampled_from(["see", "sleep", "want"])):
        case "see":
            theme = TermArgument(("theme",), draw(ARGUMENTS))
            return ProgramTerm(("see",), (agent, theme))
        case "sleep":
            return ProgramTerm(("sleep",), (agent,))
        case _:
            trace = TermArgument(("agent",), ProgramTerm(CONTROL.trace))
            verb = TermArgument(("xcomp",), ProgramTerm(("sleep",), (trace,)))
            return ProgramTerm(("want",), (agent, verb))


def words_of(term: ProgramTerm) -> list[str]:
    """A sentence of a term: heads in the order of the term, but agents before verbs."""
    past = {"see": "saw", "want": "wanted", "sleep": "slept"}
    head = term.head[-1]
    words = ["the"] if "*" in term.head else []
    words.append(past.get(head, head))
    before: list[str] = []
    for argument in term.arguments:
        if argument.value.head == CONTROL.trace:
            continue
        below = words_of(argument.value)
        if argument.keyword == ("agent",):
            before = below
        else:
            words += below
    return before + words


@given(clauses())
def test_a_term_leads_to_its_program_and_back(term: ProgramTerm) -> None:
    words = words_of(term)
    program = POSITIONS.decode(term.tokens(), words)
    assert "=" not in program
    assert POSITIONS.encode(program, words) == term.tokens()


@given(clauses())
def test_variables_are_positions_of_words(term: ProgramTerm) -> None:
    words = words_of(term)
    atoms = AtomReader(POSITIONS.decode(term.tokens(), words)).atoms()
    assert atoms is not None
    for atom in atoms:
        assert words[atom.variable] in (
            atom.name,
            *POSITIONS.forms.get(atom.name, ()),
        )


@given(
    st.lists(st.sampled_from(["cat", "see", ".", "(", ")", ",", "x", "_", "1", "AND"]))
)
def test_any_tokens_can_be_encoded_and_decoded(program: list[str]) -> None:
    words = tokens("a cat saw")
    encoded = POSITIONS.encode(program, words)
    assert POSITIONS.decode(encoded, words) == tuple(program)


@given(st.lists(st.sampled_from(["cat", "see", "agent", "(", ")", ",", "=", "*"])))
def test_any_tokens_can_be_decoded(program: list[str]) -> None:
    POSITIONS.decode(program, tokens("a cat saw"))


def pairs() -> list[tuple[Tokens, Tokens]]:
    result = []
    for noun in NOUNS:
        sleeping = f"{noun} ( x _ 1 ) AND sleep . agent ( x _ 2 , x _ 1 )"
        result.append((tokens(f"A {noun} slept"), tokens(sleeping)))
        wanting = f"* {noun} ( x _ 1 ) ; want . agent ( x _ 2 , x _ 1 ) AND "
        wanting += "want . xcomp ( x _ 2 , x _ 4 ) AND sleep . agent ( x _ 4 , x _ 1 )"
        result.append((tokens(f"The {noun} wanted to sleep"), tokens(wanting)))
    return result


def test_positions_are_fitted_to_pairs() -> None:
    positions = fit_positions(pairs() * 3)
    assert positions is not None
    assert positions.forms == {"sleep": ("slept",), "want": ("wanted",)}
    assert positions.controls == (CONTROL,)
    words, program = pairs()[1]
    term = "want ( agent = * cat , xcomp = sleep ( agent = ↑xcomp ) )"
    assert positions.encode(program, words) == tokens(term)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("sleep ( agent = cat )", id="no variables"),
        pytest.param("cat ( x _ 7 ) AND sleep . agent ( x _ 2 , x _ 7 )", id="no word"),
        pytest.param(
            "cat ( x _ 2 ) AND sleep . agent ( x _ 1 , y _ 2 )", id="two kinds"
        ),
        pytest.param("cat ( x _ 1 ) AND dog ( x _ 2 )", id="two roots"),
        pytest.param("see . agent ( x _ 1 , x _ 1 )", id="a cycle"),
        pytest.param("cat ( x _ 99999999999 )", id="a number that is too large"),
    ],
)
def test_other_programs_have_no_positions(program: str) -> None:
    assert fit_positions([(tokens("A cat slept"), tokens(program))] * 20) is None


def test_a_program_that_would_be_taken_for_a_term_forbids_terms() -> None:
    other = (tokens("A cat slept"), tokens("sleep ( agent = cat )"))
    assert fit_positions(pairs() * 3) is not None
    assert fit_positions([*pairs() * 3, other]) is None


def test_a_program_without_a_word_for_a_head_has_a_problem() -> None:
    term = tokens("see ( agent = Emma , theme = cake )")
    program = POSITIONS.decode(term, tokens("Emma saw a dog"))
    assert program == term
    assert "no word" in POSITIONS.problem(program)
    assert POSITIONS.problem(tokens("LAMBDA a . cat ( a )")) == ""


def test_a_long_chain_is_left_as_it_is() -> None:
    atoms = [f"cat . on ( x _ {at} , x _ {at + 1} )" for at in range(3000)]
    program = tokens(" AND ".join([*atoms, "cat ( x _ 3000 )"]))
    assert POSITIONS.encode(program, ["cat"] * 3001) == program


def test_positions_are_written_and_read(tmp_path: Path) -> None:
    text = Preprocessor(programs=ProgramTokenizer(positions=POSITIONS))
    text.write(tmp_path / "text.json")
    assert Preprocessor.read(tmp_path / "text.json") == text


def test_a_file_with_other_positions_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.json"
    Preprocessor(programs=ProgramTokenizer(positions=POSITIONS)).write(path)
    values = json.loads(path.read_text())
    values["programs"]["positions"]["forms"] = ["saw"]
    path.write_text(json.dumps(values))
    with pytest.raises(NqgError, match="forms"):
        Preprocessor.read(path)
