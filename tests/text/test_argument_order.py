"""The order of named arguments: learned from programs, and kept by answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError
from nqg.preprocessing.preprocessor import Preprocessor, TextSettings
from nqg.text.argument_order import ArgumentOrder, named_calls

NAMES = ("area", "domain", "name")


@dataclass(frozen=True)
class Call:
    """A call as a tree: the obvious twin orders its arguments before it is written."""

    function: str
    arguments: tuple[tuple[str, Call | str], ...]

    def tokens(self) -> list[str]:
        tokens = [self.function, "("]
        for number, (name, value) in enumerate(self.arguments):
            if number:
                tokens.append(",")
            tokens += [name, "="]
            tokens += value.tokens() if isinstance(value, Call) else value.split()
        return [*tokens, ")"]

    def ordered(self, order: ArgumentOrder) -> Call:
        arguments = []
        for name, value in self.arguments:
            if isinstance(value, Call):
                value = value.ordered(order)
            arguments.append((name, value))
        for function, *names in order.calls:
            if function == self.function and set(names) == set(dict(arguments)):
                arguments.sort(key=lambda argument: names.index(argument[0]))
        return Call(self.function, tuple(arguments))


def calls_over(
    values: st.SearchStrategy[Call | str],
) -> st.SearchStrategy[Call | str]:
    arguments = st.lists(
        st.tuples(st.sampled_from(NAMES), values),
        max_size=3,
        unique_by=lambda argument: argument[0],
    )
    return st.builds(Call, st.sampled_from("fg"), arguments.map(tuple))


VALUES = st.sampled_from(["1", "[ 1 , 2 ]", '" a , b ( = "', "' ) '", "( x )"])
CALLS = calls_over(st.recursive(VALUES, calls_over, max_leaves=4)).filter(
    lambda call: isinstance(call, Call)
)


@given(CALLS, CALLS)
def test_arguments_are_ordered_as_in_the_tree_of_the_program(
    trained: Call, answer: Call
) -> None:
    order = ArgumentOrder.fit([trained.tokens()])
    assert list(order.ordered(answer.tokens())) == answer.ordered(order).tokens()


@given(st.lists(CALLS, max_size=4))
def test_training_programs_stay_as_they_are(calls: list[Call]) -> None:
    programs = [call.tokens() for call in calls]
    order = ArgumentOrder.fit(programs)
    for program in programs:
        assert list(order.ordered(program)) == program


@given(st.lists(st.sampled_from([*'f()[],="ab']), max_size=20))
def test_any_tokens_keep_their_number(tokens: list[str]) -> None:
    order = ArgumentOrder((("f", "a", "b"), ("f", "b", "a")))
    assert sorted(order.ordered(tokens)) == sorted(tokens)
    assert all(call.function for call in named_calls(tokens))


PAIRS = [
    ("attic lamp on", 'on(area="Attic", domain="lamp")'),
    ("fan off in the attic", 'off(domain="fan", area="Attic")'),
]


def test_answers_write_arguments_in_the_order_of_training() -> None:
    text = Preprocessor.fit(PAIRS)
    tokens = text.programs.tokenize('on(domain="fan", area="Hall")')
    assert text.program(tokens) == 'on(area="Hall", domain="fan")'
    # Neither other functions nor other arguments are known.
    for other in ('dim(domain="fan", area="Hall")', 'on(domain="fan", name="x")'):
        assert text.program(text.programs.tokenize(other)) == other


def test_an_order_that_follows_the_sentence_is_left_alone() -> None:
    swapped = ("lamp in the attic on", 'on(domain="lamp", area="Attic")')
    assert not Preprocessor.fit([*PAIRS, swapped]).arguments


def test_one_call_in_a_hundred_may_be_a_mistake() -> None:
    programs = [[*"f(a=1,b=2)"]] * 99
    mistake = [*"f(b=1,a=2)"]
    assert ArgumentOrder.fit([*programs, mistake]).calls == (("f", "a", "b"),)
    assert not ArgumentOrder.fit([*programs, mistake, mistake])


def test_the_order_can_be_switched_off_and_formal_programs_have_none() -> None:
    assert not Preprocessor.fit(PAIRS, TextSettings(arguments="keep")).arguments
    spaced = [("a lamp .", "on ( area = a , domain = lamp )")]
    text = Preprocessor.fit(spaced)
    assert text.is_plain
    assert not text.arguments


def test_the_order_is_kept_in_the_model_folder(tmp_path: Path) -> None:
    text = Preprocessor.fit(PAIRS)
    text.write(tmp_path / "text.json")
    assert Preprocessor.read(tmp_path / "text.json") == text


def test_a_stored_order_that_is_not_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.json"
    Preprocessor.fit(PAIRS).write(path)
    path.write_text(path.read_text("utf-8").replace('"calls"', '"order"'), "utf-8")
    with pytest.raises(FormatError, match="'order'"):
        Preprocessor.read(path)
