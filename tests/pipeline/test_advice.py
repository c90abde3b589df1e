"""What a training advises next."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace

import pytest

from nqg.data.example import Example
from nqg.pipeline.advice import (
    code_expression,
    example_steps,
    next_steps,
    slot_steps,
    synonyms,
)
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.preprocessing.training_text import fit_text
from nqg.slots.matcher import SlotMatcher
from nqg.slots.slot import Slot, read_slots

CODES = ("A-1042", "KX200", "B-77")
EXAMPLES = [
    *(Example(f"find {code}", f'find(sku="{code}")') for code in CODES),
    *(
        Example(f"open {name} {number}", f'open(branch="{name}", n={number})')
        for name in ("North", "South")
        for number in (1, 2)
    ),
    Example("play Africa", 'play(song="Africa")'),
    Example("say hello", 'later(say(text="hello"))'),
]
SLOTS = [
    Slot(name, "text", ("{verbatim}",), '"')
    for name in ("sku", "branch", "song", "text")
]


def text_of(examples: list[Example], slots: list[Slot]) -> Preprocessor:
    return replace(fit_text(examples), slots=SlotMatcher(slots=tuple(slots)))


def test_codes_and_closed_lists_are_to_be_declared_and_open_ones_not() -> None:
    first, second, third = next_steps(
        EXAMPLES,
        text_of(EXAMPLES, SLOTS),
        has_second_reader=False,
        has_out_of_scope=False,
    )
    assert first.lines == (
        "[slots]",
        r"sku = { regex = '[A-Za-z]+\-?\d+' }",
        'branch = { gazetteer = ["North", "South"] }',
    )
    assert "'sku' (codes) and 'branch' (2 values)" in first.text
    assert "nqg check-data" in second.text
    assert third.lines == ("tell me a joke<TAB>OUT_OF_SCOPE",)


def test_a_second_reader_comes_last_and_says_what_it_costs() -> None:
    examples = EXAMPLES[3:7] * 2
    text = text_of(examples, [])
    (step,) = next_steps(examples, text, has_second_reader=False, has_out_of_scope=True)
    assert step.lines == ("--seq2seq google/flan-t5-small",)
    assert "downloads the weights" in step.text


def test_what_is_there_is_not_advised() -> None:
    examples = EXAMPLES[3:7] * 2
    text = text_of(examples, [])
    steps = next_steps(examples, text, has_second_reader=True, has_out_of_scope=True)
    assert steps == []
    (step,) = next_steps(examples, text, has_second_reader=True, has_out_of_scope=False)
    assert step.lines == ("tell me a joke<TAB>OUT_OF_SCOPE",)


def test_sentences_that_alone_show_something_are_named_those_with_most_first() -> None:
    examples = [
        Example("turn on the lamp", "on(lamp)"),
        Example("turn on the radio", "on(radio)"),
        Example("turn on lamp", "on(lamp)"),
        Example("dim that radio now", "dim(radio, now)"),
    ]
    (step,) = example_steps(examples, text_of(examples, []))
    assert step.lines == (
        "dim that radio now    (alone with 'dim(_, _)', 'dim', 'that', 'now')",
    )
    assert "(1 construction and 3 words;" in step.text


def test_codes_are_to_be_declared_though_no_slot_reads_them() -> None:
    # As with tools, whose strings are slots only if they have a format or an enum.
    examples = [*EXAMPLES[:3], *EXAMPLES[:3]]
    (step,) = slot_steps(examples, [])
    assert step.slots == {"sku": {"regex": r"[A-Za-z]+\-?\d+"}}
    # What sentences do not say is the program's own.
    unsaid = [Example(f"fetch {name}", f'get(id="A-{name}1")') for name in "abc"]
    assert list(slot_steps(unsaid, [])) == []


def test_arguments_with_the_same_values_share_one_list() -> None:
    ways = [("Oban", "Tiree"), ("Tiree", "Oban")] * 2
    examples = [Example(f"{a} to {b}", f'go(start="{a}", end="{b}")') for a, b in ways]
    (step,) = slot_steps(examples, [Slot("start", "text"), Slot("end", "text")])
    assert step.slots == {"start": {"gazetteer": ["Oban", "Tiree"]}}
    assert "'start' (2 values, also of 'end')" in step.text


def test_a_model_that_is_unsure_is_helped_by_a_template_of_its_own_examples() -> None:
    examples = [
        Example("put on Africa", 'play(song="Africa")'),
        Example("play Hey Jude", 'play(song="Hey Jude")'),
        Example("stop", "stop()"),
        Example("halt", "stop()"),
    ]
    step, *_ = next_steps(
        examples,
        text_of(examples, SLOTS),
        has_second_reader=True,
        has_out_of_scope=True,
        is_unsure=True,
    )
    assert step.lines == (
        """nqg rule add MODEL 'play {song} ### play(song="{song}")'""",
    )


@pytest.mark.parametrize(
    "codes", [CODES, ("12", "7"), ("1A", "2B-3"), ("x.1", "y/22"), ("a1b2", "c3")]
)
def test_the_expression_of_codes_reads_all_of_them(codes: tuple[str, ...]) -> None:
    expression = re.compile(code_expression(codes))
    for code in codes:
        assert expression.fullmatch(code)
    assert not expression.fullmatch("kitchen")


PAYMENTS = [
    Example("send 5 euros to Jo", 'pay(amount=5, currency="EUR")'),
    Example("give Ann 7 euros", 'pay(amount=7, currency="EUR")'),
    Example("pay 7 EUR now", 'pay(amount=7, currency="EUR")'),
    Example("send 5 dollars to Ann", 'pay(amount=5, currency="USD")'),
    Example("3 bucks for Jo", 'pay(amount=3, currency="USD")'),
    Example("2 bucks or dollars", 'pay(amount=2, currency="USD")'),
    Example("9 pounds", 'pay(amount=9, currency="GBP")'),
]


def test_words_that_stand_for_values_are_to_be_declared() -> None:
    assert synonyms(PAYMENTS) == {
        "currency": {"bucks": "USD", "dollars": "USD", "euros": "EUR"}
    }
    (step,) = slot_steps(PAYMENTS, [])
    assert "'currency' (bucks is USD)" in step.text
    assert step.lines == (
        "[slots]",
        'currency = { gazetteer = { "bucks" = "USD", "dollars" = "USD", "euros" = "EUR" } }',
    )


def test_one_value_alone_and_declared_slots_are_not_advised() -> None:
    assert synonyms(PAYMENTS[:3]) == {}
    declared = [Slot("currency", "gazetteer")]
    assert list(slot_steps(PAYMENTS, declared)) == []


def test_the_lines_to_paste_declare_the_slots_of_the_step() -> None:
    (step,) = slot_steps(PAYMENTS, [])
    assert tomllib.loads("\n".join(step.lines)) == {"slots": step.slots}
    text = fit_text(PAYMENTS, slots=step.slots)
    (mention,) = text.slots.mentions(text.tokenized("40 bucks")[0])[1:]
    assert (mention.slot, mention.value) == ("currency", ("USD",))
    (slot,) = read_slots({"who": {"gazetteer": ["d'Arc", 'Élodie "E"']}})
    assert slot.names
    assert sorted(slot.names.values.values()) == ["d'Arc", 'Élodie "E"']
